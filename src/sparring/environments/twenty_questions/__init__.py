"""Twenty questions: one seat asks about a hidden object, then guesses it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, strip, table
from sparring.environments.openspiel.banks import BankGame
from sparring.environments.openspiel.base import State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import entry_of

NAME = "twenty_questions"  # the name registered with OpenSpiel
OBJECT_WORDS = (
    "ball bell boat book bottle bowl box brush button candle chain clock coin comb cup drum "
    "fan flute fork hammer jug key kite knife lamp mask pen ring shoe spoon stamp wheel"
)
NOUNS = tuple(OBJECT_WORDS.split())
ATTRIBUTES = (
    ("colour", ("red", "green", "blue", "white")),
    ("size", ("small", "large", "medium", "tiny")),
    ("shape", ("round", "square", "flat", "long")),
    ("stuff", ("wood", "metal", "glass", "stone")),
    ("place", ("kitchen", "garden", "cellar", "attic")),
)


@lru_cache(maxsize=1024)
def draw_rows(
    objects: int, attributes: int, values: int, bank: int, index: int
) -> tuple[tuple[int, ...], ...]:
    """Return table ``index`` of a bank: the values of each object, different for all objects."""
    stream = Stream.from_seed(bank).child(f"{NAME} {objects} {attributes} {values}").child(index)
    codes = stream.generator().permutation(values**attributes)[:objects]
    return tuple(
        tuple(int(code) // values**digit % values for digit in range(attributes)) for code in codes
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
class QuestionsTable(QuestionsOptions, Table):
    """A position: the table of objects, the secret object, the action ids, the answers so far.

    The first action ids are the questions, attribute by attribute. The guesses follow, one for
    each object. Chance draws the table, the object and every noisy answer: 0 is no and 1 is yes.
    """

    rows: tuple[tuple[int, ...], ...] = ()  # values of each object; empty before the draw
    secret: int = -1  # -1 before the draw
    moves: tuple[int, ...] = ()
    answers: tuple[int, ...] = ()  # the answer to each question

    @property
    def num_questions(self) -> int:
        """The number of different questions, one for each value of each attribute."""
        return self.attributes * self.values

    @property
    def has_guessed(self) -> bool:
        """Whether the last action is a guess."""
        return bool(self.moves) and self.moves[-1] >= self.num_questions

    @property
    def num_questions_asked(self) -> int:
        """The number of questions that the seat has asked."""
        return len(self.moves) - self.has_guessed

    @property
    def start(self) -> Hashable:
        """The set of objects that was drawn from the bank."""
        return (self.attributes, self.values, frozenset(self.rows))

    @property
    def player(self) -> int:
        if self.secret < 0 or self.num_questions_asked > len(self.answers):
            return CHANCE
        return TERMINAL if self.has_guessed else 0

    def legal(self) -> list[int]:
        """Return all questions, if any may still be asked, and all guesses."""
        first = 0 if self.num_questions_asked < self.questions else self.num_questions
        return list(range(first, self.num_questions + self.objects))

    def draws(self) -> range:
        return range(self.tables if not self.rows else self.objects if self.secret < 0 else 2)

    def chances(self) -> list[float]:
        """Return the probability of each outcome in ``draws``."""
        if self.secret < 0:
            return [1.0 / len(self.draws())] * len(self.draws())
        truth = self.true_answer(self.secret, self.moves[-1])
        return [self.noise, 1.0 - self.noise] if truth else [1.0 - self.noise, self.noise]

    def true_answer(self, item: int, question: int) -> int:
        """Return the true answer for an object: 1 for yes."""
        attribute, value = divmod(question, self.values)
        return int(self.rows[item][attribute] == value)

    def after(self, index: int) -> QuestionsTable:
        if not self.rows:
            return replace(
                self, rows=draw_rows(self.objects, self.attributes, self.values, self.bank, index)
            )
        if self.secret < 0:
            return replace(self, secret=index)
        if self.num_questions_asked > len(self.answers):
            return replace(self, answers=(*self.answers, index))
        is_exact = not self.noise and index < self.num_questions
        answer = (self.true_answer(self.secret, index),) if is_exact else ()
        return replace(self, moves=(*self.moves, index), answers=(*self.answers, *answer))

    def returns(self) -> list[float]:
        """Return 0 before the end; then 1 or 0 for the guess, minus the cost of the questions."""
        if self.player != TERMINAL:
            return [0.0]
        return [
            float(self.moves[-1] - self.num_questions == self.secret)
            - self.cost * self.num_questions_asked
        ]

    def name_of(self, player: int, index: int) -> str:
        if player >= 0:
            return word_of(self.values, self.num_questions, index)
        if not self.rows:
            return f"table {index}"
        return NOUNS[index] if self.secret < 0 else ("no", "yes")[index]

    def feedback(self, number: int) -> tuple[str, ...]:
        """Return the words after action ``number``: the answer, or whether the guess was right."""
        if self.moves[number] < self.num_questions:
            return (("no", "yes")[self.answers[number]],) if number < len(self.answers) else ()
        is_right = self.moves[number] - self.num_questions == self.secret
        return ("right",) if is_right else ("wrong", NOUNS[self.secret])

    def sheet(self) -> tuple[tuple[str, ...], ...]:
        """Return the words of the table: for each object its noun and its values."""
        return tuple(
            (NOUNS[number], *(ATTRIBUTES[column][1][value] for column, value in enumerate(row)))
            for number, row in enumerate(self.rows)
        )

    def key(self, seat: int) -> str:
        """Return the table, and all actions with their answers."""
        objects = ", ".join(map(" ".join, self.sheet()))
        steps = [
            " ".join([self.name_of(seat, move), *self.feedback(number)])
            for number, move in enumerate(self.moves)
        ]
        return f"objects: {objects}; {'; '.join(steps)}"

    def __str__(self) -> str:
        """Return the table, the actions, the answers and the hidden object."""
        return f"{self.key(0)} hidden {NOUNS[self.secret] if self.secret >= 0 else '?'}"


def word_of(values: int, num_questions: int, index: int) -> str:
    """Return the word of an action id: a value for a question, a noun for a guess."""
    if index >= num_questions:
        return NOUNS[index - num_questions]
    return ATTRIBUTES[index // values][1][index % values]


def rules(options: QuestionsOptions) -> Rules:
    """Return the numbers of actions and turns of the game, and its first table."""
    return Rules(
        opening=QuestionsTable(**asdict(options)),
        actions=options.attributes * options.values + options.objects,
        outcomes=max(options.tables, options.objects, 2),
        length=options.questions + 1,
        least=0.0 - options.cost * options.questions,
        most=1.0,
        utility="identical",
        seats=1,
    )


register(NAME, QuestionsOptions, rules)


MAX_OBJECTS = 16  # largest number of objects in a picture


class TwentyQuestions(BankGame):
    """Twenty questions for 1 seat: ask yes-or-no questions about a hidden object, then guess it.

    The seat sees a table of objects and their attributes, and asks about attributes.

    Chance draws one of ``tables`` tables and one of its objects, all equally likely, and with
    ``noise`` every answer. All objects of a table differ, so without noise enough questions always
    identify the object. An action is one word: "red" asks whether the object is red; "cup" guesses
    the cup and ends the game. A question may be repeated, which helps only with noise. After
    ``questions`` questions only guesses are legal. The brief prompt begins with the table, "ball
    red small round bell blue ...". With ``tables`` = 1 the brief prompt omits the table, which is
    then equal in every game, so a model can learn it.

    Args:
        objects: number of objects, 2 to 32, and at most ``values`` to the power of ``attributes``.
        attributes: number of attributes, 1 to 5: colour, size, shape, stuff, place.
        values: number of values of each attribute, 2 to 4.
        questions: largest number of questions in a game, 1 to 20. A game is hard if this is small
            compared with the logarithm of ``objects``.
        noise: probability that an answer is wrong, independently each time, below 0.5.
        cost: cost of a question, 0 to 1. The return is 1 for a right guess, 0 for a wrong one,
            minus the cost of all questions.
        tables: number of tables in the bank, 1 to 100,000.
        bank: seed of the bank: table number i depends only on ``objects``, ``attributes``,
            ``values``, ``bank`` and i.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or more objects than combinations of values.

    Reference: Rényi, "On a problem in information theory", 1961 (noisy answers); Hyafil and Rivest,
    "Constructing optimal binary decision trees is NP-complete", 1976.
    """

    title = "twentyquestions"
    size_option = "tables"
    omits_only_start = True

    def __init__(self, options: QuestionsOptions, *, style: Style = "brief") -> None:
        attributes, values = options.attributes, options.values
        if options.objects > values**attributes:
            raise ConfigError(
                f"twenty_questions: objects={options.objects} cannot all differ in {attributes} "
                f"attribute(s) of {values} values; write objects={values**attributes} or fewer, or "
                "more attributes or values."
            )
        num_questions = attributes * values
        words = tuple(
            word_of(values, num_questions, index)
            for index in range(num_questions + options.objects)
        )
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("guesser",), words=words, style=style
        )
        self.rules = _rules(self.first_table)

    def private_words(self) -> tuple[str, ...]:
        return ("no", "yes", "right", "wrong")

    def private(self, state: State, seat: int) -> str:
        """Return the table of objects; brief style omits the only table of a bank."""
        table = state.table
        if self.brief:
            return "" if table.tables == 1 else " ".join(" ".join(words) for words in table.sheet())
        lines = [f"{words[0]}: {', '.join(words[1:])}" for words in table.sheet()]
        return "\n".join(["The objects, one of which is hidden:", *lines])

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the answers from ply ``since`` - 1 on; with ``since`` 0 also the actions."""
        plies = [
            event.ply for event in state.trail if event.player != CHANCE and event.ply + 1 >= since
        ]
        return [word for ply in plies for word in self._feedback(state.table, ply, since)]

    def _feedback(self, table: QuestionsTable, number: int, since: int) -> list[str]:
        word, feedback = table.name_of(0, table.moves[number]), table.feedback(number)
        if self.brief:
            return [*([] if since else [word]), *feedback]
        if table.moves[number] < table.num_questions:
            return [f"You asked {word}: {feedback[0] if feedback else 'no answer yet'}."]
        return [
            f"You guessed {word}: right."
            if feedback[0] == "right"
            else f"You guessed {word}: wrong, it was {feedback[1]}."
        ]

    def position(self, state: State, seat: int) -> str:
        table = state.table
        questions_left = table.questions - table.num_questions_asked
        return "" if state.done else f"You may ask {questions_left} more question(s)."

    def paint_table(self, canvas: Canvas, position: QuestionsTable, seat: int | None) -> None:
        names = [name for name, _ in ATTRIBUTES[: position.attributes]]
        rows = [("", *names), *position.sheet()[:MAX_OBJECTS]]
        shows_secret = position.secret < MAX_OBJECTS and (seat is None or position.has_guessed)
        cells = [(position.secret + 1, column) for column in range(len(names) + 1)]
        colours = dict.fromkeys(cells, "sky") if shows_secret else {}
        table(canvas, rows, size=13, colours=colours)
        if len(position.rows) > MAX_OBJECTS:
            paragraph(canvas, f"and {len(position.rows) - MAX_OBJECTS} more", colour="dim", size=14)
        heading(canvas, "Asked", f"{position.num_questions_asked} of {position.questions}")
        moves = [
            (_action_text(position, number), _answer_colour(position, number))
            for number in _action_numbers(position)
        ]
        if moves:
            strip(canvas, moves)
        else:
            paragraph(canvas, "Nothing asked yet.", colour="dim")

    def describe_table(self, position: QuestionsTable, seat: int | None) -> str:
        steps = "; ".join(_action_text(position, number) for number in _action_numbers(position))
        questions_left = position.questions - position.num_questions_asked
        object_text = f" The object is {NOUNS[position.secret]}." if seat is None else ""
        return (
            f"One of {position.objects} objects is hidden. Asked: {steps or 'nothing'}. "
            f"{questions_left} questions are left.{object_text}"
        )


