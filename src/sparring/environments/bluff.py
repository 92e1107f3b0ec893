"""Bluff: one seat says what its card is, the other believes it or calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.drawing.canvas import Canvas, Painted, seat_colour
from sparring.environments.drawing.pieces import Said, heading, seats, timeline

CARDS = ("high", "low")
MEANT = {"high": ("high", "strong", "great"), "low": ("low", "weak", "poor")}
SPEAKER, LISTENER = 0, 1
ANSWERS = ("believe", "call")
Speech = Literal["words", "free"]
_WORD = re.compile(r"[a-z]+")


def claimed(statement: str) -> str:
    """Return what a statement claims: the last of its words that means a card; else "low"."""
    cards = {word: card for card, words in MEANT.items() for word in words}
    claims = [cards[word] for word in _WORD.findall(statement.lower()) if word in cards]
    return claims[-1] if claims else "low"


@dataclass(kw_only=True, eq=False)
class Bluff(Environment):
    """Bluff: a seat says what its card is, which need not be true, and the other believes or calls.

    What: one round. The speaker's card is high or low, both equally likely. Who claims the low card
    pays 1. A claim of the high card that is believed earns 1; one that is called earns 1 + stake
    with the high card, and loses as much with the low one.
    When to use: as the smallest environment in which lying pays and an equilibrium mixes truth and
    lies, and to test what learns from statements in words.
    Mathematics: with stake b, in equilibrium the speaker claims its high card, and of its low cards
    claims as high the share

        b / (2 + b),   and is called with probability   2 / (2 + b)

    The speaker earns b / (2 + b): 1/3 with stake 1, lying one time in three, called two in three.
    Pitfalls: ``phrases`` words mean the same; which of them is said is of no account, though
    players that learn may give it a meaning. With ``speech: free`` a text claims what the last of
    its words says that means a card, and the low card without any; exact figures need
    ``speech: words``. A claim that the high card is low is dominated.
    Reference: poker with one card and one bet, as von Neumann and Morgenstern, 1944, solve it.
    Verified by: tests/environments/test_bluff.py.

    Args:
        stake: what a call adds to what is won or lost, above 0, at most 10.
        phrases: words that mean each card, 1 to 3: high, strong, great; low, weak, poor.
        speech: "words" (default): the speaker says one of these words. "free": any text.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.

    Raises:
        ConfigError: a number out of range.
    """

    stake: Annotated[float, Field(ge=1e-6, le=10)] = 1.0
    phrases: Annotated[int, Field(ge=1, le=3)] = 1
    speech: Speech = "words"
    style: Literal["brief", "full"] = "brief"

    name, roles, num_seats, max_turns = "bluff", ("speaker", "listener"), 2, 2
    utility_sum, zero_sum = 0.0, True

    def __post_init__(self) -> None:
        self.brief = self.style == "brief"
        self.max_utility, self.min_utility = 1.0 + self.stake, -1.0 - self.stake
        self.claims = tuple(word for card in CARDS for word in MEANT[card][: self.phrases])

    def vocabulary(self) -> tuple[str, ...]:
        words = ("card", "say", "heard", "you", "they", "was")
        return tuple(sorted({*self.claims, *CARDS, *ANSWERS, *self.roles, *words}))

    def reset(self, stream: Stream) -> Claim:
        return Claim(self, CARDS[stream.integer(0, len(CARDS))])

    def openings(self) -> tuple[tuple[float, Claim], ...]:
        return tuple((1 / len(CARDS), Claim(self, card)) for card in CARDS)


class Claim(Painted):
    """One play.

    Attributes:
        card: the speaker's.
        said: what the speaker said, and what the listener answered, as far as they have.
    """

    def __init__(self, rules: Bluff, card: str, replies: tuple[str, ...] = ()) -> None:
        self.rules, self.card, self.said = rules, card, replies

    @property
    def done(self) -> bool:
        return len(self.said) == 2 or (len(self.said) == 1 and claimed(self.said[0]) == "low")

    @property
    def returns(self) -> tuple[float, float]:
        """What the speaker wins, and the listener loses."""
        if not self.done:
            return (0.0, 0.0)
        if len(self.said) == 1:
            won = -1.0
        elif self.said[1] == "believe":
            won = 1.0
        else:
            won = (1.0 + self.rules.stake) * (1.0 if self.card == "high" else -1.0)
        return (won, -won)

    def due(self) -> tuple[int, ...]:
        return () if self.done else (len(self.said),)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the words that claim a card, or None: any text; of the listener its answers."""
        if seat == LISTENER:
            return ANSWERS
        return self.rules.claims if self.rules.speech == "words" else None

    def kind(self, seat: int) -> str:
        """Return the kind of action: what the speaker says is a claim."""
        return "claim" if seat == SPEAKER else ""

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a claim in words, drawn uniformly."""
        return self.rules.claims[stream.integer(0, len(self.rules.claims))]

    def observe(self, seat: int) -> Observation:
        """Return the card to the speaker, or what the speaker said to the listener."""
        rules, role = self.rules, self.rules.roles[seat]
        if seat == SPEAKER:
            key = f"{role} card {self.card}"
            if rules.brief:
                return Observation(told=f"{key} say", key=key)
            free = "" if rules.speech == "words" else " You may use any words of your own."
            ask = f"What do you say? Claim one of: {', '.join(rules.claims)}.{free}"
            return Observation(
                told=f"{self._rules()}\n\nYour card is {self.card}.", ask=ask, key=key
            )
        claim = self.said[0] if self.said else ""
        key = f"{role} heard {claim}"
        if rules.brief:
            return Observation(told=key, key=key)
        ask = "Do you believe it or call? Reply with exactly one of: believe, call."
        prompt = f"{self._rules()}\n\nYou are listener. The speaker says: {claim}"
        return Observation(told=prompt, ask=ask, key=key)

    def _rules(self) -> str:
        called = f"{1 + self.rules.stake:g}"
        return (
            "We play one round of bluff. The speaker has a card, high or low, both equally likely, "
            "and says what it is; it need not be true. Who claims the low card pays 1 to the "
            "listener, and the round ends. After a claim of the high card the listener believes or "
            "calls. Believed, the speaker gets 1 from the listener. Called, the card is shown: "
            f"high, the speaker gets {called}; low, the speaker pays {called}."
        )

    def step(self, replies: Mapping[int, str]) -> None:
        self.said = (*self.said, replies[len(self.said)])

    def ending(self, seat: int) -> str:
        """Return what a seat learns at the end: the card, and the answer."""
        if self.rules.brief:
            answer = f"they {self.said[1]} " if seat == SPEAKER and len(self.said) == 2 else ""
            return f"{answer}card was {self.card}"
        return f"The card was {self.card}. You got {self.returns[seat]:g}."

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        roles = self.rules.roles
        payoffs = dict(enumerate(f"{value:+g}" for value in self.returns)) if self.done else {}
        seats(canvas, roles, self.due(), payoffs)
        seen = self.card if seat in (None, SPEAKER) or self.done else ""
        heading(canvas, "Card", seen or "hidden")
        lines = [
            Said(roles[player], line, seat_colour(player)) for player, line in enumerate(self.said)
        ]
        timeline(canvas, lines)

    def described(self, seat: int | None) -> str:
        roles = self.rules.roles
        parts = [f"{roles[player]} is to act." for player in self.due()] or ["The play is over."]
        if seat in (None, SPEAKER) or self.done:
            parts.append(f"The card is {self.card}.")
        parts += [f"{roles[player]} said: {line}." for player, line in enumerate(self.said)]
        return " ".join(parts)

    def clone(self) -> Claim:
        return Claim(self.rules, self.card, self.said)


bluff = Bluff
