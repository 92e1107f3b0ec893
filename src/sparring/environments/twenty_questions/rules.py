"""Twenty questions as an OpenSpiel game for one seat.

Tables of objects, what is asked and answered, no wording.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register

NAME = "twenty_questions"  # the name registered with OpenSpiel
THINGS = (
    "ball bell boat book bottle bowl box brush button candle chain clock coin comb cup drum "
    "fan flute fork hammer jug key kite knife lamp mask pen ring shoe spoon stamp wheel"
)
NOUNS = tuple(THINGS.split())
ATTRIBUTES = (
    ("colour", ("red", "green", "blue", "white")),
    ("size", ("small", "large", "medium", "tiny")),
    ("shape", ("round", "square", "flat", "long")),
    ("stuff", ("wood", "metal", "glass", "stone")),
    ("place", ("kitchen", "garden", "cellar", "attic")),
)


@lru_cache(maxsize=1024)
def rows_of(
    objects: int, attributes: int, values: int, bank: int, index: int
) -> tuple[tuple[int, ...], ...]:
    """Return table number ``index`` of a bank.

    Per object its value of each attribute, no two objects alike; all tables equally likely.
    """
    stream = Stream.from_seed(bank).child(f"{NAME} {objects} {attributes} {values}").child(index)
    codes = stream.generator().permutation(values**attributes)[:objects]
    return tuple(
        tuple(int(code) // values**place % values for place in range(attributes)) for code in codes
    )


@dataclass(frozen=True, kw_only=True)
class QuestionsOptions:
    """Options of ``twenty_questions``."""

    objects: Annotated[int, Field(ge=2, le=len(NOUNS))] = 8
    attributes: Annotated[int, Field(ge=1, le=len(ATTRIBUTES))] = 3
    values: Annotated[int, Field(ge=2, le=4)] = 3
    questions: Annotated[int, Field(ge=1, le=20)] = 4
    noise: Annotated[float, Field(ge=0.0, lt=0.5)] = 0.0
    cost: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    tables: Annotated[int, Field(ge=1, le=100_000)] = 64
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Inquiry(QuestionsOptions, Table):
    """A position: the table of objects, the hidden object, the action ids, the answers so far.

    Before they are drawn, the table is empty and the object is -1.

    Action ids are the questions, attribute by attribute, then the objects to guess. Chance draws
    the table, the object and, where answers are noisy, each answer: 0 is no and 1 is yes.
    """

    rows: tuple[tuple[int, ...], ...] = ()
    hidden: int = -1
    moves: tuple[int, ...] = ()
    answers: tuple[int, ...] = ()  # to each question

    @property
    def kinds(self) -> int:
        """The number of different questions."""
        return self.attributes * self.values

    @property
    def guessed(self) -> bool:
        """Whether the last action is a guess."""
        return bool(self.moves) and self.moves[-1] >= self.kinds

    @property
    def asked(self) -> int:
        """The number of questions asked."""
        return len(self.moves) - self.guessed

    @property
    def start(self) -> Hashable:
        """What was drawn from the bank: the objects, in any order."""
        return (self.attributes, self.values, frozenset(self.rows))

    @property
    def player(self) -> int:
        """Chance at the start and before a noisy answer, the guesser, or the end after a guess."""
        if self.hidden < 0 or self.asked > len(self.answers):
            return CHANCE
        return TERMINAL if self.guessed else 0

    def legal(self) -> list[int]:
        """Return all questions, while any may be asked, and all guesses."""
        return list(
            range(0 if self.asked < self.questions else self.kinds, self.kinds + self.objects)
        )

    def draws(self) -> range:
        """Return the tables, the objects, or the two answers."""
        return range(self.tables if not self.rows else self.objects if self.hidden < 0 else 2)

    def chances(self) -> list[float]:
        """Return how likely each is: a noisy answer is wrong with probability ``noise``."""
        if self.hidden < 0:
            return [1.0 / len(self.draws())] * len(self.draws())
        return (
            [self.noise, 1.0 - self.noise]
            if self.truth(self.hidden, self.moves[-1])
            else [1.0 - self.noise, self.noise]
        )

    def truth(self, thing: int, question: int) -> int:
        """Return the true answer for an object: 1 for yes."""
        attribute, value = divmod(question, self.values)
        return int(self.rows[thing][attribute] == value)

    def after(self, index: int) -> Inquiry:
        """Return the inquiry with its table, its object or an answer drawn, or after an action."""
        if not self.rows:
            return replace(
                self, rows=rows_of(self.objects, self.attributes, self.values, self.bank, index)
            )
        if self.hidden < 0:
            return replace(self, hidden=index)
        if self.asked > len(self.answers):
            return replace(self, answers=(*self.answers, index))
        known = () if self.noise or index >= self.kinds else (self.truth(self.hidden, index),)
        return replace(self, moves=(*self.moves, index), answers=(*self.answers, *known))

    def returns(self) -> list[float]:
        """Return at the end 1 for a right guess, less the cost of the questions; 0 before."""
        if self.player != TERMINAL:
            return [0.0]
        return [float(self.moves[-1] - self.kinds == self.hidden) - self.cost * self.asked]

    def name_of(self, player: int, index: int) -> str:
        """Return the name of an action, or of a chance outcome."""
        if player >= 0:
            return word_of(self.values, self.kinds, index)
        return (
            f"table {index}"
            if not self.rows
            else NOUNS[index]
            if self.hidden < 0
            else ("no", "yes")[index]
        )

    def told(self, number: int) -> tuple[str, ...]:
        """Return what action ``number`` showed, as words.

        The answer, or whether the guess was right and else what the object was.
        """
        if self.moves[number] < self.kinds:
            return (("no", "yes")[self.answers[number]],) if number < len(self.answers) else ()
        return (
            ("right",)
            if self.moves[number] - self.kinds == self.hidden
            else ("wrong", NOUNS[self.hidden])
        )

    def sheet(self) -> tuple[tuple[str, ...], ...]:
        """Return the table as words: each object with its values."""
        return tuple(
            (NOUNS[number], *(ATTRIBUTES[place][1][value] for place, value in enumerate(row)))
            for number, row in enumerate(self.rows)
        )

    def key(self, seat: int) -> str:
        """Return the table, all actions and what each showed."""
        things = ", ".join(map(" ".join, self.sheet()))
        steps = [
            " ".join([self.name_of(seat, move), *self.told(number)])
            for number, move in enumerate(self.moves)
        ]
        return f"objects: {things}; {'; '.join(steps)}"

    def __str__(self) -> str:
        """Return what the seat knows, and the hidden object."""
        return f"{self.key(0)} hidden {NOUNS[self.hidden] if self.hidden >= 0 else '?'}"


def word_of(values: int, kinds: int, index: int) -> str:
    """Return the word of an action id.

    A value asks whether the object has it, a noun guesses that it is the object.
    """
    return (
        NOUNS[index - kinds] if index >= kinds else ATTRIBUTES[index // values][1][index % values]
    )


def rules(options: QuestionsOptions) -> Rules:
    """Return the facts of the game."""
    return Rules(
        opening=Inquiry(**asdict(options)),
        actions=options.attributes * options.values + options.objects,
        outcomes=max(options.tables, options.objects, 2),
        length=options.questions + 1,
        least=0.0 - options.cost * options.questions,
        most=1.0,
        utility="identical",
        seats=1,
    )


register(NAME, QuestionsOptions, rules)
