"""Solver of mastermind: consistent codes, and the value of each guess by best play."""

from __future__ import annotations

from functools import lru_cache
from math import log
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.core.errors import OracleError
from sparring.core.records import SolverResult
from sparring.environments.base import SearchablePlay
from sparring.environments.mastermind import MastermindTable, bank_of, code_of

ORACLE = "posterior"  # the oracle that calls this solver

Array = np.ndarray[Any, np.dtype[Any]]
ValueWork = tuple[int, int]  # a value, and the work to compute it with an empty cache

MAX_CACHED = 200_000  # largest number of cached values; a full cache is cleared
BASE_WORK = 500  # work of one set of codes, added to its size times the number of guesses
ESTIMATE_CERTAINTY = 0.5  # certainty of a judgement by one step of information gain


def key(state: SearchablePlay, *, prior: Literal["uniform", "bank"]) -> str:
    """Return the guesses left, and the set of guesses with their answers."""
    table = state.table
    return f"{table.guesses_left} {sorted(set(zip(table.moves, table.answers, strict=True)))}"


def answers(pegs: int, colours: int) -> Array:
    """Return exact * (pegs + 1) + misplaced of each guess (row) under each code (column)."""
    codes = np.array(
        [code_of(pegs, colours, index) for index in range(colours**pegs)], dtype=np.int8
    )
    counts = np.stack([(codes == colour).sum(1) for colour in range(colours)], axis=1).astype(
        np.int8
    )
    num_exact = sum(
        (codes[:, None, peg] == codes[None, :, peg]).astype(np.int16) for peg in range(pegs)
    )
    num_common = sum(
        np.minimum(counts[:, None, colour], counts[None, :, colour]).astype(np.int16)
        for colour in range(colours)
    )
    # num_exact * (pegs + 1) + (num_common - num_exact)
    answer_ids: Array = np.asarray(num_exact * pegs + num_common, dtype=np.int16)
    return answer_ids


class Breaker:
    """Values of best play by the set of codes left and the number of guesses left, with a cache.

    A value is an integer, a sum over codes: a cracked code counts 1 or, with ``early``, the number
    of guesses left, including the guess that cracks the code.
    """

    def __init__(self, pegs: int, colours: int, guesses: int, early: bool) -> None:
        self.answers, self.guesses, self.early = answers(pegs, colours), guesses, early
        self.num_answers, self.crack = (pegs + 1) ** 2, pegs * (pegs + 1)
        codes = len(self.answers)
        self._rows = np.arange(codes)[:, None] * self.num_answers
        branch = (pegs + 1) * (pegs + 2) // 2 - 2  # number of answers that do not end the game
        # bounds of the value of a set of codes, [guesses left, codes left]
        counts = range(guesses + 1)
        self.upper = np.array([_bound(codes, count, branch, early) for count in counts])
        self.lower = np.array([_bound(codes, count, 1, early) for count in counts])
        self._cache: dict[tuple[int, bytes], ValueWork] = {}

    def worth(self, guesses: int) -> int:
        """Return the value of a cracked code with ``guesses`` left, including the last."""
        return guesses if self.early else 1

    def counts(self, codes: Array) -> Array:
        """Return the number of codes that each answer to each guess leaves, [guesses, answers]."""
        positions = (self._rows + self.answers[:, codes]).ravel()
        counts: Array = np.bincount(
            positions, minlength=len(self.answers) * self.num_answers
        ).reshape(-1, self.num_answers)
        return counts

    def value(self, codes: Array, guesses: int, budget: int) -> ValueWork | None:
        """Return the value of best play; None if it takes more work than ``budget``."""
        if len(codes) <= 2 or guesses <= 1:
            return int(self.lower[guesses, len(codes)]), 1
        state = guesses, codes.tobytes()
        result = self._cache.get(state)
        if result is None:
            result = self._search(codes, guesses, budget)
            if result is not None:
                self._cache[state] = result
        return result if result is not None and result[1] <= budget else None

    def _search(self, codes: Array, guesses: int, budget: int) -> ValueWork | None:
        """Return the value of the best informative guess, by branch and bound."""
        work = len(codes) * len(self.answers) + BASE_WORK
        if work > budget:
            return None
        counts = self.counts(codes)
        bounds = self.bounds(counts, guesses)
        bounds[counts.max(1) == len(codes)] = -1
        if guesses == 2:  # the bound is exact
            return int(bounds.max()), work
        best_value = -1
        for guess in np.argsort(-bounds, kind="stable"):
            if bounds[guess] <= best_value:
                break
            result = self.guess_value(codes, int(guess), guesses, budget - work)
            if result is None:
                return None
            best_value, work = max(best_value, result[0]), work + result[1]
        return best_value, work

    def bounds(self, counts: Array, guesses: int, limits: Array | None = None) -> Array:
        """Return an upper bound on each guess's value; with ``limits=lower`` a lower bound."""
        num_cracked = counts[:, self.crack]
        bounds = (self.upper if limits is None else limits)[guesses - 1]
        total: Array = (
            bounds[counts].sum(1) - bounds[num_cracked] + num_cracked * self.worth(guesses)
        )
        return total

    def guess_value(self, codes: Array, guess: int, guesses: int, budget: int) -> ValueWork | None:
        """Return the value of a guess followed by best play."""
        answers = self.answers[guess, codes]
        total = work = 0
        for answer in np.unique(answers):
            if answer == self.crack:
                total += self.worth(guesses)
                continue
            result = self.value(codes[answers == answer], guesses - 1, budget - work)
            if result is None:
                return None
            total, work = total + result[0], work + result[1]
        return total, work

    def all_guesses(self, codes: Array, guesses: int, budget: int) -> list[int] | None:
        """Return the value of each guess; None if that takes more work than ``budget``."""
        if len(self._cache) > MAX_CACHED:
            self._cache.clear()
        values, work = [], 0
        for guess in range(len(self.answers)):
            result = self.guess_value(codes, guess, guesses, budget - work)
            if result is None:
                return None
            values.append(result[0])
            work += result[1]
        return values


