"""Bargain: two seats talk freely about the division of a pool of items with private values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import Bank
from sparring.environments.bargain.rules import (
    KINDS,
    NAME,
    BargainMessage,
    BargainTable,
    Counts,
    Scenario,
    Scenarios,
)
from sparring.environments.drawing.canvas import Canvas, PaintedPlay, seat_colour
from sparring.environments.drawing.pieces import (
    TimelineMessage,
    due_sentence,
    heading,
    seats,
    table,
    timeline,
)
from sparring.environments.drawing.words import wrap_text
from sparring.environments.options import entry_of
from sparring.environments.reply import Style

TITLE = "bargain"
VERBS = ("offer", "accept", "reject")  # brief style: first words of acts
TALK_WORDS = ("want", "need", "give", "keep", "yes", "no")  # brief style: words of talk
ERRORS = {
    "malformed": (
        "Your last message held a proposal that could not be read: {why}. It was passed on as talk."
    ),
    "nothing": "You accepted, but the other player has proposed nothing yet; say what you want.",
    "cut": "Your last message was too long: only its first {talk} characters were passed on.",
}
_TAG = re.compile(r"<(propose|accept|reject)\s?/?>", re.IGNORECASE)
_BARE_VERB = re.compile(r"\W{0,9}(accept|reject)\W{0,9}", re.IGNORECASE)
_BROKEN_TAG = re.compile(r"<\s?/?\s?(?:propos|accept|reject)", re.IGNORECASE)
_ITEM_COUNT = re.compile(r"([0-9]{1,3})\s?([a-z]+)")


def items_in_words(counts: Counts) -> str:
    """Return the counts of items in words, such as "2 books, 1 hat, 0 balls"."""
    return ", ".join(
        f"{count} {name[:-1] if count == 1 else name}"
        for name, count in zip(KINDS, counts, strict=False)
    )


def clean_reply(reply: str, max_length: int) -> tuple[str, bool]:
    """Return a reply as one line of printable characters, and whether it was truncated.

    Thoughts before ``</think>``, and unfinished thoughts, are left out.

    Args:
        reply: any text.
        max_length: largest number of characters of the line.
    """
    visible_text = reply.rpartition("</think>")[2].partition("<think>")[0]
    line = " ".join("".join(c if c.isprintable() else " " for c in visible_text).split())
    return (line[:max_length].rstrip(), True) if len(line) > max_length else (line, False)


def parse_share(text: str, counts: Counts) -> tuple[Counts | None, str]:
    """Return (share, "") for a proposal, else (None, error); kinds without a number count 0."""
    names = KINDS[: len(counts)]
    amounts: dict[str, int] = {}
    for item in re.split(r",|\band\b", text.lower()):
        match = _ITEM_COUNT.fullmatch(item.strip(" ."))
        if match is None:
            return None, f"write it like {items_in_words(counts)}"
        name = match[2] if match[2] in names else f"{match[2]}s"
        if name not in names or name in amounts:
            return None, f"name each of {', '.join(names)} once"
        amounts[name] = int(match[1])
    share = tuple(amounts.get(name, 0) for name in names)
    if any(amount > count for amount, count in zip(share, counts, strict=True)):
        return None, f"there are only {items_in_words(counts)}"
    return share, ""


def read_full(line: str, is_truncated: bool, counts: Counts) -> tuple[BargainMessage, str]:
    """Return a message of full style, and the error in its proposal, or "".

    The last of ``<propose>...</propose>``, ``<accept>`` and ``<reject>`` counts. The whole message
    may also be the word "accept" or "reject" without a tag.
    """
    bare_verb, tags = _BARE_VERB.fullmatch(line), [*_TAG.finditer(line)]
    verb = bare_verb[1].lower() if bare_verb else tags[-1][1].lower() if tags else ""
    if verb == "accept":
        return BargainMessage(line, "accept", cut=is_truncated), ""
    if verb == "reject":
        return BargainMessage(line, "reject", cut=is_truncated), ""
    if not verb:
        is_broken = _BROKEN_TAG.search(line) is not None
        error = "close the form with </propose> and open it with <propose>" if is_broken else ""
        return BargainMessage(line, "malformed" if is_broken else "talk", cut=is_truncated), error
    body, end, _ = line[tags[-1].end() :].partition("</propose>")
    share, error = parse_share(body, counts) if end else (None, "it does not end with </propose>")
    if share is None:
        return BargainMessage(line, "malformed", cut=is_truncated), error
    return BargainMessage(line, "offer", share, is_truncated), ""


def read_brief(
    line: str, is_truncated: bool, counts: Counts, vocabulary: frozenset[str]
) -> BargainMessage:
    """Return a message of brief style; unknown words are left out, and the last verb counts.

    An offer is "offer" and then exactly one number per kind of the pool.
    """
    words = [word for word in line.split() if word in vocabulary]
    text = " ".join(words)
    verb_index = max((index for index, word in enumerate(words) if word in VERBS), default=-1)
    if verb_index < 0:
        return BargainMessage(text, "talk", cut=is_truncated)
    verb = words[verb_index]
    if verb != "offer":
        return BargainMessage(text, "accept" if verb == "accept" else "reject", cut=is_truncated)
    digits = itertools.takewhile(
        lambda word: word.isascii() and word.isdigit(), words[verb_index + 1 :]
    )
    share = tuple(map(int, digits))
    has_all_kinds = len(share) == len(counts)
    if not has_all_kinds or any(n > count for n, count in zip(share, counts, strict=True)):
        return BargainMessage(text, "malformed", cut=is_truncated)
    return BargainMessage(text, "offer", share, is_truncated)


def brief_words(kinds: int, max_count: int, total: int) -> frozenset[str]:
    """Return every word of brief style except the roles."""
    numbers = {str(number) for number in range(max_count + 1)}
    values = {f"={value}" for value in range(total + 1)}
    return frozenset({TITLE, ".", *ERRORS, *VERBS, *TALK_WORDS, *KINDS[:kinds], *numbers, *values})


def brief_pool(scenario: Scenario, seat: int) -> str:
    """Return the pool and a seat's values in brief words, such as "books 2 =1 hats 1 =8"."""
    parts = zip(KINDS, scenario.counts, scenario.values[seat], strict=False)
    return " ".join(f"{name} {count} ={value}" for name, count, value in parts)


