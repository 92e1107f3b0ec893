"""Loading of the scripts in docs/ and benchmarks/, which belong to no package."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def load(folder, name):
    """Load FOLDER/NAME.py so that other scripts of the folder can import it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def table_rows(page, head):
    """Return the rows of all tables of a page, without their heads."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != head and not set(row[0]) <= {"-"}]
