"""Line and scatter charts as SVG text, readable on light and dark pages."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

COLOURS = ("#2f7ed8", "#d9622b", "#2a9d5c", "#b04fc4", "#c9a227", "#d64570", "#159ba6", "#7a7a7a")
WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP = 56, 14, 40
MAX_POINTS = 400
MARK_WIDTH, MARK_HEIGHT = 14, 9  # points of a scatter chart closer than this share a mark
LEGEND_COLUMNS = 3
LETTER = 6.2  # width of a letter of the legend, about


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """A named line: (x, y) pairs in order of x."""

    name: str
    points: Sequence[tuple[float, float]]


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    note: str = "",
    x_label: str = "step",
    standalone: bool = False,
) -> str:
    """Return a chart as an <svg> element.

    Args:
        series: the lines; points that are not finite are left out.
        title: heading.
        note: a word about units, beside the heading.
        x_label: name of the horizontal axis.
        standalone: whether the SVG is to be a file of its own.
    """
    lines = [
        Series(name=s.name, points=_thin([p for p in s.points if math.isfinite(p[1])]))
        for s in series
    ]
    lines = [line for line in lines if line.points]
    xs, ys = [x for s in lines for x, _ in s.points], [y for s in lines for _, y in s.points]
    bottom = HEIGHT - 34
    labels = [f"{line.name} = {line.points[-1][1]:.4g}" for line in lines]
    columns = _legend_columns(labels)
    legend = 18 * math.ceil(len(lines) / columns)
    ticks_y, ticks_x = (
        ticks(min(ys, default=0.0), max(ys, default=1.0)),
        ticks(min(xs, default=0.0), max(xs, default=1.0)),
    )
    if all(float(x).is_integer() for x in xs):  # there is no half step
        ticks_x = [tick for tick in ticks_x if tick.is_integer()]
    x_at = _scale(min(xs, default=0.0), max(xs, default=1.0), LEFT, WIDTH - RIGHT)
    y_at = _scale(
        min(ticks_y[0], min(ys, default=0.0)), max(ticks_y[-1], max(ys, default=1.0)), bottom, TOP
    )
    out = [f'<text x="{LEFT}" y="18" font-size="15" font-weight="600">{html.escape(title)}</text>']
    out.append(f'<text x="{LEFT}" y="33" font-size="11" opacity=".7">{html.escape(note)}</text>')
    for tick in ticks_y:
        y = y_at(tick)
        out.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".15"/>'
        )
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    out += [
        f'<text x="{x_at(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>'
        for tick in ticks_x
    ]
    out.append(
        f'<text x="{WIDTH - RIGHT}" y="{bottom + 30}" text-anchor="end" '
        f'opacity=".7">{html.escape(x_label)}</text>'
    )
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in line.points)
        out.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8" '
            'stroke-linejoin="round"/>'
        )
        x, y = (
            LEFT + (number % columns) * (WIDTH - LEFT) / columns,
            HEIGHT + 12 + 18 * (number // columns),
        )
        out.append(f'<rect x="{x:.0f}" y="{y - 9}" width="12" height="4" fill="{colour}"/>')
        label = _fitted(labels[number], columns)
        out.append(
            f'<text x="{x + 17:.0f}" '
            f'y="{y - 3}">{html.escape(label)}<title>{html.escape(labels[number])}</title></text>'
        )
    return _element(out, HEIGHT + legend + 6, standalone)


def _letters(columns: int) -> int:
    """Return how many letters a label of the legend may have."""
    return int(((WIDTH - LEFT) / columns - 17) / LETTER)


def _legend_columns(labels: Sequence[str]) -> int:
    """Return 2 where all labels fit beside each other, else 1."""
    return 2 if all(len(label) <= _letters(2) for label in labels) else 1


def _fitted(label: str, columns: int) -> str:
    """Return a label with its middle left out, where it is too long for its column."""
    most = _letters(columns)
    return (
        label
        if len(label) <= most
        else f"{label[: most // 2 - 1]}…{label[len(label) - (most - most // 2) :]}"
    )


def scatter_chart(
    points: Sequence[tuple[str, float, float]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    note: str = "",
    standalone: bool = False,
) -> str:
    """Return named points (name, x, y) as an <svg> element; the horizontal axis is logarithmic.

    Marks are numbered in the order given, with the names below; points that would cover each other
    share a mark and its number. Points that cannot be drawn, since a number is not finite or x is
    not above 0, are left out.
    """
    shown = [(n, x, y) for n, x, y in points if x > 0 and math.isfinite(x) and math.isfinite(y)]
    powers = [math.log10(x) for _, x, _ in shown] or [0.0]
    low, high = math.floor(min(powers) * 2 - 0.01) / 2, math.ceil(max(powers) * 2 + 0.01) / 2
    top = max((y for *_, y in shown), default=1.0)
    ticks_y = ticks(0.0, top)
    bottom = HEIGHT - 34
    x_at, y_at = (
        _scale(low, high, LEFT, WIDTH - RIGHT),
        _scale(min(ticks_y[0], 0.0), max(ticks_y[-1], top), bottom, TOP + 6),
    )
    out = [f'<text x="{LEFT}" y="18" font-size="15" font-weight="600">{html.escape(title)}</text>']
    out.append(
        f'<text x="{LEFT}" y="33" font-size="11" '
        f'opacity=".7">{html.escape(y_label)}; {html.escape(note)}</text>'
    )
    for tick in ticks_y:
        out.append(
            f'<path d="M{LEFT} {y_at(tick):.1f}H{WIDTH - RIGHT}" stroke="currentColor" '
            'opacity=".15"/>'
        )
        out.append(
            f'<text x="{LEFT - 6}" y="{y_at(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    for half in range(round(low * 2), round(high * 2) + 1):
        out.append(
            f'<text x="{x_at(half / 2):.1f}" y="{bottom + 16}" '
            f'text-anchor="middle">{10 ** (half / 2):.2g}</text>'
        )
    out.append(
        f'<text x="{WIDTH - RIGHT}" y="{bottom + 30}" text-anchor="end" '
        f'opacity=".7">{html.escape(x_label)}</text>'
    )
    marks: list[tuple[float, float]] = []
    rows = math.ceil(len(shown) / LEGEND_COLUMNS)
    for number, (name, x, y) in enumerate(shown):
        place = x_at(math.log10(x)), y_at(y)
        near = [
            k
            for k, mark in enumerate(marks)
            if abs(mark[0] - place[0]) < MARK_WIDTH and abs(mark[1] - place[1]) < MARK_HEIGHT
        ]
        mark = near[0] if near else len(marks)
        colour = COLOURS[mark % len(COLOURS)]
        if not near:
            marks.append(place)
            out.append(f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="4" fill="{colour}"/>')
            out.append(
                f'<text x="{place[0] + 6:.1f}" y="{place[1] - 3:.1f}" '
                f'font-size="9">{mark + 1}</text>'
            )
        left = LEFT + number // rows * (WIDTH - LEFT) / LEGEND_COLUMNS
        height = HEIGHT + 12 + 14 * (number % rows)
        out.append(f'<circle cx="{left - 6:.0f}" cy="{height - 3.5:.1f}" r="3" fill="{colour}"/>')
        out.append(
            f'<text x="{left:.0f}" y="{height}" '
            f'font-size="10">{mark + 1} {html.escape(name)}</text>'
        )
    return _element(out, HEIGHT + 14 * rows + 6, standalone)


def _element(parts: Sequence[str], height: float, standalone: bool) -> str:
    """Return the <svg> element around the parts of a chart."""
    colour = ' style="background:#fff;color:#222"' if standalone else ""
    font = 'font-family="system-ui, sans-serif" font-size="11" fill="currentColor"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {font}'
    )
    return f"{head}{colour}>{''.join(parts)}</svg>"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about ``count`` round numbers that cover [low, high], widened if almost a point."""
    if not high - low > 1e-12 * max(1.0, abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [
        round(index * step, 12)
        for index in range(first, last + 1)
        if low - step / 2 <= index * step <= high + step / 2
    ]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return the linear map of [low, high] onto [start, end]."""
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _thin(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return at most MAX_POINTS points, the last one among them."""
    stride = max(1, math.ceil(len(points) / MAX_POINTS))
    return [*points[::-1][::stride]][::-1]
