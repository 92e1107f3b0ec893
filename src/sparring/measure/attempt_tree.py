"""One attempt at an environment as the learner sees it, with a pool of opponents in one tree.

A branch is the beginning, or what follows one action of the learner's. From there on chance and the
opponent, one of K, lead to the learner's next decision or to an end. What is kept of a history is
the probability [K] that they lead there, so that the tree has the learner's own decisions alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from sparring.environments.openspiel.base import Game, State
from sparring.environments.own import Asking
from sparring.environments.repeated import result_text
from sparring.errors import GameError, TooLargeError
from sparring.players.described import chances_of
from sparring.types import FloatArray

MOST_HISTORIES = 100_000


@dataclass(kw_only=True, slots=True)
class End:
    """Ends of an attempt that are told alike.

    Args:
        play: one of them.
        reach: probability that chance and opponent lead here, [K].
        earned: the same times the learner's return, [K].
    """

    play: Any
    reach: FloatArray
    earned: FloatArray


@dataclass(kw_only=True, slots=True)
class Decision:
    """An information state of the learner's.

    Args:
        play: one that stands there.
        reach: probability that chance and opponent lead here, [K].
        after: the branch of each legal action.
    """

    play: Any
    reach: FloatArray
    after: dict[str, Branch]


@dataclass(kw_only=True, slots=True)
class Branch:
    """What follows an action of the learner's.

    Args:
        told: ends by what the learner is told there, and whether a win ends the trial.
        decisions: the learner's next, by information state.
    """

    told: dict[tuple[str, bool], End] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)

    @property
    def ends(self) -> Iterator[End]:
        """The ends."""
        return iter(self.told.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """The whole tree of an attempt.

    Args:
        root: before the learner's first decision.
        histories: how many positions of the environment were visited.
    """

    root: Branch
    histories: int


def attempt_tree(
    environment: Any,
    seat: int,
    opponents: Mapping[str, Any],
    *,
    reveal: bool,
    winners: Collection[int] = (),
) -> Attempt:
    """Return the tree of a seat's decisions against a pool of opponents.

    Args:
        environment: what is played; two seats.
        seat: the learner's.
        opponents: agents by name, K of them.
        reveal: whether a seat is told at the end what the environment reveals.
        winners: seats whose win ends the trial, which parts ends that are told alike.

    Raises:
        GameError: an opponent cannot be described exactly, or the environment cannot be enumerated.
        TooLargeError: more than ``MOST_HISTORIES`` histories.
    """
    if environment.num_seats != 2:
        raise GameError(
            f"{environment.name}: the exact ceiling is of two seats, and it has "
            f"{environment.num_seats}."
        )
    walk = _Walk(environment, seat, opponents, reveal, winners)
    root = Branch()
    with Asking(environment):
        for share, play in _beginnings(environment):
            walk.visit(play, share * np.ones(len(opponents)), root)
    return Attempt(root=root, histories=walk.count)


def _beginnings(environment: Any) -> list[tuple[float, Any]]:
    """Return the plays that chance can begin with, and their probabilities.

    Raises:
        GameError: the environment does not say them.
    """
    if isinstance(environment, Game):
        if not environment.has_info_states:
            raise GameError(
                f"{environment.name}: OpenSpiel has no information states for it, so that nobody "
                "can say what a seat knows."
            )
        return [(1.0, environment.state_of(environment.first_node()))]
    if not hasattr(environment, "openings"):
        raise GameError(
            f"{environment.name}: it has no method openings, so that its plays cannot be "
            "enumerated."
        )
    return [(float(share), play) for share, play in environment.openings()]


class _Walk:
    """Visits every history that some opponent allows."""

    def __init__(
        self,
        environment: Any,
        seat: int,
        opponents: Mapping[str, Any],
        reveal: bool,
        winners: Collection[int],
    ) -> None:
        self.environment, self.seat, self.opponents = environment, seat, opponents
        self.reveal, self.winners, self.count = reveal, winners, 0
        self._silent = {"": np.ones(len(opponents))}  # where the opponent is not due

    def visit(self, play: Any, reach: FloatArray, branch: Branch) -> None:
        """Add a play and all that can follow it.

        Args:
            play: where it stands; it is not changed.
            reach: probability that chance and each opponent lead there, [K].
            branch: after the learner's last action.
        """
        self.count += 1
        if self.count > MOST_HISTORIES:
            raise TooLargeError(
                f"{self.environment.name} has over {MOST_HISTORIES:,} histories against these "
                "opponents, too many for an exact ceiling."
            )
        if isinstance(play, State) and play.seat < 0 and not play.done:
            for outcome, share in play.node.chance_outcomes():
                after = play.clone()
                after.apply_index(outcome)
                self.visit(after, share * reach, branch)
        elif not play.due():
            self._end(play, reach, branch)
        else:
            self._moves(play, reach, branch)

    def _end(self, play: Any, reach: FloatArray, branch: Branch) -> None:
        """Add an end, to those that are told alike."""
        got = play.returns[self.seat]
        told = result_text(play, self.seat, got, self.environment.brief, self.reveal)
        won = any(play.returns[one] > 0 for one in self.winners)
        end = branch.told.setdefault(
            (told, won), End(play=play, reach=np.zeros(len(reach)), earned=np.zeros(len(reach)))
        )
        end.reach += reach
        end.earned += got * reach

    def _moves(self, play: Any, reach: FloatArray, branch: Branch) -> None:
        """Add what follows all replies that are due."""
        due = play.due()
        own = self._decision(play, reach, branch) if self.seat in due else {"": branch}
        theirs = self._replies(play, 1 - self.seat) if 1 - self.seat in due else self._silent
        for (action, after), (reply, shares) in product(own.items(), theirs.items()):
            weight = reach * shares
            if weight.any():
                said = {self.seat: action, 1 - self.seat: reply}
                then = play.clone()
                then.step({one: said[one] for one in due})
                self.visit(then, weight, after)

    def _decision(self, play: Any, reach: FloatArray, branch: Branch) -> dict[str, Branch]:
        """Return the branches of a decision of the learner's, by action."""
        seen, legal = play.observe(self.seat), play.legal(self.seat)
        if legal is None:
            raise GameError(
                f"{self.environment.name}: no exact ceiling, as the learner may reply with any "
                "text."
            )
        key = seen.key or seen.text
        if key not in branch.decisions:
            branch.decisions[key] = Decision(
                play=play,
                reach=np.zeros(len(reach)),
                after={action: Branch() for action in legal},
            )
        found = branch.decisions[key]
        found.reach += reach
        return found.after

    def _replies(self, play: Any, seat: int) -> dict[str, FloatArray]:
        """Return the probabilities [K] of each reply of the opponents'."""
        rows = [chances_of(name, one, play, seat) for name, one in self.opponents.items()]
        return {action: np.array([row[action] for row in rows]) for action in rows[0]}
