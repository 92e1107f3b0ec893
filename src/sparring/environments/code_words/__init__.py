"""Code words: two tellers speak in public, and each team's guesser hears what the other's does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.code_words.play import CodeWords


def code_words(
    *,
    words: Annotated[int, Field(ge=2, le=6)] = 3,
    leak: Annotated[float, Field(ge=0, le=1)] = 0.5,
    style: Literal["brief", "full"] = "brief",
) -> CodeWords:
    """A word game of two against two: be understood by one's team-mate, and not by the others.

    What: each team has a teller and a guesser, a secret word that its teller alone is told, and a
    key, one number of as many as there are words, that both know and the other team does not. Both
    tellers say one word at once, in public. Then both guessers name two words at once: their own
    team's and the other team's.
    When to use: to see where self-play of teams with words of their own stops at a local
    equilibrium: what ``team_matrix`` is for choices without words.
    Mathematics: K words, all secret words s and keys k equally likely; U_t is 1 if team t is
    understood by its guesser, L_t is 1 if the other team's guesser names its word:
        paid to a = (U_a - leak L_a) - (U_b - leak L_b) = -paid to b
    Conventions, and what a team gains where both teams follow one, by its best joint plan and by
    one seat alone (exact):
        key: say word s + k (mod K), take every word x for x - k         0             0
        key, and take the other team's words as they are said            leak / K      0
        clear: say s, take every word as it is said                      leak          0
        uniform: any word, any guess                                     1 - 1 / K     0
    Whoever follows the key, also in what it takes the others' words for, is understood always and
    leaks with probability 1 / K whatever the others do, and gets 1 - U of the other team, which is
    at least 0, the value of the game. Against two players in the clear the second convention gets
    leak (1 - 1 / K). A team that says another word for each, always the same, and undoes it, gets
    leak from them; but the other guesser may learn to read that, where it cannot read a key. In the
    clear a teller that says another word loses 1 - leak, as its own guesser no longer understands
    it, and a guesser that uses the key alone loses too: no seat gains alone, and with a leak above
    0 and below 1 each loses by any other word. The same holds of every public code: one word for
    each word, whatever the key, which all four know.
    Pitfalls: payoffs of self-play are 0 on average whatever is said; look at
    ``team_exploitability`` and at the figures ``understood``, ``leaked``, ``clear`` (the teller
    said its word) and ``by_key`` (it said what the key says for it). A public code other than the
    clear shows by ``leaked`` alone. Uniform play is a local equilibrium as well: a teller whom
    nobody understands gains by no word, so that learning from returns hardly begins. Exact figures
    are for 2 and 3 words; the tree of 4 has 1,119,489 histories.
    Reference: Shannon, "Communication theory of secrecy systems", 1949 (a key used once); local
    equilibria of teams: Xu et al., "Fictitious Cross-Play", 2023, arXiv:2310.03354. The game is
    ours.
    Verified by: tests/environments/code_words/.

    Args:
        words: how many there are, 2 to 6: red, green, blue, yellow, black, white.
        leak: what a word costs that the other team names, 0 to 1. At 1 a teller in the clear may
            as well say any word.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model,
            with the key as a table.

    Raises:
        ConfigError: a number out of range.
    """
    return CodeWords(words, leak, style)
