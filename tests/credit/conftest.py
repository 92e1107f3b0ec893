import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("tables", Path(__file__).parent / "tables.py")
module = importlib.util.module_from_spec(SPEC)
sys.modules["tables"] = module
SPEC.loader.exec_module(module)
