"""MARS's ablations with the tiny model: `sparring reproduce mars`, with options for trials."""

import argparse
from pathlib import Path

from published import ROOT, settings, study

from sparring.experiments.reproduce.mars import VARIANTS

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "ablations")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("changes", nargs="*", default=["steps=100"], help="changes to every recipe")
    given = settings(parser)
    study("mars", given, seeds=given.seeds, variants=given.variants, changes=given.changes)
