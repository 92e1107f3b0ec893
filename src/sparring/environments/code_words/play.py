"""Code words as an environment, and plays of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.code_words.rules import TEAMS, WORDS, Deal, Position, coded, deals
from sparring.environments.code_words.wording import (
    brief_ending,
    brief_key,
    brief_said,
    brief_secret,
    full_ask,
    full_ending,
    full_opening,
    full_said,
    full_secret,
)
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.painted import Painted
from sparring.environments.drawing.pieces import paragraph, seats, table
from sparring.environments.drawing.told import due_sentence
from sparring.environments.reply import listed_reply

TELLERS, GUESSERS = (0, 2), (1, 3)  # seats
SPOKEN = re.compile(r"[\w-]+")


class CodeWords:
    """Rules and wording: seats 0 and 1 are team a, seats 2 and 3 team b.

    Args:
        words: how many words there are.
        leak: what a word costs that the other team names.
        style: "brief" or "full".
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

    def __init__(self, words: int, leak: float, style: str) -> None:
        self.words, self.leak = WORDS[:words], leak
        self.style, self.brief = style, style == "brief"
        self.guesses = tuple(f"{own} {other}" for own in self.words for other in self.words)
        self.max_utility = 1.0 + leak
        self.min_utility = -self.max_utility

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of the brief wording."""
        keys = map(str, range(len(self.words)))
        return tuple(sorted({*self.words, *keys, "key", "word", "say", "we", "they", "guess"}))

    def reset(self, stream: Stream) -> Round:
        """Return a play at its start: secret words and keys are draws 0 to 3 of ``stream``."""
        first, second, one, other = (stream.integer(n, len(self.words)) for n in range(4))
        return Round(self, Position(Deal((first, second), (one, other))))

    def openings(self) -> tuple[tuple[float, Round], ...]:
        """Return a play of every deal, with its probability."""
        every = deals(len(self.words))
        return tuple((1 / len(every), Round(self, Position(deal))) for deal in every)


class Round(Painted):
    """One play.

    Attributes:
        position: what was drawn, said and guessed.
    """

    def __init__(self, rules: CodeWords, position: Position) -> None:
        self.rules, self.position = rules, position

    @property
    def done(self) -> bool:
        """Whether all have guessed."""
        return bool(self.position.guessed)

    @property
    def returns(self) -> tuple[float, ...]:
        """What each seat gets: the payoff of its team."""
        return _each(self.position.paid(self.rules.leak))

    def due(self) -> tuple[int, ...]:
        """Return both tellers, and then both guessers."""
        if self.done:
            return ()
        return GUESSERS if self.position.said else TELLERS

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the words of a teller, or all pairs of words of a guesser."""
        return self.rules.guesses if seat in GUESSERS else self.rules.words

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply; of a guesser also two words with others between them."""
        found = listed_reply(self.legal(seat), reply, exact)
        if found is not None or exact or seat in TELLERS:
            return found
        named = [word for word in SPOKEN.findall(reply.lower()) if word in self.rules.words]
        return " ".join(named) if len(named) == 2 else None

    def observe(self, seat: int) -> Observation:
        """Return the key, and the secret word to a teller; then what both tellers said.

        A teller is told the first alone before it speaks, a guesser all at once.
        """
        rules, (deal, said, _) = self.rules, self.position
        team, words, guesser = rules.teams[seat], rules.words, seat in GUESSERS
        first = [brief_key(deal.key[team])]
        if not guesser:
            first.append(brief_secret(words, deal.secret[team]))
        heard = [brief_said(words, said[team], said[1 - team])] if said else []
        key = " ".join((str(seat), *first, *heard))
        if rules.brief:
            ask = ["guess" if guesser else "say"] if seat in self.due() else []
            new = heard if said and not guesser else [*first, *heard, *ask]
            return Observation(told=" ".join(new), key=key)
        heard = [full_said(words, team, said)] if said else []
        opening = [full_opening(words, rules.leak, team, rules.roles[seat], deal.key[team])]
        if not guesser:
            opening.append(full_secret(words, deal.secret[team]))
        new = heard if said and not guesser else [*opening, *heard]
        return Observation(told=" ".join(new), ask=full_ask(words, guesser), key=key)

    def step(self, replies: Mapping[int, str]) -> None:
        """Take the words of both tellers, or the guesses of both guessers."""
        words, position = self.rules.words, self.position
        if position.said:
            one, other = (self.rules.guesses.index(replies[seat]) for seat in GUESSERS)
            guessed = divmod(one, len(words)), divmod(other, len(words))
            self.position = position._replace(guessed=guessed)
        else:
            first, second = (words.index(replies[seat]) for seat in TELLERS)
            self.position = position._replace(said=(first, second))

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return how a play that is over went for the team of each seat.

        Whether its word was understood, whether it leaked, whether its teller said the word itself,
        and whether it said what the key says for it.
        """
        position, size = self.position, len(self.rules.words)
        (deal, said, _) = position
        drawn = list(zip(deal.secret, deal.key, said, strict=True))
        return {
            "understood": _each(position.understood),
            "leaked": _each(position.leaked),
            "clear": _each([word == told for word, _, told in drawn]),
            "by_key": _each([coded(word, key, size) == told for word, key, told in drawn]),
        }

    def ending(self, seat: int) -> str:
        """Return what a seat learns at the end: all but the other team's key."""
        words, team = self.rules.words, self.rules.teams[seat]
        if self.rules.brief:
            return brief_ending(words, self.position, team)
        paid = f"Your team got {self.returns[seat]:g}."
        return f"{full_ending(words, self.position, team)} {paid}"

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw both teams: their words and keys where they are seen, what was said and guessed."""
        rules, position = self.rules, self.position
        paid = position.paid(rules.leak)
        words, roles, due = rules.words, rules.roles, self.due()
        order = (0, 2, 1, 3)  # a team in each column
        shown = [roles[one] for one in order]
        colours = [seat_colour(one // 2) for one in order]
        seats(
            canvas,
            shown,
            [order.index(one) for one in due],
            _spoken(position, words),
            colours=colours,
        )
        rows = [("team", "word", "key", "gets")]
        for team, name in enumerate(TEAMS):
            secret, key = _seen(position, team, seat)
            gets = f"{paid[team]:+g}" if position.guessed else ""
            word = words[position.deal.secret[team]] if secret else "?"
            rows.append((name, word, str(position.deal.key[team]) if key else "?", gets))
        table(canvas, rows)
        for team, name in enumerate(TEAMS):
            if _seen(position, team, seat)[1]:
                said = _table(position.deal.key[team], words)
                paragraph(canvas, f"Key of team {name}: {said}.", colour="dim", size=14)

    def described(self, seat: int | None) -> str:
        """Return who is to act, and the words and keys that are seen."""
        rules = self.rules
        position, words, roles, due = self.position, rules.words, rules.roles, self.due()
        parts = [due_sentence([roles[one] for one in due])]
        for team, name in enumerate(TEAMS):
            secret, key = _seen(position, team, seat)
            if secret:
                parts.append(
                    f"The secret word of team {name} is {words[position.deal.secret[team]]}."
                )
            if key:
                parts.append(
                    f"Its key is {position.deal.key[team]}."
                    if secret
                    else f"The key of team {name} is {position.deal.key[team]}."
                )
        spoken = _spoken(position, words)
        parts += [f"{roles[(0, 2, 1, 3)[place]]} said {said}." for place, said in spoken.items()]
        return " ".join(parts)

    def clone(self) -> Round:
        """Return a copy."""
        return Round(self.rules, self.position)


def _each(of_team: Sequence[float]) -> tuple[float, ...]:
    """Return a number of each team as one of each seat."""
    return tuple(float(of_team[team]) + 0.0 for team in CodeWords.teams)


def _spoken(position: Position, words: Sequence[str]) -> dict[int, str]:
    """Return what was said, by the seat's place in the picture."""
    said = {team: words[word] for team, word in enumerate(position.said)}
    guesses = {
        2 + team: f"{words[own]} {words[other]}"
        for team, (own, other) in enumerate(position.guessed)
    }
    return said | guesses


def _seen(position: Position, team: int, seat: int | None) -> tuple[bool, bool]:
    """Return whether a reader knows a team's secret word, and whether it knows its key."""
    own = seat is None or seat // 2 == team
    return seat is None or bool(position.guessed) or seat == 2 * team, own


def _table(key: int, words: Sequence[str]) -> str:
    """Return what a key says for each word."""
    return ", ".join(
        f"{words[coded(word, key, len(words))]} for {name}" for word, name in enumerate(words)
    )
