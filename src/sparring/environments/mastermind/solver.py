"""Solver: which codes agree with all answers, and what each guess is worth.

The worth is found by best play over all sets of codes while they are few.
"""

from __future__ import annotations

from functools import lru_cache
from math import log
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.core.errors import OracleError
from sparring.core.records import Judgement
from sparring.environments.base import SearchablePlay
from sparring.environments.mastermind import Board, bank_of, code_of

ORACLE = "posterior"  # that asks this solver

Array = np.ndarray[Any, np.dtype[Any]]
Priced = tuple[int, int]  # a value, and the work that it takes to find it with nothing remembered

# sets of codes whose values are remembered; then all are forgotten, which costs time and changes
# nothing
KEPT = 200_000
SPENT = 500  # work of looking at one set of codes, besides its size times the number of guesses
GREEDY = 0.5  # the certainty of a verdict from one step of information gain


def key(state: SearchablePlay, *, prior: Literal["uniform", "bank"]) -> str:
    """Return the guesses left, and each guess with its answer once, in any order."""
    table = state.table
    return f"{table.left} {sorted(set(zip(table.moves, table.answers, strict=True)))}"


def answers(pegs: int, colours: int) -> Array:
    """Return exact * (pegs + 1) + misplaced of each guess (row) under each code (column)."""
    codes = np.array(
        [code_of(pegs, colours, index) for index in range(colours**pegs)], dtype=np.int8
    )
    count = np.stack([(codes == colour).sum(1) for colour in range(colours)], axis=1).astype(
        np.int8
    )
    exact = sum(
        (codes[:, None, peg] == codes[None, :, peg]).astype(np.int16) for peg in range(pegs)
    )
    both = sum(
        np.minimum(count[:, None, colour], count[None, :, colour]).astype(np.int16)
        for colour in range(colours)
    )
    # exact * (pegs + 1) + (both - exact)
    found: Array = np.asarray(exact * pegs + both, dtype=np.int16)
    return found


class Breaker:
    """Best play: values by the set of codes left and the number of guesses left.

    Each is worked out once.

    Values are sums over codes, so integers: a code counts 1 if it is cracked, or, where that pays,
    the guesses left when it is.
    """

    def __init__(self, pegs: int, colours: int, guesses: int, early: bool) -> None:
        self.answers, self.guesses, self.early = answers(pegs, colours), guesses, early
        self.kinds, self.crack = (pegs + 1) ** 2, pegs * (pegs + 1)
        number = len(self.answers)
        self._rows = np.arange(number)[:, None] * self.kinds
        branch = (pegs + 1) * (pegs + 2) // 2 - 2  # answers after which play goes on
        # [guesses left, codes]
        self.high = np.array([_fill(number, left, branch, early) for left in range(guesses + 1)])
        self.low = np.array([_fill(number, left, 1, early) for left in range(guesses + 1)])
        self._known: dict[tuple[int, bytes], Priced] = {}

    def pays(self, left: int) -> int:
        """Return what a code counts when cracked with ``left`` guesses left, that one too."""
        return left if self.early else 1

    def counts(self, codes: Array) -> Array:
        """Return for each guess how many of the codes each answer leaves, [guesses, answers]."""
        placed = (self._rows + self.answers[:, codes]).ravel()
        counted: Array = np.bincount(placed, minlength=len(self.answers) * self.kinds).reshape(
            -1, self.kinds
        )
        return counted

    def value(self, codes: Array, left: int, budget: int) -> Priced | None:
        """Return what best play gets from here on; None if that exceeds the ``budget`` of work."""
        if len(codes) <= 2 or left <= 1:
            return int(self.low[left, len(codes)]), 1
        place = left, codes.tobytes()
        found = self._known.get(place)
        if found is None:
            found = self._search(codes, left, budget)
            if found is not None:
                self._known[place] = found
        return found if found is not None and found[1] <= budget else None

    def _search(self, codes: Array, left: int, budget: int) -> Priced | None:
        """Return the value of the best guess, the most promising first, none that tells nothing."""
        work = len(codes) * len(self.answers) + SPENT
        if work > budget:
            return None
        counts = self.counts(codes)
        hopes = self.hopes(counts, left)
        hopes[counts.max(1) == len(codes)] = -1
        if left == 2:  # then what is hoped for is what there is
            return int(hopes.max()), work
        best = -1
        for guess in np.argsort(-hopes, kind="stable"):
            if hopes[guess] <= best:
                break
            found = self.guessing(codes, int(guess), left, budget - work)
            if found is None:
                return None
            best, work = max(best, found[0]), work + found[1]
        return best, work

    def hopes(self, counts: Array, left: int, table: Array | None = None) -> Array:
        """Bound what each guess and the play after it get, with ``table`` = ``low`` below."""
        cracked = counts[:, self.crack]
        after = (self.high if table is None else table)[left - 1]
        total: Array = after[counts].sum(1) - after[cracked] + cracked * self.pays(left)
        return total

    def guessing(self, codes: Array, guess: int, left: int, budget: int) -> Priced | None:
        """Return what a guess, and best play after it, gets."""
        told = self.answers[guess, codes]
        total = work = 0
        for answer in np.unique(told):
            if answer == self.crack:
                total += self.pays(left)
                continue
            found = self.value(codes[told == answer], left - 1, budget - work)
            if found is None:
                return None
            total, work = total + found[0], work + found[1]
        return total, work

    def all_guesses(self, codes: Array, left: int, budget: int) -> list[int] | None:
        """Return what each guess gets; None if that takes more work than ``budget``."""
        if len(self._known) > KEPT:
            self._known.clear()
        values, work = [], 0
        for guess in range(len(self.answers)):
            found = self.guessing(codes, guess, left, budget - work)
            if found is None:
                return None
            values.append(found[0])
            work += found[1]
        return values


