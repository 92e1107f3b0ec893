"""Lookups: one seat answers a question by several searches in a small library, and a calculator."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Annotated, Any

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.lookups.rules import NOUNS, Library, Questions, Style, said
from sparring.environments.toolbox import MOST
from sparring.environments.tools import ToolPlay, WithTools

_WORDS, _NUMBERS = re.compile(r"[a-z]+"), re.compile(r"[0-9]+")


class Lookups(Bank, WithTools):
    """Questions over a bank of libraries, with the tools to answer them."""

    inner: Questions
    counted = "libraries"

    def __init__(self, inner: Questions, **options: Any) -> None:
        super().__init__(inner, **options)
        self.bank, self.libraries = inner.bank, inner.libraries

    def reset(self, stream: Stream) -> Lookup:
        """Return a question about a library that is drawn from the bank."""
        return Lookup(self, self.inner.reset(stream))

    def start_of(self, play: ToolPlay) -> Hashable:
        """Return the library, and what is asked."""
        start: Library = play.first.start
        return start

    def start(self, number: int) -> Hashable:
        """Return a library of the bank, and what is asked."""
        return self.inner.start(number)


class Lookup(ToolPlay):
    """One question."""

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a call or an answer made of words that the seat was told.

        A search for a name (most often), a sum of two numbers, or an answer with one; without
        numbers a search.
        """
        brief = self.rules.brief
        names, numbers = self._heard(seat)
        pick = stream.uniform(0)
        if self.left(seat) and (pick < 0.7 or not numbers):
            name = names[stream.integer(1, len(names))]
            return f"search {name}" if brief else f"<search>{name}</search>"
        if not numbers:
            return super().sample(seat, stream)
        one, two = (numbers[stream.integer(draw, len(numbers))] for draw in (1, 2))
        if self.left(seat) and pick < 0.85 and self.rules.inner.sizes["terms"] > 1:
            return f"add {one} {two}" if brief else f"<calculate>{one}+{two}</calculate>"
        return said(one, brief)

    def _heard(self, seat: int) -> tuple[list[str], list[str]]:
        """Return the names and the numbers that a seat was told, each once, in that order."""
        answers = (answer for _, answer in self.made.get(seat, ()))
        text = " ".join((self.play.observe(seat).told, *answers)).lower()
        names = [word for word in dict.fromkeys(_WORDS.findall(text)) if word in NOUNS]
        return names, list(dict.fromkeys(_NUMBERS.findall(text)))


def lookups(
    *,
    hops: Annotated[int, Field(ge=1, le=3)] = 3,
    terms: Annotated[int, Field(ge=1, le=3)] = 2,
    things: Annotated[int, Field(ge=1, le=12)] = 6,
    largest: Annotated[int, Field(ge=1, le=99)] = 9,
    calls: Annotated[int, Field(ge=1, le=50)] = 9,
    results: Annotated[int, Field(ge=1, le=MOST)] = 2,
    libraries: Annotated[int, Field(ge=1, le=100_000)] = 4096,
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0,
    cost: Annotated[float, Field(ge=0, le=1)] = 0.0,
    style: Style = "brief",
) -> Lookups:
    """A question for 1 seat that takes several searches in a library, and a calculator.

    The library holds facts that nobody can know beforehand: who owns which box, what is in the box,
    what that weighs. "What is the weight of the thing in Ada's box plus the weight of the thing in
    Bob's box?" takes three searches for each of the two, and a sum. Chance draws one of
    ``libraries`` libraries with its question at the start; nothing else is random.

    A reply is any text. ``<search>words</search>`` finds facts that have any of the words
    (full-text search, best first), ``<calculate>2*(3+4)</calculate>`` computes, and
    ``<answer>7</answer>`` ends the play; in brief style ``search ada``, ``add 3 4`` (``subtract``,
    ``multiply``, ``divide``) and ``answer 7``. A call is a turn of its own, and its result is what
    the seat is told next. A reply that is none of these spends a call. When the calls are spent,
    anything but an answer is illegal.

    Mathematics:
        answer = sum, over the terms asked, of the weight at the end of each chain of hops
        return = 1 if the answer is that number, digit by digit, else 0; less cost * calls made
        least calls = hops * terms, and one more to add where terms > 1

    Warm-up imitates a seat that searches for names it was told, and answers a number it was told:
    what to look for and when to answer is left to be learnt.

    Pitfalls: with 2 results or more a name gives the fact that leads to it as well as the one that
    leads on. A tiny model must learn to copy words, for which it wants a bank of many libraries.
    The likeliest sum of few small weights is a guess that pays: 1 in 5 for two of 1 to 5, and a
    model that begins below that learns to guess and to search no more.

    Args:
        hops: facts from a name in the question to a weight: 3 begins at a person, 2 at a box, 1 at
            a thing.
        terms: weights that are added, 1 to 3 and at most ``things``.
        things: people, boxes and things of a library, 1 to 12.
        largest: largest weight, 1 to 99; the least is 1.
        calls: most calls, 1 to 50.
        results: most facts that a search gives, 1 to 20.
        libraries: number of libraries in the bank, 1 to 100,000.
        bank: seed of the bank: library i depends on ``bank``, i and the sizes alone.
        cost: what a call costs, 0 to 1.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or more terms than things.

    Reference: Yang and others, "HotpotQA", arXiv 1809.09600 (questions of several hops); Jin and
    others, "Search-R1", arXiv 2503.09516 (search as a turn, learnt by reinforcement).
    """
    sizes = {"things": things, "largest": largest, "hops": hops, "terms": terms}
    if terms > things:
        raise ConfigError(f"lookups: terms={terms} of {things} things; write terms={things}.")
    inner = Questions(sizes, bank, libraries, style)
    return Lookups(inner, calls=calls, results=results, cost=cost, numbers=largest * terms)
