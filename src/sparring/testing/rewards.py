"""Checks the contract of rewards."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.records import Episode, Segment, Turn, Verdict
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.catalogue import make_game
from sparring.methods.rewards.components import call_reward
from sparring.testing.bound_plugin import bind_plugin, require_equal

GAMES = ("tic_tac_toe", "kuhn_poker")
LEGAL = ("bet", "pass")
EVENTS: tuple[Literal["ok", "illegal", "unparsable"], ...] = ("ok", "ok", "illegal", "unparsable")


def check_reward(
    reward: Callable[..., Any] | BoundPlugin, *, episodes: int = 50, seed: int = 0, **options: Any
) -> None:
    """Check a reward on random episodes of three seats.

    The reward must return one finite number or None per turn, and must not change the episode.
    Equal episodes must have equal rewards, also if the call has other episodes beside them. Only
    rewards that read verdicts may return None, for turns without a verdict.

    Args:
        reward: the function, or the bound plug-in.
        episodes: number of episodes, of which some have no turns.
        seed: seed of the episodes.
        options: options of the function.

    Raises:
        AssertionError: the reward breaks one of these rules.
        PluginError: the reward raised, or did not return numbers.
    """
    plugin = bind_plugin("rewards", reward, options)
    games = {name: make_game(name) for name in GAMES}
    root = Stream.from_seed(seed)
    for number in range(episodes):
        check_reward_of(plugin, random_episode(root.child(number), turns=number % 9), games)
    assert call_reward(plugin, [], games) == [], f"The {plugin} must return [] for no episodes."


def check_reward_of(
    reward: BoundPlugin, episode: Episode, games: Mapping[str, Environment]
) -> None:
    """Check a reward on one episode; see ``check_reward``."""
    original = copy.deepcopy(episode)
    (values,) = call_reward(reward, [episode], games)
    assert len(values) == len(episode.turns), (
        f"The {reward} returned {len(values)} numbers for an episode of {len(episode.turns)} turns."
    )
    for index, value in enumerate(values):
        is_valid = value is None or (isinstance(value, float) and math.isfinite(value))
        assert is_valid, (
            f"The {reward} returned {value!r} for turn {index}; return a finite float, or None for "
            "a turn without a verdict."
        )
    if not reward.needs:
        assert None not in values, (
            f"The {reward} returned None; only a reward with NEEDS = {{'verdicts'}} may do so, for "
            "turns without a verdict."
        )
    require_equal(
        [values, values],
        call_reward(reward, [episode, episode], games),
        f"The {reward} must return equal rewards for equal episodes",
    )
    assert episode == original, f"The {reward} changed the episode; make new objects."


def random_episode(stream: Stream, *, turns: int = 6) -> Episode:
    """Return a random episode of three seats.

    The episode may have illegal replies, seats that are not trained, and players without tokens.

    Args:
        stream: stream of the random draws.
        turns: number of turns.
    """
    records, turn_counts = [], [0, 0, 0]
    for number in range(turns):
        draw = stream.child("turn").child(number)
        seat, event = draw.integer(0, 3), EVENTS[draw.integer(1, len(EVENTS))]
        num_tokens = 200 * draw.integer(2, 30)
        segment = Segment(kind="sampled", ids=(7,) * num_tokens, logprobs=(-1.0,) * num_tokens)
        action = LEGAL[draw.integer(3, 2)] if event == "ok" else None
        rewards = {"game": 20 * draw.uniform(4) - 10}
        segments = (segment,) if num_tokens else ()
        turn = Turn(
            seat,
            turn_counts[seat],
            "learner",
            "k",
            LEGAL,
            "bet",
            action,
            event,
            rewards,
            segments,
            truncated=draw.uniform(5) < 0.2,
        )
        records.append(turn._replace(verdict=_verdict(draw) if draw.uniform(6) < 0.5 else None))
        turn_counts[seat] += 1
    return Episode(
        episode_id=stream.integer(0, 10),
        group_id=0,
        game=GAMES[stream.integer(1, len(GAMES))],
        seed=0,
        roles=("a", "b", "c"),
        agents=("learner",) * 3,
        trained=tuple(stream.uniform(10 + seat) < 0.5 for seat in range(3)),
        turns=tuple(records),
        returns=tuple((-1.0, 0.0, 0.5)[stream.integer(20 + seat, 3)] for seat in range(3)),
        forfeited_by=0 if stream.uniform(2) < 0.2 else None,
    )


def _verdict(draw: Stream) -> Verdict:
    values = (4 * draw.uniform(10) - 2, 4 * draw.uniform(11) - 2)
    best = frozenset(
        action for action, value in zip(LEGAL, values, strict=True) if value == max(values)
    )
    return Verdict(
        actions=LEGAL,
        values=values,
        best=best,
        entropy=3 * draw.uniform(12) if draw.uniform(13) < 0.5 else None,
    )
