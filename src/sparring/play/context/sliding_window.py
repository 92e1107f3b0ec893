"""Context strategy: the last few exchanges."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.play.context.base import ContextRequest, ContextWindow


def sliding_window(
    request: ContextRequest,
    *,
    exchanges: Annotated[int, Field(ge=1, le=10_000)] = 2,
    opening: bool = True,
) -> ContextWindow:
    """Show the last few exchanges of a seat.

    What: an exchange is the prompt and the reply of one turn. The model sees the last ``exchanges``
    exchanges, token id for token id, and the new prompt. While there are no earlier exchanges, the
    conversation grows as under ``full``. After that every turn is one conversation: one training
    sequence, with one trained reply.
    When to use: episodes that are too long for the model's context, where recent events matter.
    Mathematics: the prompt of the seat's turn n holds, with w = ``exchanges``,

        the exchanges max(1, n - w) to n - 1, and the new text of turn n

    so its length is bounded. Training on T turns reads about

        T * w exchanges (full: T)

    as each exchange is a part of w prompts.
    Pitfalls: the seat forgets older exchanges, with its messages and hidden cards in them. A
    turn after an illegal reply counts as an exchange. If one view of the environment has all that
    matters, markov shows more for the same tokens.
    Reference: the history_length of verl-agent's memory (the code of GiGPO's authors).
    Verified by: tests/play/context/test_strategies.py.

    Args:
        exchanges: number of exchanges shown besides the first one, 1 to 10,000. Default 2.
        opening: true (default): the seat's first exchange is always shown, as it has the rules and
            the role. false: it is dropped like the others.
    """
    prefix = request.past[:1] if opening else ()
    return ContextWindow((*prefix, *request.past[len(prefix) :][-exchanges:]), request.text)
