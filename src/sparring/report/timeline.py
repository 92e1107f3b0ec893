"""Timeline of an episode as text and SVG: a row per seat, a column per moment.

Turns at the same time form a moment. The critical path has one turn of each moment: the turns that
determined the length of the episode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from sparring.core.errors import RunError
from sparring.core.records import Episode, Turn
from sparring.report.svg import COLOURS, END, MIDDLE, PALE, WIDTH, element, escape, text_at

# signs of a seat in a moment: it acts on the critical path, acts beside it, waits between two of
# its turns, or is before its first or after its last turn
ACTS, BESIDE, WAITS, AWAY = "#", "=", ".", " "
MAX_MOMENTS = 400  # moments that are drawn
LINE_WIDTH = 100  # characters of a line of text
NAMES, RIGHT, TOP, ROW, BAR = 96, 10, 44, 20, 12  # units of the picture
MAX_WIDTH = 40.0  # units of a moment
LETTERS = 14  # letters of a role's name in the picture


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The acting seats of an episode by moment.

    Args:
        roles: name of each seat.
        moments: numbers of the turns of each moment, in order; a moment has at least one turn.
        seats: seat of each turn.
        path: numbers of the turns of the critical path, one per moment.
    """

    roles: tuple[str, ...]
    moments: tuple[tuple[int, ...], ...]
    seats: tuple[int, ...]
    path: tuple[int, ...]

    def acts(self, seat: int) -> list[int]:
        """Return the moments in which a seat acts."""
        return [
            moment
            for moment, numbers in enumerate(self.moments)
            if any(self.seats[number] == seat for number in numbers)
        ]

    def waits(self, seat: int) -> list[int]:
        """Return the moments between a seat's first and last turn in which it does not act."""
        acts = self.acts(seat)
        return sorted({*range(acts[0], acts[-1])} - {*acts}) if acts else []

    def path_seats(self) -> list[int]:
        """Return the seat of the critical path in each moment."""
        return [self.seats[number] for number in self.path]


def timeline(roles: Sequence[str], turns: Sequence[Turn]) -> Timeline:
    """Return the timeline of an episode.

    The critical path is built from the end. In the last moment it takes the seat with the longest
    series of consecutive moments, or the first such seat. In each earlier moment it keeps its seat
    if the seat acts there; otherwise it chooses again by the same rule.

    Args:
        roles: name of each seat.
        turns: turns of the episode, in order.
    """
    order = sorted(range(len(turns)), key=lambda number: (turns[number].moment, number))
    moments = [
        tuple(numbers) for _, numbers in groupby(order, key=lambda number: turns[number].moment)
    ]
    # for each moment, the number of consecutive moments in which a seat has acted
    streaks_by_moment: list[dict[int, int]] = []
    for numbers in moments:
        previous = streaks_by_moment[-1] if streaks_by_moment else {}
        streaks_by_moment.append(
            {seat: previous.get(seat, 0) + 1 for seat in (turns[number].seat for number in numbers)}
        )
    path: list[int] = []
    path_seat = -1
    for numbers, streaks in zip(reversed(moments), reversed(streaks_by_moment), strict=True):
        if path_seat not in streaks:
            path_seat = max(streaks, key=lambda seat: (streaks[seat], -seat))
        path.append(next(n for n in reversed(numbers) if turns[n].seat == path_seat))
    return Timeline(
        roles=tuple(roles),
        moments=tuple(moments),
        seats=tuple(turn.seat for turn in turns),
        path=tuple(reversed(path)),
    )


def timeline_of(episode: Episode) -> Timeline:
    """Return the timeline of an episode.

    Raises:
        RunError: a turn's seat does not exist.
    """
    invalid_seats = {turn.seat for turn in episode.turns} - {*range(len(episode.roles))}
    if invalid_seats:
        raise RunError(
            f"Episode {episode.episode_id} is an invalid record: it has turns of seat "
            f"{min(invalid_seats)}, but only {len(episode.roles)} seats."
        )
    return timeline(episode.roles, episode.turns)


def summary(line: Timeline) -> str:
    """Return a sentence on the length of an episode."""
    count, moments = len(line.seats), len(line.moments)
    shares = Counter(line.path_seats()).most_common()
    path_text = ", ".join(f"{turns} of {line.roles[seat]}" for seat, turns in shares[:4])
    ellipsis = ", ..." if len(shares) > 4 else ""
    max_turns = max((len(numbers) for numbers in line.moments), default=0)
    return (
        f"{_count_text(count, 'turn')} in {_count_text(moments, 'moment')}, up to {max_turns} at "
        f"once. The critical path: {path_text or 'nobody'}{ellipsis}."
    )


