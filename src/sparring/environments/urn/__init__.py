"""Urn: one seat draws balls from a hidden urn, then declares which urn it is."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.drawing.boards import discs
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph
from sparring.environments.openspiel.banks import BankGame
from sparring.environments.openspiel.base import State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.position import events_since
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import check_range, entry_of

NAME = "urn"  # the name registered with OpenSpiel
DRAW = "draw"
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
COLOURS = ("red", "blue", "green", "white")
# number of random orders of the contents to try before a set of urns counts as impossible
MAX_ORDERS = 200

Urns = tuple[tuple[int, ...], ...]  # the number of balls of each colour in each urn


@lru_cache(maxsize=1024)
def urns_of(urns: int, colours: int, balls: int, apart: int, bank: int, index: int) -> Urns:
    """Return set ``index`` of a bank: urns with all colours that differ in ``apart`` or more balls.

    The search visits contents in random order, and selects a content that is far enough from all
    selected ones. If the search fails for a set, the result is set 0.

    Raises:
        ConfigError: the search fails for set 0.
    """
    bars = itertools.combinations(range(1, balls), colours - 1)
    all_contents = [
        tuple(high - low for low, high in itertools.pairwise((0, *bar, balls))) for bar in bars
    ]
    stream = Stream.from_seed(bank).child(f"{NAME} {urns} {colours} {balls} {apart}").child(index)
    for attempt in range(MAX_ORDERS):
        contents: list[tuple[int, ...]] = []
        for number in stream.child(attempt).generator().permutation(len(all_contents)):
            if all(distance(all_contents[number], other) >= apart for other in contents):
                contents.append(all_contents[number])
            if len(contents) == urns:
                return tuple(contents)
    if index:
        return urns_of(urns, colours, balls, apart, bank, 0)
    raise ConfigError(
        f"urn: there are no {urns} urns of {balls} balls in {colours} colours with apart={apart}; "
        "write a smaller apart, fewer urns or more balls."
    )


def distance(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """Return the number of balls that must change colour to make one content the other."""
    return sum(abs(a - b) for a, b in zip(first, second, strict=True)) // 2


@dataclass(frozen=True, kw_only=True)
class UrnOptions:
    """Options of ``urn``."""

    urns: Annotated[int, Field(ge=2, le=len(NAMES))] = 2
    colours: Annotated[int, Field(ge=2, le=len(COLOURS))] = 2
    balls: Annotated[int, Field(le=20)] = 10
    apart: Annotated[int, Field(ge=1, le=20)] = 3
    draws: Annotated[int, Field(ge=1, le=20)] = 8
    cost: Annotated[float, Field(ge=0, le=1)] = 0.02
    sets: Annotated[int, Field(ge=1, le=10_000)] = 16
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0


@dataclass(frozen=True, slots=True)
class UrnTable(Table):
    """A position: the urns, the secret urn, the colours seen, and the declared urn.

    Action id 0 draws a ball, 1 + u declares urn u. Chance draws the set of urns, the secret urn,
    and the colour of each ball. Before these draws the contents are empty and ``secret`` is -1.
    """

    options: UrnOptions
    contents: Urns = ()
    secret: int = -1
    is_drawing: bool = False  # whether chance must now draw the ball that the seat asked for
    balls_seen: tuple[int, ...] = ()  # the colours of the balls, in order
    declared_urn: int = -1  # the urn that the seat has declared

    @property
    def start(self) -> Hashable:
        """The identity of the initial state: the contents of the urns, in any order."""
        return (self.options.balls, frozenset(self.contents))

    @property
    def player(self) -> int:
        if self.secret < 0 or self.is_drawing:
            return CHANCE
        return TERMINAL if self.declared_urn >= 0 else 0

    def legal(self) -> list[int]:
        """Return the draw, while draws are left, and a declaration of each urn."""
        first = 0 if len(self.balls_seen) < self.options.draws else 1
        return list(range(first, 1 + self.options.urns))

    def draws(self) -> range:
        if not self.contents:
            return range(self.options.sets)
        return range(self.options.urns if self.secret < 0 else self.options.colours)

    def chances(self) -> list[float]:
        """Return equal probabilities of sets and urns, or the hidden urn's shares of colours."""
        if self.secret < 0:
            return [1.0 / len(self.draws())] * len(self.draws())
        return [count / self.options.balls for count in self.contents[self.secret]]

    def after(self, index: int) -> UrnTable:
        if not self.contents:
            sizes = self.options.urns, self.options.colours, self.options.balls
            contents = urns_of(*sizes, self.options.apart, self.options.bank, index)
            return replace(self, contents=contents)
        if self.secret < 0:
            return replace(self, secret=index)
        if self.is_drawing:
            return replace(self, is_drawing=False, balls_seen=(*self.balls_seen, index))
        return replace(self, is_drawing=index == 0, declared_urn=index - 1)

    def returns(self) -> list[float]:
        """Return at the end 1 for the right urn, less the cost of the draws; 0 before."""
        if self.player != TERMINAL:
            return [0.0]
        return [float(self.declared_urn == self.secret) - self.options.cost * len(self.balls_seen)]

    def name_of(self, player: int, index: int) -> str:
        if player >= 0:
            return NAMES[index - 1] if index else DRAW
        if not self.contents:
            return f"set {index}"
        return NAMES[index] if self.secret < 0 else COLOURS[index]

    def sheet(self) -> tuple[tuple[str, ...], ...]:
        """Return the urns as words: each name with its number of balls per colour."""
        return tuple(
            (NAMES[number], *map(str, content)) for number, content in enumerate(self.contents)
        )

    def outcome(self) -> tuple[str, ...]:
        """Return ("right",), ("wrong", name of the urn), or () before the declaration."""
        if self.declared_urn < 0:
            return ()
        return ("right",) if self.declared_urn == self.secret else ("wrong", NAMES[self.secret])

    def counts(self) -> tuple[int, ...]:
        """Return the number of draws of each colour."""
        return tuple(self.balls_seen.count(colour) for colour in range(self.options.colours))

    def key(self, seat: int) -> str:
        """Return the urns, the colours drawn in order, and the outcome."""
        names = [COLOURS[colour] for colour in self.balls_seen]
        end = (
            [NAMES[self.declared_urn], *self.outcome()]
            if self.declared_urn >= 0
            else [DRAW]
            if self.is_drawing
            else []
        )
        return f"urns: {', '.join(map(' '.join, self.sheet()))}; drawn: {' '.join([*names, *end])}"

    def __str__(self) -> str:
        """Return the seat's information state and the hidden urn."""
        return f"{self.key(0)} hidden {NAMES[self.secret] if self.secret >= 0 else '?'}"


