"""The base of oracles.

It refuses what cannot be judged, judges every position once, counts what became of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import NoReturn

from sparring.environments.openspiel.base import Game, State
from sparring.errors import OracleError
from sparring.oracles.base import TIE
from sparring.rng import Stream
from sparring.types import Verdict

# verdicts remembered per game; then all are forgotten, which costs time and changes nothing
KEPT = 200_000


def hides(game: Game) -> bool:
    """Return whether something is hidden from a seat."""
    return not game.perfect_information


def widened(verdict: Verdict, margin: float) -> Verdict:
    """Return the verdict with all near-best actions among the best.

    They are worth at most ``margin`` less than the best one.
    """
    least = max(verdict.values)
    least -= margin + TIE * max(1.0, abs(least))
    best = frozenset(
        action
        for action, value in zip(verdict.actions, verdict.values, strict=True)
        if value >= least
    )
    return replace(verdict, best=best)


class CachedOracle:
    """Base of oracles whose verdict is a function of the game and the position alone.

    Subclasses give ``covers`` and ``opinions``, and may give ``entered`` and another ``key``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self._caches: dict[tuple[type[Game], str, tuple[str, ...]], dict[str, Verdict | None]] = {}
        self._game: Game | None = None
        self._cache: dict[str, Verdict | None] = {}
        self._hidden = False

    @abstractmethod
    def covers(self, game: Game) -> str:
        """Return why this game cannot be judged, or ""."""

    @abstractmethod
    def opinions(self, states: Sequence[State]) -> list[Verdict | None]:
        """Return a verdict per state, or None to abstain.

        States are all of one game, of different positions, each with a seat to act.
        """

    def key(self, state: State) -> str:
        """Return a string that is equal for two states of a game exactly when they get one verdict.

        It holds the seat, with the printed board or, where something is hidden, what the seat
        knows.
        """
        return f"{state.seat}\n{state.game.key(state, state.seat) if self._hidden else state.node}"

    @property
    def metrics(self) -> dict[str, float]:
        """Counts so far, the oracle's own among them.

        ``judged`` states, ``abstained`` among them, ``searched`` positions new to the cache.
        """
        return {
            "judged": 0.0,
            "abstained": 0.0,
            "searched": 0.0,
            **{name: float(count) for name, count in self.counts.items()},
        }

    def judge(
        self, states: Sequence[State], streams: Sequence[Stream] | None = None
    ) -> list[Verdict | None]:
        """Return a verdict per state on the seat that is to act; None where the oracle abstains.

        ``streams`` are not read.

        Raises:
            OracleError: a state is finished, waits for chance, or is of a game that is not covered.
        """
        out: list[Verdict | None] = []
        for _, group in groupby(states, attrgetter("game")):
            out += self._judge(list(group))
        self.counts["judged"] += len(out)
        self.counts["abstained"] += out.count(None)
        return out

    def _judge(self, states: Sequence[State]) -> list[Verdict | None]:
        """Return verdicts on states of one game."""
        self.enter(states[0].game)
        cache, key = self._cache, self.key
        keys = [key(state) if state.seat >= 0 else self._refuse(state) for state in states]
        try:
            return [cache[key] for key in keys]
        except KeyError:
            self._fill(dict(zip(keys, states, strict=True)))
        return [cache[key] for key in keys]

    def _fill(self, states: dict[str, State]) -> None:
        """Put verdicts on states, by key, into the cache where it lacks them."""
        cache = self._cache
        missing = [key for key in states if key not in cache]
        self.counts["searched"] += len(missing)
        found = self.opinions([states[key] for key in missing])
        if len(cache) + len(missing) > KEPT:
            known = {key: cache[key] for key in states if key in cache}
            cache.clear()
            cache.update(known)
        cache.update(zip(missing, found, strict=True))

    def enter(self, game: Game) -> None:
        """Turn to a game, before ``key`` is asked.

        Games of the same rules and words share what is remembered.

        Raises:
            OracleError: the game is not covered.
        """
        if game is self._game:
            return
        rules = type(game), game.rules_key, game.words
        if rules not in self._caches:
            reason = self.covers(game)
            if reason:
                raise OracleError(f"Oracle {self.name!r} cannot judge {game.name!r}: {reason}")
            self._caches[rules] = {}
        self._game, self._cache, self._hidden = game, self._caches[rules], hides(game)
        self.entered(game)

    def entered(self, game: Game) -> None:
        """Make ready for a game that is covered and was not the last one."""

    def _refuse(self, state: State) -> NoReturn:
        """Raise the error of a state in which no seat is to act."""
        why = "is finished" if state.done else "waits for chance"
        raise OracleError(
            f"Oracle {self.name!r} was asked about a state of {state.game.name!r} that {why}, at "
            f"ply {state.plies}; judge states in which a seat is to act."
        )
