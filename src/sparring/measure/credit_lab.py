"""The credit lab: every advantage estimator against the exact policy gradient.

A table policy plays a small game. Each estimator is called on the same batches, as in a run; its
advantages give a gradient in the table's logits for each batch, to compare with the exact gradient.

Control variates reduce noise: gradients with a known expectation are subtracted. The gradients of
the returns, of the returns from the turn on, and of the exact Q - V have the exact gradient as
expectation. The gradients of the advantages 1, V, and the mean return of the same seat in the
group's other games have expectation 0. A combination of these has bias 0 by construction;
``bias_unpaired`` uses no control variates.

Figures, each with an interval: bias, variance and cosine. Shapes: n batches, D parameters, N turns,
and S pairs (batch, parameter) with a turn; gradients are stored for these pairs. Let g_1 .. g_n be
the batches' gradients and e the exact gradient. All figures are functions of sums of products, so
the jackknife is cheap. Squared norms of means are estimated from pairs of different batches
(U-statistics), because |mean|^2 is too large by the variance divided by n.

Estimators that need playout values (``vine_ppo``) get them from playouts by the table policy
(``with_playout_values``). With ``LabPlan.reward``, estimators get that reward instead of the
game's; the comparison still uses the gradient of the game's return.

An estimator whose critic predicts contributions (``CRITIC``) gets those of a trained critic as
``value_after``: with perfect recall, the differences of Q along an episode, and at a seat's last
turn the mean return of the episodes that end there.

Estimators that need a reward for every turn (``ppr``, ``spae``, ``ssl``, ``vpr``) also get one from
a judge with exact values (``LabEpisodes.judgements``). All others get the game's rewards.
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
    exact_gradient,
    lab_episodes,
    play_table,
    repeat_table,
    slice_turns,
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
from sparring.play.rollout import rollout, run_requests
from sparring.play.turn_table import ordered_turns, turn_table

MIN_DIVISOR = 1e-300  # smallest divisor, which replaces 0
PROBES = 16  # number of batches that ``_pair_error`` multiplies with all others


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientLayout:
    """The parameters of each turn; converts advantages into gradients of batches."""

    num_batches: int
    num_parameters: int
    batch_size: int
    turn: IntArray  # [entries] number of a turn, once per legal action
    slot: IntArray  # [entries] number of the turn's pair (batch, parameter)
    score: FloatArray  # [entries] d ln pi(played) / d logit = (1 if played) - pi
    batch: IntArray  # [S] batch of each pair
    parameter: IntArray  # [S] parameter of each pair

    @classmethod
    def of(cls, lab_turns: LabEpisodes, policy: TablePolicy) -> GradientLayout:
        """Return the layout of these episodes."""
        widths = np.diff(policy.starts)[lab_turns.state]
        turn = np.repeat(np.arange(len(widths)), widths)
        offset = np.arange(len(turn)) - np.repeat(np.cumsum(widths) - widths, widths)
        parameter = policy.starts[lab_turns.state][turn] + offset
        pairs, slot = np.unique(
            lab_turns.batch[turn] * len(policy.flat) + parameter, return_inverse=True
        )
        return cls(
            num_batches=lab_turns.num_batches,
            num_parameters=len(policy.flat),
            batch_size=lab_turns.batch_size,
            turn=turn,
            slot=slot.reshape(-1),
            score=(offset == lab_turns.choice[turn]) - policy.flat[parameter],
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
class GradientProducts:
    """Inner products of batch gradients with themselves, their sum and the exact gradient."""

    squares: FloatArray  # [n] g_k . g_k
    with_sum: FloatArray  # [n] g_k . sum of g
    along: FloatArray  # [n] g_k . e
    exact: float  # e . e
    pair_error: float  # standard error of the mean's squared norm if the mean is 0

    @classmethod
    def of(
        cls, layout: GradientLayout, gradients: FloatArray, exact: FloatArray, shift: float = 0.0
    ) -> GradientProducts:
        """Return the products of ``gradients + shift * exact``."""
        total, square = layout.total(gradients), float(exact @ exact)
        along = layout.per_batch(gradients * exact[layout.parameter])
        squares = layout.per_batch(gradients * gradients) + 2 * shift * along + shift**2 * square
        with_sum = layout.per_batch(gradients * total[layout.parameter])
        with_sum += (
            shift * (layout.num_batches * along + float(total @ exact))
            + layout.num_batches * shift**2 * square
        )
        return cls(
            squares=squares,
            with_sum=with_sum,
            along=along + shift * square,
            exact=square,
            pair_error=_pair_error(layout, gradients),
        )

    @property
    def count(self) -> int:
        """Number of batches."""
        return len(self.squares)

    def estimates(self) -> tuple[MomentEstimates, MomentEstimates]:
        """Return (moments of all batches, moments without each batch [n])."""
        sums = np.array(
            [self.squares.sum(), self.with_sum.sum(), self.along.sum(), (self.along**2).sum()]
        )
        parts = np.array(
            [self.squares, 2 * self.with_sum - self.squares, self.along, self.along**2]
        )
        return _moments(self.count, sums, self.exact), _moments(
            self.count - 1, sums[:, None] - parts, self.exact
        )


def _pair_error(layout: GradientLayout, gradients: FloatArray) -> float:
    """Return sqrt(2 tr(C^2) / (n (n - 1))), where C is the covariance of g.

    tr(C^2) is estimated from products of some centred batches with all others. If the mean is 0,
    the U-statistic of its square has this error, and the jackknife can miss it.
    """
    n = layout.num_batches
    mean = layout.total(gradients) / n
    errors = []
    for batch_index in np.unique(np.linspace(0, n - 1, PROBES).astype(np.int64)):
        in_batch = layout.batch == batch_index
        probe = -mean
        probe[layout.parameter[in_batch]] += gradients[in_batch]
        products = layout.per_batch(gradients * probe[layout.parameter]) - float(mean @ probe)
        errors.append(np.mean(np.delete(products, batch_index) ** 2))
    return float(np.sqrt(2 * np.mean(errors) / (n * (n - 1))))


@dataclass(frozen=True, kw_only=True, slots=True)
class MomentEstimates:
    """Unbiased estimates in units of the exact gradient's norm; [n]: without one batch each."""

    bias: FloatArray  # |E g - e|^2
    along: FloatArray  # E g . e
    across: FloatArray  # |part of E g orthogonal to e|^2
    variance: FloatArray  # trace of the covariance of g


