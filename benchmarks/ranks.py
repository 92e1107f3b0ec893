"""What several learners change in a run: no byte, and how long a step takes.

The same run with one, two and four learners and equal leaves, by turns. ``digest`` is of the last
weights and their average, the optimiser's state, and all metrics. ``seconds`` are those of an
update and of a whole step: medians over steps, the first left out, and over rounds. ``ratio`` is
the median over rounds of one learner's update beside that of so many in the same round. It wants a
quiet machine of two processors; four learners share them.
"""

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

from published import record, settings
from scale import digest_of

from sparring.run.events import TIMING, read_lines

STEPS, LEAVES, ROUNDS, RANKS = 20, 4, 3, (1, 2, 4)
MODELS = {
    "110 thousand parameters, 1,024 plays a step": [],
    "6.4 million, 256 plays a step": [
        "model.hidden_size=256",
        "model.layers=8",
        "rollout.games_per_step=256",
    ],
}
SAME = ["threads=1", f"steps={STEPS}", f"learner.leaves={LEAVES}", "evaluation.opponents=[]"]
ALIKE = [*SAME, "evaluation.exact=false", "store.every=0", f"checkpoint.every={STEPS}"]


def run(changes, ranks, path):
    """Train once; return the digest, the seconds of an update and those of a step."""
    asked = [*ALIKE, *changes, f"learner.ranks={ranks}", "--run", str(path)]
    subprocess.run(
        ["sparring", "train", "kuhn-tiny", *asked],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    lines = read_lines(path / TIMING)[1:]
    learn, step = (
        statistics.median(line[f"seconds/{name}"] for line in lines) for name in ("update", "round")
    )
    return digest_of(path), learn, step


def measured(model, changes):
    """Return the rows of a model: one for each number of learners."""
    found = {ranks: [] for ranks in RANKS}
    for turn in range(ROUNDS):
        for ranks, own in found.items():
            with tempfile.TemporaryDirectory() as folder:
                own.append(run(changes, ranks, Path(folder) / "run"))
                print(model, f"round {turn + 1}, {ranks} learners:", *own[-1], flush=True)
    return rows_of(model, found)


def rows_of(model, found):
    """Return the rows of a model from (digest, seconds of an update, of a step) by learners."""
    alone = [learn for _, learn, _ in found[1]]
    return [
        {
            "model": model,
            "learners": str(ranks),
            "digest": " ".join(dict.fromkeys(digest for digest, _, _ in own)),
            "seconds": {
                "update": statistics.median(learn for _, learn, _ in own),
                "step": statistics.median(step for _, _, step in own),
            },
            "ratio": statistics.median(
                one / learn for one, (_, learn, _) in zip(alone, own, strict=True)
            ),
        }
        for ranks, own in found.items()
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    given = settings(parser)
    rows = [row for model, changes in MODELS.items() for row in measured(model, changes)]
    record("ranks", rows, given)
