"""Context: the last exchanges."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.play.context.base import Seen, Shown


def sliding_window(
    seen: Seen, *, exchanges: Annotated[int, Field(ge=1, le=10_000)] = 2, opening: bool = True
) -> Shown:
    """Show the last few exchanges: from there on each turn is laid out anew.

    What: an exchange is what the seat was told at one of its turns and what it replied. The model
    sees the last ``exchanges`` of them, as they were said, id for id, and what it is told now. As
    long as there are no more than these, the conversation grows as under ``full``. After that every
    turn is a conversation of its own, one sequence to train on, with one trained reply.
    When to use: plays that are too long for the model's context, where what counts is recent.
    Mathematics: the prompt of own turn n holds, with w = ``exchanges``,

        the exchanges max(1, n - w) to n - 1, and what is told at turn n

    so it has a bounded length, and T turns cost about

        T * w exchanges in place of T

    tokens to train on, as each exchange stands in w prompts.
    Pitfalls: what slid out is forgotten, a seat's own messages and hidden cards included. A turn
    after an illegal reply counts as an exchange. For the same tokens, markov forgets more and says
    more, where the environment can say all that counts in one view.
    Reference: the history_length of verl-agent's memory (GiGPO's released code).
    Verified by: tests/play/context/test_strategies.py.

    Args:
        exchanges: how many are seen besides the opening, 1 to 10,000. Default 2.
        opening: true (default): the seat's first exchange always stays, as it tells the rules and
            the role. false: it slides out as well.
    """
    kept = seen.past[:1] if opening else ()
    return Shown((*kept, *seen.past[len(kept) :][-exchanges:]), seen.text)
