"""The credit lab: every advantage estimator against the exact policy gradient.

A table policy plays a small game. Each estimator is called on the same batches, as in a run; its
advantages give the gradient of every batch in the table's logits, which is compared with the exact
one.

Control variates. The figures of the expected gradient are measured with less noise by subtracting
gradients whose expectation is known: those of the returns, of the returns from the turn on and of
exact Q - V (each the exact gradient), and those of advantages 1, V and the mean return of the same
seat in the group's other games (0). So the row of an estimator that is made of these says 0 by
construction; ``bias_unpaired`` does without.

Figures, each with an interval: bias, variance and cosine. n batches, D parameters, N turns; S pairs
(batch, parameter) that some turn touched, in which all gradients are kept. With g_1 .. g_n the
batches' gradients and e the exact one, everything is a function of sums of products, so that all
leave-one-out values of the jackknife cost as much as one. Squared norms of means are estimated by
pairs of different batches (U-statistics): |mean|^2 alone is too large by the variance over n.

Estimators that read values by playing on (``vine_ppo``) are given those of games that the table
goes on with (``continued``). With ``LabPlan.reward`` all of them are paid by that reward in place
of the game, and are still held to the game's return.

An estimator whose head predicts contributions (``CRITIC``) has those of a fitted head for
``value_after``: with perfect recall they are the differences of Q along a play, and the mean return
of the plays that end there at a seat's last turn.

Estimators that read a reward for every turn (``ppr``, ``spae``, ``ssl``, ``vpr``) are paid one
besides, by a judge that knows the exact values (``LabEpisodes.judgements``); all others see the
game's own rewards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sparring.config.parts import parse_plugin
from sparring.config.plugins import registry
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ConfigError, CreditError, SparringError
from sparring.core.records import Credit, Episode, FloatArray, IntArray, Interval, TurnTable
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.environments.base import Environment
from sparring.measure.info_states import exact_values
from sparring.measure.lab_episodes import (
    Critic,
    LabEpisodes,
    TableAgent,
    TablePolicy,
    cut,
    exact_gradient,
    lab_episodes,
    play_table,
    tiled,
)
from sparring.methods.rewards.base import apply_rewards
from sparring.methods.rewards.components import WeightedReward
from sparring.ops.groups import (
    discounted_returns,
    group_ids,
    leave_one_out_mean,
    trajectory_starts,
    trajectory_sums,
)
from sparring.ops.statistics import jackknife_interval, mean_interval
from sparring.play.playouts import with_playouts
from sparring.play.rollout import answered, rollout
from sparring.play.turn_table import ordered_turns, turn_table

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
        """Return each batch's gradient, [S]: sum of A (onehot(a) - pi) over turns, / episodes."""
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
    """Inner products of batch gradients with themselves, their sum and the exact gradient."""

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

    def estimates(self) -> tuple[MomentEstimates, MomentEstimates]:
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
class MomentEstimates:
    """Unbiased estimates in units of the exact gradient's norm, or leave-one-out sets, [n]."""

    bias: FloatArray  # |E g - e|^2
    along: FloatArray  # E g . e
    across: FloatArray  # |part of E g at right angles to e|^2
    variance: FloatArray  # trace of the covariance of g


