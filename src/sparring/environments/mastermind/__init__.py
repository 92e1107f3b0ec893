"""Mastermind: one seat finds a hidden code by guesses; each guess gets an answer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.drawing.boards import discs
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.openspiel.banks import BankGame
from sparring.environments.openspiel.base import State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import entry_of

NAME = "mastermind"  # the name registered with OpenSpiel
COLOURS = ("red", "green", "blue", "white", "pink", "violet")

Answer = tuple[int, int]
"""(exact, misplaced): number of pegs that match, and of other pegs with a colour of the code."""


@lru_cache(maxsize=32)
def bank_of(pegs: int, colours: int, bank: int) -> tuple[int, ...]:
    """Return all codes in the order of a bank: entry i is code number i."""
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
    return tuple(index // colours ** (pegs - 1 - position) % colours for position in range(pegs))


def answer_of(guess: tuple[int, ...], code: tuple[int, ...]) -> Answer:
    """Return the answer to a guess."""
    num_exact = sum(peg == code_peg for peg, code_peg in zip(guess, code, strict=True))
    num_common = sum(min(guess.count(colour), code.count(colour)) for colour in set(guess))
    return num_exact, num_common - num_exact


def word_of(pegs: int, colours: int, index: int) -> str:
    """Return the word of a code: the first letters of its colours, such as "rgb"."""
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
class MastermindTable(MastermindOptions, Table):
    """A position: the secret code (-1 before the draw), the guessed codes, and their answers."""

    secret: int = -1
    moves: tuple[int, ...] = ()
    answers: tuple[Answer, ...] = ()

    @property
    def is_cracked(self) -> bool:
        """Whether the last guess is the code."""
        return bool(self.moves) and self.moves[-1] == self.secret

    @property
    def guesses_left(self) -> int:
        """The number of guesses left."""
        return self.guesses - len(self.moves)

    @property
    def start(self) -> Hashable:
        """The code that was drawn from the bank."""
        return (self.pegs, self.colours, self.secret)

    @property
    def player(self) -> int:
        if self.secret < 0:
            return CHANCE
        return TERMINAL if self.is_cracked or not self.guesses_left else 0

    def legal(self) -> list[int]:
        """Return all codes, including those that cannot be the hidden one."""
        return list(range(self.colours**self.pegs))

    def draws(self) -> range:
        return range(self.codes or self.colours**self.pegs)

    def after(self, index: int) -> MastermindTable:
        if self.secret < 0:
            return replace(self, secret=bank_of(self.pegs, self.colours, self.bank)[index])
        guess, code = (code_of(self.pegs, self.colours, number) for number in (index, self.secret))
        answers = (*self.answers, answer_of(guess, code))
        return replace(self, moves=(*self.moves, index), answers=answers)

    def returns(self) -> list[float]:
        """Return 1 or the share of guesses left (including the last) for a cracked code, else 0."""
        if not self.is_cracked:
            return [0.0]
        return [(self.guesses_left + 1) / self.guesses if self.pay == "left" else 1.0]

    def name_of(self, player: int, index: int) -> str:
        return f"code {index}" if player < 0 else word_of(self.pegs, self.colours, index)

    def feedback(self, number: int) -> tuple[str, ...]:
        """Return the words after guess ``number``: exact, misplaced, and at the end the result."""
        words = [str(count) for count in self.answers[number]]
        if self.player == TERMINAL and number == len(self.moves) - 1:
            words += ["cracked"] if self.is_cracked else ["lost", self.name_of(0, self.secret)]
        return tuple(words)

    def key(self, seat: int) -> str:
        """Return all guesses and their answers."""
        steps = [
            " ".join([self.name_of(seat, move), *self.feedback(number)])
            for number, move in enumerate(self.moves)
        ]
        return f"guesses: {'; '.join(steps)}"

    def __str__(self) -> str:
        """Return the guesses, the answers and the hidden code."""
        return f"{self.key(0)} hidden {self.name_of(0, self.secret) if self.secret >= 0 else '?'}"


def rules(options: MastermindOptions) -> Rules:
    """Return the numbers of actions and turns of the game, and its first table."""
    table = MastermindTable(**asdict(options))
    return Rules(
        opening=table,
        actions=table.colours**table.pegs,
        outcomes=len(table.draws()),
        length=table.guesses,
        least=0.0,
        most=1.0,
        utility="identical",
        seats=1,
    )


register(NAME, MastermindOptions, rules)


MAX_LISTED = 81  # largest number of codes that full style lists at every turn
HUES = {  # colour of a peg -> colour in pictures
    "red": "red",
    "green": "green",
    "blue": "blue",
    "white": "white",
    "pink": "pink",
    "violet": "orange",  # other hues look like blue or pink; the letter identifies it
}


class Mastermind(BankGame):
    """Mastermind for 1 seat: crack a hidden code of colours within a number of guesses.

    The answer to a guess counts exact and misplaced pegs.

    Chance draws one of the ``codes`` codes of the bank, all equally likely, at the start; nothing
    else is random. An action is a code as one word, the first letters of its colours: "rgb". Every
    code is legal at any time, even one that earlier answers exclude or that was guessed before.
    Only a word that is not a code is illegal. In brief style the answer to a guess is two counts,
    "1 2".

    Args:
        pegs: number of pegs, 2 to 4.
        colours: number of colours, 2 to 6. There are 9 codes with 2 pegs and 3 colours, 27 with 3
            and 3, 64 with 3 and 4, and 1,296 with 4 and 6, as in the commercial game.
        guesses: largest number of guesses in one game, 1 to 12.
        pay: payoff of a cracked code: 1 ("cracked"), or the share of guesses left, including the
            last guess ("left"). If the code is not cracked, the payoff is 0.
        codes: number of codes in the bank; 0 for all codes.
        bank: seed of the bank: code number i depends only on ``pegs``, ``colours``, ``bank``
            and i, and no code repeats.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or more codes than exist.

    Reference: Knuth, "The computer as master mind", 1977; Koyama and Lai, "An optimal Mastermind
    strategy", 1993.
    """

    title = "mastermind"
    size_option = "codes"
    other_size = 0  # all codes

    def __init__(self, options: MastermindOptions, *, style: Style = "brief") -> None:
        pegs, colours, codes = options.pegs, options.colours, options.codes
        if codes > colours**pegs:
            raise ConfigError(
                f"mastermind: codes={codes} is above {colours**pegs}, the number of codes of "
                f"{pegs} pegs and {colours} colours; write codes=0."
            )
        words = tuple(word_of(pegs, colours, index) for index in range(colours**pegs))
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("breaker",), words=words, style=style
        )
        self.pegs = pegs
        self.rules = _rules_text(self.first_table)

    def private_words(self) -> tuple[str, ...]:
        return (*map(str, range(self.pegs + 1)), "cracked", "lost")

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the answers to guesses from ply ``since`` - 1 on; with ``since`` 0, to all."""
        plies = [
            event.ply for event in state.trail if event.player != CHANCE and event.ply + 1 >= since
        ]
        return [word for ply in plies for word in self._feedback_texts(state.table, ply, since)]

    def _feedback_texts(self, table: MastermindTable, number: int, since: int) -> list[str]:
        word, feedback = table.name_of(0, table.moves[number]), table.feedback(number)
        if self.brief:
            return [*([] if since else [word]), *feedback]
        ending = feedback[2:]
        ending_text = " You cracked the code." if ending else ""
        if ending[:1] == ("lost",):
            ending_text = f" No guess is left; the code was {ending[1]}."
        return [f"You guessed {word}: {feedback[0]} exact, {feedback[1]} misplaced.{ending_text}"]

    def position(self, state: State, seat: int) -> str:
        return "" if state.done else f"You have {state.table.guesses_left} guess(es) left."

    def call(self, state: State, seat: int) -> str:
        """Return the last lines; the form of a code replaces a list of more than ``MAX_LISTED``."""
        words_text, text = ", ".join(self.words), super().call(state, seat)
        letters = ", ".join(colour[0] for colour in COLOURS[: state.table.colours])
        if len(self.words) <= MAX_LISTED:
            return text
        return text.replace(words_text, f"every word of {self.pegs} letters out of {letters}", 1)

    def paint_table(self, canvas: Canvas, table: MastermindTable, seat: int | None) -> None:
        unknown_pegs = [("?", "none")] * table.pegs
        code = _pegs(table, table.secret) if _is_visible(table, seat) else unknown_pegs
        discs(canvas, "code", code)
        for number in range(table.guesses):
            if number < len(table.moves):
                exact, misplaced = table.answers[number]
                row, score_text = _pegs(table, table.moves[number]), f"{exact} + {misplaced}"
            else:
                row, score_text = [("", "none")] * table.pegs, ""
            discs(canvas, f"guess {number + 1}", row, after=score_text)
        paragraph(canvas, "After each guess: exact + misplaced.", colour="dim", size=14)

    def describe_table(self, table: MastermindTable, seat: int | None) -> str:
        guesses = [
            f"{table.name_of(0, move)}: {exact} exact, {misplaced} misplaced"
            for move, (exact, misplaced) in zip(table.moves, table.answers, strict=True)
        ]
        code_text = (
            f" The code is {table.name_of(0, table.secret)}." if _is_visible(table, seat) else ""
        )
        text = f"Guesses: {'; '.join(guesses)}." if guesses else "No guess yet."
        return f"{text} {table.guesses_left} guesses are left.{code_text}"


