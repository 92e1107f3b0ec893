import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location(
    "pretended", Path(__file__).parent / "pretended.py"
)
module = importlib.util.module_from_spec(SPEC)
sys.modules["pretended"] = module
SPEC.loader.exec_module(module)
