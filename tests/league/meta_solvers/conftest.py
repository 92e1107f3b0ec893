import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("meta_games", Path(__file__).parent / "meta_games.py")
module = importlib.util.module_from_spec(SPEC)
sys.modules["meta_games"] = module
SPEC.loader.exec_module(module)
