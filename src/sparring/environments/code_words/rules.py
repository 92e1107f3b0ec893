"""The rules of code words: a deal, what was said and guessed, and what a position pays."""

from __future__ import annotations

import itertools
from typing import NamedTuple

WORDS = ("red", "green", "blue", "yellow", "black", "white")
TEAMS = ("a", "b")

Pair = tuple[int, int]
"""A number of each team, or a guesser's words: its own team's, then the other team's."""


class Deal(NamedTuple):
    """What chance has drawn: the number of each team's secret word, and its key."""

    secret: Pair
    key: Pair


class Position(NamedTuple):
    """A deal, the words said by both tellers, and the guesses of both guessers; empty before."""

    deal: Deal
    said: Pair | tuple[()] = ()
    guessed: tuple[Pair, Pair] | tuple[()] = ()

    @property
    def understood(self) -> tuple[bool, ...]:
        """Of each team, whether its own guesser has named its word."""
        return tuple(
            own == word for (own, _), word in zip(self.guessed, self.deal.secret, strict=True)
        )

    @property
    def leaked(self) -> tuple[bool, ...]:
        """Of each team, whether the other team's guesser has named its word."""
        other = self.guessed[::-1]
        return tuple(
            theirs == word for (_, theirs), word in zip(other, self.deal.secret, strict=True)
        )

    def paid(self, leak: float) -> tuple[float, float]:
        """Return what each team gets; nothing before the guesses.

        Args:
            leak: what a word costs that the other team names.
        """
        if not self.guessed:
            return 0.0, 0.0
        one, other = (
            known - leak * lost for known, lost in zip(self.understood, self.leaked, strict=True)
        )
        return one - other, other - one


def deals(words: int) -> tuple[Deal, ...]:
    """Return every deal, all equally likely."""
    drawn = itertools.product(range(words), repeat=4)
    return tuple(Deal((first, second), (one, other)) for first, second, one, other in drawn)


def coded(word: int, key: int, words: int) -> int:
    """Return the number of the word that a key says for a word."""
    return (word + key) % words


def decoded(said: int, key: int, words: int) -> int:
    """Return the number of the word for which a key says another."""
    return (said - key) % words
