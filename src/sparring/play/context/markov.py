"""Context strategy: the current position only."""

from __future__ import annotations

from sparring.play.context.base import ContextRequest, ContextWindow

NEEDS = {"view"}


def markov(request: ContextRequest) -> ContextWindow:
    """Show only the current position, without the past.

    What: at every turn the prompt has two parts: the environment's view of the position, and the
    question. Every turn is one conversation: one training sequence, with one trained reply. Earlier
    prompts and replies are not shown. The notice of an illegal reply is not shown either, so a seat
    that tries again gets the same prompt.
    When to use: environments whose view has all that matters for the future (board games, puzzles).
    Prompts are as short as possible, and equal positions give equal prompts.
    Mathematics: the policy depends only on the view v,

        pi(reply | v(1), reply(1), ..., v(n)) = pi(reply | v(n))

    which loses nothing where v(n) is a Markov state. With hidden cards, or an opponent whose style
    must be learnt, the best such policy is worse than the best policy with memory.
    Pitfalls: ``Observation.prompt`` is not shown, so the rules must be in the view, in the question
    or in the weights. An environment must have a view at every turn, or the run does not begin.
    With the tiny model all words of a view must be in its vocabulary. Most games of OpenSpiel draw
    a board, so they need a pretrained model.
    Reference: history_length 0 in verl-agent; VPR's prompts.
    Verified by: tests/play/context/test_strategies.py.
    """
    return ContextWindow((), request.observation._replace(prompt=request.observation.view).text)
