"""The reward model: a second model that learns on line what tells won games from lost ones, and so
what each turn was worth.

It starts as a copy of the policy. At every step, before credit, it is trained on pairs of games of
one start and role, a better and a worse one, by DPO at the level of whole games:

- Q = mean over a trajectory's turns of beta (log pi_phi(turn) - log pi_old(turn)),
  log-probabilities summed over the turn's tokens
- loss = mean over pairs of -log sigmoid(Q_better - Q_worse)

pi_old is the policy as it is before the step's update. After that log pi_phi of every turn is a
column of the turn table, and the estimator makes step rewards beta (log pi_phi - log pi_old) of it.
Better is the higher return of a trajectory, rewards included, as credit sees it: in games of won
and lost the won one, in games of graded payoffs the one that was paid more. Ties give no pair.

Metrics, where there is a reward model; of the step's games before it has learnt from them:
    process/loss            the loss above; only where there are pairs
    process/accuracy        share of the pairs whose better game has the larger Q, ties count half;
                            only where there are pairs
    process/pairs           pairs of a better and a worse game of one start and role
    process/unpaired_groups groups (trajectories of one start and role) that give no pair, as all
    their returns are equal

Legend: as in ``pack.py``; N turns, G trajectories, P pairs.

Pairs of a better and a worse member of one group.

Legend: K members; P pairs, each the index of the better and of the worse. Values closer than
rounding are ties, which make no pair.
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
from sparring.learn.weights import Snapshot
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.models.language_model import LanguageModel

TIE = 1e-9  # relative to the larger of the two values and 1


def one_to_one(values: FloatArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return pairs in which nobody is twice.

    The best of a group with its worst, the second best with the second worst, and so on.

    Where values are 0 and 1, that is as many pairs as there are of the rarer of the two.

    Args:
        values: [K].
        ids: int64 [K], the group of each.
    """
    order = np.lexsort((values, ids))
    _, start, size = np.unique(ids[order], return_index=True, return_counts=True)
    place = np.arange(len(order))
    mirrored = np.repeat(2 * start + size - 1, size) - place
    lower = place < mirrored
    better, worse = order[mirrored[lower]], order[place[lower]]
    kept = _differ(values[better], values[worse])
    return better[kept], worse[kept]


def every_pair(values: FloatArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return all pairs of a group whose values differ; arguments as ``one_to_one``."""
    order = np.lexsort((values, ids))
    largest = int(np.unique(ids, return_counts=True)[1].max(initial=0))
    better, worse = [order[:0]], [order[:0]]
    for shift in range(1, largest):
        low, high = order[:-shift], order[shift:]
        kept = (ids[low] == ids[high]) & _differ(values[high], values[low])
        better.append(high[kept])
        worse.append(low[kept])
    return np.concatenate(better), np.concatenate(worse)


def _differ(high: FloatArray, low: FloatArray) -> BoolArray:
    """Return where the first is larger by more than rounding."""
    larger: BoolArray = high - low > TIE * np.maximum(1.0, np.maximum(np.abs(high), np.abs(low)))
    return larger


class ProcessLearner(Learner):
    """Holds the reward model and its optimiser.

    Args:
        policy: what the reward model starts as a copy of; frozen weights are shared.
        config: of the run; section ``process``, and ``learner`` for what that does not say.
        credit: the estimator, at whose option ``beta`` the reward model is trained.

    Raises:
        ConfigError: the estimator has no option ``beta``.
    """

    def __init__(self, policy: LanguageModel, config: RunConfig, credit: BoundPlugin) -> None:
        if "beta" not in credit.plugin.options:
            raise ConfigError(
                f"credit {credit.plugin.name!r} NEEDS 'process_logprob' but has no option beta, "
                "at which the reward model is trained; give its function a keyword-only "
                "parameter beta."
            )
        self.credit, self.process = credit, config.process
        rate = (
            config.learner.learning_rate
            if config.process.learning_rate is None
            else config.process.learning_rate
        )
        own = config.learner.model_copy(update={"learning_rate": rate, "average": 0.0})
        self.snapshot = Snapshot.of(policy, "process")
        super().__init__(self.snapshot.model, own, [], temperature=config.rollout.temperature)

    def follow(self, policy: LanguageModel) -> None:
        """Take on the policy's weights: what was learnt before the first step is common to both."""
        self.snapshot.follow(policy)

    def fit(self, data: Pack, turns: TurnTable, *, progress: float) -> dict[str, float]:
        """Train on the pairs of a step and return the metrics of this module.

        Without any pair nothing changes.

        Args:
            data: the packed episodes.
            turns: their turn table, with ``old_logprob``.
            progress: share of the run that is done, in [0, 1]; resolves schedules.
        """
        returns, starts = trajectory_returns(turns)
        groups = start_groups(turns)[0][starts]
        better, worse = (one_to_one if self.process.pairs == "one_to_one" else every_pair)(
            returns, groups
        )
        unpaired = len(np.unique(groups)) - len(np.unique(groups[better]))
        metrics = {"process/pairs": float(len(better)), "process/unpaired_groups": float(unpaired)}
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
        """One optimiser update, given the derivative of the loss by each turn's log-probability,
        [N].
        """
        weights = slopes[data.turn_of]
        chosen = np.unique(np.repeat(np.arange(len(data.tokens)), data.tokens)[weights != 0.0])
        self.optimizer.zero_grad(set_to_none=True)
        for part in self._parts(data, chosen):
            logprobs, _ = self._forward(self.model, part)
            own = torch.from_numpy(weights[part.tokens]).to(logprobs.device, logprobs.dtype)
            self.gradients.backward((own * logprobs[part.spread]).sum(), logprobs)
        self.gradients.check(imitating=True)
        self._apply()


def mean_scores(logprob: FloatArray, turns: TurnTable, beta: float) -> FloatArray:
    """Return Q [G], the mean of each trajectory's step scores, of a model's log-probabilities of
    the turns [N].
    """
    assert turns.old_logprob is not None
    totals = np.bincount(turns.trajectory, weights=beta * (logprob - turns.old_logprob))
    means: FloatArray = totals / np.bincount(turns.trajectory)
    return means


def gradient(
    margins: FloatArray, better: IntArray, worse: IntArray, turns: TurnTable, beta: float
) -> FloatArray:
    """Return the derivative of the loss by each turn's log-probability [N], of margins Q_better -
    Q_worse [P].
    """
    counts = np.bincount(turns.trajectory)
    slope = np.exp(-np.logaddexp(0.0, margins)) / len(margins)  # sigmoid(-margin) / P
    of_trajectory = np.bincount(worse, slope, len(counts)) - np.bincount(better, slope, len(counts))
    of_turn: FloatArray = (beta * of_trajectory / counts)[turns.trajectory]
    return of_turn
