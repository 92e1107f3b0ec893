"""The reward model: a second model that scores single turns, trained online on pairs of episodes.

The reward model starts as a copy of the policy. At every step, before credit, it is trained on
pairs of a better and a worse trajectory of one initial state and role, by trajectory-level DPO:

- Q = mean over a trajectory's turns of beta (log pi_phi(turn) - log pi_old(turn)); log pi(turn) is
  the sum over the turn's tokens
- loss = mean over pairs of -log sigmoid(Q_better - Q_worse)

pi_old is the policy before the step's update. After training, log pi_phi of every turn becomes a
column of the turn table. The estimator computes step rewards beta (log pi_phi - log pi_old) from
it. The better trajectory of a pair is the one with the higher return. Returns that differ only by
rounding are ties, and ties make no pair.

Metrics of runs with a reward model, measured before its first update of the step:
    process/loss            the loss above; only if there are pairs
    process/accuracy        share of the pairs whose better trajectory has the larger Q (a tie of Q
                            counts as half); only if there are pairs
    process/pairs           number of pairs of a better and a worse trajectory
    process/unpaired_groups number of groups (trajectories of one initial state and role) without a
                            pair, because all their returns are equal

Legend: as in ``pack.py``; N turns, G trajectories, K members of groups, P pairs.
"""

from __future__ import annotations

import numpy as np
import torch

from sparring.config import RunConfig
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ConfigError
from sparring.core.records import BoolArray, FloatArray, IntArray, TurnTable
from sparring.learn.learner import Learner
from sparring.learn.pack import Pack
from sparring.learn.weight_files import Snapshot
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.models.language_model import LanguageModel

MAX_TIE = 1e-9  # largest difference in a tie, relative to the larger of the two values and 1


def one_to_one(values: FloatArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Pair the best and the worst member of each group, the second best and second worst, ...

    Args:
        values: returns of the members, [K].
        ids: int64 [K], the group of each member.

    Returns:
        Indices of the better and of the worse members, [P] each; no member is in two pairs.
    """
    order = np.lexsort((values, ids))
    _, start, group_size = np.unique(ids[order], return_index=True, return_counts=True)
    rank = np.arange(len(order))
    partner_rank = np.repeat(2 * start + group_size - 1, group_size) - rank
    is_lower = rank < partner_rank
    better, worse = order[partner_rank[is_lower]], order[rank[is_lower]]
    is_pair = _is_larger(values[better], values[worse])
    return better[is_pair], worse[is_pair]


def every_pair(values: FloatArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return all pairs within groups whose values differ; see ``one_to_one``."""
    order = np.lexsort((values, ids))
    largest_group = int(np.unique(ids, return_counts=True)[1].max(initial=0))
    better, worse = [order[:0]], [order[:0]]
    for shift in range(1, largest_group):
        low, high = order[:-shift], order[shift:]
        is_pair = (ids[low] == ids[high]) & _is_larger(values[high], values[low])
        better.append(high[is_pair])
        worse.append(low[is_pair])
    return np.concatenate(better), np.concatenate(worse)


def _is_larger(high: FloatArray, low: FloatArray) -> BoolArray:
    is_larger: BoolArray = high - low > MAX_TIE * np.maximum(
        1.0, np.maximum(np.abs(high), np.abs(low))
    )
    return is_larger


class ProcessLearner(Learner):
    """The reward model and its optimiser.

    Args:
        policy: the model that the reward model copies at first; both share frozen weights.
        config: configuration of the run: section ``process``, with defaults from ``learner``.
        credit: the estimator; the reward model has the same ``beta``.

    Raises:
        ConfigError: the estimator has no option ``beta``.
    """

    def __init__(self, policy: LanguageModel, config: RunConfig, credit: BoundPlugin) -> None:
        if "beta" not in credit.plugin.options:
            raise ConfigError(
                f"credit {credit.plugin.name!r} NEEDS 'process_logprob' but has no option beta, "
                "with which the reward model is trained; add a keyword-only parameter beta to its "
                "function."
            )
        self.credit, self.process = credit, config.process
        rate = (
            config.learner.learning_rate
            if config.process.learning_rate is None
            else config.process.learning_rate
        )
        settings = config.learner.model_copy(update={"learning_rate": rate, "average": 0.0})
        self.snapshot = Snapshot.of(policy, "process")
        super().__init__(self.snapshot.model, settings, [], temperature=config.rollout.temperature)

    def follow(self, policy: LanguageModel) -> None:
        """Copy the policy's weights, so that both models start equal after the warm-up."""
        self.snapshot.follow(policy)

    def fit(self, data: Pack, turns: TurnTable, *, progress: float) -> dict[str, float]:
        """Train on the pairs of a step, if any, and return the metrics of this module.

        Args:
            data: the packed episodes.
            turns: the episodes' turn table, with ``old_logprob``.
            progress: share of the run that is done, in [0, 1]; schedules depend on it.
        """
        returns, starts = trajectory_returns(turns)
        groups = start_groups(turns)[0][starts]
        better, worse = (one_to_one if self.process.pairs == "one_to_one" else every_pair)(
            returns, groups
        )
        num_unpaired = float(len(np.unique(groups)) - len(np.unique(groups[better])))
        metrics = {"process/pairs": float(len(better)), "process/unpaired_groups": num_unpaired}
        if not len(better):
            return metrics
        beta, rate = self.credit.at(progress)["beta"], self.learning_rate(progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        for update in range(self.process.updates):
            means = mean_scores(self.turn_logprobs(data), turns, beta)
            margins = means[better] - means[worse]
            if not update:
                metrics["process/loss"] = float(np.logaddexp(0.0, -margins).mean())
                metrics["process/accuracy"] = float((0.5 + 0.5 * np.sign(margins)).mean())
            self._descend(data, gradient(margins, better, worse, turns, beta))
        return metrics

    def _descend(self, data: Pack, slopes: FloatArray) -> None:
        weights = slopes[data.turn_of]
        sequences = np.unique(np.repeat(np.arange(len(data.tokens)), data.tokens)[weights != 0.0])
        self.optimizer.zero_grad(set_to_none=True)
        for part in self._slices(data, sequences):
            logprobs, _ = self._forward(self.model, part)
            token_weights = torch.from_numpy(weights[part.tokens]).to(
                logprobs.device, logprobs.dtype
            )
            self.gradients.backward((token_weights * logprobs[part.token_index]).sum(), logprobs)
        self.gradients.check(imitating=True)
        self._apply_gradient()


def mean_scores(logprob: FloatArray, turns: TurnTable, beta: float) -> FloatArray:
    """Return Q [G] of each trajectory, given a model's log-probabilities of the turns, [N]."""
    assert turns.old_logprob is not None
    totals = np.bincount(turns.trajectory, weights=beta * (logprob - turns.old_logprob))
    means: FloatArray = totals / np.bincount(turns.trajectory)
    return means


def gradient(
    margins: FloatArray, better: IntArray, worse: IntArray, turns: TurnTable, beta: float
) -> FloatArray:
    """Return the derivative of the loss by each turn's log-probability, [N], from margins [P]."""
    counts = np.bincount(turns.trajectory)
    slope = np.exp(-np.logaddexp(0.0, margins)) / len(margins)  # sigmoid(-margin) / P
    slopes = np.bincount(worse, slope, len(counts)) - np.bincount(better, slope, len(counts))
    turn_slopes: FloatArray = (beta * slopes / counts)[turns.trajectory]
    return turn_slopes
