"""Needle chain: one seat takes many steps, and one of the steps decides the return."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.environments.drawing.boards import discs
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import TERMINAL, Rules, Table, register
from sparring.environments.options import entry_of

NAME = "needle_chain"  # the name registered with OpenSpiel
COLOURS = ("red", "green", "blue")
STOP = "stop"
HUES = {"red": "red", "green": "green", "blue": "blue"}  # colours in pictures
RIGHT = 1  # the action id that pays at the needle, the deciding step: green


@dataclass(frozen=True, kw_only=True)
class ChainOptions:
    """Options of ``needle_chain``."""

    length: Annotated[int, Field(ge=1, le=12)] = 6
    actions: Literal[2, 3] = 2
    needle: Annotated[int, Field(ge=1)] = 3  # number of the step that decides
    stop: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainTable(ChainOptions, Table):
    """A position: the action ids so far; the id after those of the colours stops the walk."""

    path: tuple[int, ...] = ()

    @property
    def player(self) -> int:
        return TERMINAL if len(self.path) == self.length or self.actions in self.path else 0

    def legal(self) -> list[int]:
        return list(range(self.actions + self.stop))

    def after(self, index: int) -> ChainTable:
        return replace(self, path=(*self.path, index))

    def returns(self) -> list[float]:
        """Return 1 at the end of a walk that took the right action at the needle, else 0."""
        is_right = self.path[self.needle - 1 : self.needle] == (RIGHT,)
        return [float(is_right and self.player == TERMINAL)]

    def name_of(self, player: int, index: int) -> str:
        return STOP if index == self.actions else COLOURS[index]

    def key(self, seat: int) -> str:
        """Return all actions so far."""
        return " ".join(["walk:", *(self.name_of(seat, index) for index in self.path)])

    def view(self, seat: int) -> str:
        """Return the number of the step; earlier actions are not visible."""
        return f"step {len(self.path) + 1}"

    def __str__(self) -> str:
        """Return all actions so far."""
        return self.key(0)


def rules(options: ChainOptions) -> Rules:
    """Return the numbers of actions and steps of the game, and its first table."""
    return Rules(
        opening=ChainTable(**asdict(options)),
        actions=options.actions + options.stop,
        length=options.length,
        least=0.0,
        most=1.0,
        utility="identical",
        seats=1,
        hidden=False,
        views=True,
    )


register(NAME, ChainOptions, rules)


class NeedleChain(Game):
    """Needle chain for 1 seat: a walk of several decisions, of which exactly one matters.

    One step is the needle: if the seat chooses green there, the return at the end is 1, else 0. The
    true credit of all other decisions is 0. Nothing is random. The seat remembers its walk, so
    there are 1 + actions + ... + actions^(length - 1) information states; 63 by default.

    Args:
        length: number of steps, 1 to 12.
        actions: number of colours: 2 (red, green) or 3 (red, green, blue).
        needle: number of the step that matters, from 1; at most ``length``.
        stop: whether an action "stop" can end the walk early, so that walks differ in length. A
            walk that stops before or at the needle pays 0; a later stop changes no payoff.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range.
    """

    title = "needlechain"

    def __init__(self, options: ChainOptions, *, style: Style = "brief") -> None:
        needle, length = options.needle, options.length
        if needle > length:
            raise ConfigError(
                f"needle_chain: needle={needle} is after the last step; write needle={length} "
                f"or less, or length={needle}."
            )
        spiel, colours = load(NAME, asdict(options)), COLOURS[: options.actions]
        words = (*colours, *([STOP] if options.stop else []))
        super().__init__(spiel, name=NAME, roles=("walker",), words=words, style=style)
        self.length = options.length
        stop_text = (
            " You may also choose 'stop', which ends the walk at once." if options.stop else ""
        )
        self.rules = (
            f"You walk a chain of {self.length} step(s). At every step you choose one "
            f"colour: {', '.join(colours)}.{stop_text} Exactly one step matters, always the "
            "same one, and there exactly one colour is right. At the end of the walk you get 1 "
            "point if you chose the right colour at that step, and 0 otherwise. Nothing else that "
            "you choose changes your result."
        )

    def position(self, state: State, seat: int) -> str:
        return "" if state.done else f"This is step {state.plies + 1} of {self.length}."

    def on_table(self, state: State, seat: int) -> str:
        """Return the walk so far."""
        return (
            "Chosen so "
            f"far: {' '.join(self.words[event.action] for event in state.trail) or 'none'}."
        )

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        self.paint_seats(canvas, state, seat)
        path = [self.words[event.action] for event in state.trail]
        steps = [(word[0], "white" if word == STOP else HUES[word]) for word in path]
        steps += [("", "none")] * (self.length - len(path))
        numbers = [(str(number), "none") for number in range(1, self.length + 1)]
        discs(canvas, "step", numbers, radius=12)
        discs(canvas, "chosen", steps, radius=12)
        if seat is None:
            marks = [("", "none")] * self.length
            marks[state.table.needle - 1] = (COLOURS[RIGHT][0], HUES[COLOURS[RIGHT]])
            discs(canvas, "needle", marks, radius=12)
        paragraph(canvas, ", ".join(path) or "Nothing chosen yet.", colour="dim")

    def describe(self, state: State, seat: int | None) -> str:
        parts = (self.due_text(state), self.position(state, 0), self.on_table(state, 0))
        results = (self.revealed(state), self.payoff_line(state, seat)) if seat is None else ()
        return " ".join(part for part in (*parts, *results) if part)

    def revealed(self, state: State) -> str:
        return f"Step {state.table.needle} mattered, and {COLOURS[RIGHT]} was right."


needle_chain = entry_of(NeedleChain, ChainOptions)
