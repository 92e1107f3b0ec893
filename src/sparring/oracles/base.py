"""What an oracle is: states in, a verdict on every legal action out; and what all oracles share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from sparring.environments.openspiel.base import Game, State
from sparring.environments.own import no_rules
from sparring.errors import PluginError
from sparring.guard import Call
from sparring.registry import named
from sparring.rng import Stream
from sparring.types import Judgement, Verdict

TIE = 1e-9  # values closer than this, relative to the largest, are equally good


class Oracle(Protocol):
    """Judges the decisions of one game."""

    name: str

    def covers(self, game: Game) -> str:
        """Return why this game cannot be judged, or ""."""
        ...

    def judge(
        self, states: Sequence[State], streams: Sequence[Stream] | None = None
    ) -> list[Verdict | None]:
        """Return a verdict per state on the seat that is to act; None where the oracle abstains.

        ``streams``, one per state, are for oracles that err by chance; the verdicts of all others
        depend on the state alone.

        Raises:
            OracleError: a state is finished, or of a game that is not covered.
        """
        ...


def hindrance(oracle: Oracle, game: Game) -> str:
    """Return why an oracle cannot judge an environment, or "".

    All but those that read plays (``reads_plays``) work on games over OpenSpiel alone.
    """
    reads = getattr(oracle, "reads_plays", False)
    return ("" if reads else no_rules(game)) or oracle.covers(game)


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
    oracle: Oracle, states: Sequence[State], streams: Sequence[Stream] | None = None
) -> list[Verdict | None]:
    """Return what an oracle says of these states, as a call that is watched.

    Raises:
        PluginError: it raised, or gave anything but one verdict per state with one finite value per
            legal action.
        OracleError: it refuses a state.
    """
    with Call(named("oracles", oracle.name)) as call:
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
