"""Solver of twenty_questions: the probability of each object, and the value of each question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from math import comb, log
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import SolverResult
from sparring.environments.base import SearchablePlay
from sparring.environments.twenty_questions import QuestionsTable

ORACLE = "posterior"  # the oracle that calls this solver

# the possible objects as a bit mask, or with noise one count for each object
Belief = int | tuple[int, ...]
Split = tuple[float, "Belief", "Belief"]  # (probability of yes, belief after yes, belief after no)

ONE_STEP_CERTAINTY = 0.5  # certainty of a judgement that looks one question ahead


def key(state: SearchablePlay, *, prior: Literal["uniform", "bank"]) -> str:
    """Return the table, the number of questions so far and the belief, as text."""
    table = state.table
    belief = solver_of(table.rows, table.values, table.noise, table.cost).belief_of(table)
    return f"{table.rows} {table.num_questions_asked} {belief}"


class BestQuestions(ABC):
    """Values of optimal play by belief and number of questions left.

    ``yes_set`` stands for a question: the bit mask of the objects for which the answer is yes.
    """

    def __init__(self, yes_sets: tuple[int, ...], objects: int, cost: float) -> None:
        self.yes_sets, self.objects, self.cost = yes_sets, objects, cost
        self._values: dict[tuple[Belief, int], float] = {}

    @abstractmethod
    def belief_of(self, table: QuestionsTable) -> Belief:
        """Return the belief after all questions and answers so far."""

    @abstractmethod
    def chances(self, belief: Belief) -> list[float]:
        """Return the probability of each object."""

    @abstractmethod
    def split(self, belief: Belief, yes_set: int) -> Split:
        """Return (probability of yes, belief after yes, belief after no)."""

    @abstractmethod
    def informative_questions(self, belief: Belief) -> list[int]:
        """Return the questions whose answer changes the belief, without duplicates."""

    @abstractmethod
    def max_reachable_beliefs(self, belief: Belief, questions: int) -> int:
        """Return an upper bound on the number of beliefs that questions can reach."""

    def value(self, belief: Belief, questions: int) -> float:
        """Return the value of optimal play: of the likeliest guess or of the best question."""
        best = self._values.get((belief, questions))
        if best is None:
            best = max(self.chances(belief))
            if questions and best < 1.0:
                for yes_set in self.informative_questions(belief):
                    best = max(best, self.question_value(belief, yes_set, questions))
            self._values[belief, questions] = best
        return best

    def question_value(self, belief: Belief, yes_set: int, questions: int) -> float:
        """Return the value of a question followed by optimal play."""
        chance, after_yes, after_no = self.split(belief, yes_set)
        return (
            -self.cost
            + chance * self.value(after_yes, questions - 1)
            + (1.0 - chance) * self.value(after_no, questions - 1)
        )

    def value_with_guess_next(self, belief: Belief, yes_set: int) -> tuple[float, float]:
        """Return (value of a question followed by a guess, expected information in nats)."""
        chance, after_yes, after_no = self.split(belief, yes_set)
        answers = [
            (probability, self.chances(next_belief))
            for probability, next_belief in ((chance, after_yes), (1.0 - chance, after_no))
        ]
        entropy_after = sum(probability * entropy(chances) for probability, chances in answers)
        information = entropy(self.chances(belief)) - entropy_after
        success = sum(probability * max(chances) for probability, chances in answers)
        return success - self.cost, information

    def trim(self) -> None:
        """Clear the cache if it is large; later values are computed again."""
        if len(self._values) > 50_000:
            self._values.clear()


class TruthfulQuestions(BestQuestions):
    """Optimal play with true answers: a belief is the set of objects left, as bits."""

    def belief_of(self, table: QuestionsTable) -> Belief:
        """Return the objects that agree with all answers."""
        objects = (1 << self.objects) - 1
        for question, answer in zip(table.moves, table.answers, strict=False):
            objects &= self.yes_sets[question] if answer else ~self.yes_sets[question]
        return objects

    def chances(self, belief: Belief) -> list[float]:
        """Return 1/n for each of n objects left."""
        assert isinstance(belief, int)
        return [(belief >> item & 1) / belief.bit_count() for item in range(self.objects)]

    def split(self, belief: Belief, yes_set: int) -> Split:
        """Return the share of objects with yes, and the objects left after each answer."""
        assert isinstance(belief, int)
        return (
            (belief & yes_set).bit_count() / belief.bit_count(),
            belief & yes_set or belief,  # an impossible answer leaves the belief
            belief & ~yes_set or belief,
        )

    def informative_questions(self, belief: Belief) -> list[int]:
        """Return the questions with both answers among the objects left."""
        assert isinstance(belief, int)
        return sorted({min(belief & yes_set, belief & ~yes_set) for yes_set in self.yes_sets} - {0})

    def max_reachable_beliefs(self, belief: Belief, questions: int) -> int:
        """Return the smaller of the number of sets of objects and the number of histories."""
        assert isinstance(belief, int)
        count = len(self.informative_questions(belief))
        sizes = range(min(questions, count) + 1)
        return min(1 << belief.bit_count(), sum(comb(count, size) << size for size in sizes))


class NoisyQuestions(BestQuestions):
    """Optimal play with noisy answers.

    A belief is one count for each object: of answers that agree with it, minus the least count.
    """

    def __init__(self, yes_sets: tuple[int, ...], objects: int, cost: float, noise: float) -> None:
        super().__init__(yes_sets, objects, cost)
        self.noise = noise
        all_objects = (1 << objects) - 1
        self._questions = sorted({min(bits, all_objects & ~bits) for bits in yes_sets} - {0})

    def belief_of(self, table: QuestionsTable) -> Belief:
        """Return for each object the number of answers that agree, minus the least number."""
        belief: tuple[int, ...] = (0,) * self.objects
        for question, answer in zip(table.moves, table.answers, strict=False):
            belief = self._update_belief(belief, self.yes_sets[question], answer)
        return belief

    def _update_belief(self, belief: tuple[int, ...], yes_set: int, answer: int) -> tuple[int, ...]:
        counts = [count + ((yes_set >> item & 1) == answer) for item, count in enumerate(belief)]
        min_count = min(counts)
        return tuple(count - min_count for count in counts)

    def chances(self, belief: Belief) -> list[float]:
        """Return the probability of each object, proportional to ((1 - noise) / noise) ** count."""
        assert isinstance(belief, tuple)
        odds, max_count = self.noise / (1.0 - self.noise), max(belief)
        weights = [odds ** (max_count - count) for count in belief]
        total = sum(weights)
        return [weight / total for weight in weights]

    def split(self, belief: Belief, yes_set: int) -> Split:
        """Return (probability of yes, belief after yes, belief after no)."""
        assert isinstance(belief, tuple)
        chances = enumerate(self.chances(belief))
        true_yes = sum(chance for item, chance in chances if yes_set >> item & 1)
        chance = true_yes * (1.0 - self.noise) + (1.0 - true_yes) * self.noise
        after_yes, after_no = (self._update_belief(belief, yes_set, answer) for answer in (1, 0))
        return chance, after_yes, after_no

    def informative_questions(self, belief: Belief) -> list[int]:
        """Return the questions that have both answers among the objects of the table."""
        return self._questions

    def max_reachable_beliefs(self, belief: Belief, questions: int) -> int:
        """Return the number of possible tuples of (number of yes - number of no) per question."""
        count = len(self._questions)
        sizes = range(min(questions, count) + 1)
        return sum(comb(count, size) * comb(questions, size) << size for size in sizes)


def entropy(chances: list[float]) -> float:
    """Return the Shannon entropy in nats."""
    return max(0.0, -sum(chance * log(chance) for chance in chances if chance))


@lru_cache(maxsize=64)
def solver_of(
    rows: tuple[tuple[int, ...], ...], values: int, noise: float, cost: float
) -> BestQuestions:
    """Return the cached solver of a table of objects, shared by all states of the table."""
    num_questions = len(rows[0]) * values
    yes_sets = tuple(
        sum(1 << item for item, row in enumerate(rows) if row[number // values] == number % values)
        for number in range(num_questions)
    )
    return (
        NoisyQuestions(yes_sets, len(rows), cost, noise)
        if noise
        else TruthfulQuestions(yes_sets, len(rows), cost)
    )


def twenty_questions(
    state: SearchablePlay,
    *,
    prior: Literal["uniform", "bank"] = "uniform",
    beliefs: Annotated[int, Field(ge=1)] = 20_000,
) -> SolverResult:
    """Value of each question and guess in twenty questions: exact for few beliefs, else estimated.

    What: the value of a guess is the probability that it is right. The value of a question is the
    return of optimal play after it. The cost of earlier questions is subtracted from both.
    When to use: through oracle ``posterior``, on game ``twenty_questions``.
    Mathematics:
        P(o | answers) proportional to prod (1 - noise if the answer is true of o, else noise)
    with a uniform prior over objects. With k questions left
        V(P, k) = max(max_o P(o),
                      max_q -cost + P(yes) V(P | yes, k - 1) + P(no) V(P | no, k - 1))
    If more than ``beliefs`` beliefs may be reachable, the value of a question is
        L + (U - L) I / log 2
    L is the value of the question followed by a guess. U is an upper bound for any policy: the
    probability of the 2^k likeliest objects, and 2^k max_o P(o) (1 - noise)^k. I is the expected
    information of the answer in nats. ``bound`` is then the largest possible error.
        entropy = -sum P log P
    Pitfalls: the first state of a table computes all its values, which with noise can take some
    seconds; later states read a cache. An estimate has certainty 0.5, which is not a probability.
    Reference: Hyafil and Rivest, 1976: the exact problem is NP-complete; Golovin and Krause,
    "Adaptive submodularity", 2011, on greedy questions.
    Verified by: tests/environments/twenty_questions/test_solver.py, tests/contract/test_beliefs.py.

    Args:
        prior: "uniform" (default) and "bank" have equal results, because the player sees the table
            and all its objects are equally likely.
        beliefs: largest number of beliefs for exact values. A bound of this number is computed
            before the search, so a judgement depends only on the state.
    """
    table = state.table
    solver = solver_of(table.rows, table.values, table.noise, table.cost)
    belief, questions = solver.belief_of(table), table.questions - table.num_questions_asked
    chances, legal = solver.chances(belief), state.legal_indices()
    is_exact, bound = solver.max_reachable_beliefs(belief, questions) <= beliefs, 0.0
    values = []
    for index in legal:
        if index >= table.num_questions:
            value = chances[index - table.num_questions]
        elif is_exact:
            value = solver.question_value(belief, solver.yes_sets[index], questions)
        else:
            low, information = solver.value_with_guess_next(belief, solver.yes_sets[index])
            high = max(low, max_success(chances, questions, table.noise) - table.cost)
            value = low + (high - low) * min(1.0, information / log(2.0))
            bound = max(bound, value - low, high - value)
        values.append(value - table.cost * table.num_questions_asked)
    solver.trim()
    certainty = 1.0 if is_exact else ONE_STEP_CERTAINTY
    return SolverResult(values=values, certainty=certainty, bound=bound, entropy=entropy(chances))


def max_success(chances: list[float], questions: int, noise: float) -> float:
    """Return an upper bound on the probability of a right guess after some questions."""
    chances = sorted(chances, reverse=True)
    return min(sum(chances[: 2**questions]), chances[0] * (2.0 * (1.0 - noise)) ** questions)
