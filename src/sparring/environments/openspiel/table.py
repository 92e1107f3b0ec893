"""Base classes of games that OpenSpiel lacks: written in Python and registered with OpenSpiel.

Each game defines a dataclass of options and a subclass of ``Table`` for its positions. The subclass
may extend the dataclass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import pyspiel

CHANCE: int = pyspiel.PlayerId.CHANCE
TERMINAL: int = pyspiel.PlayerId.TERMINAL


class Table(ABC):
    """A position with its history.

    Subclasses are frozen dataclasses: copies of a state share one table.
    """

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the table itself, as it is immutable."""
        return self

    @property
    @abstractmethod
    def player(self) -> int:
        """The seat to act, CHANCE or TERMINAL."""

    @abstractmethod
    def legal(self) -> list[int]:
        """Return the legal action ids of the seat to act, ascending."""

    def draws(self) -> Sequence[int]:
        """Return the outcomes of the chance node."""
        return ()

    def chances(self) -> Sequence[float]:
        """Return the probabilities of ``draws``, all equal by default."""
        num_outcomes = len(self.draws())
        return [1.0 / num_outcomes] * num_outcomes

    @abstractmethod
    def after(self, index: int) -> Self:
        """Return the table after a legal action or a chance outcome."""

    @abstractmethod
    def returns(self) -> list[float]:
        """Return the payoffs so far, [seats]."""

    def rewards(self) -> list[float]:
        """Return the payoffs of the last action, [seats]; the returns if a game pays at the end."""
        return self.returns()

    @abstractmethod
    def name_of(self, player: int, index: int) -> str:
        """Return the name of an action, or of a chance outcome (``player`` < 0)."""

    @abstractmethod
    def key(self, seat: int) -> str:
        """Return the seat's information state, with perfect recall."""

    def view(self, seat: int) -> str:
        """Return what the seat sees now, without history, for games with ``Rules.views``."""
        return self.key(seat)

    @abstractmethod
    def __str__(self) -> str:
        """Return the position with nothing hidden."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The facts about a game that OpenSpiel needs."""

    opening: Table  # initial state
    actions: int  # number of action ids
    length: int  # largest number of actions of all seats together
    least: float  # least payoff
    most: float  # greatest payoff
    utility: Literal["zero_sum", "identical", "general_sum"]
    seats: int = 2  # number of seats
    outcomes: int = 0  # largest number of outcomes of a chance node; 0: no chance
    hidden: bool = True  # whether something is hidden from some seat
    stepwise: bool = False  # whether payoffs also occur before the end
    views: bool = False  # whether ``Table.view`` differs from ``Table.key``


class TableGame(pyspiel.Game):  # type: ignore[misc]  # OpenSpiel has no annotations
    """Rules as a game of OpenSpiel; ``register`` makes a subclass for each game."""

    def __init__(self, name: str, rules: Rules, parameters: dict[str, Any]) -> None:
        self.opening = rules.opening
        info = pyspiel.GameInfo(
            num_distinct_actions=rules.actions,
            max_chance_outcomes=rules.outcomes,
            num_players=rules.seats,
            min_utility=rules.least,
            max_utility=rules.most,
            utility_sum=0.0 if rules.utility == "zero_sum" else None,
            max_game_length=rules.length,
        )
        super().__init__(game_type(name, rules, parameters), info, parameters)

    def new_initial_state(self) -> TableState:
        """Return the initial state."""
        return TableState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> TableObserver:
        """Return the observer that writes information states or observations."""
        return TableObserver(iig_obs_type is None or iig_obs_type.perfect_recall)


class TableState(pyspiel.State):  # type: ignore[misc]
    """A position as a state of OpenSpiel; ``table`` is the whole position."""

    def __init__(self, game: TableGame) -> None:
        super().__init__(game)
        self.table = game.opening

    def current_player(self) -> int:
        """Return the seat to act, CHANCE or TERMINAL."""
        return self.table.player

    def is_terminal(self) -> bool:
        """Return whether the game is over."""
        return self.table.player == TERMINAL

    def _legal_actions(self, player: int) -> list[int]:
        return self.table.legal()

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return the chance outcomes with their probabilities."""
        return list(zip(self.table.draws(), self.table.chances(), strict=True))

    def _apply_action(self, action: int) -> None:
        self.table = self.table.after(int(action))

    def _action_to_string(self, player: int, action: int) -> str:
        return self.table.name_of(player, action)

    def returns(self) -> list[float]:
        """Return the payoffs so far."""
        return self.table.returns()

    def rewards(self) -> list[float]:
        """Return the payoffs of the last action of a seat."""
        return self.table.rewards()

    def __str__(self) -> str:
        """Return the position with nothing hidden."""
        return str(self.table)


class TableObserver:
    """Writes the information state of a seat (``perfect_recall``), or its observation."""

    tensor = None  # OpenSpiel allows observers without a tensor

    def __init__(self, perfect_recall: bool) -> None:
        self.perfect_recall = perfect_recall
        self.dict: dict[str, Any] = {}

    def set_from(self, state: TableState, player: int) -> None:
        """Do nothing, as there is no tensor."""

    def string_from(self, state: TableState, player: int) -> str:
        """Return the information state or the observation of the seat."""
        return state.table.key(player) if self.perfect_recall else state.table.view(player)


def game_type(name: str, rules: Rules, parameters: Mapping[str, Any]) -> pyspiel.GameType:
    """Return OpenSpiel's description of a game."""
    kind = pyspiel.GameType
    return kind(
        short_name=name,
        long_name=name.replace("_", " ").capitalize(),
        dynamics=kind.Dynamics.SEQUENTIAL,
        chance_mode=kind.ChanceMode.EXPLICIT_STOCHASTIC
        if rules.outcomes
        else kind.ChanceMode.DETERMINISTIC,
        information=kind.Information.IMPERFECT_INFORMATION
        if rules.hidden
        else kind.Information.PERFECT_INFORMATION,
        utility=getattr(kind.Utility, rules.utility.upper()),
        reward_model=kind.RewardModel.REWARDS if rules.stepwise else kind.RewardModel.TERMINAL,
        max_num_players=rules.seats,
        min_num_players=rules.seats,
        provides_information_state_string=True,
        provides_information_state_tensor=False,
        provides_observation_string=rules.views,
        provides_observation_tensor=False,
        parameter_specification=dict(parameters),
    )


def register(name: str, options: type[Any], rules: Callable[[Any], Rules]) -> None:
    """Register a game with OpenSpiel, for ``pyspiel.load_game`` and pickles of its states.

    Args:
        name: OpenSpiel's name of the game.
        options: dataclass of its parameters (int, float, str or bool), all with defaults.
        rules: function that returns the rules for a value of ``options``.
    """
    if name in pyspiel.registered_names():
        return

    # a class, not a function, as OpenSpiel frees it after the end of Python
    class RegisteredGame(TableGame):
        def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
            values = options(**(parameters or {}))
            super().__init__(name, rules(values), asdict(values))

    defaults = options()
    pyspiel.register_game(game_type(name, rules(defaults), asdict(defaults)), RegisteredGame)
