"""Questions of reasoning-gym: one seat, one reply, scored by the library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from sparring.core.errors import ConfigError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.bridges.base import (
    CALL_SECONDS,
    BridgeEnvironment,
    BridgePlay,
    as_number,
    check_id,
    import_library,
)

TESTED = "0.1.25"
# sets whose scores evaluate a reply as Python or as a formula of sympy
WITH_LITERALS = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
WITH_FORMULAS = (
    *("countdown", "puzzle24", "intermediate_integration", "simple_integration"),
    "polynomial_multiplication",
)
_UNSAFE_FORMULA = re.compile(
    r"[^\w\s+\-*/().,^=]|_|\.\s*[^\W\d]|\blambda\b"
    r"|(?!\b(?:a?(?:sin|cos|tan|cot|sec|csc)h?|exp|log|sqrt|Integral)\s*\()"
    r"\b[^\W\d]\w*\s*\("  # a call
    r"|\*\*(?!\s*\(?-?\d{1,2}(?!\d))|\*\*\s*\(?-?\d+\)?\s*\*\*"  # a large power
    r"|\)\s*\*\*.*\)\s*\*\*",
    re.DOTALL,
)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


@dataclass(kw_only=True, eq=False)
class ReasoningGym(Bank, BridgeEnvironment):
    """A question of a set of reasoning-gym, and one reply.

    What: question ``index`` of the set with seed ``bank``. The return is the library's score of the
    reply, in [0, 1]: of the text between <answer> and </answer>, or of the whole reply.
    When to use: to train on checkable questions, or to measure whether what a policy learned in
    games transfers to them.
    Mathematics:

        return = score_answer(answer, question)

    Pitfalls: many sets score a wrong answer a little above 0 (0.01 for a wrong form). A reply whose
    scoring raises an exception scores 0. Nine sets evaluate replies as Python or as formulas; there
    a reply with a call or a large power scores 0 and is not evaluated. In small sets other banks
    repeat questions; the evaluation plays only those that training has not seen.
    Reference: reasoning-gym (arXiv 2505.24760), version 0.1.25.
    Verified by: tests/bridges/test_reasoning_gym.py.

    Args:
        game: name of the set, such as "leg_counting".
        problems: number of questions in the bank.
        bank: seed of the set; another bank has other questions.
        arguments: further settings of the set, such as {"max_animals": 4}.
        ask: the request after the question.
        call_seconds: limit of one call into the library; 0: the limit of the run.
    """

    game: str = "leg_counting"
    problems: Annotated[int, Field(ge=1, le=10_000_000)] = 1000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    arguments: dict[str, Any] | None = None
    ask: str = "Reply with the answer only."
    call_seconds: Annotated[float, Field(ge=0)] = CALL_SECONDS

    name, size_option, figures = "reasoning_gym", "problems", ("scoring_errors",)
    roles, num_seats, max_turns, cooperative = ("solver",), 1, 1, True
    min_utility, max_utility = 0.0, 1.0

    def __post_init__(self) -> None:
        self.game_id = self.game
        library = import_library("reasoning_gym", "reasoning_gym", TESTED)
        factory = import_library("reasoning_gym.factory", "reasoning_gym", TESTED)
        check_id("reasoning_gym", self.game, set(factory.DATASETS) - {"composite"})
        for name, value in (self.arguments or {}).items():
            if isinstance(value, str) and ("/" in value or "\\" in value or ".." in value):
                raise ConfigError(
                    f"environments 'reasoning_gym': {name}={quoted(value)} is a path, and a set "
                    "reads its own files only; leave it out."
                )
        with self.probe():
            self.questions = library.create_dataset(
                self.game, seed=self.bank, size=self.problems, **(self.arguments or {})
            )
            assert self.questions[0]["question"]
        self._start = lru_cache(maxsize=4096)(self._make_question)

    def _make_question(self, number: int) -> Mapping[str, Any]:
        with self.call_without_play("question"):
            question: Mapping[str, Any] = self.questions[number]
        return question

    def start(self, number: int) -> Any:
        """Return question ``number`` of the bank."""
        return self._start(number)

    def start_of(self, play: Any) -> str:
        """Return the identity of an initial state: the question."""
        return str(play.question["question"])

    def starts(self) -> frozenset[str]:  # type: ignore[override]
        """Return all questions of the bank."""
        return frozenset(str(self.start(n)["question"]) for n in range(self.problems))

    def reset(self, stream: Stream) -> ReasoningGymPlay:
        """Return a new play."""
        return ReasoningGymPlay(self, stream.child("start").integer(0, self.problems))


def is_unsafe(game: str, reply: str) -> bool:
    """Return whether the score of a set would evaluate a reply that calls or computes too much."""
    if game in WITH_LITERALS:
        return "(" in reply or "**" in reply
    return game in WITH_FORMULAS and bool(len(reply) > 1000 or _UNSAFE_FORMULA.search(reply))


class ReasoningGymPlay(BridgePlay):
    """A play with one question; its seed is the question's number."""

    rules: ReasoningGym

    def begin(self) -> None:
        """Take the question."""
        self.question: Any = self.rules.start(self.seed)
        self.reply: str | None = None
        self.has_scoring_error = False
        self.first_texts = self.question["question"]

    def due(self) -> tuple[int, ...]:
        """Return the seat, or () after its reply."""
        return () if self.done else (0,)

    def legal(self, seat: int) -> None:
        """Return None: any text is a reply."""

    def observe(self, seat: int) -> Observation:
        """Return the question."""
        text = self.first_texts
        return Observation(prompt=text, ask=self.rules.ask, key=text, view=text)

    def read(self, seat: int, reply: str, exact: bool = False) -> str:
        """Return the last text between answer tags, or the whole reply."""
        answers = _ANSWER.findall(reply)
        return (answers[-1] if answers else reply).strip()

    def sample(self, seat: int, stream: Stream) -> str:
        """Return the answer of a random question."""
        answer = self.rules.start(stream.integer(0, self.rules.problems)).get("answer")
        return str(answer or "unknown")

    def advance(self, replies: Mapping[int, str]) -> None:
        """Score the reply."""
        self.reply = replies[0]
        if is_unsafe(self.rules.game, self.reply):
            self.recover(replies)
            return
        score = self.rules.questions.score_answer(answer=self.reply, entry=self.question)
        self.returns = (as_number(score, f"reasoning_gym: the score of {self.rules.game!r}"),)
        self.done = True

    def recover(self, replies: Mapping[int, str]) -> bool:
        """Score a reply 0 whose scoring raised, or was not tried."""
        self.has_scoring_error, self.done, self.returns = True, True, (0.0,)
        return True

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return whether scoring raised."""
        return {"scoring_errors": (float(self.has_scoring_error),)}

    def copy_library(self) -> bool:
        """Share the question, which never changes."""
        return True


def library_ids() -> list[str]:
    """Return the names of all sets."""
    factory = import_library("reasoning_gym.factory", "reasoning_gym", TESTED)
    return sorted(set(factory.DATASETS) - {"composite"})


reasoning_gym = ReasoningGym
