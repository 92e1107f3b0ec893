"""Whether a language model learns the same with vLLM's replies as with those of this process.

`mars/kuhn-smol` with either sampler and the same seeds. Their draws differ, so their plays do, and
what is compared is how well they learn. ``legal`` is the share of legal replies in plays of steps 6
to 10, ``return`` the mean return against random play after the last step, both seats, and ``far``
how much it differs from that of the run with the same seed in this process. ``error`` is the
largest of a run between log-probabilities of the sampler and of the learner.
"""

import argparse
import json
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from published import record, settings

from sparring.run.events import read_lines

RECIPE, SAMPLERS, GAMES, LEGAL_BY = "mars/kuhn-smol", ("in_process", "vllm"), 400, 10


def run(sampler, seed, steps):
    """Train once with one thread; return the row."""
    changes = [f"seed={seed}", f"steps={steps}", "threads=1", f"evaluation.every={steps}"]
    changes += ["evaluation.exact=false", f"sampler={{name: {sampler}}}"]
    changes += [f"evaluation.opponents=[{{name: random, games_per_seat: {GAMES}}}]"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        asked = ["sparring", "train", RECIPE, *changes, "--run", str(path), "--json"]
        done = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True)
        lines = list(read_lines(path / "metrics.jsonl"))
        print(sampler, seed, json.loads(done.stdout), flush=True)
    early = [one["legal_rate"] for one in lines[:LEGAL_BY][-5:]]
    found = returns(lines)
    return {
        "sampler": sampler,
        "seed": str(seed),
        "starts": "all",
        "legal": sum(early) / len(early),
        "return": found,
        "error": max(one["logprob_difference_max"] for one in lines),
    }


def returns(lines):
    """Return the mean return against random play after the last step."""
    found = [lines[-1][f"match/kuhn_poker/random/{seat}/return"] for seat in ("first", "second")]
    return sum(found) / len(found)


def measured(seeds, steps, workers):
    """Return the rows: each seed with both samplers."""
    pairs = [(sampler, seed) for seed in range(seeds) for sampler in SAMPLERS]
    with ThreadPoolExecutor(workers) as threads:
        rows = list(threads.map(lambda pair: run(*pair, steps), pairs))
    here = {one["seed"]: one["return"] for one in rows if one["sampler"] == SAMPLERS[0]}
    for one in rows:
        if one["sampler"] != SAMPLERS[0]:
            one["far"] = one["return"] - here[one["seed"]]
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2, help="runs side by side")
    given = settings(parser)
    record("vllm-learns", measured(given.seeds, given.steps, given.workers), given)
