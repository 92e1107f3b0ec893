"""Context strategy: a memory that the model writes replaces the past."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.play.context.base import ContextRequest, ContextWindow, WriteMemory

BRIEF = "remember"  # the request in the words of a small vocabulary
WORDS = (BRIEF,)
REQUEST = (
    "Write down, in a few short sentences, all that you will need to know from here on. Your note "
    "replaces this conversation: what is not in it will be forgotten."
)


def summary(
    context_request: ContextRequest,
    *,
    every: Annotated[int | None, Field(ge=1, le=10_000)] = 4,
    tokens: Annotated[int | None, Field(ge=1, le=10**6)] = None,
    opening: bool = True,
    request: str = "",
) -> ContextWindow | WriteMemory:
    """Let the model write a memory from time to time, which replaces the past.

    What: after ``every`` turns of the seat, or when the conversation has ``tokens`` tokens, the
    seat writes a memory before its next prompt. This reply is a turn (event "memory") that is
    recorded and trained, and takes no action. Then a new conversation begins with the token ids of
    the memory. The next memory is written in that conversation, and so edits the old one.
    When to use: episodes that are too long for the model's context, where old events may matter.
    The model learns what to remember, as a memory is trained with the return of what follows.
    Mathematics: with memory m(j), h(j) the prompts and replies since it, and x the new prompt,

        m(j+1) ~ pi( . | m(j), h(j), request)
        reply  ~ pi( . | m(j), h(j), x)

    A memory has no reward, so its return is that of the next turn:

        G(memory) = G(the seat's next turn)

    Pitfalls: a memory may have ``rollout.max_new_tokens`` tokens, like any reply; leave room. A
    memory costs a reply every ``every`` turns. ``tokens`` must leave room below ``model.context``
    for the request and the reply, or the episode is truncated there. Exact evaluation needs one
    reply per action, and a memory is not an action: measure by matches. Rewards do not judge
    memories.
    Reference: MemAgent (arXiv 2507.02259); MEM1 (arXiv 2506.15841).
    Verified by: tests/play/context/test_summary.py.

    Args:
        every: turns of the seat after which a memory is written, 1 to 10,000. Default 4. null: any
            number of turns.
        tokens: length of a conversation, 1 to 1,000,000, at which a memory is written. null
            (default): any length. ``every`` or ``tokens`` must be a number.
        opening: true (default): the seat's first exchange stays before the memory, as it has the
            rules and the role. false: only the memory.
        request: prompt of the memory. Empty (default): "remember" in brief style, else two
            sentences.

    Raises:
        ConfigError: ``every`` and ``tokens`` are both null.
    """
    if every is None and tokens is None:
        raise ConfigError(
            "context 'summary': every=null and tokens=null never write a memory; write every: 4."
        )
    memories = [index for index, past in enumerate(context_request.past) if past.is_memory]
    recent = context_request.past[memories[-1] :] if memories else context_request.past
    window = (*context_request.past[:1], *recent) if memories and opening else recent
    num_turns = sum(not exchange.is_memory for exchange in recent)
    is_full = tokens is not None and context_request.tokens >= tokens
    is_due = is_full or (every is not None and num_turns >= every)
    if num_turns and is_due and not context_request.is_retry:
        example = " ".join(
            exchange.reply if exchange.is_memory else exchange.prompt for exchange in recent
        )
        return WriteMemory(request or (BRIEF if context_request.brief else REQUEST), example)
    return ContextWindow(window, context_request.text)