def quote_message(message: BargainMessage) -> str:
    """Return the other seat's message in quotation marks; quotation marks in it are replaced."""
    if not message.text:
        return "The other player says nothing."
    return 'The other player says: "{}"'.format(message.text.replace('"', "'"))


def full_rules(limit: int, talk: int, joint: bool) -> str:
    """Return the rules in sentences."""
    aim = (
        "Your result is the mean of both players' points, and so is the other player's: find the "
        "split that is worth most to you both."
        if joint
        else "Your result is what your own items are worth to you, whatever the other player gets."
    )
    return (
        "We play a bargaining game with 2 players, who divide a pool of items. An item is worth "
        "a number of points that depends on its kind and on the player; the whole pool is worth "
        "the same to both, but the other player's values can differ from yours, and are not told. "
        f"The players send messages in turn, {limit} in all, of at most {talk} characters each. "
        "A message is any text. It may hold a proposal, which says what you would take; the other "
        "player would get the rest. <accept> agrees to the other player's last proposal and ends "
        "the game; <reject> breaks the talks off. Without an agreement both players get nothing. "
        f"{aim}"
    )


def full_pool(scenario: Scenario, seat: int) -> str:
    """Return the pool and a seat's values in a sentence."""
    parts = zip(KINDS, scenario.values[seat], strict=False)
    prices = ", ".join(f"one {name[:-1]} {value}" for name, value in parts)
    return f"The pool: {items_in_words(scenario.counts)}. In points it is worth to you: {prices}."


