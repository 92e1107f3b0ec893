import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("positions", Path(__file__).parents[1] / "oracles" / "positions.py")
module = importlib.util.module_from_spec(SPEC)
sys.modules["positions"] = module
SPEC.loader.exec_module(module)
