"""Pictures as SVG: a canvas grows downwards, and each part is drawn below the previous part.

Pictures are safe to show anywhere: they have no script, style, link or external reference, and all
text is escaped. Colours have names, so that one drawing gives a light and a dark picture.
"""

from __future__ import annotations

import html
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from sparring.core.errors import UnknownNameError
from sparring.environments.base import Theme as Theme
from sparring.environments.drawing.words import line_with_blanks, shorten, visible_text

WIDTH = 400.0  # width in units, shown at 320 to 480 pixels
EDGE = 12.0  # margin on each side, in units
GAP = 8.0  # distance between two parts, in units
BOLD = 1.12  # relative width of bold letters
SEAT_COLOURS = ("blue", "orange", "green", "pink", "sky", "red")  # colours of the seats, in order

# palette of Okabe and Ito, for colour-blind readers
HUES = {
    "blue": "#0072b2",
    "orange": "#e69f00",
    "green": "#009e73",
    "pink": "#cc79a7",
    "sky": "#56b4e9",
    "red": "#d55e00",
    "yellow": "#f0e442",
}
THEMES: Mapping[Theme, Mapping[str, str]] = {
    "light": {
        **HUES,
        "paper": "#ffffff",
        "panel": "#f0f2f5",
        "rule": "#b4bac4",
        "dim": "#57606d",
        "ink": "#16191e",
        "black": "#16191e",
        "white": "#ffffff",
        "none": "none",
    },
    "dark": {
        **HUES,
        "blue": "#3b94d1",  # lighter than in the light theme
        "sky": "#8ccdf2",
        "paper": "#15181d",
        "panel": "#252a32",
        "rule": "#525b69",
        "dim": "#a6afbd",
        "ink": "#eceff4",
        "black": "#16191e",
        "white": "#ffffff",
        "none": "none",
    },
}
_ROOT = re.compile(r'<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(?:<title>[^<]*</title>)?')


def text_hue(hue: str) -> str:
    """Return the best colour for text on a shape of colour ``hue``."""
    return "white" if hue == "blue" else "black" if hue in HUES else "ink"


def seat_colour(seat: int) -> str:
    """Return the colour of a seat."""
    return SEAT_COLOURS[seat % len(SEAT_COLOURS)]


