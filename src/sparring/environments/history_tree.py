"""User-defined environments as trees of histories, which exact solvers can walk.

The environment needs ``openings()``, every possible initial play with its probability. Later there
is no chance. The plays are ``Cloneable``, and every seat chooses from a list. In the tree, seats
that are due at once move one by one, without seeing each other's moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparring.core.errors import GameError
from sparring.core.records import Observation
from sparring.environments.base import Environment, GameRules, HasOpenings, is_searchable


def tree_of(game: Environment) -> GameRules | None:
    """Return a game's tree: itself over OpenSpiel, else a ``HistoryTree``; None: no tree."""
    if is_searchable(game):
        return game
    return HistoryTree(game) if isinstance(game, HasOpenings) else None


def rules_key(game: Environment) -> str:
    """Return rules and options as text; environments with equal text have equal trees."""
    if is_searchable(game):
        return game.rules_key
    made_by = getattr(game, "made_by", None)  # missing if ``make_game`` did not make the rules
    return f"{made_by['name']} {made_by['options']}" if made_by else f"{game.name} {vars(game)}"


class HistoryTree:
    """The histories of an environment that has ``openings``; see ``base.GameRules``.

    Args:
        rules: the environment.
    """

    perfect_information = False
    has_info_states = True

    def __init__(self, rules: Any) -> None:
        self.rules, self.name, self.num_seats = rules, rules.name, rules.num_seats
        self.rules_key = rules_key(rules)

    def first_node(self) -> History:
        """Return the first history: a chance node if there are several openings."""
        openings = tuple((float(probability), play) for probability, play in self.rules.openings())
        if len(openings) == 1:
            return History(name=self.name, play=openings[0][1])
        return History(name=self.name, play=None, openings=openings)

    def state_of(self, node: Any) -> HistoryView:
        """Return a history as the seat to move sees it."""
        return HistoryView(node=node)


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """A play, and the current moves of seats that are due at once, until all have moved.

    Args:
        name: name of the environment, for errors.
        play: the play; None at the chance node.
        openings: the environment's openings, at the chance node.
        moves: seat -> its current move, which the play has not applied yet.
        plies: number of earlier replies.
    """

    name: str
    play: Any
    openings: Sequence[tuple[float, Any]] = ()
    moves: Mapping[int, str] = field(default_factory=dict)
    plies: int = 0

    def is_terminal(self) -> bool:
        """Return whether the play is over."""
        return self.play is not None and not self.play.due()

    def is_chance_node(self) -> bool:
        """Return whether chance chooses an opening next."""
        return self.play is None

    @property
    def seat(self) -> int:
        """The first seat that is due and has not moved."""
        first_due: int = min(set(self.play.due()) - set(self.moves))
        return first_due

    def current_player(self) -> int:
        """Return the seat to move; -1 if no seat moves."""
        return -1 if self.play is None or not self.play.due() else self.seat

    def legal_words(self) -> tuple[str, ...]:
        """Return the legal actions of the seat to move.

        Raises:
            GameError: any text is legal.
        """
        legal = self.play.legal(self.seat)
        if legal is None:
            raise GameError(
                f"{self.name}: no exact figures, as a seat may reply with any text; use matches to "
                "measure it."
            )
        return tuple(legal)

    def legal_actions(self) -> list[int]:
        """Return the numbers of the legal actions, or of the openings."""
        return list(range(len(self.openings if self.play is None else self.legal_words())))

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return the numbers of the openings, with their probabilities."""
        return [(number, probability) for number, (probability, _) in enumerate(self.openings)]

    def child(self, index: int, /) -> History:
        """Return the history after an action or an opening."""
        if self.play is None:
            return History(name=self.name, play=self.openings[index][1])
        moves = {**self.moves, self.seat: self.legal_words()[index]}
        play = self.play
        if len(moves) == len(play.due()):
            play = play.clone()
            play.step(moves)
            moves = {}
        return History(name=self.name, play=play, moves=moves, plies=self.plies + 1)

    def returns(self) -> list[float]:
        """Return the payoffs so far, [num_seats]."""
        return list(self.play.returns)

    def information_state_string(self, seat: int, /) -> str:
        """Return the information state of a seat."""
        return f"{seat} {self.play.observe(seat).key}"


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A history as the seat to move sees it; games over OpenSpiel have ``State`` instead.

    Args:
        node: the history.
    """

    node: History

    @property
    def seat(self) -> int:
        """The seat to move."""
        return self.node.seat

    @property
    def plies(self) -> int:
        """Number of earlier replies."""
        return self.node.plies

    def observe(self, seat: int, since: int) -> Observation:
        """Return the seat's new observation; ``since`` has no effect in these trees."""
        observation: Observation = self.node.play.observe(seat)
        return observation

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions, as words."""
        return self.node.legal_words()

    def action_index(self, action: str) -> int:
        """Return the number of a legal action."""
        return self.node.legal_words().index(action)
