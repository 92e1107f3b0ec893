"""Several learners: the bytes of a run stay the same, and the seconds of a step.

The same run with one, two and four learners and equal leaves, by turns. ``digest`` is of the last
weights and their average, the optimiser's state, and all metrics. ``seconds`` are those of an
update and of a whole step: medians over steps, the first left out, and over rounds. ``ratio`` is
the median over rounds of one learner's update beside that of so many in the same round. It wants a
quiet machine of two processors; four learners share them.

    python benchmarks/ranks.py             each learner holds everything
    python benchmarks/ranks.py sharding    beside learners whose weights are split, and one learner

``peak GiB`` is of resident memory: of the training process, and of the further
learner that takes most.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from published import record, settings
from scale import digest_of

from sparring.models.memory import GIB
from sparring.run.events import TIMING, read_lines

STEPS, LEAVES, ROUNDS = 20, 4, {"ranks": 3, "sharding": 2}
ARMS = {
    "ranks": {ranks: [f"learner.ranks={ranks}"] for ranks in (1, 2, 4)},
    "sharding": {
        1: ["learner.ranks=1"],
        2: ["learner.ranks=2"],
        **{
            f"{ranks}, split": [f"learner.ranks={ranks}", "learner.sharding=fsdp2"]
            for ranks in (2, 4)
        },
    },
}
LOOK = 0.2  # seconds between looks at the processes' memory
MIDDLE = ["model.hidden_size=256", "model.layers=8"]
LARGE = ["model.hidden_size=512", "model.layers=8"]  # its memory is more than the program's
SHORT = ["rollout.games_per_step=64", "steps=5", "checkpoint.every=5", "warmup.updates=2"]
MODELS = {
    "ranks": {
        "110 thousand parameters, 1,024 plays a step": [],
        "6.4 million, 256 plays a step": [*MIDDLE, "rollout.games_per_step=256"],
    },
    "sharding": {
        "6.4 million parameters, 64 plays a step": [*MIDDLE, *SHORT],
        "25 million, 64 plays a step": [*LARGE, *SHORT],
    },
}
SAME = ["threads=1", f"steps={STEPS}", f"learner.leaves={LEAVES}", "evaluation.opponents=[]"]
ALIKE = [*SAME, "evaluation.exact=false", "store.every=0", f"checkpoint.every={STEPS}"]


def peaks(process):
    """Wait for a process; return the peak memory of it and of its largest child, in GiB."""
    by_process = {}
    while process.poll() is None:
        for pid in [process.pid, *children(process.pid)]:
            by_process[pid] = max(by_process.get(pid, 0.0), peak(pid))
        time.sleep(LOOK)
    peak_of_parent = by_process.pop(process.pid)
    return peak_of_parent, max(by_process.values(), default=0.0)


def children(pid):
    """Return the children of a process, as /proc has them."""
    pids = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            pids += map(int, path.read_text().split())
        except OSError:  # it has ended
            continue
    return pids


def peak(pid):
    """Return the peak of a process's resident memory in GiB; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) * 1024 / GIB for line in lines if line.startswith("VmHWM"))


def run(changes, path):
    """Train once; return the digest, the seconds of an update and of a step, and the memory."""
    command = ["sparring", "train", "kuhn-tiny", *ALIKE, *changes, "--run", str(path)]
    with (path.parent / "said").open("w+", encoding="utf-8") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        memory = peaks(process)
        if process.returncode:
            stderr.seek(0)
            raise SystemExit(f"{command} ended with {process.returncode}:\n{stderr.read()[-2000:]}")
    lines = read_lines(path / TIMING)[1:]
    learn, step = (
        statistics.median(line[f"seconds/{name}"] for line in lines) for name in ("update", "round")
    )
    return digest_of(path), learn, step, memory


def measure_model(model, changes, what, rounds):
    """Return the rows of a model: one for each number of learners."""
    arms = ARMS[what]
    by_learners = {learners: [] for learners in arms}
    for turn in range(rounds):
        for learners, runs in by_learners.items():
            with tempfile.TemporaryDirectory() as folder:
                runs.append(run([*changes, *arms[learners]], Path(folder) / "run"))
                print(model, f"round {turn + 1}, {learners} learners:", *runs[-1], flush=True)
    return rows_of(model, by_learners)


def rows_of(model, by_learners):
    """Return the rows of a model from what ``run`` gives, by learners."""
    alone = [learn for _, learn, *_ in by_learners[1]]
    return [
        {
            "model": model,
            "learners": str(learners),
            "digest": " ".join(dict.fromkeys(digest for digest, *_ in runs)),
            "seconds": {
                "update": statistics.median(learn for _, learn, *_ in runs),
                "step": statistics.median(step for _, _, step, _ in runs),
            },
            "ratio": statistics.median(
                seconds / learn for seconds, (_, learn, *_) in zip(alone, runs, strict=True)
            ),
            "peak GiB": {
                "training process": max(memory[0] for *_, memory in runs),
                "further learner": max(memory[1] for *_, memory in runs),
            },
        }
        for learners, runs in by_learners.items()
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", default="ranks", choices=ARMS)
    options = settings(parser, "what")
    models, rounds = MODELS[options.what], ROUNDS[options.what]
    if options.quick:
        models, rounds = {"110 thousand parameters, 64 plays a step": SHORT}, 1
    rows = [
        row
        for model, changes in models.items()
        for row in measure_model(model, changes, options.what, rounds)
    ]
    record(options.what, rows, options)
