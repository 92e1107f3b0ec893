"""What a seat sees of its past: the question to a context strategy, and the answers it may give.

A strategy is a function of what one seat has been through. It is asked whenever the seat is to be
told something, and answers in one of two ways:

``Shown``
    The exchanges of the past that stand in the conversation, and the text that is told after them.
    If they are those of the conversation that goes on, the text is added to it. If not, a new
    conversation is laid out, of the exchanges' own ids. Each conversation is one sequence to train
    on, and a reply is trained in the conversation in which it was sampled.
``Rewrite``
    Before it is told anything the seat is to write its memory anew. What it replies is a turn of
    its own, which is recorded and trained and moves no play. Then the strategy is asked again, and
    finds the memory as the last exchange of the past.

A strategy that always shows everything says ``GROWS = True``, and is not asked: the ledger adds
what is told to a conversation that only grows.

A strategy decides nothing else. It cannot change an id that was sampled or told, and a seat that
the environment gives a fresh conversation has no past under any strategy.

The ledger of a seat holds the exact ids that the model has seen and said, in order. Law: the
concatenated segments of a conversation equal the ids sent to the model; sampled ids are never
decoded and encoded again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ContextError, PluginError
from sparring.core.records import Observation, Segment
from sparring.environments.base import Environment

GIVEN = {  # what NEEDS may name
    "view": "what a seat sees of the position now, at every turn (Observation.view)",
    "notes": "notes between attempts (Observation.note, as in the environment trial)",
}


class Exchange(NamedTuple):
    """One turn of a seat as it was laid out: what it was told, and the ids of its reply."""

    told: str
    said: tuple[int, ...]  # as sampled; empty where the conversation was too long to be sent
    closing: tuple[int, ...]  # the scaffold that closes a reply which does not close itself
    observation: Observation  # of the turn
    reply: str = ""  # as text
    memory: bool = False  # whether the reply is a memory that the strategy asked for


class Seen(NamedTuple):
    """A seat that is to be told something, as a strategy is asked about it."""

    # of the turn that is due; where an environment has none, its text alone
    observation: Observation
    # what it has not been told yet: ``observation.text``, and before it, or in its place where the
    # seat tries again, a word about its last reply
    text: str
    # everything since the environment last began a fresh conversation, oldest first
    past: tuple[Exchange, ...] = ()
    tokens: int = 0  # of the conversation that goes on
    again: bool = False  # whether the seat tries again after a reply that was no legal action
    brief: bool = False  # whether the environment speaks in the words of a small vocabulary


class Shown(NamedTuple):
    """What stands in the conversation: exchanges of ``Seen.past``, in order, then a text."""

    past: tuple[Exchange, ...]
    text: str


class Rewrite(NamedTuple):
    """A memory is to be written first."""

    request: str  # what the seat is told, in the conversation that goes on
    example: str = ""  # what is written in the warm-up, which imitates


def grows(strategy: BoundPlugin) -> bool:
    """Return whether a strategy always shows everything, so that it need not be asked."""
    return bool(getattr(strategy.plugin.module, "GROWS", False))


def no_view(strategy: BoundPlugin, environment: Environment | None) -> ContextError:
    """Return the error of an environment that does not say what a seat sees of the position."""
    name = "the environment" if environment is None else environment.name
    return ContextError(
        f"The {strategy} shows the position alone, and {name} has no view of it at some turn "
        "(Observation.view is empty). Write context: {name: full}, or let the environment's "
        "observe give a view."
    )


def no_notes(strategy: BoundPlugin, environment: Environment) -> ContextError:
    """Return the error of an environment without notes between attempts."""
    name = environment.name
    return ContextError(
        f"The {strategy} shows what a seat noted in earlier attempts, and {name} has no notes. "
        "Write context: {name: full}, or play an environment such as {name: trial, options: "
        "{environment: {name: rock_paper_scissors}, attempts: 3, reflect: true}}."
    )


def check_output(strategy: BoundPlugin, given: Any, seen: Seen) -> None:
    """Check what a strategy has answered; every call of one ends here.

    Raises:
        PluginError: it shows what is not the seat's own past, in another order, or twice; or it
            asks for a memory where nothing has happened since the last one.
    """
    if isinstance(given, Rewrite):
        if not isinstance(given.request, str) or not given.request.strip():
            raise PluginError(
                f"The {strategy} must ask for a memory in words; it asked {given.request!r}."
            )
        if seen.again or not seen.past or seen.past[-1].memory:
            raise PluginError(
                f"The {strategy} asked for a memory where there is nothing new to remember, or "
                "where the seat tries again; return Shown there (see Seen.past and Seen.again)."
            )
        return
    if not isinstance(given, Shown) or not isinstance(given.text, str):
        raise PluginError(
            f"The {strategy} must return Shown(past, text) or Rewrite(request); it "
            f"returned {given!r:.100}."
        )
    if given.past is seen.past:
        return
    places = {id(one): place for place, one in enumerate(seen.past)}
    found = [places.get(id(one), -1) for one in given.past]
    if -1 in found or found != sorted(set(found)):
        raise PluginError(
            f"The {strategy} breaks the ledger: it shows what is not the seat's own past as it was "
            "told and said. Take exchanges of Seen.past as they are, in their order, each once."
        )


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
        self,
        renderer: Any,
        context: BoundPlugin | None = None,
        environment: Environment | None = None,
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
            if self.ids:
                self.conversation = self._open()
            self.ids, self.known, self._pending, self._shown = (), 0, (), past
            segment = Segment("prompt", self._laid_out(past, self.told))
        self.ids += segment.ids
        self._pending += (segment,)

    def _chosen(
        self, context: BoundPlugin, observation: Observation, text: str, again: bool
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
        self._opened += 1
        return self._opened - 1

    def _laid_out(self, past: tuple[Exchange, ...], text: str) -> tuple[int, ...]:
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
