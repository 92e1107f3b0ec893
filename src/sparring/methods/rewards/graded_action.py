"""Process reward: the value that the oracle gives the action."""

from __future__ import annotations

from sparring.core.records import Episode

NEEDS = {"verdicts"}
READS = "turn"


def graded_action(
    episode: Episode, *, illegal: float = -2.0, unparsable: float = -2.0
) -> tuple[float | None, ...]:
    """Pay each turn the oracle's value of its action: VPR's reward in the authors' code.

    What: the reward of a turn is its grade and does not depend on the outcome.
    When to use: with the oracle ``graded``, whose values are grades of actions, and credit ``vpr``
    or ``at_grpo`` over the replies to one prompt.
    Mathematics:
        r_t = value(s_t, a_t)
    by the oracle, and ``illegal`` or ``unparsable`` for an illegal reply.
    Shapes: one number per turn, None where the oracle abstained.
    Pitfalls:
        - With an oracle whose values are returns, every move of a won position pays. Use ``regret``
          there, which compares with the best move.
        - Grades have different sizes in different games.
        - The reward is shaping: set ``reorder_outcomes`` for the unscaled reward.
    Reference: code of thu-nics/VPR (arXiv 2605.10325).
    Verified by: tests/methods/rewards/test_verdict_rewards.py.

    Args:
        illegal: reward of a reply whose action is not legal. Default -2, as in the authors' code.
        unparsable: reward of a reply without an action. Default -2, as in the authors' code.
    """
    penalties = {"illegal": illegal, "unparsable": unparsable}
    return tuple(
        None
        if turn.verdict is None
        else turn.verdict.values[turn.verdict.actions.index(turn.action)]
        if turn.event == "ok" and turn.action is not None
        else penalties.get(turn.event, unparsable)
        for turn in episode.turns
    )
