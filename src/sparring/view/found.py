"""Stored episodes that a page looks at: read once for all that is asked about them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from sparring.errors import SparringError
from sparring.rollout.credit_store import Credits, CreditStore
from sparring.rollout.parts import DAMAGED
from sparring.rollout.store import EpisodeStore
from sparring.types import Episode
from sparring.view.answers import Refused
from sparring.view.index import CREDIT, EPISODES, why_left_out
from sparring.view.learned import credit_of
from sparring.view.plain_files import Signature, signature
from sparring.view.runs import Run

KEPT = 8  # episodes: a page asks for one, its pictures and its policy's probabilities
Key = tuple[str, int, int, Signature | None, Signature | None]


class Found(NamedTuple):
    """A stored episode, with what was learned of it."""

    episode: Episode
    credit: Credits


class Episodes:
    """The episodes that were read last; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, Found] = OrderedDict()

    def find(self, run: Run, step: int, number: int) -> Found:
        """Return a stored episode; it is read again when its files have changed.

        Args:
            run: that played it.
            step: it was played in.
            number: of the episode.

        Raises:
            Refused: there is none, or its part cannot be read.
        """
        path = EpisodeStore(run.path / EPISODES).path(step)
        credit = CreditStore(run.path / CREDIT).path(step)
        key = (str(path), step, number, signature(path), signature(credit))
        with self._lock:
            known = self._known.get(key)
        if known is not None and run.keeps(EPISODES):
            return known
        found = _read(run, step, number)
        with self._lock:
            self._known[key] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found


def _read(run: Run, step: int, number: int) -> Found:
    """Return a stored episode.

    Raises:
        Refused: there is none, or its part cannot be read.
    """
    store = EpisodeStore(run.path / EPISODES)
    path = store.path(step)
    if not path.is_file() or not run.keeps(EPISODES):
        raise Refused(404, f"step {step} is not stored, or no longer")
    try:
        episode = store.one(step, number)
    except (SparringError, *DAMAGED) as error:
        raise Refused(404, f"{path.name} cannot be read: {why_left_out(error, path)}") from None
    if episode is None:
        raise Refused(404, f"step {step} has no episode {number}")
    return Found(episode, credit_of(run, step, number))
