"""Solver of twenty_questions: probabilities of objects, and the values of questions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from math import comb, log
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Judgement
from sparring.environments.base import SearchablePlay
from sparring.environments.twenty_questions import QuestionsTable

ORACLE = "posterior"  # the oracle that calls this solver

Belief = int | tuple[int, ...]
Split = tuple[float, "Belief", "Belief"]  # probability of yes, the beliefs after yes and after no

GREEDY = 0.5  # certainty of a judgement by one step of information gain


def key(state: SearchablePlay, *, prior: Literal["uniform", "bank"]) -> str:
    """Return the objects, the number of questions asked, and the belief."""
    table = state.table
    belief = best_questions(table.rows, table.values, table.noise, table.cost).belief_of(table)
    return f"{table.rows} {table.num_asked} {belief}"


class BestQuestions(ABC):
    """Values of best play by belief and number of questions left."""

    def __init__(self, yes: tuple[int, ...], objects: int, cost: float) -> None:
        self.yes, self.objects, self.cost = yes, objects, cost
        self._values: dict[tuple[Belief, int], float] = {}

    @abstractmethod
    def belief_of(self, table: QuestionsTable) -> Belief:
        """Return the belief after all questions and answers so far."""

    @abstractmethod
    def chances(self, belief: Belief) -> list[float]:
        """Return the probability of each object."""

    @abstractmethod
    def split(self, belief: Belief, yes: int) -> Split:
        """Return (probability of yes, belief after yes, belief after no)."""

    @abstractmethod
    def informative_questions(self, belief: Belief) -> list[int]:
        """Return the different informative questions, as bits of objects with yes."""

    @abstractmethod
    def size(self, belief: Belief, questions: int) -> int:
        """Return an upper bound on the number of reachable beliefs."""

    def value(self, belief: Belief, questions: int) -> float:
        """Return the value of best play: the better of the likeliest guess and all questions."""
        best = self._values.get((belief, questions))
        if best is None:
            best = max(self.chances(belief))
            if questions and best < 1.0:
                for yes in self.informative_questions(belief):
                    best = max(best, self.question_value(belief, yes, questions))
            self._values[belief, questions] = best
        return best

    def question_value(self, belief: Belief, yes: int, questions: int) -> float:
        """Return the value of a question followed by best play."""
        chance, after_yes, after_no = self.split(belief, yes)
        return (
            -self.cost
            + chance * self.value(after_yes, questions - 1)
            + (1.0 - chance) * self.value(after_no, questions - 1)
        )

    def guess_after(self, belief: Belief, yes: int) -> tuple[float, float]:
        """Return (value of a question followed by a guess, expected information in nats)."""
        chance, after_yes, after_no = self.split(belief, yes)
        outcomes = [
            (share, self.chances(part))
            for share, part in ((chance, after_yes), (1.0 - chance, after_no))
        ]
        information = entropy(self.chances(belief)) - sum(
            share * entropy(chances) for share, chances in outcomes
        )
        return -self.cost + sum(share * max(chances) for share, chances in outcomes), information

    def trim(self) -> None:
        """Clear a large cache, which costs time only."""
        if len(self._values) > 50_000:
            self._values.clear()


class TruthfulQuestions(BestQuestions):
    """Best play with true answers: a belief is the set of objects left, as bits."""

    def belief_of(self, table: QuestionsTable) -> Belief:
        """Return the objects that agree with all answers."""
        objects = (1 << self.objects) - 1
        for question, answer in zip(table.moves, table.answers, strict=False):
            objects &= self.yes[question] if answer else ~self.yes[question]
        return objects

    def chances(self, belief: Belief) -> list[float]:
        """Return 1/n for each of n objects left."""
        assert isinstance(belief, int)
        return [(belief >> item & 1) / belief.bit_count() for item in range(self.objects)]

    def split(self, belief: Belief, yes: int) -> Split:
        """Return the share of objects with yes, and the objects left after each answer."""
        assert isinstance(belief, int)
        return (
            (belief & yes).bit_count() / belief.bit_count(),
            belief & yes or belief,
            belief & ~yes or belief,
        )

    def informative_questions(self, belief: Belief) -> list[int]:
        """Return the questions that split the objects left."""
        assert isinstance(belief, int)
        return sorted({min(belief & yes, belief & ~yes) for yes in self.yes} - {0})

    def size(self, belief: Belief, questions: int) -> int:
        """Return the lesser of the number of sets of objects and the number of histories."""
        assert isinstance(belief, int)
        informative = len(self.informative_questions(belief))
        sizes = range(min(questions, informative) + 1)
        return min(1 << belief.bit_count(), sum(comb(informative, num) << num for num in sizes))


class NoisyQuestions(BestQuestions):
    """Best play with noisy answers.

    A belief counts for each object the answers that agree with it, less the smallest such count.
    """

    def __init__(self, yes: tuple[int, ...], objects: int, cost: float, noise: float) -> None:
        super().__init__(yes, objects, cost)
        self.noise = noise
        all_objects = (1 << objects) - 1
        self._questions = sorted({min(part, all_objects & ~part) for part in yes} - {0})

    def belief_of(self, table: QuestionsTable) -> Belief:
        """Return for each object the number of answers that agree with it, less the smallest."""
        belief: tuple[int, ...] = (0,) * self.objects
        for question, answer in zip(table.moves, table.answers, strict=False):
            belief = self._updated(belief, self.yes[question], answer)
        return belief

    def _updated(self, belief: tuple[int, ...], yes: int, answer: int) -> tuple[int, ...]:
        counts = [count + ((yes >> item & 1) == answer) for item, count in enumerate(belief)]
        smallest = min(counts)
        return tuple(count - smallest for count in counts)

    def chances(self, belief: Belief) -> list[float]:
        """Return the probability of each object, proportional to ((1 - noise) / noise) ** count."""
        assert isinstance(belief, tuple)
        odds, largest = self.noise / (1.0 - self.noise), max(belief)
        weights = [odds ** (largest - count) for count in belief]
        total = sum(weights)
        return [weight / total for weight in weights]

    def split(self, belief: Belief, yes: int) -> Split:
        """Return (probability of yes, belief after yes, belief after no)."""
        assert isinstance(belief, tuple)
        chances = enumerate(self.chances(belief))
        true_yes = sum(chance for item, chance in chances if yes >> item & 1)
        chance = true_yes * (1.0 - self.noise) + (1.0 - true_yes) * self.noise
        return chance, self._updated(belief, yes, 1), self._updated(belief, yes, 0)

    def informative_questions(self, belief: Belief) -> list[int]:
        """Return the questions that split the objects."""
        return self._questions

    def size(self, belief: Belief, questions: int) -> int:
        """Return the number of differences between yes and no per question in so many answers."""
        informative = len(self._questions)
        sizes = range(min(questions, informative) + 1)
        return sum(comb(informative, num) * comb(questions, num) << num for num in sizes)


def entropy(chances: list[float]) -> float:
    """Return the Shannon entropy in nats."""
    return max(0.0, -sum(chance * log(chance) for chance in chances if chance))


@lru_cache(maxsize=64)
def best_questions(
    rows: tuple[tuple[int, ...], ...], values: int, noise: float, cost: float
) -> BestQuestions:
    """Return the cached solver of a table of objects, shared by all its states."""
    num_questions = len(rows[0]) * values
    yes = tuple(
        sum(1 << item for item, row in enumerate(rows) if row[number // values] == number % values)
        for number in range(num_questions)
    )
    return (
        NoisyQuestions(yes, len(rows), cost, noise)
        if noise
        else TruthfulQuestions(yes, len(rows), cost)
    )


def twenty_questions(
    state: SearchablePlay,
    *,
    prior: Literal["uniform", "bank"] = "uniform",
    beliefs: Annotated[int, Field(ge=1)] = 20_000,
) -> Judgement:
    """Exact value of each question and guess in twenty questions for few beliefs, else an estimate.

    What: the value of a guess is the probability that it is right. The value of a question is the
    return of best play after it. The cost of earlier questions counts.
    When to use: through oracle ``posterior``, on game ``twenty_questions``.
    Mathematics:
        P(o | answers) proportional to prod (1 - noise if the answer is true of o, else noise)
    with all objects equally likely before. With k questions left
        V(P, k) = max(max_o P(o),
                      max_q -cost + P(yes) V(P | yes, k - 1) + P(no) V(P | no, k - 1))
    If more than ``beliefs`` beliefs may be reachable, the value of a question is
        L + (U - L) I / log 2
    L is the value of the question followed by a guess. U is an upper bound for any player (the 2^k
    likeliest objects, or P(o) (1 - noise)^k for each of 2^k answers). I is the expected information
    of its answer in nats. ``bound`` is then the largest possible error, and the certainty is 0.5.
        entropy = -sum P log P
    Pitfalls: the first state of a table computes all its values, which takes up to seconds with
    noise; later states read a cache. The certainty 0.5 marks an approximation and is not a
    probability.
    Reference: Hyafil and Rivest, 1976: the exact problem is NP-complete; Golovin and Krause,
    "Adaptive submodularity", 2011, on greedy questions.
    Verified by: tests/environments/twenty_questions/test_solver.py, tests/contract/test_beliefs.py.

    Args:
        prior: "uniform" (default) and "bank" are the same: the player sees the table, and every
            game draws its object anew.
        beliefs: most beliefs for exact values, at least 1. The count precedes the search, so a
            judgement depends only on the state.
    """
    table = state.table
    best = best_questions(table.rows, table.values, table.noise, table.cost)
    belief, questions = best.belief_of(table), table.questions - table.num_asked
    chances, legal = best.chances(belief), state.legal_indices()
    exact, bound = best.size(belief, questions) <= beliefs, 0.0
    values = []
    for index in legal:
        if index >= table.kinds:
            value = chances[index - table.kinds]
        elif exact:
            value = best.question_value(belief, best.yes[index], questions)
        else:
            low, information = best.guess_after(belief, best.yes[index])
            high = max(low, max_success(chances, questions, table.noise) - table.cost)
            value = low + (high - low) * min(1.0, information / log(2.0))
            bound = max(bound, value - low, high - value)
        values.append(value - table.cost * table.num_asked)
    best.trim()
    return Judgement(
        values=values, certainty=1.0 if exact else GREEDY, bound=bound, entropy=entropy(chances)
    )


def max_success(chances: list[float], questions: int, noise: float) -> float:
    """Return an upper bound on the probability of a right guess after some questions."""
    likeliest = sorted(chances, reverse=True)
    return min(sum(likeliest[: 2**questions]), likeliest[0] * (2.0 * (1.0 - noise)) ** questions)