def _moments(n: int, sums: FloatArray, exact: float) -> MomentEstimates:
    """Return the estimates from sums over n batches of g . g, g . e and their squares."""
    own, total, along, along_squares = sums
    pairs = n * (n - 1)
    square = (total - own) / pairs
    part = along / n / exact
    return MomentEstimates(
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
    ends = (float(np.clip(end, low, high)) for end in (interval.mean, interval.low, interval.high))
    return Interval(
        **dict(zip(("mean", "low", "high"), ends, strict=True)),
        count=interval.count,
        level=interval.level,
    )


def continued(
    played: LabEpisodes,
    episodes: Sequence[Episode],
    game: Environment,
    policy: TablePolicy,
    *,
    count: int,
    stream: Stream,
) -> LabEpisodes:
    """Return the episodes with the columns ``playout`` and ``playout_before``.

    Their values are of histories: whoever plays on knows all that was dealt. Given what a seat
    knows, their expectations before and after its turn are V and Q of its information state, so
    that the exact gradient is the truth for them too.

    Args:
        played: what the columns are added to.
        episodes: its episodes.
        game: theirs.
        policy: plays on in every seat.
        count: games that are played from each position.
        stream: of these games.
    """
    agent = TableAgent(policy)
    after, before = [], []
    for begin in range(0, len(episodes), played.batch_size):
        own = episodes[begin : begin + played.batch_size]
        asked = with_playouts(
            own, {game.name: game}, count=count, stream=stream.child(begin), before=True
        )
        valued, _ = answered(asked, lambda specs: rollout(specs, {agent.name: agent}))
        for _, turn in ordered_turns(valued):
            after.append(turn.playout)
            before.append(turn.playout_before)
    turns = replace(
        played.turns,
        playout=np.array(after, dtype=np.float64),
        playout_before=np.array(before, dtype=np.float64),
    )
    return replace(played, turns=turns)


def paid_by(
    played: LabEpisodes, episodes: Sequence[Episode], game: Environment, reward: BoundPlugin
) -> LabEpisodes:
    """Return the episodes with what a reward pays; columns of values stay those of the game."""
    paid, _ = apply_rewards(
        episodes,
        [WeightedReward(bound=reward, weight=parse(1.0))],
        1.0,
        gaps={},
        games={game.name: game},
        outcome_weight=0.0,
        reorder_outcomes=True,
    )
    turns = turn_table(paid)
    changed = replace(played.turns, reward=turns.reward, components=turns.components)
    return replace(played, turns=changed)


ALL = "all"
MIN_BATCHES = 4
PAID_FROM = {"game", "batch"}  # what a reward may read in the lab
Estimator = Callable[[TurnTable, Mapping[str, Any]], Credit]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabPlan:
    """How a comparison is made."""

    episodes: int = 20_000  # rounded up to whole batches
    group_size: int = 8
    batch_size: int = 64
    critic: Critic = "exact"
    # share of the batches, the first ones, that estimators see but no figure counts
    burn_in: float = 0.0
    playouts: int = 5  # games from each position, for estimators that read values by playing on
    # what estimators are paid by in place of the game, as NAME[:PRESET] key=value; "": the game
    reward: str = ""
    seed: int = 0
    timed: bool = True

    def __post_init__(self) -> None:
        if self.batch_size < 1 or not 0 <= self.burn_in < 1:
            raise ConfigError(
                f"--batch {self.batch_size} must be at least 1 and --burn-in {self.burn_in} in "
                "[0, 1)."
            )
        if self.playouts < 1:
            raise ConfigError(f"--playouts {self.playouts} must be at least 1.")
        if self.batches - self.skipped < MIN_BATCHES:
            wanted = int(np.ceil(MIN_BATCHES / (1 - self.burn_in))) * self.batch_size
            raise ConfigError(
                f"--episodes {self.episodes} make {self.batches - self.skipped} counted batches "
                f"of {self.batch_size}; intervals need {MIN_BATCHES}: write --episodes {wanted} "
                "or more."
            )

    @property
    def batches(self) -> int:
        """Number of batches played."""
        return -(-self.episodes // self.batch_size)

    @property
    def skipped(self) -> int:
        """Number of batches that are not counted."""
        return int(self.burn_in * self.batches)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabRow:
    """What is known of one estimator on the lab's episodes; ``refused`` says why nothing is."""

    estimator: str
    refused: str | None = None
    gradient: GradientFigures | None = None
    # by role, in the parameters of the seat alone
    seats: Mapping[str, GradientFigures] = field(default_factory=dict)
    # share of the turns with an advantage and |Q - V| > 1e-9 whose advantage has the sign of Q - V
    right_sign: float = np.nan
    zeros: float = np.nan  # share of all turns whose advantage is 0
    effective: float = np.nan  # effective sample size (sum |A|)^2 / sum A^2 as a share of the turns
    seconds: float | None = None  # per 100,000 turns


@dataclass(frozen=True, kw_only=True, slots=True)
class LabReport:
    """A comparison: what was played, how sure the lab can be, and a row per estimator."""

    game: str
    num_info_states: int
    num_parameters: int
    episodes: int
    batches: int  # that were counted
    turns: int
    returns: tuple[float, ...]  # exact expected return per seat
    gradient_norm: float  # of the exact gradient
    check: Interval  # bias of the plain returns' gradient without control variates: the truth is 0
    rows: tuple[LabRow, ...]


def estimator_names(text: str) -> list[str]:
    """Return the estimators of a comma-separated list.

    "all" is every one that is found, and every preset as NAME:PRESET.

    Raises:
        UnknownNameError: no such estimator, preset or option.
        ConfigError: the list is empty, or an option's value is wrong or left out.
    """
    found: list[str] = []
    for item in filter(None, map(str.strip, text.split(","))):
        if item == ALL:
            for name in registry.names("credit"):
                found += [
                    name,
                    *(f"{name}:{preset}" for preset in registry.load("credit", name).presets),
                ]
        else:
            bind_estimator(item)
            found.append(item)
    if not found:
        raise ConfigError(
            f"--estimators {text!r} names none; write --estimators all, or a list such as "
            "outcome,rloo,'gae lam=0.5'."
        )
    return list(dict.fromkeys(found))


def bind_estimator(text: str) -> BoundPlugin:
    """Return the estimator of a text such as ``rloo`` or ``gae lam=0.5``; see ``bind``."""
    name, preset, options = parse_plugin(text, "Estimator", "gae lam=0.5")
    return registry.bind("credit", name, options, preset=preset)


def bind_reward(text: str) -> BoundPlugin:
    """Return the reward of a text such as ``contribution by=difference``.

    Raises:
        ConfigError: it reads what the lab does not make, such as an oracle's verdicts.
    """
    name, preset, options = parse_plugin(text, "Reward", "contribution by=difference")
    found = registry.bind("rewards", name, options, preset=preset)
    lacking = sorted(set(found.plugin.needs) - PAID_FROM)
    if lacking:
        raise ConfigError(
            f"--reward {text!r} reads {', '.join(lacking)}, which the lab does not make; name a "
            "reward that reads plays alone, such as 'contribution by=difference'."
        )
    return found


TIMED_ROWS = 100_000
SIGN_TOLERANCE = 1e-9  # turns with a smaller |Q - V| have no right sign


class CreditLab:
    """Episodes of one game, played once, on which estimators are measured.

    Args:
        game: the game.
        policy: sits in every seat; over the game's information states.
        plan: how much is played and how it is cut.

    Raises:
        ConfigError: sizes that do not fit, or a policy whose exact gradient is 0.
    """

    def __init__(self, game: Environment, policy: TablePolicy, plan: LabPlan) -> None:
        self.game, self.policy, self.plan = game, policy, plan
        self.values = exact_values(policy.states, policy.rows)
        self.exact = exact_gradient(policy, self.values)
        if not np.linalg.norm(self.exact) > 1e-12:
            raise ConfigError(
                f"The exact gradient of this policy in {game.name!r} is 0: nothing to compare "
                "with. Write --policy random."
            )
        stream = Stream.from_seed(plan.seed).child("credit lab").child(game.name)
        sizes = {"batch_size": plan.batch_size, "group_size": plan.group_size}
        episodes = play_table(
            game, policy, batches=plan.batches, stream=stream.child("play"), **sizes
        )
        played = lab_episodes(
            episodes,
            policy,
            self.values,
            batch_size=plan.batch_size,
            critic=plan.critic,
            stream=stream.child("critic"),
        )
        self.episodes, self.whole, self.played = episodes, played, _without(played, plan.skipped)
        self.shown = played  # to estimators
        if plan.reward:
            self.shown = paid_by(played, episodes, game, bind_reward(plan.reward))
        self.tables = self.shown.tables()
        self.first = len(played.batch) - len(self.played.batch)  # the first turn that counts
        self.layout = GradientLayout.of(self.played, policy)
        self.controls, self.expectations = self._controls()

    def _controls(self) -> tuple[FloatArray, FloatArray]:
        """Return gradients whose expectation is known, [K, S], and that (relative), [K]."""
        turns = self.played.turns
        starts = trajectory_starts(turns.trajectory)
        trajectory = np.cumsum(np.diff(turns.trajectory, prepend=-1) != 0) - 1
        whole = trajectory_sums(turns.reward, turns.trajectory)
        rest = discounted_returns(turns.reward, turns.trajectory, gamma=1.0)
        known = [
            whole[trajectory],
            rest,
            self.played.advantage,
            np.ones(len(rest)),
            self.values.state[self.played.state],
        ]
        if self.plan.group_size > 1:
            groups, count = group_ids(turns.group[starts], turns.seat[starts])
            known.append(leave_one_out_mean(whole, groups, count)[trajectory])
        expectations = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])[: len(known)]
        return np.array([self.layout.gradients(advantages) for advantages in known]), expectations

    def report(self, estimators: Sequence[str]) -> LabReport:
        """Measure estimators, as ``estimator_names`` gives them."""
        plain = Products.of(self.layout, self.controls[0], self.exact)
        return LabReport(
            game=self.game.name,
            num_info_states=len(self.policy.states),
            num_parameters=len(self.policy.flat),
            episodes=self.played.num_batches * self.plan.batch_size,
            batches=self.played.num_batches,
            turns=len(self.played.batch),
            returns=tuple(self.values.returns.tolist()),
            gradient_norm=float(np.linalg.norm(self.exact)),
            check=figures(plain, plain).bias_unpaired,
            rows=tuple(self.row(name) for name in estimators),
        )

    def row(self, name: str) -> LabRow:
        """Measure one estimator by name; whatever it refuses is in the row."""
        try:
            return self.measure(name, bind_estimator(name))
        except SparringError as error:
            return LabRow(estimator=name, refused=str(error))

    def measure(self, name: str, estimator: Estimator) -> LabRow:
        """Measure any function with an estimator's signature.

        Raises:
            CreditError: it cannot work on the table, or its advantages are not finite.
        """
        advantages = self.advantages(name, estimator)[self.first :]
        gradients = self.layout.gradients(advantages)
        known = np.abs(self.played.advantage) > SIGN_TOLERANCE
        judged = known & (advantages != 0)
        square = float(advantages @ advantages)
        return LabRow(
            estimator=name,
            gradient=self._figures(gradients, None),
            seats={
                role: self._figures(gradients, seat)
                for seat, role in enumerate(self.game.roles)
                if np.linalg.norm(self.exact[self.policy.seats == seat]) > 1e-12
            },
            right_sign=float(
                np.mean(np.sign(advantages[judged]) == np.sign(self.played.advantage[judged]))
            )
            if judged.any()
            else np.nan,
            zeros=float(np.mean(advantages == 0)),
            effective=float(np.abs(advantages).sum() ** 2 / square / len(advantages))
            if square
            else 0.0,
            seconds=self.seconds(estimator) if self.plan.timed else None,
        )

    def advantages(self, name: str, estimator: Estimator) -> FloatArray:
        """Return the advantage of every turn, burn-in included, by one call per batch."""
        state: Mapping[str, Any] = {}
        found = []
        for table in self.tables_for(estimator):
            credit = estimator(table, state)
            state = credit.state
            found.append(per_turn(credit, table))
        advantages = np.concatenate(found)
        wrong = np.flatnonzero(~np.isfinite(advantages))
        if len(wrong):
            raise CreditError(
                f"credit {name!r} gave the advantage {advantages[wrong[0]]} in turn {wrong[0]} of "
                "the lab's episodes."
            )
        return advantages

    def tables_for(self, estimator: Estimator) -> list[TurnTable]:
        """Return the table of each batch with what an estimator reads."""
        found = self.shown_to(estimator)
        return self.tables if found is self.shown else found.tables()

    def shown_to(self, estimator: Estimator) -> LabEpisodes:
        """Return all episodes with what an estimator reads."""
        found = self.continued if plays_on(estimator) else self.shown
        if isinstance(estimator, BoundPlugin) and estimator.plugin.critic == "contribution":
            found = found.with_contributions()
        judged = judgements_of(estimator, found)
        return found.judged(judged) if judged else found

    @cached_property
    def continued(self) -> LabEpisodes:
        """All episodes with values by playing on."""
        return continued(
            self.shown,
            self.episodes,
            self.game,
            self.policy,
            count=self.plan.playouts,
            stream=Stream.from_seed(self.plan.seed).child("credit lab").child("playouts"),
        )

    def _figures(self, gradients: FloatArray, seat: int | None) -> GradientFigures:
        """Return the figures of batch gradients [S], in all parameters or in those of one seat."""
        layout, exact, controls = self.layout, self.exact, self.controls
        if seat is not None:
            own = self.policy.seats == seat
            kept = own[layout.parameter]
            exact, gradients, controls = exact * own, gradients * kept, controls * kept
        plain = Products.of(layout, gradients, exact)
        return figures(
            plain, paired_products(layout, gradients, exact, controls, self.expectations)
        )

    def seconds(self, estimator: Estimator) -> float:
        """Return the processor time of one call in seconds, per 100,000 turns."""
        end = int(
            np.searchsorted(
                self.played.batch,
                self.played.batch[min(TIMED_ROWS, len(self.played.batch)) - 1],
                side="right",
            )
        )
        turns = _without(self.shown_to(estimator), self.plan.skipped).turns
        table = tiled(cut(turns, 0, end), TIMED_ROWS)
        begin = time.process_time()
        estimator(table, {})
        return (time.process_time() - begin) * TIMED_ROWS / len(table.reward)


