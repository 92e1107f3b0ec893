"""Pool split: two seats with private values claim items of a pool at once."""

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
MAX_SCENARIOS = 100_000  # largest number of scenarios of a bank


def divide_items(
    counts: Counts, claims: tuple[Counts, Counts], over: Over
) -> tuple[list[float], ...]:
    """Return the items of each kind that seats 0 and 1 get.

    A kind of n items with claims a and b gives a and b if a + b <= n. Otherwise seat 0 gets
    n a / (a + b) with "share" and 0 with "nothing", and seat 1 likewise.
    """
    items: tuple[list[float], ...] = ([], [])
    for count, claim_0, claim_1 in zip(counts, *claims, strict=True):
        sum_claims = claim_0 + claim_1
        factor = 1.0 if sum_claims <= count else count / sum_claims if over == "share" else 0.0
        items[0].append(claim_0 * factor)
        items[1].append(claim_1 * factor)
    return items


def split_payoffs(
    scenario: Scenario, claims: tuple[Counts, Counts], total: int, over: Over
) -> tuple[float, float]:
    """Return the payoffs of seats 0 and 1: the worth of their items divided by ``total``."""
    first, second = (
        sum(units * value for units, value in zip(items, values, strict=True)) / total
        for items, values in zip(
            divide_items(scenario.counts, claims, over), scenario.values, strict=True
        )
    )
    return first, second


def are_opposed(values_0: Counts, values_1: Counts) -> bool:
    """Return whether two seats rank the kinds of items in opposite order, without ties."""
    pairs = itertools.combinations(zip(values_0, values_1, strict=True), 2)
    return all((a0 - b0) * (a1 - b1) < 0 for (a0, a1), (b0, b1) in pairs)


@dataclass(kw_only=True, eq=False)
class PoolSplit(Bank):
    """Pool split for 2 seats with private values: both claim items of a pool at once.

    What: a pool of books, hats and balls is worth ``total`` to each seat, as in ``bargain``. Each
    seat knows only its own values and claims a number per kind, such as "2 0 1". No seat has to
    agree: each gets its claim. If the claims to a kind exceed its items, the seats share this kind
    in proportion to their claims.
    When to use: to study mixed motives in text. If each seat leaves the items that it values
    little, the pool is worth more to both. With ``over: share`` a seat never loses by claiming
    everything in a single play. In ``repeated`` the seats meet again and can reciprocate; in
    ``talk`` they speak first, for example about their interests.
    Mathematics: for a kind of n items seat i claims a and the other seat claims b; seat i gets

        a                 if a + b <= n
        n a / (a + b)     otherwise, with over=share;   0 with over=nothing

    The return of a seat is the worth of its items at its own values, divided by ``total``.
    With ``values: opposed`` each seat can infer from its own values what the other seat wants most.
    With ``over: share`` each seat has a dilemma: claim everything, or only the kind it values most.
    Pitfalls: with ``over: share`` claiming everything is dominant in a single play. If both seats
    claim everything, each gets half of the pool's worth. No seat sees the other's values, even at
    the end.
    Reference: the negotiation games of Advantage Alignment (Duque et al., 2024, arXiv 2406.14662);
    pools of Lewis et al., 2017. Wording and values differ from the authors' code.
    Verified by: tests/environments/test_pool_split.py.

    Args:
        kinds: number of kinds of items, 2 to 4: books, hats, balls, pens.
        most: largest number of items of one kind, 1 to 5; a pool has 1 to ``most`` of each kind.
        total: worth of the whole pool to each seat, 2 to 20.
        over: rule for a kind whose claims exceed its items: "share" (default), the seats share it
            in proportion to their claims; "nothing", no seat gets it.
        values: "any" (default): both seats' values are drawn independently. "opposed": the seats
            rank the kinds in opposite order, without ties.
        scenarios: number of pools with values in the bank, 1 to 100,000.
        bank: number of the bank, below 2^31; another bank has other scenarios.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.

    Raises:
        ConfigError: no pool can be worth ``total`` to both seats, or no such pool has opposed
        values.
    """

    kinds: Annotated[int, Field(ge=2, le=4)] = 3
    most: Annotated[int, Field(ge=1, le=5)] = 3
    total: Annotated[int, Field(ge=2, le=20)] = 10
    over: Over = "share"
    values: Values = "any"
    scenarios: Annotated[int, Field(ge=1, le=MAX_SCENARIOS)] = 1000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"

    name, roles, num_seats, max_turns = NAME, ROLES, 2, 2
    size_option = "scenarios"
    min_utility, max_utility, utility_sum, zero_sum = 0.0, 1.0, None, False

    def __post_init__(self) -> None:
        kinds, most, total = self.kinds, self.most, self.total
        self.source = Scenarios(
            kinds=kinds, most=most, total=total, scenarios=self.scenarios, bank=self.bank
        )
        self.source.check(NAME)
        if self.values == "opposed" and not _has_opposed_values(kinds, most, total):
            raise ConfigError(
                f"{NAME}: values='opposed' needs {kinds} different values, and no pool with at "
                f"most {most} items of each kind allows total={total}; write total=20 or "
                "values=any."
            )
        self.items = KINDS[:kinds]
        self.brief = self.style == "brief"

    def start(self, number: int) -> Scenario:
        """Return scenario ``number``, or in steps of 100,000 the next one with opposed values."""
        scenarios = map(self.source.scenario, itertools.count(number, MAX_SCENARIOS))
        return next(
            scenario
            for scenario in scenarios
            if self.values == "any" or are_opposed(*scenario.values)
        )

    def vocabulary(self) -> tuple[str, ...]:
        numbers = map(str, range(max(self.most, self.total) + 1))
        return tuple(sorted({*numbers, *self.roles, "pool", "worth", "take", "took", "other"}))

    def reset(self, stream: Stream) -> SplitPlay:
        scenario = self.draw_start(stream)
        assert isinstance(scenario, Scenario)
        return SplitPlay(self, scenario)


