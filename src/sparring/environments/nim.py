"""Nim: two seats take stones from piles."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.core.errors import ConfigError
from sparring.environments.drawing.boards import discs
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.options import check_range

MAX_PILES, MAX_STONES = 8, 20  # largest number of piles, and of stones of a pile
LETTERS = "abcdefgh"


@dataclass(kw_only=True, eq=False)
class Nim(Game):
    """Nim: two seats take stones from piles in turn, perfect information, solved by theory.

    The options are those of OpenSpiel. In brief style the title is "nim" in normal play and
    "misere" in misere play, and the first prompt lists the piles: "misere first 1 3 5 7". An action
    names a pile and the number of stones to take from it: "b2". The pile must be as large.

    The number of positions is the product of (size + 1) over the piles: 6 for "1;2", 24 for
    "1;2;3", 384 for "1;3;5;7", 1,920 for "3;4;7;11", 7,920 for "7;8;9;10". The seat to act loses
    normal play if the exclusive or of all sizes is 0 ("1;2;3", "1;3;5;7"). This also holds in
    misere play if some pile has more than one stone; otherwise an odd number of piles loses.

    Args:
        pile_sizes: stones of each pile at the start, separated by ";": 1 to 8 piles of 1 to 20
            stones.
        is_misere: whether the seat that takes the last stone loses; otherwise this seat wins.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: ``pile_sizes`` has another form.

    Reference: Bouton, "Nim, a game with a complete mathematical theory", 1901.
    """

    pile_sizes: str = "1;3;5;7"
    is_misere: bool = True
    style: Style = "brief"

    def __post_init__(self) -> None:
        sizes, is_misere = _parse_sizes(self.pile_sizes), self.is_misere
        spiel = load("nim", {"pile_sizes": ";".join(map(str, sizes)), "is_misere": is_misere})
        words = tuple(
            f"{LETTERS[index % len(sizes)]}{index // len(sizes) + 1}"
            for index in range(len(sizes) * max(sizes))
        )
        super().__init__(
            spiel, name="nim", roles=("first", "second"), words=words, style=self.style
        )
        self.title = "misere" if is_misere else "nim"
        self.sizes = sizes
        self.rules = _rules_text(is_misere)

    def piles(self, state: State) -> tuple[int, ...]:
        """Return the current number of stones of each pile."""
        sizes = list(self.sizes)
        for event in state.trail:
            num_taken, pile = divmod(event.action, len(sizes))
            sizes[pile] -= num_taken + 1
        return tuple(sizes)

    def vocabulary(self) -> tuple[str, ...]:
        unused_words = {
            f"{LETTERS[pile]}{num_taken}"
            for pile, size in enumerate(self.sizes)
            for num_taken in range(size + 1, max(self.sizes) + 1)
        }
        return tuple(word for word in super().vocabulary() if word not in unused_words)

    def private_words(self) -> tuple[str, ...]:
        return tuple(map(str, self.sizes))

    def private(self, state: State, seat: int) -> str:
        """Return the piles at the start, which both seats know."""
        if self.brief:
            return " ".join(map(str, self.sizes))
        return f"The piles at the start: {_piles_in_words(self.sizes)}."

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        self.paint_seats(canvas, state, seat)
        for pile, (count, size) in enumerate(zip(self.piles(state), self.sizes, strict=True)):
            stones = [("", "orange")] * count + [("", "none")] * (size - count)
            discs(canvas, f"{LETTERS[pile]}: {count} of {size}", stones, radius=11)
        self.paint_moves(canvas, state)

    def describe(self, state: State, seat: int | None) -> str:
        piles = f"The piles now: {_piles_in_words(self.piles(state))}."
        parts = (self.due_text(state), self.last_move(state), piles, self.payoff_line(state, seat))
        return " ".join(part for part in parts if part)

    def position(self, state: State, seat: int) -> str:
        return f"The piles now: {_piles_in_words(self.piles(state))}."


def _piles_in_words(sizes: tuple[int, ...]) -> str:
    return ", ".join(f"{LETTERS[pile]} has {size}" for pile, size in enumerate(sizes))


def _rules_text(is_misere: bool) -> str:
    result = "loses" if is_misere else "wins"
    return (
        "We play nim. There are piles of stones, named by letters. The players take turns; on "
        "your turn you take one stone or more from one pile, as many as you like: b2 takes 2 "
        f"stones from pile b. Whoever takes the last stone of all {result}."
    )


def _parse_sizes(pile_sizes: str) -> tuple[int, ...]:
    parts = pile_sizes.split(";")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise ConfigError(
            f'nim: pile_sizes={pile_sizes!r} must be whole numbers separated by ";"; write '
            'pile_sizes="1;3;5;7".'
        )
    check_range("nim: number of pile_sizes", len(parts), 1, MAX_PILES)
    for part in parts:
        check_range("nim: each of pile_sizes", int(part), 1, MAX_STONES)
    return tuple(map(int, parts))


nim = Nim
