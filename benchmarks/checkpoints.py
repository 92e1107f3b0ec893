"""The cost of saving a checkpoint: memory beyond what training holds, seconds, and bytes written.

    python benchmarks/checkpoints.py            SmolLM2-135M, all parameters trained, 30 snapshots
    python benchmarks/checkpoints.py --quick    a small model, for a moment

Each row is a process of its own. Memory is the largest resident size while the checkpoint is saved
(VmHWM) less the size before (VmRSS), relative to the largest file written. `again` is the next
checkpoint of the same run: snapshots that the one before holds are linked, not written.
"""

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

from published import record, settings

from sparring.config import resolve
from sparring.core.records import snapshot
from sparring.engine.local import LocalEngine
from sparring.run import checkpoint
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

SMOL = {"name": "smollm2-135m", "dtype": "float32"}
TINY = {"hidden_size": 256, "layers": 8, "heads": 8}
MIB = 1 << 20


def memory(field):
    """Return a figure of this process in bytes: VmRSS, resident now, or VmHWM, the most so far."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def forget_the_peak():
    """Let VmHWM begin anew at what is resident now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def run(model, members, folder):
    """Return an engine after one step of training, with so many snapshots."""
    style = {"options": {"style": "full"}} if "name" in model else {}
    config = resolve(
        {
            "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}, **style}],
            "steps": 2,
            "threads": 2,
            "rollout": {"games_per_step": 4, "max_new_tokens": 4},
            "model": model,
            **({"renderer": {"name": "chat"}} if "name" in model else {}),
        }
    )
    engine = LocalEngine(config)
    state = play_round(config, engine, Methods.of(config), RunState()).state
    for index in range(members):
        engine.take_member(snapshot(index + 1))
    return config, engine, state


def measure_saves(model, members, pipe):
    """Save two checkpoints and send the cost of each."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _, engine, state = run(model, members, folder)
        earlier, rows = None, []
        for number in (1, 2):
            forget_the_peak()
            before, began = memory("VmRSS"), time.perf_counter()

            def write(target, earlier=earlier):
                engine.save(target, earlier)
                state.save(target)

            path = checkpoint.save(folder, number, write, keep=2, earlier=earlier)
            seconds, more = time.perf_counter() - began, memory("VmHWM") - before
            sizes = [file.stat().st_size for file in path.iterdir()]
            new = [file.stat().st_size for file in path.iterdir() if file.stat().st_nlink == 1]
            rows.append(
                {
                    "memory ratio": more / max(sizes),
                    "aim": 1.2,
                    "seconds": seconds,
                    "largest file, MiB": max(sizes) / MIB,
                    "all files, MiB": sum(sizes) / MIB,
                    "written, MiB": sum(new if earlier else sizes) / MIB,
                }
            )
            earlier = path
        pipe.send(rows)


def rows(options):
    """Return the rows of all settings."""
    name, model = ("tiny", TINY) if options.quick else ("SmolLM2-135M", SMOL)
    result = []
    for members in (0, 3 if options.quick else 30):
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=measure_saves, args=(model, members, there)
        )
        process.start()
        first, again = here.recv()
        process.join()
        labels = {"model": name, "snapshots": str(members)}
        result += [{**labels, "checkpoint": "first", **first}]
        result += [{**labels, "checkpoint": "again", **again}]
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options = settings(parser)
    record("checkpoints", rows(options), options)
