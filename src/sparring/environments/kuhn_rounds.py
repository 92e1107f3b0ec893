"""Kuhn poker of several rounds: chips accumulate, and the seats take turns to act first."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from sparring.environments.drawing.boards import Card, cards
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import heading, paragraph, strip, table
from sparring.environments.openspiel.base import Event, Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import entry_of

NAME = "kuhn_rounds"  # the name registered with OpenSpiel
CHECK, BET, CALL, FOLD = range(4)
ACTIONS = ("check", "bet", "call", "fold")
CARDS = ("J", "Q", "K")
# actions of the round so far -> legal actions
MOVES = {(): [CHECK, BET], (CHECK,): [CHECK, BET], (BET,): [CALL, FOLD], (CHECK, BET): [CALL, FOLD]}


class PokerRound(NamedTuple):
    """One round: the seat that acts first, the cards by seat, and the actions so far."""

    starter: int
    cards: tuple[int, ...] = ()
    actions: tuple[int, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the round has ended."""
        return bool(self.actions) and self.actions not in MOVES

    @property
    def seat(self) -> int:
        """The seat to act; after the end, the seat that did not act last."""
        return (self.starter + len(self.actions)) % 2

    @property
    def has_showdown(self) -> bool:
        """Whether the round has ended with both cards on the table."""
        return self.is_over and self.actions[-1] != FOLD

    def bets(self, seat: int) -> int:
        """Return the chips that a seat has put into the pot, its ante of one included."""
        return 1 + any(
            action in (BET, CALL) for action in self.actions[(seat - self.starter) % 2 :: 2]
        )

    def net_chips(self) -> int:
        """Return the chips that seat 0 wins in this round (below 0: loses); 0 before the end."""
        if not self.is_over:
            return 0
        # the seat that acted last folded, and loses its ante
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
    """A position: all rounds so far, and seat 0's net chips from finished rounds."""

    num_rounds: int  # number of rounds of the game
    outcome: str
    rounds: tuple[PokerRound, ...] = (PokerRound(0),)
    chips: int = 0

    @property
    def player(self) -> int:
        this_round = self.rounds[-1]
        if len(this_round.cards) < 2:
            return CHANCE
        return TERMINAL if this_round.is_over else this_round.seat

    def legal(self) -> list[int]:
        return MOVES[self.rounds[-1].actions]

    def draws(self) -> list[int]:
        return [card for card in range(len(CARDS)) if card not in self.rounds[-1].cards]

    def after(self, index: int) -> KuhnTable:
        *earlier_rounds, this_round = self.rounds
        if len(this_round.cards) < 2:
            this_round = this_round._replace(cards=(*this_round.cards, index))
            return replace(self, rounds=(*earlier_rounds, this_round))
        this_round = this_round._replace(actions=(*this_round.actions, index))
        rounds = (*earlier_rounds, this_round)
        if this_round.is_over and len(rounds) < self.num_rounds:
            rounds = (*rounds, PokerRound(1 - this_round.starter))
        return replace(self, rounds=rounds, chips=self.chips + this_round.net_chips())

    def returns(self) -> list[float]:
        """Return the chips won so far; with other outcomes 0, but at the end 1, 0 or -1."""
        value = self.chips
        if self.outcome != "chips":
            if self.player != TERMINAL:
                return [0.0, 0.0]
            value = self.rounds[-1].net_chips() if self.outcome == "last_round" else value
            value = (value > 0) - (value < 0)
        return [float(value), float(-value)]

    def rewards(self) -> list[float]:
        """Return the payoffs of the last action, by seat."""
        if self.outcome != "chips":
            return self.returns()
        rounds = self.rounds
        paid_round = rounds[-2] if len(rounds) > 1 and not rounds[-1].actions else rounds[-1]
        chips = paid_round.net_chips()
        return [float(chips), float(-chips)]

    def name_of(self, player: int, index: int) -> str:
        return CARDS[index] if player < 0 else ACTIONS[index]

    def key(self, seat: int) -> str:
        """Return the seat's cards, all actions, and the other seat's cards that were shown."""
        parts = []
        for poker_round in self.rounds:
            shown_card = (
                f">{CARDS[poker_round.cards[1 - seat]]}" if poker_round.has_showdown else ""
            )
            card = _cards_text(poker_round.cards[seat : seat + 1])
            parts.append(f"{card}{_actions_text(poker_round)}{shown_card}")
        return f"{seat}:{'/'.join(parts)}"

    def __str__(self) -> str:
        """Return the position with nothing hidden."""
        return " / ".join(
            f"{_cards_text(poker_round.cards)} {_actions_text(poker_round)}".strip()
            for poker_round in self.rounds
        )


