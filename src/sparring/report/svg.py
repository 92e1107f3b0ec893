"""Line and scatter charts as SVG text, readable on light and dark pages."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparring.core.foreign_text import escape_controls

COLOURS = ("#2f7ed8", "#d9622b", "#2a9d5c", "#b04fc4", "#c9a227", "#d64570", "#159ba6", "#7a7a7a")
WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP = 56, 14, 40
BOTTOM = HEIGHT - 34  # y of the horizontal axis
MAX_POINTS = 400
LETTER = 6.2  # approximate width of a letter of the legend
LINE = 12  # height of a label
END, MIDDLE = 'text-anchor="end"', 'text-anchor="middle"'
PALE, ITALIC = 'opacity=".7"', 'font-style="italic"'
MAX_LABELLED = 2  # largest number of reference lines with labels in the chart; else in the legend


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """A named line: (x, y) pairs in order of x; ``band`` is (x, low, high) around it."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A value to compare with, drawn as a labelled line across the chart: dashed, or ``dots``."""

    label: str
    value: float
    dots: bool = False

    @property
    def dashes(self) -> str:
        """The pattern of the line."""
        return "2 3" if self.dots else "7 4"


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    note: str = "",
    x_label: str = "step",
    standalone: bool = False,
    references: Sequence[Reference] = (),
    marks: Sequence[float] = (),
) -> str:
    """Return a chart as an <svg> element.

    Args:
        series: the lines; points that are not finite are left out.
        title: heading.
        note: units, next to the heading.
        x_label: name of the horizontal axis.
        standalone: whether the SVG becomes a separate file.
        references: values that are drawn as lines across the chart.
        marks: steps of events on the horizontal axis.
    """
    lines = [
        Series(name=s.name, points=_thin([p for p in s.points if math.isfinite(p[1])]), band=s.band)
        for s in series
    ]
    lines = [line for line in lines if line.points]
    levels = (
        [reference for reference in references if math.isfinite(reference.value)] if lines else []
    )
    parts = headings(title, note)
    x_at, y_at, grid = _axes(lines, levels, x_label)
    parts += grid
    labels = [f"{line.name} = {line.points[-1][1]:.4g}" for line in lines]
    columns = 2 if all(len(label) <= _legend_letters(2) for label in labels) else 1
    max_letters = _legend_letters(columns)
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        parts += _band(line, colour, x_at, y_at)
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in line.points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8" '
            'stroke-linejoin="round"/>'
        )
        x = LEFT + (number % columns) * (WIDTH - LEFT) / columns
        y = HEIGHT + 12 + 18 * (number // columns)
        parts.append(f'<rect x="{x:.0f}" y="{y - 9}" width="12" height="4" fill="{colour}"/>')
        label = labels[number]
        if len(label) > max_letters:
            half = max_letters // 2
            label = f"{label[: half - 1]}…{label[len(label) - (max_letters - half) :]}"
        full_label = f"<title>{escape(labels[number])}</title>"
        parts.append(text_at(f"{x + 17:.0f}", y - 3, escape(label) + full_label))
    num_rows = math.ceil(len(lines) / columns)
    parts += _reference_lines(levels, y_at)
    parts += [
        f'<path d="M{x_at(x) - 5:.1f} {BOTTOM + 1}h10l-5 -9z" fill="#c22f2f">'
        f"<title>health event at {x:g}</title></path>"
        for x in marks
    ]
    if len(levels) > MAX_LABELLED:
        parts += _reference_legend(levels, num_rows)
        num_rows += len(levels)
    reference_texts = [f"{reference.label} = {reference.value:.4g}" for reference in levels]
    description = "; ".join([f"{title} over {x_label}", *labels, *reference_texts])
    legend_height = 18 * num_rows
    return element(parts, HEIGHT + legend_height + 6, standalone, "" if standalone else description)


def text_at(x: object, y: object, text: str, *attributes: str) -> str:
    """Return a <text> element; the text must be escaped already."""
    return (
        f'<text x="{x}" y="{y}"{"".join(f" {attribute}" for attribute in attributes)}>{text}</text>'
    )


def headings(title: str, note: str, x: int = LEFT, ys: tuple[int, int] = (18, 33)) -> list[str]:
    """Return the heading of a chart and the note below it."""
    return [
        text_at(x, ys[0], escape(title), 'font-size="15"', 'font-weight="600"'),
        text_at(x, ys[1], escape(note), 'font-size="11"', PALE),
    ]


def _tick_line(y: float, tick: float) -> list[str]:
    line = f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".15"/>'
    return [line, text_at(LEFT - 6, f"{y + 4:.1f}", f"{tick:g}", END)]


def escape(text: str) -> str:
    """Return a text escaped for markup, control characters included."""
    return html.escape(escape_controls(text, lines=False))


def _axes(
    lines: Sequence[Series], references: Sequence[Reference], x_label: str
) -> tuple[Callable[[float], float], Callable[[float], float], list[str]]:
    """Return (map of x, map of y, grid with its numbers)."""
    xs = [x for s in lines for x, _ in s.points]
    ys = [y for s in lines for _, y in s.points] + [reference.value for reference in references]
    ys += [end for s in lines for _, *ends in s.band for end in ends if math.isfinite(end)]
    ticks_y = ticks(min(ys, default=0.0), max(ys, default=1.0))
    ticks_x = ticks(min(xs, default=0.0), max(xs, default=1.0))
    if all(float(x).is_integer() for x in xs):  # no fractions of a step
        ticks_x = [tick for tick in ticks_x if tick.is_integer()]
    x_at = scale(min(xs, default=0.0), max(xs, default=1.0), LEFT, WIDTH - RIGHT)
    y_at = scale(
        min(ticks_y[0], min(ys, default=0.0)), max(ticks_y[-1], max(ys, default=1.0)), BOTTOM, TOP
    )
    grid = []
    for tick in ticks_y:
        grid += _tick_line(y_at(tick), tick)
    grid += [text_at(f"{x_at(x):.1f}", BOTTOM + 16, f"{x:g}", MIDDLE) for x in ticks_x]
    grid.append(text_at(WIDTH - RIGHT, BOTTOM + 30, html.escape(x_label), END, PALE))
    return x_at, y_at, grid


def _band(
    line: Series, colour: str, x_at: Callable[[float], float], y_at: Callable[[float], float]
) -> list[str]:
    band = [row for row in line.band if all(map(math.isfinite, row))]
    if not band:
        return []
    upper = [f"{x_at(x):.1f},{y_at(high):.1f}" for x, _, high in band]
    lower = [f"{x_at(x):.1f},{y_at(low):.1f}" for x, low, _ in reversed(band)]
    return [f'<polygon points="{" ".join(upper + lower)}" fill="{colour}" opacity=".18"/>']


def _reference_lines(references: Sequence[Reference], y_at: Callable[[float], float]) -> list[str]:
    svg: list[str] = []
    used_heights: list[float] = []
    for reference in sorted(references, key=lambda line: -line.value):
        y = y_at(reference.value)
        svg.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" '
            f'stroke-dasharray="{reference.dashes}" opacity=".75"/>'
        )
        if len(references) > MAX_LABELLED:
            continue
        text_y = y - 4 if y - LINE > TOP - LINE / 2 else y + LINE
        while any(abs(text_y - other) < LINE for other in used_heights):
            text_y += LINE
        used_heights.append(text_y)
        label = f"{escape(reference.label)}: {reference.value:.4g}"
        svg.append(text_at(WIDTH - RIGHT - 2, f"{text_y:.1f}", label, END, ITALIC, 'class="halo"'))
    return svg


