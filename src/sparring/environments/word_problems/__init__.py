"""Word problems: one seat reads a short story and says how many things there are in the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import GameError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.question import OneAnswer
from sparring.environments.word_problems.stories import PEOPLE, THINGS, WORDS, Story, most, story

_NUMBERS = re.compile(
    r"(?:(?<![\w.)\]])[-\u2212])?"  # a sign, and not the one between the numbers of "12-5"
    r"(?:(?<![\d.,])\d{1,3}(?:,\d{3})+(?!,?\d)|\d+)(?:\.\d+)?"
)
LONGEST = 15  # digits of a number that is read


@dataclass(kw_only=True, eq=False)
class WordProblems(Bank):
    """A short story about how many things somebody has, and one reply: the number in the end.

    What: "Ada has 3 bags with 4 apples in each bag. Ada gives away 2 apples. How many apples does
    Ada have now?" A story opens with a number, with bags of equally many, or with more than
    somebody else has; then things are bought, lost or doubled. Stories are drawn from a bank.
    When to use: to measure whether what a language model has learnt in games carries over to
    questions of another kind (claims of SPIRAL, MARS and VPR), on problems that are in no corpus.
    Mathematics:

        return = 1 if the last number of the reply is the answer, else 0

    A sign counts, commas between thousands and a fraction of 0 do not.

    Pitfalls: a reply without a number is illegal. A pretrained model may know how to solve such
    stories and still write another number last. Answers are small, so that guessing is not 0: with
    one step and numbers to 9 the most frequent answer is right in about one story of 14.
    Reference: the kind of problem is that of GSM8K (arXiv 2110.14168), which is not used here.
    Verified by: tests/environments/test_word_problems.py.

    Args:
        steps: operations that the answer takes, 1 to 5.
        largest: largest number that is told, 2 to 100.
        problems: stories in the bank, 1 to 10,000,000.
        bank: number of the bank, below 2^31; another one has other stories.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """

    steps: Annotated[int, Field(ge=1, le=5)] = 1
    largest: Annotated[int, Field(ge=2, le=100)] = 9
    problems: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"

    name, counted = "word_problems", "problems"
    roles, num_seats, max_turns = ("solver",), 1, 1
    min_utility, max_utility, utility_sum = 0.0, 1.0, None
    zero_sum, cooperative = False, False

    def __post_init__(self) -> None:
        self.brief = self.style == "brief"

    def start(self, number: int) -> Story:
        """Return a story of the bank."""
        return story(self.bank_stream(number), self.steps, self.largest)

    def start_of(self, play: Problem) -> str:
        """Return what tells a story from others: what is read, in the wording that says least."""
        return play.start.told(brief=True)

    def starts(self) -> frozenset[str]:
        """Return all stories of the bank, as ``start_of`` does."""
        return frozenset(self.start(number).told(brief=True) for number in range(self.problems))

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of the brief wording."""
        numbers = map(str, range(most(self.steps, self.largest) + 1))
        return tuple(sorted({*WORDS, *PEOPLE, *THINGS, *numbers}))

    def reset(self, stream: Stream) -> Problem:
        """Return a problem of the bank."""
        found = self.drawn(stream)
        assert isinstance(found, Story)
        return Problem(self, found)


class Problem(OneAnswer):
    """One problem; its start is the story."""

    kind, lines = "problem", 8
    start: Story

    def asked(self) -> str:
        """Return the story and its question."""
        return self.start.told(self.rules.brief)

    def observe(self, seat: int) -> Observation:
        """Return the story and the form of an answer."""
        told = self.asked()
        ask = "" if self.rules.brief else "Reply with the number at the end."
        return Observation(told=told, ask=ask, key=told, view=told)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the last number of a reply, without commas and without a fraction of 0, or None.

        ``exact``: the reply is that number and nothing else.
        """
        found = _NUMBERS.findall(reply)
        if not found or (exact and reply.strip() != found[-1]):
            return None
        last = found[-1].replace(",", "").replace("\u2212", "-")
        whole, _, fraction = last.partition(".")
        if len(whole) > LONGEST:
            return None
        number = str(int(whole))
        return f"{number}.{fraction}" if fraction.strip("0") else number

    def step(self, replies: Mapping[int, str]) -> None:
        """Take the answer."""
        read = self.read(0, replies[0])
        if self.done or read is None:
            raise GameError(f"word_problems: {quoted(replies[0])} is no answer that is due.")
        self.said = read

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a number that could be the answer."""
        return str(stream.integer(0, most(self.rules.steps, self.rules.largest) + 1))


word_problems = WordProblems
