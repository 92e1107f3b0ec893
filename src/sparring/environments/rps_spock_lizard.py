"""Rock, paper, scissors, Spock, lizard: two seats choose one of five words at once."""

from __future__ import annotations

from collections.abc import Mapping

from sparring.environments.simultaneous_choice import SimultaneousChoice, SimultaneousChoicePlay

BEATS: Mapping[str, tuple[str, str]] = {
    "rock": ("scissors", "lizard"),
    "paper": ("rock", "spock"),
    "scissors": ("paper", "lizard"),
    "spock": ("rock", "scissors"),
    "lizard": ("paper", "spock"),
}
MOVES = tuple(BEATS)


class RpsSpockLizard(SimultaneousChoice):
    """Rock, paper, scissors, Spock, lizard: five choices, both seats at once.

    What: one round. Each choice beats two others and loses to two.
    When to use: to see whether a method finds actions that its model hardly ever takes. A language
    model replies rock, paper and scissors far more often than Spock and lizard, and the equilibrium
    of three or four of the words loses 1/3 to a best response in the game of five.
    Mathematics: The equilibrium chooses each of the five with probability 1/5 and is worth 0 to
    both. Against an opponent that chooses with probabilities p the best choice is worth
        max over a of  sum of p over the two that a beats - sum of p over the two that beat a
    which is 1/3 against the equilibrium of any three or four words that include rock, paper and
    scissors: Spock makes rock dominated, and lizard is dominated itself. Other mixtures of these
    words lose less, at least 1/9 for the three and 1/15 with Spock; a constant word loses 1.
    Pitfalls: in self-play the gradient circles around the equilibrium, as in
    ``rock_paper_scissors``. Spock beats rock and shares letters with it, so that an embedding of
    letters treats the two as similar.
    Reference: the game of Xu et al., 2025 (LSPO, arXiv:2502.04686), on which the method is shown
    before Werewolf.
    Verified by: tests/environments/test_simultaneous_choice.py.

    Args:
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """

    name, beats, moves, payoffs = "rps_spock_lizard", BEATS, MOVES, "What left gets"
    rules = (
        "We play rock, paper, scissors, Spock, lizard. Both players choose at once. Rock beats "
        "scissors and lizard, paper beats rock and Spock, scissors beat paper and lizard, Spock "
        "beats rock and scissors, lizard beats paper and Spock. Who wins gets 1 point, the other "
        "loses 1; equal choices get 0."
    )
    ask = "Choose rock, paper, scissors, spock or lizard. Reply with exactly one of these words."

    def play(self) -> StatementChoicePlay:
        """Return a play at its start."""
        return StatementChoicePlay(self)


class StatementChoicePlay(SimultaneousChoicePlay):
    """A play in which each choice is a statement."""

    def kind(self, seat: int) -> str:
        """Return the kind of action: statements of both seats are comparable."""
        return "throw"


rps_spock_lizard = RpsSpockLizard
