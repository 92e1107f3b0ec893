"""Does a recipe learn with every seed? Recipes with an exact figure, over many seeds.

Each cell is `sparring train RECIPE seed=S threads=1`. Kept per seed: the last NashConv, the worst
one from the first that is at most the recipe's level on, the first step at that level, the share of
legal replies in the last step, and the seconds of training on one thread of a machine that
may be busy. What is done is not done again; seeds come one after the other over all recipes.

    python benchmarks/seeds.py                     demo with 30 seeds, leduc-tiny with 10
    python benchmarks/seeds.py --recipes demo=3    a trial, written to runs/results

Starts are "all": NashConv is computed over every deal.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cells import cell, metrics, origin
from published import ROOT, record, settings

LEVELS = {"demo": 0.10, "leduc-tiny": 1.0}  # the NashConv that every seed should end at or below


def measured(run, level):
    """Return the figures of one run."""
    lines = metrics(run)
    name = next(key for line in lines for key in line if key.startswith("nash_conv/"))
    found = [(line["step"], line[name]) for line in lines if name in line]
    first = next((step for step, value in found if value <= level), None)
    after = [value for step, value in found if first is not None and step >= first]
    return {
        "nash_conv": found[-1][1],
        "worst from the level on": max(after, default=None),
        "first step at the level": first,
        "legal replies": lines[-1]["legal_rate"],
    }


def table(cells):
    """Return one row per recipe, with the value of each seed."""
    found = {}
    for (recipe, seed), kept in cells.items():
        labels = {
            "recipe": recipe,
            "level": LEVELS.get(recipe, 0.10),
            "starts": "all",
            "values": {},
        }
        row = found.setdefault(recipe, labels)
        for name, value in {**kept["found"], "seconds": kept["seconds"]}.items():
            row["values"].setdefault(name, {})[str(seed)] = value
    return list(found.values())


def recipe_and_seeds(text):
    """Return ("demo", 30) for "demo=30"."""
    recipe, _, count = text.partition("=")
    if not count.isdecimal() or not int(count):
        raise argparse.ArgumentTypeError(f"'{text}' names no number of seeds; write demo=30")
    return recipe, int(count)


def main():
    """Train and record."""
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
    most = max(count for _, count in given.recipes)
    wanted = [
        (recipe, seed) for seed in range(most) for recipe, count in given.recipes if seed < count
    ]

    def one(key):
        recipe, seed = key
        run, level = given.folder / f"{recipe.replace('/', '-')}-{seed}", LEVELS.get(recipe, 0.10)
        changes = [f"seed={seed}", "threads=1", *given.changes]
        return cell(run, recipe, changes, lambda run: measured(run, level))

    with ThreadPoolExecutor(given.workers) as pool:
        cells = dict(zip(wanted, pool.map(one, wanted), strict=True))
    record("seeds", table(cells), given, **origin(cells.values()))


if __name__ == "__main__":
    main()
