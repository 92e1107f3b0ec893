"""A policy in the repeated dilemma: how often it cooperates with itself, and what it loses.

It loses against who always defects, and is measured by that; rounds are counted, not plays.
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
from sparring.play.rollout import with_results
from sparring.play.spec import untrained_spec
from sparring.play.team import play_teams

COOPERATE, DEFECT = "cooperate", "defect"
DEFECTS = AgentSpec("scripted", {"preference": [DEFECT]})
OWN, OTHER = "own", "other"  # names of the policy and of who always defects

BOTH = "rounds of mutual cooperation"
NEITHER = "rounds of mutual defection"
WITH_ITSELF = "points a round with itself"
AGAINST = "points a round against always-defect"
LOST = "points a round lost to always-defect"
LEGAL = "legal replies"
OPENS = "cooperates at first"
AFTER = "cooperates after "  # and own and the other's last choices
PAIRS = [(first, two) for first in (COOPERATE, DEFECT) for two in (COOPERATE, DEFECT)]


def figures(run: Path, plays: int) -> dict[str, float | None]:
    """Return the figures of a run's policy; see ``figures_of``.

    Args:
        run: its folder.
        plays: with itself, and as many from each seat against always-defect.
    """
    _, engine, _ = load_run(run, threads=1)
    game = next(iter(engine.environments))[0]
    return figures_of(game, engine.agent(PUBLISHED), plays)


def figures_of(game: Environment, policy: Agent, plays: int) -> dict[str, float | None]:
    """Return how a policy plays a repeated dilemma.

    What it loses to always-defect is what always-defect earns against itself, less what the policy
    earns against it. A choice after choices that never came has no share: None.
    """
    other = DEFECTS.make()
    rounds = game.max_turns // 2
    itself = _played(game, {OWN: policy}, (OWN, OWN), plays)
    against = [
        episode.returns[seat] / rounds
        for seat, seats in enumerate(((OWN, OTHER), (OTHER, OWN)))
        for episode in _played(game, {OWN: policy, OTHER: other}, seats, plays)
    ]
    (defected,) = _played(game, {OTHER: other}, (OTHER, OTHER), 1)
    points = sum(against) / len(against)
    turns = [turn for episode in itself for turn in episode.turns]
    ended = [pair for episode in itself for pair in chosen(episode)]
    return {
        BOTH: ended.count((COOPERATE, COOPERATE)) / len(ended),
        NEITHER: ended.count((DEFECT, DEFECT)) / len(ended),
        WITH_ITSELF: sum(sum(play.returns) / 2 / rounds for play in itself) / len(itself),
        AGAINST: points,
        LOST: defected.returns[0] / rounds - points,
        LEGAL: sum(turn.event == "ok" for turn in turns) / len(turns),
        **strategy(itself),
    }


def strategy(episodes: Sequence[Episode]) -> dict[str, float | None]:
    """Return how often a policy in both seats cooperates, at first and by the last round."""
    first: list[bool] = []
    later: dict[tuple[str, str], list[bool]] = {pair: [] for pair in PAIRS}
    for episode in episodes:
        rounds = chosen(episode)
        for seat in (0, 1):
            first.append(rounds[0][seat] == COOPERATE)
            for last, now in itertools.pairwise(rounds):
                later[last[seat], last[1 - seat]].append(now[seat] == COOPERATE)
    named = {
        f"{AFTER}{left_player}, {two}": numbers for (left_player, two), numbers in later.items()
    }
    return {
        name: sum(numbers) / len(numbers) if numbers else None
        for name, numbers in {OPENS: first, **named}.items()
    }


def chosen(episode: Episode) -> list[tuple[str, str]]:
    """Return what seats 0 and 1 did in each round; what was played for an illegal reply counts."""
    first, two = (
        [str(turn.action) for turn in episode.turns if turn.seat == seat] for seat in (0, 1)
    )
    return list(zip(first, two, strict=True))


def _played(
    game: Environment, agents: dict[str, Agent], seats: tuple[str, str], plays: int
) -> list[Episode]:
    """Return plays with these agents in the seats."""
    root = Stream.from_seed(0).child("dilemma").child("".join(seats))
    specs = [untrained_spec(game, number, seats, root.child(number)) for number in range(plays)]
    return with_results(play_teams(specs, agents))


if __name__ == "__main__":
    inputs: dict[str, Any] = json.loads(sys.argv[1])
    result = figures(Path(inputs["run"]), inputs["plays"])
    write_bytes_atomic(Path(sys.argv[2]), json.dumps(result).encode())