def waits_text(line: Timeline, seat: int) -> str:
    """Return for which seats a seat waited, with numbers of moments; "" if it never waited."""
    path_seats = line.path_seats()
    counts = Counter(path_seats[moment] for moment in line.waits(seat)).most_common()
    return ", ".join(f"{count} for {line.roles[other]}" for other, count in counts)


def timeline_lines(line: Timeline) -> list[str]:
    """Return a timeline as text: a row per seat, a sign per moment."""
    name_width = max(map(len, line.roles), default=0)
    max_moments = max(10, LINE_WIDTH - name_width - 4)
    lines, rows = [summary(line)], [_signs(line, seat) for seat in range(len(line.roles))]
    for begin in range(0, len(line.moments), max_moments):
        end = min(begin + max_moments, len(line.moments))
        lines += ["", f"{'moments':<{name_width}}  {begin} to {end - 1}"]
        for role, signs in zip(line.roles, rows, strict=True):
            lines.append(f"{role:<{name_width}}  {signs[begin:end]}".rstrip())
    lines += ["", f"{ACTS} acts, on the critical path; {BESIDE} acts beside it; {WAITS} waits"]
    waits = [(role, waits_text(line, seat)) for seat, role in enumerate(line.roles)]
    return [*lines, *(f"{role} waited {text}" for role, text in waits if text)]


def _signs(line: Timeline, seat: int) -> str:
    signs = [AWAY] * len(line.moments)
    for moment in line.waits(seat):
        signs[moment] = WAITS
    path_seats = line.path_seats()
    for moment in line.acts(seat):
        signs[moment] = ACTS if path_seats[moment] == seat else BESIDE
    return "".join(signs)


def timeline_svg(line: Timeline, *, standalone: bool = False) -> str:
    """Return a timeline as an <svg> element.

    Bars show turns, framed on the critical path; dotted lines show waiting; thin lines connect the
    seats of the critical path.

    Args:
        line: the timeline; only its first 400 moments are drawn.
        standalone: whether the SVG becomes a separate file.
    """
    count = min(len(line.moments), MAX_MOMENTS)
    step = min(MAX_WIDTH, (WIDTH - NAMES - RIGHT) / max(count, 1))
    note = f" The first {count} moments are drawn." if count < len(line.moments) else ""
    svg = [
        '<text x="10" y="16" font-size="13" font-weight="600">Who acts when</text>',
        f'<text x="10" y="31" opacity=".7">{escape(summary(line) + note)}</text>',
    ]
    tick_spacing = max(1, -(-count // 10))
    for number in range(0, count, tick_spacing):
        svg.append(text_at(f"{NAMES + (number + 0.5) * step:.1f}", TOP, str(number), MIDDLE, PALE))
    path_seats = line.path_seats()[:count]
    for seat, role in enumerate(line.roles):
        svg += _row(line, seat, role, path_seats, step)
    svg += [  # the critical path from a seat to the next one
        f'<path d="M{NAMES + number * step:.1f} {_middle(start):.1f}V{_middle(end):.1f}" '
        'stroke="currentColor" stroke-width="1.4" fill="none"/>'
        for number, (start, end) in enumerate(pairwise(path_seats), start=1)
        if start != end
    ]
    bottom = TOP + ROW * len(line.roles) + 14
    description = f"{summary(line)}{note} " + " ".join(
        f"{role} waited {waits_text(line, seat)}."
        for seat, role in enumerate(line.roles)
        if line.waits(seat)
    )
    return element(svg, bottom, standalone, description.strip())


def _row(line: Timeline, seat: int, role: str, path_seats: Sequence[int], step: float) -> list[str]:
    y, colour = _middle(seat), COLOURS[seat % len(COLOURS)]
    name = role if len(role) <= LETTERS else f"{role[: LETTERS - 1]}…"
    label = f"{escape(name)}<title>{escape(role)}</title>"
    svg = [text_at(NAMES - 8, f"{y + 4:.1f}", label, END)]
    acts = [moment for moment in line.acts(seat) if moment < len(path_seats)]
    if acts:
        begin, end = (NAMES + (moment + 0.5) * step for moment in (acts[0], acts[-1]))
        svg.append(
            f'<path d="M{begin:.1f} {y:.1f}H{end:.1f}" stroke="currentColor" '
            'stroke-dasharray="1 3" opacity=".6"/>'
        )
    gap = min(2.0, step / 5)
    for moment in acts:
        is_critical = path_seats[moment] == seat
        outline = ' stroke="currentColor" stroke-width="1.6"' if is_critical else ' opacity=".45"'
        svg.append(
            f'<rect x="{NAMES + moment * step + gap / 2:.1f}" y="{y - BAR / 2:.1f}" '
            f'width="{step - gap:.1f}" height="{BAR}" rx="1.5" fill="{colour}"'
            f"{outline}/>"
        )
    return svg


def _middle(seat: int) -> float:
    return TOP + ROW * (seat + 0.75)


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
