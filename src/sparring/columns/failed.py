"""Column: whether a conversation ended before its seat had had its say."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.columns.places import turns_in
from sparring.rollout.endings import FAILED, conversations
from sparring.types import BoolArray


def failed(source: Source) -> BoolArray:
    """Say of every turn whether its conversation was ended by a limit.

    What: true or false per row, [N], the same for all turns of a conversation of an agent instance:
    true where it ran out of turns, outgrew the model's context, had its last reply cut short, or
    was truncated with the play. ``sparring show`` says how each has ended. The
    plays are played again, as their records hold nothing of it.
    """
    return turns_in(
        source,
        lambda game, episode: {
            place
            for one in conversations(game, episode)
            if one.end in FAILED
            for place in one.turns
        },
    )
