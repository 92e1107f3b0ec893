"""The ledger of one seat: the exact ids the model has seen and said, in order.

Law: the concatenated segments of a conversation equal the ids sent to the model; sampled ids are
never decoded and encoded again. Which exchanges stand in a conversation is the context strategy's
choice; the ledger lays them out, of their own ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparring.config.plugins.registry import Bound
from sparring.core.records import Observation, Segment
from sparring.environments.base import Environment
from sparring.play.context.base import Exchange, Rewrite, Seen, Shown, grows, no_view

if TYPE_CHECKING:
    from sparring.play.players.base import Reply


_NOTHING = Observation(told="", key="")  # told yet


class Ledger:
    """The conversations of one seat as token ids, one after the other.

    Attributes:
        renderer: of the agent in the seat.
        ids: everything that stands in the conversation that goes on.
        known: how many of them the model had seen at the last turn.
        conversation: its number.
        told: the text that the seat was told last.
        wanted: the memory that it is asked for, if it is asked for one: what is written in the
            warm-up. None where it is asked for a reply to what it was told.

    Args:
        renderer: text to ids and back.
        context: the strategy, bound; None: full.
        environment: what is played; its ``name`` and ``brief`` are asked for. None: unknown.
    """

    __slots__ = (
        *("_context", "_environment", "_observation", "_opened", "_past", "_pending", "_shown"),
        *("conversation", "ids", "known", "renderer", "told", "wanted"),
    )

    def __init__(
        self, renderer: Any, context: Bound | None = None, environment: Environment | None = None
    ) -> None:
        self.renderer, self._environment = renderer, environment
        self._context = None if context is None or grows(context) else context
        self.ids: tuple[int, ...] = ()
        self.known = self.conversation = 0
        self._opened = 1  # conversations so far
        self.told = ""
        self.wanted: str | None = None
        self._observation = _NOTHING
        self._past: tuple[Exchange, ...] = ()  # since the environment's last fresh conversation
        self._shown: tuple[Exchange, ...] = ()  # what stands in the conversation that goes on
        self._pending: tuple[Segment, ...] = ()

    def ask(
        self, text: str, observation: Observation | None = None, *, again: bool = False
    ) -> None:
        """Tell the seat what the strategy shows of its past, and this text, and ask for a reply.

        Or ask it to write its memory first; then the text is not told yet (see ``wanted``).

        Args:
            text: what the seat has not been told yet.
            observation: of the turn that is due; None: its text is all that there is of it.
            again: whether the seat tries again after a reply that was no legal action.

        Raises:
            ContextError: the strategy shows the position, and there is no view of it.
            PluginError: the strategy raised, or gave what the ledger cannot lay out.
        """
        self._observation = seen = observation or Observation(told=text, key="")
        fresh = seen.fresh and not again
        if fresh:
            self._past = ()
        past, self.told, self.wanted = self._past, text, None
        if self._context is not None:
            past = self._chosen(self._context, seen, text, again)
        if self.ids and not fresh and self.renderer.prefix_stable and past == self._shown:
            segment = Segment("context", self.renderer.append(self.told))
        else:
            self._begin(past)
            segment = Segment("prompt", self._laid_out(past, self.told))
        self.ids += segment.ids
        self._pending += (segment,)

    def _chosen(
        self, context: Bound, observation: Observation, text: str, again: bool
    ) -> tuple[Exchange, ...]:
        """Return the exchanges that a strategy shows, and note what it tells or wants."""
        if not observation.view and "view" in context.needs:
            raise no_view(context, self._environment)
        brief = self._environment is not None and self._environment.brief
        answer: Shown | Rewrite = context(
            Seen(observation, text, self._past, len(self.ids), again, brief)
        )
        if isinstance(answer, Rewrite):
            self.told, self.wanted = answer.request, answer.example
            return self._shown
        past, self.told = answer
        return past

    def aside(self, reply: Reply) -> tuple[int, tuple[Segment, ...]]:
        """Return a reply to what is asked now that the conversation does not go on from.

        It ends a conversation of its own, of which this returns the number, and all segments.
        """
        prompt = Segment(kind="prompt", ids=self.ids[:1] if is_unsent(reply) else self.ids)
        return self._open(), (prompt, *sampled(reply))

    def _open(self) -> int:
        """Return the number of a new conversation."""
        self._opened += 1
        return self._opened - 1

    def _begin(self, past: tuple[Exchange, ...]) -> None:
        """Begin a new conversation, in which these exchanges stand."""
        if self.ids:
            self.conversation = self._open()
        self.ids, self.known, self._pending, self._shown = (), 0, (), past

    def _laid_out(self, past: tuple[Exchange, ...], text: str) -> tuple[int, ...]:
        """Return the ids of a conversation of these exchanges that asks for a reply to a text."""
        ids: tuple[int, ...] = ()
        if past and not self.renderer.prefix_stable:
            ids += self.renderer.conversation([(one.told, one.said) for one in past], text)
            return ids
        for one in past:
            ids += self._asked(ids, one.told) + one.said + one.closing
        return ids + self._asked(ids, text)

    def _asked(self, ids: tuple[int, ...], text: str) -> tuple[int, ...]:
        """Return the ids that tell a text after these, or as the first."""
        asked: tuple[int, ...] = (self.renderer.append if ids else self.renderer.initial)(text)
        return asked

    def read(self, text: str) -> str | None:
        """Return the part of a reply that names the action.

        None if the reply has not the form asked for.
        """
        action: str | None = self.renderer.read(text)
        return action

    def record(self, reply: Reply) -> tuple[Segment, ...]:
        """Append what was sampled.

        Return all segments since the last reply, this one's included.

        Of a reply that is unsent there is only the empty reply, after the conversation's first
        token if nothing of it was sent before; it stays too long from here on.
        """
        # an end that is not the scaffold's own is a word of the model: the scaffold's follows it
        other_end = bool(reply.ids) and reply.ids[-1] in self.renderer.stop_ids[1:]
        closing: tuple[int, ...] = self.renderer.close(reply.truncated or other_end)
        segments = self._said(reply, closing)
        memory = self.wanted is not None
        exchange = Exchange(self.told, reply.ids, closing, self._observation, reply.text, memory)
        self._past += (exchange,)
        self._shown += (exchange,)
        self._pending = ()
        return segments

    def _said(self, reply: Reply, closing: tuple[int, ...]) -> tuple[Segment, ...]:
        """Return the segments up to and with a reply, whose ids are appended."""
        if is_unsent(reply):
            begun, self.known = self.known > 0, max(self.known, 1)
            nothing = Segment(kind="sampled", ids=())
            return (nothing,) if begun else (Segment(kind="prompt", ids=self.ids[:1]), nothing)
        segments: tuple[Segment, ...] = (*self._pending, *sampled(reply))
        self.ids += reply.ids
        self.known = len(self.ids) - 1
        if closing:
            segments += (Segment(kind="boundary", ids=closing),)
            self.ids += closing
        return segments


def is_unsent(reply: Reply) -> bool:
    """Return whether a model was not asked, as the conversation had outgrown its context.

    An empty truncated reply says so: a model that is asked samples at least one token.

    Args:
        reply: of an agent that speaks in tokens.
    """
    return reply.truncated and not reply.ids


def sampled(reply: Reply) -> tuple[Segment, ...]:
    """Return what was sampled of a reply: a run for all tokens of the same weights."""
    if not reply.runs:
        return (Segment("sampled", reply.ids, reply.logprobs, reply.kept, reply.weights_version),)
    found, end = [], 0
    for length, version in reply.runs:
        own, end = slice(end, end + length), end + length
        found.append(
            Segment("sampled", reply.ids[own], reply.logprobs[own], reply.kept[own], version)
        )
    return tuple(found)
