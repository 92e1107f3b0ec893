"""Code words: the tellers of two teams give clues, and both teams' guessers hear them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.drawing.canvas import Canvas, PaintedPlay, seat_colour
from sparring.environments.drawing.pieces import due_sentence, paragraph, seats, table
from sparring.environments.options import entry_of
from sparring.environments.reply import listed_reply

WORDS = ("red", "green", "blue", "yellow", "black", "white")
TEAMS = ("a", "b")

Pair = tuple[int, int]
"""A number per team, or a guesser's two words: first its own team's, then the other team's."""


class Deal(NamedTuple):
    """The number of each team's secret word, and each team's key."""

    secret: Pair
    key: Pair


class CodeWordsPosition(NamedTuple):
    """A deal, the clues of both tellers and the guesses of both guessers; () before they exist."""

    deal: Deal
    clues: Pair | tuple[()] = ()
    guesses: tuple[Pair, Pair] | tuple[()] = ()

    @property
    def understood(self) -> tuple[bool, ...]:
        """For each team: whether its own guesser named its secret word."""
        return tuple(
            guess == word for (guess, _), word in zip(self.guesses, self.deal.secret, strict=True)
        )

    @property
    def leaked(self) -> tuple[bool, ...]:
        """For each team: whether the other team's guesser named its secret word."""
        other_pairs = self.guesses[::-1]
        return tuple(
            guess == word for (_, guess), word in zip(other_pairs, self.deal.secret, strict=True)
        )

    def payoffs(self, leak: float) -> tuple[float, float]:
        """Return the payoff of each team, 0 before the guesses.

        Args:
            leak: cost of a secret word that the other team names.
        """
        if not self.guesses:
            return 0.0, 0.0
        first, second = (
            is_understood - leak * is_leaked
            for is_understood, is_leaked in zip(self.understood, self.leaked, strict=True)
        )
        return first - second, second - first


def deals(num_words: int) -> tuple[Deal, ...]:
    """Return every deal, all equally likely."""
    numbers = itertools.product(range(num_words), repeat=4)
    return tuple(
        Deal((first, second), (key, other_key)) for first, second, key, other_key in numbers
    )


def encode_word(word: int, key: int, num_words: int) -> int:
    """Return the number of the clue that stands for a secret word under a key."""
    return (word + key) % num_words


def decode_word(clue: int, key: int, num_words: int) -> int:
    """Return the number of the secret word that a clue stands for under a key."""
    return (clue - key) % num_words


def brief_ending(words: Sequence[str], position: CodeWordsPosition, team: int) -> str:
    """Return the clues, secret words and guesses in brief style; the reader's team comes first."""
    clues, guesses = position.clues, position.guesses
    parts = (
        f"{pronoun} say {words[clues[index]]} word {words[position.deal.secret[index]]} "
        f"guess {words[guesses[index][0]]} {words[guesses[index][1]]}"
        for pronoun, index in (("we", team), ("they", 1 - team))
    )
    return " ".join(parts)


def key_table(key: int, words: Sequence[str]) -> str:
    """Return the clue that a key gives for each word, as text."""
    return ", ".join(
        f"{words[encode_word(word, key, len(words))]} for {name}" for word, name in enumerate(words)
    )


def full_rules(words: Sequence[str], leak: float) -> str:
    """Return the rules in sentences."""
    return (
        "Two teams play one round: teller_a and guesser_a against teller_b and guesser_b. Each "
        f"team has a secret word, one of {', '.join(words)}, each equally likely; only the team's "
        "teller is told it. Both tellers say one of these words at the same moment, and all "
        "players hear both. Then each guesser names two words at the same moment: the secret word "
        "of its own team and that of the other team. A team gets 1 point if its own guesser names "
        f"its secret word, and loses {_points(leak)} if the other team's guesser names it. What "
        "one team gets the other team loses. Each team has a key that both of its players know "
        "and the other team does not; all keys are equally likely."
    )


def full_opening(words: Sequence[str], leak: float, team: int, role: str, key: int) -> str:
    """Return the rules, the player's role, and its team's key as a table in words."""
    role_type = role.split("_")[0]
    team_mate = f"{'guesser' if role_type == 'teller' else 'teller'}_{TEAMS[team]}"
    return (
        f"{full_rules(words, leak)}\n\nYou are {role}. You play with {team_mate}, against "
        f"teller_{TEAMS[1 - team]} and guesser_{TEAMS[1 - team]}. By your team's key one says "
        f"{key_table(key, words)}. Your team may use its key or not."
    )


