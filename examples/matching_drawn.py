"""The environment of matching.py with a picture: two cards, face down until both have chosen."""

from matching import Matching, Play

from sparring.environments.drawing import Card, PaintedPlay, cards, seat_colour, seats

SLOT = "environments"


def matching_drawn():
    """Matching pennies, with a picture."""
    return Drawn()


class Drawn(Matching):
    def reset(self, stream):
        return DrawnPlay()


class DrawnPlay(Play, PaintedPlay):
    def __init__(self):
        self.replies = {}

    def step(self, replies):
        super().step(replies)
        self.replies = dict(replies)

    def paint(self, canvas, seat):  # seat: the viewer's seat; None: a reader who sees everything
        seats(canvas, Drawn.roles, self.due())
        for index, role in enumerate(Drawn.roles):
            cards(canvas, role, [Card(self.replies.get(index, ""))], colour=seat_colour(index))

    def described(self, seat):  # the picture in words, for people who cannot see it
        if self.done:
            return f"left chose {self.replies[0]}, right chose {self.replies[1]}."
        return "left and right must now choose a side at the same time."
