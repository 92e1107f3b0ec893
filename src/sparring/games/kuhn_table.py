"""Kuhn poker over several rounds as an OpenSpiel game: the rules only, no wording.

OpenSpiel has the single round; this is the repeated game, written against OpenSpiel's interface for games in Python.
Everything a state knows is one immutable ``Table``, so that copies of a state are cheap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyspiel

SUPPORT = True

NAME = "kuhn_rounds"  # the name registered with OpenSpiel
CHECK, BET, CALL, FOLD = range(4)
ACTIONS = ("check", "bet", "call", "fold")
CARDS = ("J", "Q", "K")
LEGAL = {(): [CHECK, BET], (CHECK,): [CHECK, BET], (BET,): [CALL, FOLD], (CHECK, BET): [CALL, FOLD]}  # by the round's actions
OUTCOMES = ("chips", "sign", "last_round")


class Round(NamedTuple):
    """One round: cards by seat (fewer than two while dealing) and actions so far; ``starter`` acts first."""

    starter: int
    cards: tuple[int, ...] = ()
    actions: tuple[int, ...] = ()

    @property
    def over(self) -> bool:
        """Whether the round has ended."""
        return bool(self.actions) and self.actions not in LEGAL

    @property
    def seat(self) -> int:
        """The seat to act, or the one that would be if the round went on."""
        return (self.starter + len(self.actions)) % 2

    @property
    def shown(self) -> bool:
        """Whether the round has ended with both cards on the table."""
        return self.over and self.actions[-1] != FOLD

    def bets(self, seat: int) -> int:
        """Return the chips that a seat has put into the pot, its ante of one included."""
        return 1 + any(action in (BET, CALL) for action in self.actions[(seat - self.starter) % 2 :: 2])

    def gain(self) -> int:
        """Return the chips that seat 0 wins in this round, negative if it loses them; 0 while the round goes on."""
        if not self.over:
            return 0
        if self.actions[-1] == FOLD:  # the one who folded is the last who acted; the pot held one chip of it
            return 1 if self.seat == 0 else -1
        chips = self.bets(0)
        return chips if self.cards[0] > self.cards[1] else -chips


class Table(NamedTuple):
    """A position: all rounds up to the current one, and seat 0's net chips from the rounds that have ended."""

    rounds: tuple[Round, ...] = (Round(0),)
    chips: int = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        """Return the table itself: it never changes."""
        return self

    def after(self, index: int, total: int) -> Table:
        """Return the table after a card or an action, in a game of ``total`` rounds."""
        *before, last = self.rounds
        if len(last.cards) < 2:
            return Table((*before, last._replace(cards=(*last.cards, index))), self.chips)
        last = last._replace(actions=(*last.actions, index))
        rounds = (*before, last)
        if last.over and len(rounds) < total:
            rounds = (*rounds, Round(1 - last.starter))
        return Table(rounds, self.chips + last.gain())


def game_type(outcome: str) -> pyspiel.GameType:
    """Return OpenSpiel's description of the game: chips are paid round by round, the other outcomes at the end."""
    model = pyspiel.GameType.RewardModel
    return pyspiel.GameType(
        short_name=NAME,
        long_name="Kuhn poker over several rounds",
        dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
        chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
        information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
        utility=pyspiel.GameType.Utility.ZERO_SUM,
        reward_model=model.REWARDS if outcome == "chips" else model.TERMINAL,
        max_num_players=2,
        min_num_players=2,
        provides_information_state_string=True,
        provides_information_state_tensor=False,
        provides_observation_string=False,
        provides_observation_tensor=False,
        parameter_specification={"rounds": 5, "outcome": "chips"},
    )


