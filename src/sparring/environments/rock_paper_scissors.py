"""Rock, paper, scissors: two seats choose at once."""

from __future__ import annotations

from typing import ClassVar

from sparring.environments.simultaneous_choice import SimultaneousChoice


class RockPaperScissors(SimultaneousChoice):
    """Rock, paper, scissors: both seats choose at once, and neither sees the other's choice.

    What: one round. Use the combinator ``repeated`` for several rounds in which each seat learns
    the other's choices.
    When to use: as the smallest environment with simultaneous moves; with ``repeated``, to learn
    about an opponent from round to round.
    Mathematics: The equilibrium chooses each word with probability 1/3 and is worth 0 to both.
    Against an opponent that chooses with probabilities p the best response value is
        max over a of  p(the word that a beats) - p(the word that beats a)
    Pitfalls: in self-play the policy gradient circles around the equilibrium. EMA weights
    (``learner.average``) or a magnet (loss ``magnetic_mirror_descent``) converge.
    Verified by: tests/environments/test_simultaneous_choice.py.

    Args:
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """

    name, payoff_heading = "rock_paper_scissors", "Payoffs"
    beats: ClassVar = {"rock": ("scissors",), "paper": ("rock",), "scissors": ("paper",)}
    moves = tuple(beats)
    rules = (
        "We play rock, paper, scissors. Both players choose at once. Rock beats scissors, scissors "
        "beat paper, paper beats rock. Who wins gets 1 point, the other loses 1; equal choices get "
        "0."
    )
    ask = "Choose rock, paper or scissors. Reply with exactly one of these words."

    def payoff_text(self, left: str, right: str) -> str:
        """Return the payoffs of both seats."""
        return f"{self.payoff(left, right):g}, {self.payoff(right, left):g}"


rock_paper_scissors = RockPaperScissors
