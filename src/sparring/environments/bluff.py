"""Bluff: one seat claims a card, and the other seat believes the claim or calls it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.drawing.canvas import Canvas, PaintedPlay, seat_colour
from sparring.environments.drawing.pieces import TimelineMessage, heading, seats, timeline

CARDS = ("high", "low")
CLAIM_WORDS = {"high": ("high", "strong", "great"), "low": ("low", "weak", "poor")}
SPEAKER, LISTENER = 0, 1
ANSWERS = ("believe", "call")
Speech = Literal["words", "free"]
_WORD = re.compile(r"[a-z]+")


def claimed_card(statement: str) -> str:
    """Return the card of the last word that means a card; "low" without such a word."""
    cards = {word: card for card, words in CLAIM_WORDS.items() for word in words}
    claims = [cards[word] for word in _WORD.findall(statement.lower()) if word in cards]
    return claims[-1] if claims else "low"


@dataclass(kw_only=True, eq=False)
class Bluff(Environment):
    """Bluff: a speaker claims a card, truly or not, and a listener believes the claim or calls it.

    What: one round. The speaker's card is high or low, both equally likely. If the speaker claims
    the low card, it loses 1. If the speaker claims the high card and the listener believes, the
    speaker wins 1. If the listener calls, the speaker wins 1 + stake with the high card, and loses
    1 + stake with the low card.
    When to use: as the smallest environment in which lying pays and the equilibrium mixes truth and
    lies; to test methods that learn from statements in words.
    Mathematics: in equilibrium, with stake b, the speaker claims the high card with probabilities

        P(claim | high card) = 1,   P(claim | low card) = b / (2 + b),   P(call) = 2 / (2 + b)

    The speaker wins b / (2 + b) on average. With stake 1 it wins 1/3, lies in
    1/3 of the cases with the low card, and is called in 2/3.
    Pitfalls: each card has ``phrases`` words of equal meaning; learning players may give them
    different meanings. With ``speech: free`` a text claims the card of its last word that means a
    card, or the low card without such a word. Exact figures need ``speech: words``. With the high
    card, a claim of the low card is dominated.
    Reference: poker with one card and one bet, solved by von Neumann and Morgenstern, 1944.
    Verified by: tests/environments/test_bluff.py.

    Args:
        stake: amount that a call adds to the win or loss, above 0, at most 10.
        phrases: words for each card, 1 to 3: high, strong, great; low, weak, poor.
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
        self.claims = tuple(word for card in CARDS for word in CLAIM_WORDS[card][: self.phrases])

    def vocabulary(self) -> tuple[str, ...]:
        words = ("card", "say", "heard", "you", "they", "was")
        return tuple(sorted({*self.claims, *CARDS, *ANSWERS, *self.roles, *words}))

    def reset(self, stream: Stream) -> BluffPlay:
        return BluffPlay(self, CARDS[stream.integer(0, len(CARDS))])

    def openings(self) -> tuple[tuple[float, BluffPlay], ...]:
        return tuple((1 / len(CARDS), BluffPlay(self, card)) for card in CARDS)


class BluffPlay(PaintedPlay):
    """One episode of bluff.

    Attributes:
        card: the speaker's card.
        replies: the replies so far: the claim, then the listener's answer.
    """

    def __init__(self, rules: Bluff, card: str, replies: tuple[str, ...] = ()) -> None:
        self.rules, self.card, self.replies = rules, card, replies

    @property
    def done(self) -> bool:
        return len(self.replies) == 2 or (
            len(self.replies) == 1 and claimed_card(self.replies[0]) == "low"
        )

    @property
    def returns(self) -> tuple[float, float]:
        """The speaker's payoff, and the listener's payoff, which is its negative."""
        if not self.done:
            return (0.0, 0.0)
        if len(self.replies) == 1:
            payoff = -1.0
        elif self.replies[1] == "believe":
            payoff = 1.0
        else:
            payoff = (1.0 + self.rules.stake) * (1.0 if self.card == "high" else -1.0)
        return (payoff, -payoff)

    def due(self) -> tuple[int, ...]:
        return () if self.done else (len(self.replies),)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the words of claims (None: any text) or the listener's answers."""
        if seat == LISTENER:
            return ANSWERS
        return self.rules.claims if self.rules.speech == "words" else None

    def kind(self, seat: int) -> str:
        """Return the kind of action: the speaker makes a claim."""
        return "claim" if seat == SPEAKER else ""

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a claim in words, drawn uniformly."""
        return self.rules.claims[stream.integer(0, len(self.rules.claims))]

    def observe(self, seat: int) -> Observation:
        """Return the card for the speaker, or the claim for the listener."""
        rules, role = self.rules, self.rules.roles[seat]
        if seat == SPEAKER:
            key = f"{role} card {self.card}"
            if rules.brief:
                return Observation(prompt=f"{key} say", key=key)
            hint = "" if rules.speech == "words" else " You may use any words of your own."
            ask = f"What do you say? Claim one of: {', '.join(rules.claims)}.{hint}"
            return Observation(
                prompt=f"{self._rules_text()}\n\nYour card is {self.card}.", ask=ask, key=key
            )
        claim = self.replies[0] if self.replies else ""
        key = f"{role} heard {claim}"
        if rules.brief:
            return Observation(prompt=key, key=key)
        ask = "Do you believe it or call? Reply with exactly one of: believe, call."
        prompt = f"{self._rules_text()}\n\nYou are listener. The speaker says: {claim}"
        return Observation(prompt=prompt, ask=ask, key=key)

    def _rules_text(self) -> str:
        call_payoff = f"{1 + self.rules.stake:g}"
        return (
            "We play one round of bluff. The speaker has a card, high or low, both equally likely, "
            "and says what it is; it need not be true. Who claims the low card pays 1 to the "
            "listener, and the round ends. After a claim of the high card the listener believes or "
            "calls. Believed, the speaker gets 1 from the listener. Called, the card is shown: "
            f"high, the speaker gets {call_payoff}; low, the speaker pays {call_payoff}."
        )

    def step(self, replies: Mapping[int, str]) -> None:
        self.replies = (*self.replies, replies[len(self.replies)])

    def ending(self, seat: int) -> str:
        """Return the card and, for the speaker, the listener's answer."""
        if self.rules.brief:
            answer = (
                f"they {self.replies[1]} " if seat == SPEAKER and len(self.replies) == 2 else ""
            )
            return f"{answer}card was {self.card}"
        return f"The card was {self.card}. You got {self.returns[seat]:g}."

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        roles = self.rules.roles
        payoffs = dict(enumerate(f"{value:+g}" for value in self.returns)) if self.done else {}
        seats(canvas, roles, self.due(), payoffs)
        card = self.card if seat in (None, SPEAKER) or self.done else ""
        heading(canvas, "Card", card or "hidden")
        messages = [
            TimelineMessage(roles[player], reply, seat_colour(player))
            for player, reply in enumerate(self.replies)
        ]
        timeline(canvas, messages)

    def described(self, seat: int | None) -> str:
        roles = self.rules.roles
        parts = [f"{roles[player]} is to act." for player in self.due()] or ["The play is over."]
        if seat in (None, SPEAKER) or self.done:
            parts.append(f"The card is {self.card}.")
        parts += [f"{roles[player]} said: {reply}." for player, reply in enumerate(self.replies)]
        return " ".join(parts)

    def clone(self) -> BluffPlay:
        return BluffPlay(self.rules, self.card, self.replies)


bluff = Bluff
