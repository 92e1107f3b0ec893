"""Verdicts on the turns of finished episodes, and the regret of turns.

An illegal reply is never best; its regret is that of the worst legal action, because penalties for
illegal replies are not part of the game. No metric counts turns without a verdict.
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
from sparring.methods.oracles.base import Oracle, judge_states, reason_not_judged
from sparring.play.replay import replay


def configured_oracles(
    sections: Sequence[EnvironmentConfig], games: Sequence[Environment]
) -> dict[str, Oracle]:
    """Return the configured oracles by name of the game.

    Raises:
        ConfigError: an oracle cannot judge its game.
    """
    oracles: dict[str, Oracle] = {}
    for section, game in zip(sections, games, strict=True):
        if section.oracle is not None:
            oracle: Oracle = section.oracle.bind("oracles")()
            reason = reason_not_judged(oracle, game)
            if reason:
                raise ConfigError(
                    f"environments: {game.name!r} has the oracle {oracle.name!r}, which cannot "
                    f"judge it: {reason}"
                )
            oracles[game.name] = oracle
    return oracles


def judge_episodes(
    episodes: Sequence[Episode],
    games: Mapping[str, Environment],
    oracles: Mapping[str, Oracle],
    *,
    all_seats: bool = False,
) -> list[Episode]:
    """Return the episodes with verdicts on the turns of trained seats; each oracle is called once.

    Args:
        episodes: finished episodes.
        games: the games by name.
        oracles: oracles by name of the game; episodes of other games stay unchanged.
        all_seats: whether to judge the turns of all seats.

    Raises:
        RolloutError: an episode cannot be replayed in the game that it names.
        OracleError: an oracle cannot judge a state.
        PluginError: an oracle raised, or returned invalid verdicts.
    """
    results = list(episodes)
    for name, oracle in oracles.items():
        indices = [index for index, episode in enumerate(episodes) if episode.game == name]
        positions: list[tuple[int, int]] = []
        states: list[SearchablePlay] = []
        copies: list[Any] = []
        streams: list[Stream] = []
        try:
            for index in indices:
                episode = episodes[index]
                stream = Stream(episode.seed).child("oracle").child(episode.episode_id)
                episode_copies = replay(games[name], episode)
                copies += episode_copies
                for turn_index, (turn, state) in enumerate(
                    zip(episode.turns, episode_copies, strict=True)
                ):
                    if turn.is_decision and (all_seats or episode.trained[turn.seat]):
                        positions.append((index, turn_index))
                        states.append(decision_of(games[name], state, turn.seat, turn.moment))
                        streams.append(stream.child(turn_index))
            new_verdicts = judge_states(oracle, states, streams) if states else ()
        finally:
            close_copies(copies)
        verdicts_by_episode: dict[int, dict[int, Verdict | None]] = {index: {} for index in indices}
        for (index, turn_index), verdict in zip(positions, new_verdicts, strict=True):
            verdicts_by_episode[index][turn_index] = verdict
        for index in indices:
            turns = tuple(
                _with_verdict(turn, verdicts_by_episode[index].get(turn_index))
                for turn_index, turn in enumerate(episodes[index].turns)
            )
            results[index] = replace(episodes[index], turns=turns)
    return results


def _with_verdict(turn: Turn, verdict: Verdict | None) -> Turn:
    candidates = tuple(candidate._replace(verdict=verdict) for candidate in turn.candidates)
    return turn._replace(verdict=verdict, candidates=candidates)


def is_best(turn: Turn) -> bool | None:
    """Return whether the reply is one of the verdict's best actions; None without a verdict."""
    if turn.verdict is None:
        return None
    return turn.event == "ok" and turn.action in turn.verdict.best


def regret(turn: Turn) -> float | None:
    """Return the value of the best action minus that of the reply; None without a verdict."""
    if turn.verdict is None:
        return None
    values = turn.verdict.values
    if turn.event != "ok" or turn.action is None:
        return max(values) - min(values)
    return max(values) - values[turn.verdict.actions.index(turn.action)]
