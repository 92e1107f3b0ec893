"""Splitting a pool: two seats with private values each name what they take, at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.bargain.rules import (
    KINDS,
    Counts,
    Scenario,
    Scenarios,
    pools,
    valuations,
)
from sparring.environments.drawing.canvas import Canvas, PaintedPlay
from sparring.environments.drawing.pieces import due_sentence, heading, paragraph, seats, table

NAME, ROLES = "pool_split", ("first", "second")
Over = Literal["share", "nothing"]
Values = Literal["any", "opposed"]
SCENARIOS = 100_000  # at most, in a bank


def taken(counts: Counts, claims: tuple[Counts, Counts], over: Over) -> tuple[list[float], ...]:
    """Return what seats 0 and 1 get of each kind.

    A kind of n items with claims a and b gives a and b where a + b <= n. Beyond that a seat gets
    n a / (a + b) with "share", and nobody anything with "nothing".
    """
    got: tuple[list[float], ...] = ([], [])
    for count, first, second in zip(counts, *claims, strict=True):
        both = first + second
        factor = 1.0 if both <= count else count / both if over == "share" else 0.0
        got[0].append(first * factor)
        got[1].append(second * factor)
    return got


def shares(
    scenario: Scenario, claims: tuple[Counts, Counts], total: int, over: Over
) -> tuple[float, float]:
    """Return what claims pay seats 0 and 1: each its items at its values, over ``total``."""
    first, second = (
        sum(units * value for units, value in zip(items, values, strict=True)) / total
        for items, values in zip(taken(scenario.counts, claims, over), scenario.values, strict=True)
    )
    return first, second


def opposed(first: Counts, second: Counts) -> bool:
    """Return whether two seats rank the kinds of items the other way round, with no ties."""
    pairs = itertools.combinations(zip(first, second, strict=True), 2)
    return all((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs)


@dataclass(kw_only=True, eq=False)
class PoolSplit(Bank):
    """Splitting a pool for 2 seats: private values, and each names at once what it takes.

    What: pools and values are those of ``bargain``: books, hats and balls, worth ``total`` in all
    to each seat. Each is told its own values and names a number per kind, such as "2 0 1". Nobody
    accepts: what was named is taken, and a kind of which both name more than there is is shared in
    proportion.
    When to use: mixed motives by text. Who leaves to the other what is worth little to itself makes
    the pool worth more to both; with ``over: share`` who takes everything is never worse off in one
    play. Within ``repeated`` the seats meet again, so that leaving something can be returned;
    within ``talk`` they say something first, for example what they want.
    Mathematics: of a kind of n items seat i, who names a, gets with the other's b

        a                 if a + b <= n
        n a / (a + b)     else, with over=share;   0 with over=nothing

    return of a seat = what it got, at its own values, / total.
    With ``values: opposed`` each seat can tell from its own values what the other wants most; with
    ``over: share`` this is a dilemma: to take all, or what is worth more to oneself alone.
    Pitfalls: with ``over: share`` naming everything is dominant in one play, and both who do so get
    half of the pool's worth. Private values are never told to the other seat, also not at the end.
    Reference: the negotiation games of Advantage Alignment (Duque et al., 2024, arXiv 2406.14662);
    pools of Lewis et al., 2017. Not the released code's wording or values.
    Verified by: tests/environments/test_pool_split.py.

    Args:
        kinds: kinds of items, 2 to 4: books, hats, balls, pens.
        most: items of one kind, drawn from 1 to this, 1 to 5.
        total: what the whole pool is worth to each seat, 2 to 20.
        over: what becomes of a kind of which both name more than there is: "share" (default), in
            proportion to what was named; "nothing", it goes to nobody.
        values: "any" (default): both seats' values are drawn apart. "opposed": what is worth more
            to one is worth less to the other, for any two kinds, with no ties.
        scenarios: pools with values in the bank, 1 to 100,000.
        bank: number of the bank, below 2^31; another one has other scenarios.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.

    Raises:
        ConfigError: no pool can be worth ``total`` to both seats, or none with opposed values.
    """

    kinds: Annotated[int, Field(ge=2, le=4)] = 3
    most: Annotated[int, Field(ge=1, le=5)] = 3
    total: Annotated[int, Field(ge=2, le=20)] = 10
    over: Over = "share"
    values: Values = "any"
    scenarios: Annotated[int, Field(ge=1, le=SCENARIOS)] = 1000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"

    name, roles, num_seats, max_turns = NAME, ROLES, 2, 2
    counted = "scenarios"
    min_utility, max_utility, utility_sum, zero_sum = 0.0, 1.0, None, False

    def __post_init__(self) -> None:
        kinds, most, total = self.kinds, self.most, self.total
        self.source = Scenarios(
            kinds=kinds, most=most, total=total, scenarios=self.scenarios, bank=self.bank
        )
        self.source.check(NAME)
        if self.values == "opposed" and not _can_oppose(kinds, most, total):
            raise ConfigError(
                f"{NAME}: values='opposed' needs {kinds} different values of items, and no pool "
                f"with at most {most} of each is worth {total} so; write total=20 or values=any."
            )
        self.items = KINDS[:kinds]
        self.brief = self.style == "brief"

    def start(self, number: int) -> Scenario:
        """Return a scenario of the bank: pool and values.

        With opposed values it is the first of number, number + 100,000, ... that has them.
        """
        scenarios = map(self.source.scenario, itertools.count(number, SCENARIOS))
        return next(
            scenario for scenario in scenarios if self.values == "any" or opposed(*scenario.values)
        )

    def vocabulary(self) -> tuple[str, ...]:
        numbers = map(str, range(max(self.most, self.total) + 1))
        return tuple(sorted({*numbers, *self.roles, "pool", "worth", "take", "took", "other"}))

    def reset(self, stream: Stream) -> SplitPlay:
        scenario = self.draw_start(stream)
        assert isinstance(scenario, Scenario)
        return SplitPlay(self, scenario)


class SplitPlay(PaintedPlay):
    """One play.

    Attributes:
        start: pool and values.
        claims: what seats 0 and 1 took, a number per kind; empty before.
    """

    def __init__(
        self, rules: PoolSplit, scenario: Scenario, claims: tuple[Counts, ...] = ()
    ) -> None:
        self.rules, self.start, self.claims = rules, scenario, claims

    @property
    def done(self) -> bool:
        return bool(self.claims)

    @property
    def returns(self) -> tuple[float, ...]:
        """What each seat's items are worth to it, as a share of the pool's worth."""
        if not self.claims:
            return (0.0, 0.0)
        first, second = self.claims
        return shares(self.start, (first, second), self.rules.total, self.rules.over)

    def due(self) -> tuple[int, ...]:
        return () if self.done else (0, 1)

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return all that can be taken, a number per kind: "2 0 1"."""
        counts = (range(count + 1) for count in self.start.counts)
        return tuple(" ".join(map(str, claim)) for claim in itertools.product(*counts))

    def observe(self, seat: int) -> Observation:
        """Return the pool and the seat's own values, which the other seat is not told."""
        rules, start = self.rules, self.start
        pool = " ".join(map(str, start.counts))
        worth = " ".join(map(str, start.values[seat]))
        key = f"{seat} {pool} worth {worth}"
        if rules.brief:
            prompt = f"{rules.roles[seat]} pool {pool} worth {worth} take"
            return Observation(told=prompt, key=key, view=prompt)
        beyond = (
            "is shared out in proportion to what you two named"
            if rules.over == "share"
            else "goes to nobody"
        )
        values = start.values[seat]
        listed = ", ".join(
            f"{number} {kind} worth {value} each to you"
            for number, kind, value in zip(start.counts, rules.items, values, strict=True)
        )
        prompt = (
            "You and another player split a pool of items. Each of you names at once how many of "
            "every kind to take, without seeing what the other names. You get what you named; a "
            f"kind of which you two name more than there is {beyond}. Each player has values of "
            f"its own, at which the whole pool is worth {rules.total}. Your result is what "
            "your items are worth to you, as a share of that.\n\n"
            f"You are {rules.roles[seat]!r}. The pool: {listed}."
        )
        order = ", ".join(rules.items)
        example = " ".join(str(number // 2) for number in start.counts)
        ask = f"Reply with one number per kind ({order}), for example: {example}"
        return Observation(told=prompt, ask=ask, key=key, view=prompt)

    def step(self, replies: Mapping[int, str]) -> None:
        self.claims = tuple(tuple(map(int, replies[seat].split())) for seat in (0, 1))

    def ending(self, seat: int) -> str:
        """Return what a seat learns at the end: what both took."""
        other = " ".join(map(str, self.claims[1 - seat]))
        if self.rules.brief:
            return f"other took {other}"
        listed = zip(self.claims[1 - seat], self.rules.items, strict=True)
        named = ", ".join(f"{count} {kind}" for count, kind in listed)
        return f"The other player named {named}. You got {self.returns[seat]:g}."

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        rules, start = self.rules, self.start
        payoffs = (
            {player: f"{value:g}" for player, value in enumerate(self.returns)} if self.done else {}
        )
        notes = {player: text for player, text in payoffs.items() if seat in (None, player)}
        seats(canvas, rules.roles, self.due(), notes)
        heading(canvas, "Pool")
        took = [f"{role} took" for role in rules.roles] if self.claims else []
        rows = [("", "items", *(f"worth to {role}" for role in rules.roles), *took)]
        for place, kind in enumerate(rules.items):
            worth = (
                str(start.values[player][place]) if seat in (None, player) else "?"
                for player in (0, 1)
            )
            named = (str(claim[place]) for claim in self.claims)
            rows.append((kind, str(start.counts[place]), *worth, *named))
        table(canvas, rows)
        what = "in proportion" if rules.over == "share" else "to nobody"
        paragraph(canvas, f"What both name too much of goes {what}.", colour="dim")

    def described(self, seat: int | None) -> str:
        rules, start = self.rules, self.start
        pool = ", ".join(f"{n} {kind}" for n, kind in zip(start.counts, rules.items, strict=True))
        parts = [f"The pool: {pool}."]
        parts += [
            f"One of each is worth {', '.join(map(str, start.values[player]))} to {role}."
            for player, role in enumerate(rules.roles)
            if seat in (None, player)
        ]
        if not self.done:
            return " ".join([due_sentence(rules.roles), *parts])
        for role, claim in zip(rules.roles, self.claims, strict=True):
            parts.append(f"{role} took {', '.join(map(str, claim))}.")
        return " ".join(parts)

    def clone(self) -> SplitPlay:
        return SplitPlay(self.rules, self.start, self.claims)


def _can_oppose(kinds: int, most: int, total: int) -> bool:
    """Return whether some pool can be worth ``total`` to two seats of opposed values."""
    return any(
        opposed(first, second)
        for counts in pools(kinds, most, total, NAME)
        for first, second in itertools.product(
            [values for values in valuations(counts, total) if len(set(values)) == kinds], repeat=2
        )
    )


pool_split = PoolSplit