def rules(options: UrnOptions) -> Rules:
    """Return the numbers of actions and turns of the game, and its first table."""
    return Rules(
        opening=UrnTable(options),
        actions=1 + options.urns,
        outcomes=max(options.sets, options.urns, options.colours),
        length=options.draws + 1,
        least=0.0 - options.cost * options.draws,
        most=1.0,
        utility="identical",
        seats=1,
    )


register(NAME, UrnOptions, rules)


class Urn(BankGame):
    """Urn for 1 seat: find out by draws with replacement which of several known urns is hidden.

    Chance draws one of ``sets`` sets of urns, one urn of it, and every ball. An action is one word:
    "draw", or the name of an urn to declare it, which ends the episode. After ``draws`` draws only
    declarations are legal. No single draw is decisive, because each urn has every colour. In brief
    style the prompt begins with the urns, "alpha 7 3 beta 4 6", each with its balls in the order of
    the colours. With one set the prompt omits the urns, which are equal in every episode.

    Args:
        urns: number of urns, 2 to 6.
        colours: number of colours, 2 to 4: red, blue, green, white.
        balls: number of balls in each urn, at least ``colours`` and at most 20.
        apart: smallest number of balls that must change colour to make two urns equal, from 1;
            small numbers make hard games.
        draws: largest number of draws in one episode, 1 to 20.
        cost: cost of a draw, 0 to 1. The return is 1 for the right urn, 0 for a wrong one, less the
            cost of the draws.
        sets: number of sets of urns in the bank, 1 to 10,000.
        bank: seed of the bank: set number i depends on ``urns``, ``colours``, ``balls``, ``apart``,
            ``bank`` and i only.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or no urns with this ``apart``.

    Reference: Wald, "Sequential tests of statistical hypotheses", 1945; Arrow, Blackwell and
    Girshick, "Bayes and minimax solutions of sequential decision problems", 1949.
    """

    title = "urn"
    size_option = "sets"
    omits_only_start = True

    def __init__(self, options: UrnOptions, *, style: Style = "brief") -> None:
        check_range("urn: balls", options.balls, options.colours)
        words = (DRAW, *NAMES[: options.urns])
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("drawer",), words=words, style=style
        )
        self.table = self.first_table
        self.rules = _rules(options)
        self.first_node().child(0)  # raises ConfigError for impossible urns

    def private_words(self) -> tuple[str, ...]:
        options = self.table.options
        max_count = options.balls - options.colours + 1
        numbers = map(str, range(1, max_count + 1)) if options.sets > 1 else ()
        return (*COLOURS[: options.colours], *numbers, "right", "wrong")

    def private(self, state: State, seat: int) -> str:
        """Return the contents of the urns; brief style omits the only set of a bank."""
        table = state.table
        if self.brief:
            sheet = table.sheet() if table.options.sets > 1 else ()
            return " ".join(" ".join(words) for words in sheet)
        contents = []
        for name, *counts in table.sheet():
            balls = zip(counts, COLOURS, strict=False)
            contents.append(f"{name}: {', '.join(f'{count} {colour}' for count, colour in balls)}")
        return "\n".join(["The urns, one of which is hidden:", *contents])

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the colours drawn from ply ``since`` on, and the outcome."""
        table, texts = state.table, []
        balls = [
            event.action
            for event in events_since(state.trail, since)
            if event.player == CHANCE and event.ply
        ]
        for colour in balls:
            texts.append(COLOURS[colour] if self.brief else f"You drew a {COLOURS[colour]} ball.")
        if table.declared_urn >= 0:
            name, (verdict, *truth) = NAMES[table.declared_urn], table.outcome()
            if self.brief:
                return [*texts, *([] if since else [name]), verdict, *truth]
            texts.append(
                f"You declared {name}: {verdict}{f', it was {truth[0]}' if truth else ''}."
            )
        return texts

    def position(self, state: State, seat: int) -> str:
        table = state.table
        if state.done:
            return ""
        balls = ", ".join(
            f"{count} {colour}" for count, colour in zip(table.counts(), COLOURS, strict=False)
        )
        draws_left = table.options.draws - len(table.balls_seen)
        return f"Drawn so far: {balls}. You may draw {draws_left} more time(s)."

    def paint_table(self, canvas: Canvas, table: UrnTable, seat: int | None) -> None:
        heading(canvas, "Urns")
        for number, content in enumerate(table.contents):
            balls = [
                ball for colour, count in enumerate(content) for ball in [_disc_of(colour)] * count
            ]
            discs(canvas, NAMES[number], balls, radius=11)
        heading(canvas, "Drawn", f"{len(table.balls_seen)} of {table.options.draws}")
        blanks = [("", "none")] * (table.options.draws - len(table.balls_seen))
        discs(canvas, "", [*map(_disc_of, table.balls_seen), *blanks], radius=11)
        paragraph(canvas, _end_sentence(table, seat))

    def describe_table(self, table: UrnTable, seat: int | None) -> str:
        urns = "; ".join(
            f"{words[0]} {', '.join(_counts_with_colours(words[1:]))}" for words in table.sheet()
        )
        balls = ", ".join(_counts_with_colours([str(count) for count in table.counts()]))
        return f"The urns: {urns}. Drawn so far: {balls}. {_end_sentence(table, seat)}".strip()


def _disc_of(colour: int) -> tuple[str, str]:
    return COLOURS[colour][0], COLOURS[colour]


def _counts_with_colours(counts: list[str] | tuple[str, ...]) -> list[str]:
    return [f"{count} {colour}" for count, colour in zip(counts, COLOURS, strict=False)]


def _end_sentence(table: UrnTable, seat: int | None) -> str:
    if table.declared_urn < 0:
        return f"It is urn {NAMES[table.secret]}." if seat is None else ""
    is_right = table.declared_urn == table.secret
    word = "which is right" if is_right else f"which is wrong: it is {NAMES[table.secret]}"
    return f"Declared {NAMES[table.declared_urn]}, {word}."


def _rules(options: UrnOptions) -> str:
    cost_text = f", less {options.cost:g} point(s) for every draw" if options.cost else ""
    return (
        f"There are {options.urns} urns with {options.balls} balls each; you know how many of each "
        "colour are in which. One of the urns is hidden, all equally likely. On your turn you "
        f"draw a ball from the hidden urn ({DRAW}), see its colour and put it back, up to "
        f"{options.draws} time(s), or you declare which urn it is "
        f"({', '.join(NAMES[: options.urns])}), which ends the game. You get 1 point for the right "
        f"urn and 0 for a wrong one{cost_text}."
    )


urn = entry_of(Urn, UrnOptions)
