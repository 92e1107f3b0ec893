"""Bargain: two seats talk freely about how to divide a pool of items that they value privately."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.rng import Stream
from sparring.environments.bank import Bank
from sparring.environments.bargain.play import BargainPlay
from sparring.environments.bargain.rules import NAME, Scenario, Scenarios, Table
from sparring.environments.bargain.wording import brief_words, full_rules
from sparring.environments.reply import Style

ROLES = ("first", "second")


class Bargain(Bank):
    """Rules and wording: what never changes.

    Args:
        source: the scenarios.
        messages: of both seats together.
        talk: characters of a message.
        joint: whether both seats get the mean of what they have.
        style: wording.
    """

    counted = "scenarios"

    name, roles, num_seats, version = NAME, ROLES, 2, 1
    min_utility, max_utility, utility_sum, zero_sum = 0.0, 1.0, None, False

    def __init__(
        self, source: Scenarios, *, messages: int, talk: int, joint: bool, style: Style
    ) -> None:
        self.source, self.bank, self.scenarios = source, source.bank, source.scenarios
        self.max_turns, self.talk = messages, talk
        self.cooperative, self.style, self.brief = joint, style, style == "brief"
        self.known = brief_words(source.kinds, source.most, source.total)
        self.rules = full_rules(messages, talk, joint)

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of brief style, sorted."""
        return tuple(sorted({*self.known, *self.roles}))

    def reset(self, stream: Stream) -> BargainPlay:
        """Return a play of a scenario of the bank, which is draw 0 of ``stream``."""
        scenario = self.start(stream.integer(0, self.scenarios))
        return BargainPlay(self, Table(scenario, self.max_turns))

    def start(self, number: int) -> Scenario:
        """Return a scenario of the bank: pool and values."""
        return self.source.scenario(number)

    def start_of(self, play: BargainPlay) -> Hashable:
        """Return the scenario of a play."""
        return play.table.scenario

    def pay(self, table: Table) -> tuple[float, float]:
        """Return what a position pays, shares of the worth of the whole pool."""
        one, other = (points / self.source.total for points in table.worth())
        return ((one + other) / 2,) * 2 if self.cooperative else (one, other)

    def stake(self, play: BargainPlay, seat: int) -> float:
        """Return what a seat has at stake, for the "mars" forfeiture: the whole pool."""
        return 1.0


def bargain(
    *,
    kinds: int = 3,
    most: int = 3,
    total: int = 10,
    messages: Annotated[int, Field(ge=2, le=40)] = 6,
    talk: Annotated[int, Field(ge=10, le=2000)] = 200,
    pay: Literal["own", "joint"] = "own",
    scenarios: int = 1000,
    bank: int = 0,
    style: Style = "brief",
) -> Bargain:
    """Bargain for 2 seats: free talk about how to divide a pool of items of private value.

    The pool holds some books, hats and balls. Each seat has a value per item, whole numbers at
    which the pool is worth ``total`` to it; it is told its own. Every kind is worth something to a
    seat, and some kind to both. Seats send messages in turn; any text is legal. A message may hold
    a proposal of what its seat would take, which stands until the seat's next one, accept the
    other's last proposal, which ends the play, or break the talks off.

    In full style an act is ``<propose>2 books, 0 hats, 1 ball</propose>``, ``<accept>`` or
    ``<reject>`` anywhere in the message, and the last one counts. In brief style it is "offer 2 0
    1", a number per kind, "accept" or "reject", and words that are not of the vocabulary are not
    passed on. A proposal that cannot be read is talk, and its seat is told what was wrong when it
    is asked again; so is one that accepts where nothing was proposed, or whose message was cut. A
    play counts these per seat (``malformed``, ``cut``).

    Mathematics: with n items of each kind, a proposal x and values v,

        sum_k n_k v_k^0 = sum_k n_k v_k^1 = total
        r^i = x . v^i / total,  r^j = (n - x) . v^j / total    if j accepts what i proposed, else 0
        r^0 = r^1 = (r^0 + r^1) / 2                            with pay=joint

    Pitfalls: the play is general-sum, so that a policy that only ever met itself may agree on a
    convention that nobody else knows; measure it against others as well. The player ``house`` says
    what a stubborn partner would that concedes towards the end. Who speaks last but one can ask for
    nearly all. As any text is legal, an entropy bonus may fill messages with random words. Rule
    and penalty for illegal replies apply only where a renderer asks for a form of answer; one that
    does not (``answer: free``) fits best.

    Args:
        kinds: kinds of items, 2 to 4: books, hats, balls, pens.
        most: items of one kind, drawn from 1 to this, 1 to 5.
        total: what the whole pool is worth to each seat, 2 to 20.
        messages: of both seats together, 2 to 40; without an agreement by then both get 0.
        talk: characters of a message, 10 to 2000; what is longer is cut, and counted.
        pay: "own": what a seat's items are worth to it, as a share of ``total`` (general-sum);
            "joint": the mean of both shares to each seat (cooperative).
        scenarios: pools with values in the bank, 1 to 100,000.
        bank: number of the bank, 0 to 2^31 - 1; another one has other scenarios.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or no pool can be worth ``total`` to both seats.

    Reference: Lewis et al., "Deal or no deal? End-to-end learning for negotiation dialogues", 2017.
    """
    made = Scenarios(kinds=kinds, most=most, total=total, scenarios=scenarios, bank=bank)
    made.check()
    return Bargain(made, messages=messages, talk=talk, joint=pay == "joint", style=style)
