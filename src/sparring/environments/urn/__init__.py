"""Urn: one seat draws balls from a hidden urn, then says which urn it is."""

from __future__ import annotations

from dataclasses import asdict

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph
from sparring.environments.drawing.rows import discs
from sparring.environments.openspiel.banks import Banked
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.position import CHANCE, recent
from sparring.environments.options import check_range, with_options
from sparring.environments.urn.rules import COLOURS, DRAW, NAME, NAMES, UrnOptions, UrnTable


class Urn(Banked):
    """One seat draws with replacement from one of several known urns.

    It is hidden which one; the seat declares which one it is.
    """

    title = "urn"
    counted = "sets"
    untold = True

    def __init__(self, options: UrnOptions, style: Style) -> None:
        words = (DRAW, *NAMES[: options.urns])
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("drawer",), words=words, style=style
        )
        self.table = self.first_table
        self.rules = _rules(options)

    def private_words(self) -> tuple[str, ...]:
        """Return the colours, the numbers of balls, and what a declaration can be."""
        options = self.table.options
        most = options.balls - options.colours + 1
        numbers = map(str, range(1, most + 1)) if options.sets > 1 else ()
        return (*COLOURS[: options.colours], *numbers, "right", "wrong")

    def private(self, state: State, seat: int) -> str:
        """Return the contents of the urns.

        In brief style not if there is but one set of urns, which can be learned by playing.
        """
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
        """Return the colours drawn from ply ``since`` on, and how it ended."""
        table, out = state.table, []
        balls = [
            event.action
            for event in recent(state.trail, since)
            if event.player == CHANCE and event.ply
        ]
        for colour in balls:
            out.append(COLOURS[colour] if self.brief else f"You drew a {COLOURS[colour]} ball.")
        if table.declared >= 0:
            name, end = NAMES[table.declared], table.outcome()
            if self.brief:
                return [*out, *([] if since else [name]), *end]
            out.append(f"You declared {name}: {end[0]}{f', it was {end[1]}' if end[1:] else ''}.")
        return out

    def position(self, state: State, seat: int) -> str:
        """Return what was drawn in all, and how many draws are left."""
        table = state.table
        if state.done:
            return ""
        drawn = ", ".join(
            f"{count} {colour}" for count, colour in zip(table.counts(), COLOURS, strict=False)
        )
        left = table.options.draws - len(table.drawn)
        return f"Drawn so far: {drawn}. You may draw {left} more time(s)."

    def paint_table(self, canvas: Canvas, table: UrnTable, seat: int | None) -> None:
        """Draw the urns as rows of balls, and the balls drawn."""
        heading(canvas, "Urns")
        for number, content in enumerate(table.contents):
            balls = [
                ball for colour, count in enumerate(content) for ball in [_ball(colour)] * count
            ]
            discs(canvas, NAMES[number], balls, radius=11)
        heading(canvas, "Drawn", f"{len(table.drawn)} of {table.options.draws}")
        rest = [("", "none")] * (table.options.draws - len(table.drawn))
        discs(canvas, "", [*map(_ball, table.drawn), *rest], radius=11)
        paragraph(canvas, _end(table, seat))

    def describe_table(self, table: UrnTable, seat: int | None) -> str:
        """Return the urns, the balls drawn and how it ended."""
        urns = "; ".join(f"{words[0]} {', '.join(_counted(words[1:]))}" for words in table.sheet())
        drawn = ", ".join(_counted([str(count) for count in table.counts()]))
        return f"The urns: {urns}. Drawn so far: {drawn}. {_end(table, seat)}".strip()


def _ball(colour: int) -> tuple[str, str]:
    """Return a ball as its letter and its colour."""
    return COLOURS[colour][0], COLOURS[colour]


def _counted(counts: list[str] | tuple[str, ...]) -> list[str]:
    """Return numbers of balls with their colours."""
    return [f"{count} {colour}" for count, colour in zip(counts, COLOURS, strict=False)]


def _end(table: UrnTable, seat: int | None) -> str:
    """Return what was declared, and which urn it is if the reader may know it."""
    if table.declared < 0:
        return f"It is urn {NAMES[table.hidden]}." if seat is None else ""
    right = table.declared == table.hidden
    word = "which is right" if right else f"which is wrong: it is {NAMES[table.hidden]}"
    return f"Declared {NAMES[table.declared]}, {word}."


def _rules(options: UrnOptions) -> str:
    """Return the rules in full style."""
    cost = f", less {options.cost:g} point(s) for every draw" if options.cost else ""
    return (
        f"There are {options.urns} urns with {options.balls} balls each; you know how many of each "
        "colour are in which. One of the urns is hidden, all equally likely. On your turn you "
        f"draw a ball from the hidden urn ({DRAW}), see its colour and put it back, up to "
        f"{options.draws} time(s), or you declare which urn it is "
        f"({', '.join(NAMES[: options.urns])}), which ends the game. You get 1 point for the right "
        f"urn and 0 for a wrong one{cost}."
    )


@with_options(UrnOptions)
def urn(options: UrnOptions, *, style: Style = "brief") -> Game:
    """Urn for 1 seat: tell by draws with replacement which of several known urns is hidden.

    The right time is as soon as it is worth it.

    Chance draws one of ``sets`` sets of urns, one urn of it, and every ball. An action is one word:
    "draw", or the name of the urn that is declared, which ends the game. Drawing when no draw is
    left is illegal. No draw is ever decisive: each urn has every colour. In brief style the urns
    come first, "alpha 7 3 beta 4 6", each with its balls in the order of the colours; with one set
    they are left out, for they are the same in every game and can be learned.

    Args:
        urns: 2 to 6.
        colours: 2 to 4: red, blue, green, white.
        balls: balls in each urn, at least ``colours`` and at most 20.
        apart: least number of balls that must change colour to make one urn another, from 1; small
            is hard.
        draws: most draws in one game, 1 to 20.
        cost: what a draw costs, 0 to 1. The game pays 1 for the right urn, 0 for a wrong one, less
            this for each draw.
        sets: number of sets of urns in the bank, 1 to 10,000.
        bank: seed of the bank: set number i depends on ``urns``, ``colours``, ``balls``, ``apart``,
            ``bank`` and i alone.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or no urns that are so far apart.

    Reference: Wald, "Sequential tests of statistical hypotheses", 1945; Arrow, Blackwell and
    Girshick, "Bayes and minimax solutions of sequential decision problems", 1949.
    """
    check_range("urn: balls", options.balls, options.colours)
    made = Urn(options, style)
    made.first_node().child(0)  # urns that cannot be found are refused here
    return made
