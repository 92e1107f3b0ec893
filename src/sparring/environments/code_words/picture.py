"""The picture of code words: of each team its word and key, what was said, and the guesses."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.environments.code_words.rules import TEAMS, Position, coded
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import paragraph, seats, table
from sparring.environments.drawing.told import due_sentence


def paint(
    canvas: Canvas,
    position: Position,
    words: Sequence[str],
    seat: int | None,
    roles: Sequence[str],
    due: Sequence[int],
    paid: tuple[float, float],
) -> None:
    """Draw a play.

    Args:
        canvas: to draw on.
        position: what was drawn, said and guessed.
        words: that may be said.
        seat: who looks; None: nothing is hidden.
        roles: name of each seat.
        due: the seats whose replies are wanted.
        paid: what each team gets.
    """
    order = (0, 2, 1, 3)  # a team in each column
    shown = [roles[one] for one in order]
    colours = [seat_colour(one // 2) for one in order]
    seats(
        canvas, shown, [order.index(one) for one in due], _spoken(position, words), colours=colours
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


def describe(
    position: Position,
    words: Sequence[str],
    seat: int | None,
    roles: Sequence[str],
    due: Sequence[int],
) -> str:
    """Return who is to act, the words and keys that are seen, what was said and guessed."""
    parts = [due_sentence([roles[one] for one in due])]
    for team, name in enumerate(TEAMS):
        secret, key = _seen(position, team, seat)
        if secret:
            parts.append(f"The secret word of team {name} is {words[position.deal.secret[team]]}.")
        if key:
            parts.append(
                f"Its key is {position.deal.key[team]}."
                if secret
                else f"The key of team {name} is {position.deal.key[team]}."
            )
    spoken = _spoken(position, words)
    parts += [f"{roles[(0, 2, 1, 3)[place]]} said {said}." for place, said in spoken.items()]
    return " ".join(parts)


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
