"""Trading of two resources as an OpenSpiel game: the rules only, no wording.

Everything a state knows is one immutable ``Table``, so that copies of a state are cheap.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

import pyspiel

SUPPORT = True

NAME = "simple_negotiation"  # the name registered with OpenSpiel
RESOURCES = ("wood", "gold")
START = 10  # units of each resource that each seat holds at the start
VALUES = ((5, 15), (10, 10), (15, 5))  # what one unit of wood and of gold can be worth to a seat
FIXED = (0, 2)  # the entries of VALUES of seat 0 and seat 1 where they are not drawn
MOST = 195.0  # bound of a gain: all goods are worth 400 to a seat, its own 200 at the start, and it keeps one unit at least
ACCEPT, DENY = 0, 1
OUTCOMES = ("sign", "gain")
DEFAULTS: dict[str, Any] = {"turns": 10, "largest": 10, "values": "fixed", "outcome": "sign"}


class Offer(NamedTuple):
    """An offer: ``give`` units of a resource (0 wood, 1 gold) for ``ask`` units of the other one."""

    resource: int
    give: int
    ask: int

    @property
    def word(self) -> str:
        """The offer as an action word, such as "offer:3wood-2gold"."""
        return f"offer:{self.give}{RESOURCES[self.resource]}-{self.ask}{RESOURCES[1 - self.resource]}"


@cache
def offers(largest: int) -> tuple[Offer, ...]:
    """Return all offers of up to ``largest`` units each way; the action id of number n is n + 2."""
    amounts = range(1, largest + 1)
    return tuple(Offer(resource, give, ask) for resource in (0, 1) for give in amounts for ask in amounts)


@lru_cache(maxsize=4096)
def feasible(largest: int, own: tuple[int, int], other: tuple[int, int]) -> tuple[int, ...]:
    """Return the action ids of the offers that both seats can fulfil with what they hold."""
    return tuple(
        index
        for index, offer in enumerate(offers(largest), DENY + 1)
        if offer.give <= own[offer.resource] and offer.ask <= other[1 - offer.resource]
    )


class Table(NamedTuple):
    """A position: entry of VALUES by seat, units held by seat, the open offer, actions so far, what the last one paid."""

    values: tuple[int, ...]
    holdings: tuple[tuple[int, int], tuple[int, int]] = ((START, START), (START, START))
    offer: Offer | None = None
    actions: tuple[int, ...] = ()
    paid: tuple[int, int] = (0, 0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        """Return the table itself: it never changes."""
        return self

    @property
    def seat(self) -> int:
        """The seat to act."""
        return len(self.actions) % 2

    def worth(self, seat: int) -> int:
        """Return what a seat's goods are worth to it."""
        return sum(units * value for units, value in zip(self.holdings[seat], VALUES[self.values[seat]], strict=True))

    def gains(self) -> tuple[int, int]:
        """Return by how much each seat's goods are worth more to it than at the start."""
        start = [START * sum(VALUES[entry]) for entry in self.values]
        return self.worth(0) - start[0], self.worth(1) - start[1]

    def after(self, index: int, largest: int) -> Table:
        """Return the table after an action: an acceptance trades, any other answer ends the open offer."""
        actions = (*self.actions, index)
        if index != ACCEPT or self.offer is None:
            offer = offers(largest)[index - DENY - 1] if index > DENY else None
            return self._replace(offer=offer, actions=actions, paid=(0, 0))
        resource, give, ask = self.offer
        change = (ask, -give) if resource else (-give, ask)  # of the one who offered, which is the other seat
        if self.seat == 0:
            change = (-change[0], -change[1])
        (wood, gold), (other_wood, other_gold) = self.holdings
        holdings = (wood + change[0], gold + change[1]), (other_wood - change[0], other_gold - change[1])
        traded = self._replace(holdings=holdings, offer=None, actions=actions)
        before, now = self.gains(), traded.gains()
        return traded._replace(paid=(now[0] - before[0], now[1] - before[1]))


def game_type(values: str, outcome: str) -> pyspiel.GameType:
    """Return OpenSpiel's description of the game; with fixed values nothing is hidden that the rules do not tell."""
    kind, fixed, sign = pyspiel.GameType, values == "fixed", outcome == "sign"
    return kind(
        short_name=NAME,
        long_name="Trading of two resources",
        dynamics=kind.Dynamics.SEQUENTIAL,
        chance_mode=kind.ChanceMode.DETERMINISTIC if fixed else kind.ChanceMode.EXPLICIT_STOCHASTIC,
        information=kind.Information.PERFECT_INFORMATION if fixed else kind.Information.IMPERFECT_INFORMATION,
        utility=kind.Utility.ZERO_SUM if sign else kind.Utility.GENERAL_SUM,
        reward_model=kind.RewardModel.TERMINAL if sign else kind.RewardModel.REWARDS,
        max_num_players=2,
        min_num_players=2,
        provides_information_state_string=True,
        provides_information_state_tensor=False,
        provides_observation_string=False,
        provides_observation_tensor=False,
        parameter_specification=DEFAULTS,
    )


