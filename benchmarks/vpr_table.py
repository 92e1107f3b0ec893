"""Does rewarding each turn beat rewarding outcomes? A table of logits learns by both, at equal games.

The policy is a softmax table over information states: nothing is shared between states and only
credit differs. The same rollout, oracles, rewards and estimators as in any run; the update is plain
gradient ascent on the mean over turns of advantage * log pi.

A table knows nothing of a puzzle that it has not met, so its figures are of starts `seen`: how fast
credit teaches what is to be known by heart. Beside them stand those on `unseen` starts.

    python benchmarks/vpr_table.py methods   by kind of game, horizon, reward, baseline, group
    python benchmarks/vpr_table.py noise     verdicts with true- and false-positive rates apart
"""

import argparse
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from published import record, settings
from table_learner import GAMES, TASKS, run

RATES = (  # of true and of false positives
    *((1.0, 0.0), (0.8, 0.0), (0.9, 0.1), (1.0, 0.2)),  # TPR - FPR: 1, and three times 0.8
    *((0.6, 0.0), (0.8, 0.2), (1.0, 0.4)),  # 0.6
    *((0.4, 0.0), (0.6, 0.2), (0.8, 0.4), (1.0, 0.6)),  # 0.4
    *((0.2, 0.0), (0.6, 0.4), (1.0, 0.8)),  # 0.2
    *((0.2, 0.2), (0.5, 0.5), (0.8, 0.8)),  # 0
    *((0.3, 0.5), (0.5, 0.7)),  # -0.2
)
NOISY = "sudoku4"
TASKS_COMPARED = ("sudoku4", "minesweeper3", "minesweeper3-best", "tictactoe")
ORACLES = ("minesweeper3-best",)  # tasks that differ from another by their oracle alone
PLAN = {  # what is varied -> (task, variants, sizes of groups)
    "kind of game": [(task, ("vpr", "vpr_mixed") if task in ORACLES else ("outcome", "vpr", "vpr_mixed"), (8,)) for task in TASKS_COMPARED],
    "horizon": [(f"sudoku{blanks}", ("outcome", "vpr"), (8,)) for blanks in (2, 6, 8)],
    "reward": [(task, ("regret", "action_rank"), (8,)) for task in TASKS_COMPARED],
    "baseline": [(task, ("vpr_state", "vpr_none", "vpr_loo", "vpr_to_go"), (8,)) for task in TASKS_COMPARED],
    "group size": [("sudoku4", ("outcome", "vpr"), (2, 4, 16))],
    "playouts": [(task, ("playouts",), (8,)) for task in TASKS_COMPARED if task not in ORACLES],
}


def cell(key):
    """Return what one task, variant, group size, oracle and seed comes to."""
    task, variant, size, steps, oracle, seed = key
    return run(task, variant, seed, steps=steps, groups=GAMES // size, size=size, oracle=oracle)


def noisy(tpr, fpr):
    """Return the task's oracle with these rates, erring afresh at every turn."""
    inner = dict(TASKS[NOISY]["oracle"])
    name = inner.pop("name")
    return {
        "name": "noisy",
        "oracle": name,
        "options": inner,
        "flip": 0.0,
        "tpr": tpr,
        "fpr": fpr,
        "per": "turn",
    }


def rows_of(labels, found):
    """Return the rows of a cell: on the starts of training, and on unseen ones where there are any.

    Args:
        labels: what tells the cell from others.
        found: what `run` gave, by seed.
    """
    names = [name for name in found[0]["curve"][-1] if name != "games"]
    values = {
        f"{name} after {point['games']}": by_seed([one["curve"][number][name] for one in found])
        for number, point in enumerate(found[0]["curve"])
        for name in ("return",)
    }
    for name in names:
        values[f"{name}, end"] = by_seed([one["curve"][-1][name] for one in found])
    middle = len(found[0]["curve"]) // 2
    values["return, half"] = by_seed([one["curve"][middle]["return"] for one in found])
    values["return over the run"] = by_seed([float(np.mean([point["return"] for point in one["curve"][1:]])) for one in found])
    rows = [{**labels, "starts": found[0]["starts"], "values": values}]
    if found[0]["unseen"] is not None:
        last = {f"{name}, end": by_seed([one["unseen"][name] for one in found]) for name in names}
        rows.append({**labels, "starts": "unseen", "values": last})
    return rows


def by_seed(found):
    """Return figures by seed."""
    return {str(seed): value for seed, value in enumerate(found)}


def cells(given):
    """Return (labels, key without its seed) of the study's cells."""
    if given.study == "noise":
        task = (NOISY, "vpr", 8, given.steps)
        made = [({"TPR": t, "FPR": f}, (*task, noisy(t, f))) for t, f in RATES]
        return [*made, ({"learns by": "outcome"}, (NOISY, "outcome", 8, given.steps, None))]
    return [
        (
            {"varied": axis, "task": task, "learns by": variant, "group": size},
            (task, variant, size, given.steps, None),
        )
        for axis in given.axes
        for task, variants, sizes in PLAN[axis]
        for variant in variants
        for size in sizes
    ]


def main(given):
    """Run the study, seeds outermost, and record its rows."""
    labelled, found = cells(given), {}
    with ProcessPoolExecutor(given.workers) as pool:
        for seed in range(given.seeds):
            wanted = {repr(key): (*key, seed) for _, key in labelled}
            for name, one in zip(wanted, pool.map(cell, wanted.values()), strict=True):
                found.setdefault(name, []).append(one)
            rows = [row for labels, key in labelled for row in rows_of(labels, found[repr(key)])]
            print(f"seed {seed} done", flush=True)
    record("vpr_table" if given.study == "methods" else "vpr-noise", rows, given)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=("methods", "noise"))
    parser.add_argument("--axes", nargs="+", choices=PLAN, default=list(PLAN))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    main(settings(parser, "study"))
