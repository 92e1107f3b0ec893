"""Lookups: one seat answers a question with searches in a small library and a calculator."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.core.errors import ConfigError, GameError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.base import Environment
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph
from sparring.environments.options import entry_of
from sparring.environments.question import QuestionPlay
from sparring.environments.toolbox import MAX_RESULTS
from sparring.environments.tools import ToolEnvironment, ToolPlay

Style = Literal["brief", "full"]
PEOPLE = ("ada", "bob", "cleo", "dan", "eva", "finn", "gus", "hana", "ivo", "jane", "kai", "lena")
BOXES = (
    *("red", "blue", "green", "black", "white", "pink"),
    *("grey", "gold", "brown", "purple", "orange", "silver"),
)
THINGS = (
    *("lamp", "drum", "coin", "ring", "book", "bell"),
    *("comb", "vase", "clock", "flute", "kettle", "mirror"),
)
NOUNS = frozenset((*PEOPLE, *BOXES, *THINGS))
VERBS = ("owns", "holds", "weighs")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Library:
    """Facts about owners of boxes, the things in the boxes and their weights, and a question.

    Index i of the four tuples describes one chain of facts: person i owns box i, box i holds thing
    i, and thing i has weight i. ``entries`` are the indices in the question. ``hops`` is the number
    of facts from a name in the question to a weight: 3 from a person, 2 from a box, 1 from a thing.
    """

    people: tuple[str, ...]
    boxes: tuple[str, ...]
    things: tuple[str, ...]
    weights: tuple[int, ...]
    hops: int
    entries: tuple[int, ...]

    @property
    def answer(self) -> int:
        """The sum of the weights that the question asks for."""
        return sum(self.weights[entry] for entry in self.entries)

    def names(self) -> tuple[str, ...]:
        """Return the names in the question."""
        names = (self.things, self.boxes, self.people)[self.hops - 1]
        return tuple(names[entry] for entry in self.entries)

    def documents(self, style: Style) -> tuple[str, ...]:
        """Return the facts, one per document: owners first, then contents, then weights."""
        weights = map(str, self.weights)
        owners = [*zip(self.people, self.boxes, strict=True)] if self.hops > 2 else []
        contents = [*zip(self.boxes, self.things, strict=True)] if self.hops > 1 else []
        weight_facts = [*zip(self.things, weights, strict=True)]
        if style == "brief":
            groups = zip(VERBS, (owners, contents, weight_facts), strict=True)
            return tuple(
                f"{subject} {verb} {value}" for verb, facts in groups for subject, value in facts
            )
        return (
            *(f"{subject.capitalize()} owns the {value} box." for subject, value in sorted(owners)),
            *(f"The {subject} box holds the {value}." for subject, value in sorted(contents)),
            *(f"The {subject} weighs {value}." for subject, value in sorted(weight_facts)),
        )

    def question(self, style: Style) -> str:
        """Return the question in words."""
        if style == "brief":
            return " plus ".join(self.names())
        forms = ("{}", "thing in the {} box", "thing in {}'s box")
        form = f"the weight of the {forms[self.hops - 1]}"
        parts = (form.format(name.capitalize() if self.hops > 2 else name) for name in self.names())
        return f"What is {' plus '.join(parts)}?"


@lru_cache(maxsize=4096)
def make_library(
    bank: int, number: int, things: int, largest: int, hops: int, terms: int
) -> Library:
    """Return library ``number`` of a bank, which depends only on these arguments."""
    stream = Stream.from_seed(bank).child("lookups").child(number)
    orders = [_random_order(stream.child(kind), 12)[:things] for kind in range(3)]
    weight_stream = stream.child("weights")
    return Library(
        people=tuple(PEOPLE[index] for index in orders[0]),
        boxes=tuple(BOXES[index] for index in orders[1]),
        things=tuple(THINGS[index] for index in orders[2]),
        weights=tuple(1 + weight_stream.integer(entry, largest) for entry in range(things)),
        hops=hops,
        entries=_random_order(stream.child("asked"), things)[:terms],
    )


def _random_order(stream: Stream, size: int) -> tuple[int, ...]:
    return tuple(sorted(range(size), key=stream.uniform))


class QuestionEnvironment(Environment):
    """The environment that ``Lookups`` wraps: a question and its answer, without tools."""

    name = "lookups"
    roles, num_seats, max_turns = ("seeker",), 1, 1
    min_utility, max_utility = 0.0, 1.0
    zero_sum, utility_sum, cooperative = False, None, False

    def __init__(self, sizes: Mapping[str, int], bank: int, libraries: int, style: Style) -> None:
        self.sizes, self.bank, self.libraries, self.style = sizes, bank, libraries, style
        self.brief = style == "brief"

    def reset(self, stream: Stream) -> LookupQuestion:
        return LookupQuestion(self, self.start(stream.integer(0, self.libraries)))

    def start(self, number: int) -> Library:
        """Return a library of the bank, with its question."""
        return make_library(self.bank, number, **self.sizes)

    def vocabulary(self) -> tuple[str, ...]:
        largest = self.sizes["largest"] * self.sizes["terms"]
        numbers = map(str, range(largest + 1))
        return tuple(sorted({*NOUNS, *VERBS, "plus", "answer", *numbers}))


class LookupQuestion(QuestionPlay):
    """The play that ``Lookup`` wraps: one question; the initial state is the library."""

    start: Library

    def question_text(self) -> str:
        """Return the question."""
        return self.start.question(self.rules.style)

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        super().paint(canvas, seat)
        if seat is None:
            heading(canvas, "Library")
            facts = " ".join(f"{fact.rstrip('.')}." for fact in self.library(0))
            paragraph(canvas, facts, most=16, colour="dim", size=14)

    def library(self, seat: int) -> tuple[str, ...]:
        """Return the facts, in which the tool searches as documents."""
        return self.start.documents(self.rules.style)

    def observe(self, seat: int) -> Observation:
        """Return the question and the form of an answer."""
        prompt = self.question_text()
        if self.rules.brief:
            return Observation(prompt=prompt, key=prompt, view=prompt)
        ask = "When you know the number, reply <answer>7</answer>, with your number in place of 7."
        return Observation(prompt=prompt, ask=ask, key=prompt, view=prompt)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the last answer in a reply, in the required form, or None."""
        if self.rules.brief:
            words = reply.split()
            return f"answer {words[1]}" if len(words) == 2 and words[0] == "answer" else None
        answers = _ANSWER.findall(reply)
        return f"<answer>{answers[-1].strip()}</answer>" if answers else None

    def step(self, replies: Mapping[int, str]) -> None:
        reply = self.read(0, replies[0])
        if self.done or reply is None:
            raise GameError(
                f"lookups: {quoted(replies[0])} is not an answer that is due; write "
                f"{answer_text(7, self.rules.brief)}, once per play."
            )
        self.answer = (
            reply.removeprefix("answer ").removeprefix("<answer>").removesuffix("</answer>")
        )

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random answer in the possible range."""
        largest = self.rules.sizes["largest"] * self.rules.sizes["terms"]
        return answer_text(1 + stream.integer(0, largest), self.rules.brief)


def answer_text(number: int | str, brief: bool) -> str:
    """Return an answer in the required form."""
    return f"answer {number}" if brief else f"<answer>{number}</answer>"


_WORDS, _NUMBERS = re.compile(r"[a-z]+"), re.compile(r"[0-9]+")


class Lookups(Bank, ToolEnvironment):
    """A question for 1 seat that needs several searches in a library and a calculator.

    The library holds random facts that no model can know: who owns which box, what is in the box,
    how much the thing weighs. "What is the weight of the thing in Ada's box plus the weight of the
    thing in Bob's box?" takes three searches for each term, and a sum. At the start chance draws
    one of ``libraries`` libraries with its question; nothing else is random.

    A reply is any text. ``<search>words</search>`` finds facts with any of the words (full-text
    search, best first), ``<calculate>2*(3+4)</calculate>`` computes, and ``<answer>7</answer>``
    ends the episode. The brief forms are ``search ada``, ``add 3 4`` (``subtract``, ``multiply``,
    ``divide``) and ``answer 7``. A search or a calculation is a call. Each call is a turn, and the
    next prompt is its result. A reply without one of these forms counts as a call. After the last
    call, only an answer is legal.

    Mathematics:
        answer = sum, over the terms of the question, of the weight at the end of each chain of hops
        return = (1 if the reply has exactly these digits, else 0) - cost * number of calls
        fewest calls = hops * terms, plus one for the sum if terms > 1

    Warm-up (imitation before RL) uses replies that search for names and answer with numbers from
    earlier prompts. RL must teach what to search for and when to answer.

    Pitfalls: with 2 results or more, a search for a name returns the next fact and the fact before.
    A tiny model must learn to copy words, which needs a bank of many libraries. If weights are few
    and small, a guess of the likeliest sum is often right: 1 in 5 for two weights of 1 to 5. A
    model that is right less often than such guesses learns to guess and stops searching.

    Args:
        hops: number of facts from a name in the question to a weight: 3 from a person, 2 from a
            box, 1 from a thing.
        terms: number of weights to add, 1 to 3 and at most ``things``.
        things: number of people, of boxes and of things in a library, 1 to 12.
        largest: largest weight, 1 to 99; the smallest is 1.
        calls: largest number of calls, 1 to 50.
        results: largest number of facts in a search result, 1 to 20.
        libraries: number of libraries in the bank, 1 to 100,000.
        bank: seed of the bank: library i depends only on ``bank``, i and the sizes.
        cost: cost of a call, 0 to 1.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or more terms than things.

    Reference: Yang and others, "HotpotQA", arXiv 1809.09600 (questions of several hops); Jin and
    others, "Search-R1", arXiv 2503.09516 (search as a turn, learnt by reinforcement).
    """

    inner: QuestionEnvironment
    size_option = "libraries"

    def __init__(
        self,
        *,
        hops: Annotated[int, Field(ge=1, le=3)] = 3,
        terms: Annotated[int, Field(ge=1, le=3)] = 2,
        things: Annotated[int, Field(ge=1, le=12)] = 6,
        largest: Annotated[int, Field(ge=1, le=99)] = 9,
        calls: Annotated[int, Field(ge=1, le=50)] = 9,
        results: Annotated[int, Field(ge=1, le=MAX_RESULTS)] = 2,
        libraries: Annotated[int, Field(ge=1, le=100_000)] = 4096,
        bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0,
        cost: Annotated[float, Field(ge=0, le=1)] = 0.0,
        style: Style = "brief",
    ) -> None:
        if terms > things:
            raise ConfigError(
                f"lookups: terms={terms} exceeds things={things}; write terms={things}."
            )
        sizes = {"things": things, "largest": largest, "hops": hops, "terms": terms}
        questions: Any = QuestionEnvironment(sizes, bank, libraries, style)
        super().__init__(environment=questions, calls=calls, results=results, cost=cost)
        self.bank, self.libraries, self.numbers = bank, libraries, largest * terms

    def reset(self, stream: Stream) -> Lookup:
        return Lookup(self, self.inner.reset(stream))

    def start_of(self, play: ToolPlay) -> Hashable:
        """Return the library with its question."""
        start: Library = play.first_play.start
        return start

    def start(self, number: int) -> Hashable:
        """Return library ``number`` of the bank with its question."""
        return self.inner.start(number)


class Lookup(ToolPlay):
    """One episode: a ``LookupQuestion`` with tools."""

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random search, sum or answer made of names and numbers from the prompts."""
        brief = self.rules.brief
        names, numbers = self._prompt_words(seat)
        uniform = stream.uniform(0)
        if self.calls_left(seat) and (uniform < 0.7 or not numbers):
            name = names[stream.integer(1, len(names))]
            return f"search {name}" if brief else f"<search>{name}</search>"
        if not numbers:
            return super().sample(seat, stream)
        first, second = (numbers[stream.integer(index, len(numbers))] for index in (1, 2))
        if self.calls_left(seat) and uniform < 0.85 and self.rules.inner.sizes["terms"] > 1:
            return f"add {first} {second}" if brief else f"<calculate>{first}+{second}</calculate>"
        return answer_text(first, brief)

    def _prompt_words(self, seat: int) -> tuple[list[str], list[str]]:
        results = (result for _, result in self.open_calls.get(seat, ()))
        text = " ".join((self.play.observe(seat).prompt, *results)).lower()
        names = [word for word in dict.fromkeys(_WORDS.findall(text)) if word in NOUNS]
        return names, list(dict.fromkeys(_NUMBERS.findall(text)))


lookups = entry_of(Lookups)
