"""The width of a lead's calls to scripted workers, compared with the best schedule.

The worlds come from the other bank, whose worlds do not occur in training.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.api.load import load_run
from sparring.core.errors import ConfigError
from sparring.core.files import write_bytes_atomic
from sparring.core.records import PUBLISHED
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.catalogue import another_bank
from sparring.measure.oracle_regret import Judge, measure_regret
from sparring.methods.oracles.planning import planning
from sparring.play.players.base import Agent
from sparring.play.players.scheduler import scheduler
from sparring.play.replay import figures_of
from sparring.play.rollout import within_context
from sparring.play.spec import untrained_spec
from sparring.play.team import play_teams
from studies.common.significance import rank_correlation

LEAD, WORKERS = "lead", "workers"
CHOSEN, BEST = "width", "optimal_width"
MEANS = (
    *(CHOSEN, BEST, "critical_steps", "optimal_critical_steps", "serial_critical_steps"),
    *("success", "called", "finished_share", "waves"),
)
ALL = "all"  # key of the rank correlation over all environments


def figures(run: Path, plays: int) -> dict[str, dict[str, float | None]]:
    """Return the figures of a run's lead by environment; see ``figures_of_lead``.

    Args:
        run: folder of the run.
        plays: number of episodes in each environment.
    """
    _, engine, _ = load_run(run, threads=1)
    games = [game for game, _ in engine.environments]
    return figures_of_lead(games, engine.agent(PUBLISHED), plays)


def figures_of_lead(
    games: Sequence[Environment], lead: Agent, plays: int
) -> dict[str, dict[str, float | None]]:
    """Return the figures of a lead in ``dag_search`` with workers that have no faults.

    For each environment: the means of MEANS, the return, the share of episodes with the width of
    the best schedule, the share of best calls and the regret of a call by the oracle ``planning``,
    the share of legal replies, and Spearman's rank correlation of width and best width (None if
    one of them is constant). ``ALL`` has the correlation over all episodes.

    Args:
        games: environments of ``dag_search``.
        lead: player of seat 0.
        plays: number of episodes in each environment.

    Raises:
        ConfigError: an environment does not report the best width.
    """
    by_game: dict[str, dict[str, float | None]] = {}
    all_pairs: list[tuple[float, float]] = []
    for game in games:
        if BEST not in getattr(game, "figures", ()):
            raise ConfigError(
                f"{game.name!r} has no figure {BEST}; name a run on dag_search, e.g. swarm/tiny."
            )
        by_game[game.name], pairs = _measure_lead(another_bank(game) or game, lead, plays)
        all_pairs += pairs
    return {**by_game, ALL: {"rank_correlation": rank_correlation(all_pairs)}}


def _measure_lead(
    game: Environment, lead: Agent, plays: int
) -> tuple[dict[str, float | None], list[tuple[float, float]]]:
    """Return the figures of one environment, and the chosen and best width of each episode."""
    root = Stream.from_seed(0).child("swarm").child(game.name)
    seats = (LEAD, *(WORKERS,) * (game.num_seats - 1))
    specs = [untrained_spec(game, index, seats, root.child(index)) for index in range(plays)]
    episodes = within_context(play_teams(specs, {LEAD: lead, WORKERS: scheduler()}))
    figures_of_episodes = [
        figures for episode in episodes if (figures := figures_of(game, episode)) is not None
    ]
    pairs = [
        (figures_of_episode[CHOSEN][0], figures_of_episode[BEST][0])
        for figures_of_episode in figures_of_episodes
    ]
    turns = [turn for episode in episodes for turn in episode.turns if turn.seat == 0]
    verdict_figures = measure_regret(game, episodes, LEAD, Judge(oracle=planning(), budget=None))
    return {
        **{
            name: _mean([figures_of_episode[name][0] for figures_of_episode in figures_of_episodes])
            for name in MEANS
        },
        "return": _mean([episode.returns[0] for episode in episodes]),
        "width_right": _mean([float(chosen == best) for chosen, best in pairs]),
        "best_calls": verdict_figures.optimal.mean if verdict_figures.optimal else None,
        "regret": verdict_figures.regret.mean if verdict_figures.regret else None,
        "legal": _mean([float(turn.event == "ok") for turn in turns]),
        "rank_correlation": rank_correlation(pairs),
    }, pairs


def _mean(values: Sequence[float]) -> float:
    """Return the mean of values; 0 if there are none."""
    return sum(values) / max(len(values), 1)


if __name__ == "__main__":
    inputs: Mapping[str, Any] = json.loads(sys.argv[1])
    measured = figures(Path(inputs["run"]), inputs["plays"])
    write_bytes_atomic(Path(sys.argv[2]), json.dumps(measured).encode())