def _is_visible(table: MastermindTable, seat: int | None) -> bool:
    return seat is None or table.is_cracked or not table.guesses_left


def _pegs(table: MastermindTable, index: int) -> list[tuple[str, str]]:
    names = (COLOURS[colour] for colour in code_of(table.pegs, table.colours, index))
    return [(name[0], HUES[name]) for name in names]


def _rules_text(table: MastermindTable) -> str:
    letters = ", ".join(f"{colour[0]} for {colour}" for colour in COLOURS[: table.colours])
    code_word, guess_word = (table.name_of(0, index) for index in (1, table.colours))
    exact, misplaced = answer_of(
        *(code_of(table.pegs, table.colours, index) for index in (1, table.colours))
    )
    pay_text = (
        (
            f"You get 1 point for the code at your first guess and {1 / table.guesses:.3g} less "
            "for every later guess"
        )
        if table.pay == "left"
        else "You get 1 point if you guess the code in time"
    )
    return (
        f"You play Mastermind. A code of {table.pegs} pegs is hidden; each peg has one "
        f"of {table.colours} colours ({letters}), and colours may repeat. You "
        f"have {table.guesses} guess(es). A guess is one letter per peg, in order, without "
        "spaces; it need not agree with earlier answers. Each is answered by two counts: exact, "
        "the pegs of the right colour in the right place, and misplaced, further pegs whose "
        "colour the code has in another place, each peg of the code counted once. If the code "
        f"were {code_word}, the guess {guess_word} would be answered: {exact} exact, {misplaced} "
        f"misplaced. {pay_text}, and 0 if you do not."
    )


mastermind = entry_of(Mastermind, MastermindOptions)
