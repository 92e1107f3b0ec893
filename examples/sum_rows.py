"""Rows for the bridge `dataset`, and a reward function as TRL's GRPOTrainer takes it.

python examples/sum_rows.py writes sums.jsonl: 2,000 sums with their answers.
"""

import json
import random
from pathlib import Path

SLOT = "reward_functions"  # the functions that recipes may name: sum_rows.is_short
PLUGINS = ("is_short",)


def is_short(completions, **columns):
    """Return 1 for each completion of at most six characters."""
    return [float(len(text.strip()) <= 6) for text in completions]


def write_rows(path, count=2000, seed=0):
    """Write sums of two numbers below 100, one JSON object per line."""
    draws = random.Random(seed)
    pairs = [(draws.randrange(100), draws.randrange(100)) for _ in range(count)]
    rows = [
        {"prompt": f"What is {a} + {b}? Reply with the number only.", "answer": str(a + b)}
        for a, b in pairs
    ]
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_rows("sums.jsonl")
    print("sums.jsonl: 2,000 rows with the columns prompt and answer")
