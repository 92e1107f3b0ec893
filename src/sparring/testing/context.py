"""Checks the contract of context strategies, which choose what a prompt shows of earlier turns."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from types import SimpleNamespace
from typing import Any

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.play.context.base import ContextRequest, ContextWindow, Exchange, Ledger, grows
from sparring.play.players.base import Reply
from sparring.testing.bound_plugin import bind_plugin, require_equal

ASK, BEGIN, END = 1, 0, 2
MAX_TURNS = 12  # largest number of decisions of an episode


class Letters:
    """A renderer for tests: the id of a letter is its code point, and a reply ends with 2.

    Args:
        stable: whether earlier ids stay in later prompts. If not, prompts show every reply
            without its first letter, like a renderer that removes thoughts.
    """

    stop_ids = (END,)

    def __init__(self, stable: bool = True) -> None:
        self.prefix_stable = stable

    def initial(self, text: str) -> tuple[int, ...]:
        """Return the ids that open a conversation."""
        return (BEGIN, *map(ord, text), ASK)

    def append(self, text: str) -> tuple[int, ...]:
        """Return the ids of the next prompt of a conversation."""
        return (*map(ord, text), ASK)

    def close(self, truncated: bool) -> tuple[int, ...]:
        """Return the ids that close a reply; there are none unless it was truncated."""
        return (END,) if truncated else ()

    def conversation(self, past: list[tuple[str, tuple[int, ...]]], text: str) -> tuple[int, ...]:
        """Return the ids of a conversation in which earlier replies are edited."""
        ids: tuple[int, ...] = (BEGIN,)
        for prompt, reply in past:
            ids += (*map(ord, prompt), ASK, *reply[1:])
        return ids + self.append(text)


def check_context(
    strategy: Callable[..., Any] | BoundPlugin, *, plays: int = 100, seed: int = 0, **options: Any
) -> None:
    """Check a context strategy on random episodes of one seat.

    The episodes have illegal replies and retries, new conversations, attempts with notes, truncated
    and unsent replies. Some renderers edit old replies. The segments of a conversation must be the
    ids that were sent and sampled. A new conversation must show nothing of earlier ones. After a
    memory is written, the seat must get the prompt of its decision. Equal requests must give equal
    windows. A strategy with ``GROWS`` must show everything.

    Args:
        strategy: the function, or the bound plug-in.
        plays: number of episodes.
        seed: seed of all random draws.
        options: options of the function.

    Raises:
        AssertionError: the strategy breaks one of these rules.
        PluginError: the strategy raised, or returned a window that the ledger cannot lay out.
    """
    plugin = bind_plugin("context", strategy, options)
    if grows(plugin):
        for case in (context_seen("x"), context_seen(*"uvwxyz"), context_seen("x", is_retry=True)):
            window = ContextWindow(case.past, case.text)
            require_equal(plugin(case), window, f"The {plugin} says GROWS but hides something")
    for number in range(plays):
        stream = Stream.from_seed(seed).child(number)
        _RandomEpisode(plugin, Letters(stable=number % 3 > 0), stream).play()


class _RandomEpisode:
    def __init__(self, strategy: BoundPlugin, renderer: Letters, stream: Stream) -> None:
        environment = SimpleNamespace(name="letters", brief=stream.integer(0, 2) == 0)
        self.strategy, self.renderer, self.stream = strategy, renderer, stream
        self.ledger = Ledger(renderer, strategy, environment)
        self.recorded_ids: dict[int, tuple[int, ...]] = {}  # by number of the conversation
        self.too_long: set[int] = set()  # numbers of the conversations that cannot be sent

    def play(self) -> None:
        attempt, is_retry = 0, False
        for turn in range(1 + self.stream.integer(1, MAX_TURNS)):
            draws = self.stream.child(turn)
            note, fresh = (not is_retry and draws.integer(counter, 7) == 0 for counter in range(2))
            observation = _observation(f"t{turn}", attempt=attempt, note=note, fresh=fresh)
            self.turn(observation, is_retry, draws)
            attempt += note
            is_retry = draws.integer(2, 5) == 0

    def turn(self, observation: Observation, is_retry: bool, stream: Stream) -> None:
        """Play one decision, after a memory if the ledger asks for one."""
        ledger = self.ledger
        self.ask(observation, is_retry)
        if observation.fresh:
            assert ledger.ids == self.renderer.initial(ledger.prompt), (
                f"The {self.strategy} shows something earlier in a new conversation."
            )
        if ledger.memory_example is not None:
            self.reply(stream.child("memory"))
            self.ask(observation, is_retry)
        self.reply(stream.child("decision"))

    def ask(self, observation: Observation, is_retry: bool) -> None:
        ledger_copy = copy(self.ledger)
        for ledger in (ledger_copy, self.ledger):
            ledger.ask(observation.text, observation, is_retry=is_retry)
        require_equal(
            (ledger_copy.ids, ledger_copy.prompt),
            (self.ledger.ids, self.ledger.prompt),
            f"The {self.strategy} must answer equal requests equally",
        )

    def reply(self, stream: Stream) -> None:
        """Record a reply: complete, truncated, or none if the prompt is too long."""
        ledger, reply_kind = self.ledger, stream.integer(0, 8)
        conversation, sent_ids = ledger.conversation, ledger.ids
        letters = tuple(ord("a") + stream.integer(counter, 3) for counter in range(1, 4))
        if reply_kind == 0 or conversation in self.too_long:
            self.too_long.add(conversation)
            ledger.record(Reply(text="", truncated=True))
            return
        ids = letters if reply_kind == 1 else (*letters, END)
        segments = ledger.record(
            Reply(text="", ids=ids, logprobs=(0.0,) * len(ids), truncated=reply_kind == 1)
        )
        new_ids = tuple(token for segment in segments for token in segment.ids)
        self.recorded_ids[conversation] = self.recorded_ids.get(conversation, ()) + new_ids
        reply_ids = (*sent_ids, *ids, *self.renderer.close(reply_kind == 1))
        require_equal(
            reply_ids, self.recorded_ids[conversation], f"The {self.strategy} breaks the ledger"
        )


def context_seen(*prompts: str, **changes: Any) -> ContextRequest:
    """Return a request to a context strategy, for tests.

    Every turn except the last has the reply "a". The view of a turn is its text in capitals.

    Args:
        prompts: texts of a seat's prompts, turn by turn; the last one waits for a reply.
        changes: changes of the request's fields, such as ``is_retry=True``.
    """
    reply_ids = (ord("a"), END)
    past = tuple(Exchange(text, reply_ids, (), _observation(text), "a") for text in prompts[:-1])
    tokens = sum(len(text) + 1 + len(reply_ids) for text in prompts[:-1])
    return ContextRequest(_observation(prompts[-1]), prompts[-1], past, tokens)._replace(**changes)


def _observation(text: str, **changes: Any) -> Observation:
    return Observation(prompt=text, key=text, view=text.upper())._replace(**changes)