def full_clues(words: Sequence[str], team: int, clues: Sequence[int]) -> str:
    """Return both clues in sentences, the reader's team first."""
    order = (team, 1 - team)
    return " ".join(f"teller_{TEAMS[index]} said {words[clues[index]]}." for index in order)


def full_ask(words: Sequence[str], is_guesser: bool) -> str:
    """Return the question for a player."""
    if is_guesser:
        return (
            "What are the secret words? Reply with exactly two words, your team's and then the "
            f"other team's, each one of: {', '.join(words)}."
        )
    return f"Which word do you say? Reply with exactly one of: {', '.join(words)}."


def full_ending(words: Sequence[str], position: CodeWordsPosition, team: int) -> str:
    """Return the clues, secret words and guesses in sentences; the reader's team comes first."""
    sentences = (
        f"The secret word of team {TEAMS[index]} was {words[position.deal.secret[index]]}; "
        f"guesser_{TEAMS[index]} named {words[own_guess]} for its own team and "
        f"{words[other_guess]} for the other."
        for index, (own_guess, other_guess) in (
            (index, position.guesses[index]) for index in (team, 1 - team)
        )
    )
    return " ".join((full_clues(words, team, position.clues), *sentences))


def _points(leak: float) -> str:
    return f"{leak:g} point{'' if leak == 1 else 's'}"


TELLERS, GUESSERS = (0, 2), (1, 3)  # seats
_WORD = re.compile(r"[\w-]+")


class CodeWords(Environment):
    """A word game of two teams of two: a clue should inform the team-mate but not the other team.

    What: each team has a teller and a guesser. Only the teller knows the team's secret word; both
    players know the team's key, a random number from 0 to K - 1 for K words. Both tellers say one
    word at once, and everybody hears it. Then both guessers name two words at once: the secret
    words of their own team and of the other team.
    When to use: to see where self-play of teams with private codes stops at a local equilibrium;
    ``team_matrix`` does the same for choices without words.
    Mathematics: K words, all secret words s and keys k equally likely; U_t is 1 if team t is
    understood by its guesser, L_t is 1 if the other team's guesser names its word:
        payoff of a = (U_a - leak L_a) - (U_b - leak L_b) = -payoff of b
    Exact gain of one team, or of one seat, that leaves a convention which all others keep:
        convention                                                       team          seat
        key: say word s + k (mod K), read every word x as x - k          0             0
        key, and read the other team's words literally                   leak / K      0
        clear: say s, read every word literally                          leak          0
        uniform: any word, any guess                                     1 - 1 / K     0
    A team with the first convention is always understood, and leaks with probability 1 / K against
    any opponents; its payoff is 1 - U of the other team, so at least 0, the value of the game.
    Against a clear team the second convention gets leak (1 - 1 / K), and a fixed private code (one
    clue for each word) gets leak. But the other guesser may learn a fixed code, and cannot learn a
    random key. If both teams are clear, a teller that says another word loses 1 - leak, as its own
    guesser misreads it. If only the guesser uses the key, it loses too. So no single seat gains,
    and with 0 < leak < 1 it loses by every change. This also holds for every public code: a code
    with one clue per word, the same for all keys, that all seats know.
    Pitfalls: payoffs of self-play are 0 on average for any convention. Use ``team_exploitability``
    and the figures ``understood``, ``leaked``, ``clear`` (the teller said its secret word) and
    ``by_key`` (the teller said the clue of the key). Public codes other than "clear" show only in
    ``leaked``. Uniform play is a local equilibrium too: if nobody understands a teller, no word
    has an advantage, so learning from returns hardly begins. Exact values can be computed for 2
    and 3 words; the tree of 4 words has 1,119,489 histories.
    Reference: Shannon, "Communication theory of secrecy systems", 1949 (a key used once); local
    equilibria of teams: Xu et al., "Fictitious Cross-Play", 2023, arXiv:2310.03354. The game itself
    was made for Sparring.
    Verified by: tests/environments/code_words/.

    Args:
        words: number of words, 2 to 6: red, green, blue, yellow, black, white.
        leak: cost of a secret word that the other team names, 0 to 1. At 1 a teller may leave the
            convention "clear" without loss.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model,
            with the key as a table.

    Raises:
        ConfigError: a number out of range.
    """

    name = "code_words"
    utility_sum, zero_sum = 0.0, True
    roles, teams, num_seats, max_turns = (
        ("teller_a", "guesser_a", "teller_b", "guesser_b"),
        (0, 0, 1, 1),
        4,
        4,
    )
    figures = ("understood", "leaked", "clear", "by_key")

    def __init__(
        self,
        *,
        words: Annotated[int, Field(ge=2, le=6)] = 3,
        leak: Annotated[float, Field(ge=0, le=1)] = 0.5,
        style: Literal["brief", "full"] = "brief",
    ) -> None:
        self.words, self.leak = WORDS[:words], leak
        self.style, self.brief = style, style == "brief"
        self.word_pairs = tuple(
            f"{first} {second}" for first in self.words for second in self.words
        )
        self.max_utility = 1.0 + leak
        self.min_utility = -self.max_utility

    def vocabulary(self) -> tuple[str, ...]:
        keys = map(str, range(len(self.words)))
        return tuple(sorted({*self.words, *keys, "key", "word", "say", "we", "they", "guess"}))

    def reset(self, stream: Stream) -> CodeWordsPlay:
        first, second, key, other_key = (stream.integer(n, len(self.words)) for n in range(4))
        return CodeWordsPlay(self, CodeWordsPosition(Deal((first, second), (key, other_key))))

    def openings(self) -> tuple[tuple[float, CodeWordsPlay], ...]:
        all_deals = deals(len(self.words))
        return tuple(
            (1 / len(all_deals), CodeWordsPlay(self, CodeWordsPosition(deal))) for deal in all_deals
        )


