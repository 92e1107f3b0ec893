"""MARS's ablations with the tiny model: variants trained on one game and on three, scored alike.

Each cell is `sparring train mars/ablations/VARIANT seed=S` (three games) or
`mars/ablations/tictactoe/VARIANT` (one), then `sparring evaluate RUN --suite ablations.yaml`.
"untrained" is the start of them all: the warm-up in the words of all six games, and nothing after
it. Trained on one game are the two arms that a claim of docs/reproduction/mars.md compares. What is
done is not done again; seeds come one after the other, so that a study that was cut off is whole
for some of them.

Starts are "all": tic-tac-toe and connect four have one start, Kuhn's exact figure is over every
deal, and the deals of the others are drawn from all that there are. Other games than those trained
on are held out as games; that is another question than starts.
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cells import cell, origin, sparring
from published import ROOT, record, settings

VARIANTS = ("full", "no-turn-level", "no-agent-specific", "fixed-opponent", "rae", "grpo")
FOLDERS = {"three games": "mars/ablations/", "tic-tac-toe": "mars/ablations/tictactoe/"}
COMPARED = {"three games": VARIANTS, "tic-tac-toe": ("full", "no-agent-specific")}  # by a claim
UNTRAINED = ("none", "untrained")
SUITE = str(ROOT / "benchmarks" / "ablations.yaml")
TRAINED = ("tic_tac_toe", "kuhn_poker", "hanabi_mini")
HELD_OUT = ("connect_four", "leduc_poker", "hanabi_simple")


def trained(key, folder, more):
    """Return the cell of (trained on, variant, seed)."""
    trained_on, variant, seed = key
    run = folder / f"{trained_on.replace(' ', '-')}-{variant}-{seed}"
    if variant == "untrained":
        recipe, others = "mars/ablations/full", [one for one in more if one[:6] != "steps="]
        more = ["steps=1", "learner.learning_rate=0.0", *others]
    else:
        recipe = FOLDERS[trained_on] + variant
    return cell(run, recipe, [f"seed={seed}", "threads=1", *more], evaluated)


def evaluated(run):
    """Return the rows of a run on the suite."""
    found = sparring("evaluate", str(run), "--suite", SUITE, "--workers", "1", "--json")
    return json.loads(found)["rows"]


def figures(rows):
    """Return figure by name: of each row, and mean scores of trained-on and held-out games."""
    found = {row["name"]: figure(row) for row in rows}
    scores = {
        row["name"]: row["overall"]["score"]["mean"] for row in rows if row["kind"] != "exact"
    }
    for name, games in {"three games": TRAINED, "held out": HELD_OUT}.items():
        found[name] = sum(scores[game] for game in games) / len(games)
    return found


def figure(row):
    """Return the number that a row is about."""
    if row["kind"] == "exact":
        return next(value for name, value in row["figures"].items() if name.startswith("nash_conv"))
    return row["overall"]["return"]["mean"]


def table(cells):
    """Return one row per training set and variant, with the value of each seed."""
    found = {}
    for (trained_on, variant, seed), kept in cells.items():
        labels = {"trained on": trained_on, "variant": variant, "starts": "all", "values": {}}
        row = found.setdefault((trained_on, variant), labels)
        for name, value in {**figures(kept["found"]), "seconds": kept["seconds"]}.items():
            row["values"].setdefault(name, {})[str(seed)] = value
    return list(found.values())


def main():
    """Train, score and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "ablations")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("changes", nargs="*", default=["steps=100"], help="changes to every recipe")
    given = settings(parser)
    arms = [(on, one) for on, variants in COMPARED.items() for one in variants]
    keys = [UNTRAINED, *(arm for arm in arms if arm[1] in given.variants)]
    wanted = [(*key, seed) for seed in range(given.seeds) for key in keys]
    with ThreadPoolExecutor(given.workers) as pool:
        made = pool.map(lambda key: trained(key, given.folder, given.changes), wanted)
        cells = dict(zip(wanted, made, strict=True))
    record("ablations", table(cells), given, **origin(cells.values()))


if __name__ == "__main__":
    main()
