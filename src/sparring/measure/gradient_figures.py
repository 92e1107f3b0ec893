"""From the gradients of batches to bias, variance and cosine, each with an interval.

n batches, D parameters, N turns; S pairs (batch, parameter) that some turn touched, in which all
gradients are kept. With g_1 .. g_n the batches' gradients and e the exact one, everything is a
function of sums of products, so that all leave-one-out values of the jackknife cost as much as one.
Squared norms of means are estimated by pairs of different batches (U-statistics): |mean|^2 alone is
too large by the variance over n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparring.core.records import FloatArray, IntArray, Interval
from sparring.measure.lab_episodes import LabEpisodes, TablePolicy
from sparring.ops.statistics import jackknife_interval, mean_interval

TINY = 1e-300  # instead of a division by 0
PROBES = 16  # batches whose products with all others tell how large such products are


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientLayout:
    """Which turns touch which parameters: what turns advantages into the gradients of batches."""

    num_batches: int
    num_parameters: int
    batch_size: int
    turn: IntArray  # [entries] a turn, once per legal action
    slot: IntArray  # [entries] its pair (batch, parameter)
    score: FloatArray  # [entries] d ln pi(played) / d logit = (1 if played) - pi
    batch: IntArray  # [S]
    parameter: IntArray  # [S]

    @classmethod
    def of(cls, played: LabEpisodes, policy: TablePolicy) -> GradientLayout:
        """Return the layout of these episodes."""
        widths = np.diff(policy.starts)[played.state]
        turn = np.repeat(np.arange(len(widths)), widths)
        within = np.arange(len(turn)) - np.repeat(np.cumsum(widths) - widths, widths)
        parameter = policy.starts[played.state][turn] + within
        pairs, slot = np.unique(
            played.batch[turn] * len(policy.flat) + parameter, return_inverse=True
        )
        return cls(
            num_batches=played.num_batches,
            num_parameters=len(policy.flat),
            batch_size=played.batch_size,
            turn=turn,
            slot=slot.reshape(-1),
            score=(within == played.choice[turn]) - policy.flat[parameter],
            batch=pairs // len(policy.flat),
            parameter=pairs % len(policy.flat),
        )

    def gradients(self, advantages: FloatArray) -> FloatArray:
        """Return the gradient of every batch, [S].

        1 / episodes * sum over turns of A * (onehot(a) - pi).
        """
        weights = self.score * advantages[self.turn]
        return np.bincount(self.slot, weights=weights, minlength=len(self.batch)) / self.batch_size

    def total(self, gradients: FloatArray) -> FloatArray:
        """Return the sum over batches, [D]."""
        return np.bincount(self.parameter, weights=gradients, minlength=self.num_parameters).astype(
            np.float64
        )

    def per_batch(self, values: FloatArray) -> FloatArray:
        """Return the sum of each batch's entries, [n]."""
        return np.bincount(self.batch, weights=values, minlength=self.num_batches).astype(
            np.float64
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Products:
    """Inner products of batch gradients.

    With themselves, with their sum, and with the exact gradient.
    """

    own: FloatArray  # [n] g_k . g_k
    with_sum: FloatArray  # [n] g_k . sum of g
    along: FloatArray  # [n] g_k . e
    exact: float  # e . e
    pair_error: float  # standard error that squared norms of the mean keep where the mean is 0

    @classmethod
    def of(
        cls, layout: GradientLayout, gradients: FloatArray, exact: FloatArray, shift: float = 0.0
    ) -> Products:
        """Return the products of ``gradients + shift * exact``."""
        total, square = layout.total(gradients), float(exact @ exact)
        along = layout.per_batch(gradients * exact[layout.parameter])
        own = layout.per_batch(gradients * gradients) + 2 * shift * along + shift**2 * square
        with_sum = layout.per_batch(gradients * total[layout.parameter])
        with_sum += (
            shift * (layout.num_batches * along + float(total @ exact))
            + layout.num_batches * shift**2 * square
        )
        return cls(
            own=own,
            with_sum=with_sum,
            along=along + shift * square,
            exact=square,
            pair_error=_pair_error(layout, gradients),
        )

    @property
    def count(self) -> int:
        """Number of batches."""
        return len(self.own)

    def estimates(self) -> tuple[Moments, Moments]:
        """Return the moments of all batches, and those with each batch left out, arrays [n]."""
        whole = np.array(
            [self.own.sum(), self.with_sum.sum(), self.along.sum(), (self.along**2).sum()]
        )
        parts = np.array([self.own, 2 * self.with_sum - self.own, self.along, self.along**2])
        return _moments(self.count, whole, self.exact), _moments(
            self.count - 1, whole[:, None] - parts, self.exact
        )


def _pair_error(layout: GradientLayout, gradients: FloatArray) -> float:
    """Return sqrt(2 tr(C^2) / (n (n - 1))), C the covariance of g.

    tr(C^2) from products of some centred batches with all others.

    Where the mean is 0 the U-statistic of its square has this error, of which the jackknife sees
    nothing in unlucky draws.
    """
    n = layout.num_batches
    mean = layout.total(gradients) / n
    found = []
    for number in np.unique(np.linspace(0, n - 1, PROBES).astype(np.int64)):
        own = layout.batch == number
        probe = -mean
        probe[layout.parameter[own]] += gradients[own]
        products = layout.per_batch(gradients * probe[layout.parameter]) - float(mean @ probe)
        found.append(np.mean(np.delete(products, number) ** 2))
    return float(np.sqrt(2 * np.mean(found) / (n * (n - 1))))


@dataclass(frozen=True, kw_only=True, slots=True)
class Moments:
    """Unbiased estimates in units of the exact gradient's norm.

    They are of all batches or of leave-one-out sets (arrays [n]).
    """

    bias: FloatArray  # |E g - e|^2
    along: FloatArray  # E g . e
    across: FloatArray  # |part of E g at right angles to e|^2
    variance: FloatArray  # trace of the covariance of g


def _moments(n: int, sums: FloatArray, exact: float) -> Moments:
    """Return the estimates from sums over n batches.

    Of g . g, the sum of g squared, of g . e and of its square.
    """
    own, total, along, along_squares = sums
    pairs = n * (n - 1)
    square = (total - own) / pairs
    part = along / n / exact
    return Moments(
        bias=square / exact - 2 * part + 1,
        along=part,
        across=square / exact - (along**2 - along_squares) / pairs / exact**2,
        variance=(own - total / n) / (n - 1) / exact,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientFigures:
    """How an estimator's gradient relates to the exact one.

    Norms relative to the exact one's, 95 % intervals.

    ``bias`` is |E g - e| / |e| and ``bias_scaled`` the same after the best positive factor, which
    is the sine of the angle between them (1 from a right angle on). ``variance`` is tr Cov g /
    |e|^2 of one batch and ``variance_scaled`` the same after the factor that gives E g the exact
    gradient's length along the exact gradient, so that it cannot be won by being small.
    """

    bias: Interval
    bias_scaled: Interval
    cosine: Interval  # of E g
    variance: Interval
    variance_scaled: Interval
    bias_unpaired: Interval  # ``bias`` without control variates
    # mean over batches of a single batch's cosine; a gradient of 0 counts as 0
    batch_cosine: Interval


def figures(plain: Products, paired: Products) -> GradientFigures:
    """Return the figures of an estimator.

    Args:
        plain: products of its batch gradients.
        paired: products of the same with control variates subtracted: equal expectation, less
            noise.
    """
    (raw, raw_left), (fine, fine_left) = plain.estimates(), paired.estimates()
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = [
            (m.across / (m.along**2 + m.across), m.along / np.sqrt(m.along**2 + m.across))
            for m in (fine, fine_left)
        ]
        noise = [m.variance / f.along**2 for m, f in ((raw, fine), (raw_left, fine_left))]
        lengths = np.sqrt(plain.own * plain.exact)
        cosines = np.where(lengths > 0, plain.along / np.where(lengths > 0, lengths, 1.0), 0.0)
        more = paired.pair_error / paired.exact
        more_angle = more / max(float(fine.along) ** 2 + max(float(fine.across), 0.0), TINY)
    sine = _root(
        jackknife_interval(float(squares[0][0]), squares[1][0], more_error=more_angle), top=1.0
    )
    along = jackknife_interval(float(fine.along), fine_left.along)
    ahead, perhaps_behind = along.mean > 0, not along.low > 0
    return GradientFigures(
        bias=_root(jackknife_interval(float(fine.bias), fine_left.bias, more_error=more)),
        bias_scaled=Interval(
            mean=sine.mean if ahead else 1.0,
            low=sine.low if along.high > 0 else 1.0,
            high=1.0 if perhaps_behind else sine.high,
            count=sine.count,
        ),
        cosine=_clipped(
            jackknife_interval(float(squares[0][1]), squares[1][1], more_error=more_angle / 2),
            -1.0,
            1.0,
        ),
        variance=_clipped(jackknife_interval(float(raw.variance), raw_left.variance), 0.0, np.inf),
        variance_scaled=_clipped(
            jackknife_interval(float(noise[0]) if ahead else np.inf, noise[1]), 0.0, np.inf
        ),
        bias_unpaired=_root(
            jackknife_interval(
                float(raw.bias), raw_left.bias, more_error=plain.pair_error / plain.exact
            )
        ),
        batch_cosine=mean_interval(cosines),
    )


def paired_products(
    layout: GradientLayout,
    gradients: FloatArray,
    exact: FloatArray,
    controls: FloatArray,
    expectations: FloatArray,
) -> Products:
    """Return the products of the gradients minus a combination of control variates.

    It is the one that leaves the least variance.

    E g is what it was: the controls' own expectation is put back. Their K factors are fitted to all
    D parameters of all batches together, which for few of them moves the result by a share of order
    K / n of what noise is left.

    Args:
        layout: of the episodes.
        gradients: an estimator's, [S].
        exact: the exact gradient [D].
        controls: gradients whose expectation is known, [K, S].
        expectations: their expectations in units of the exact gradient, [K].
    """
    sums = np.array([layout.total(control) for control in controls])
    covariance = controls @ controls.T - sums @ sums.T / layout.num_batches
    shared = controls @ gradients - sums @ layout.total(gradients) / layout.num_batches
    factors = np.linalg.lstsq(covariance, shared, rcond=1e-10)[0]
    return Products.of(
        layout, gradients - factors @ controls, exact, shift=float(factors @ expectations)
    )


def _root(squared: Interval, top: float = np.inf) -> Interval:
    """Return the interval of a square as that of its root; estimates below 0 are 0."""
    low, mean, high = (
        float(np.sqrt(np.clip(end, 0.0, top**2)))
        for end in (squared.low, squared.mean, squared.high)
    )
    return Interval(mean=mean, low=low, high=high, count=squared.count, level=squared.level)


def _clipped(interval: Interval, low: float, high: float) -> Interval:
    """Return the interval inside the range of what it measures."""
    ends = (float(np.clip(end, low, high)) for end in (interval.mean, interval.low, interval.high))
    return Interval(
        **dict(zip(("mean", "low", "high"), ends, strict=True)),
        count=interval.count,
        level=interval.level,
    )
