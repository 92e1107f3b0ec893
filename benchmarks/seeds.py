"""Recipes with many seeds: `sparring reproduce demo-seeds`, with options for trials.

python benchmarks/seeds.py                     demo with 30 seeds, leduc-tiny with 10
python benchmarks/seeds.py --recipes demo=3    a trial, written to runs/results
"""

import argparse
from pathlib import Path

from published import ROOT, settings, study


def recipe_and_seeds(text):
    """Return ("demo", 30) for "demo=30"."""
    recipe, _, count = text.partition("=")
    if not count.isdecimal() or not int(count):
        raise argparse.ArgumentTypeError(f"'{text}' names no number of seeds; write demo=30")
    return recipe, int(count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    published = [("demo", 30), ("leduc-tiny", 10)]
    parser.add_argument(
        "--recipes", nargs="+", type=recipe_and_seeds, default=published, metavar="RECIPE=SEEDS"
    )
    parser.add_argument("--changes", nargs="*", default=[], help="changes to every recipe")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "seeds")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    given = settings(parser)
    study("demo-seeds", given, recipes=given.recipes, changes=given.changes)
