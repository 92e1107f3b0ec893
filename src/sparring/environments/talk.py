"""Combinator: before each action, a seat sends a message to all other seats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.combining import (
    CombinedEnvironment,
    CombinedPlay,
    inner_of,
    join_texts,
    with_news,
)
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import TimelineMessage, heading, timeline
from sparring.environments.drawing.words import wrap_text
from sparring.environments.options import entry_of
from sparring.environments.reply import in_quotation_marks

SAY, SAYS = "say", "says"  # in brief style SAY asks for a message, and SAYS stands before one
WORDS = ("yes", "no")
MESSAGE_QUESTION = (
    "Before you act, say something to the other players, in your own words. Do not act yet."
)


class Talk(CombinedEnvironment):
    """An environment in which each seat sends a public message before each of its actions.

    What: every turn has two halves. First all seats that are due send a message, then each of them
    acts. A seat reads the messages of other seats in its next prompt. Talk is cheap: messages
    change no payoff.
    When to use: negotiation, coordination and deception around any environment.
    Pitfalls: messages are model text that other seats read. Prompts quote messages as data:
    each is truncated at ``limit`` and on one line; in style "full" it is in quotation marks that it
    cannot close. Messages can be false. All seats read all messages; none are private.
    Verified by: tests/environments/test_combinators.py.

    Args:
        environment: the environment to wrap, {name: ..., options: {...}}. null (default):
            rock_paper_scissors, as an example.
        limit: largest number of characters of a message that other seats see, 1 to 100,000.
        words: in style "brief", the words that messages may use. The random player sends one of
            them in both styles.

    Raises:
        ConfigError: the option ``environment`` names no environment.
    """

    version = 2  # in version 1, messages had no quotation marks in style "full"

    def __init__(
        self,
        *,
        environment: dict[str, Any] | None = None,
        limit: Annotated[int, Field(ge=1, le=100_000)] = 300,
        words: tuple[str, ...] = WORDS,
    ) -> None:
        inner = inner_of("talk", environment)
        super().__init__("talk", inner)
        self.limit, self.message_words = limit, tuple(words) or WORDS
        self.max_turns = 2 * inner.max_turns
        self.min_utility, self.max_utility = inner.min_utility, inner.max_utility
        self.utility_sum = inner.utility_sum

    def words(self) -> tuple[str, ...]:
        """Return the words of messages, and the words around them."""
        return (SAY, SAYS, *self.roles, *self.message_words)

    def reset(self, stream: Stream) -> TalkPlay:
        return TalkPlay(self, self.inner.reset(stream))


class TalkPlay(CombinedPlay):
    """A play in which every turn has two halves: messages, then actions.

    Attributes:
        is_talking: whether messages are due now, not actions.
        messages: (seat, text) of the messages so far.
    """

    def __init__(self, rules: Talk, play: Play) -> None:
        super().__init__(rules, play)
        self.is_talking = True
        self.messages: tuple[tuple[int, str], ...] = ()
        self.keys = ("",) * rules.num_seats  # the messages that each seat has read

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the legal actions of a seat; None: any message."""
        return None if self.is_talking else super().legal(seat)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply, or a message unchanged."""
        return reply if self.is_talking else super().read(seat, reply, exact)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random action, or a message of one random word."""
        if not self.is_talking:
            return super().sample(seat, stream)
        words = self.rules.message_words
        return str(words[stream.integer(0, len(words))])

    def observe(self, seat: int) -> Observation:
        """Return the current play's observation; before an action, the new messages."""
        rules = self.rules
        observation: Observation = self.play.observe(seat)
        news, key = self.news.get(seat, ""), f"{self.keys[seat]}{observation.key}"
        if self.is_talking:
            prompt = (
                join_texts([observation.prompt, SAY], True) if rules.brief else observation.prompt
            )
            ask = "" if rules.brief else MESSAGE_QUESTION
            observation = observation._replace(prompt=prompt, ask=ask, key=f"{key}|{SAY}")
            return with_news(observation, news, rules.brief)
        no_news = "." if rules.brief else "Nobody else has said anything."
        return observation._replace(prompt=news or no_news, key=key, fresh=False)

    def step(self, replies: Mapping[int, str]) -> None:
        for seat in replies:
            self.news.pop(seat, None)
        if not self.is_talking:
            self.play.step(replies)
            self.is_talking = True
            return
        self.is_talking = False
        for seat, text in sorted(replies.items()):
            message = " ".join(text[: self.rules.limit].split())
            self.messages = (*self.messages, (seat, message))
            role = self.rules.roles[seat]
            if self.rules.brief:
                line = f"{role} {SAYS} {message}".rstrip()
            elif message:
                line = f"{role} says: {in_quotation_marks(message)}"
            else:
                line = f"{role} says nothing."
            for reader in range(self.rules.num_seats):
                if reader != seat:
                    texts = [self.news.get(reader, ""), line]
                    self.news[reader] = join_texts(texts, self.rules.brief)
                    self.keys = tuple(
                        f"{key}{line}|" if player == reader else key
                        for player, key in enumerate(self.keys)
                    )

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        super().paint(canvas, seat)
        note = "" if self.done else "messages are due" if self.is_talking else "actions are due"
        heading(canvas, "Messages", note)
        roles = self.rules.roles
        messages = [
            TimelineMessage(roles[sender], text or "(nothing)", seat_colour(sender))
            for sender, text in self.messages
        ]
        timeline(canvas, messages, most=6)

    def described(self, seat: int | None) -> str:
        parts = [super().described(seat)]
        if not self.done:
            parts.append("Messages are due first." if self.is_talking else "Actions are due.")
        if self.messages:
            sender, text = self.messages[-1]
            parts.append(f"{self.rules.roles[sender]} said last: {wrap_text(text, 1, 60, 1)[0]}")
        return " ".join(parts)


talk = entry_of(Talk)
