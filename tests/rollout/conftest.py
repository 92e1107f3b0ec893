import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("plays", Path(__file__).parent / "plays.py")
module = importlib.util.module_from_spec(SPEC)
sys.modules["plays"] = module
SPEC.loader.exec_module(module)
