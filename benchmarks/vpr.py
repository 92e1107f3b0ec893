"""The tiny model's runs of docs/reproduction/vpr.md: `sparring reproduce`, with options for trials.

python benchmarks/vpr.py methods   verdicts, outcomes, values by playing on, and both
python benchmarks/vpr.py general   Sudoku with thousands of puzzles: what is learnt for new ones
"""

import argparse
from pathlib import Path

from published import ROOT, settings, study

from sparring.experiments.reproduce.vpr_methods import GAMES, METHODS

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=("methods", "general"))
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=75, help="of the study of methods")
    parser.add_argument("--changes", nargs="*", default=[], help="further changes to every recipe")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "vpr")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time, one thread each")
    given = settings(parser, "study")
    own = {"games": given.games, "methods": given.methods, "steps": given.steps}
    more = own if given.study == "methods" else {}
    study(f"vpr-{given.study}", given, seeds=given.seeds, changes=given.changes, **more)