class NegotiationGame(pyspiel.Game):  # type: ignore[misc]  # OpenSpiel has no annotations
    """The rules as OpenSpiel's game; the parameters are the options of the plug-in ``simple_negotiation``."""

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        given = {**DEFAULTS, **(params or {})}
        self.turns, self.largest = int(given["turns"]), int(given["largest"])
        self.drawn, self.outcome = given["values"] == "drawn", str(given["outcome"])
        most = 1.0 if self.outcome == "sign" else MOST
        info = pyspiel.GameInfo(
            num_distinct_actions=DENY + 1 + len(offers(self.largest)),
            max_chance_outcomes=len(VALUES) if self.drawn else 0,
            num_players=2,
            min_utility=-most,
            max_utility=most,
            utility_sum=0.0 if self.outcome == "sign" else None,
            max_game_length=self.turns,
        )
        super().__init__(game_type(given["values"], self.outcome), info, given)

    def new_initial_state(self) -> NegotiationState:
        """Return the state before the first turn, and before the values are drawn if they are."""
        return NegotiationState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> NegotiationObserver:
        """Return what writes information states."""
        return NegotiationObserver()


class NegotiationState(pyspiel.State):  # type: ignore[misc]
    """A state of OpenSpiel's kind; ``table`` is the whole position."""

    def __init__(self, game: NegotiationGame) -> None:
        super().__init__(game)
        self.turns, self.largest, self.outcome = game.turns, game.largest, game.outcome
        self.table = Table(() if game.drawn else FIXED)

    def current_player(self) -> int:
        """Return the seat to act, chance or the end."""
        player: int = pyspiel.PlayerId.CHANCE if len(self.table.values) < 2 else self.table.seat
        terminal: int = pyspiel.PlayerId.TERMINAL
        return terminal if self.is_terminal() else player

    def is_terminal(self) -> bool:
        """Return whether all turns have been taken."""
        return len(self.table.actions) >= self.turns

    def _legal_actions(self, player: int) -> list[int]:
        """Return the legal action ids, ascending."""
        table = self.table
        answers = [ACCEPT, DENY] if table.offer else [DENY]
        return [*answers, *feasible(self.largest, table.holdings[player], table.holdings[1 - player])]

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return the values a seat can have, all equally likely; seat 0 draws first."""
        return [(entry, 1.0 / len(VALUES)) for entry in range(len(VALUES))]

    def _apply_action(self, action: int) -> None:
        """Set a seat's values or carry out an action."""
        index, table = int(action), self.table
        self.table = table._replace(values=(*table.values, index)) if len(table.values) < 2 else table.after(index, self.largest)

    def _action_to_string(self, player: int, action: int) -> str:
        """Return the name of an action or of values."""
        if player < 0:
            return _goods(VALUES[action])
        return ("accept", "deny")[action] if action <= DENY else offers(self.largest)[action - DENY - 1].word

    def returns(self) -> list[float]:
        """Return the gains so far, or at the end who gained more."""
        if self.outcome == "gain":
            return [float(gain) for gain in self.table.gains()] if len(self.table.values) == 2 else [0.0, 0.0]
        if not self.is_terminal():
            return [0.0, 0.0]
        first, second = self.table.gains()
        sign = (first > second) - (first < second)
        return [float(sign), float(-sign)]

    def rewards(self) -> list[float]:
        """Return what the last action paid."""
        return [float(paid) for paid in self.table.paid] if self.outcome == "gain" else self.returns()

    def __str__(self) -> str:
        """Return the position with nothing hidden."""
        table = self.table
        seats = " / ".join(f"{_goods(VALUES[entry])} holds {_goods(table.holdings[seat])}" for seat, entry in enumerate(table.values))
        return f"turn {len(table.actions)}: {seats}: {table.offer.word if table.offer else 'no offer'}"


class NegotiationObserver:
    """Writes information states: the seat's own values and all actions."""

    tensor = None

    def __init__(self) -> None:
        self.dict: dict[str, Any] = {}

    def set_from(self, state: NegotiationState, player: int) -> None:
        """Do nothing: there is no tensor."""

    def string_from(self, state: NegotiationState, player: int) -> str:
        """Return the seat's information state, with perfect recall."""
        table = state.table
        values = _goods(VALUES[table.values[player]]) if len(table.values) > player else ""
        return f"{player} {values}:" + "".join(f" {state._action_to_string(0, action)}" for action in table.actions)


def _goods(numbers: tuple[int, int]) -> str:
    """Return a number for wood and one for gold."""
    return f"wood {numbers[0]} gold {numbers[1]}"


if NAME not in pyspiel.registered_names():
    pyspiel.register_game(game_type("fixed", "sign"), NegotiationGame)