def plays_on(estimator: Estimator) -> bool:
    """Return whether an estimator reads values by playing on."""
    return isinstance(estimator, BoundPlugin) and "playout" in estimator.plugin.needs


def judgements_of(estimator: Estimator, played: LabEpisodes) -> list[str]:
    """Return the judgements that an estimator's options name as components of the reward."""
    options = estimator.at(0.0).values() if isinstance(estimator, BoundPlugin) else ()
    return sorted(name for name in played.judgements if name in options)


def per_turn(credit: Credit, turns: TurnTable) -> FloatArray:
    """Return the advantage of every turn, [N]: of tokens the mean over the turn's, or 0."""
    if credit.level == "turn":
        return credit.advantages
    turn = np.repeat(np.arange(len(turns.n_tokens)), turns.n_tokens)
    sums = np.bincount(turn, weights=credit.advantages, minlength=len(turns.n_tokens))
    return sums / np.maximum(turns.n_tokens, 1)


def _without(played: LabEpisodes, batches: int) -> LabEpisodes:
    """Return the episodes without their first batches."""
    begin = int(np.searchsorted(played.batch, batches))
    return replace(
        played,
        turns=cut(played.turns, begin, len(played.batch)),
        batch=played.batch[begin:] - batches,
        num_batches=played.num_batches - batches,
        state=played.state[begin:],
        choice=played.choice[begin:],
        advantage=played.advantage[begin:],
        contribution=played.contribution[begin:],
        judgements={name: column[begin:] for name, column in played.judgements.items()},
    )
