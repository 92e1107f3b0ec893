"""Mastermind as an OpenSpiel game for one seat: codes, guesses and answers, no wording."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register

NAME = "mastermind"  # the name registered with OpenSpiel
COLOURS = ("red", "green", "blue", "white", "pink", "violet")

Answer = tuple[int, int]
"""Exact matches, and further colours that the code has in another place."""


@lru_cache(maxsize=32)
def bank_of(pegs: int, colours: int, bank: int) -> tuple[int, ...]:
    """Return the codes of a bank in its order, all of them: code number i is the i-th."""
    order = (
        Stream.from_seed(bank)
        .child(f"{NAME} {pegs} {colours}")
        .generator()
        .permutation(colours**pegs)
    )
    return tuple(map(int, order))


@lru_cache(maxsize=8192)
def code_of(pegs: int, colours: int, index: int) -> tuple[int, ...]:
    """Return the colours of code ``index``, peg by peg; the last peg changes fastest."""
    return tuple(index // colours ** (pegs - 1 - place) % colours for place in range(pegs))


def answer_of(guess: tuple[int, ...], code: tuple[int, ...]) -> Answer:
    """Return the answer to a guess."""
    exact = sum(one == other for one, other in zip(guess, code, strict=True))
    return exact, sum(min(guess.count(colour), code.count(colour)) for colour in set(guess)) - exact


def word_of(pegs: int, colours: int, index: int) -> str:
    """Return the word of a code: the first letters of its colours, as "rgb"."""
    return "".join(COLOURS[colour][0] for colour in code_of(pegs, colours, index))


@dataclass(frozen=True, kw_only=True)
class MastermindOptions:
    """Options of ``mastermind``."""

    pegs: Annotated[int, Field(ge=2, le=4)] = 3
    colours: Annotated[int, Field(ge=2, le=len(COLOURS))] = 3
    guesses: Annotated[int, Field(ge=1, le=12)] = 4
    pay: Literal["cracked", "left"] = "cracked"
    codes: Annotated[int, Field(ge=0)] = 0
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Board(MastermindOptions, Table):
    """A position: the hidden code (-1 before it is drawn), the guesses so far, their answers.

    Code and guesses are numbers of codes.
    """

    hidden: int = -1
    moves: tuple[int, ...] = ()
    answers: tuple[Answer, ...] = ()

    @property
    def cracked(self) -> bool:
        """Whether the last guess is the code."""
        return bool(self.moves) and self.moves[-1] == self.hidden

    @property
    def left(self) -> int:
        """The number of guesses left."""
        return self.guesses - len(self.moves)

    @property
    def start(self) -> Hashable:
        """What was drawn from the bank: the code."""
        return (self.pegs, self.colours, self.hidden)

    @property
    def player(self) -> int:
        """Chance at the start, the codebreaker, or the end: cracked, or no guess left."""
        if self.hidden < 0:
            return CHANCE
        return TERMINAL if self.cracked or not self.left else 0

    def legal(self) -> list[int]:
        """Return all codes: also those that cannot be the hidden one may be guessed."""
        return list(range(self.colours**self.pegs))

    def draws(self) -> range:
        """Return the numbers of the codes in the bank."""
        return range(self.codes or self.colours**self.pegs)

    def after(self, index: int) -> Board:
        """Return the board with its code, or after a guess."""
        if self.hidden < 0:
            return replace(self, hidden=bank_of(self.pegs, self.colours, self.bank)[index])
        guess, code = (code_of(self.pegs, self.colours, number) for number in (index, self.hidden))
        return replace(
            self, moves=(*self.moves, index), answers=(*self.answers, answer_of(guess, code))
        )

    def returns(self) -> list[float]:
        """Return 1 for a cracked code, or the share of the guesses that was left; else 0.

        The guess that cracked it counts as left too.
        """
        if not self.cracked:
            return [0.0]
        return [(self.left + 1) / self.guesses if self.pay == "left" else 1.0]

    def name_of(self, player: int, index: int) -> str:
        """Return the name of a guess, or of a chance outcome."""
        return f"code {index}" if player < 0 else word_of(self.pegs, self.colours, index)

    def told(self, number: int) -> tuple[str, ...]:
        """Return what guess ``number`` showed, as words.

        Exact matches, misplaced colours, and how the game ended.
        """
        words = [str(count) for count in self.answers[number]]
        if self.player == TERMINAL and number == len(self.moves) - 1:
            words += ["cracked"] if self.cracked else ["lost", self.name_of(0, self.hidden)]
        return tuple(words)

    def key(self, seat: int) -> str:
        """Return all guesses and what each showed."""
        steps = [
            " ".join([self.name_of(seat, move), *self.told(number)])
            for number, move in enumerate(self.moves)
        ]
        return f"guesses: {'; '.join(steps)}"

    def __str__(self) -> str:
        """Return what the seat knows, and the hidden code."""
        return f"{self.key(0)} hidden {self.name_of(0, self.hidden) if self.hidden >= 0 else '?'}"


def rules(options: MastermindOptions) -> Rules:
    """Return the facts of the game."""
    opening = Board(**asdict(options))
    return Rules(
        opening=opening,
        actions=opening.colours**opening.pegs,
        outcomes=len(opening.draws()),
        length=opening.guesses,
        least=0.0,
        most=1.0,
        utility="identical",
        seats=1,
    )


register(NAME, MastermindOptions, rules)
