"""Base class of plays in which one seat answers one question in free text."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from sparring.environments.drawing.canvas import Canvas, PaintedPlay
from sparring.environments.drawing.pieces import due_sentence, heading, paragraph, seats
from sparring.environments.drawing.words import wrap_text


class QuestionPlay(PaintedPlay):
    """A play with one question and one answer.

    A subclass defines ``question_text``, ``observe``, ``read``, ``sample``, and ``step``, which
    sets ``answer``.

    Attributes:
        kind: name of the question in pictures.
        lines: largest number of lines of the question in a picture.
        rules: the environment.
        start: the initial state; its ``answer`` is the right answer.
        answer: the seat's answer; None before the answer.
    """

    kind, lines = "question", 6

    def __init__(self, rules: Any, start: Any, answer: str | None = None) -> None:
        self.rules, self.start, self.answer = rules, start, answer

    @abstractmethod
    def question_text(self) -> str:
        """Return the question in words."""

    def clone(self) -> Self:
        """Return an independent copy."""
        return type(self)(self.rules, self.start, self.answer)

    @property
    def done(self) -> bool:
        """Whether the question is answered."""
        return self.answer is not None

    @property
    def returns(self) -> tuple[float]:
        """1 for the right answer, else 0."""
        return (float(self.answer == str(self.start.answer)),)

    def due(self) -> tuple[int, ...]:
        """Return the seat, or () after its answer."""
        return () if self.done else (0,)

    def legal(self, seat: int) -> None:
        """Return None: any text is legal."""
        return

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the question and the seat's answer; for seat None the right answer too."""
        seats(canvas, self.rules.roles, self.due())
        heading(canvas, self.kind.capitalize())
        paragraph(canvas, self.question_text(), most=self.lines)
        if self.answer is not None:
            paragraph(canvas, f"Answered: {self.answer}")
        if seat is None:
            paragraph(canvas, f"The answer is {self.start.answer}.", colour="dim")

    def described(self, seat: int | None) -> str:
        """Return the question and the seat's answer; for seat None the right answer too."""
        parts = [due_sentence([self.rules.roles[seat_due] for seat_due in self.due()])]
        parts.append(f"The {self.kind}: {self.question_text()}")
        if self.answer is not None:
            parts.append(f"Answered: {wrap_text(self.answer, 1, 60, 1)[0]}.")
        if seat is None:
            parts.append(f"The answer is {self.start.answer}.")
        return " ".join(parts)
