"""Summary of a finished episode for the person who played: end, hidden facts, all moves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sparring.core.errors import SparringError
from sparring.core.records import Episode, FloatArray, Observation, Turn
from sparring.environments.base import Environment, teams_of
from sparring.environments.openspiel.people import for_people, revealed_by, seen_by
from sparring.measure.info_states import Query
from sparring.measure.matches import is_highest_payoff, outcome
from sparring.play.replay import replay

MAX_ACTIONS = 30  # with more legal actions, a turn's probabilities are not computed
MAX_EPISODE_ACTIONS = 600  # largest sum of legal actions over an episode's computed turns
MAX_SHARES = 4  # number of probabilities that are shown per turn, largest first


def ending_text(game: Environment, episode: Episode, seat: int) -> str:
    """Return the last position as the seat sees it, and what was hidden from it.

    Args:
        game: the environment of the episode, in any style.
        episode: a finished episode.
        seat: seat of the viewer.
    """
    state = replay(game, episode)[-1]
    if episode.turns[-1].action is not None:
        state.apply(episode.turns[-1].action)
    full_style_game = for_people(game)
    parts = (seen_by(full_style_game, state, seat), revealed_by(full_style_game, state))
    return "\n\n".join(part for part in parts if part)


def result_text(game: Environment, returns: tuple[float, ...], seat: int) -> str:
    """Return a sentence that says who won, with the payoffs."""
    payoff = returns[seat]
    is_known = math.isfinite(game.max_utility)
    if not is_known and (game.num_seats == 1 or game.cooperative):
        return f"{'You' if game.num_seats == 1 else 'Together you'} got {payoff:g}."
    if game.num_seats == 1:
        prefix = "You made it" if is_highest_payoff(game, payoff) else "You did not make it"
        return f"{prefix}: {payoff:g} of at most {game.max_utility:g}."
    if game.cooperative:
        return f"Together you got {payoff:g} of at most {game.max_utility:g}."
    payoffs = ", ".join(
        f"{role} {value:+g}" for role, value in zip(game.roles, returns, strict=True)
    )
    if not game.zero_sum:
        return f"You got {payoff:g}. Payoffs: {payoffs}."
    result = outcome(returns, seat)
    word = "A draw" if result == 0 else f"You {'won' if result > 0 else 'lost'}: {payoff:+g}"
    return f"{word}. Payoffs: {payoffs}."


def member_line(members: Mapping[str, str]) -> str:
    """Return which member of the mixture played, as a sentence without full stop.

    Args:
        members: the player of each role.
    """
    if len(set(members.values())) == 1:
        return f"Drawn from the mixture for this episode: {next(iter(members.values()))}"
    names = ", ".join(f"{role} {player}" for role, player in members.items())
    return f"Drawn from the mixture for this episode: {names}"


def move_lines(
    game: Environment, episode: Episode, policy: Any, *, name: str, display_names: dict[str, str]
) -> list[str]:
    """Return a line per move: player, action, and the policy's probabilities if quick to compute.

    Args:
        game: the environment of the episode.
        episode: a finished episode.
        policy: the agent whose probabilities are shown, if it has any.
        name: name of the policy in ``episode.agents``.
        display_names: displayed names of the agents, by their names in the episode.
    """
    probability_texts = policy_probabilities(game, episode, policy, name)
    player_names = _aligned_names(episode, display_names)
    lines, illegal_turns = list[str](), list[Turn]()
    for number, turn in enumerate(episode.turns):
        if turn.event in ("illegal", "unparsable"):
            illegal_turns.append(turn)
        if turn.action is not None:
            note = f"    [{probability_texts[number]}]" if number in probability_texts else ""
            action = turn.action + _illegal_note(illegal_turns)
            lines.append(f"{len(lines) + 1:>4}  {player_names[turn.seat]}  {action}{note}")
            illegal_turns = []
    return lines


def reply_lines(episode: Episode, names: dict[str, str]) -> list[str]:
    """Return a line per turn: player and reply.

    Args:
        episode: a finished episode.
        names: displayed names of the players, by their names in the episode.
    """
    player_names, lines = _aligned_names(episode, names), []
    for number, turn in enumerate(episode.decisions, start=1):
        replacement = f"; {turn.action} was played" if turn.action else ""
        note = "" if turn.event == "ok" else f"    [illegal{replacement}]"
        lines.append(f"{number:>4}  {player_names[turn.seat]}  {turn.reply}{note}")
    return lines


def _aligned_names(episode: Episode, names: dict[str, str]) -> list[str]:
    pairs = zip(episode.roles, episode.agents, strict=True)
    labels = [f"{role} ({names.get(agent, agent)})" for role, agent in pairs]
    return [f"{name:<{max(map(len, labels))}}" for name in labels]


def _illegal_note(turns: list[Turn]) -> str:
    if not turns:
        return ""
    origin = " (drawn at random)" if turns[-1].action is not None else ""
    replies = f"{len(turns)} illegal replies" if len(turns) > 1 else "an illegal reply"
    return f"{origin}, after {replies}, such as {turns[0].reply!r}"


def policy_probabilities(
    game: Environment, episode: Episode, policy: Any, name: str
) -> dict[int, str]:
    """Return texts of the policy's probabilities by turn number; empty if too slow to compute.

    Args:
        game: the environment of the episode.
        episode: a finished episode.
        policy: the agent whose probabilities are returned, if it has any.
        name: name of the policy in ``episode.agents``.
    """
    queries: dict[int, Query] = {}
    states = replay(game, episode)
    for seat, agent in enumerate(episode.agents):
        observations, actions, since = list[Observation](), list[str](), 0
        for number, turn in enumerate(episode.turns if agent == name else ()):
            if turn.seat != seat or turn.action is None:
                continue  # another seat's turn, or a reply after which the seat tried again
            observations.append(states[number].observe(seat, since))
            if len(turn.legal_actions) <= MAX_ACTIONS:
                queries[number] = _query(game, turn, observations, actions)
            actions.append(turn.action)
            since = states[number].plies + 1
    if not 0 < sum(len(query.legal_actions) for query in queries.values()) <= MAX_EPISODE_ACTIONS:
        return {}
    try:
        rows = policy.action_logprobs(list(queries.values()))
    except (AttributeError, SparringError):  # an agent without action probabilities
        return {}
    return {
        number: _shares_text(query, row)
        for (number, query), row in zip(queries.items(), rows, strict=True)
    }


def _query(
    game: Environment, turn: Turn, observations: list[Observation], actions: list[str]
) -> Query:
    return Query(
        game=game.name,
        seat=turn.seat,
        key=turn.state_key,
        observations=tuple(observation.text for observation in observations),
        actions=tuple(actions),
        legal_actions=turn.legal_actions,
        seen=tuple(observations),
        teams=tuple(teams_of(game)),
    )


def _shares_text(query: Query, row: FloatArray) -> str:
    """Return the largest action probabilities, and that of illegal replies if at least 0.005."""
    shares = np.exp(row)
    order = np.argsort(-shares, kind="stable")[:MAX_SHARES]
    parts = [f"{query.legal_actions[index]} {shares[index]:.2f}" for index in order]
    rest = 1.0 - float(shares.sum())
    return ", ".join([*parts, *([f"illegal {rest:.2f}"] if rest >= 0.005 else [])])
