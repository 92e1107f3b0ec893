"""The cost of saving a checkpoint: additional memory, seconds, and bytes written.

    python benchmarks/checkpoints.py            SmolLM2-135M, all parameters trained, 30 snapshots
    python benchmarks/checkpoints.py --quick    a small model, for a moment

Each row is measured in a separate process. Memory is the largest resident size while the checkpoint
is saved (VmHWM) minus the size before (VmRSS), divided by the size of the largest file. `again` is
the next checkpoint of the same run: it links the snapshots of the previous one and does not write
them.
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
    """Return VmRSS (resident memory now) or VmHWM (its peak so far) of this process in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def reset_peak_memory():
    """Reset VmHWM to the memory that is resident now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def trained_engine(model, members, folder):
    """Return an engine after one step of training, with this number of snapshots."""
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
    """Save two checkpoints and send the costs of each through the pipe."""
    with tempfile.TemporaryDirectory() as temporary_folder:
        folder = Path(temporary_folder)
        _, engine, state = trained_engine(model, members, folder)
        previous_checkpoint, rows = None, []
        for number in (1, 2):
            reset_peak_memory()
            memory_before, began = memory("VmRSS"), time.perf_counter()

            def write(target, earlier=previous_checkpoint):
                engine.save(target, earlier)
                state.save(target)

            path = checkpoint.save(folder, number, write, keep=2, earlier=previous_checkpoint)
            seconds, more = time.perf_counter() - began, memory("VmHWM") - memory_before
            sizes = [file.stat().st_size for file in path.iterdir()]
            new = [file.stat().st_size for file in path.iterdir() if file.stat().st_nlink == 1]
            rows.append(
                {
                    "memory ratio": more / max(sizes),
                    "aim": 1.2,
                    "seconds": seconds,
                    "largest file, MiB": max(sizes) / MIB,
                    "all files, MiB": sum(sizes) / MIB,
                    "written, MiB": sum(new if previous_checkpoint else sizes) / MIB,
                }
            )
            previous_checkpoint = path
        pipe.send(rows)


def measure_all(options):
    """Return the result rows of all settings."""
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
    record("checkpoints", measure_all(options), options)
