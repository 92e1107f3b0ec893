"""The segment ledger of one seat: the exact ids the model has seen and said, in order.

Law: the concatenated segments equal the ids sent to the model; sampled ids are never decoded and
encoded again.
"""

from __future__ import annotations

from typing import Any

from sparring.players.base import Reply
from sparring.types import Segment


def sampled(reply: Reply) -> Segment:
    """Return what was sampled of a reply."""
    return Segment(
        kind="sampled",
        ids=reply.ids,
        logprobs=reply.logprobs,
        kept=reply.kept,
        weights_version=reply.weights_version,
    )


class Ledger:
    """One seat's conversation as token ids.

    Attributes:
        renderer: of the agent in the seat.
        ids: everything the model has seen and said.
        known: the length its agent had seen at its last turn.
        conversation: its number; it grows where a renderer that edits history lays the conversation
            out anew.
    """

    __slots__ = (
        *("_asked", "_opened", "_past", "_pending", "conversation", "ids", "known", "renderer"),
    )

    def __init__(self, renderer: Any) -> None:
        self.renderer = renderer
        self.ids: tuple[int, ...] = ()
        self.known = self.conversation = 0
        self._opened = 1  # conversations so far
        self._pending: tuple[Segment, ...] = ()
        # what was told and said, where history is edited
        self._past: list[tuple[str, tuple[int, ...]]] = []
        self._asked = ""

    def ask(self, text: str, fresh: bool = False) -> None:
        """Tell the seat this text and ask for a reply, in a ``fresh`` conversation if so."""
        if fresh and self.ids:
            self.ids, self.known, self._past, self._pending = (), 0, [], ()
            self.conversation = self._open()
        self._asked = text
        if self._past:
            self.ids, self.known = (), 0
            self.conversation = self._open()
            segment = Segment(kind="prompt", ids=self.renderer.conversation(self._past, text))
        elif self.ids:
            segment = Segment(kind="context", ids=self.renderer.append(text))
        else:
            segment = Segment(kind="prompt", ids=self.renderer.initial(text))
        self.ids += segment.ids
        self._pending += (segment,)

    def _open(self) -> int:
        """Return the number of a new conversation."""
        self._opened += 1
        return self._opened - 1

    def aside(self, reply: Reply) -> tuple[int, tuple[Segment, ...]]:
        """Return a reply to what is asked now that the conversation does not go on from.

        It ends a conversation of its own, of which this returns the number, and all segments.
        """
        unsent = reply.truncated and not reply.ids
        prompt = Segment(kind="prompt", ids=self.ids[:1] if unsent else self.ids)
        return self._open(), (prompt, sampled(reply))

    def read(self, text: str) -> str | None:
        """Return the part of a reply that names the action.

        None if the reply has not the form asked for.
        """
        action: str | None = self.renderer.read(text)
        return action

    def record(self, reply: Reply) -> tuple[Segment, ...]:
        """Append what was sampled.

        Return all segments since the last reply, this one's included.

        An empty truncated reply was never sampled: the conversation has outgrown the model, and was
        not sent. Then there is only the empty reply, after the conversation's first token if
        nothing of it was sent before; it stays too long from here on.
        """
        if reply.truncated and not reply.ids:
            return self._unsent()
        segments: tuple[Segment, ...] = (*self._pending, sampled(reply))
        self.ids += reply.ids
        self.known = len(self.ids) - 1
        closing = self.renderer.close(reply.truncated)
        if closing:
            segments += (Segment(kind="boundary", ids=closing),)
            self.ids += closing
        self._pending = ()
        if not self.renderer.prefix_stable:
            self._past.append((self._asked, reply.ids))
        return segments

    def _unsent(self) -> tuple[Segment, ...]:
        """Return the segments of a turn whose conversation was too long to be sent."""
        begun, self._pending = self.known > 0, ()
        self.known = max(self.known, 1)
        if not self.renderer.prefix_stable:
            self._past.append((self._asked, ()))
        nothing = Segment(kind="sampled", ids=())
        return (nothing,) if begun else (Segment(kind="prompt", ids=self.ids[:1]), nothing)