def _reference_legend(references: Sequence[Reference], rows: int) -> list[str]:
    svg = []
    for number, reference in enumerate(references, start=rows):
        y = HEIGHT + 8 + 18 * number
        svg.append(
            f'<path d="M{LEFT} {y - 3}h22" stroke="currentColor" '
            f'stroke-dasharray="{reference.dashes}" opacity=".75"/>'
        )
        svg.append(
            text_at(LEFT + 28, y + 1, f"{escape(reference.label)}: {reference.value:.4g}", ITALIC)
        )
    return svg


def _legend_letters(columns: int) -> int:
    return int(((WIDTH - LEFT) / columns - 17) / LETTER)


def element(parts: Sequence[str], height: float, standalone: bool, description: str = "") -> str:
    """Return the <svg> element around the parts of a chart.

    Args:
        parts: elements of the drawing.
        height: height of the drawing.
        standalone: whether the SVG becomes a separate file.
        description: the content of the chart in words.
    """
    colour = ' style="background:#fff;color:#222"' if standalone else ""
    font = 'font-family="system-ui, sans-serif" font-size="11" fill="currentColor"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {font}'
    )
    title = f"<title>{escape(description)}</title>" if description else ""
    return f"{head}{colour}>{title}{''.join(parts)}</svg>"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about ``count`` round numbers that cover [low, high]; an empty range is widened."""
    if not high - low > 1e-12 * max(1.0, abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    raw_step = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw_step))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw_step)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [
        round(index * step, 12)
        for index in range(first, last + 1)
        if low - step / 2 <= index * step <= high + step / 2
    ]


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return the linear map of [low, high] onto [start, end]."""
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _thin(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    if len(points) <= MAX_POINTS:
        return points
    last = len(points) - 1
    return [points[round(index * last / (MAX_POINTS - 1))] for index in range(MAX_POINTS)]


# -- scatter charts

MARK_WIDTH, MARK_HEIGHT = 14, 9  # closer points of a scatter chart share a mark
LEGEND_COLUMNS = 3


def scatter_chart(
    points: Sequence[tuple[str, float, float]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    note: str = "",
    standalone: bool = False,
) -> str:
    """Return a chart of (name, x, y) points as an <svg> element, with a logarithmic x axis.

    Marks are numbered, and the legend has the names. Overlapping points share a mark. Points are
    left out if a number is not finite or x is not above 0.
    """
    dots = [(n, x, y) for n, x, y in points if x > 0 and math.isfinite(x) and math.isfinite(y)]
    powers = [math.log10(x) for _, x, _ in dots] or [0.0]
    low, high = math.floor(min(powers) * 2 - 0.01) / 2, math.ceil(max(powers) * 2 + 0.01) / 2
    top = max((y for *_, y in dots), default=1.0)
    ticks_y = ticks(0.0, top)
    x_at = scale(low, high, LEFT, WIDTH - RIGHT)
    y_at = scale(min(ticks_y[0], 0.0), max(ticks_y[-1], top), BOTTOM, TOP + 6)
    svg = headings(title, f"{y_label}; {note}")
    for tick in ticks_y:
        svg += _tick_line(y_at(tick), tick)
    for half_power in range(round(low * 2), round(high * 2) + 1):
        power = f"{10 ** (half_power / 2):.2g}"
        svg.append(text_at(f"{x_at(half_power / 2):.1f}", BOTTOM + 16, power, MIDDLE))
    svg.append(text_at(WIDTH - RIGHT, BOTTOM + 30, html.escape(x_label), END, PALE))
    marks: list[tuple[float, float]] = []
    rows = math.ceil(len(dots) / LEGEND_COLUMNS)
    for number, (name, x, y) in enumerate(dots):
        mark_x, mark_y = x_at(math.log10(x)), y_at(y)
        close_marks = [
            k
            for k, mark in enumerate(marks)
            if abs(mark[0] - mark_x) < MARK_WIDTH and abs(mark[1] - mark_y) < MARK_HEIGHT
        ]
        mark = close_marks[0] if close_marks else len(marks)
        colour = COLOURS[mark % len(COLOURS)]
        if not close_marks:
            marks.append((mark_x, mark_y))
            svg.append(f'<circle cx="{mark_x:.1f}" cy="{mark_y:.1f}" r="4" fill="{colour}"/>')
            label_x, label_y = f"{mark_x + 6:.1f}", f"{mark_y - 3:.1f}"
            svg.append(text_at(label_x, label_y, str(mark + 1), 'font-size="9"'))
        x_left = LEFT + number // rows * (WIDTH - LEFT) / LEGEND_COLUMNS
        height = HEIGHT + 12 + 14 * (number % rows)
        svg.append(f'<circle cx="{x_left - 6:.0f}" cy="{height - 3.5:.1f}" r="3" fill="{colour}"/>')
        label = f"{mark + 1} {html.escape(name)}"
        svg.append(text_at(f"{x_left:.0f}", height, label, 'font-size="10"'))
    return element(svg, HEIGHT + 14 * rows + 6, standalone)
