"""Context: a memory that the model writes itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.play.context.base import Rewrite, Seen, Shown

BRIEF = "remember"  # the request in the words of a small vocabulary
WORDS = (BRIEF,)
REQUEST = (
    "Write down, in a few short sentences, all that you will need to know from here on. Your note "
    "replaces this conversation: what is not in it will be forgotten."
)


def summary(
    seen: Seen,
    *,
    every: Annotated[int | None, Field(ge=1, le=10_000)] = 4,
    tokens: Annotated[int | None, Field(ge=1, le=10**6)] = None,
    opening: bool = True,
    request: str = "",
) -> Shown | Rewrite:
    """Let the model write a memory from time to time, and go on with that in place of the past.

    What: when ``every`` own turns have passed, or the conversation has ``tokens`` tokens, the seat
    is asked to write its memory before it is told anything new. The reply is a turn of its own
    (event "memory"): it is recorded and trained, and the play does not move by it. Then a new
    conversation begins with the memory, as it was said, id for id. The next memory is written in
    that conversation, so it is the old one, edited.
    When to use: plays that are too long for the model's context, where what counts may be old. The
    model learns what to remember, as a memory is trained with the return of what follows.
    Mathematics: with memory m(j) and h(j) what was told and said since it,

        m(j+1) ~ pi( . | m(j), h(j), request)
        reply  ~ pi( . | m(j), h(j), what is told now)

    A memory has no reward of its own. Its return is that of its trajectory from there on:

        G(memory) = G(the seat's next turn)

    Pitfalls: a memory may have ``rollout.max_new_tokens`` tokens, as any reply; leave room. It
    costs a reply every ``every`` turns. ``tokens`` must leave room below ``model.context`` for the
    request and the reply, or the memory cannot be asked for and the episode is truncated. Exact
    evaluation needs one reply per action, and a memory is none: measure by matches. A reward is not
    asked about memories.
    Reference: MemAgent (arXiv 2507.02259); MEM1 (arXiv 2506.15841).
    Verified by: tests/play/context/test_summary.py.

    Args:
        every: own turns after which a memory is written, 1 to 10,000. Default 4. null: never for
            that reason.
        tokens: length of the conversation from which on a memory is written, 1 to 1,000,000. null
            (default): never for that reason. One of both must be given.
        opening: true (default): the seat's first exchange always stays before the memory, as it
            tells the rules and the role. false: the memory alone.
        request: how the memory is asked for. Empty (default): "remember" in brief style, else two
            sentences.

    Raises:
        ConfigError: neither ``every`` nor ``tokens`` is given.
    """
    if every is None and tokens is None:
        raise ConfigError(
            "context 'summary': every=null and tokens=null never ask for a memory; write every: 4."
        )
    written = [place for place, one in enumerate(seen.past) if one.memory]
    since = seen.past[written[-1] :] if written else seen.past
    shown = (*seen.past[:1], *since) if written and opening else since
    turns = sum(not one.memory for one in since)
    full = tokens is not None and seen.tokens >= tokens
    due = full or (every is not None and turns >= every)
    if turns and due and not seen.again:
        example = " ".join(one.reply if one.memory else one.told for one in since)
        return Rewrite(request or (BRIEF if seen.brief else REQUEST), example)
    return Shown(shown, seen.text)
