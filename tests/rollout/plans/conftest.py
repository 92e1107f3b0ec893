import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("planned", Path(__file__).parent / "planned.py")
module = importlib.util.module_from_spec(SPEC)
sys.modules["planned"] = module
SPEC.loader.exec_module(module)
