"""Process reward: the value that the oracle gives the action."""

from __future__ import annotations

from sparring.core.records import Episode

NEEDS = {"verdicts"}
READS = "turn"


def graded_action(
    episode: Episode, *, illegal: float = -2.0, unparsable: float = -2.0
) -> tuple[float | None, ...]:
    """Pay each turn what the oracle says that its action is worth: VPR's reward as released.

    What: every turn is paid by its grade, however the game ends.
    When to use: with the oracle ``graded``, whose values are grades of actions, and credit ``vpr``
    or ``at_grpo`` over the replies to one prompt.
    Mathematics:
        r_t = value(s_t, a_t)
    by the oracle, and ``illegal`` or ``unparsable`` where the reply is no legal action.
    Shapes: one number per turn, None where the oracle abstained.
    Pitfalls: with an oracle whose values are returns, positions that are won pay every move in
    them; ``regret`` compares with the best move. Grades are of different sizes in different games.
    It is shaping: set ``reorder_outcomes`` to have it whole.
    Reference: code of thu-nics/VPR (arXiv 2605.10325).
    Verified by: tests/methods/rewards/test_verdict_rewards.py.

    Args:
        illegal: reward of a reply that is an action, and not a legal one. Default -2, as released.
        unparsable: reward of a reply that holds no action. Default -2, as released.
    """
    paid = {"illegal": illegal, "unparsable": unparsable}
    return tuple(
        None
        if turn.verdict is None
        else turn.verdict.values[turn.verdict.actions.index(turn.action)]
        if turn.event == "ok" and turn.action is not None
        else paid.get(turn.event, unparsable)
        for turn in episode.turns
    )
