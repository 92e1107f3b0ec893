"""Oracle: another oracle with faults, for studies of how good an oracle has to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import OracleError
from sparring.core.records import Verdict
from sparring.core.rng import Stream
from sparring.environments.base import SearchablePlay
from sparring.methods.oracles.base import CachedOracle, WrappingOracle


@dataclass(kw_only=True, eq=False)
class NoisyOracle(WrappingOracle):
    """Another oracle that errs: flipped, lenient, withheld or wrong verdicts at set rates.

    The two rates of wrong verdicts are their own.

    What: the verdicts of ``oracle``, each spoilt with a probability.
    When to use: to find out how much oracle error a training signal stands.
    Mathematics: faults are independent per position, or per judged turn. With probability
    ``abstain`` nothing is said. Else with probability ``flip`` the best actions and all others
    change places. Then with probability ``bias`` every action is called best. A right action is
    called right with probability TPR, a wrong one with FPR, and their difference is Youden's index
    J:
        TPR = 1 - flip (1 - bias)
        FPR = flip + bias - flip bias
        J = TPR - FPR = (1 - bias) (1 - 2 flip)
    So there is no signal at flip 0.5 or bias 1, and the signal is reversed beyond flip 0.5. The two
    rates are set apart by ``tpr`` and ``fpr``: each right action is called right with probability
    ``tpr``, each wrong one with probability ``fpr``, independently of the others. Then
        J = tpr - fpr
    A flip and a bias then spoil the result.
    Pitfalls: faults of positions do not average out when a position is met again, those of turns
    do. With "turn" the mean of ``best_action`` is J times the true one plus FPR, while with
    "position" a share ``flip`` of the positions teaches the opposite. Where all actions are best
    there is nothing to flip, so fewer than ``flip`` of the verdicts are changed. A flipped verdict
    knows two values, the least and the most of the true ones. So does one with ``tpr`` or ``fpr``,
    which may call no action best. Certainty and bound stay as they were.
    Reference: "Rate or fate? RLV-epsilon-R" (learning needs TPR - FPR > 0); Youden, 1950.
    Verified by: tests/methods/oracles/test_wrappers.py.

    Args:
        oracle: name of the oracle whose verdicts are spoilt.
        options: options of that oracle, by name; null (default): its defaults.
        flip: probability that right and wrong change places, in [0, 1]. It errs on both sides. 0
            switches it off.
        bias: probability that every action is called best, in [0, 1]: it lets wrong moves pass. 0
            (default) switches it off.
        abstain: probability that nothing is said, in [0, 1]. 0 (default) switches it off.
        seed: of the faults.
        per: what a fault belongs to. "position" (default): the oracle is wrong about some
            positions, and each of them always gets the same verdict. "turn": the judge errs afresh
            at every turn. The draw is from the stream that the caller gives for the turn; in a run
            it is the turn's own, so that runs repeat.
        tpr: rate of true positives: the probability that a right action is called right, in [0, 1].
            Default 1. To have only the errors of ``tpr`` and ``fpr``, set ``flip`` to 0.
        fpr: rate of false positives: the probability that a wrong action is called right, in [0,
            1]. Default 0.
    """

    oracle: str = "minimax"
    flip: Annotated[float, Field(ge=0, le=1)] = 0.2
    bias: Annotated[float, Field(ge=0, le=1)] = 0.0
    abstain: Annotated[float, Field(ge=0, le=1)] = 0.0
    seed: int = 0
    per: Literal["position", "turn"] = "position"
    tpr: Annotated[float, Field(ge=0, le=1)] = 1.0
    fpr: Annotated[float, Field(ge=0, le=1)] = 0.0

    name = "noisy"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._stream = Stream.from_seed(self.seed).child("noisy oracle")

    @property
    def metrics(self) -> dict[str, float]:
        """Counts so far, and those of the oracle within, where it counts, as ``inner_NAME``."""
        inner = self.within.metrics if isinstance(self.within, CachedOracle) else {}
        return {**super().metrics, **{f"inner_{name}": count for name, count in inner.items()}}

    def judge(
        self, states: Sequence[SearchablePlay], streams: Sequence[Stream] | None = None
    ) -> list[Verdict | None]:
        """Return a verdict per state on the seat that is to act; None where the oracle abstains.

        ``streams``, one per state, are read where faults belong to turns.

        Raises:
            OracleError: a state is finished, waits for chance, or is of a game that is not covered;
                or streams are missing.
        """
        if self.per == "position":
            return super().judge(states, streams)
        if streams is None or len(streams) != len(states):
            given = "none were" if streams is None else f"{len(streams)} were"
            raise OracleError(
                "Oracle 'noisy' with per='turn' draws its faults from one stream per state, "
                f"and {given} given for {len(states)} states; give streams to judge, or write "
                "per: position."
            )
        own = [stream.child("noisy oracle").child(self.seed) for stream in streams]
        found = [
            self._spoilt(*pair)
            for pair in zip(self.within.judge(states, streams), own, strict=True)
        ]
        self.counts["judged"] += len(found)
        self.counts["abstained"] += found.count(None)
        return found

    def opinions(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return the spoilt verdicts."""
        stream = self._stream.child(states[0].game.rules_key)
        verdicts = self.within.judge(states)
        return [
            self._spoilt(found, stream.child(self.key(state)))
            for state, found in zip(states, verdicts, strict=True)
        ]

    def _spoilt(self, found: Verdict | None, stream: Stream) -> Verdict | None:
        """Return what is said instead of a verdict. Draw 0 decides on abstention, 1 on a flip, 2 on
        leniency. Draws from 3 on decide what each action is called."""
        if found is None or stream.uniform(0) < self.abstain:
            return None
        if (self.tpr, self.fpr) != (1.0, 0.0):
            found = self._named(found, stream)
        if stream.uniform(1) < self.flip and len(found.best) < len(found.actions):
            self.counts["flipped"] += 1
            found = flipped(found)
        if stream.uniform(2) < self.bias:
            self.counts["lenient"] += 1
            found = replace(
                found,
                best=frozenset(found.actions),
                values=(max(found.values),) * len(found.values),
            )
        return found

    def _named(self, found: Verdict, stream: Stream) -> Verdict:
        """Return the verdict with each action called right, or wrong, with its own rate."""
        rates = [self.tpr if action in found.best else self.fpr for action in found.actions]
        drawn = enumerate(zip(found.actions, rates, strict=True), start=3)
        best = frozenset(action for draw, (action, rate) in drawn if stream.uniform(draw) < rate)
        self.counts["missed"] += len(found.best - best)
        self.counts["false_alarms"] += len(best - found.best)
        low, high = min(found.values), max(found.values)
        values = tuple(high if action in best else low for action in found.actions)
        return replace(found, values=values, best=best)


def flipped(verdict: Verdict) -> Verdict:
    """Return the verdict that calls right what was wrong.

    The best actions are worth least, all others most.

    The values keep to their two ends, so that rewards made of values err as those made of the best
    actions do.
    """
    low, high = min(verdict.values), max(verdict.values)
    values = tuple(low if action in verdict.best else high for action in verdict.actions)
    return replace(verdict, values=values, best=frozenset(verdict.actions) - verdict.best)


noisy = NoisyOracle
