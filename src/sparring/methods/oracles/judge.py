"""Verdicts on the turns of finished games, and what a turn lost by them.

A turn whose reply was no legal action is judged as a wrong one: never best, and its regret is that
of the worst legal action, for what the rule for illegal replies costs is no part of the game. Turns
without a verdict are left out of every figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparring.config import EnvironmentConfig
from sparring.core.errors import ConfigError
from sparring.core.records import Episode, Turn, Verdict
from sparring.core.rng import Stream
from sparring.environments.base import Environment, SearchablePlay
from sparring.environments.situation import close_copies, decision_of
from sparring.methods.oracles.base import Oracle, hindrance, verdicts
from sparring.play.replay import replay


def configured_oracles(
    sections: Sequence[EnvironmentConfig], games: Sequence[Environment]
) -> dict[str, Oracle]:
    """Return by game's name the oracles that a configuration names.

    Raises:
        ConfigError: an oracle cannot judge its game.
    """
    found: dict[str, Oracle] = {}
    for section, game in zip(sections, games, strict=True):
        if section.oracle is not None:
            oracle: Oracle = section.oracle.bind("oracles")()
            reason = hindrance(oracle, game)
            if reason:
                raise ConfigError(
                    f"environments: {game.name!r} has the oracle {oracle.name!r}, which cannot "
                    f"judge it: {reason}"
                )
            found[game.name] = oracle
    return found


def judge_episodes(
    episodes: Sequence[Episode],
    games: Mapping[str, Environment],
    oracles: Mapping[str, Oracle],
    *,
    everyone: bool = False,
) -> list[Episode]:
    """Return the episodes with verdicts on the turns of trained seats.

    All states of a game are judged in one call.

    Args:
        episodes: finished games.
        games: the games by name.
        oracles: by the name of the game they judge; games without one are left as they are.
        everyone: judge the turns of all seats.

    Raises:
        RolloutError: an episode is not one of the game of its name.
        OracleError: the oracle refuses a state.
        PluginError: the oracle raised, or gave no usable verdicts.
    """
    found = list(episodes)
    for name, oracle in oracles.items():
        own = [number for number, episode in enumerate(episodes) if episode.game == name]
        asked: list[tuple[int, int]] = []
        states: list[SearchablePlay] = []
        copies: list[Any] = []
        streams: list[Stream] = []
        try:
            for number in own:
                episode = episodes[number]
                stream = Stream(episode.seed).child("oracle").child(episode.episode_id)
                own_copies = replay(games[name], episode)
                copies += own_copies
                for index, (turn, state) in enumerate(zip(episode.turns, own_copies, strict=True)):
                    if turn.is_decision and (everyone or episode.trained[turn.seat]):
                        asked.append((number, index))
                        states.append(decision_of(games[name], state, turn.seat, turn.moment))
                        streams.append(stream.child(index))
            opinions = verdicts(oracle, states, streams) if states else ()
        finally:
            close_copies(copies)
        found_by: dict[int, dict[int, Verdict | None]] = {number: {} for number in own}
        for (number, index), verdict in zip(asked, opinions, strict=True):
            found_by[number][index] = verdict
        for number in own:
            turns = enumerate(episodes[number].turns)
            found[number] = replace(
                episodes[number],
                turns=tuple(_with(turn, found_by[number].get(index)) for index, turn in turns),
            )
    return found


def _with(turn: Turn, verdict: Verdict | None) -> Turn:
    others = tuple(other._replace(verdict=verdict) for other in turn.candidates)
    return turn._replace(verdict=verdict, candidates=others)


def is_best(turn: Turn) -> bool | None:
    """Return whether the oracle holds the reply for one of the best actions.

    None without a verdict.
    """
    if turn.verdict is None:
        return None
    return turn.event == "ok" and turn.action in turn.verdict.best


def regret(turn: Turn) -> float | None:
    """Return how much less than the best action the reply is worth, in the game's units.

    None without a verdict.
    """
    if turn.verdict is None:
        return None
    values = turn.verdict.values
    if turn.event != "ok" or turn.action is None:
        return max(values) - min(values)
    return max(values) - values[turn.verdict.actions.index(turn.action)]
