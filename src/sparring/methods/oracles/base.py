"""What an oracle is: states in, a verdict on every legal action out; and what all oracles share."""

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
from sparring.core.records import Judgement, Verdict
from sparring.core.rng import Stream
from sparring.environments.base import Environment, Searchable, SearchablePlay, is_searchable
from sparring.environments.foreign import no_rules

# verdicts remembered per game; then all are forgotten, which costs time and changes nothing
KEPT = 200_000
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
        """Return a verdict per state on the seat that is to act; None where the oracle abstains.

        ``streams``, one per state, are for oracles that err by chance; the verdicts of all others
        depend on the state alone.

        Raises:
            OracleError: a state is finished, or of a game that is not covered.
        """
        ...


@runtime_checkable
class PlayOracle(Protocol):
    """An oracle that judges plays of any environment, see ``environments.situation``."""

    reads_plays: bool

    def covers(self, game: Environment) -> str:
        """Return why this environment cannot be judged, or ""."""
        ...


def hindrance(oracle: Oracle, game: Environment) -> str:
    """Return why an oracle cannot judge an environment, or "".

    All but those that read plays (``reads_plays``) work on games over OpenSpiel alone.
    """
    if isinstance(oracle, PlayOracle) and oracle.reads_plays:
        return oracle.covers(game)
    return oracle.covers(game) if is_searchable(game) else no_rules(game)


def verdict_of(actions: Sequence[str], judgement: Judgement) -> Verdict:
    """Return a judgement as the verdict on these legal actions.

    Raises:
        ValueError: not one value, or not one answer in ``best``, per action.
    """
    found = verdict(actions, judgement.values, certainty=judgement.certainty, bound=judgement.bound)
    best = found.best
    if judgement.best is not None:
        best = frozenset(
            action for action, good in zip(actions, judgement.best, strict=True) if good
        )
    return replace(found, best=best, entropy=judgement.entropy)


def verdicts(
    oracle: Oracle, states: Sequence[SearchablePlay], streams: Sequence[Stream] | None = None
) -> list[Verdict | None]:
    """Return what an oracle says of these states, as a call that is watched.

    Raises:
        PluginError: it raised, or gave anything but one verdict per state with one finite value per
            legal action.
        OracleError: it refuses a state.
    """
    with PluginCall(named("oracles", oracle.name)) as call:
        found = oracle.judge(states, streams)
    if len(found) != len(states):
        raise PluginError(
            f"The {call} must give one verdict per state, {len(states)} here; it gave {len(found)}."
        )
    for state, said in zip(states, found, strict=True):
        if said is not None and (
            len(said.values) != len(said.actions) or not all(map(math.isfinite, said.values))
        ):
            where = f"a state of {state.game.name!r} at ply {state.plies}"
            raise PluginError(
                f"The {call} must give one finite value per legal action; of {where} it "
                f"said {said.values}."
            )
    return found


def verdict(
    actions: Sequence[str], values: Sequence[float], *, certainty: float = 1.0, bound: float = 0.0
) -> Verdict:
    """Return the verdict whose best actions are those of the largest value.

    Args:
        actions: the legal actions.
        values: what each is worth to the seat that acts, in the game's units.
        certainty: in [0, 1]; 1 is exact.
        bound: how far a value may be from the truth.
    """
    top = max(values)
    tie = TIE * max(1.0, abs(top))
    best = frozenset(
        action for action, value in zip(actions, values, strict=True) if value >= top - tie
    )
    return Verdict(
        actions=tuple(actions),
        values=tuple(map(float, values)),
        best=best,
        certainty=certainty,
        bound=bound,
    )


def hides(game: Searchable) -> bool:
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

    name = ""

    def __init__(self, name: str = "") -> None:
        self.name = name or self.name
        self.counts: Counter[str] = Counter()
        self._caches: dict[
            tuple[type[Searchable], str, tuple[str, ...]], dict[str, Verdict | None]
        ] = {}
        self._game: Searchable | None = None
        self._cache: dict[str, Verdict | None] = {}
        self._hidden = False

    @abstractmethod
    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""

    @abstractmethod
    def opinions(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state, or None to abstain.

        States are all of one game, of different positions, each with a seat to act.
        """

    def key(self, state: SearchablePlay) -> str:
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
        self, states: Sequence[SearchablePlay], streams: Sequence[Stream] | None = None
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

    def _judge(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        self.enter(states[0].game)
        cache, key = self._cache, self.key
        keys = [key(state) if state.seat >= 0 else self._refuse(state) for state in states]
        try:
            return [cache[key] for key in keys]
        except KeyError:
            self._fill(dict(zip(keys, states, strict=True)))
        return [cache[key] for key in keys]

    def _fill(self, states: dict[str, SearchablePlay]) -> None:
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

    def enter(self, game: Searchable) -> None:
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

    def entered(self, game: Searchable) -> None:
        """Make ready for a game that is covered and was not the last one."""

    def _refuse(self, state: SearchablePlay) -> NoReturn:
        why = "is finished" if state.done else "waits for chance"
        raise OracleError(
            f"Oracle {self.name!r} was asked about a state of {state.game.name!r} that {why}, at "
            f"ply {state.plies}; judge states in which a seat is to act."
        )


@dataclass(kw_only=True, eq=False)
class WrappingOracle(CachedOracle):
    """Base of oracles around another one, which decides what can be judged.

    Args:
        oracle: name of the oracle within.
        options: options of that oracle, by name; None: its defaults.
    """

    oracle: str
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self.within: Oracle = bind("oracles", self.oracle, self.options)()

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""
        return self.within.covers(game)

    def enter(self, game: Searchable) -> None:
        """Turn to a game, the oracle within as well."""
        super().enter(game)
        if isinstance(self.within, CachedOracle):
            self.within.enter(game)

    def key(self, state: SearchablePlay) -> str:
        """Return the key of the oracle within, where it has one."""
        within = self.within
        return within.key(state) if isinstance(within, CachedOracle) else super().key(state)
