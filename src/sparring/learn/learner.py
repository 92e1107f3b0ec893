"""The learner, which updates the weights from the advantages of turns.

Every distinct sequence of a batch runs through the network once, and all episodes with this
sequence share the outputs. The result equals that of one row per episode, but takes much less time
in self-play.

Metrics; if nothing else is said, means over the updates of a step:
    loss                    weighted sum of the loss terms, reduced to one number
    gradient_norm           norm of the gradient of all weights, before clipping
    learning_rate           the optimiser's step size
    logprob_difference_max  largest |learner - sampler| log-probability, at the first update, when
                            both have the same weights
    logprob_difference_mean mean of these differences
    ratio_tail              share of tokens, over all updates, whose ratio learner / sampler is
                            outside [0.5, 2]
    ratio_p99               99th percentile of that ratio or its inverse, whichever is larger

Legend: as in ``pack.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sparring.config import LearnerConfig
from sparring.config.plugins.registry import names
from sparring.config.policies import Reduction, UpdateConfig
from sparring.core.errors import ModelError
from sparring.core.records import BoolArray, FloatArray, IntArray, TurnTable
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.learn.gradient_step import GradientTree, Means, RankGroup, descend, finite_loss
from sparring.learn.master_weights import MasterAdamW
from sparring.learn.pack import (
    Pack,
    Reader,
    Slice,
    Targets,
    WeightedLoss,
    chunks,
    critic_positions,
    minibatch_record,
    num_values,
)
from sparring.learn.weight_files import Snapshot, ema_decay, num_updates
from sparring.methods.columns.base import ValuePosition
from sparring.methods.losses.base import LossBatch, WholeMinibatch, agent_weights, reduce
from sparring.models.language_model import LanguageModel


def total_loss(
    losses: Sequence[WeightedLoss],
    config: UpdateConfig,
    batch: LossBatch,
    progress: float,
    *,
    share: float,
    turn_share: float,
) -> tuple[Tensor, dict[str, float]]:
    """Return the weighted sum of the reduced loss terms, and their metrics.

    Args:
        losses: the terms.
        config: the reduction of token losses to one number.
        batch: a slice of a minibatch.
        progress: share of the run that is done, in [0, 1]; schedules of weights depend on it.
        share: share of the slice in the minibatch's loss.
        turn_share: share of the slice in the minibatch's turns.
    """
    terms = [(loss, loss.bound(batch, progress=progress)) for loss in losses]
    metrics = {
        f"{loss.bound.plugin.name}/{key}": float(value)
        for loss, term in terms
        for key, value in term.metrics.items()
    }
    factors = [term.values for _, term in terms if term.level == "weight"]  # of weighted terms
    total = torch.zeros((), dtype=batch.logprobs.dtype, device=batch.logprobs.device)
    for loss, term in terms:
        if term.level == "weight":
            continue
        values = term.values
        for factor in factors if term.weighted else ():
            values = values * factor
        term_loss = (
            values.mean() * (turn_share / share)
            if term.level == "turn"
            else values.sum() / share
            if term.level == "sum"
            else reduce(
                values,
                batch.sequence,
                batch.num_sequences,
                config.reduction,
                config.reduction_constant,
                batch.sequence_weight,
            )
        )
        total = total + loss.weight(progress) * term_loss
    return total, metrics


class LossReader(Reader):
    """Computes the losses of a model."""

    needs: frozenset[str]  # fields that the losses need
    value_at: ValuePosition  # the position at which the critic reads
    losses: Sequence[WeightedLoss]
    config: UpdateConfig  # with the reduction of token losses

    def _record_if_needed(
        self, data: Pack, sequences: IntArray, targets: Targets, *, has_leaves: bool
    ) -> tuple[IntArray, WholeMinibatch] | None:
        """Return the record of the minibatch if it must be made before the gradients.

        None: no loss needs it, or the minibatch's single forward pass makes it.

        Args:
            data: the pack.
            sequences: indices of the minibatch's sequences.
            targets: targets of the step.
            has_leaves: whether the minibatch is split into leaves.
        """
        if "whole" not in self.needs:
            return None
        if not has_leaves:
            rows = np.unique(data.distinct[sequences])
            passes = chunks(data, rows, self.micro_tokens, padded=self._max_padding)
            if len([*islice(passes, 2)]) == 1:
                return None
        return self._whole_minibatch(data, sequences, targets)

    @torch.no_grad()
    def _whole_minibatch(
        self, data: Pack, sequences: IntArray, targets: Targets
    ) -> tuple[IntArray, WholeMinibatch]:
        columns_by_part: dict[str, list[Tensor]] = {}
        tokens = []
        for part in self._slices(data, sequences):
            logprobs, outputs = self._forward(self.model, part)
            part_columns = _comparable_columns(
                logprobs[part.token_index], self._reference_logprobs(part), part, outputs
            )
            for name, column in part_columns.items():
                columns_by_part.setdefault(name, []).append(column)
            tokens.append(part.tokens)
        columns = {name: torch.cat(parts) for name, parts in columns_by_part.items()}
        return minibatch_record(np.concatenate(tokens), columns, data.turn_of, targets)

    @torch.no_grad()
    def _reference_logprobs(self, part: Slice) -> Tensor | None:
        """Return the reference's log-probabilities [M] of a slice, if losses need them."""
        if self.reference is None or "reference_logprobs" not in self.needs:
            return None
        return self._forward(self.reference, part)[0][part.token_index]

    def _loss_batch(
        self,
        data: Pack,
        part: Slice,
        targets: Targets,
        minibatch: tuple[IntArray, WholeMinibatch] | None,
    ) -> LossBatch:
        logprobs, outputs = self._forward(self.model, part)
        token_logprobs = logprobs[part.token_index]
        reference = self._reference_logprobs(part) if minibatch is None else None
        if minibatch is None and "whole" in self.needs:
            columns = _comparable_columns(token_logprobs.detach(), reference, part, outputs)
            minibatch = minibatch_record(part.tokens, columns, data.turn_of, targets)
        sampler_logprobs, old_logprobs, advantages = (
            torch.from_numpy(column[part.tokens]).to(logprobs.device, logprobs.dtype)
            for column in (data.logprobs, targets.old_logprobs, targets.advantages)
        )
        features = {name: outputs[name][part.token_index] for name in self.features}
        legal = {name: outputs[name][part.token_index] for name in part.legal.names}
        fields: dict[str, Any] = {
            "features": features,
            "entropy": features.get("entropy"),
            "legal": legal,
        }
        if minibatch is not None:
            index = torch.from_numpy(np.searchsorted(minibatch[0], part.tokens)).to(logprobs.device)
            fields |= {"whole": minibatch[1], "index": index}
            if minibatch[1].reference_logprobs is not None:
                reference = minibatch[1].reference_logprobs[index]
        turns = data.turn_of[part.tokens]
        if "values" in self.needs and targets.value_targets is not None:
            entries, first_rows = np.unique(
                part.tokens if self.value_at == "token" else turns, return_index=True
            )
            position, first_token = (
                torch.from_numpy(index).to(logprobs.device)
                for index in (critic_positions(data, self.value_at, entries)[1], first_rows)
            )
            row = part.row[part.token_index[first_token]]
            fields["values"] = self.model.values(outputs["hidden"][part.tree.node[row, position]])
            fields["value_targets"] = (
                torch.from_numpy(targets.value_targets[entries]).to(logprobs.device).float()
            )
        return LossBatch(
            logprobs=token_logprobs,
            old_logprobs=old_logprobs,
            sampler_logprobs=sampler_logprobs,
            advantages=advantages,
            sequence=part.sequence,
            turn=torch.from_numpy(turns).to(logprobs.device),
            num_sequences=part.num_sequences,
            sequence_weight=self._sequence_weights(part, targets),
            reference_logprobs=reference,
            **fields,
        )

    def _add_sequence_weights(self, data: Pack, sequences: IntArray, targets: Targets) -> Targets:
        """Return the targets, with sequence weights if the reduction is "agent_mean"."""
        if self.config.reduction != "agent_mean":
            return targets
        weight = np.zeros(len(data.tokens))
        weight[sequences] = agent_weights(data.episode[sequences])
        return replace(targets, sequence_weight=weight)

    def _sequence_weights(self, part: Slice, targets: Targets) -> Tensor | None:
        if targets.sequence_weight is None:
            return None
        weight: Tensor = torch.from_numpy(targets.sequence_weight[part.sequences])
        return weight.to(part.sequence.device)

    def _loss(
        self,
        data: Pack,
        part: Slice,
        targets: Targets,
        minibatch: tuple[IntArray, WholeMinibatch] | None,
        progress: float,
        shares: tuple[float, float],
    ) -> tuple[Tensor, dict[str, float], LossBatch]:
        batch = self._loss_batch(data, part, targets, minibatch)
        share, turn_share = shares
        loss, metrics = total_loss(
            self.losses, self.config, batch, progress, share=share, turn_share=turn_share
        )
        return loss, metrics, batch


