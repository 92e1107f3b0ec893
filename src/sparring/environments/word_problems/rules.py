"""Word problems: one seat reads a story and replies with a number."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparring.environments.bank import Bank
from sparring.environments.question import OneAnswer
from sparring.environments.word_problems.stories import PEOPLE, THINGS, WORDS, Story, most, story
from sparring.errors import GameError, quoted
from sparring.rng import Stream
from sparring.types import Observation

_NUMBERS = re.compile(
    r"(?:(?<![\w.)\]])[-\u2212])?"  # a sign, and not the one between the numbers of "12-5"
    r"(?:(?<![\d.,])\d{1,3}(?:,\d{3})+(?!,?\d)|\d+)(?:\.\d+)?"
)
LONGEST = 15  # digits of a number that is read


class WordProblems(Bank):
    """Rules and wording.

    Attributes:
        steps: operations that an answer takes.
        largest: number that is told.
        problems: in the bank.
    """

    name, counted = "word_problems", "problems"
    roles, num_seats, max_turns = ("solver",), 1, 1
    min_utility, max_utility, utility_sum = 0.0, 1.0, None
    zero_sum, cooperative = False, False

    def __init__(self, *, steps: int, largest: int, problems: int, bank: int, style: str) -> None:
        self.steps, self.largest, self.problems, self.bank = steps, largest, problems, bank
        self.style, self.brief = style, style == "brief"

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
