"""Solver: which object is hidden, and what each question is worth.

The worth is found by best play over all beliefs while they are few enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from math import comb, log
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Judgement
from sparring.environments.base import SearchablePlay
from sparring.environments.twenty_questions import Inquiry

ORACLE = "posterior"  # that asks this solver

Belief = int | tuple[int, ...]
Split = tuple[float, "Belief", "Belief"]  # probability of yes, the beliefs after yes and after no

GREEDY = 0.5  # the certainty of a verdict from one step of information gain


def key(state: SearchablePlay, *, prior: Literal["uniform", "bank"]) -> str:
    """Return the objects, how many questions were asked, and the belief."""
    table = state.table
    belief = inquest(table.rows, table.values, table.noise, table.cost).now(table)
    return f"{table.rows} {table.asked} {belief}"


class Inquest(ABC):
    """Best play with a known table by belief and questions left, answers as bits of objects."""

    def __init__(self, yes: tuple[int, ...], objects: int, cost: float) -> None:
        self.yes, self.objects, self.cost = yes, objects, cost
        self._known: dict[tuple[Belief, int], float] = {}

    @abstractmethod
    def now(self, table: Inquiry) -> Belief:
        """Return the belief after the questions asked and their answers."""

    @abstractmethod
    def chances(self, belief: Belief) -> list[float]:
        """Return the probability of each object."""

    @abstractmethod
    def split(self, belief: Belief, yes: int) -> Split:
        """Return the probability of yes, and the beliefs after yes and no where each can be."""

    @abstractmethod
    def useful(self, belief: Belief) -> list[int]:
        """Return the questions that tell something different, as bits of objects with yes."""

    @abstractmethod
    def size(self, belief: Belief, left: int) -> int:
        """Return a bound on the number of beliefs that can be reached."""

    def value(self, belief: Belief, left: int) -> float:
        """Return what best play will get: by guessing the likeliest object, or by asking."""
        found = self._known.get((belief, left))
        if found is None:
            found = max(self.chances(belief))
            if left and found < 1.0:
                found = max(
                    [found, *(self.asking(belief, yes, left) for yes in self.useful(belief))]
                )
            self._known[belief, left] = found
        return found

    def asking(self, belief: Belief, yes: int, left: int) -> float:
        """Return what a question, and best play after it, will get."""
        chance, one, other = self.split(belief, yes)
        return (
            -self.cost
            + chance * self.value(one, left - 1)
            + (1.0 - chance) * self.value(other, left - 1)
        )

    def guessing(self, belief: Belief, yes: int) -> tuple[float, float]:
        """Return what a question and then a guess will get, and how many nats its answer tells."""
        chance, one, other = self.split(belief, yes)
        after = [
            (share, self.chances(part)) for share, part in ((chance, one), (1.0 - chance, other))
        ]
        told = entropy(self.chances(belief)) - sum(
            share * entropy(chances) for share, chances in after
        )
        return -self.cost + sum(share * max(chances) for share, chances in after), told

    def trim(self) -> None:
        """Forget all values if they are many, which costs time and changes nothing."""
        if len(self._known) > 50_000:
            self._known.clear()


class Truthful(Inquest):
    """All answers are true: a belief is the set of objects left, as bits, all equally likely."""

    def now(self, table: Inquiry) -> Belief:
        """Return the objects that agree with all answers."""
        left = (1 << self.objects) - 1
        for question, answer in zip(table.moves, table.answers, strict=False):
            left &= self.yes[question] if answer else ~self.yes[question]
        return left

    def chances(self, belief: Belief) -> list[float]:
        """Return 1/n for each of n objects left."""
        assert isinstance(belief, int)
        return [(belief >> thing & 1) / belief.bit_count() for thing in range(self.objects)]

    def split(self, belief: Belief, yes: int) -> Split:
        """Return the share of yes and the objects left after each answer."""
        assert isinstance(belief, int)
        return (
            (belief & yes).bit_count() / belief.bit_count(),
            belief & yes or belief,
            belief & ~yes or belief,
        )

    def useful(self, belief: Belief) -> list[int]:
        """Return the questions that part the objects left."""
        assert isinstance(belief, int)
        return sorted({min(belief & yes, belief & ~yes) for yes in self.yes} - {0})

    def size(self, belief: Belief, left: int) -> int:
        """Return the least of two numbers.

        They count the sets of objects left, and the ways to ask and be answered.
        """
        assert isinstance(belief, int)
        kinds = len(self.useful(belief))
        return min(
            1 << belief.bit_count(),
            sum(comb(kinds, asked) << asked for asked in range(min(left, kinds) + 1)),
        )


class Noisy(Inquest):
    """Answers may be wrong.

    A belief counts for each object the answers that speak for it, less those of the object with
    fewest.
    """

    def __init__(self, yes: tuple[int, ...], objects: int, cost: float, noise: float) -> None:
        super().__init__(yes, objects, cost)
        self.noise = noise
        whole = (1 << objects) - 1
        self._useful = sorted({min(part, whole & ~part) for part in yes} - {0})

    def now(self, table: Inquiry) -> Belief:
        """Return for each object how many answers are true of it."""
        belief: tuple[int, ...] = (0,) * self.objects
        for question, answer in zip(table.moves, table.answers, strict=False):
            belief = self._told(belief, self.yes[question], answer)
        return belief

    def _told(self, belief: tuple[int, ...], yes: int, answer: int) -> tuple[int, ...]:
        more = [count + ((yes >> thing & 1) == answer) for thing, count in enumerate(belief)]
        least = min(more)
        return tuple(count - least for count in more)

    def chances(self, belief: Belief) -> list[float]:
        """Return the probabilities of the objects, as ((1 - noise) / noise) ** answers for each."""
        assert isinstance(belief, tuple)
        odds, most = self.noise / (1.0 - self.noise), max(belief)
        likely = [odds ** (most - count) for count in belief]
        total = sum(likely)
        return [one / total for one in likely]

    def split(self, belief: Belief, yes: int) -> Split:
        """Return the probability that yes is answered and the beliefs after each answer."""
        assert isinstance(belief, tuple)
        true = sum(chance for thing, chance in enumerate(self.chances(belief)) if yes >> thing & 1)
        chance = true * (1.0 - self.noise) + (1.0 - true) * self.noise
        return chance, self._told(belief, yes, 1), self._told(belief, yes, 0)

    def useful(self, belief: Belief) -> list[int]:
        """Return the questions that part the objects."""
        return self._useful

    def size(self, belief: Belief, left: int) -> int:
        """Return the number of ways in which yes can outweigh no, question by question.

        There are at most ``left`` answers.
        """
        kinds = len(self._useful)
        return sum(
            comb(kinds, asked) * comb(left, asked) << asked for asked in range(min(left, kinds) + 1)
        )


def entropy(chances: list[float]) -> float:
    """Return the Shannon entropy in nats."""
    return max(0.0, -sum(chance * log(chance) for chance in chances if chance))


@lru_cache(maxsize=64)
def inquest(rows: tuple[tuple[int, ...], ...], values: int, noise: float, cost: float) -> Inquest:
    """Return best play with a table of objects, shared by all states that have it."""
    kinds = len(rows[0]) * values
    yes = tuple(
        sum(1 << thing for thing, row in enumerate(rows) if row[kind // values] == kind % values)
        for kind in range(kinds)
    )
    return Noisy(yes, len(rows), cost, noise) if noise else Truthful(yes, len(rows), cost)


def twenty_questions(
    state: SearchablePlay,
    *,
    prior: Literal["uniform", "bank"] = "uniform",
    beliefs: Annotated[int, Field(ge=1)] = 20_000,
) -> Judgement:
    """Exact value of each question and each guess in twenty questions.

    It is known where best play over all beliefs is not too long to work out.

    What: a guess is worth the probability that it is right, a question what best play after it
    gets. The cost of questions already asked is counted.
    When to use: through oracle ``posterior``, on game ``twenty_questions``.
    Mathematics:
        P(o | answers) proportional to prod (1 - noise if the answer is true of o, else noise)
    with all objects equally likely before. With k questions left
        V(P, k) = max(max_o P(o),
                      max_q -cost + P(yes) V(P | yes, k - 1) + P(no) V(P | no, k - 1))
    If more than ``beliefs`` beliefs could be reached, a question is worth
        L + (U - L) I / log 2
    L is what asking it and then guessing gets. U is an upper bound for any player (the 2^k
    likeliest objects, or P(o) (1 - noise)^k for each of 2^k answers). I is the number of nats that
    its answer tells. ``bound`` is then the largest possible error, and the certainty is 0.5.
        entropy = -sum P log P
    Pitfalls: the first state of a table takes the time for all its values, up to seconds with
    noise; later ones look them up. The certainty 0.5 marks an approximation and is no probability.
    Reference: Hyafil and Rivest, 1976: the exact problem is NP-complete; Golovin and Krause,
    "Adaptive submodularity", 2011, on greedy questions.
    Verified by: tests/environments/twenty_questions/test_solver.py, tests/contract/test_beliefs.py.

    Args:
        prior: "uniform" (default) and "bank" say the same: the table is told, and its object is
            drawn anew in every game.
        beliefs: most beliefs that are looked at for exact values, at least 1. They are counted
            beforehand, so a verdict depends only on the state.
    """
    table = state.table
    best = inquest(table.rows, table.values, table.noise, table.cost)
    belief, left, paid = best.now(table), table.questions - table.asked, table.cost * table.asked
    chances, legal = best.chances(belief), state.legal_indices()
    exact, bound = best.size(belief, left) <= beliefs, 0.0
    values = []
    for index in legal:
        if index >= table.kinds:
            value = chances[index - table.kinds]
        elif exact:
            value = best.asking(belief, best.yes[index], left)
        else:
            low, told = best.guessing(belief, best.yes[index])
            high = max(low, reachable(chances, left, table.noise) - table.cost)
            value = low + (high - low) * min(1.0, told / log(2.0))
            bound = max(bound, value - low, high - value)
        values.append(value - paid)
    best.trim()
    return Judgement(
        values=values, certainty=1.0 if exact else GREEDY, bound=bound, entropy=entropy(chances)
    )


def reachable(chances: list[float], left: int, noise: float) -> float:
    """Bound the probability of a right guess after ``left`` answers: one guess for each way."""
    likeliest = sorted(chances, reverse=True)
    return min(sum(likeliest[: 2**left]), likeliest[0] * (2.0 * (1.0 - noise)) ** left)
