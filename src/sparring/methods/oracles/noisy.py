"""Oracle: an inner oracle with random errors, for studies of the required oracle quality."""

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
    """Add errors to an inner oracle: flipped, lenient, withheld or wrong verdicts at given rates.

    What: the verdicts of ``oracle``, each changed with a probability.
    When to use: to measure how much oracle error a training signal tolerates.
    Mathematics: errors are independent per position, or per judged turn. With probability
    ``abstain`` the oracle abstains. Otherwise with probability ``flip`` the best actions and all
    others swap. Then with probability ``bias`` every action is called best. A right action is
    called right with probability TPR, a wrong one with FPR, and their difference is Youden's index
    J:
        TPR = 1 - flip (1 - bias)
        FPR = flip + bias - flip bias
        J = TPR - FPR = (1 - bias) (1 - 2 flip)
    So there is no signal at flip 0.5 or bias 1, and the signal is reversed beyond flip 0.5. The
    options ``tpr`` and ``fpr`` set the two rates separately: each right action is called right with
    probability ``tpr``, each wrong one with probability ``fpr``, independently. Then
        J = tpr - fpr
    A flip and a bias are applied to the result.
    Pitfalls:
        - Errors of positions do not average out over visits of a position; errors of turns do.
        - With "turn" the mean of ``best_action`` is J times the true mean plus FPR; with "position"
          a share ``flip`` of the positions teaches the opposite.
        - A verdict that calls every action best cannot be flipped, so the share of flipped verdicts
          is below ``flip``.
        - A flipped verdict has only two values, the smallest and the largest true one. The same
          holds with ``tpr`` or ``fpr``; such a verdict may call no action best.
        - Certainty and bound stay unchanged.
    Reference: "Rate or fate? RLV-epsilon-R" (learning needs TPR - FPR > 0); Youden, 1950.
    Verified by: tests/methods/oracles/test_wrappers.py.

    Args:
        oracle: name of the inner oracle.
        options: options of the inner oracle, by name; null (default): the defaults.
        flip: probability that right and wrong actions swap, in [0, 1]. 0: never.
        bias: probability that every action is called best, in [0, 1]. 0 (default): never.
        abstain: probability of abstention, in [0, 1]. 0 (default): never.
        seed: seed of the errors.
        per: unit of an error. "position" (default): a position always gets the same verdict, right
            or wrong. "turn": an independent draw at every turn, from the stream that the caller
            gives for the turn; in a run this is the turn's stream, so that runs are reproducible.
        tpr: true positive rate: the probability that a right action is called right, in [0, 1].
            Default 1. For errors of ``tpr`` and ``fpr`` only, set ``flip`` to 0.
        fpr: false positive rate: probability that a wrong action is called right, in [0, 1].
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
        """Counts, with those of the inner oracle as ``inner_NAME``."""
        inner = self.inner.metrics if isinstance(self.inner, CachedOracle) else {}
        return {**super().metrics, **{f"inner_{name}": count for name, count in inner.items()}}

    def judge(
        self, states: Sequence[SearchablePlay], streams: Sequence[Stream] | None = None
    ) -> list[Verdict | None]:
        """Return a verdict per state for the seat that is to act; None where the oracle abstains.

        Args:
            states: states in which a seat is to act.
            streams: one per state, required for errors per turn.

        Raises:
            OracleError: a state is finished or waits for chance, its game is not covered, or
                streams are missing.
        """
        if self.per == "position":
            return super().judge(states, streams)
        if streams is None or len(streams) != len(states):
            received = "no streams" if streams is None else f"{len(streams)} streams"
            raise OracleError(
                f"Oracle 'noisy' with per='turn' needs one stream per state, and got {received} "
                f"for {len(states)} states; pass streams to judge, or write per: position."
            )
        error_streams = [stream.child("noisy oracle").child(self.seed) for stream in streams]
        verdicts = self.inner.judge(states, streams)
        results = [
            self._with_errors(verdict, stream)
            for verdict, stream in zip(verdicts, error_streams, strict=True)
        ]
        self.counts["judged"] += len(results)
        self.counts["abstained"] += results.count(None)
        return results

    def compute_verdicts(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return the verdicts with errors."""
        stream = self._stream.child(states[0].game.rules_key)
        verdicts = self.inner.judge(states)
        return [
            self._with_errors(verdict, stream.child(self.key(state)))
            for state, verdict in zip(states, verdicts, strict=True)
        ]

    def _with_errors(self, verdict: Verdict | None, stream: Stream) -> Verdict | None:
        """Return the verdict with errors; draws 0 to 2: abstention, flip, bias; from 3: rates."""
        if verdict is None or stream.uniform(0) < self.abstain:
            return None
        if (self.tpr, self.fpr) != (1.0, 0.0):
            verdict = self._with_rates(verdict, stream)
        if stream.uniform(1) < self.flip and len(verdict.best) < len(verdict.actions):
            self.counts["flipped"] += 1
            verdict = swap_best(verdict)
        if stream.uniform(2) < self.bias:
            self.counts["lenient"] += 1
            verdict = replace(
                verdict,
                best=frozenset(verdict.actions),
                values=(max(verdict.values),) * len(verdict.values),
            )
        return verdict

    def _with_rates(self, verdict: Verdict, stream: Stream) -> Verdict:
        """Return the verdict with each action called right at the rate ``tpr`` or ``fpr``."""
        rates = [self.tpr if action in verdict.best else self.fpr for action in verdict.actions]
        draws_and_rates = enumerate(zip(verdict.actions, rates, strict=True), start=3)
        best = frozenset(
            action for draw, (action, rate) in draws_and_rates if stream.uniform(draw) < rate
        )
        self.counts["missed"] += len(verdict.best - best)
        self.counts["false_alarms"] += len(best - verdict.best)
        low, high = min(verdict.values), max(verdict.values)
        values = tuple(high if action in best else low for action in verdict.actions)
        return replace(verdict, values=values, best=best)


def swap_best(verdict: Verdict) -> Verdict:
    """Return the verdict with right and wrong actions swapped.

    The best actions get the smallest value and all others the largest, so that rewards from values
    err like rewards from best actions.
    """
    low, high = min(verdict.values), max(verdict.values)
    values = tuple(low if action in verdict.best else high for action in verdict.actions)
    return replace(verdict, values=values, best=frozenset(verdict.actions) - verdict.best)


noisy = NoisyOracle
