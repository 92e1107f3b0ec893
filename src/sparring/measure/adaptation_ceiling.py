"""What adapting to an opponent can earn, exactly: several attempts against one of a known pool.

The opponent is drawn once with probabilities q_k and never told; it plays every attempt alike. A
learner that adapts infers from each attempt who it is. With u(pi, k) the learner's expected return
of one attempt by policy pi against opponent k:

    best     = sum over k of q_k * max over pi of u(pi, k)
    fixed    = max over pi of sum over k of q_k * u(pi, k)
    headroom = best - fixed

The ceiling lies between the two. Let b be the beliefs [K], not normalised: b_k = q_k times the
probability under k of all that was told. W_n(b) are the returns [n, K] of the attempts that are
left, each weighted by b. With o what an attempt tells by its end, chance and opponent leading
there with probability w_o [K], and u_o the return:

    W_n(b) = sum over o that pi allows of (b w_o u_o, W_{n-1}(b w_o)),    W_0 = ()

for the policy pi that is best by the objective: backward induction over the learner's decisions
inside the attempt, and over beliefs between attempts. Beliefs that are equal are solved once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sparring.core.errors import GameError, TooLargeError, UnknownNameError, quoted
from sparring.core.records import FloatArray
from sparring.environments.base import Environment
from sparring.measure.attempt_tree import Attempt, Branch, attempt_tree

Objective = Literal["last", "sum"]
MOST_BELIEFS = 20_000
DIGITS = 12  # beliefs that agree in so many are one
TIE = 1e-11  # returns that differ by less are equal


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """What the best play can earn against a pool, in the environment's units; N attempts.

    Args:
        environment: name of what is played at each attempt.
        role: the learner's.
        reveal: whether what was hidden is told at the end of an attempt, as by a show-down.
        shares: probability of each opponent.
        best_by: by opponent: expected return of the best response to it, which knows who it is.
        fixed_by: by opponent: return of the best single policy that is not told who it is.
        most: the most that attempt 1, 2, ... can earn, each by a policy of its own, [N].
        last: return of every attempt under the policy that earns most in the last attempt, and of
            such policies most in all, [N].
        last_by: the same by opponent.
        total: return of every attempt under the policy that earns most in the sum of all, and of
            such policies most in the last, [N].
        total_by: the same by opponent.
    """

    environment: str
    role: str
    reveal: bool
    shares: Mapping[str, float]
    best_by: Mapping[str, float]
    fixed_by: Mapping[str, float]
    most: tuple[float, ...]
    last: tuple[float, ...]
    last_by: Mapping[str, tuple[float, ...]]
    total: tuple[float, ...]
    total_by: Mapping[str, tuple[float, ...]]

    @property
    def best(self) -> float:
        """Expected return of who knows the opponent from the start."""
        return sum(share * self.best_by[name] for name, share in self.shares.items())

    @property
    def fixed(self) -> float:
        """Expected return of the best single policy."""
        return sum(share * self.fixed_by[name] for name, share in self.shares.items())

    @property
    def headroom(self) -> float:
        """What knowing the opponent is worth."""
        return self.best - self.fixed

    def closed(self, earned: float) -> float | None:
        """Return the share of the headroom that a mean return over the pool closes.

        None where there is no headroom.
        """
        return (earned - self.fixed) / self.headroom if self.headroom > TIE else None


def adaptation_ceiling(
    environment: Environment,
    *,
    role: str,
    opponents: Mapping[str, Any],
    shares: Mapping[str, float] | None = None,
    attempts: int = 3,
    reveal: bool = False,
) -> Ceiling:
    """Return what adapting to one of several opponents can earn.

    Every attempt has fresh chance, and all of them are played (``trial`` with its defaults).

    Args:
        environment: what is played at each attempt, such as ``trial.inner``; two seats.
        role: the learner's; the opponent sits in the other seat.
        opponents: agents by name.
        shares: weight of each opponent; None: all alike.
        attempts: how many.
        reveal: whether a seat is told at the end what ``trial`` tells with ``reveal: true``.

    Raises:
        GameError: an opponent cannot be described exactly, or the environment cannot be enumerated.
        TooLargeError: it has too many histories, or there are too many beliefs.
        UnknownNameError: the environment has no such role.
    """
    pool = _pool(opponents, shares)
    if role not in environment.roles:
        raise UnknownNameError(f"role of {environment.name}", role, environment.roles)
    if attempts < 1:
        raise GameError(f"attempts={attempts} leaves nothing to play; write attempts=3.")
    tree = attempt_tree(environment, environment.roles.index(role), opponents, reveal=reveal)
    prior = np.array([*pool.values()])
    solver = {objective: _Solver(tree, objective) for objective in ("last", "sum")}
    most = [solver["last"].returns(prior, number)[-1].sum() for number in range(1, attempts + 1)]
    last, total = (solver[one].returns(prior, attempts) for one in ("last", "sum"))
    fixed = solver["last"].returns(prior, 1)[0] / prior
    best = [
        solver["last"].returns(np.eye(len(pool))[number], 1)[0, number]
        for number in range(len(pool))
    ]
    return Ceiling(
        environment=environment.name,
        role=role,
        reveal=reveal,
        shares=pool,
        best_by=dict(zip(pool, map(float, best), strict=True)),
        fixed_by=dict(zip(pool, fixed.tolist(), strict=True)),
        most=tuple(map(float, most)),
        last=tuple(last.sum(axis=1).tolist()),
        last_by=_by_opponent(pool, last / prior),
        total=tuple(total.sum(axis=1).tolist()),
        total_by=_by_opponent(pool, total / prior),
    )


def ceiling_or_reason(environment: Environment, **options: Any) -> tuple[Ceiling | None, str]:
    """Return the ceiling and "", or None and why there is no exact one.

    Args:
        environment: what is played at each attempt.
        options: those of ``adaptation_ceiling``.

    Raises:
        UnknownNameError: the environment has no such role, or an opponent names an action that it
            has not.
        PluginError: the code of an opponent failed.
    """
    try:
        return adaptation_ceiling(environment, **options), ""
    except GameError as error:
        return None, f"no ceiling: {error}"


def _pool(opponents: Mapping[str, Any], shares: Mapping[str, float] | None) -> dict[str, float]:
    """Return the probability of each opponent.

    Raises:
        GameError: there are none, or their weights are none.
        UnknownNameError: a weight is that of nobody.
    """
    given = dict.fromkeys(opponents, 1.0) if shares is None else dict(shares)
    for name in given:
        if name not in opponents:
            raise UnknownNameError("opponent", name, [*opponents])
    if set(given) != set(opponents) or not all(0 < share < np.inf for share in given.values()):
        raise GameError(
            f"shares={quoted(given)} must give each of the opponents {', '.join(opponents)} a "
            "weight above 0."
        )
    if not given:
        raise GameError("There are no opponents to adapt to; name at least one.")
    total = sum(given.values())
    return {name: float(given[name]) / total for name in opponents}


def _by_opponent(pool: Mapping[str, float], rows: FloatArray) -> dict[str, tuple[float, ...]]:
    """Return returns [N, K] by the name of the opponent."""
    return {name: tuple(rows[:, number].tolist()) for number, name in enumerate(pool)}


class _Solver:
    """W_n of beliefs, for one objective."""

    def __init__(self, tree: Attempt, objective: str) -> None:
        self.tree, self.objective = tree, objective
        self._known: dict[tuple[float, ...], FloatArray] = {}

    def returns(self, belief: FloatArray, left: int) -> FloatArray:
        """Return the returns [n, K] of the attempts that are left, weighted by beliefs [K]."""
        total = float(belief.sum())
        if not left or total <= 0.0:
            return np.zeros((left, len(belief)))
        belief = belief / total
        key = (float(left), *np.round(belief, DIGITS).tolist())
        if key not in self._known:
            if len(self._known) >= MOST_BELIEFS:
                raise TooLargeError(
                    f"More than {MOST_BELIEFS:,} beliefs about the opponent can arise, too many "
                    "for an exact ceiling; fewer attempts or opponents have fewer."
                )
            self._known[key] = self._best(self.tree.root, belief, left)
        return total * self._known[key]

    def _best(self, branch: Branch, belief: FloatArray, left: int) -> FloatArray:
        """Return W_n [n, K] of what follows one action of the learner's, or the beginning."""
        found = np.zeros((left, len(belief)))
        for end in branch.ends:
            found[0] += belief * end.earned
            found[1:] += self.returns(belief * end.reach, left - 1)
        for decision in branch.decisions.values():
            options = [self._best(after, belief, left) for after in decision.after.values()]
            found += self._first(options)
        return found

    def _first(self, options: list[FloatArray]) -> FloatArray:
        """Return the best by the objective; of equally good ones the first."""
        best, mark = options[0], self._ranks(options[0])
        for one in options[1:]:
            rank = self._ranks(one)
            apart = rank[0] - mark[0] if abs(rank[0] - mark[0]) > TIE else rank[1] - mark[1]
            if apart > TIE:
                best, mark = one, rank
        return best

    def _ranks(self, found: FloatArray) -> tuple[float, float]:
        """Return what is to be large, and what is next."""
        last, total = float(found[-1].sum()), float(found.sum())
        return (last, total) if self.objective == "last" else (total, last)
