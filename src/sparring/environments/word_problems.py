"""Word problems: one seat reads a short story and replies with the final number of things."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import GameError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.question import QuestionPlay

PEOPLE = ("ada", "ben", "cleo", "dan", "eva", "finn", "gus", "hana", "ivo", "jane", "kai", "lena")
THINGS = ("apples", "books", "cards", "coins", "cups", "eggs", "keys", "pens", "rings", "stamps")
HAS, BAGS, MORE = "has", "bags", "more"
GETS, LOSES, DOUBLES = "gets", "loses", "doubles"
WORDS = ("has", "bags", "of", "more", "than", "gets", "loses", "doubles", "how", "many")
_FULL_SENTENCES = {
    HAS: "{name} has {a} {noun}.",
    BAGS: "{name} has {a} bags with {b} {things} in each bag.",
    MORE: "{other} has {a} {noun}. {name} has {b} more {things} than {other}.",
}
_BRIEF_SENTENCES = {
    HAS: "{name} has {a} {things}",
    BAGS: "{name} has {a} bags of {b} {things}",
    MORE: "{other} has {a} {things} {name} has {b} more than {other}",
}
_EVENT_SENTENCES = {  # kind of event -> wordings; a story uses one of them
    GETS: (
        "{name} buys {a} more {noun}.",
        "{name} finds {a} more {noun}.",
        "A friend gives {name} {a} more {noun}.",
    ),
    LOSES: (
        "{name} loses {a} {noun}.",
        "{name} gives away {a} {noun}.",
        "{name} sells {a} {noun}.",
    ),
    DOUBLES: ("Then {name} doubles the number of {things}.",),
}


@dataclass(frozen=True, slots=True)
class Story:
    """A story about a number of things.

    Args:
        person: the main person.
        other: another person.
        things: the things to count.
        opening: the kind of the first sentence: HAS, BAGS or MORE.
        numbers: the two numbers of the first sentence; the second is 0 for HAS.
        events: later events as (GETS, LOSES or DOUBLES, amount, index of the wording).
    """

    person: str
    other: str
    things: str
    opening: str
    numbers: tuple[int, int]
    events: tuple[tuple[str, int, int], ...]

    @property
    def answer(self) -> int:
        """The final number of things."""
        first, second = self.numbers
        count = {HAS: first, BAGS: first * second, MORE: first + second}[self.opening]
        for kind, number, _ in self.events:
            count = {GETS: count + number, LOSES: count - number, DOUBLES: 2 * count}[kind]
        return count

    def text(self, brief: bool) -> str:
        """Return the story and its question."""
        names = {"name": self.person, "other": self.other, "things": self.things}
        if not brief:
            names |= {"name": self.person.capitalize(), "other": self.other.capitalize()}
        first, second = self.numbers
        noun = self.things if first != 1 else self.things[:-1]
        first_sentence = (_BRIEF_SENTENCES if brief else _FULL_SENTENCES)[self.opening]
        parts = [first_sentence.format(**names, a=first, b=second, noun=noun)]
        for kind, number, wording in self.events:
            if brief:
                parts.append(kind if kind == DOUBLES else f"{kind} {number}")
            else:
                noun = self.things if number != 1 else self.things[:-1]
                parts.append(_EVENT_SENTENCES[kind][wording].format(**names, a=number, noun=noun))
        if brief:
            return f"{' '.join(parts)} how many"
        return f"{' '.join(parts)} How many {self.things} does {names['name']} have now?"


@lru_cache(maxsize=4096)
def story(stream: Stream, steps: int, largest: int) -> Story:
    """Return a random story; no count in it is below 0.

    Args:
        stream: source of random numbers.
        steps: number of operations to the answer, at least 1.
        largest: largest number in the story, at least 2.
    """
    name_stream = stream.child("names")
    person = name_stream.integer(0, len(PEOPLE))
    other = (person + 1 + name_stream.integer(1, len(PEOPLE) - 1)) % len(PEOPLE)
    number_stream = stream.child("numbers")
    opening = (HAS, BAGS, MORE)[stream.child("opening").integer(0, 3)]
    least = 2 if opening == BAGS else 1
    amount = least + number_stream.integer(0, largest + 1 - least)
    extra = 0 if opening == HAS else 2 + number_stream.integer(1, largest - 1)
    count = {HAS: amount, BAGS: amount * extra, MORE: amount + extra}[opening]
    events: list[tuple[str, int, int]] = []
    for index in range(steps - (opening != HAS)):
        kinds = (GETS, GETS, LOSES, LOSES, DOUBLES) if count else (GETS,)
        event_stream = stream.child("events").child(index)
        kind = kinds[event_stream.integer(0, len(kinds))]
        limit = {GETS: largest, LOSES: min(largest, count), DOUBLES: 1}[kind]
        number = 0 if kind == DOUBLES else 1 + event_stream.integer(1, limit)
        events.append((kind, number, event_stream.integer(2, len(_EVENT_SENTENCES[kind]))))
        count = {GETS: count + number, LOSES: count - number, DOUBLES: 2 * count}[kind]
    return Story(
        person=PEOPLE[person],
        other=PEOPLE[other],
        things=THINGS[name_stream.integer(2, len(THINGS))],
        opening=opening,
        numbers=(amount, extra),
        events=tuple(events),
    )


def max_answer(steps: int, largest: int) -> int:
    """Return an upper bound of all answers: the largest first number, increased in every step."""
    count = largest * largest if steps else largest
    for _ in range(max(steps - 1, 0)):
        count = max(2 * count, count + largest)
    return max(count, 2 * largest)


_NUMBERS = re.compile(
    r"(?:(?<![\w.)\]])[-\u2212])?"  # a sign, but not the minus of "12-5"
    r"(?:(?<![\d.,])\d{1,3}(?:,\d{3})+(?!,?\d)|\d+)(?:\.\d+)?"
)
MAX_DIGITS = 15  # largest number of digits of a number in a reply


@dataclass(kw_only=True, eq=False)
class WordProblems(Bank):
    """A short story about a number of things; the seat replies once, with the final number.

    What: "Ada has 3 bags with 4 apples in each bag. Ada gives away 2 apples. How many apples does
    Ada have now?" A story begins with a number, with bags of equal size, or with a comparison with
    another person. Then the person buys, loses or doubles things. Stories are drawn from a bank.
    When to use: to measure whether learning in games transfers to questions of another kind (as
    SPIRAL, MARS and VPR claim), on problems that no training corpus contains.
    Mathematics:

        return = 1 if the last number of the reply is the answer, else 0

    The sign must be right. Commas between thousands and a fraction of 0 are ignored.

    Pitfalls: a reply without a number is illegal. A pretrained model may know how to solve such
    stories and still write another number last. Answers are small, so guesses score above 0: with
    one step and numbers up to 9 the most frequent answer is right in about 1 of 14 stories.
    Reference: problems of the kind of GSM8K (arXiv 2110.14168), which is not used here.
    Verified by: tests/environments/test_word_problems.py.

    Args:
        steps: number of operations to the answer, 1 to 5.
        largest: largest number in a story, 2 to 100.
        problems: number of stories in the bank, 1 to 10,000,000.
        bank: number of the bank, below 2^31; another bank has other stories.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """

    steps: Annotated[int, Field(ge=1, le=5)] = 1
    largest: Annotated[int, Field(ge=2, le=100)] = 9
    problems: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"

    name, size_option = "word_problems", "problems"
    roles, num_seats, max_turns = ("solver",), 1, 1
    min_utility, max_utility, utility_sum = 0.0, 1.0, None
    zero_sum, cooperative = False, False

    def __post_init__(self) -> None:
        self.brief = self.style == "brief"

    def start(self, number: int) -> Story:
        """Return a story of the bank."""
        return story(self.bank_stream(number), self.steps, self.largest)

    def start_of(self, play: Problem) -> str:
        """Return the identity of a story: its brief text."""
        return play.start.text(brief=True)

    def starts(self) -> frozenset[str]:
        """Return all stories of the bank, as ``start_of`` does."""
        return frozenset(self.start(number).text(brief=True) for number in range(self.problems))

    def vocabulary(self) -> tuple[str, ...]:
        numbers = map(str, range(max_answer(self.steps, self.largest) + 1))
        return tuple(sorted({*WORDS, *PEOPLE, *THINGS, *numbers}))

    def reset(self, stream: Stream) -> Problem:
        start = self.draw_start(stream)
        assert isinstance(start, Story)
        return Problem(self, start)


class Problem(QuestionPlay):
    """One episode with one problem; its initial state is the story."""

    kind, lines = "problem", 8
    start: Story

    def question_text(self) -> str:
        """Return the story and its question."""
        return self.start.text(self.rules.brief)

    def observe(self, seat: int) -> Observation:
        """Return the story and the form of an answer."""
        prompt = self.question_text()
        ask = "" if self.rules.brief else "Reply with the number at the end."
        return Observation(prompt=prompt, ask=ask, key=prompt, view=prompt)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the last number in a reply (``exact``: the whole reply), without commas."""
        numbers = _NUMBERS.findall(reply)
        if not numbers or (exact and reply.strip() != numbers[-1]):
            return None
        text = numbers[-1].replace(",", "").replace("\u2212", "-")
        integer_part, _, fraction = text.partition(".")
        if len(integer_part) > MAX_DIGITS:
            return None
        number = str(int(integer_part))
        return f"{number}.{fraction}" if fraction.strip("0") else number

    def step(self, replies: Mapping[int, str]) -> None:
        number = self.read(0, replies[0])
        if self.done or number is None:
            raise GameError(
                f"word_problems: {quoted(replies[0])} is no answer, or the episode is over."
            )
        self.answer = number

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random answer in the possible range."""
        return str(stream.integer(0, max_answer(self.rules.steps, self.rules.largest) + 1))


word_problems = WordProblems
