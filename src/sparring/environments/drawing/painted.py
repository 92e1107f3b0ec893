"""What turns a play that can paint itself into one that is ``Drawable``."""

from __future__ import annotations

from abc import abstractmethod

from sparring.environments.drawing.canvas import Canvas, Theme


class Painted:
    """Base of plays that say how they are drawn by ``paint`` and in words by ``described``."""

    __slots__ = ()

    @abstractmethod
    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the position as a seat sees it; None: nothing is hidden."""

    @abstractmethod
    def described(self, seat: int | None) -> str:
        """Return the position in a sentence or two, as a seat knows it; None: nothing is hidden."""

    def draw(self, seat: int | None, theme: Theme = "light") -> str:
        """Return the position as SVG, as a seat sees it; None: nothing is hidden.

        Args:
            seat: who looks.
            theme: "light" or "dark".
        """
        canvas = Canvas(theme)
        self.paint(canvas, seat)
        return canvas.svg(self.described(seat))