def _comparable_columns(
    logprobs: Tensor, reference: Tensor | None, part: Slice, outputs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the columns [M] of a slice's tokens that losses may compare across a minibatch."""
    columns = {"logprobs": logprobs}
    if "entropy" in outputs:
        columns["entropy"] = outputs["entropy"].detach()[part.token_index]
    return columns if reference is None else {**columns, "reference_logprobs": reference}


log = logging.getLogger(__name__)
MAX_NAMES_LISTED = 3  # largest number of names of parameters in an error message


class GradientCheck:
    """Checks the gradients of the first update and of the first imitation, and no later ones.

    Args:
        model: the trained model.
        reads_values: whether a loss reads the value head.
    """

    def __init__(self, model: LanguageModel, *, reads_values: bool) -> None:
        self.model, self.reads_values = model, reads_values
        self._checked_kinds: set[bool] = set()  # values of ``imitating``

    def backward(self, loss: Tensor, logprobs: Tensor) -> None:
        """Add the gradients of a loss to those of the weights.

        Raises:
            ModelError: the loss depends on no trained parameter.
        """
        if not loss.requires_grad:
            if logprobs.requires_grad:
                raise ModelError(
                    "losses: no loss depends on the model, so the model cannot learn; add "
                    "policy_gradient or ppo_clip."
                )
            all_names = [name for name, _ in self._parameters(values=False)]
            raise ModelError(_no_gradient_text(all_names, len(all_names)))
        torch.autograd.backward(loss)

    def check(self, *, imitating: bool = False) -> None:
        """Check the gradients, if this is the first time.

        Args:
            imitating: whether the loss never reads the value head, as in imitation.

        Raises:
            ModelError: a trained parameter has no gradient; the value head needs one only if a loss
                reads it.
        """
        if imitating in self._checked_kinds:
            return
        self._checked_kinds.add(imitating)
        parameters = self._parameters(values=self.reads_values and not imitating)
        names_without = [name for name, parameter in parameters if parameter.grad is None]
        if names_without:
            raise ModelError(_no_gradient_text(names_without, len(parameters)))
        if self.model.value_head is not None and not self.reads_values and not imitating:
            log.warning(
                "The value head is not trained, as no loss reads it: its values stay 0. Add the "
                "loss value_loss."
            )

    def _parameters(self, *, values: bool) -> list[tuple[str, torch.nn.Parameter]]:
        modules = [
            (prefix, module)
            for prefix, module in self.model.modules()
            if values or prefix != "value_head"
        ]
        parameters = [
            (f"{prefix}.{name}", p)
            for prefix, module in modules
            for name, p in module.named_parameters()
        ]
        return [(name, parameter) for name, parameter in parameters if parameter.requires_grad]


def _no_gradient_text(names_without: list[str], total: int) -> str:
    names = ", ".join(names_without[:MAX_NAMES_LISTED]) + (
        f" and {len(names_without) - MAX_NAMES_LISTED} more"
        if len(names_without) > MAX_NAMES_LISTED
        else ""
    )
    if any("lora_" in name for name in names_without):
        advice = (
            "Name layers that the model calls in model.lora.targets (empty: all linear ones), or "
            "leave model.lora out."
        )
    elif any(name.startswith("value_head") for name in names_without):
        advice = (
            "Use an estimator that fits a critic (credit: gae), or leave out the loss that reads "
            "values."
        )
    else:
        advice = (
            "Train adapters on layers that the model calls (model.lora), or freeze these "
            "parameters with requires_grad_(False)."
        )
    return (
        f"{len(names_without)} of {total} trained parameters get no gradient, so they would "
        f"never change: {names}. {advice}"
    )


LOG_RATIO_LIMIT = 2.0  # limit of the log-ratio of one turn, and of the sum of log-ratios


def minibatches(
    data: Pack,
    count: int,
    stream: Stream,
    turns: TurnTable | None = None,
    *,
    split: Literal["episodes", "sequences"] = "episodes",
) -> list[IntArray]:
    """Split the sequences with sampled tokens into minibatches, shuffled if there are several.

    Args:
        data: the pack, S sequences.
        count: number of minibatches; some are empty if there are fewer episodes or sequences.
        stream: the random numbers of the shuffle.
        turns: the turn table, if losses compare episodes of one initial state; these episodes then
            stay in one minibatch.
        split: "episodes" keeps all sequences of an episode, of all seats, in one minibatch;
            "sequences" shuffles single sequences.
    """
    order = data.with_replies
    if count == 1:
        return [order]
    generator = stream.generator()
    if turns is None and split == "sequences":
        return np.array_split(generator.permutation(order), count)
    first_tokens = (np.cumsum(data.tokens) - data.tokens)[order]
    unit_key = data.episode[order] if turns is None else turns.group[data.turn_of[first_tokens]]
    _, unit = np.unique(unit_key, return_inverse=True)
    unit_order = generator.permutation(int(unit.max(initial=-1)) + 1)
    return [order[np.isin(unit, units)] for units in np.array_split(unit_order, count)]


class ReverseTurns:
    """The advantages for one update per turn, from the last turn to the first (SeeUPO).

    ``indices`` holds the turn indices of the batch, the last one first.

    SeeUPO treats turns as agents and updates them one after the other, the last turn first. When
    turn t is updated, the later turns already follow the new policy, and the advantage of turn t is
    weighted by the probability ratios of the later turns:

        M[T+1] = A;  M[t] = M[t+1] * pi_new(turn t) / pi_old(turn t)

    The tokens of turn t are trained with A times the product of the ratios of all later turns. The
    ratios to the policy before the step are computed after each update, and each is clipped to
    [e^-limit, e^limit].

    Every update runs over all tokens of the step, with advantages of 0 outside the current turn.
    Advantages are rescaled so that each update is the reduction over the tokens of its turn. There
    are M tokens, and M_t of them belong to turn t. There are S sequences, and S_t of them have
    tokens of turn t. A sequence has n tokens, and n_t of them belong to turn t. The factors are

        token_mean:     M / M_t                 every token of the turn weighs 1 / M_t
        sequence_mean:  (S / S_t) (n / n_t)     every token of the turn weighs 1 / (S_t n_t)
        agent_mean:     as sequence_mean, with E N in place of S, for E episodes of N sequences
        constant:       1                       every token of the turn weighs 1 / (S constant)

    Losses that read no advantages, such as ``kl_penalty``, act on all tokens in each of these
    updates.

    Reference: SeeUPO (abstract and notes; the product is that of sequential trust-region methods,
    Kuba et al., 2022).

    Args:
        turns: the turn table, N rows.
        turn_of: int64 [M], row of each sampled token.
        sequence: int64 [M], training sequence of each sampled token.
        reduction: how the losses of tokens are reduced to one number.
        episode: [S], episode of each sequence, for "agent_mean".
    """

    def __init__(
        self,
        turns: TurnTable,
        turn_of: IntArray,
        sequence: IntArray,
        reduction: Reduction = "token_mean",
        episode: IntArray | None = None,
    ) -> None:
        self._sequence, self._lengths, self._reduction = sequence, np.bincount(sequence), reduction
        self._index, self._trajectory = turns.turn_index[turn_of], turns.trajectory[turn_of]
        self._episode = episode
        # log of the product of the ratios of later turns, by trajectory
        self._log_product = np.zeros(int(self._trajectory.max(initial=-1)) + 1)
        self.indices: list[int] = sorted(set(self._index.tolist()), reverse=True)

    def advantages(self, advantages: FloatArray, index: int) -> FloatArray:
        """Return the weighted, rescaled advantages of turns with this index, [M]; 0 elsewhere."""
        is_in_turn = self._index == index
        weight = np.exp(
            np.clip(self._log_product[self._trajectory], -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
        )
        return np.where(is_in_turn, self._rescale(advantages * weight, is_in_turn), 0.0)

    def _rescale(self, values: FloatArray, is_in_turn: BoolArray) -> FloatArray:
        """Rescale values [M] so that the mean over all tokens becomes that over a turn's tokens."""
        if self._reduction == "constant":
            return values
        if self._reduction == "token_mean":
            token_values: FloatArray = values * len(is_in_turn) / is_in_turn.sum()
            return token_values
        turn_lengths = np.bincount(self._sequence[is_in_turn], minlength=len(self._lengths))
        share = self._weights(turn_lengths) / self._weights(self._lengths)
        factor: FloatArray = (share * self._lengths / np.maximum(turn_lengths, 1))[self._sequence]
        return values * factor

    def _weights(self, lengths: IntArray) -> FloatArray:
        """Return the weight of each sequence among those with tokens, [S]."""
        has_tokens = lengths > 0
        weights = np.full(len(lengths), 1.0 / has_tokens.sum())
        if self._reduction == "agent_mean":
            assert self._episode is not None, "agent_mean weighs the sequences of episodes"
            weights[has_tokens] *= agent_weights(self._episode[: len(lengths)][has_tokens])
        return weights

    def record_shift(self, index: int, log_ratios: FloatArray) -> None:
        """Record log pi_new - log pi_old of every token, [M], after the update of a turn index."""
        is_in_turn = self._index == index
        shift = np.bincount(
            self._trajectory[is_in_turn], log_ratios[is_in_turn], len(self._log_product)
        )
        self._log_product += np.clip(shift, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


class Learner(LossReader):
    """A model with its optimiser and, if configured, the EMA weights ``average``."""

    def __init__(
        self,
        model: LanguageModel,
        config: LearnerConfig,
        losses: Sequence[WeightedLoss],
        *,
        temperature: float,
        with_reference: bool | None = None,
        value_at: ValuePosition = "before",
    ) -> None:
        self.needs = frozenset().union(*(loss.bound.needs for loss in losses))
        with_reference = (
            "reference_logprobs" in self.needs if with_reference is None else with_reference
        )
        reference = Snapshot.of(model, "reference") if with_reference else None
        super().__init__(
            model,
            temperature=temperature,
            micro_tokens=config.micro_tokens,
            features=sorted(self.needs & set(names("features"))),
            reference=reference.model if reference is not None else None,
        )
        self.config, self.losses, self.value_at = config, losses, value_at
        self.gradients = GradientCheck(model, reads_values="values" in self.needs)
        self.learning_rate = parse(config.learning_rate, "learner.learning_rate")
        self.optimizer = self.new_optimizer()
        self.tree = GradientTree(list(model.parameters()), config.leaves)
        self.average = Snapshot.of(model, "average") if config.average else None
        self.snapshots = tuple(s for s in (self.average, reference) if s is not None)

    @property
    def policy(self) -> LanguageModel:
        """The model to evaluate and export: the EMA weights if there are any."""
        return self.average.model if self.average is not None else self.model

    def new_optimizer(
        self, make_split: Callable[..., torch.optim.Optimizer] | None = None
    ) -> torch.optim.Optimizer:
        """Return a new optimiser of the weights.

        Args:
            make_split: function for the optimiser if weights are split over ranks.
        """
        optimizer_class = MasterAdamW if self.config.master_weights else torch.optim.AdamW
        return (make_split or optimizer_class)(
            self.model.parameters(),
            lr=self.learning_rate(0.0),
            betas=self.config.betas,
            weight_decay=self.config.weight_decay,
            fused=True,
        )

    def split_over(self, ranks: RankGroup | None) -> None:
        """Split every minibatch across ranks, and sum the gradients over them.

        Args:
            ranks: the learners of this policy, which have equal weights; None: a single learner.
        """
        self.tree = GradientTree(self.tree.parameters, self.tree.count, ranks)

    def restart(self, start: Snapshot) -> None:
        """Restart from a snapshot of this policy: reset the optimiser and the EMA weights."""
        self.model.load_tensors(start.model.tensors())
        self.optimizer.state.clear()
        if self.average is not None:
            self.average.follow(self.model)
        self._count_update()

    def update(
        self,
        data: Pack,
        advantages: FloatArray,
        value_targets: FloatArray | None,
        *,
        trained: BoolArray | None = None,
        turns: TurnTable | None = None,
        progress: float,
        stream: Stream,
    ) -> dict[str, float]:
        """Run the epochs and minibatches of one step and return its metrics.

        Args:
            data: the packed episodes.
            advantages: [M], one per sampled token.
            value_targets: if a loss needs values, [N] per turn, or [M] per token if the critic is
                read at tokens.
            trained: [M], whether a token is trained; None: all are. Means are over trained tokens.
            turns: the turn table, for losses that NEED "whole" and for the reverse order.
            progress: share of the run that is done, in [0, 1]; schedules depend on it.
            stream: the random numbers that shuffle the minibatches.

        Returns:
            The metrics of this module, and every loss's metrics under LOSS/NAME.
        """
        rate = self.learning_rate(progress)
        if trained is not None:
            data, advantages = data.only(trained), advantages[trained]
            if value_targets is not None and self.value_at == "token":
                value_targets = value_targets[trained]
        needs_old_logprobs = "old_logprobs" in self.needs
        old_logprobs = self._logprobs(data, self.model) if needs_old_logprobs else data.logprobs
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        num_uniform = len(data.turn_of) if "whole" in self.needs else 0
        uniform = stream.child("uniform").generator().random(num_uniform)
        targets = Targets(
            old_logprobs=old_logprobs,
            advantages=advantages,
            value_targets=value_targets,
            turns=turns,
            uniform=uniform,
        )
        metrics = Means()
        for epoch in range(self.config.epochs):
            if self.config.order == "reverse_turns":
                self._update_in_reverse_turn_order(
                    data, targets, progress, metrics, is_first=epoch == 0
                )
                continue
            batches = minibatches(
                data,
                self.config.minibatches,
                stream.child(epoch),
                turns if "whole" in self.needs else None,
                split=self.config.split,
            )
            for index, sequences in enumerate(batches):
                if len(sequences):
                    self._step(
                        data,
                        np.sort(sequences),
                        targets,
                        progress,
                        metrics,
                        is_first=epoch == 0 and index == 0,
                    )
        self._count_update()
        if self.tree.ranks is not None:
            self.tree.ranks.collect_means(metrics)
        return {**metrics.result(), "learning_rate": rate}

    def _update_in_reverse_turn_order(
        self, data: Pack, targets: Targets, progress: float, metrics: Means, *, is_first: bool
    ) -> None:
        """Make one optimiser update per turn index, the last first; see ``ReverseTurns``."""
        assert targets.turns is not None, "the reverse order needs the turn table"
        sequence = np.repeat(np.arange(len(data.tokens)), data.tokens)
        reduction, episodes = self.config.reduction, data.episode
        order = ReverseTurns(targets.turns, data.turn_of, sequence, reduction, episodes)
        for update_index, index in enumerate(order.indices):
            advantages = order.advantages(targets.advantages, index)
            self._step(
                data,
                data.with_replies,
                replace(targets, advantages=advantages),
                progress,
                metrics,
                is_first and not update_index,
            )
            order.record_shift(index, self._logprobs(data, self.model) - targets.old_logprobs)

    def imitate(self, data: Pack, learning_rate: float) -> float:
        """Make one supervised update on the sampled tokens of a pack; return the mean loss.

        Sequences longer than the context are skipped.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        total = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        sequences = data.fitting(self.model.context, "update of the warm-up")
        for part, weight in self._passes(data, self.tree.select_rows(data, sequences), sequences):
            logprobs, _ = self._forward(self.model, part)
            loss = -logprobs[part.token_index].sum() * weight / len(data.turn_of)
            self.gradients.backward(loss, logprobs)
            total += float(loss.detach())
        self.gradients.check(imitating=True)
        self._apply_gradient()
        self._count_update()
        return total

    def _step(
        self,
        data: Pack,
        sequences: IntArray,
        targets: Targets,
        progress: float,
        metrics: Means,
        is_first: bool,
    ) -> None:
        targets = self._add_sequence_weights(data, sequences, targets)
        minibatch = self._record_if_needed(data, sequences, targets, has_leaves=self.tree.count > 1)
        total_tokens, total_sequences = int(data.tokens[sequences].sum()), len(sequences)
        token_indices = np.flatnonzero(
            np.isin(np.repeat(np.arange(len(data.tokens)), data.tokens), sequences)
        )
        total_values = num_values(data, self.value_at, token_indices)
        self.optimizer.zero_grad(set_to_none=True)
        for leaf in self.tree.leaves(data, sequences):
            leaf_metrics = metrics if self.tree.count == 1 else metrics.add_part()
            for part, weight in self._passes(data, leaf, sequences):
                share = (
                    len(part.tokens) / total_tokens
                    if self.config.reduction == "token_mean"
                    else part.num_sequences / total_sequences
                )
                turn_share = num_values(data, self.value_at, part.tokens) / total_values
                shares = share, turn_share
                loss, loss_metrics, batch = self.model.compute(
                    partial(self._loss, data, part, targets, minibatch, progress, shares)
                )
                self.gradients.backward(loss * (share * weight), batch.logprobs)
                value = finite_loss(loss, batch, self.losses, progress)
                if weight:
                    leaf_metrics.add({"loss": value, **loss_metrics}, share)
                    pair = batch.logprobs, batch.sampler_logprobs
                    leaf_metrics.add_ratios(*pair, share, is_first=is_first)
            self.tree.add()
        self.tree.finish()
        self.gradients.check()
        metrics.add({"gradient_norm": self._apply_gradient()}, 1.0)

    def _passes(
        self, data: Pack, leaf: IntArray, sequences: IntArray
    ) -> Iterator[tuple[Slice, int]]:
        """Yield (slice, 1) for each forward pass of a leaf; 1 is its weight.

        If other ranks need more passes, the first pass of the given sequences is repeated with
        weight 0, so that all ranks call the same collective operations.
        """
        num_passes, number = self.tree.passes(data), 0
        for number, part in enumerate(self._slices(data, leaf), 1):
            self.tree.prepare_pass(last=number == num_passes)
            yield part, 1
        for repeat in range(number + 1, num_passes + 1):
            self.tree.prepare_pass(last=repeat == num_passes)
            yield next(self._slices(data, sequences)), 0

    def _apply_gradient(self) -> float:
        norm = descend(self.model, self.optimizer, self.config.gradient_norm)
        if self.average is not None:
            decay = ema_decay(self.config.average, num_updates(self.optimizer))
            self.average.follow(self.model, decay)
        return norm

    def _count_update(self) -> None:
        self.model.version += 1
        if self.average is not None:
            self.average.model.version = self.model.version