def _bound(codes: int, guesses: int, branch: int, early: bool) -> list[int]:
    """Bound the sum for 0 to ``codes`` codes; guess i cracks at most ``branch`` ** i of them."""
    counts: list[int] = []
    for ply in range(guesses):
        counts += [guesses - ply if early else 1] * min(branch**ply, codes - len(counts))
    sums = [0]
    for code in range(codes):
        sums.append(sums[-1] + (counts[code] if code < len(counts) else 0))
    return sums


@lru_cache(maxsize=16)
def breaker(pegs: int, colours: int, guesses: int, early: bool) -> Breaker:
    """Return the cached solver of a game, shared by all its states."""
    return Breaker(pegs, colours, guesses, early)


def codes_left(table: MastermindTable, solver: Breaker, prior: Literal["uniform", "bank"]) -> Array:
    """Return the numbers of the codes that agree with all answers, ascending.

    Raises:
        OracleError: no code agrees.
    """
    bank = bank_of(table.pegs, table.colours, table.bank)[: len(table.draws())]
    codes = np.array(
        sorted(bank) if prior == "bank" else range(len(solver.answers)), dtype=np.int64
    )
    for guess, (exact, misplaced) in zip(table.moves, table.answers, strict=True):
        codes = codes[solver.answers[guess, codes] == exact * (table.pegs + 1) + misplaced]
    if not len(codes):
        raise OracleError(
            f"Oracle 'posterior': no code agrees with the answers {table.key(0)!r}; judge states "
            "that were played."
        )
    return codes


def mastermind(
    state: SearchablePlay,
    *,
    prior: Literal["uniform", "bank"] = "uniform",
    work: Annotated[int, Field(ge=1)] = 10_000_000,
) -> SolverResult:
    """Exact value of each guess in Mastermind if the search is short enough, else an estimate.

    What: the value of a guess is the return of best play after it: the probability to crack the
    code with the guesses left, or the expected payoff with ``pay: left``. A guess that cannot be
    the code also has a value, and can be the best.
    When to use: through oracle ``posterior``, on game ``mastermind``.
    Mathematics: S are the codes that agree with all answers and k guesses are left. w(k) = 1, or k
    with ``pay: left``.
        V(S, k) = max_g [g in S] w(k) + sum_a V(S_a, k - 1)
    S_a are the codes for which the answer to g is a. The value of a guess is its term / |S|, with
    ``pay: left`` also / ``guesses``. Sums of integers make the result exact. The search tries
    guesses in the order of an upper bound, and stops when no other guess can be better. If the
    search takes more than ``work``, the value of a guess is
        L + (U - L) I / log(max(2, min(|S|, answers)))
        I = -sum (|S_a| / |S|) log(|S_a| / |S|)
    L is its value if later guesses try the codes left one by one. U is its value if every later
    guess cracks a code after every answer. I is its expected information in nats. ``bound`` is then
    the largest possible error, and the certainty is 0.5.
        entropy = log |S|
    Pitfalls: with many guesses and pay only for a cracked code, nearly every guess is best; fewer
    guesses, or ``pay: left``, separate them. The exact search of the first guess with
    4 pegs and 6 colours takes many seconds; after two or three guesses it is quick. The
    certainty 0.5 marks an approximation and is not a probability.
    Reference: Knuth, "The computer as master mind", 1977; Koyama and Lai, "An optimal Mastermind
    strategy", 1993.
    Verified by: tests/environments/mastermind/test_solver.py, tests/contract/test_beliefs.py.

    Args:
        prior: "uniform" (default): every code is equally likely; this is the model of the game
            without its bank. "bank": only the codes of the bank are possible, as for a player who
            has memorised the bank.
        work: largest number of entries of answer tables that the search reads. The count assumes an
            empty cache, so a judgement depends only on the state.
    """
    table = state.table
    if state.seat < 0:
        raise OracleError(
            f"Oracle 'posterior': no player acts at ply {state.plies}; judge states in which a "
            "seat is to act."
        )
    solver = breaker(table.pegs, table.colours, table.guesses, table.pay == "left")
    codes = codes_left(table, solver, prior)
    num_codes, guesses = len(codes), table.guesses_left
    scale = num_codes * solver.worth(table.guesses)
    is_short = num_codes * len(solver.answers) <= work
    values = solver.all_guesses(codes, guesses, work) if is_short else None
    if values is not None:
        return SolverResult(values=[value / scale for value in values], entropy=log(num_codes))
    counts = solver.counts(codes)
    lower_bounds = solver.bounds(counts, guesses, solver.lower) / scale
    upper_bounds = solver.bounds(counts, guesses) / scale
    shares = counts / num_codes
    information = -(shares * np.log(shares, where=shares > 0, out=np.zeros_like(shares))).sum(1)
    max_information = log(max(2, min(num_codes, int(counts.any(0).sum()))))
    estimates = lower_bounds + (upper_bounds - lower_bounds) * information / max_information
    bound = float(np.maximum(estimates - lower_bounds, upper_bounds - estimates).max())
    return SolverResult(
        values=estimates.tolist(), certainty=ESTIMATE_CERTAINTY, bound=bound, entropy=log(num_codes)
    )