def rules(options: KuhnOptions) -> Rules:
    """Return the numbers of actions and turns of the game, its payoffs and its first table."""
    rounds, outcome = options.rounds, options.outcome
    largest_payoff = 2.0 * rounds if outcome == "chips" else 1.0
    return Rules(
        opening=KuhnTable(rounds, outcome),
        actions=len(ACTIONS),
        outcomes=len(CARDS),
        length=3 * rounds,
        least=-largest_payoff,
        most=largest_payoff,
        utility="zero_sum",
        stepwise=outcome == "chips",
    )


def _cards_text(cards: tuple[int, ...]) -> str:
    return "".join(CARDS[card] for card in cards)


def _actions_text(poker_round: PokerRound) -> str:
    """Return a round's actions as a few letters: k(check), b(et), c(all), f(old)."""
    return "".join("kbcf"[action] for action in poker_round.actions)


register(NAME, KuhnOptions, rules)


NAMES = {"J": "Jack", "Q": "Queen", "K": "King"}
DEAL, SHOWS = "deal", "shows"  # brief words before a seat's card, and before the other seat's card
AIMS = {
    "chips": "Your result is the number of chips you have won or lost over all rounds.",
    "sign": (
        "Whoever has won chips from the other after all rounds wins the game; with equal chips it "
        "is a draw."
    ),
    "last_round": "Whoever wins the last round wins the game, whatever the chips.",
}
MAX_DRAWN_ROUNDS = 8  # largest number of earlier rounds in a picture


