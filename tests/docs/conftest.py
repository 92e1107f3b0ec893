import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("loading", Path(__file__).parent / "loading.py")
module = importlib.util.module_from_spec(SPEC)
sys.modules["loading"] = module
SPEC.loader.exec_module(module)