def _action_numbers(position: QuestionsTable) -> range:
    return range(len(position.moves))


def _action_text(position: QuestionsTable, number: int) -> str:
    word = position.name_of(0, position.moves[number])
    answer = " ".join(position.feedback(number))
    if position.moves[number] < position.num_questions:
        return f"{word}? {answer}".rstrip()
    return f"guess {word}: {answer}"


def _answer_colour(position: QuestionsTable, number: int) -> str:
    """Return green for yes and right, red for no and wrong, "dim" for an action without answer."""
    feedback = position.feedback(number)
    if not feedback:
        return "dim"
    return "green" if feedback[0] in ("yes", "right") else "red"


def _rules(table: QuestionsTable) -> str:
    words = "; ".join(
        f"{name}: {', '.join(values[: table.values])}"
        for name, values in ATTRIBUTES[: table.attributes]
    )
    example = ATTRIBUTES[0][1][0]
    noise_text = (
        f" Every answer is wrong with probability {table.noise:g}, each time anew."
        if table.noise
        else " All answers are true."
    )
    cost_text = f", less {table.cost:g} point(s) for every question you asked" if table.cost else ""
    return (
        f"One of {table.objects} objects is hidden, all equally likely. You may ask up "
        f"to {table.questions} yes-or-no question(s), one a turn, and then you guess the object; "
        "you may also guess earlier. A question is one word for a value of an attribute "
        f"({words}): {example} asks whether the object's {ATTRIBUTES[0][0]} is {example}. A guess "
        f"is the name of an object, as {NOUNS[0]}, and ends the game.{noise_text} You get 1 point "
        f"for a right guess and 0 for a wrong one{cost_text}."
    )


twenty_questions = entry_of(TwentyQuestions, QuestionsOptions)
