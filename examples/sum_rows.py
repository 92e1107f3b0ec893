"""Rows for the bridge `dataset`, and a reward function as TRL's GRPOTrainer takes it.

python examples/sum_rows.py [FILE] writes sums.jsonl, or FILE: 2,000 sums with the beginning of each
reply and its answer.
"""

import json
import random
import sys
from pathlib import Path

SLOT = "reward_functions"  # the functions that recipes may name: sum_rows.is_short
PLUGINS = ("is_short",)


def is_short(completions, **columns):
    """Return 1 for each completion of at most 16 characters."""
    return [float(len(text.strip()) <= 16) for text in completions]


def write_rows(path, count=2000, seed=0):
    """Write sums of two numbers below 100, one JSON object per line."""
    draws = random.Random(seed)
    pairs = [(draws.randrange(100), draws.randrange(100)) for _ in range(count)]
    rows = [
        {"prompt": f"What is {a} + {b}?", "prefill": f"{a} + {b} =", "answer": str(a + b)}
        for a, b in pairs
    ]
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "sums.jsonl"
    write_rows(path)
    print(f"{path}: 2,000 rows with the columns prompt, prefill and answer")