def _moments(n: int, sums: FloatArray, exact: float) -> MomentEstimates:
    """Return the estimates from sums over n batches of g . g, g . e and their squares."""
    squares, total, along, along_squares = sums
    pairs = n * (n - 1)
    square = (total - squares) / pairs
    relative_along = along / n / exact
    return MomentEstimates(
        bias=square / exact - 2 * relative_along + 1,
        along=relative_along,
        across=square / exact - (along**2 - along_squares) / pairs / exact**2,
        variance=(squares - total / n) / (n - 1) / exact,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientFigures:
    """Comparison of an estimator's gradient g with the exact gradient e; 95 % intervals.

    ``bias`` is |E g - e| / |e|. ``bias_scaled`` is the same after the best positive scaling of g:
    the sine of the angle between E g and e (1 for angles above 90 degrees). ``variance`` is tr Cov
    g / |e|^2 of one batch. ``variance_scaled`` first scales g so that E g has length |e| along e.
    """

    bias: Interval
    bias_scaled: Interval
    cosine: Interval  # cosine of the angle between E g and e
    variance: Interval
    variance_scaled: Interval
    bias_unpaired: Interval  # ``bias`` without control variates
    # mean over batches of a single batch's cosine; a gradient of 0 counts as 0
    batch_cosine: Interval


def figures(products: GradientProducts, reduced_products: GradientProducts) -> GradientFigures:
    """Return the figures of an estimator.

    Args:
        products: products of the estimator's batch gradients.
        reduced_products: products of the gradients minus control variates, which reduce the noise.
    """
    (plain_moments, plain_jackknife), (reduced_moments, reduced_jackknife) = (
        products.estimates(),
        reduced_products.estimates(),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        angles = [
            (
                moments.across / (moments.along**2 + moments.across),
                moments.along / np.sqrt(moments.along**2 + moments.across),
            )
            for moments in (reduced_moments, reduced_jackknife)
        ]
        scaled_variances = [
            plain_part.variance / reduced_part.along**2
            for plain_part, reduced_part in (
                (plain_moments, reduced_moments),
                (plain_jackknife, reduced_jackknife),
            )
        ]
        lengths = np.sqrt(products.squares * products.exact)
        cosines = np.where(lengths > 0, products.along / np.where(lengths > 0, lengths, 1.0), 0.0)
        extra_error = reduced_products.pair_error / reduced_products.exact
        extra_angle = extra_error / max(
            float(reduced_moments.along) ** 2 + max(float(reduced_moments.across), 0.0), MIN_DIVISOR
        )
    sine = _square_root(
        jackknife_interval(float(angles[0][0]), angles[1][0], more_error=extra_angle), max_value=1.0
    )
    along_interval = jackknife_interval(float(reduced_moments.along), reduced_jackknife.along)
    is_aligned, may_be_opposite = along_interval.mean > 0, not along_interval.low > 0
    return GradientFigures(
        bias=_square_root(
            jackknife_interval(
                float(reduced_moments.bias), reduced_jackknife.bias, more_error=extra_error
            )
        ),
        bias_scaled=Interval(
            mean=sine.mean if is_aligned else 1.0,
            low=sine.low if along_interval.high > 0 else 1.0,
            high=1.0 if may_be_opposite else sine.high,
            count=sine.count,
        ),
        cosine=_clip(
            jackknife_interval(float(angles[0][1]), angles[1][1], more_error=extra_angle / 2),
            -1.0,
            1.0,
        ),
        variance=_clip(
            jackknife_interval(float(plain_moments.variance), plain_jackknife.variance), 0.0, np.inf
        ),
        variance_scaled=_clip(
            jackknife_interval(
                float(scaled_variances[0]) if is_aligned else np.inf, scaled_variances[1]
            ),
            0.0,
            np.inf,
        ),
        bias_unpaired=_square_root(
            jackknife_interval(
                float(plain_moments.bias),
                plain_jackknife.bias,
                more_error=products.pair_error / products.exact,
            )
        ),
        batch_cosine=mean_interval(cosines),
    )


def subtract_controls(
    layout: GradientLayout,
    gradients: FloatArray,
    exact: FloatArray,
    controls: FloatArray,
    expectations: FloatArray,
) -> GradientProducts:
    """Return the products of the gradients minus the best combination of control variates.

    The combination minimises the variance. E g does not change, as the controls' expectation is
    added back. The fit of K factors to all batches has an error of about K / n of the noise.

    Args:
        layout: layout of the episodes' gradients.
        gradients: gradients of an estimator, [S].
        exact: the exact gradient [D].
        controls: gradients whose expectation is known, [K, S].
        expectations: expectations of the controls in units of the exact gradient, [K].
    """
    sums = np.array([layout.total(control) for control in controls])
    covariance = controls @ controls.T - sums @ sums.T / layout.num_batches
    gradient_covariance = controls @ gradients - sums @ layout.total(gradients) / layout.num_batches
    factors = np.linalg.lstsq(covariance, gradient_covariance, rcond=1e-10)[0]
    return GradientProducts.of(
        layout, gradients - factors @ controls, exact, shift=float(factors @ expectations)
    )


def _square_root(squared: Interval, max_value: float = np.inf) -> Interval:
    """Return the interval of the square root; estimates below 0 become 0."""
    low, mean, high = (
        float(np.sqrt(np.clip(end, 0.0, max_value**2)))
        for end in (squared.low, squared.mean, squared.high)
    )
    return Interval(mean=mean, low=low, high=high, count=squared.count, level=squared.level)


def _clip(interval: Interval, low: float, high: float) -> Interval:
    ends = (float(np.clip(end, low, high)) for end in (interval.mean, interval.low, interval.high))
    return Interval(
        **dict(zip(("mean", "low", "high"), ends, strict=True)),
        count=interval.count,
        level=interval.level,
    )


def with_playout_values(
    lab_turns: LabEpisodes,
    episodes: Sequence[Episode],
    game: Environment,
    policy: TablePolicy,
    *,
    count: int,
    stream: Stream,
) -> LabEpisodes:
    """Return the episodes with the columns ``playout`` and ``playout_before``.

    The values belong to histories, because playouts start from the complete state. Given a seat's
    knowledge, their expectations before and after its turn are V and Q of its information state.
    Playout values therefore lead to the same exact gradient.

    Args:
        lab_turns: the episodes that get the columns.
        episodes: records of the same episodes.
        game: the game of the episodes.
        policy: the policy that continues the episodes in every seat.
        count: number of playouts from each position.
        stream: stream of random numbers.
    """
    agent = TableAgent(policy)
    values_after, values_before = [], []
    for start in range(0, len(episodes), lab_turns.batch_size):
        batch = episodes[start : start + lab_turns.batch_size]
        pending = with_playouts(
            batch, {game.name: game}, count=count, stream=stream.child(start), estimate_before=True
        )
        with_values, _ = run_requests(pending, lambda specs: rollout(specs, {agent.name: agent}))
        for _, turn in ordered_turns(with_values):
            values_after.append(turn.playout)
            values_before.append(turn.playout_before)
    turns = replace(
        lab_turns.turns,
        playout=np.array(values_after, dtype=np.float64),
        playout_before=np.array(values_before, dtype=np.float64),
    )
    return replace(lab_turns, turns=turns)


def with_reward(
    lab_turns: LabEpisodes, episodes: Sequence[Episode], game: Environment, reward: BoundPlugin
) -> LabEpisodes:
    """Return the episodes with the rewards of a plug-in; columns of values do not change."""
    rewarded_episodes, _ = apply_rewards(
        episodes,
        [WeightedReward(bound=reward, weight=parse(1.0))],
        1.0,
        gaps={},
        games={game.name: game},
        outcome_weight=0.0,
        reorder_outcomes=True,
    )
    turns = turn_table(rewarded_episodes)
    changed_turns = replace(lab_turns.turns, reward=turns.reward, components=turns.components)
    return replace(lab_turns, turns=changed_turns)


ALL = "all"
MIN_BATCHES = 4  # smallest number of batches that figures count
AVAILABLE_DATA = {"game", "batch"}  # what a reward can read in the lab
Estimator = Callable[[TurnTable, Mapping[str, Any]], Credit]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabPlan:
    """Settings of a comparison."""

    episodes: int = 20_000  # rounded up to whole batches
    group_size: int = 8
    batch_size: int = 64
    critic: Critic = "exact"
    # share of the first batches, which estimators get but no figure counts
    burn_in: float = 0.0
    playouts: int = 5  # games from each position, for estimators that read playout values
    # reward that estimators get, as NAME[:PRESET] key=value; "": the game's
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
        if self.batches - self.num_skipped < MIN_BATCHES:
            episodes = int(np.ceil(MIN_BATCHES / (1 - self.burn_in))) * self.batch_size
            raise ConfigError(
                f"--episodes {self.episodes} make {self.batches - self.num_skipped} counted "
                f"batches of {self.batch_size}; intervals need {MIN_BATCHES}: write "
                f"--episodes {episodes} or more."
            )

    @property
    def batches(self) -> int:
        """Number of all batches."""
        return -(-self.episodes // self.batch_size)

    @property
    def num_skipped(self) -> int:
        """Number of batches that are not counted."""
        return int(self.burn_in * self.batches)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabRow:
    """Results of one estimator on the lab's episodes, or the error (``refused``)."""

    estimator: str
    refused: str | None = None
    gradient: GradientFigures | None = None
    # figures of each role, in the parameters of its seat only
    seats: Mapping[str, GradientFigures] = field(default_factory=dict)
    # share of the turns with an advantage and |Q - V| > 1e-9 whose advantage has the sign of Q - V
    right_sign: float = np.nan
    zeros: float = np.nan  # share of all turns whose advantage is 0
    effective: float = np.nan  # effective sample size (sum |A|)^2 / sum A^2 as a share of the turns
    seconds: float | None = None  # processor seconds per 100,000 turns


@dataclass(frozen=True, kw_only=True, slots=True)
class LabReport:
    """A comparison: its episodes, a check of the lab, and a row per estimator."""

    game: str
    num_info_states: int
    num_parameters: int
    episodes: int
    batches: int  # number of counted batches
    turns: int
    returns: tuple[float, ...]  # exact expected return per seat
    gradient_norm: float  # norm of the exact gradient
    check: Interval  # bias of the plain returns without control variates; should be 0
    rows: tuple[LabRow, ...]


def estimator_names(text: str) -> list[str]:
    """Return the estimators of a comma-separated list.

    The item "all" stands for every installed estimator, and every preset as NAME:PRESET.

    Raises:
        UnknownNameError: the estimator, preset or option does not exist.
        ConfigError: the list is empty, or an option's value is wrong or left out.
    """
    names: list[str] = []
    for item in filter(None, map(str.strip, text.split(","))):
        if item == ALL:
            for name in registry.names("credit"):
                names += [
                    name,
                    *(f"{name}:{preset}" for preset in registry.load("credit", name).presets),
                ]
        else:
            bind_estimator(item)
            names.append(item)
    if not names:
        raise ConfigError(
            f"--estimators {text!r} names no estimator; write --estimators all, or a list such as "
            "outcome,rloo,'gae lam=0.5'."
        )
    return list(dict.fromkeys(names))


def bind_estimator(text: str) -> BoundPlugin:
    """Return the estimator of a text such as ``rloo`` or ``gae lam=0.5``; see ``bind``."""
    name, preset, options = parse_plugin(text, "Estimator", "gae lam=0.5")
    return registry.bind("credit", name, options, preset=preset)


def bind_reward(text: str) -> BoundPlugin:
    """Return the reward of a text such as ``contribution by=difference``.

    Raises:
        ConfigError: the reward needs data that the lab lacks, such as an oracle's verdicts.
    """
    name, preset, options = parse_plugin(text, "Reward", "contribution by=difference")
    reward = registry.bind("rewards", name, options, preset=preset)
    missing = sorted(set(reward.plugin.needs) - AVAILABLE_DATA)
    if missing:
        raise ConfigError(
            f"--reward {text!r} reads {', '.join(missing)}, which the lab does not have; name "
            "a reward that reads only episodes, such as 'contribution by=difference'."
        )
    return reward


TIMED_ROWS = 100_000  # smallest number of turns in the timed call
SIGN_TOLERANCE = 1e-9  # turns with a smaller |Q - V| do not count in ``right_sign``


class CreditLab:
    """Episodes of one game on which all estimators are measured.

    Args:
        game: the game.
        policy: the policy of every seat; a table over the game's information states.
        plan: number of episodes, batches and other settings.

    Raises:
        ConfigError: the sizes do not fit, or the policy's exact gradient is 0.
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
        lab_turns = lab_episodes(
            episodes,
            policy,
            self.values,
            batch_size=plan.batch_size,
            critic=plan.critic,
            stream=stream.child("critic"),
        )
        self.episodes, self.all_turns, self.counted_turns = (
            episodes,
            lab_turns,
            _skip_batches(lab_turns, plan.num_skipped),
        )
        self.input_turns = lab_turns  # input of estimators
        if plan.reward:
            self.input_turns = with_reward(lab_turns, episodes, game, bind_reward(plan.reward))
        self.tables = self.input_turns.tables()
        self.first_counted_turn = len(lab_turns.batch) - len(self.counted_turns.batch)
        self.layout = GradientLayout.of(self.counted_turns, policy)
        self.controls, self.expectations = self._controls()

    def _controls(self) -> tuple[FloatArray, FloatArray]:
        """Return (gradients with a known expectation [K, S], relative expectations [K])."""
        turns = self.counted_turns.turns
        starts = trajectory_starts(turns.trajectory)
        trajectory = np.cumsum(np.diff(turns.trajectory, prepend=-1) != 0) - 1
        returns = trajectory_sums(turns.reward, turns.trajectory)
        returns_to_go = discounted_returns(turns.reward, turns.trajectory, gamma=1.0)
        rows = [
            returns[trajectory],
            returns_to_go,
            self.counted_turns.advantage,
            np.ones(len(returns_to_go)),
            self.values.state[self.counted_turns.state],
        ]
        if self.plan.group_size > 1:
            groups, count = group_ids(turns.group[starts], turns.seat[starts])
            rows.append(leave_one_out_mean(returns, groups, count)[trajectory])
        expectations = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])[: len(rows)]
        return np.array([self.layout.gradients(advantages) for advantages in rows]), expectations

    def report(self, estimators: Sequence[str]) -> LabReport:
        """Measure estimators by the names that ``estimator_names`` returns."""
        products = GradientProducts.of(self.layout, self.controls[0], self.exact)
        return LabReport(
            game=self.game.name,
            num_info_states=len(self.policy.states),
            num_parameters=len(self.policy.flat),
            episodes=self.counted_turns.num_batches * self.plan.batch_size,
            batches=self.counted_turns.num_batches,
            turns=len(self.counted_turns.batch),
            returns=tuple(self.values.returns.tolist()),
            gradient_norm=float(np.linalg.norm(self.exact)),
            check=figures(products, products).bias_unpaired,
            rows=tuple(self.row(name) for name in estimators),
        )

    def row(self, name: str) -> LabRow:
        """Measure one estimator by name; the row has its results or its error."""
        try:
            return self.measure(name, bind_estimator(name))
        except SparringError as error:
            return LabRow(estimator=name, refused=str(error))

    def measure(self, name: str, estimator: Estimator) -> LabRow:
        """Measure any function with an estimator's signature.

        Raises:
            CreditError: the estimator cannot use the table, or its advantages are not finite.
        """
        advantages = self.advantages(name, estimator)[self.first_counted_turn :]
        gradients = self.layout.gradients(advantages)
        has_sign = np.abs(self.counted_turns.advantage) > SIGN_TOLERANCE
        mask = has_sign & (advantages != 0)
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
                np.mean(np.sign(advantages[mask]) == np.sign(self.counted_turns.advantage[mask]))
            )
            if mask.any()
            else np.nan,
            zeros=float(np.mean(advantages == 0)),
            effective=float(np.abs(advantages).sum() ** 2 / square / len(advantages))
            if square
            else 0.0,
            seconds=self.seconds(estimator) if self.plan.timed else None,
        )

    def advantages(self, name: str, estimator: Estimator) -> FloatArray:
        """Return the advantage of every turn, with the burn-in, by one call per batch."""
        state: Mapping[str, Any] = {}
        columns = []
        for table in self.tables_for(estimator):
            credit = estimator(table, state)
            state = credit.state
            columns.append(advantage_per_turn(credit, table))
        advantages = np.concatenate(columns)
        invalid_turns = np.flatnonzero(~np.isfinite(advantages))
        if len(invalid_turns):
            raise CreditError(
                f"credit {name!r} returned the advantage {advantages[invalid_turns[0]]} in turn "
                f"{invalid_turns[0]} of the lab's episodes."
            )
        return advantages

    def tables_for(self, estimator: Estimator) -> list[TurnTable]:
        """Return the table of each batch with the columns that an estimator needs."""
        episodes = self.episodes_for(estimator)
        return self.tables if episodes is self.input_turns else episodes.tables()

    def episodes_for(self, estimator: Estimator) -> LabEpisodes:
        """Return all episodes with the columns that an estimator needs."""
        episodes = self.playout_turns if needs_playouts(estimator) else self.input_turns
        if (
            isinstance(estimator, BoundPlugin)
            and estimator.plugin.declarations.CRITIC == "contribution"
        ):
            episodes = episodes.with_contributions()
        judgements = judgements_of(estimator, episodes)
        return episodes.with_judgements(judgements) if judgements else episodes

    @cached_property
    def playout_turns(self) -> LabEpisodes:
        """All episodes with playout values."""
        return with_playout_values(
            self.input_turns,
            self.episodes,
            self.game,
            self.policy,
            count=self.plan.playouts,
            stream=Stream.from_seed(self.plan.seed).child("credit lab").child("playouts"),
        )

    def _figures(self, gradients: FloatArray, seat: int | None) -> GradientFigures:
        """Return the figures of batch gradients [S], in all parameters or those of one seat."""
        layout, exact, controls = self.layout, self.exact, self.controls
        if seat is not None:
            is_of_seat = self.policy.seats == seat
            is_slot_of_seat = is_of_seat[layout.parameter]
            exact = exact * is_of_seat
            gradients, controls = gradients * is_slot_of_seat, controls * is_slot_of_seat
        products = GradientProducts.of(layout, gradients, exact)
        return figures(
            products, subtract_controls(layout, gradients, exact, controls, self.expectations)
        )

    def seconds(self, estimator: Estimator) -> float:
        """Return the processor time of one call in seconds, per 100,000 turns."""
        end = int(
            np.searchsorted(
                self.counted_turns.batch,
                self.counted_turns.batch[min(TIMED_ROWS, len(self.counted_turns.batch)) - 1],
                side="right",
            )
        )
        turns = _skip_batches(self.episodes_for(estimator), self.plan.num_skipped).turns
        table = repeat_table(slice_turns(turns, 0, end), TIMED_ROWS)
        start = time.process_time()
        estimator(table, {})
        return (time.process_time() - start) * TIMED_ROWS / len(table.reward)


def needs_playouts(estimator: Estimator) -> bool:
    """Return whether an estimator needs playout values."""
    return isinstance(estimator, BoundPlugin) and "playout" in estimator.plugin.needs


def judgements_of(estimator: Estimator, lab_turns: LabEpisodes) -> list[str]:
    """Return the judgements that an estimator's options name as components of the reward."""
    options = estimator.at(0.0).values() if isinstance(estimator, BoundPlugin) else ()
    return sorted(name for name in lab_turns.judgements if name in options)


def advantage_per_turn(credit: Credit, turns: TurnTable) -> FloatArray:
    """Return the advantage of every turn [N]: the mean of its tokens, or 0 without tokens."""
    if credit.level == "turn":
        return credit.advantages
    turn = np.repeat(np.arange(len(turns.n_tokens)), turns.n_tokens)
    sums = np.bincount(turn, weights=credit.advantages, minlength=len(turns.n_tokens))
    return sums / np.maximum(turns.n_tokens, 1)


def _skip_batches(lab_turns: LabEpisodes, batches: int) -> LabEpisodes:
    start = int(np.searchsorted(lab_turns.batch, batches))
    return replace(
        lab_turns,
        turns=slice_turns(lab_turns.turns, start, len(lab_turns.batch)),
        batch=lab_turns.batch[start:] - batches,
        num_batches=lab_turns.num_batches - batches,
        state=lab_turns.state[start:],
        choice=lab_turns.choice[start:],
        advantage=lab_turns.advantage[start:],
        contribution=lab_turns.contribution[start:],
        judgements={name: column[start:] for name, column in lab_turns.judgements.items()},
    )
