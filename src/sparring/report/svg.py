"""Line charts as SVG text, readable on light and dark pages."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

COLOURS = ("#2f7ed8", "#d9622b", "#2a9d5c", "#b04fc4", "#c9a227", "#d64570", "#159ba6", "#7a7a7a")
WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP = 56, 14, 40
MAX_POINTS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """A named line: (x, y) pairs in order of x."""

    name: str
    points: Sequence[tuple[float, float]]


def line_chart(series: Sequence[Series], *, title: str, note: str = "", x_label: str = "step", standalone: bool = False) -> str:
    """Return a chart as an <svg> element.

    Args:
        series: the lines; points that are not finite are left out.
        title: heading.
        note: a word about units, beside the heading.
        x_label: name of the horizontal axis.
        standalone: whether the SVG is to be a file of its own.
    """
    lines = [Series(name=s.name, points=_thin([p for p in s.points if math.isfinite(p[1])])) for s in series]
    lines = [line for line in lines if line.points]
    xs, ys = [x for s in lines for x, _ in s.points], [y for s in lines for _, y in s.points]
    bottom = HEIGHT - 34
    legend = 18 * math.ceil(len(lines) / 2)
    ticks_y, ticks_x = ticks(min(ys, default=0.0), max(ys, default=1.0)), ticks(min(xs, default=0.0), max(xs, default=1.0))
    x_at = _scale(min(xs, default=0.0), max(xs, default=1.0), LEFT, WIDTH - RIGHT)
    y_at = _scale(min(ticks_y[0], min(ys, default=0.0)), max(ticks_y[-1], max(ys, default=1.0)), bottom, TOP)
    out = [f'<text x="{LEFT}" y="18" font-size="15" font-weight="600">{html.escape(title)}</text>']
    out.append(f'<text x="{LEFT}" y="33" font-size="11" opacity=".7">{html.escape(note)}</text>')
    for tick in ticks_y:
        y = y_at(tick)
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".15"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    out += [f'<text x="{x_at(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>' for tick in ticks_x]
    out.append(f'<text x="{WIDTH - RIGHT}" y="{bottom + 30}" text-anchor="end" opacity=".7">{html.escape(x_label)}</text>')
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in line.points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"/>')
        x, y = LEFT + (number % 2) * (WIDTH - LEFT) / 2, HEIGHT + 12 + 18 * (number // 2)
        out.append(f'<rect x="{x:.0f}" y="{y - 9}" width="12" height="4" fill="{colour}"/>')
        out.append(f'<text x="{x + 17:.0f}" y="{y - 3}">{html.escape(line.name)} = {line.points[-1][1]:.4g}</text>')
    size = f'viewBox="0 0 {WIDTH} {HEIGHT + legend + 6}"'
    colour = ' style="background:#fff;color:#222"' if standalone else ""
    font = 'font-family="system-ui, sans-serif" font-size="11" fill="currentColor"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}'
    return f"{head}{colour}>{''.join(out)}</svg>"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about ``count`` round numbers that cover [low, high]."""
    if not high > low:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(index * step, 12) for index in range(first, last + 1) if low - step / 2 <= index * step <= high + step / 2]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return the linear map of [low, high] onto [start, end]."""
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _thin(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return at most MAX_POINTS points, the last one among them."""
    stride = max(1, math.ceil(len(points) / MAX_POINTS))
    return [*points[::-1][::stride]][::-1]
