"""Figures of a policy in the repeated dilemma: cooperation in self-play, and loss to always-defect.

Figures count rounds, not episodes.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparring.api.load import load_run
from sparring.core.files import write_bytes_atomic
from sparring.core.records import PUBLISHED, Episode
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.measure.agent_spec import AgentSpec
from sparring.play.players.base import Agent
from sparring.play.rollout import within_context
from sparring.play.spec import untrained_spec
from sparring.play.team import play_teams

COOPERATE, DEFECT = "cooperate", "defect"
DEFECTS = AgentSpec("scripted", {"preference": [DEFECT]})
OWN, OTHER = "own", "other"  # names of the policy and of the always-defect player

BOTH = "rounds of mutual cooperation"
NEITHER = "rounds of mutual defection"
WITH_ITSELF = "points a round with itself"
AGAINST = "points a round against always-defect"
LOST = "points a round lost to always-defect"
LEGAL = "legal replies"
OPENS = "cooperates at first"
AFTER = "cooperates after "  # followed by the last choice of the policy and of the other seat
PAIRS = [(first, two) for first in (COOPERATE, DEFECT) for two in (COOPERATE, DEFECT)]


def figures(run: Path, plays: int) -> dict[str, float | None]:
    """Return the figures of a run's policy; see ``figures_of``.

    Args:
        run: folder of the run.
        plays: number of episodes with itself, and from each seat against always-defect.
    """
    _, engine, _ = load_run(run, threads=1)
    game = next(iter(engine.environments))[0]
    return figures_of(game, engine.agent(PUBLISHED), plays)


def figures_of(game: Environment, policy: Agent, plays: int) -> dict[str, float | None]:
    """Return the figures of a policy in a repeated dilemma.

    The loss to always-defect is the payoff of always-defect against itself minus the policy's
    payoff against it. The share of a choice after choices that never occurred is None.
    """
    always_defect = DEFECTS.make()
    rounds = game.max_turns // 2
    self_play = _play_episodes(game, {OWN: policy}, (OWN, OWN), plays)
    points_against = [
        episode.returns[seat] / rounds
        for seat, seats in enumerate(((OWN, OTHER), (OTHER, OWN)))
        for episode in _play_episodes(game, {OWN: policy, OTHER: always_defect}, seats, plays)
    ]
    (mutual_defection,) = _play_episodes(game, {OTHER: always_defect}, (OTHER, OTHER), 1)
    points = sum(points_against) / len(points_against)
    turns = [turn for episode in self_play for turn in episode.turns]
    last_choices = [pair for episode in self_play for pair in choices_by_round(episode)]
    return {
        BOTH: last_choices.count((COOPERATE, COOPERATE)) / len(last_choices),
        NEITHER: last_choices.count((DEFECT, DEFECT)) / len(last_choices),
        WITH_ITSELF: sum(sum(play.returns) / 2 / rounds for play in self_play) / len(self_play),
        AGAINST: points,
        LOST: mutual_defection.returns[0] / rounds - points,
        LEGAL: sum(turn.event == "ok" for turn in turns) / len(turns),
        **strategy(self_play),
    }


def strategy(episodes: Sequence[Episode]) -> dict[str, float | None]:
    """Return the shares of cooperation in self-play: in the first round, by the last choices."""
    first: list[bool] = []
    choices_after: dict[tuple[str, str], list[bool]] = {pair: [] for pair in PAIRS}
    for episode in episodes:
        rounds = choices_by_round(episode)
        for seat in (0, 1):
            first.append(rounds[0][seat] == COOPERATE)
            for last_choices, next_choices in itertools.pairwise(rounds):
                choices_after[last_choices[seat], last_choices[1 - seat]].append(
                    next_choices[seat] == COOPERATE
                )
    named_choices = {
        f"{AFTER}{own_choice}, {other_choice}": numbers
        for (own_choice, other_choice), numbers in choices_after.items()
    }
    return {
        name: sum(numbers) / len(numbers) if numbers else None
        for name, numbers in {OPENS: first, **named_choices}.items()
    }


def choices_by_round(episode: Episode) -> list[tuple[str, str]]:
    """Return the choices of both seats in each round; the substitute of an illegal reply counts."""
    first, two = (
        [str(turn.action) for turn in episode.turns if turn.seat == seat] for seat in (0, 1)
    )
    return list(zip(first, two, strict=True))


def _play_episodes(
    game: Environment, agents: dict[str, Agent], seats: tuple[str, str], plays: int
) -> list[Episode]:
    """Play episodes with these agents in the seats."""
    root = Stream.from_seed(0).child("dilemma").child("".join(seats))
    specs = [untrained_spec(game, index, seats, root.child(index)) for index in range(plays)]
    return within_context(play_teams(specs, agents))


if __name__ == "__main__":
    inputs: dict[str, Any] = json.loads(sys.argv[1])
    result = figures(Path(inputs["run"]), inputs["plays"])
    write_bytes_atomic(Path(sys.argv[2]), json.dumps(result).encode())
