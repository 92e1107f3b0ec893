"""Process reward: what the turn found out."""

from __future__ import annotations

from sparring.core.records import Episode, Turn
from sparring.methods.rewards.base import next_turns

NEEDS = {"verdicts"}


def information_gain(episode: Episode) -> tuple[float | None, ...]:
    """How much less uncertain the seat is at its next turn than at this one, in nats.

    What: every turn is paid for the information that it brought, however the game ends.
    When to use: in games of finding out what is hidden (Mastermind, Minesweeper, battleship, twenty
    questions), with an oracle that knows its entropy: ``posterior``.
    Mathematics:
        r_t = H(s_t) - H(s_{t+1})
    over the seat's own turns. H is the oracle's exact Shannon entropy of what is hidden given what
    the seat knows. Over consecutive turns it sums to H(first) - H(last). For a fixed action the
    mean of r_t is the mutual information of its answer and what is hidden.
    Shapes: one number per turn. None where the entropy is unknown at the turn or at the seat's next
    one. None at the seat's last turn, because no oracle judges a finished game.
    Pitfalls: the last turn has no gain of its own, not even one that solved the puzzle: the outcome
    pays for that. A turn that loses the game and so reveals everything gains nothing either. A
    reply that is no legal action gains 0, also where the rules play a random action for it. A
    single gain is partly luck. It may be negative, where what is hidden changes or an unlikely
    answer came. To find out is not to win: combine it with the outcome. If the prior is wrong for
    the game, so are the gains. It is shaping: set ``reorder_outcomes`` to have it whole.
    Reference: Lindley, 1956 (the information provided by an experiment).
    Verified by: tests/methods/rewards/test_verdict_rewards.py.
    """
    return tuple(
        _gain(turn, later) for turn, later in zip(episode.turns, next_turns(episode), strict=True)
    )


def _gain(turn: Turn, later: Turn | None) -> float | None:
    """Return the reward of a turn that is followed by another one of the same seat, or by none."""
    if turn.verdict is None or turn.verdict.entropy is None:
        return None
    if turn.event != "ok":
        return 0.0
    if later is None or later.verdict is None or later.verdict.entropy is None:
        return None
    return turn.verdict.entropy - later.verdict.entropy
