"""Common parts of pictures: text, seats, moves, tables and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from sparring.environments.drawing.canvas import (
    BOLD,
    EDGE,
    WIDTH,
    Canvas,
    Theme,
    seat_colour,
    text_hue,
)
from sparring.environments.drawing.words import shorten, visible_text, width_of, wrap_text

INSIDE = WIDTH - 2 * EDGE
MAX_MESSAGES = 10  # number of the latest messages that a timeline shows
MAX_MOVES = 48  # number of the latest moves that a strip shows


class TimelineMessage(NamedTuple):
    """A message of a timeline.

    Attributes:
        sender: name of the sender.
        text: any text.
        colour: colour of the sender.
        note: a word about the message, such as its effect.
    """

    sender: str
    text: str
    colour: str = "dim"
    note: str = ""


def heading(canvas: Canvas, words: str, label: str = "") -> None:
    """Write a short bold line, and optionally a label at the right."""
    top = canvas.reserve(16)
    width = width_of(shorten(words, 15, INSIDE), 15) if label else 0.0
    canvas.text(EDGE, top + 13, words, bold=True)
    if label:
        canvas.text(
            WIDTH - EDGE, top + 13, label, colour="dim", anchor="end", width=INSIDE - width - 8
        )


def paragraph(
    canvas: Canvas, words: str, *, most: int = 4, colour: str = "ink", size: float = 15
) -> None:
    """Write a text on at most ``most`` lines."""
    lines = wrap_text(words, size, INSIDE, most)
    top = canvas.reserve(len(lines) * size * 1.25)
    for number, line in enumerate(lines):
        canvas.text(EDGE, top + size * (0.95 + 1.25 * number), line, size=size, colour=colour)


def printed_lines(canvas: Canvas, lines: Sequence[str], *, most: int = 24) -> None:
    """Write lines in a monospaced font; if one is too long, write them as wrapped text."""
    if max(map(len, lines), default=0) > 44:
        for line in lines[:most]:
            paragraph(canvas, line, most=4, size=14)
        return
    top = canvas.reserve(18 * min(len(lines), most))
    for number, line in enumerate(lines[:most]):
        canvas.monospaced(EDGE, top + 14 + 18 * number, line)


def seats(
    canvas: Canvas,
    roles: Sequence[str],
    due: Sequence[int] = (),
    notes: Mapping[int, str] | None = None,
    *,
    colours: Sequence[str] = (),
) -> None:
    """Draw a colour and a name per seat, with a triangle before the seats that are due.

    Args:
        canvas: the canvas.
        roles: name of each seat.
        due: the seats that are due.
        notes: seat -> a short text at the right of its name.
        colours: a colour per seat; (): the default colours.
    """
    notes = notes or {}
    num_columns = 1 if len(roles) == 1 else 2
    width = (INSIDE - 8 * (num_columns - 1)) / num_columns
    num_rows = -(-len(roles) // num_columns)
    top = canvas.reserve(num_rows * 36 - 6)
    for seat, role in enumerate(roles):
        x, y = EDGE + (width + 8) * (seat % num_columns), top + 36 * (seat // num_columns)
        colour = colours[seat] if colours else seat_colour(seat)
        canvas.box(
            x,
            y,
            width,
            30,
            fill="panel",
            edge="ink" if seat in due else "none",
            thick=1.5,
            corner=6,
        )
        canvas.box(x, y, 8, 30, fill=colour, corner=3)
        start = x + 16
        if seat in due:
            canvas.polygon(((start, y + 9), (start + 9, y + 15), (start, y + 21)), fill="ink")
            start += 15
        note = notes.get(seat, "")
        space = width - (start - x) - 8
        note_width = min(width_of(visible_text(note), 14), space * 0.6) if note else 0.0
        canvas.text(start, y + 20, role, bold=seat in due, width=space - note_width - 6)
        if note:
            canvas.text(
                x + width - 8, y + 20, note, size=14, colour="dim", anchor="end", width=note_width
            )


def strip(canvas: Canvas, moves: Sequence[tuple[str, str]], *, size: float = 14) -> None:
    """Draw moves one after another; the last move is outlined.

    Args:
        canvas: the canvas.
        moves: (word, name of a colour) per move.
        size: size of the letters.
    """
    num_hidden = max(0, len(moves) - MAX_MOVES)
    items = [*([(f"{num_hidden} before", "dim")] if num_hidden else []), *moves[num_hidden:]]
    x, y, height = EDGE, canvas.y, size + 10
    for number, (word, colour) in enumerate(items):
        word = shorten(word, size, INSIDE - 18)
        width = width_of(word, size) * BOLD + 20
        if x + width > WIDTH - EDGE and x > EDGE:
            x, y = EDGE, y + height + 5
        is_last = number == len(items) - 1
        canvas.box(x, y, width, height, fill="panel", edge="ink" if is_last else "none", corner=4)
        canvas.box(x, y, 5, height, fill=colour, corner=2)
        canvas.text(x + 11, y + height - 8, word, size=size, bold=is_last, width=INSIDE)
        x += width + 5
    if items:
        canvas.reserve(y + height - canvas.y)


def table(
    canvas: Canvas,
    rows: Sequence[Sequence[str]],
    *,
    marked: Sequence[tuple[int, int]] = (),
    faint: Sequence[tuple[int, int]] = (),
    size: float = 14,
    shares: Sequence[float] = (),
    colours: Mapping[tuple[int, int], str] | None = None,
) -> None:
    """Draw a table whose first row names the columns.

    Args:
        canvas: the canvas.
        rows: cells; the first cell of each row names the row.
        marked: (row, column) of outlined cells.
        faint: (row, column) of dim cells.
        size: size of the letters.
        shares: relative widths of the columns after the first; (): equal widths.
        colours: (row, column) -> fill colour of the cell.
    """
    colours = colours or {}
    num_columns = max(map(len, rows))
    first_width = 14 + max((width_of(visible_text(row[0]), size) for row in rows if row), default=0)
    first_width = min(max(first_width, 24.0), INSIDE * 0.4)
    shares = shares or (1.0,) * (num_columns - 1)
    widths = [first_width, *((INSIDE - first_width) * share / sum(shares) for share in shares)]
    left_edges = [EDGE, *(EDGE + width for width in accumulate(widths))]
    row_height = size + 12
    top = canvas.reserve(row_height * len(rows))
    for r, row in enumerate(rows):
        if r:
            canvas.line(EDGE, top + row_height * r, WIDTH - EDGE, top + row_height * r)
        for c, words in enumerate(row):
            x, cell_width = left_edges[c], widths[c]
            fill = colours.get((r, c), "none")
            if fill != "none" or (r, c) in marked:
                edge = "ink" if (r, c) in marked else "none"
                canvas.box(
                    x + 1,
                    top + row_height * r + 2,
                    cell_width - 2,
                    row_height - 4,
                    fill=fill,
                    edge=edge,
                    thick=2,
                    corner=3,
                )
            is_dim = not r or not c or (r, c) in faint
            canvas.text(
                x + (2 if not c else cell_width / 2),
                top + row_height * r + size + 4,
                words,
                size=size,
                anchor="start" if not c else "middle",
                colour=text_hue(fill) if fill != "none" else "dim" if is_dim else "ink",
                bold=(r, c) in marked,
                width=cell_width - 4,
            )


def timeline(
    canvas: Canvas, messages: Sequence[TimelineMessage], *, most: int = MAX_MESSAGES, lines: int = 4
) -> None:
    """Draw the latest messages below one another, each shortened to a few lines.

    Args:
        canvas: the canvas.
        messages: the messages in order.
        most: largest number of messages to show.
        lines: largest number of lines of a message.
    """
    num_hidden = len(messages) - most
    if num_hidden > 0:
        paragraph(canvas, f"{num_hidden} before", colour="dim", size=14)
    for message in messages[-most:]:
        text_lines = wrap_text(message.text, 15, INSIDE - 16, lines)
        height = 20 + 19 * len(text_lines)
        top = canvas.reserve(height)
        canvas.box(EDGE, top, INSIDE, height, fill="panel", corner=4)
        canvas.box(EDGE, top, 5, height, fill=message.colour, corner=2)
        name = shorten(message.sender, 13, INSIDE * 0.6)
        canvas.text(EDGE + 13, top + 15, name, size=13, bold=True, colour="dim")
        if message.note:
            space, x = INSIDE - 34 - width_of(name, 13), WIDTH - EDGE - 8
            canvas.text(x, top + 15, message.note, size=13, anchor="end", width=space)
        for number, line in enumerate(text_lines):
            canvas.text(EDGE + 13, top + 33 + 19 * number, line, width=INSIDE)


MAX_TURN_LINES = 3  # largest number of lines of a prompt or a reply


class PastTurn(NamedTuple):
    """Prompt and reply of an earlier turn."""

    seat: int
    prompt: str
    reply: str


def draw_play(
    play: Any,
    roles: Sequence[str],
    seat: int | None,
    theme: Theme = "light",
    past: Sequence[PastTurn] = (),
) -> str:
    """Return the picture of any play.

    Args:
        play: a play, ``Drawable`` or not.
        roles: name of each seat.
        seat: the seat that looks; None: nothing is hidden.
        theme: "light" or "dark".
        past: earlier turns of all seats; the picture for a seat has only its own turns.
    """
    if hasattr(play, "draw"):
        picture: str = play.draw(seat, theme)
        return picture
    canvas, due = Canvas(theme), tuple(play.due())
    notes = {}
    if seat is None:
        notes = {player: f"{value:+g}" for player, value in enumerate(play.returns)}
    seats(canvas, roles, due, notes)
    messages: list[TimelineMessage] = []
    for turn in past:
        if seat in (None, turn.seat):
            messages += _prompt_messages(roles, turn.seat, turn.prompt)
            messages.append(TimelineMessage(roles[turn.seat], turn.reply, seat_colour(turn.seat)))
    for player in due:
        if seat in (None, player):
            messages += _prompt_messages(roles, player, play.observe(player).text)
    timeline(canvas, messages, lines=MAX_TURN_LINES)
    if not messages:
        paragraph(canvas, _due_text(roles, due), colour="dim")
    return canvas.svg(describe_play(play, roles, seat, past))


def describe_play(
    play: Any, roles: Sequence[str], seat: int | None, past: Sequence[PastTurn] = ()
) -> str:
    """Return the position of any play in one or two sentences; see ``draw_play``."""
    if hasattr(play, "described"):
        text: str = play.described(seat)
        return text
    due = tuple(play.due())
    due_seats = [player for player in due if seat in (None, player)]
    if due_seats:
        (line,) = wrap_text(play.observe(due_seats[0]).text, 1, 80, 1)
        return f"{_due_text(roles, due)} {roles[due_seats[0]]} is told: {line}"
    turns = [turn for turn in past if seat in (None, turn.seat)]
    ending = ""
    if turns:
        ending = f" {roles[turns[-1].seat]} said last: {wrap_text(turns[-1].reply, 1, 80, 1)[0]}"
    return f"{_due_text(roles, due)}{ending}"


def _prompt_messages(roles: Sequence[str], seat: int, prompt: str) -> list[TimelineMessage]:
    return [TimelineMessage(f"told to {roles[seat]}", prompt)] if visible_text(prompt) else []


def _due_text(roles: Sequence[str], due: Sequence[int]) -> str:
    return due_sentence([roles[seat] for seat in due])


def due_sentence(names: Sequence[str]) -> str:
    """Return a sentence that names the seats to act, or, without names, says "over"."""
    if not names:
        return "The play is over."
    if len(names) == 1:
        return f"{names[0]} is to act."
    return f"{', '.join(names[:-1])} and {names[-1]} are to act at once."


def finished_plays(
    plays: Sequence[Any], roles: Sequence[str], seat: int | None, word: str, most: int
) -> list[TimelineMessage]:
    """Return finished plays as messages with the information of a seat.

    Args:
        plays: the plays in order.
        roles: name of each seat.
        seat: the seat that looks; None: nothing is hidden.
        word: name for a play.
        most: number of the latest plays with a text; earlier plays are empty messages.
    """
    num_hidden = max(0, len(plays) - most)
    messages = [TimelineMessage("", "")] * num_hidden
    for number, play in enumerate(plays[num_hidden:], start=num_hidden + 1):
        text = describe_play(play, roles, seat).removeprefix("The play is over.").strip()
        returns = play.returns if seat is None else play.returns[seat : seat + 1]
        note = " and ".join(f"{value:+g}" for value in returns)
        messages.append(TimelineMessage(f"{word} {number}", text, note=note))
    return messages