class SplitPlay(PaintedPlay):
    """One episode of pool split.

    Attributes:
        start: pool and values.
        claims: claims of seats 0 and 1, a number per kind; empty before the claims.
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
        """The worth of each seat's items at its own values, as a share of the pool's worth."""
        if not self.claims:
            return (0.0, 0.0)
        first, second = self.claims
        return split_payoffs(self.start, (first, second), self.rules.total, self.rules.over)

    def due(self) -> tuple[int, ...]:
        return () if self.done else (0, 1)

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return all possible claims, a number per kind: "2 0 1"."""
        counts = (range(count + 1) for count in self.start.counts)
        return tuple(" ".join(map(str, claim)) for claim in itertools.product(*counts))

    def observe(self, seat: int) -> Observation:
        """Return the pool and the seat's own values, which the other seat does not see."""
        rules, start = self.rules, self.start
        pool = " ".join(map(str, start.counts))
        own_values = " ".join(map(str, start.values[seat]))
        key = f"{seat} {pool} worth {own_values}"
        if rules.brief:
            prompt = f"{rules.roles[seat]} pool {pool} worth {own_values} take"
            return Observation(prompt=prompt, key=key, view=prompt)
        rule_text = (
            "is shared out in proportion to what you two named"
            if rules.over == "share"
            else "goes to nobody"
        )
        values = start.values[seat]
        items = ", ".join(
            f"{number} {kind} worth {value} each to you"
            for number, kind, value in zip(start.counts, rules.items, values, strict=True)
        )
        prompt = (
            "You and another player split a pool of items. Each of you names at once how many of "
            "every kind to take, without seeing what the other names. You get what you named; a "
            f"kind of which you two name more than there is {rule_text}. Each player has values of "
            f"its own, at which the whole pool is worth {rules.total}. Your result is what "
            "your items are worth to you, as a share of that.\n\n"
            f"You are {rules.roles[seat]!r}. The pool: {items}."
        )
        order = ", ".join(rules.items)
        example = " ".join(str(number // 2) for number in start.counts)
        ask = f"Reply with one number per kind ({order}), for example: {example}"
        return Observation(prompt=prompt, ask=ask, key=key, view=prompt)

    def step(self, replies: Mapping[int, str]) -> None:
        self.claims = tuple(tuple(map(int, replies[seat].split())) for seat in (0, 1))

    def ending(self, seat: int) -> str:
        """Return the other seat's claim, and in full style the payoff."""
        other_claim = " ".join(map(str, self.claims[1 - seat]))
        if self.rules.brief:
            return f"other took {other_claim}"
        claims = zip(self.claims[1 - seat], self.rules.items, strict=True)
        claim_text = ", ".join(f"{count} {kind}" for count, kind in claims)
        return f"The other player named {claim_text}. You got {self.returns[seat]:g}."

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        rules, start = self.rules, self.start
        payoffs = (
            {player: f"{value:g}" for player, value in enumerate(self.returns)} if self.done else {}
        )
        notes = {player: text for player, text in payoffs.items() if seat in (None, player)}
        seats(canvas, rules.roles, self.due(), notes)
        heading(canvas, "Pool")
        took_headers = [f"{role} took" for role in rules.roles] if self.claims else []
        rows = [("", "items", *(f"worth to {role}" for role in rules.roles), *took_headers)]
        for index, kind in enumerate(rules.items):
            values = (
                str(start.values[player][index]) if seat in (None, player) else "?"
                for player in (0, 1)
            )
            claims = (str(claim[index]) for claim in self.claims)
            rows.append((kind, str(start.counts[index]), *values, *claims))
        table(canvas, rows)
        rule_text = "in proportion" if rules.over == "share" else "to nobody"
        paragraph(canvas, f"What both name too much of goes {rule_text}.", colour="dim")

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


def _has_opposed_values(kinds: int, most: int, total: int) -> bool:
    return any(
        are_opposed(first, second)
        for counts in pools(kinds, most, total, NAME)
        for first, second in itertools.product(
            [values for values in valuations(counts, total) if len(set(values)) == kinds], repeat=2
        )
    )


pool_split = PoolSplit
