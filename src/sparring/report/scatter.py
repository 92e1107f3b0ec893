"""Scatter charts as SVG text."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from sparring.report.svg import COLOURS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, element, scale, ticks

MARK_WIDTH, MARK_HEIGHT = 14, 9  # points of a scatter chart closer than this share a mark
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
        scale(low, high, LEFT, WIDTH - RIGHT),
        scale(min(ticks_y[0], 0.0), max(ticks_y[-1], top), bottom, TOP + 6),
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
    return element(out, HEIGHT + 14 * rows + 6, standalone)