def _fill(number: int, left: int, branch: int, early: bool) -> list[int]:
    """Bound what 0 to ``number`` codes count: ``branch`` ** i at most fall after i guesses."""
    paid: list[int] = []
    for ply in range(left):
        paid += [left - ply if early else 1] * min(branch**ply, number - len(paid))
    sums = [0]
    for code in range(number):
        sums.append(sums[-1] + (paid[code] if code < len(paid) else 0))
    return sums


@lru_cache(maxsize=16)
def breaker(pegs: int, colours: int, guesses: int, early: bool) -> Breaker:
    """Return best play of a game, shared by all its states."""
    return Breaker(pegs, colours, guesses, early)


def agreeing(table: Board, play: Breaker, prior: Literal["uniform", "bank"]) -> Array:
    """Return the numbers of the codes that agree with all answers, ascending.

    Raises:
        OracleError: there is none.
    """
    bank = bank_of(table.pegs, table.colours, table.bank)[: len(table.draws())]
    codes = np.array(sorted(bank) if prior == "bank" else range(len(play.answers)), dtype=np.int64)
    for guess, (exact, misplaced) in zip(table.moves, table.answers, strict=True):
        codes = codes[play.answers[guess, codes] == exact * (table.pegs + 1) + misplaced]
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
) -> Judgement:
    """Exact value of each guess in Mastermind.

    It is known where best play over all sets of codes is not too long to work out.

    What: a guess is worth what it and best play after it get: the probability to crack the code
    with the guesses left, or, where the game pays by them, the expected pay. A guess that cannot be
    the code is judged by the same measure, and can be the best.
    When to use: through oracle ``posterior``, on game ``mastermind``.
    Mathematics: S are the codes that agree with all answers and k guesses are left. w(k) = 1, or k
    where the game pays by guesses left.
        V(S, k) = max_g [g in S] w(k) + sum_a V(S_a, k - 1)
    S_a are the codes for which g is answered by a. A guess is worth its term / |S| (and / the
    number of guesses where it pays by them). All are integers, so exact. The search tries guesses
    in the order of an upper bound on them, and stops where no other can be better. If it would take
    more than ``work``, a guess is worth
        L + (U - L) I / log(max(2, min(|S|, answers)))
        I = -sum (|S_a| / |S|) log(|S_a| / |S|)
    L is what it gets if its successors try the codes left one by one. U is what it gets if every
    guess cracks a code after every answer. I is the number of nats that it is expected to tell.
    ``bound`` is then the largest possible error, and the certainty is 0.5.
        entropy = log |S|
    Pitfalls: with guesses to spare and pay for a cracked code alone nearly every guess is best;
    fewer guesses, or pay by those left, tell guesses apart. The opening of 4 pegs and 6 colours
    needs more work than seconds allow; after two or three guesses it is exact. The certainty 0.5
    marks an approximation and is no probability.
    Reference: Knuth, "The computer as master mind", 1977; Koyama and Lai, "An optimal Mastermind
    strategy", 1993.
    Verified by: tests/environments/mastermind/test_solver.py, tests/contract/test_beliefs.py.

    Args:
        prior: what is known beforehand. "uniform" (default): every code is equally likely. This is
            the model of the game, which knows nothing of its bank. "bank": only the codes of the
            bank are possible, as for a player who has learned it by heart.
        work: most entries of tables of answers that the search looks at, at least 1. They are
            counted as if nothing were remembered, so a verdict depends only on the state.
    """
    table = state.table
    if state.seat < 0:
        raise OracleError(
            f"Oracle 'posterior': no guess is to be made at ply {state.plies}; judge states in "
            "which a seat is to act."
        )
    play = breaker(table.pegs, table.colours, table.guesses, table.pay == "left")
    codes = agreeing(table, play, prior)
    number, left, whole = len(codes), table.left, len(codes) * play.pays(table.guesses)
    found = play.all_guesses(codes, left, work) if number * len(play.answers) <= work else None
    if found is not None:
        return Judgement(values=[value / whole for value in found], entropy=log(number))
    counts = play.counts(codes)
    low, high = play.hopes(counts, left, play.low) / whole, play.hopes(counts, left) / whole
    share = counts / number
    told = -(share * np.log(share, where=share > 0, out=np.zeros_like(share))).sum(1)
    most = log(max(2, min(number, int(counts.any(0).sum()))))
    values = low + (high - low) * told / most
    bound = float(np.maximum(values - low, high - values).max())
    return Judgement(values=values.tolist(), certainty=GREEDY, bound=bound, entropy=log(number))
