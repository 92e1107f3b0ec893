import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location(
    "scheduler_world", Path(__file__).parent / "scheduler_world.py"
)
module = importlib.util.module_from_spec(SPEC)
sys.modules["scheduler_world"] = module
SPEC.loader.exec_module(module)
