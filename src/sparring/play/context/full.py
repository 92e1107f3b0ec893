"""Context strategy: the whole past."""

from __future__ import annotations

from sparring.play.context.base import ContextRequest, ContextWindow

GROWS = True


def full(request: ContextRequest) -> ContextWindow:
    """Show the whole past: a conversation only grows.

    What: each prompt is appended to the conversation, after all earlier prompts and replies. If a
    renderer edits earlier replies, the whole conversation is encoded again at every turn.
    When to use: the default, for episodes whose conversations stay within the model's context.
    Mathematics: with t(n) tokens in the text of turn n and s(n) in its reply, the model reads

        t(1) + s(1) + ... + t(n-1) + s(n-1) + t(n)

    tokens, and the conversation of T turns is one sequence of

        t(1) + s(1) + ... + t(T) + s(T)

    tokens. Training computes each token once; so does a sampler with a cache of keys and values.
    Pitfalls: a conversation that outgrows ``model.context`` cannot be sent, and the episode is
    truncated there (metric ``overlong_rate``). sliding_window, markov and summary keep it short.
    Verified by: tests/play/context/test_strategies.py.
    """
    return ContextWindow(request.past, request.text)
