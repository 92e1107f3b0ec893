"""Find the statements in recorded episodes, and their states in the abstracted game.

A statement is a free text that a seat says. In the abstracted game (``environments.abstracted``)
only one sentence for each cluster of similar statements is legal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from sparring.core.errors import GameError
from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.environments.abstracted import NAME, AbstractedEnvironment, AbstractedPlay, kind_of
from sparring.environments.base import Environment
from sparring.environments.foreign import environment_call
from sparring.methods.knowledge.base import replies
from sparring.ops.clusters import name_pattern
from sparring.play.replay import replay_states


class AbstractState(NamedTuple):
    """An information state of the abstracted game, with its actions.

    Args:
        key: key of the state.
        legal: the legal actions.
        labels: label of each legal action; a strategy has one probability per distinct label.
    """

    key: str
    legal: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def distinct_labels(self) -> tuple[str, ...]:
        """The distinct labels, in the order of a strategy's probabilities."""
        distinct = dict.fromkeys(self.labels)
        return tuple(distinct if self.labels == self.legal else sorted(distinct))

    def index_of(self, action: str) -> int:
        """Return the index of an action in the strategy's probabilities."""
        return self.distinct_labels.index(self.label_of(action))

    def label_of(self, action: str) -> str:
        """Return the label of a legal action."""
        return self.labels[self.legal.index(action)]


def abstract_state_of(play: AbstractedPlay, seat: int, *, gists: bool) -> AbstractState:
    """Return the information state of a seat that is to act.

    Args:
        play: an episode of the abstracted game.
        seat: a seat that is to act.
        gists: whether the state is the seat's ``Gist``, a summary of its information, if the
            environment defines gists. Otherwise the state is all that the seat knows.
    """
    legal = play.legal(seat) or ()
    gist = play.gist(seat) if gists else None
    if gist is None:
        return AbstractState(f"{seat} {play.observe(seat).key}", legal, legal)
    meanings = legal if gist.meaning_of is None else tuple(map(gist.meaning_of, legal))
    return AbstractState(gist.key, legal, _replace_names(meanings, tuple(gist.labels.items())))


@lru_cache(maxsize=65_536)
def _replace_names(texts: tuple[str, ...], labels: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    label_of_name = dict(labels)
    names = name_pattern(tuple(label_of_name))
    if names is None:
        return texts
    return tuple(names.sub(lambda match: label_of_name[match[0]], text) for text in texts)


SentenceOf = Callable[[str, str], str | None]
"""Function of (kind of action, statement): the sentence of its cluster; None without a cluster."""

OTHERS = "someone"  # replaces every player's name in a statement, except the first name


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedDecision:
    """A decision whose replies a knowledge plug-in may score.

    Args:
        turn_index: index of the turn in the episode.
        kind: kind of action; "" for an action from a list.
        actions: action of each reply, in the order of ``base.replies``; None for an illegal reply.
        legal: the legal actions, if the environment lists them.
        has_candidates: whether the prompt had more than one reply.
    """

    turn_index: int
    kind: str
    actions: tuple[str | None, ...]
    legal: tuple[str, ...]
    has_candidates: bool


def judged_decisions(
    game: Environment, episode: Episode, *, actions: bool = False
) -> list[JudgedDecision]:
    """Replay an episode and return its decisions that are statements, in order.

    The replay is necessary because a record does not hold the kinds of actions.

    Args:
        game: the episode's environment.
        episode: the recorded episode.
        actions: whether to include decisions that are not statements.
    """
    decisions = []
    pairs = zip(episode.turns, replay_states(game, episode), strict=False)
    for turn_index, (turn, play) in enumerate(pairs):
        if not turn.is_decision or turn.seat not in play.due():
            continue
        kind = kind_of(game, play, turn.seat)
        if not kind and not actions:
            continue
        decision = JudgedDecision(
            turn_index=turn_index,
            kind=kind,
            actions=tuple(reply.action if reply.event == "ok" else None for reply in replies(turn)),
            legal=turn.legal_actions,
            has_candidates=bool(turn.candidates),
        )
        decisions.append(decision)
    return decisions


def pattern(statement: str, player_names: tuple[str, ...]) -> str:
    """Return a statement with placeholders for the names of players.

    "@" replaces the name of the first player in the statement, and "someone" all other names.

    Args:
        statement: the statement with names.
        player_names: names of players, in lower case.
    """
    names = name_pattern(player_names, re.IGNORECASE)
    if names is None:
        return statement
    first_name, text = first_player_name(statement, player_names), statement.replace(NAME, " at ")
    return names.sub(lambda match: NAME if match[0].lower() == first_name else OTHERS, text)


def first_player_name(statement: str, player_names: tuple[str, ...]) -> str | None:
    """Return the player that a statement names first, in lower case, or None."""
    names = name_pattern(player_names, re.IGNORECASE)
    match = names.search(statement) if names is not None else None
    return match[0].lower() if match else None


def locate_decisions(
    game: AbstractedEnvironment,
    episode: Episode,
    decisions: Sequence[JudgedDecision],
    sentence_of: SentenceOf,
    *,
    gists: bool = False,
) -> dict[int, AbstractState]:
    """Return the state of the abstracted game at each decision, by turn number.

    The episode is replayed in the abstracted game: the sentence of its cluster replaces each
    statement. The replay ends where a statement has no cluster or its sentence is illegal.

    Args:
        game: the abstracted game.
        episode: a recorded episode of the full game.
        decisions: the decisions, with all statements of the episode.
        sentence_of: gives the sentence of a statement's cluster.
        gists: see ``abstract_state_of``.
    """
    states: dict[int, AbstractState] = {}
    kind_of_turn = {decision.turn_index: decision.kind for decision in decisions}
    actions: dict[int, str] = {}
    with environment_call(game.inner):
        play = AbstractedPlay(game, game.inner.reset(Stream(episode.seed)))
        for turn_index, turn in enumerate(episode.turns):
            if turn.seat not in play.due():
                break
            if turn_index in kind_of_turn:
                states[turn_index] = abstract_state_of(play, turn.seat, gists=gists)
            if turn.action is None:
                continue
            kind = kind_of_turn.get(turn_index)
            action = sentence_of(kind, turn.action) if kind else turn.action
            if action is None:
                break
            actions[turn.seat] = action
            if len(actions) == len(play.due()):
                try:
                    play.step(actions)
                except GameError:
                    break
                actions = {}
    return states
