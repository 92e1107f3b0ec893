"""Interface of oracle plug-ins, which return verdicts on all legal actions, and base classes."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NoReturn, Protocol, runtime_checkable

from sparring.config.plugins.guard import PluginCall
from sparring.config.plugins.registry import bind, named
from sparring.core.errors import OracleError, PluginError
from sparring.core.records import SolverResult, Verdict
from sparring.core.rng import Stream
from sparring.environments.base import Environment, Searchable, SearchablePlay, is_searchable
from sparring.environments.foreign import reason_not_searchable

# most cached verdicts per game; a full cache is cleared, which costs time and changes no verdict
MAX_CACHED = 200_000
TIE = 1e-9  # values closer than this, relative to the largest, are equally good


class Oracle(Protocol):
    """Judges the decisions of one game."""

    name: str

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""
        ...

    def judge(
        self, states: Sequence[SearchablePlay], streams: Sequence[Stream] | None = None
    ) -> list[Verdict | None]:
        """Return a verdict per state for the seat that is to act; None where the oracle abstains.

        Args:
            states: states in which a seat is to act.
            streams: one per state, for oracles with random errors; other oracles ignore them.

        Raises:
            OracleError: a state is finished, or its game is not covered.
        """
        ...


@runtime_checkable
class PlayOracle(Protocol):
    """An oracle that judges episodes of any environment, see ``environments.situation``."""

    reads_plays: bool

    def covers(self, game: Environment) -> str:
        """Return why this environment cannot be judged, or ""."""
        ...


def reason_not_judged(oracle: Oracle, game: Environment) -> str:
    """Return the reason why an oracle cannot judge an environment, or "" if it can.

    Only oracles with ``reads_plays`` can judge environments that are not OpenSpiel games.
    """
    if isinstance(oracle, PlayOracle) and oracle.reads_plays:
        return oracle.covers(game)
    return oracle.covers(game) if is_searchable(game) else reason_not_searchable(game)


def verdict_from_solver(actions: Sequence[str], solver_result: SolverResult) -> Verdict:
    """Return a solver's result as the verdict on these legal actions.

    Raises:
        ValueError: the number of values, or of entries in ``best``, is not the number of actions.
    """
    result = make_verdict(
        actions, solver_result.values, certainty=solver_result.certainty, bound=solver_result.bound
    )
    best = result.best
    if solver_result.best is not None:
        best = frozenset(
            action for action, is_best in zip(actions, solver_result.best, strict=True) if is_best
        )
    return replace(result, best=best, entropy=solver_result.entropy)


def judge_states(
    oracle: Oracle, states: Sequence[SearchablePlay], streams: Sequence[Stream] | None = None
) -> list[Verdict | None]:
    """Call an oracle, check its output, and return its verdicts on these states.

    Raises:
        PluginError: the oracle raised, or did not return one verdict per state with one finite
            value per legal action.
        OracleError: the oracle cannot judge a state.
    """
    with PluginCall(named("oracles", oracle.name)) as call:
        results = oracle.judge(states, streams)
    if len(results) != len(states):
        raise PluginError(
            f"The {call} must return one verdict per state, {len(states)} here; it returned "
            f"{len(results)}."
        )
    for state, result in zip(states, results, strict=True):
        if result is not None and (
            len(result.values) != len(result.actions) or not all(map(math.isfinite, result.values))
        ):
            state_text = f"a state of {state.game.name!r} at ply {state.plies}"
            raise PluginError(
                f"The {call} must return one finite value per legal action; for {state_text} it "
                f"returned {result.values}."
            )
    return results


def make_verdict(
    actions: Sequence[str], values: Sequence[float], *, certainty: float = 1.0, bound: float = 0.0
) -> Verdict:
    """Return the verdict whose best actions are those of the largest value.

    Args:
        actions: the legal actions.
        values: value of each action for the acting seat, in the game's units.
        certainty: in [0, 1]; 1 is exact.
        bound: bound on the error of a value.
    """
    largest = max(values)
    tolerance = TIE * max(1.0, abs(largest))
    pairs = zip(actions, values, strict=True)
    best = frozenset(action for action, value in pairs if value >= largest - tolerance)
    return Verdict(
        actions=tuple(actions),
        values=tuple(map(float, values)),
        best=best,
        certainty=certainty,
        bound=bound,
    )


def has_hidden_information(game: Searchable) -> bool:
    """Return whether a game has hidden information."""
    return not game.perfect_information


def widen_best(verdict: Verdict, margin: float) -> Verdict:
    """Return the verdict whose best actions are all within ``margin`` of the largest value."""
    largest = max(verdict.values)
    threshold = largest - (margin + TIE * max(1.0, abs(largest)))
    best = frozenset(
        action
        for action, value in zip(verdict.actions, verdict.values, strict=True)
        if value >= threshold
    )
    return replace(verdict, best=best)


class CachedOracle:
    """Base class of oracles whose verdict depends only on the game and the state.

    Subclasses define ``covers`` and ``compute_verdicts``, and may override ``prepare`` and ``key``.
    """

    name = ""

    def __init__(self, name: str = "") -> None:
        self.name = name or self.name
        self.counts: Counter[str] = Counter()
        self._caches: dict[
            tuple[type[Searchable], str, tuple[str, ...]], dict[str, Verdict | None]
        ] = {}
        self._game: Searchable | None = None
        self._cache: dict[str, Verdict | None] = {}
        self._has_hidden_information = False

    @abstractmethod
    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""

    @abstractmethod
    def compute_verdicts(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state, or None to abstain.

        Args:
            states: distinct states of one game, each with a seat to act.
        """

    def key(self, state: SearchablePlay) -> str:
        """Return the cache key of a state; states with equal keys share a verdict.

        The key holds the seat with the printed board or, with hidden information, the seat's
        information state.
        """
        is_hidden = self._has_hidden_information
        return f"{state.seat}\n{state.game.key(state, state.seat) if is_hidden else state.node}"

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers of states: ``judged``; of these ``abstained``, and ``searched`` (not cached)."""
        return {
            "judged": 0.0,
            "abstained": 0.0,
            "searched": 0.0,
            **{name: float(count) for name, count in self.counts.items()},
        }

    def judge(
        self, states: Sequence[SearchablePlay], streams: Sequence[Stream] | None = None
    ) -> list[Verdict | None]:
        """Return a verdict per state for the seat that is to act; None where the oracle abstains.

        Args:
            states: states in which a seat is to act.
            streams: ignored.

        Raises:
            OracleError: a state is finished or waits for chance, or its game is not covered.
        """
        verdicts: list[Verdict | None] = []
        for _, group in groupby(states, attrgetter("game")):
            verdicts += self._judge(list(group))
        self.counts["judged"] += len(verdicts)
        self.counts["abstained"] += verdicts.count(None)
        return verdicts

    def _judge(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        self.select_game(states[0].game)
        cache, key_of = self._cache, self.key
        keys = [key_of(state) if state.seat >= 0 else self._raise_error(state) for state in states]
        try:
            return [cache[key] for key in keys]
        except KeyError:
            self._fill(dict(zip(keys, states, strict=True)))
        return [cache[key] for key in keys]

    def _fill(self, states: dict[str, SearchablePlay]) -> None:
        cache = self._cache
        missing_keys = [key for key in states if key not in cache]
        self.counts["searched"] += len(missing_keys)
        new_verdicts = self.compute_verdicts([states[key] for key in missing_keys])
        if len(cache) + len(missing_keys) > MAX_CACHED:
            needed_verdicts = {key: cache[key] for key in states if key in cache}
            cache.clear()
            cache.update(needed_verdicts)
        cache.update(zip(missing_keys, new_verdicts, strict=True))

    def select_game(self, game: Searchable) -> None:
        """Select the game of the next calls; games of equal rules and action names share a cache.

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
        self._game, self._cache = game, self._caches[rules]
        self._has_hidden_information = has_hidden_information(game)
        self.prepare(game)

    def prepare(self, game: Searchable) -> None:
        """Prepare for a covered game that differs from the last one."""

    def _raise_error(self, state: SearchablePlay) -> NoReturn:
        reason = "is finished" if state.done else "waits for chance"
        raise OracleError(
            f"Oracle {self.name!r} cannot judge a state of {state.game.name!r} that {reason}, at "
            f"ply {state.plies}; judge states in which a seat is to act."
        )


@dataclass(kw_only=True, eq=False)
class WrappingOracle(CachedOracle):
    """Base class of oracles around an inner oracle, which decides which games are covered.

    Args:
        oracle: name of the inner oracle.
        options: options of the inner oracle, by name; None: the defaults.
    """

    oracle: str
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self.inner: Oracle = bind("oracles", self.oracle, self.options)()

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""
        return self.inner.covers(game)

    def select_game(self, game: Searchable) -> None:
        """Select a game, also for the inner oracle."""
        super().select_game(game)
        if isinstance(self.inner, CachedOracle):
            self.inner.select_game(game)

    def key(self, state: SearchablePlay) -> str:
        """Return the key of the inner oracle, if that oracle has keys."""
        inner = self.inner
        return inner.key(state) if isinstance(inner, CachedOracle) else super().key(state)
