"""A slice of a minibatch as the losses see it.

Legend: as in ``pack.py`` and ``slices.py``; C width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.config.learning import UpdateConfig
from sparring.core.records import IntArray
from sparring.learn.pack import Pack
from sparring.learn.reader import Reader, read_at
from sparring.learn.slices import Slice, chunks
from sparring.learn.targets import Targets, WeightedLoss, whole
from sparring.methods.columns.base import Place
from sparring.methods.losses.base import LossBatch, Whole
from sparring.methods.losses.reduction import agent_weights, reduce


def total_loss(
    losses: Sequence[WeightedLoss],
    config: UpdateConfig,
    batch: LossBatch,
    progress: float,
    *,
    share: float,
    turn_share: float,
) -> tuple[Tensor, dict[str, float]]:
    """Return the weighted sum of the loss terms, reduced, and their metrics.

    Args:
        losses: the terms.
        config: how token losses become one number.
        batch: a slice of a minibatch.
        progress: share of the run that is done, in [0, 1]; resolves weights.
        share: of the minibatch's loss that the slice is.
        turn_share: of the minibatch's turns that it is.
    """
    terms = [(loss, loss.bound(batch, progress=progress)) for loss in losses]
    named = {
        f"{loss.bound.plugin.name}/{key}": float(value)
        for loss, term in terms
        for key, value in term.metrics.items()
    }
    factors = [term.values for _, term in terms if term.level == "weight"]
    total = torch.zeros((), dtype=batch.logprobs.dtype, device=batch.logprobs.device)
    for loss, term in terms:
        if term.level == "weight":
            continue
        values = term.values
        for factor in factors if term.weighted else ():
            values = values * factor
        reduced = (
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
        total = total + loss.weight(progress) * reduced
    return total, named


class LossReader(Reader):
    """Reads a model for its losses: ``needs`` are what they ask for.

    ``value_at`` is where the critic reads, ``losses`` are the terms, and ``config`` says how they
    become one number.
    """

    needs: frozenset[str]
    value_at: Place
    losses: Sequence[WeightedLoss]
    config: UpdateConfig

    def _view(
        self, data: Pack, chosen: IntArray, targets: Targets, *, cut: bool
    ) -> tuple[IntArray, Whole] | None:
        """Return what ``_whole`` does, or None where that is not asked for, or not needed before
        the gradients: one forward pass holds the minibatch.

        Args:
            data: the pack.
            chosen: sequences of the minibatch.
            targets: of the step.
            cut: whether leaves are apart, each with passes of its own.
        """
        if "whole" not in self.needs:
            return None
        if not cut:
            rows = np.unique(data.distinct[chosen])
            passes = chunks(data, rows, self.micro_tokens, padded=self._padded)
            if len([*islice(passes, 2)]) == 1:
                return None
        return self._whole(data, chosen, targets)

    @torch.no_grad()
    def _whole(self, data: Pack, chosen: IntArray, targets: Targets) -> tuple[IntArray, Whole]:
        """Return the tokens of a minibatch, sorted, and everything the losses may compare across
        it.
        """
        columns: dict[str, list[Tensor]] = {}
        tokens = []
        for part in self._parts(data, chosen):
            logprobs, extra = self._forward(self.model, part)
            found = _compared(logprobs[part.spread], self._referred(part), part, extra)
            for name, column in found.items():
                columns.setdefault(name, []).append(column)
            tokens.append(part.tokens)
        together = {name: torch.cat(parts) for name, parts in columns.items()}
        return whole(np.concatenate(tokens), together, data.turn_of, targets)

    @torch.no_grad()
    def _referred(self, part: Slice) -> Tensor | None:
        """Return the reference log-probs of a slice's tokens, if losses ask for them, [M]."""
        if self.reference is None or "reference_logprobs" not in self.needs:
            return None
        return self._forward(self.reference, part)[0][part.spread]

    def _loss_batch(
        self, data: Pack, part: Slice, targets: Targets, view: tuple[IntArray, Whole] | None
    ) -> LossBatch:
        """Run the network on a slice and lay out what the losses see.

        Args:
            data: the pack.
            part: of a minibatch.
            targets: of the step.
            view: what ``_view`` returns of the minibatch.
        """
        logprobs, extra = self._forward(self.model, part)
        of_tokens = logprobs[part.spread]
        reference = self._referred(part) if view is None else None
        if view is None and "whole" in self.needs:
            found = _compared(of_tokens.detach(), reference, part, extra)
            view = whole(part.tokens, found, data.turn_of, targets)
        sampler, before, credit = (
            torch.from_numpy(column[part.tokens]).to(logprobs.device, logprobs.dtype)
            for column in (data.logprobs, targets.old, targets.advantages)
        )
        features = {name: extra[name][part.spread] for name in self.features}
        legal = {name: extra[name][part.spread] for name in part.legal.names}
        fields: dict[str, Any] = {
            "features": features,
            "entropy": features.get("entropy"),
            "legal": legal,
        }
        if view is not None:
            index = torch.from_numpy(np.searchsorted(view[0], part.tokens)).to(logprobs.device)
            fields |= {"whole": view[1], "index": index}
            if view[1].reference_logprobs is not None:
                reference = view[1].reference_logprobs[index]
        turns = data.turn_of[part.tokens]
        if "values" in self.needs and targets.value_targets is not None:
            own, first = np.unique(
                part.tokens if self.value_at == "token" else turns, return_index=True
            )
            position = read_at(data, self.value_at, own)[1]
            ask, first_token = (
                torch.from_numpy(index).to(logprobs.device) for index in (position, first)
            )
            row = part.row[part.spread[first_token]]
            fields["values"] = self.model.values(extra["hidden"][part.tree.node[row, ask]])
            fields["value_targets"] = (
                torch.from_numpy(targets.value_targets[own]).to(logprobs.device).float()
            )
        return LossBatch(
            logprobs=of_tokens,
            old_logprobs=before,
            sampler_logprobs=sampler,
            advantages=credit,
            sequence=part.sequence,
            turn=torch.from_numpy(turns).to(logprobs.device),
            num_sequences=part.num_sequences,
            sequence_weight=self._weight(part, targets),
            reference_logprobs=reference,
            **fields,
        )

    def _weighed(self, data: Pack, chosen: IntArray, targets: Targets) -> Targets:
        """Return the targets with what each sequence of a minibatch weighs, where they differ."""
        if self.config.reduction != "agent_mean":
            return targets
        weight = np.zeros(len(data.tokens))
        weight[chosen] = agent_weights(data.episode[chosen])
        return replace(targets, sequence_weight=weight)

    def _weight(self, part: Slice, targets: Targets) -> Tensor | None:
        """Return the weights of a slice's sequences, if they have any."""
        if targets.sequence_weight is None:
            return None
        found: Tensor = torch.from_numpy(targets.sequence_weight[part.sequences])
        return found.to(part.sequence.device)

    def _loss(
        self,
        data: Pack,
        part: Slice,
        targets: Targets,
        view: tuple[IntArray, Whole] | None,
        progress: float,
        shares: tuple[float, float],
    ) -> tuple[Tensor, dict[str, float], LossBatch]:
        """Return the loss of a slice, its terms' metrics, and what the terms saw."""
        batch = self._loss_batch(data, part, targets, view)
        share, turn_share = shares
        loss, named = total_loss(
            self.losses, self.config, batch, progress, share=share, turn_share=turn_share
        )
        return loss, named, batch


def _compared(
    logprobs: Tensor, reference: Tensor | None, part: Slice, extra: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the columns of a slice's tokens that losses may compare across a minibatch, [M] each.

    Args:
        logprobs: of its tokens, [M], without gradients.
        reference: log-probs of the reference policy, [M], if they are asked for.
        part: the slice.
        extra: what was read along.
    """
    found = {"logprobs": logprobs}
    if "entropy" in extra:
        found["entropy"] = extra["entropy"].detach()[part.spread]
    return found if reference is None else {**found, "reference_logprobs": reference}
