"""An algorithm in several games with a seed: how exploitable its answer is, answer by answer.

The unit is an answer of each side: a best response, or ``STEPS`` steps of improvement. An algorithm
that trains several policies at once takes several of them in a round.

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


def figures(algorithm: str, game: str, at: Sequence[int], seed: int) -> dict[str, float]:
    """Return the figures of an algorithm in a game.

    Args:
        algorithm: in ``ALGORITHMS`` or ``REFERENCES``.
        game: of the catalogue.
        at: numbers of answers after which its own answer is measured, ascending from 1.
        seed: of all draws.
    """
    began = time.perf_counter()
    if algorithm in references.REFERENCES:
        gaps = references.gaps(algorithm, game, at, seed)
        result = {f"{AFTER}{answers}": gap for answers, gap in zip(at, gaps, strict=True)}
        result["NashConv, end"] = gaps[-1]
        return result | {"seconds": round(time.perf_counter() - began, 1)}
    recipe, world = ALGORITHMS[algorithm], tree_world(game)
    run = begin(recipe, world, Stream.from_seed(seed).child(game))
    points = curve(run, [0, *at], steps=STEPS)
    gaps = [point.gap for point in points]
    result = {f"{AFTER}{point.answers}": point.gap for point in points}
    result["NashConv, end"] = gaps[-1]
    result["largest rise"] = max(b - a for a, b in itertools.pairwise(gaps))
    result |= {"rounds": run.round, "passes": run.passes, "payoffs": points[-1].cells}
    result["members"] = points[-1].members
    result["NashConv, Nash of members"] = run.world.gap(run.mixed(nash(run.game())))
    return result | {"seconds": round(time.perf_counter() - began, 1)}


def run(
    algorithm: str, games: Sequence[str], at: Sequence[int], most: Mapping[str, int], seed: int
) -> dict[str, dict[str, float]]:
    """Return the figures of an algorithm by game.

    Args:
        algorithm: in ``ALGORITHMS`` or ``REFERENCES``.
        games: of the catalogue.
        at: see ``figures``.
        most: of a game the most answers, where they are fewer.
        seed: of all draws.
    """
    return {
        game: figures(algorithm, game, [n for n in at if n <= most.get(game, at[-1])], seed)
        for game in games
    }


if __name__ == "__main__":
    inputs: dict[str, Any] = json.loads(sys.argv[1])
    write_bytes_atomic(Path(sys.argv[2]), json.dumps(run(**inputs)).encode())
