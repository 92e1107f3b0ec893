"""Context: everything."""

from __future__ import annotations

from sparring.play.context.base import Seen, Shown

GROWS = True


def full(seen: Seen) -> Shown:
    """Show everything: a conversation only ever grows.

    What: what is told is added to the conversation, after all that was told and said before. Where
    a renderer edits earlier replies, every turn is laid out anew with the whole past.
    When to use: the default. It fits plays whose conversations stay within the model's context.
    Mathematics: with t(n) tokens told at own turn n and s(n) said, the prompt of turn n has

        t(1) + s(1) + ... + t(n-1) + s(n-1) + t(n)

    tokens, and the conversation of T turns is one sequence of

        t(1) + s(1) + ... + t(T) + s(T)

    tokens. A sampler that keeps keys and values computes each of them once, and so does training.
    Pitfalls: a conversation that outgrows ``model.context`` cannot be sent, and the episode is
    truncated there (metric ``overlong_rate``). sliding_window, markov and summary keep it short.
    Verified by: tests/play/context/test_strategies.py.
    """
    return Shown(seen.past, seen.text)
