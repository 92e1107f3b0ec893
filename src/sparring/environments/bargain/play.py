"""One play of a bargain: whose message is due, what a seat is told, what its message does."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bargain.rules import KINDS, Counts, Message, Table
from sparring.environments.bargain.wording import (
    NOTES,
    TALK,
    TITLE,
    brief_pool,
    clean,
    full_form,
    full_pool,
    listed,
    quoted,
    read_brief,
    read_full,
)
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.painted import Painted
from sparring.environments.drawing.pieces import Said, heading, seats, table, timeline
from sparring.environments.drawing.told import due_sentence
from sparring.environments.drawing.words import wrapped

if TYPE_CHECKING:
    from sparring.environments.bargain import Bargain

FIRM, SOFT = 0.8, 0.3  # shares of the pool that the house asks for at its first and last message
ACTS = {"offer": "offers", "accept": "accepts", "reject": "breaks off", "talk": ""}


class BargainPlay(Painted):
    """One live bargain.

    Attributes:
        rules: what never changes.
        table: the position.
        why: per seat, what was wrong with the proposal of its last message, or "".
        malformed: per seat, how many proposals could not be read.
        cut: per seat, how many messages were too long.
    """

    def __init__(self, rules: Bargain, table: Table, why: tuple[str, str] = ("", "")) -> None:
        self.rules, self.table, self.why = rules, table, why

    def clone(self) -> BargainPlay:
        """Return an independent copy."""
        return BargainPlay(self.rules, self.table, self.why)

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self.table.done

    @property
    def returns(self) -> tuple[float, float]:
        """Payoffs so far, nothing before an agreement."""
        return self.rules.pay(self.table)

    @property
    def malformed(self) -> tuple[int, int]:
        """How many proposals of each seat could not be read."""
        said = self.table.said
        first, second = (sum(one.act == "malformed" for one in said[seat::2]) for seat in (0, 1))
        return first, second

    @property
    def cut(self) -> tuple[int, int]:
        """How many messages of each seat were too long."""
        first, second = (sum(one.cut for one in self.table.said[seat::2]) for seat in (0, 1))
        return first, second

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the pool, the values that are seen, the offers that stand and the messages."""
        position, roles = self.table, self.rules.roles
        scenario, due = position.scenario, () if position.done else (position.seat,)
        kinds = KINDS[: len(scenario.counts)]
        seats(canvas, roles, due, _got(position, seat))
        rows = [("", *kinds), ("pool", *map(str, scenario.counts))]
        for one, role in enumerate(roles):
            known = seat in (None, one)
            values = scenario.values[one] if known else ("?",) * len(kinds)
            rows.append((f"worth to {role}", *map(str, values)))
        for one, role in enumerate(roles):
            if (share := position.offer_of(one)) is not None:
                rows.append((f"{role} would take", *map(str, share)))
        table(canvas, rows)
        heading(canvas, "Messages", f"{len(position.said)} of {position.limit}")
        said = [
            Said(roles[number % 2], message.said or "(nothing)", seat_colour(number % 2), note)
            for number, message in enumerate(position.said)
            for note in [_note(position, number, seat)]
        ]
        timeline(canvas, said, most=8)

    def described(self, seat: int | None) -> str:
        """Return who is to speak, the pool, the values that are seen and the last message."""
        position, roles = self.table, self.rules.roles
        scenario = position.scenario
        parts = [due_sentence([] if position.done else [roles[position.seat]])]
        parts.append(f"The pool holds {_listed(scenario.counts)}.")
        for one, role in enumerate(roles):
            if seat in (None, one):
                parts.append(f"Each is worth {_listed(scenario.values[one])} to {role}.")
            if (share := position.offer_of(one)) is not None:
                parts.append(f"{role} would take {_listed(share)}.")
        if position.said:
            number = len(position.said) - 1
            last = wrapped(position.said[-1].said, 1, 60, 1)[0]
            parts.append(f"{roles[number % 2]} said last: {last or '(nothing)'}")
        return " ".join(parts)

    def due(self) -> tuple[int, ...]:
        """Return the seat whose message is wanted."""
        return () if self.done else (self.table.seat,)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return None: any text is legal."""
        return None

    def observe(self, seat: int) -> Observation:
        """Return what the other seat said last, and first of all the pool and the own values."""
        table, brief = self.table, self.rules.brief
        own, other = table.said[seat::2], table.said[1 - seat :: 2]
        parts = [] if own else self._opening(seat)
        parts += [self._note(seat, own[-1])] if own else []
        if other:
            parts.append((other[-1].said or ".") if brief else quoted(other[-1]))
        if not brief:
            parts.append(self._position(seat))
        told = (" " if brief else "\n\n").join(part for part in parts if part)
        key = f"{seat} {table.scenario.counts} {table.scenario.values[seat]} {_record(table, seat)}"
        return Observation(told=told or ".", key=key, ask=self._ask(first=not own))

    def step(self, replies: Mapping[int, str]) -> None:
        """Go on with the message of the seat that is due."""
        seat, counts = self.table.seat, self.table.scenario.counts
        line, cut = clean(replies[seat], self.rules.talk)
        if self.rules.brief:
            message, why = read_brief(line, cut, counts, self.rules.known), ""
        else:
            message, why = read_full(line, cut, counts)
        self.table = self.table.after(message)
        self.why = (why, self.why[1]) if seat == 0 else (self.why[0], why)

    # -- what might be said --------------------------------------------------------------------

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a message drawn at random: an offer mostly, talk, an acceptance, a refusal."""
        table, counts = self.table, self.table.scenario.counts
        kind = stream.integer(0, 20)
        if kind < 6 and table.offer_of(1 - seat) is not None:
            return self._act("accept")
        if kind == 6:
            return self._act("reject")
        brief, name = self.rules.brief, KINDS[stream.integer(1, len(counts))]
        verb = TALK[stream.integer(2, 4)]  # one that a kind may follow
        talk = "" if kind < 15 else f"{verb} {name}" if brief else f"I {verb} the {name}."
        if kind == 19:
            return talk
        share = tuple(stream.integer(3 + at, held + 1) for at, held in enumerate(counts))
        return f"{talk} {self._offer(share)}".strip()

    def house(self, seat: int, stream: Stream) -> str:
        """Return what a partner would say who asks for much at first and less towards the end.

        It accepts what is worth as much to it as it asks for, and anything at all at its last
        message; else it proposes, of the shares that are worth so much to it, one of those that
        leave the most items to the other.
        """
        table, total = self.table, self.rules.source.total
        scenario, offered = table.scenario, table.offer_of(1 - seat)
        own = (table.limit - seat + 1) // 2  # messages of the seat in a whole play
        gone = (len(table.said) // 2) / max(own - 1, 1)
        asked = (FIRM + (SOFT - FIRM) * gone) * total
        got = scenario.worth(seat, scenario.rest(offered)) if offered is not None else 0
        if got >= asked or (got > 0 and table.left <= 2):
            return self._act("accept")
        shares = itertools.product(*(range(held + 1) for held in scenario.counts))
        enough = [share for share in shares if scenario.worth(seat, share) >= asked]
        least = min(map(sum, enough))
        best = [share for share in enough if sum(share) == least]
        return self._offer(best[stream.integer(0, len(best))])

    def _act(self, verb: str) -> str:
        """Return an acceptance or a refusal as it is written."""
        return verb if self.rules.brief else f"<{verb}>"

    def _offer(self, share: Counts) -> str:
        """Return an offer as it is written."""
        if self.rules.brief:
            return " ".join(["offer", *map(str, share)])
        return f"<propose>{listed(share)}</propose>"

    # -- wording -------------------------------------------------------------------------------

    def _opening(self, seat: int) -> list[str]:
        """Return what a seat is told before its first message."""
        scenario, role = self.table.scenario, self.rules.roles[seat]
        if self.rules.brief:
            return [f"{TITLE} {role} {brief_pool(scenario, seat)}"]
        return [self.rules.rules, f"You play as {role!r}.", full_pool(scenario, seat)]

    def _note(self, seat: int, last: Message) -> str:
        """Return what a seat is told of its own last message, if something was wrong with it."""
        wrong: list[str] = [act for act in ("malformed", "nothing") if last.act == act]
        wrong += ["cut"] if last.cut else []
        if self.rules.brief:
            return " ".join(wrong)
        return " ".join(
            NOTES[one].format(why=self.why[seat], talk=self.rules.talk) for one in wrong
        )

    def _position(self, seat: int) -> str:
        """Return the offers that stand and how many messages are left."""
        table, offered = self.table, self.table.offer_of(1 - seat)
        lines = []
        if offered is not None:
            got = table.scenario.rest(offered)
            lines.append(
                f"By the other player's last proposal you would get {listed(got)}, worth "
                f"{table.scenario.worth(seat, got)} points to you."
            )
        last = table.left == 1
        more = "This is the last message." if last else f"Messages left in all: {table.left}."
        return " ".join([*lines, more])

    def _ask(self, *, first: bool) -> str:
        """Return the question: at first with the form of a proposal."""
        if self.rules.brief:
            return ""
        if first:
            return full_form(self.table.scenario.counts)
        return "Write your next message: talk, <propose>...</propose>, <accept> or <reject>."


def _record(table: Table, seat: int) -> str:
    """Return all messages as a seat knows them: what its own did, what the other seat said."""
    return repr(
        [
            (one.said, one.act, one.cut) if number % 2 == seat else one.said
            for number, one in enumerate(table.said)
        ]
    )


def _listed(numbers: Counts) -> str:
    """Return a number per kind of item, in words."""
    return ", ".join(f"{kind} {number}" for kind, number in zip(KINDS, numbers, strict=False))


def _note(position: Table, number: int, seat: int | None) -> str:
    """Return what a message does, as far as the reader knows it.

    What is wrong with a proposal its own seat alone is told.
    """
    message = position.said[number]
    own = seat is None or number % 2 == seat
    return ACTS.get(message.act, message.act if own else "")


def _got(position: Table, seat: int | None) -> dict[int, str]:
    """Return what each seat has got, as far as the reader can count it."""
    if position.shares() is None:
        return {}
    points = enumerate(position.worth())
    return {one: f"{worth} points" for one, worth in points if seat in (None, one)}
