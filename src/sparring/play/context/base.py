"""Context strategies: what a seat sees of its past, and the ledger of its conversations.

A strategy is called before every prompt of a seat, and returns one of two results:

``ContextWindow``
    The past exchanges to show, and the text after them. If the current conversation has exactly
    these exchanges, the text is appended to it. Otherwise a new conversation is built from the ids
    of the exchanges. Each conversation is one training sequence, and a reply is trained
    in the conversation in which it was sampled.
``WriteMemory``
    The seat must write a memory first. The memory is a turn that is recorded and trained, but has
    no action. Then the strategy is called again, with the memory as the last exchange of the past.

A strategy with ``GROWS = True`` always shows the whole past and is not called: the ledger appends
every prompt to the conversation. No strategy can change an id of a prompt or of a reply. When the
environment begins a fresh conversation, a seat has no past.

The ledger of a seat holds the exact ids of its conversations, in order. Invariant: the concatenated
segments of a conversation equal the ids sent to the model; sampled ids are never decoded and
encoded again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ContextError, PluginError
from sparring.core.records import ChatMessage, Observation, Segment
from sparring.environments.base import Environment

BASE_NEEDS = {  # the names that a strategy's NEEDS may have
    "view": "what a seat sees of the position now, at every turn (Observation.view)",
    "notes": "notes between attempts (Observation.note, as in the environment trial)",
}


class Exchange(NamedTuple):
    """One turn of a seat in a conversation: its prompt, and the ids of its reply."""

    prompt: str
    reply_ids: tuple[int, ...]  # the sampled ids; () if the conversation was too long to be sent
    end_ids: tuple[int, ...]  # scaffold ids after a reply without its end token
    observation: Observation  # the seat's observation at this turn
    reply: str = ""  # the text of the reply
    is_memory: bool = False  # whether the reply is a memory
    prefill: str = ""  # the beginning of the reply, which was a part of the prompt


class ContextRequest(NamedTuple):
    """Input of a context strategy: what the seat has seen, and its next prompt."""

    observation: Observation  # the seat's observation now
    # the new prompt: ``observation.text``, preceded by a notice if the last reply was illegal; only
    # the notice if the seat tries again
    text: str
    # exchanges since the environment last began a fresh conversation, oldest first
    past: tuple[Exchange, ...] = ()
    tokens: int = 0  # length of the current conversation
    is_retry: bool = False  # whether the seat tries again after an illegal reply
    brief: bool = False  # whether the environment uses a small vocabulary


class ContextWindow(NamedTuple):
    """The conversation to show: exchanges from ``ContextRequest.past``, in order, then a text."""

    past: tuple[Exchange, ...]
    text: str


class WriteMemory(NamedTuple):
    """A request that the seat writes a memory first."""

    request: str  # the prompt, appended to the current conversation
    example: str = ""  # the memory that the warm-up imitates


def grows(strategy: BoundPlugin) -> bool:
    """Return whether a strategy always shows the whole past, and is not called."""
    return strategy.plugin.declarations.GROWS


def no_view_error(strategy: BoundPlugin, environment: Environment | None) -> ContextError:
    """Return the error of an environment whose observations have no view of the position."""
    name = "the environment" if environment is None else environment.name
    return ContextError(
        f"The {strategy} shows only the position, and {name} has no view of it at some turn "
        "(Observation.view is empty). Write context: {name: full}, or return a view from the "
        "environment's observe."
    )


def no_notes_error(strategy: BoundPlugin, environment: Environment) -> ContextError:
    """Return the error of an environment without notes between attempts."""
    name = environment.name
    return ContextError(
        f"The {strategy} shows the notes of earlier attempts, and {name} has no notes. "
        "Write context: {name: full}, or play an environment such as {name: trial, options: "
        "{environment: {name: rock_paper_scissors}, attempts: 3, reflect: true}}."
    )


def check_output(strategy: BoundPlugin, result: Any, request: ContextRequest) -> None:
    """Check the result of a strategy, after every call.

    Raises:
        PluginError: the window is not a part of the seat's past in its order, or the result
            requests a memory without new exchanges since the last one.
    """
    if isinstance(result, WriteMemory):
        if not isinstance(result.request, str) or not result.request.strip():
            raise PluginError(
                f"The {strategy} must request a memory by a text that is not empty; it returned "
                f"{result.request!r}."
            )
        if request.is_retry or not request.past or request.past[-1].is_memory:
            raise PluginError(
                f"The {strategy} requested a memory without a new exchange since the last "
                "memory, or while the seat tries again; return ContextWindow then (see past and "
                "is_retry of ContextRequest)."
            )
        return
    if not isinstance(result, ContextWindow) or not isinstance(result.text, str):
        raise PluginError(
            f"The {strategy} must return ContextWindow(past, text) or WriteMemory(request); it "
            f"returned {result!r:.100}."
        )
    if result.past is request.past:
        return
    index_by_id = {id(exchange): index for index, exchange in enumerate(request.past)}
    order = [index_by_id.get(id(exchange), -1) for exchange in result.past]
    if -1 in order or order != sorted(set(order)):
        raise PluginError(
            f"The {strategy} breaks the ledger: its window has exchanges that are not in the "
            "seat's past. Take exchanges of ContextRequest.past unchanged, in order, each once."
        )


if TYPE_CHECKING:
    from sparring.play.players.base import Reply


_EMPTY_OBSERVATION = Observation(prompt="", key="")  # before the first prompt


class Ledger:
    """The conversations of one seat as token ids, in order.

    Attributes:
        renderer: the renderer of the agent in the seat.
        ids: token ids of the current conversation.
        known: number of these ids that the model had seen at the last turn.
        conversation: number of the current conversation.
        prompt: text of the last prompt.
        memory_example: the memory that the warm-up writes if a memory is requested, or None.

    Args:
        renderer: encodes texts and decodes ids.
        context: the strategy, bound; None: full.
        environment: the environment, for its ``name`` and ``brief``; None: unknown.
    """

    __slots__ = (
        *(
            "_context",
            "_environment",
            "_observation",
            "_num_conversations",
            "_past",
            "_pending",
            "_prefill",
            "_visible",
        ),
        *("conversation", "ids", "known", "renderer", "prompt", "memory_example"),
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
        self._num_conversations = 1
        self.prompt = ""
        self.memory_example: str | None = None
        self._observation = _EMPTY_OBSERVATION
        self._past: tuple[Exchange, ...] = ()  # since the environment's last fresh conversation
        self._visible: tuple[Exchange, ...] = ()  # the exchanges in the current conversation
        self._pending: tuple[Segment, ...] = ()  # segments since the last reply
        self._prefill = ""

    def ask(
        self, text: str, observation: Observation | None = None, *, is_retry: bool = False
    ) -> None:
        """Append a prompt to the conversation, or to the window that the strategy shows.

        If the strategy requests a memory, the prompt is this request (``memory_example``).

        Args:
            text: the new prompt.
            observation: the seat's observation; None: an observation that is only the text.
            is_retry: whether the seat tries again after an illegal reply.

        Raises:
            ContextError: the strategy shows the view of the position, and there is none.
            PluginError: the strategy raised, or ``check_output`` refuses its result.
        """
        self._observation = observation or Observation(prompt=text, key="")
        is_fresh = self._observation.fresh and not is_retry
        if is_fresh:
            self._past = ()
        past, self.prompt, self.memory_example = self._past, text, None
        if self._context is not None:
            past = self._ask_strategy(self._context, self._observation, text, is_retry)
        is_memory = self.memory_example is not None
        prefill = self._prefill = "" if is_retry or is_memory else self._observation.prefill
        if self.ids and not is_fresh and self.renderer.prefix_stable and past == self._visible:
            segment = Segment("context", self._prompt_ids(self.ids, self.prompt, (), prefill))
        else:
            if self.ids:
                self.conversation = self._next_conversation()
            self.ids, self.known, self._pending, self._visible = (), 0, (), past
            messages = (past[0].observation if past else self._observation).messages
            segment = Segment("prompt", self._conversation_ids(past, messages, prefill))
        self.ids += segment.ids
        self._pending += (segment,)

    def _ask_strategy(
        self, context: BoundPlugin, observation: Observation, text: str, is_retry: bool
    ) -> tuple[Exchange, ...]:
        if not observation.view and "view" in context.needs:
            raise no_view_error(context, self._environment)
        brief = self._environment is not None and self._environment.brief
        result: ContextWindow | WriteMemory = context(
            ContextRequest(observation, text, self._past, len(self.ids), is_retry, brief)
        )
        if isinstance(result, WriteMemory):
            self.prompt, self.memory_example = result.request, result.example
            return self._visible
        past, self.prompt = result
        return past

    def record_unplayed(self, reply: Reply) -> tuple[int, tuple[Segment, ...]]:
        """Record a reply that is not played, as the end of a conversation of its own.

        Returns:
            The number of this conversation, and all its segments.
        """
        prompt = Segment(kind="prompt", ids=self.ids[:1] if is_unsent(reply) else self.ids)
        return self._next_conversation(), (prompt, *sampled_segments(reply))

    def _next_conversation(self) -> int:
        self._num_conversations += 1
        return self._num_conversations - 1

    def _conversation_ids(
        self, past: tuple[Exchange, ...], messages: tuple[ChatMessage, ...], prefill: str
    ) -> tuple[int, ...]:
        ids: tuple[int, ...] = ()
        if past and not self.renderer.prefix_stable:
            turns = [(exchange.prompt, exchange.reply_ids) for exchange in past]
            if not messages and not prefill and not any(exchange.prefill for exchange in past):
                ids += self.renderer.conversation(turns, self.prompt)
                return ids
            prefills = [exchange.prefill for exchange in past] + [prefill]
            ids += self.renderer.conversation(turns, self.prompt, messages, prefills)
            return ids
        for exchange in past:
            ids += self._prompt_ids(ids, exchange.prompt, messages, exchange.prefill)
            ids += exchange.reply_ids + exchange.end_ids
        return ids + self._prompt_ids(ids, self.prompt, messages, prefill)

    def _prompt_ids(
        self, ids: tuple[int, ...], text: str, messages: tuple[ChatMessage, ...], prefill: str
    ) -> tuple[int, ...]:
        """Return the ids of a prompt; a renderer without messages takes the text alone."""
        method = self.renderer.append if ids else self.renderer.initial
        arguments: list[Any] = [] if ids or not (messages or prefill) else [messages]
        arguments += [prefill] if prefill or arguments else []
        prompt_ids: tuple[int, ...] = method(text, *arguments)
        return prompt_ids

    def read(self, text: str) -> str | None:
        """Return the text of the action in a reply; None if the reply has no such text."""
        action: str | None = self.renderer.read(text)
        return action

    def record(self, reply: Reply) -> tuple[Segment, ...]:
        """Append a reply to the conversation, and return all segments since the last reply.

        A conversation that was too long to be sent gets an empty reply. If no part of it was sent
        before, only its first token is recorded before this reply.
        """
        # after another end token in the reply, the scaffold's own end token follows
        has_other_end = bool(reply.ids) and reply.ids[-1] in self.renderer.stop_ids[1:]
        end_ids: tuple[int, ...] = self.renderer.close(reply.truncated or has_other_end)
        segments = self._reply_segments(reply, end_ids)
        is_memory = self.memory_example is not None
        exchange = Exchange(
            self.prompt, reply.ids, end_ids, self._observation, reply.text, is_memory, self._prefill
        )
        self._past += (exchange,)
        self._visible += (exchange,)
        self._pending = ()
        return segments

    def _reply_segments(self, reply: Reply, end_ids: tuple[int, ...]) -> tuple[Segment, ...]:
        if is_unsent(reply):
            was_sent, self.known = self.known > 0, max(self.known, 1)
            empty_reply = Segment(kind="sampled", ids=())
            first_token = Segment(kind="prompt", ids=self.ids[:1])
            return (empty_reply,) if was_sent else (first_token, empty_reply)
        segments: tuple[Segment, ...] = (*self._pending, *sampled_segments(reply))
        self.ids += reply.ids
        self.known = len(self.ids) - 1
        if end_ids:
            segments += (Segment(kind="boundary", ids=end_ids),)
            self.ids += end_ids
        return segments


def is_unsent(reply: Reply) -> bool:
    """Return whether a conversation was too long for the model, and was not sent.

    The reply is then truncated and empty; any reply of a model has at least one token.

    Args:
        reply: a reply of an agent with a renderer.
    """
    return reply.truncated and not reply.ids


def sampled_segments(reply: Reply) -> tuple[Segment, ...]:
    """Return the sampled segments of a reply: one per span of tokens from the same weights."""
    if not reply.spans:
        return (
            Segment("sampled", reply.ids, reply.logprobs, reply.support, reply.weights_version),
        )
    segments, start = [], 0
    for length, version in reply.spans:
        span, start = slice(start, start + length), start + length
        segments.append(
            Segment("sampled", reply.ids[span], reply.logprobs[span], reply.support[span], version)
        )
    return tuple(segments)
