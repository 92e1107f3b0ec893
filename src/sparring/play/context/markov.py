"""Context: the position alone."""

from __future__ import annotations

from sparring.play.context.base import Seen, Shown

NEEDS = {"view"}


def markov(seen: Seen) -> Shown:
    """Show the position as it stands now, and nothing of the past.

    What: at every turn the seat is told the environment's view of the position and the question.
    Every turn is a conversation of its own, one sequence to train on, with one trained reply. What
    the seat was told and said before is not shown, and neither is a word about an illegal reply: a
    seat that tries again is asked the same.
    When to use: environments whose view says all that counts for what comes (board games, puzzles).
    Prompts are as short as they can be, and equal positions give equal prompts whatever led there.
    Mathematics: the policy is a function of the view v alone,

        pi(reply | v(1), said(1), ..., v(n)) = pi(reply | v(n))

    which loses nothing where v(n) is a Markov state, and something where it is not: with hidden
    cards or an opponent to be found out, the best policy of this kind is worse than the best with
    memory.
    Pitfalls: ``told`` is not shown, so that the rules must be in the view, in the question or in
    the weights. An environment that has no view at some turn is refused before the run begins. So
    is one whose view has words that the embedded model's vocabulary lacks: most games of OpenSpiel
    draw a board, and are for pretrained models.
    Reference: history_length 0 in verl-agent; VPR's prompts.
    Verified by: tests/play/context/test_strategies.py.
    """
    return Shown((), seen.observation._replace(told=seen.observation.view).text)
