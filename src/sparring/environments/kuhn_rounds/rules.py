"""Kuhn poker over several rounds as an OpenSpiel game: the rules only, no wording.

OpenSpiel has the single round; this is the repeated game.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register

NAME = "kuhn_rounds"  # the name registered with OpenSpiel
CHECK, BET, CALL, FOLD = range(4)
ACTIONS = ("check", "bet", "call", "fold")
CARDS = ("J", "Q", "K")
# by the round's actions
LEGAL = {(): [CHECK, BET], (CHECK,): [CHECK, BET], (BET,): [CALL, FOLD], (CHECK, BET): [CALL, FOLD]}


class Round(NamedTuple):
    """One round: cards by seat (fewer than two while dealing) and actions so far.

    ``starter`` acts first.
    """

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
        return 1 + any(
            action in (BET, CALL) for action in self.actions[(seat - self.starter) % 2 :: 2]
        )

    def gain(self) -> int:
        """Return the chips that seat 0 wins in this round, negative if it loses them.

        It is 0 while the round goes on.
        """
        if not self.over:
            return 0
        # the one who folded is the last who acted; the pot held one chip of it
        if self.actions[-1] == FOLD:
            return 1 if self.seat == 0 else -1
        chips = self.bets(0)
        return chips if self.cards[0] > self.cards[1] else -chips


@dataclass(frozen=True, kw_only=True)
class KuhnOptions:
    """Options of ``kuhn_rounds``."""

    rounds: Annotated[int, Field(ge=1, le=100)] = 5
    outcome: Literal["chips", "sign", "last_round"] = "chips"


@dataclass(frozen=True, slots=True)
class KuhnTable(Table):
    """A position: all rounds up to the current one, and seat 0's net chips.

    The chips are from the rounds that have ended.
    """

    total: int  # rounds in the game
    outcome: str
    rounds: tuple[Round, ...] = (Round(0),)
    chips: int = 0

    @property
    def player(self) -> int:
        """The seat to act, chance or the end."""
        last = self.rounds[-1]
        if len(last.cards) < 2:
            return CHANCE
        return TERMINAL if last.over else last.seat

    def legal(self) -> list[int]:
        """Return the legal action ids."""
        return LEGAL[self.rounds[-1].actions]

    def draws(self) -> list[int]:
        """Return the cards that are left; seat 0 is dealt first."""
        return [card for card in range(len(CARDS)) if card not in self.rounds[-1].cards]

    def after(self, index: int) -> KuhnTable:
        """Return the table after a card or an action."""
        *before, last = self.rounds
        if len(last.cards) < 2:
            return replace(self, rounds=(*before, last._replace(cards=(*last.cards, index))))
        last = last._replace(actions=(*last.actions, index))
        rounds = (*before, last)
        if last.over and len(rounds) < self.total:
            rounds = (*rounds, Round(1 - last.starter))
        return replace(self, rounds=rounds, chips=self.chips + last.gain())

    def returns(self) -> list[float]:
        """Return the payoffs so far.

        Chips as they were won, or the outcome's sign once the game is over.
        """
        value = self.chips
        if self.outcome != "chips":
            if self.player != TERMINAL:
                return [0.0, 0.0]
            value = self.rounds[-1].gain() if self.outcome == "last_round" else value
            value = (value > 0) - (value < 0)
        return [float(value), float(-value)]

    def rewards(self) -> list[float]:
        """Return what the last action of a seat paid."""
        if self.outcome != "chips":
            return self.returns()
        rounds = self.rounds
        chips = (
            rounds[-2].gain() if len(rounds) > 1 and not rounds[-1].actions else rounds[-1].gain()
        )
        return [float(chips), float(-chips)]

    def name_of(self, player: int, index: int) -> str:
        """Return the name of an action or a card."""
        return CARDS[index] if player < 0 else ACTIONS[index]

    def key(self, seat: int) -> str:
        """Return the seat's information state.

        Own cards, all actions, and the other card of every round that was shown.
        """
        parts = []
        for item in self.rounds:
            other = f">{CARDS[item.cards[1 - seat]]}" if item.shown else ""
            parts.append(f"{_cards(item.cards[seat : seat + 1])}{_actions(item)}{other}")
        return f"{seat}:{'/'.join(parts)}"

    def __str__(self) -> str:
        """Return the position with nothing hidden."""
        return " / ".join(f"{_cards(item.cards)} {_actions(item)}".strip() for item in self.rounds)


def rules(options: KuhnOptions) -> Rules:
    """Return the facts of the game.

    Chips are paid round by round, the other outcomes at the end.
    """
    rounds, outcome = options.rounds, options.outcome
    most = 2.0 * rounds if outcome == "chips" else 1.0
    return Rules(
        opening=KuhnTable(rounds, outcome),
        actions=len(ACTIONS),
        outcomes=len(CARDS),
        length=3 * rounds,
        least=-most,
        most=most,
        utility="zero_sum",
        stepwise=outcome == "chips",
    )


def _cards(cards: tuple[int, ...]) -> str:
    """Return cards as letters."""
    return "".join(CARDS[card] for card in cards)


def _actions(item: Round) -> str:
    """Return a round's actions as a few letters: k(check), b(et), c(all), f(old)."""
    return "".join("kbcf"[action] for action in item.actions)


register(NAME, KuhnOptions, rules)