class Canvas:
    """A drawing that grows downwards; ``y`` is the top of the next part.

    Args:
        theme: "light" or "dark".

    Raises:
        UnknownNameError: there is no such theme.
    """

    def __init__(self, theme: Theme) -> None:
        if theme not in THEMES:
            raise UnknownNameError("theme", str(theme), get_args(Theme))
        self.theme, self.colours, self.y = theme, THEMES[theme], EDGE
        self._parts: list[str] = []

    def reserve(self, height: float) -> float:
        """Reserve a height for the next part, and return the part's top."""
        top, self.y = self.y, self.y + height + GAP
        return top

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 15,
        colour: str = "ink",
        anchor: Literal["start", "middle", "end"] = "start",
        bold: bool = False,
        width: float = WIDTH - 2 * EDGE,
    ) -> None:
        """Write one line.

        Args:
            x: position of the start, middle or end of the line, by ``anchor``.
            y: position of the base line.
            words: any text; it is shortened to ``width``.
            size: size of the letters, in units.
            colour: name of a colour of the theme.
            anchor: the point of the line at ``x``.
            bold: whether the text is bold.
            width: largest width, in units.
        """
        if not words:
            return
        weight = ' font-weight="700"' if bold else ""
        anchor_attribute = f' text-anchor="{anchor}"' if anchor != "start" else ""
        content = html.escape(shorten(words, size, width))
        self._parts.append(
            f'<text x="{_fmt(x)}" y="{_fmt(y)}" font-size="{_fmt(size)}"{anchor_attribute}{weight} '
            f'fill="{self.colours[colour]}">{content}</text>'
        )

    def monospaced(self, x: float, y: float, words: str, *, size: float = 14) -> None:
        """Write one line in a monospaced font; blanks are kept, as in a text board."""
        num_letters = int((WIDTH - x - EDGE) / (0.61 * size))
        line = line_with_blanks(words)
        shorter_line = f"{line[: num_letters - 1]}…"
        content = html.escape(line if len(line) <= num_letters else shorter_line)
        self._parts.append(
            f'<text x="{_fmt(x)}" y="{_fmt(y)}" font-size="{_fmt(size)}" '
            f'font-family="ui-monospace, Menlo, Consolas, Liberation Mono, monospace" '
            f'fill="{self.colours["ink"]}">{content}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "none",
        edge: str = "none",
        corner: float = 0,
        thick: float = 1,
        dashed: bool = False,
    ) -> None:
        """Draw a rectangle; ``fill`` and ``edge`` are names of colours of the theme."""
        open_tag = (
            f'<rect x="{_fmt(x)}" y="{_fmt(y)}" width="{_fmt(width)}" height="{_fmt(height)}"'
        )
        open_tag += f' rx="{_fmt(corner)}"' if corner else ""
        self._add_shape(open_tag, fill, edge, thick, dashed)

    def disc(
        self,
        x: float,
        y: float,
        radius: float,
        *,
        fill: str = "none",
        edge: str = "none",
        thick: float = 1,
    ) -> None:
        """Draw a circle around a point."""
        open_tag = f'<circle cx="{_fmt(x)}" cy="{_fmt(y)}" r="{_fmt(radius)}"'
        self._add_shape(open_tag, fill, edge, thick, False)

    def polygon(self, points: Sequence[tuple[float, float]], *, fill: str) -> None:
        """Fill the area within points."""
        self._add_shape(
            f'<polygon points="{" ".join(f"{_fmt(x)},{_fmt(y)}" for x, y in points)}"', fill
        )

    def line(
        self,
        x: float,
        y: float,
        to_x: float,
        to_y: float,
        *,
        colour: str = "rule",
        thick: float = 1,
    ) -> None:
        """Draw a straight line."""
        open_tag = f'<path d="M{_fmt(x)} {_fmt(y)}L{_fmt(to_x)} {_fmt(to_y)}"'
        self._add_shape(open_tag, "none", colour, thick, False)

    def _add_shape(
        self, open_tag: str, fill: str, edge: str = "none", thick: float = 1, dashed: bool = False
    ) -> None:
        stroke = "" if edge == "none" else f' stroke="{self.colours[edge]}"'
        stroke += f' stroke-width="{_fmt(thick)}"' if stroke and thick != 1 else ""
        stroke += ' stroke-dasharray="4 3"' if stroke and dashed else ""
        self._parts.append(f'{open_tag} fill="{self.colours[fill]}"{stroke}/>')

    def inset(self, svg: str) -> None:
        """Put a picture, scaled to the width of the canvas, below the other parts.

        The picture must be an ``svg`` with a ``viewBox`` from 0 0, as a canvas makes it; otherwise
        a note replaces it.
        """
        match = _ROOT.match(svg)
        if match is None or not svg.endswith("</svg>"):
            self.text(EDGE, self.reserve(18) + 14, "(a picture that cannot be shown here)")
            return
        inner_width, inner_height = float(match[1]), float(match[2])
        height = inner_height * WIDTH / inner_width if inner_width else 0.0
        top = self.reserve(height)
        self._parts.append(
            f'<svg x="0" y="{_fmt(top)}" width="{_fmt(WIDTH)}" height="{_fmt(height)}" '
            f'viewBox="0 0 {_fmt(inner_width)} {_fmt(inner_height)}">{svg[match.end() :]}'
        )

    def svg(self, sentence: str) -> str:
        """Return the picture.

        Args:
            sentence: description of the picture in words.
        """
        sentence = html.escape(visible_text(sentence))
        height = _fmt(max(self.y - GAP + EDGE, 2 * EDGE))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_fmt(WIDTH)} {height}" '
            f'width="{_fmt(WIDTH)}" height="{height}" role="img" aria-label="{sentence}" '
            'font-family="system-ui, -apple-system, Segoe UI, Roboto, Liberation Sans, sans-serif">'
            f"<title>{sentence}</title>"
            f'<rect width="{_fmt(WIDTH)}" height="{height}" fill="{self.colours["paper"]}"/>'
            f"{''.join(self._parts)}</svg>"
        )


def _fmt(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


class PaintedPlay:
    """Base of plays with a picture by ``paint`` and a description by ``described``."""

    __slots__ = ()

    @abstractmethod
    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the position as a seat sees it; seat None: nothing is hidden."""

    @abstractmethod
    def described(self, seat: int | None) -> str:
        """Return the position in one or two sentences; seat None: nothing is hidden."""

    def draw(self, seat: int | None, theme: Theme = "light") -> str:
        """Return the position as SVG.

        Args:
            seat: the seat that looks; None: nothing is hidden.
            theme: "light" or "dark".
        """
        canvas = Canvas(theme)
        self.paint(canvas, seat)
        return canvas.svg(self.described(seat))
