"""Rock, paper, scissors, Spock, lizard: two seats choose one of five words at once."""

from __future__ import annotations

from collections.abc import Mapping

from sparring.environments.simultaneous_choice import SimultaneousChoice, SimultaneousChoicePlay

BEATS: Mapping[str, tuple[str, str]] = {  # word -> the two words that it beats
    "rock": ("scissors", "lizard"),
    "paper": ("rock", "spock"),
    "scissors": ("paper", "lizard"),
    "spock": ("rock", "scissors"),
    "lizard": ("paper", "spock"),
}
MOVES = tuple(BEATS)


class RpsSpockLizard(SimultaneousChoice):
    """Rock, paper, scissors, Spock, lizard: both seats choose one of five words at once.

    What: one round. Each word beats two other words and loses to two.
    When to use: to see whether a method finds actions that its model hardly ever takes. A language
    model replies rock, paper and scissors far more often than Spock and lizard. If Spock,
    lizard or both are left out of the game, an equilibrium of the smaller game loses 1/3 to a best
    response that may use all five words.
    Mathematics: The equilibrium chooses each word with probability 1/5 and is worth 0 to both.
    Against an opponent that chooses with probabilities p the best response value is
        max over a of  sum of p over the two that a beats - sum of p over the two that beat a
    This value is 1/3 against the equilibrium of rock, paper and scissors, and also if one word is
    added: with Spock, rock is dominated; lizard itself is dominated. Other mixtures lose less, at
    least 1/9 with the three words and 1/15 if Spock is added. A constant word loses 1.
    Pitfalls: in self-play the policy gradient circles around the equilibrium, as in
    ``rock_paper_scissors``. Spock beats rock and shares letters with it, so an embedding of letters
    treats the two as similar.
    Reference: the first example of Xu et al., 2025 (LSPO, arXiv 2502.04686); the other is Werewolf.
    Verified by: tests/environments/test_simultaneous_choice.py.

    Args:
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """

    name, beats, moves, payoff_heading = "rps_spock_lizard", BEATS, MOVES, "Payoff of the left seat"
    rules = (
        "We play rock, paper, scissors, Spock, lizard. Both players choose at once. Rock beats "
        "scissors and lizard, paper beats rock and Spock, scissors beat paper and lizard, Spock "
        "beats rock and scissors, lizard beats paper and Spock. Who wins gets 1 point, the other "
        "loses 1; equal choices get 0."
    )
    ask = "Choose rock, paper, scissors, spock or lizard. Reply with exactly one of these words."

    def play(self) -> StatementChoicePlay:
        """Return a play in its initial state."""
        return StatementChoicePlay(self)


class StatementChoicePlay(SimultaneousChoicePlay):
    """A play in which each choice is a statement; see ``abstracted``."""

    def kind(self, seat: int) -> str:
        """Return the kind of action, the same for both seats."""
        return "throw"


rps_spock_lizard = RpsSpockLizard
