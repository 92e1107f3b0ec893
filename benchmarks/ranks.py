"""Several learners: a check that a run keeps its bytes, and the seconds of a step.

The same run is trained with one, two and four learners and equal leaves, in turns. ``digest``
covers the last weights, the EMA weights, the optimiser's state, and all metrics. ``seconds`` are
those of an update and of a whole step: medians over steps (without the first) and over rounds.
``ratio`` is the time of one learner's update divided by that of several learners in the same round,
median over rounds. The machine should be idle and have two processors; four learners share them.

    python benchmarks/ranks.py             each learner has all weights
    python benchmarks/ranks.py sharding    also learners with split weights, and one learner

``peak GiB`` is the peak resident memory of the training process, and of the other learner with the
largest peak.
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
POLL_SECONDS = 0.2  # seconds between two readings of the processes' memory
MIDDLE_MODEL = ["model.hidden_size=256", "model.layers=8"]
LARGE_MODEL = [
    "model.hidden_size=512",
    "model.layers=8",
]  # its memory exceeds the program's
SHORT_RUN = ["rollout.games_per_step=64", "steps=5", "checkpoint.every=5", "warmup.updates=2"]
MODELS = {
    "ranks": {
        "110 thousand parameters, 1,024 plays a step": [],
        "6.4 million, 256 plays a step": [*MIDDLE_MODEL, "rollout.games_per_step=256"],
    },
    "sharding": {
        "6.4 million parameters, 64 plays a step": [*MIDDLE_MODEL, *SHORT_RUN],
        "25 million, 64 plays a step": [*LARGE_MODEL, *SHORT_RUN],
    },
}
COMMON_OVERRIDES = [
    "threads=1",
    f"steps={STEPS}",
    f"learner.leaves={LEAVES}",
    "evaluation.opponents=[]",
]
COMPARED_OVERRIDES = [
    *COMMON_OVERRIDES,
    "evaluation.exact=false",
    "store.every=0",
    f"checkpoint.every={STEPS}",
]


def wait_for_peaks(process):
    """Wait for a process; return the peak memory of it and of its largest child, in GiB."""
    by_process = {}
    while process.poll() is None:
        for pid in [process.pid, *child_pids(process.pid)]:
            by_process[pid] = max(by_process.get(pid, 0.0), peak_gib(pid))
        time.sleep(POLL_SECONDS)
    peak_of_parent = by_process.pop(process.pid)
    return peak_of_parent, max(by_process.values(), default=0.0)


def child_pids(pid):
    """Return the process ids of a process's children, from /proc."""
    pids = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            pids += map(int, path.read_text().split())
        except OSError:  # the process has ended
            continue
    return pids


def peak_gib(pid):
    """Return the peak of a process's resident memory in GiB; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) * 1024 / GIB for line in lines if line.startswith("VmHWM"))


def train_once(changes, path):
    """Train once; return the digest, the seconds of an update and of a step, and peak memory."""
    command = ["sparring", "train", "kuhn-tiny", *COMPARED_OVERRIDES, *changes, "--run", str(path)]
    with (path.parent / "said").open("w+", encoding="utf-8") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        memory = wait_for_peaks(process)
        if process.returncode:
            stderr.seek(0)
            raise SystemExit(f"{command} ended with {process.returncode}:\n{stderr.read()[-2000:]}")
    lines = read_lines(path / TIMING)[1:]
    learn, step = (
        statistics.median(line[f"seconds/{name}"] for line in lines) for name in ("update", "round")
    )
    return digest_of(path), learn, step, memory


def measure_model(model, changes, what, rounds):
    """Train a model with each number of learners in turns; return one row for each number."""
    arms = ARMS[what]
    by_learners = {learners: [] for learners in arms}
    for turn in range(rounds):
        for learners, runs in by_learners.items():
            with tempfile.TemporaryDirectory() as folder:
                runs.append(train_once([*changes, *arms[learners]], Path(folder) / "run"))
                print(model, f"round {turn + 1}, {learners} learners:", *runs[-1], flush=True)
    return rows_of(model, by_learners)


def rows_of(model, by_learners):
    """Return the rows of a model from the results of ``train_once``, by number of learners."""
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
        models, rounds = {"110 thousand parameters, 64 plays a step": SHORT_RUN}, 1
    rows = [
        row
        for model, changes in models.items()
        for row in measure_model(model, changes, options.what, rounds)
    ]
    record(options.what, rows, options)
