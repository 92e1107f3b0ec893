"""How the conversation of an agent instance has ended, where its environment can say."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

Closed = Literal["answered", "turns", "malformed", "limit"]
"""What an environment says of a conversation that is over.

"answered": its seat ended it, or had done all it was asked for. "turns": it had no turns left.
"malformed": what it ended with could not be read. "limit": the environment ended it at its work.
"""


@runtime_checkable
class Closing(Protocol):
    """A play whose seats' conversations end by themselves, and that knows how."""

    def closed(self, seat: int) -> Closed | None:
        """Return how a seat's latest conversation has ended; None: it goes on, or is not known."""
        ...
