"""What a table of logits learns by turns and outcomes: `sparring reproduce`, with trials' options.

python benchmarks/vpr_table.py methods   by kind of game, horizon, reward, baseline, group
python benchmarks/vpr_table.py noise     verdicts with true- and false-positive rates apart
"""

import argparse
from pathlib import Path

from published import ROOT, settings, study

from sparring.experiments.reproduce.vpr_noise import RATES
from sparring.experiments.reproduce.vpr_table import PLAN

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=("methods", "noise"))
    parser.add_argument("--axes", nargs="+", choices=PLAN, default=list(PLAN))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "vpr-table")
    parser.add_argument("--workers", type=int, default=1)
    given = settings(parser, "study")
    noise = given.study == "noise"
    name, more = ("vpr-noise", {"rates": RATES}) if noise else ("vpr-table", {"axes": given.axes})
    study(name, given, seeds=given.seeds, steps=given.steps, **more)
