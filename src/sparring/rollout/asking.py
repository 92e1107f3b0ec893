"""Work that asks for plays, and goes on when it has them: a generator.

It yields the games that it wants, and is sent their rollout. Whoever runs it decides when and where
they are played: at once, as ``answered`` does, or by workers, while other work goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from sparring.rollout.play import Rollout
from sparring.rollout.spec import EpisodeSpec

T = TypeVar("T")
Asking = Generator[list[EpisodeSpec], Rollout, T]


def answered(asking: Asking[T], play: Callable[[list[EpisodeSpec]], Rollout]) -> T:
    """Return what work comes to, its games played as soon as it asks for them.

    Args:
        asking: the work.
        play: plays games.
    """
    try:
        wanted = next(asking)
        while True:
            wanted = asking.send(play(wanted))
    except StopIteration as done:
        result: T = done.value
        return result