class CodeWordsPlay(PaintedPlay):
    """One episode of code words.

    Attributes:
        position: the deal, the clues and the guesses.
    """

    def __init__(self, rules: CodeWords, position: CodeWordsPosition) -> None:
        self.rules, self.position = rules, position

    @property
    def done(self) -> bool:
        return bool(self.position.guesses)

    @property
    def returns(self) -> tuple[float, ...]:
        """The payoff of each seat's team."""
        return _values_by_seat(self.position.payoffs(self.rules.leak))

    def due(self) -> tuple[int, ...]:
        if self.done:
            return ()
        return GUESSERS if self.position.clues else TELLERS

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the words for a teller, or all pairs of words for a guesser."""
        return self.rules.word_pairs if seat in GUESSERS else self.rules.words

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply; a guesser may write other words between the two."""
        action = listed_reply(self.legal(seat), reply, exact)
        if action is not None or exact or seat in TELLERS:
            return action
        words = [word for word in _WORD.findall(reply.lower()) if word in self.rules.words]
        return " ".join(words) if len(words) == 2 else None

    def observe(self, seat: int) -> Observation:
        """Return the key with the secret word for a teller, or with both clues for a guesser."""
        rules, (deal, clues, _) = self.rules, self.position
        team, words, is_guesser = rules.teams[seat], rules.words, seat in GUESSERS
        private_texts = [f"key {deal.key[team]}"]
        if not is_guesser:
            private_texts.append(f"word {words[deal.secret[team]]}")
        clue_texts = [f"we {words[clues[team]]} they {words[clues[1 - team]]}"] if clues else []
        key = " ".join((str(seat), *private_texts, *clue_texts))
        if rules.brief:
            ask = ["guess" if is_guesser else "say"] if seat in self.due() else []
            parts = clue_texts if clues and not is_guesser else [*private_texts, *clue_texts, *ask]
            return Observation(prompt=" ".join(parts), key=key)
        clue_texts = [full_clues(words, team, clues)] if clues else []
        opening = [full_opening(words, rules.leak, team, rules.roles[seat], deal.key[team])]
        if not is_guesser:
            opening.append(f"Your team's secret word is {words[deal.secret[team]]}.")
        parts = clue_texts if clues and not is_guesser else [*opening, *clue_texts]
        return Observation(prompt=" ".join(parts), ask=full_ask(words, is_guesser), key=key)

    def step(self, replies: Mapping[int, str]) -> None:
        words, position = self.rules.words, self.position
        if position.clues:
            guess, other_guess = (self.rules.word_pairs.index(replies[seat]) for seat in GUESSERS)
            guesses = divmod(guess, len(words)), divmod(other_guess, len(words))
            self.position = position._replace(guesses=guesses)
        else:
            first, second = (words.index(replies[seat]) for seat in TELLERS)
            self.position = position._replace(clues=(first, second))

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return four figures: 1.0 or 0.0 for the team of each seat, [num_seats]."""
        position, num_words = self.position, len(self.rules.words)
        (deal, clues, _) = position
        team_rows = list(zip(deal.secret, deal.key, clues, strict=True))
        return {
            "understood": _values_by_seat(position.understood),
            "leaked": _values_by_seat(position.leaked),
            "clear": _values_by_seat([word == clue for word, _, clue in team_rows]),
            "by_key": _values_by_seat(
                [encode_word(word, key, num_words) == clue for word, key, clue in team_rows]
            ),
        }

    def ending(self, seat: int) -> str:
        """Return what a seat reads at the end: everything except the other team's key."""
        words, team = self.rules.words, self.rules.teams[seat]
        if self.rules.brief:
            return brief_ending(words, self.position, team)
        payoff = f"Your team got {self.returns[seat]:g}."
        return f"{full_ending(words, self.position, team)} {payoff}"

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        rules, position = self.rules, self.position
        payoffs = position.payoffs(rules.leak)
        words, roles, due = rules.words, rules.roles, self.due()
        order = (0, 2, 1, 3)  # seats by place in the picture, with a team in each column
        names = [roles[place_seat] for place_seat in order]
        colours = [seat_colour(place_seat // 2) for place_seat in order]
        seats(
            canvas,
            names,
            [order.index(due_seat) for due_seat in due],
            _replies_by_place(position, words),
            colours=colours,
        )
        rows = [("team", "word", "key", "gets")]
        for team, name in enumerate(TEAMS):
            knows_secret, knows_key = _visible_to(position, team, seat)
            payoff = f"{payoffs[team]:+g}" if position.guesses else ""
            word = words[position.deal.secret[team]] if knows_secret else "?"
            rows.append((name, word, str(position.deal.key[team]) if knows_key else "?", payoff))
        table(canvas, rows)
        for team, name in enumerate(TEAMS):
            if _visible_to(position, team, seat)[1]:
                key_text = key_table(position.deal.key[team], words)
                paragraph(canvas, f"Key of team {name}: {key_text}.", colour="dim", size=14)

    def described(self, seat: int | None) -> str:
        rules = self.rules
        position, words, roles, due = self.position, rules.words, rules.roles, self.due()
        parts = [due_sentence([roles[due_seat] for due_seat in due])]
        for team, name in enumerate(TEAMS):
            knows_secret, knows_key = _visible_to(position, team, seat)
            if knows_secret:
                parts.append(
                    f"The secret word of team {name} is {words[position.deal.secret[team]]}."
                )
            if knows_key:
                parts.append(
                    f"Its key is {position.deal.key[team]}."
                    if knows_secret
                    else f"The key of team {name} is {position.deal.key[team]}."
                )
        replies = _replies_by_place(position, words)
        parts += [f"{roles[(0, 2, 1, 3)[index]]} said {word}." for index, word in replies.items()]
        return " ".join(parts)

    def clone(self) -> CodeWordsPlay:
        return CodeWordsPlay(self.rules, self.position)


def _values_by_seat(team_values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(team_values[team]) + 0.0 for team in CodeWords.teams)


def _replies_by_place(position: CodeWordsPosition, words: Sequence[str]) -> dict[int, str]:
    """Return the replies so far, by place of the seat in the picture."""
    clues = {team: words[word] for team, word in enumerate(position.clues)}
    guesses = {
        2 + team: f"{words[first]} {words[second]}"
        for team, (first, second) in enumerate(position.guesses)
    }
    return clues | guesses


def _visible_to(position: CodeWordsPosition, team: int, seat: int | None) -> tuple[bool, bool]:
    """Return whether a reader knows a team's secret word, and whether it knows the team's key."""
    knows_key = seat is None or seat // 2 == team
    return seat is None or bool(position.guesses) or seat == 2 * team, knows_key


code_words = entry_of(CodeWords)
