"""Signalling: one seat knows a colour and sends signals, and the other seat guesses it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.drawing.boards import discs
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import TimelineMessage, timeline
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import entry_of

NAME = "signalling"  # the name registered with OpenSpiel
TYPES = ("red", "green", "blue")
SIGNALS = ("ping", "pong", "pang")
ASK = "ask"
SENDER, RECEIVER = 0, 1


@dataclass(frozen=True, kw_only=True)
class SignallingOptions:
    """Options of ``signalling``."""

    types: Literal[2, 3] = 2
    signals: Literal[2, 3] = 2
    rounds: Annotated[int, Field(ge=0, le=4)] = 1
    cost: Annotated[float, Field(ge=0, le=1)] = 0.1
    bonus: Annotated[float, Field(ge=0, le=1)] = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SignallingTable(SignallingOptions, Table):
    """A position: the colour, -1 before the draw, and the action ids so far."""

    colour: int = -1
    moves: tuple[int, ...] = ()  # the ids of signals come first, then guesses, then "ask"

    @property
    def ask(self) -> int:
        """The action id of "ask"."""
        return self.signals + self.types

    @property
    def num_questions(self) -> int:
        """Number of times that the receiver asked."""
        return self.moves.count(self.ask)

    @property
    def player(self) -> int:
        if self.colour < 0:
            return CHANCE
        if self.moves and self.signals <= self.moves[-1] < self.ask:
            return TERMINAL
        return len(self.moves) % 2

    def legal(self) -> list[int]:
        """Return the signals, or the guesses and, while questions remain, "ask"."""
        if len(self.moves) % 2 == SENDER:
            return list(range(self.signals))
        return list(range(self.signals, self.ask + (self.num_questions < self.rounds)))

    def draws(self) -> range:
        return range(self.types)

    def after(self, index: int) -> SignallingTable:
        if self.colour < 0:
            return replace(self, colour=index)
        return replace(self, moves=(*self.moves, index))

    def returns(self) -> list[float]:
        """Return 1 for a right guess, minus the cost of questions, plus the signal's bonus."""
        if self.player != TERMINAL:
            return [0.0, 0.0]
        is_right = self.moves[-1] - self.signals == self.colour
        bonus = self.bonus * (self.moves[0] == self.colour)
        return [is_right - self.cost * self.num_questions + bonus] * 2

    def name_of(self, player: int, index: int) -> str:
        if player < 0:
            return TYPES[index]
        words: tuple[str, ...] = (*SIGNALS[: self.signals], *TYPES[: self.types], ASK)
        return words[index]

    def key(self, seat: int) -> str:
        """Return all actions, and the colour if the seat is the sender."""
        return f"{seat}{self._colour_name() if seat == SENDER else ''}:" + "".join(
            f" {self.name_of(0, move)}" for move in self.moves
        )

    def view(self, seat: int) -> str:
        """Return the number of questions; for the sender the colour, else the last signal."""
        signals = [self.name_of(0, move) for move in self.moves if move < self.signals]
        word = self._colour_name() if seat == SENDER else "".join(signals[-1:])
        return f"{word} asked {self.num_questions}"

    def _colour_name(self) -> str:
        return TYPES[self.colour] if self.colour >= 0 else ""

    def __str__(self) -> str:
        """Return the colour and all actions."""
        return self.key(SENDER)


def rules(options: SignallingOptions) -> Rules:
    """Return the numbers of actions and turns, the bounds of payoffs, and the first table."""
    return Rules(
        opening=SignallingTable(**asdict(options)),
        actions=options.signals + options.types + 1,
        outcomes=options.types,
        length=2 * (options.rounds + 1),
        least=-options.cost * options.rounds,
        most=1.0 + options.bonus,
        utility="identical",
        views=True,
    )


register(NAME, SignallingOptions, rules)


class Signalling(Game):
    """Signalling for 2 seats: a sender signals a colour, and a receiver guesses it or asks again.

    Both seats get the same payoff. The receiver can ask for another signal, so episodes differ in
    length. With as many signals as colours an optimal team never asks and earns 1. With 3 colours,
    2 signals, one round and a cost of 0.1 an optimal team uses one signal for one colour, asks
    after the other signal, and earns 1 - 0.2 / 3.

    Args:
        types: number of colours, all equally likely.
        signals: number of signals.
        rounds: largest number of questions of the receiver, 0 to 4.
        cost: cost of a question for both seats, 0 to 1, paid at the end.
        bonus: added to both payoffs if the first signal is the colour's own signal, 0 to 1: ping
            for red, pong for green, pang for blue. 0 (default): signals have no meaning at
            the start, and a sender cannot learn while the receiver ignores the signals.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range.

    Reference: Lewis, "Convention", 1969 (types, signals and one guess, without questions).
    """

    title = "signalling"

    def __init__(self, options: SignallingOptions, *, style: Style = "brief") -> None:
        spiel, rounds = load(NAME, asdict(options)), options.rounds
        signals = SIGNALS[: options.signals]
        words = (*signals, *TYPES[: options.types], ASK)
        super().__init__(spiel, name=NAME, roles=("sender", "receiver"), words=words, style=style)
        self.types = TYPES[: options.types]
        ask_text = (
            (
                f" or choose 'ask' for one more signal, at most {rounds} time(s), each at a cost "
                f"of {options.cost:g} to both"
            )
            if rounds
            else ""
        )
        self.rules = (
            "We play a cooperative signalling game. One colour is drawn, all equally "
            f"likely: {', '.join(self.types)}. Only 'sender' sees it and sends a "
            f"signal: {', '.join(signals)}. {_signal_meanings(options)} "
            f"Then 'receiver' may guess the colour{ask_text}. The guess ends the game: both "
            "players get 1 point if it is right and 0 if it is wrong"
            f"{', minus all costs' if rounds else ''}."
        )

    def private_words(self) -> tuple[str, ...]:
        return self.types

    def private(self, state: State, seat: int) -> str:
        """Return the colour for the sender, "" for the receiver."""
        if seat != SENDER or not state.trail:
            return ""
        colour = TYPES[state.trail[0].action]
        return colour if self.brief else f"The colour is {colour}."

    def on_table(self, state: State, seat: int) -> str:
        """Return the signals and questions so far."""
        return f"Said so far: {self.actions_so_far(state)}."

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        self.paint_seats(canvas, state, seat)
        colour = TYPES[state.table.colour] if seat in (None, SENDER) else ""
        discs(canvas, "colour", [(colour[:1] or "?", colour or "none")], after=colour or "hidden")
        messages = [
            TimelineMessage(
                self.roles[event.player], self.words[event.action], seat_colour(event.player)
            )
            for event in state.trail
            if event.player >= 0
        ]
        timeline(canvas, messages)

    def describe(self, state: State, seat: int | None) -> str:
        colour = f"The colour is {TYPES[state.table.colour]}." if seat in (None, SENDER) else ""
        texts = (colour, self.on_table(state, 0), self.payoff_line(state, seat))
        return " ".join(text for text in (self.due_text(state), *texts) if text)

    def revealed(self, state: State) -> str:
        return f"The colour was {TYPES[state.trail[0].action]}."


def _signal_meanings(options: SignallingOptions) -> str:
    if not options.bonus:
        return "The signals have no meaning of their own."
    pairs = zip(SIGNALS[: options.signals], TYPES[: options.types], strict=False)
    meanings = ", ".join(f"{signal!r} for {colour}" for signal, colour in pairs)
    return (
        f"A colour's own signal ({meanings}), sent first, adds {options.bonus:g} to what both get."
    )


signalling = entry_of(Signalling, SignallingOptions)
