"""Small libraries of facts that are known to nobody, and questions about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sparring.core.errors import GameError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph
from sparring.environments.question import OneAnswer

Style = Literal["brief", "full"]
PEOPLE = ("ada", "bob", "cleo", "dan", "eva", "finn", "gus", "hana", "ivo", "jane", "kai", "lena")
BOXES = (
    "red",
    "blue",
    "green",
    "black",
    "white",
    "pink",
    "grey",
    "gold",
    "brown",
    "purple",
    "orange",
    "silver",
)
THINGS = (
    "lamp",
    "drum",
    "coin",
    "ring",
    "book",
    "bell",
    "comb",
    "vase",
    "clock",
    "flute",
    "kettle",
    "mirror",
)
NOUNS = frozenset((*PEOPLE, *BOXES, *THINGS))
VERBS = ("owns", "holds", "weighs")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Library:
    """Who owns which box, what is in it and what that weighs, entry by entry; and who is asked of.

    ``asked`` are entries; ``hops`` says where the way to a weight begins: 3 at the person, 2 at the
    box, 1 at the thing.
    """

    people: tuple[str, ...]
    boxes: tuple[str, ...]
    things: tuple[str, ...]
    weights: tuple[int, ...]
    hops: int
    asked: tuple[int, ...]

    @property
    def answer(self) -> int:
        """The sum of the weights that are asked for."""
        return sum(self.weights[entry] for entry in self.asked)

    def names(self) -> tuple[str, ...]:
        """Return the names that the question holds."""
        known = (self.things, self.boxes, self.people)[self.hops - 1]
        return tuple(known[entry] for entry in self.asked)

    def documents(self, style: Style) -> tuple[str, ...]:
        """Return the facts, one a document: owners first, then contents, then weights."""
        weights = map(str, self.weights)
        owned = [*zip(self.people, self.boxes, strict=True)] if self.hops > 2 else []
        held = [*zip(self.boxes, self.things, strict=True)] if self.hops > 1 else []
        weighed = [*zip(self.things, weights, strict=True)]
        if style == "brief":
            kinds = zip(VERBS, (owned, held, weighed), strict=True)
            return tuple(f"{one} {verb} {two}" for verb, facts in kinds for one, two in facts)
        return (
            *(f"{one.capitalize()} owns the {two} box." for one, two in sorted(owned)),
            *(f"The {one} box holds the {two}." for one, two in sorted(held)),
            *(f"The {one} weighs {two}." for one, two in sorted(weighed)),
        )

    def question(self, style: Style) -> str:
        """Return what is asked."""
        if style == "brief":
            return " plus ".join(self.names())
        forms = ("{}", "thing in the {} box", "thing in {}'s box")
        form = f"the weight of the {forms[self.hops - 1]}"
        parts = (form.format(name.capitalize() if self.hops > 2 else name) for name in self.names())
        return f"What is {' plus '.join(parts)}?"


@lru_cache(maxsize=4096)
def library(bank: int, number: int, things: int, largest: int, hops: int, terms: int) -> Library:
    """Return library ``number`` of a bank, a function of these numbers alone."""
    stream = Stream.from_seed(bank).child("lookups").child(number)
    orders = [_order(stream.child(kind), 12)[:things] for kind in range(3)]
    weigh = stream.child("weights")
    return Library(
        people=tuple(PEOPLE[index] for index in orders[0]),
        boxes=tuple(BOXES[index] for index in orders[1]),
        things=tuple(THINGS[index] for index in orders[2]),
        weights=tuple(1 + weigh.integer(entry, largest) for entry in range(things)),
        hops=hops,
        asked=_order(stream.child("asked"), things)[:terms],
    )


def _order(stream: Stream, size: int) -> tuple[int, ...]:
    """Return 0 to size - 1 in a random order."""
    return tuple(sorted(range(size), key=stream.uniform))


class Questions:
    """The task without its tools: one question, one answer."""

    name = "lookups"
    roles, num_seats, max_turns = ("seeker",), 1, 1
    min_utility, max_utility = 0.0, 1.0
    zero_sum, utility_sum, cooperative = False, None, False

    def __init__(self, sizes: Mapping[str, int], bank: int, libraries: int, style: Style) -> None:
        self.sizes, self.bank, self.libraries, self.style = sizes, bank, libraries, style
        self.brief = style == "brief"

    def reset(self, stream: Stream) -> Question:
        """Return a question about a library that is drawn from the bank."""
        return Question(self, self.start(stream.integer(0, self.libraries)))

    def start(self, number: int) -> Library:
        """Return a library of the bank, with its question."""
        return library(self.bank, number, **self.sizes)

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of the brief style."""
        most = self.sizes["largest"] * self.sizes["terms"]
        numbers = map(str, range(most + 1))
        return tuple(sorted({*NOUNS, *VERBS, "plus", "answer", *numbers}))


class Question(OneAnswer):
    """One question; its start is the library."""

    start: Library

    def asked(self) -> str:
        """Return the question."""
        return self.start.question(self.rules.style)

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the question and what was answered; with nothing hidden, the library too."""
        super().paint(canvas, seat)
        if seat is None:
            heading(canvas, "Library")
            facts = " ".join(f"{fact.rstrip('.')}." for fact in self.library(0))
            paragraph(canvas, facts, most=16, colour="dim", size=14)

    def library(self, seat: int) -> tuple[str, ...]:
        """Return the documents that may be searched."""
        return self.start.documents(self.rules.style)

    def observe(self, seat: int) -> Observation:
        """Return the question and the form of an answer."""
        told = self.asked()
        if self.rules.brief:
            return Observation(told=told, key=told, view=told)
        ask = "When you know the number, reply <answer>7</answer>, with your number in place of 7."
        return Observation(told=told, ask=ask, key=told, view=told)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the last answer in a reply, in the form asked for, or None."""
        if self.rules.brief:
            words = reply.split()
            return f"answer {words[1]}" if len(words) == 2 and words[0] == "answer" else None
        found = _ANSWER.findall(reply)
        return f"<answer>{found[-1].strip()}</answer>" if found else None

    def step(self, replies: Mapping[int, str]) -> None:
        """Take the answer."""
        read = self.read(0, replies[0])
        if self.done or read is None:
            raise GameError(f"lookups: {quoted(replies[0])} is no answer that is due.")
        self.said = read.removeprefix("answer ").removeprefix("<answer>").removesuffix("</answer>")

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a number that could be the answer."""
        most = self.rules.sizes["largest"] * self.rules.sizes["terms"]
        return said(1 + stream.integer(0, most), self.rules.brief)


def said(number: int | str, brief: bool) -> str:
    """Return an answer in the form asked for."""
    return f"answer {number}" if brief else f"<answer>{number}</answer>"
