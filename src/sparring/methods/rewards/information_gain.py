"""Process reward: the information gained by the turn."""

from __future__ import annotations

from sparring.core.records import Episode, Turn
from sparring.methods.rewards.base import next_turns

NEEDS = {"verdicts"}


def information_gain(episode: Episode) -> tuple[float | None, ...]:
    """Pay the decrease of the seat's uncertainty from this turn to its next turn, in nats.

    What: the reward of a turn is its information gain and does not depend on the outcome.
    When to use: in games of inference (Mastermind, Minesweeper, battleship, twenty questions), with
    an oracle that computes entropies: ``posterior``.
    Mathematics:
        r_t = H(s_t) - H(s_{t+1})
    over the seat's turns. H is the oracle's exact Shannon entropy of the hidden state given the
    seat's knowledge. The sum over consecutive turns is H(first) - H(last). For a fixed action the
    mean of r_t is the mutual information of its answer and the hidden state.
    Shapes: one number per turn. None if the entropy at the turn or at the seat's next turn is
    unknown, and at the seat's last turn, because no oracle judges a finished game.
    Pitfalls:
        - The last turn has no gain, also if it solves the puzzle (the outcome pays for this), or
          if it loses the game and so reveals everything.
        - An illegal reply gains 0, also if the rules play a random action instead.
        - A single gain depends on chance, and may be negative if the hidden state changes or the
          answer was unlikely.
        - Information is not a win: combine the reward with the outcome.
        - If the prior does not fit the game, the gains are wrong.
        - The reward is shaping: set ``reorder_outcomes`` for the unscaled reward.
    Reference: Lindley, 1956 (the information provided by an experiment).
    Verified by: tests/methods/rewards/test_verdict_rewards.py.
    """
    return tuple(
        _gain(turn, next_turn)
        for turn, next_turn in zip(episode.turns, next_turns(episode), strict=True)
    )


def _gain(turn: Turn, next_turn: Turn | None) -> float | None:
    if turn.verdict is None or turn.verdict.entropy is None:
        return None
    if turn.event != "ok":
        return 0.0
    if next_turn is None or next_turn.verdict is None or next_turn.verdict.entropy is None:
        return None
    return turn.verdict.entropy - next_turn.verdict.entropy