def full_form(counts: Counts) -> str:
    """Return the format of a message in sentences."""
    half_counts = tuple(count // 2 for count in counts)
    example = items_in_words(half_counts if any(half_counts) else (1, *half_counts[1:]))
    return (
        "Write one short message to the other player. A proposal of what you would take is "
        f"written <propose>{example}</propose>; write <accept> to agree to the other player's "
        "last proposal."
    )


# shares of the worth of the pool that player ``house`` demands in its first and last message
FIRST_DEMAND, LAST_DEMAND = 0.8, 0.3
ACT_LABELS = {"offer": "offers", "accept": "accepts", "reject": "breaks off", "talk": ""}


class BargainPlay(PaintedPlay):
    """An episode of bargain.

    Attributes:
        rules: the environment.
        table: the position.
        errors: the error in the proposal of each seat's last message, or "".
        malformed: number of unparsable proposals of each seat.
        cut: number of truncated messages of each seat.
    """

    def __init__(
        self, rules: Bargain, table: BargainTable, errors: tuple[str, str] = ("", "")
    ) -> None:
        self.rules, self.table, self.errors = rules, table, errors

    def clone(self) -> BargainPlay:
        return BargainPlay(self.rules, self.table, self.errors)

    @property
    def done(self) -> bool:
        return self.table.done

    @property
    def returns(self) -> tuple[float, float]:
        """Payoffs so far, 0 before an agreement."""
        return self.rules.pay(self.table)

    @property
    def malformed(self) -> tuple[int, int]:
        """Number of unparsable proposals of each seat."""
        messages = self.table.messages
        first, second = (
            sum(message.act == "malformed" for message in messages[seat::2]) for seat in (0, 1)
        )
        return first, second

    @property
    def cut(self) -> tuple[int, int]:
        """Number of truncated messages of each seat."""
        first, second = (
            sum(message.cut for message in self.table.messages[seat::2]) for seat in (0, 1)
        )
        return first, second

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        position, roles = self.table, self.rules.roles
        scenario, due = position.scenario, () if position.done else (position.seat,)
        kinds = KINDS[: len(scenario.counts)]
        seats(canvas, roles, due, _point_labels(position, seat))
        rows = [("", *kinds), ("pool", *map(str, scenario.counts))]
        for player, role in enumerate(roles):
            is_visible = seat in (None, player)
            values = scenario.values[player] if is_visible else ("?",) * len(kinds)
            rows.append((f"worth to {role}", *map(str, values)))
        for player, role in enumerate(roles):
            if (share := position.offer_of(player)) is not None:
                rows.append((f"{role} would take", *map(str, share)))
        table(canvas, rows)
        heading(canvas, "Messages", f"{len(position.messages)} of {position.limit}")
        messages = [
            TimelineMessage(
                roles[number % 2], message.text or "(nothing)", seat_colour(number % 2), note
            )
            for number, message in enumerate(position.messages)
            for note in [_act_label(position, number, seat)]
        ]
        timeline(canvas, messages, most=8)

    def described(self, seat: int | None) -> str:
        position, roles = self.table, self.rules.roles
        scenario = position.scenario
        parts = [due_sentence([] if position.done else [roles[position.seat]])]
        parts.append(f"The pool holds {_numbers_in_words(scenario.counts)}.")
        for player, role in enumerate(roles):
            if seat in (None, player):
                parts.append(
                    f"Each is worth {_numbers_in_words(scenario.values[player])} to {role}."
                )
            if (share := position.offer_of(player)) is not None:
                parts.append(f"{role} would take {_numbers_in_words(share)}.")
        if position.messages:
            number = len(position.messages) - 1
            last_text = wrap_text(position.messages[-1].text, 1, 60, 1)[0]
            parts.append(f"{roles[number % 2]} said last: {last_text or '(nothing)'}")
        return " ".join(parts)

    def due(self) -> tuple[int, ...]:
        return () if self.done else (self.table.seat,)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return None: any text is legal."""
        return None

    def observe(self, seat: int) -> Observation:
        """Return the other seat's last message; the first prompt has the pool and values too."""
        table, brief = self.table, self.rules.brief
        outbox, inbox = table.messages[seat::2], table.messages[1 - seat :: 2]
        scenario, role = table.scenario, self.rules.roles[seat]
        parts: list[str] = []
        ask = "Write your next message: talk, <propose>...</propose>, <accept> or <reject>."
        if not outbox and brief:
            parts = [f"{TITLE} {role} {brief_pool(scenario, seat)}"]
        elif not outbox:
            ask = full_form(scenario.counts)
            parts = [self.rules.rules_text, f"You play as {role!r}.", full_pool(scenario, seat)]
        parts += [self._note(seat, outbox[-1])] if outbox else []
        if inbox:
            parts.append((inbox[-1].text or ".") if brief else quote_message(inbox[-1]))
        if not brief:
            parts.append(self._position(seat))
        prompt = (" " if brief else "\n\n").join(part for part in parts if part)
        key = f"{seat} {scenario.counts} {scenario.values[seat]} {_known_messages(table, seat)}"
        return Observation(prompt=prompt or ".", key=key, ask="" if brief else ask)

    def step(self, replies: Mapping[int, str]) -> None:
        seat, counts = self.table.seat, self.table.scenario.counts
        line, is_truncated = clean_reply(replies[seat], self.rules.talk)
        if self.rules.brief:
            message, error = read_brief(line, is_truncated, counts, self.rules.brief_vocabulary), ""
        else:
            message, error = read_full(line, is_truncated, counts)
        self.table = self.table.after(message)
        self.errors = (error, self.errors[1]) if seat == 0 else (self.errors[0], error)

    # -- random and scripted messages ----------------------------------------------------------

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random message: an offer in most cases, or talk, acceptance or rejection."""
        table, counts = self.table, self.table.scenario.counts
        draw = stream.integer(0, 20)
        if draw < 6 and table.offer_of(1 - seat) is not None:
            return self._act("accept")
        if draw == 6:
            return self._act("reject")
        brief, kind = self.rules.brief, KINDS[stream.integer(1, len(counts))]
        verb = TALK_WORDS[stream.integer(2, 4)]  # "give" or "keep", which a kind of item may follow
        talk = "" if draw < 15 else f"{verb} {kind}" if brief else f"I {verb} the {kind}."
        if draw == 19:
            return talk
        share = tuple(stream.integer(3 + index, count + 1) for index, count in enumerate(counts))
        return f"{talk} {self._offer(share)}".strip()

    def house(self, seat: int, stream: Stream) -> str:
        """Return the message of a scripted partner that demands less with each message.

        The partner accepts a share worth at least its current demand, and any share at its last
        message. Otherwise the partner proposes a share: among those worth its demand, one that
        leaves the most items to the other seat.
        """
        table, total = self.table, self.rules.source.total
        scenario, offer = table.scenario, table.offer_of(1 - seat)
        num_messages = (table.limit - seat + 1) // 2  # number of the seat's messages in an episode
        progress = (len(table.messages) // 2) / max(num_messages - 1, 1)
        demand = (FIRST_DEMAND + (LAST_DEMAND - FIRST_DEMAND) * progress) * total
        offer_worth = scenario.worth(seat, scenario.remainder(offer)) if offer is not None else 0
        if offer_worth >= demand or (offer_worth > 0 and table.messages_left <= 2):
            return self._act("accept")
        shares = itertools.product(*(range(count + 1) for count in scenario.counts))
        shares_worth_demand = [share for share in shares if scenario.worth(seat, share) >= demand]
        fewest_items = min(map(sum, shares_worth_demand))
        best_shares = [share for share in shares_worth_demand if sum(share) == fewest_items]
        return self._offer(best_shares[stream.integer(0, len(best_shares))])

    def _act(self, verb: str) -> str:
        return verb if self.rules.brief else f"<{verb}>"

    def _offer(self, share: Counts) -> str:
        if self.rules.brief:
            return " ".join(["offer", *map(str, share)])
        return f"<propose>{items_in_words(share)}</propose>"

    # -- wording -------------------------------------------------------------------------------

    def _note(self, seat: int, message: BargainMessage) -> str:
        """Return the error notice about the last message that a seat sent, or ""."""
        faults: list[str] = [act for act in ("malformed", "nothing") if message.act == act]
        faults += ["cut"] if message.cut else []
        if self.rules.brief:
            return " ".join(faults)
        return " ".join(
            ERRORS[fault].format(why=self.errors[seat], talk=self.rules.talk) for fault in faults
        )

    def _position(self, seat: int) -> str:
        table, offer = self.table, self.table.offer_of(1 - seat)
        lines = []
        if offer is not None:
            items = table.scenario.remainder(offer)
            lines.append(
                f"By the other player's last proposal you would get {items_in_words(items)}, worth "
                f"{table.scenario.worth(seat, items)} points to you."
            )
        num_left = table.messages_left
        count = f"Messages left in all: {num_left}."
        count_sentence = "This is the last message." if num_left == 1 else count
        return " ".join([*lines, count_sentence])


def _known_messages(table: BargainTable, seat: int) -> str:
    """Return all messages as text; only those that the seat sent have their acts."""
    return repr(
        [
            (message.text, message.act, message.cut) if number % 2 == seat else message.text
            for number, message in enumerate(table.messages)
        ]
    )


def _numbers_in_words(numbers: Counts) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in zip(KINDS, numbers, strict=False))


def _act_label(position: BargainTable, number: int, seat: int | None) -> str:
    """Return the act of a message; only the seat that sent it sees "malformed"."""
    message = position.messages[number]
    is_visible = seat is None or number % 2 == seat
    return ACT_LABELS.get(message.act, message.act if is_visible else "")


def _point_labels(position: BargainTable, seat: int | None) -> dict[int, str]:
    if position.shares() is None:
        return {}
    points = enumerate(position.worth())
    return {player: f"{value} points" for player, value in points if seat in (None, player)}


ROLES = ("first", "second")


class Bargain(Bank):
    """Bargain for 2 seats: free talk about the division of a pool of items with private values.

    The pool has some books, hats and balls. Each seat has its own value for an item of each kind,
    a whole number, and sees only its own values. For each seat the pool is worth ``total``. Every
    kind has a value above 0 for at least one seat, and at least one kind for both. Seats send
    messages in turn; any text is legal. A message can propose a share for its seat; the proposal is
    valid until the seat's next proposal. A message can accept the other seat's last proposal, or
    break off the talks; both acts end the episode.

    In full style the acts are ``<propose>2 books, 0 hats, 1 ball</propose>``, ``<accept>`` and
    ``<reject>``; the last act in a message counts. In brief style they are "offer 2 0 1" (a number
    per kind), "accept" and "reject", and words outside the vocabulary are left out. Unparsable
    proposals and acceptances without a proposal count as talk. After them, and after a truncated
    message, the seat's next prompt has an error notice. A play counts a seat's unparsable proposals
    (``malformed``) and truncated messages (``cut``).

    Mathematics: with n items of each kind, a proposal x and values v,

        sum_k n_k v_k^0 = sum_k n_k v_k^1 = total
        r^i = x . v^i / total,  r^j = (n - x) . v^j / total    if j accepts x of i, else both 0
        r^0 = r^1 = (r^0 + r^1) / 2                            with pay=joint

    Pitfalls: the game is general-sum, so a policy from self-play may learn a convention that no
    other policy knows; also evaluate it against other policies. The player ``house`` is a
    stubborn partner that concedes towards the end. The seat with the second-last message can ask
    for nearly everything. Any text is legal, so an entropy bonus may fill messages with random
    words. The option ``illegal`` has an effect only if the renderer requires a form of answer; use
    a renderer without such a form (``answer: free``).

    Args:
        kinds: kinds of items, 2 to 4: books, hats, balls, pens.
        most: largest number of items of one kind, 1 to 5; the pool has at least 1 of each kind.
        total: worth of the whole pool to each seat, 2 to 20.
        messages: largest number of messages of both seats together, 2 to 40; if none of them
            accepts an offer, both seats get 0.
        talk: largest number of characters of a message, 10 to 2000; longer texts are truncated.
        pay: "own": what a seat's items are worth to it, divided by ``total`` (general-sum);
            "joint": the mean of these two payoffs, for both seats (cooperative).
        scenarios: pools with values in the bank, 1 to 100,000.
        bank: number of the bank, 0 to 2^31 - 1; another bank has other scenarios.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or no pool can be worth ``total`` to both seats.

    Reference: Lewis et al., "Deal or no deal? End-to-end learning for negotiation dialogues", 2017.
    """

    size_option = "scenarios"

    name, roles, num_seats, version = NAME, ROLES, 2, 1
    min_utility, max_utility, utility_sum, zero_sum = 0.0, 1.0, None, False

    def __init__(
        self,
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
    ) -> None:
        self.source = Scenarios(kinds=kinds, most=most, total=total, scenarios=scenarios, bank=bank)
        self.source.check()
        self.bank, self.scenarios = bank, scenarios
        self.max_turns, self.talk = messages, talk
        self.cooperative, self.style, self.brief = pay == "joint", style, style == "brief"
        self.brief_vocabulary = brief_words(kinds, most, total)
        self.rules_text = full_rules(messages, talk, self.cooperative)

    def vocabulary(self) -> tuple[str, ...]:
        return tuple(sorted({*self.brief_vocabulary, *self.roles}))

    def reset(self, stream: Stream) -> BargainPlay:
        scenario = self.start(stream.integer(0, self.scenarios))
        return BargainPlay(self, BargainTable(scenario, self.max_turns))

    def start(self, number: int) -> Scenario:
        """Return scenario ``number`` of the bank: pool and values."""
        return self.source.scenario(number)

    def start_of(self, play: BargainPlay) -> Hashable:
        """Return the scenario of a play."""
        return play.table.scenario

    def pay(self, table: BargainTable) -> tuple[float, float]:
        """Return the payoffs of a position, as shares of the worth of the whole pool."""
        first, second = (points / self.source.total for points in table.worth())
        return ((first + second) / 2,) * 2 if self.cooperative else (first, second)

    def stake(self, play: BargainPlay, seat: int) -> float:
        """Return the stake of a seat for the "mars" forfeit: the whole pool."""
        return 1.0


bargain = entry_of(Bargain)