class KuhnRounds(Game):
    """Kuhn poker of several rounds for 2 seats: chips add up, and seats act first in turn.

    Args:
        rounds: number of rounds, 1 to 100; every round is dealt from the full deck, with an ante of
            1 chip.
        outcome: the payoff of an episode. "chips": net chips, paid at the end of each round;
            "sign": +1, -1 or 0 at the end for more, fewer or equal chips; "last_round": +1 to the
            winner of the last round and -1 to the other seat. The code of SPIRAL's authors pays
            "last_round" by mistake, as its rules in the prompt say "sign".
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range.

    Reference: Liu et al., "SPIRAL: self-play on zero-sum games incentivizes reasoning", 2025
    (rounds=5); in SPIRAL seat 1 starts.
    """

    title = "kuhnrounds"

    def __init__(self, options: KuhnOptions, *, style: Style = "brief") -> None:
        spiel, rounds = load(NAME, asdict(options)), options.rounds
        super().__init__(
            spiel, name="kuhn_rounds", roles=("seat0", "seat1"), words=ACTIONS, style=style
        )
        self.rounds, self.outcome = rounds, options.outcome
        self.rules = (
            f"We play {rounds} round(s) of Kuhn poker with 2 players. The deck holds 3 cards, "
            "from low to high: Jack, Queen, King. In every round each player pays one chip into "
            "the pot and receives one private card from the full deck; 'seat0' acts first in "
            "round 1, and then the players take turns to act first. While nobody has bet, 'check' "
            "passes and 'bet' adds one chip to the pot; two checks end the round. After a bet, "
            "'call' matches it with one chip and ends the round, and 'fold' gives up the pot. "
            "Unless someone folds, both cards are shown at the end of the round and the higher "
            f"card takes the pot. {AIMS[self.outcome]}"
        )

    def private_words(self) -> tuple[str, ...]:
        return (*CARDS, DEAL, SHOWS)

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the seat's cards, the actions, and how rounds ended, from ply ``since`` on."""
        texts, ply = [], 0
        for number, poker_round in enumerate(state.table.rounds):
            if ply >= since and len(poker_round.cards) > seat:
                texts.append(self._deal_text(number, poker_round, seat))
            for turn, action in enumerate(poker_round.actions):
                player = (poker_round.starter + turn) % 2
                if not since or (ply >= since and player != seat):
                    texts.append(self.action_event(state, seat, Event(ply, player, action)))
                ply += 1
            if poker_round.is_over and ply >= since:
                texts += self._result_texts(poker_round, seat)
        return texts

    def _deal_text(self, number: int, poker_round: PokerRound, seat: int) -> str:
        card = CARDS[poker_round.cards[seat]]
        if self.brief:
            return f"{DEAL} {card}"
        role = self.roles[poker_round.starter]
        starter = "you act" if poker_round.starter == seat else f"{role!r} acts"
        return (
            f"Round {number + 1} of {self.rounds}: your card is the {NAMES[card]} and {starter} "
            "first."
        )

    def _result_texts(self, poker_round: PokerRound, seat: int) -> list[str]:
        card = CARDS[poker_round.cards[1 - seat]]
        if self.brief:
            return [f"{SHOWS} {card}"] if poker_round.has_showdown else []
        chips = poker_round.net_chips() if seat == 0 else -poker_round.net_chips()
        reveal = f"The other player shows the {NAMES[card]}. " if poker_round.has_showdown else ""
        return [f"{reveal}You {'win' if chips > 0 else 'lose'} {abs(chips)} chip(s) in this round."]

    def position(self, state: State, seat: int) -> str:
        table = state.table
        chips = table.chips if seat == 0 else -table.chips
        chips_text = f"Chips you have won or lost in all rounds so far: {chips:+d}."
        this_round = table.rounds[-1]
        if this_round.is_over:
            return chips_text
        return (
            f"{chips_text} Chips in the pot: {this_round.bets(seat)} from you, "
            f"{this_round.bets(1 - seat)} from the other player."
        )

    def on_table(self, state: State, seat: int) -> str:
        """Return the seat's card in the current round."""
        this_round = state.table.rounds[-1]
        return (
            ""
            if this_round.is_over or len(this_round.cards) <= seat
            else f"Your card: {NAMES[CARDS[this_round.cards[seat]]]}."
        )

    def revealed(self, state: State) -> str:
        hands = (poker_round.cards for poker_round in state.table.rounds)
        rounds = [cards for cards in hands if len(cards) == len(self.roles)]
        deals = (" ".join(CARDS[card] for card in cards) for cards in rounds)
        return f"The cards of each round, {' and '.join(self.roles)}: {', '.join(deals)}."

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        chips = state.table.chips
        self.paint_seats(canvas, state, seat, {0: f"{chips:+d} chips", 1: f"{-chips:+d} chips"})
        position, roles = state.table, self.roles
        *earlier_rounds, this_round = position.rounds
        pot = "" if this_round.is_over else f"pot {this_round.bets(0)} + {this_round.bets(1)}"
        heading(canvas, f"Round {len(position.rounds)} of {position.num_rounds}", pot)
        for player, role in enumerate(roles):
            card = Card(_visible_card(this_round, player, seat))
            cards(canvas, role, [card], colour=seat_colour(player), height=50)
        if this_round.actions:
            colours = [seat_colour((this_round.starter + turn) % 2) for turn in (0, 1)]
            strip(
                canvas,
                [(ACTIONS[action], colours[i % 2]) for i, action in enumerate(this_round.actions)],
            )
        else:
            paragraph(canvas, f"{roles[this_round.starter]} acts first.", colour="dim")
        if earlier_rounds:
            num_hidden = max(0, len(earlier_rounds) - MAX_DRAWN_ROUNDS)
            heading(canvas, "Rounds before", f"{num_hidden} more" if num_hidden else "")
            rows = [("", *roles, "actions", roles[0])]
            for number, poker_round in enumerate(earlier_rounds[num_hidden:], start=num_hidden + 1):
                hands = (_visible_card(poker_round, player, seat) or "?" for player in (0, 1))
                action_words = " ".join(ACTIONS[action] for action in poker_round.actions)
                rows.append((str(number), *hands, action_words, f"{poker_round.net_chips():+d}"))
            table(canvas, rows, size=13, shares=(1, 1, 2.4, 1))

    def describe(self, state: State, seat: int | None) -> str:
        position, roles = state.table, self.roles
        this_round = position.rounds[-1]
        hands = [
            f"{role} holds {card}."
            for player, role in enumerate(roles)
            if (card := _visible_card(this_round, player, seat))
        ]
        action_words = ", ".join(
            f"{roles[(this_round.starter + turn) % 2]} {ACTIONS[action]}"
            for turn, action in enumerate(this_round.actions)
        )
        summary = " ".join(
            [
                f"Round {len(position.rounds)} of {position.num_rounds}.",
                *hands,
                f"Actions: {action_words or 'none'}.",
                f"{roles[0]} has won {position.chips:+d} chips so far.",
            ]
        )
        return f"{self.due_text(state)} {summary} {self.payoff_line(state, seat)}".strip()

    def stake(self, state: State, seat: int) -> float:
        """Return the seat's chips in the round's pot; 1 if chips are not the outcome."""
        bets: int = state.table.rounds[-1].bets(seat)
        return float(bets) if self.outcome == "chips" else 1.0


def _visible_card(poker_round: PokerRound, player: int, seat: int | None) -> str:
    if seat in (None, player) or poker_round.has_showdown:
        return CARDS[poker_round.cards[player]] if len(poker_round.cards) > player else ""
    return ""


kuhn_rounds = entry_of(KuhnRounds, KuhnOptions)