class KuhnRoundsGame(pyspiel.Game):  # type: ignore[misc]  # OpenSpiel has no annotations
    """The rules as OpenSpiel's game; parameters ``rounds`` and ``outcome``, as in the plug-in ``kuhn_rounds``."""

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        given = {"rounds": 5, "outcome": "chips", **(params or {})}
        self.rounds, self.outcome = int(given["rounds"]), str(given["outcome"])
        most = 2.0 * self.rounds if self.outcome == "chips" else 1.0
        info = pyspiel.GameInfo(
            num_distinct_actions=len(ACTIONS),
            max_chance_outcomes=len(CARDS),
            num_players=2,
            min_utility=-most,
            max_utility=most,
            utility_sum=0.0,
            max_game_length=3 * self.rounds,
        )
        super().__init__(game_type(self.outcome), info, given)

    def new_initial_state(self) -> KuhnRoundsState:
        """Return the state before the first card."""
        return KuhnRoundsState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> KuhnRoundsObserver:
        """Return what writes information states."""
        return KuhnRoundsObserver()


class KuhnRoundsState(pyspiel.State):  # type: ignore[misc]
    """A state of OpenSpiel's kind; ``table`` is the whole position."""

    def __init__(self, game: KuhnRoundsGame) -> None:
        super().__init__(game)
        self.table = Table()
        self.total, self.outcome = game.rounds, game.outcome

    def current_player(self) -> int:
        """Return the seat to act, chance or the end."""
        last = self.table.rounds[-1]
        if len(last.cards) < 2:
            chance: int = pyspiel.PlayerId.CHANCE
            return chance
        terminal: int = pyspiel.PlayerId.TERMINAL
        return terminal if last.over else last.seat

    def is_terminal(self) -> bool:
        """Return whether the last round has ended."""
        return self.table.rounds[-1].over

    def _legal_actions(self, player: int) -> list[int]:
        """Return the legal action ids, ascending."""
        return LEGAL[self.table.rounds[-1].actions]

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return the cards that are left, all equally likely; seat 0 is dealt first."""
        left = [card for card in range(len(CARDS)) if card not in self.table.rounds[-1].cards]
        return [(card, 1.0 / len(left)) for card in left]

    def _apply_action(self, action: int) -> None:
        """Deal a card or carry out an action."""
        self.table = self.table.after(int(action), self.total)

    def _action_to_string(self, player: int, action: int) -> str:
        """Return the name of an action or a card."""
        return CARDS[action] if player < 0 else ACTIONS[action]

    def returns(self) -> list[float]:
        """Return the payoffs so far: chips as they were won, or the outcome's sign once the game is over."""
        value = self.table.chips
        if self.outcome != "chips":
            if not self.is_terminal():
                return [0.0, 0.0]
            value = self.table.rounds[-1].gain() if self.outcome == "last_round" else value
            value = (value > 0) - (value < 0)
        return [float(value), float(-value)]

    def rewards(self) -> list[float]:
        """Return what the last action of a seat paid."""
        if self.outcome != "chips":
            return self.returns()
        rounds = self.table.rounds
        chips = rounds[-2].gain() if len(rounds) > 1 and not rounds[-1].actions else rounds[-1].gain()
        return [float(chips), float(-chips)]

    def __str__(self) -> str:
        """Return the position with nothing hidden."""
        return " / ".join(f"{_cards(item.cards)} {_actions(item)}".strip() for item in self.table.rounds)


class KuhnRoundsObserver:
    """Writes information states: own cards, all actions, and the other card of every round that was shown."""

    tensor = None

    def __init__(self) -> None:
        self.dict: dict[str, Any] = {}

    def set_from(self, state: KuhnRoundsState, player: int) -> None:
        """Do nothing: there is no tensor."""

    def string_from(self, state: KuhnRoundsState, player: int) -> str:
        """Return the seat's information state, with perfect recall."""
        parts = []
        for item in state.table.rounds:
            other = f">{CARDS[item.cards[1 - player]]}" if item.shown else ""
            parts.append(f"{_cards(item.cards[player : player + 1])}{_actions(item)}{other}")
        return f"{player}:{'/'.join(parts)}"


def _cards(cards: tuple[int, ...]) -> str:
    """Return cards as letters."""
    return "".join(CARDS[card] for card in cards)


def _actions(item: Round) -> str:
    """Return a round's actions as a few letters: k(check), b(et), c(all), f(old)."""
    return "".join("kbcf"[action] for action in item.actions)


if NAME not in pyspiel.registered_names():
    pyspiel.register_game(game_type("chips"), KuhnRoundsGame)
