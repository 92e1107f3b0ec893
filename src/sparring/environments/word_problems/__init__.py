"""Word problems: one seat reads a short story and says how many things there are in the end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.bank import BANKS
from sparring.environments.word_problems.rules import WordProblems


def word_problems(
    *,
    steps: Annotated[int, Field(ge=1, le=5)] = 1,
    largest: Annotated[int, Field(ge=2, le=100)] = 9,
    problems: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000,
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0,
    style: Literal["brief", "full"] = "brief",
) -> WordProblems:
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
    return WordProblems(steps=steps, largest=largest, problems=problems, bank=bank, style=style)
