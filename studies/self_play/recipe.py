"""What an algorithm of self-play is: a recipe of population, row, oracle, schedule and answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from studies.self_play.worlds import Oracle, Start

if TYPE_CHECKING:
    from studies.self_play.frame import Run

STATIC = ("uniform", "last", "delta_uniform")
"""Meta-solvers that do not look at payoffs, so that no table of them is filled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """With whom a new policy is trained.

    Args:
        solver: a meta-solver, by name; its distribution over members is answered.
        options: of the solver.
        self_share: share of the plays against the other side's newest policy of its own time; in a
            shared population that is the learner itself.
        each: answers every member that a joint distribution recommends by itself (CE).
    """

    solver: str = "last"
    options: Mapping[str, Any] = field(default_factory=dict)
    self_share: float = 0.0
    each: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """When a policy joins the population.

    Args:
        gate: it joins if it wins more than this share of its plays with the newest member, and
            else is trained on; None: after every round.
        gain: it joins if it earns more than every member of its side, by this; None: always.
        keep: members kept, the newest; None: all.
    """

    gate: float | None = None
    gain: float | None = None
    keep: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """An algorithm of self-play.

    Args:
        start: the first policy of every population.
        shared: whether the sides of a symmetric world share one population.
        both_seats: whether a member has a policy for each side where the sides differ, so that
            there is one population.
        row: with whom a new policy is trained.
        oracle: how it is trained.
        schedule: when it joins.
        answer: what is handed in at the end: the newest member, the uniform mixture of all policies
            that ever joined, or the row's mixture of members.
        kind: the run, where a method of it is the algorithm's own; None: that of ``frame.py``.
        options: of this kind of run.
        at_once: policies of a side that are trained in one round.
    """

    start: Start = "random"
    shared: bool = True
    both_seats: bool = False
    row: Row = field(default_factory=Row)
    oracle: Oracle = field(default_factory=Oracle)
    schedule: Schedule = field(default_factory=Schedule)
    answer: Literal["last", "average", "mixture"] = "mixture"
    kind: type[Run[Any]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    at_once: int = 1
