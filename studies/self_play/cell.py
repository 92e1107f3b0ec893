"""NashConv of an algorithm's final policy during training, in several games with one seed.

The unit of training is an answer of each side: a best response, or ``STEPS`` steps of improvement.
An algorithm that trains several policies at once needs several answers per round.

Run as ``python -m studies.self_play.cell '{"algorithm": ..., "games": ..., "at": ...,
"seed": ...}' FILE``.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.core.files import write_bytes_atomic
from sparring.core.rng import Stream
from sparring.league.meta_solvers.nash import nash
from studies.self_play import references
from studies.self_play.algorithms import ALGORITHMS, STEPS
from studies.self_play.frame import begin, curve
from studies.self_play.tree_world import tree_world

AFTER = "NashConv after "  # and a number of answers


def figures(algorithm: str, game: str, answer_counts: Sequence[int], seed: int) -> dict[str, float]:
    """Return the figures of an algorithm in a game.

    Args:
        algorithm: a name in ``ALGORITHMS`` or ``REFERENCES``.
        game: name of an environment.
        answer_counts: numbers of answers after which NashConv is measured, ascending from 1.
        seed: seed of all random draws.
    """
    start_time = time.perf_counter()
    if algorithm in references.REFERENCES:
        gaps = references.gaps(algorithm, game, answer_counts, seed)
        result = {
            f"{AFTER}{answers}": gap for answers, gap in zip(answer_counts, gaps, strict=True)
        }
        result["NashConv, end"] = gaps[-1]
        return result | {"seconds": round(time.perf_counter() - start_time, 1)}
    recipe, world = ALGORITHMS[algorithm], tree_world(game)
    run = begin(recipe, world, Stream.from_seed(seed).child(game))
    points = curve(run, [0, *answer_counts], steps=STEPS)
    gaps = [point.gap for point in points]
    result = {f"{AFTER}{point.answers}": point.gap for point in points}
    result["NashConv, end"] = gaps[-1]
    result["largest rise"] = max(b - a for a, b in itertools.pairwise(gaps))
    result |= {"rounds": run.round, "passes": run.passes, "payoffs": points[-1].cells}
    result["members"] = points[-1].members
    result["NashConv, Nash of members"] = run.world.gap(run.mixed(nash(run.game())))
    return result | {"seconds": round(time.perf_counter() - start_time, 1)}


def run(
    algorithm: str, games: Sequence[str], at: Sequence[int], most: Mapping[str, int], seed: int
) -> dict[str, dict[str, float]]:
    """Return the figures of an algorithm by game.

    Args:
        algorithm: a name in ``ALGORITHMS`` or ``REFERENCES``.
        games: names of environments.
        at: the ``answer_counts`` of ``figures``.
        most: largest number of answers, by game; games without an entry have no limit.
        seed: seed of all random draws.
    """
    return {
        game: figures(algorithm, game, [n for n in at if n <= most.get(game, at[-1])], seed)
        for game in games
    }


if __name__ == "__main__":
    inputs: dict[str, Any] = json.loads(sys.argv[1])
    write_bytes_atomic(Path(sys.argv[2]), json.dumps(run(**inputs)).encode())
