"""The exact NashConv of a run's answers at each of its checkpoints.

Run as ``python -m studies.leduc_league.answers_along RUN '["last", "average"]' FILE``. Then
FILE holds a JSON list with an object for each checkpoint: its step and the NashConv of each answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparring.api.load import load_answer, load_run
from sparring.core.files import write_bytes_atomic
from sparring.league.payoffs import Payoffs
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import enumerate_info_states
from sparring.run import checkpoint
from sparring.run.evaluation import answer_of
from sparring.run.payoff_plays import with_exact

BEST = "nash of exact payoffs"  # the best mixture of a population, from payoffs without noise


def nash_conv_along_run(path: Path, answers: Sequence[str]) -> list[dict[str, Any]]:
    """Return {"step": step, answer: NashConv} for each stored checkpoint, oldest first.

    Args:
        path: folder of a run with one environment.
        answers: answers of the run (``sparring evaluate --answer``), or ``BEST``: the equilibrium
            of the members by their exact mean payoffs, which needs no episodes.

    Raises:
        ConfigError: an answer is a mixture, and the run has no members; or an answer is not stored.
        GameError: the environment has too many information states, or has none.
    """
    return [_figures_at_step(path, step, answers) for step in sorted(checkpoint.steps(path))]


def _figures_at_step(path: Path, step: int, answers: Sequence[str]) -> dict[str, Any]:
    """Return the figures of a checkpoint."""
    config, engine, _ = load_run(path, step)
    game = engine.environments[0][0]
    states = enumerate_info_states(game, limit=config.evaluation.max_states)
    distances: dict[str, Any] = {"step": step}
    for answer in answers:
        agent: Any
        if answer == BEST:
            agent = answer_of(
                engine, with_exact(config, engine, Payoffs(), self_play=False), "nash"
            )
        else:
            agent = load_answer(path, config, engine, step, answer)
        distances[answer] = evaluate_exploitability(game, states, agent).nash_conv
    return distances


if __name__ == "__main__":
    points = nash_conv_along_run(Path(sys.argv[1]), json.loads(sys.argv[2]))
    write_bytes_atomic(Path(sys.argv[3]), json.dumps(points).encode())
