"""The segment ledger of one seat: the exact ids the model has seen and said, in order.

Law: the concatenated segments equal the ids sent to the model; sampled ids are never decoded and encoded again.
"""

from __future__ import annotations

from typing import Any

from sparring.agents.base import Reply
from sparring.types import Segment


class Ledger:
    """One seat's conversation as token ids. ``known`` is the length its agent had seen at its last turn."""

    __slots__ = ("_pending", "_renderer", "ids", "known")

    def __init__(self, renderer: Any) -> None:
        self._renderer = renderer
        self.ids: tuple[int, ...] = ()
        self.known = 0
        self._pending: tuple[Segment, ...] = ()

    def ask(self, text: str) -> None:
        """Tell the seat this text and ask for a reply."""
        if self.ids:
            segment = Segment(kind="context", ids=self._renderer.append(text))
        else:
            segment = Segment(kind="prompt", ids=self._renderer.initial(text))
        self.ids += segment.ids
        self._pending += (segment,)

    def record(self, reply: Reply) -> tuple[Segment, ...]:
        """Append what was sampled and return all segments since the last reply, this one's included."""
        sampled = Segment(kind="sampled", ids=reply.ids, logprobs=reply.logprobs, kept=reply.kept)
        segments = (*self._pending, sampled)
        self.ids += reply.ids
        self.known = len(self.ids) - 1
        closing = self._renderer.close(reply.truncated)
        if closing:
            segments += (Segment(kind="boundary", ids=closing),)
            self.ids += closing
        self._pending = ()
        return segments
