"""A slice of a minibatch as the losses see it.

Legend: as in ``pack.py`` and ``slices.py``; C width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.columns.base import Place
from sparring.config.learning import UpdateConfig
from sparring.learn.critic import read_at
from sparring.learn.pack import Pack
from sparring.learn.reader import Reader
from sparring.learn.slices import Slice
from sparring.learn.targets import Targets, WeightedLoss, whole
from sparring.learn.total_loss import total_loss
from sparring.losses.base import LossBatch, Whole
from sparring.losses.reduction import agent_weights
from sparring.types import IntArray


class LossReader(Reader):
    """Reads a model for its losses: ``needs`` are what they ask for.

    ``value_at`` is where the critic reads, ``losses`` are the terms, and ``config`` says how they
    become one number.
    """

    needs: frozenset[str]
    value_at: Place
    losses: Sequence[WeightedLoss]
    config: UpdateConfig

    @torch.no_grad()
    def _whole(self, data: Pack, chosen: IntArray, targets: Targets) -> tuple[IntArray, Whole]:
        """Return the tokens of a minibatch, sorted, and everything the losses may compare across
        it.
        """
        assert targets.turns is not None, 'a loss that NEEDS "whole" needs the turn table'
        columns: dict[str, list[Tensor]] = {}
        tokens = []
        for part in self._parts(data, chosen):
            logprobs, extra = self._forward(self.model, part)
            found = {
                "logprobs": logprobs,
                **{name: extra[name] for name in self.features if name == "entropy"},
            }
            if self.reference is not None:
                found["reference_logprobs"] = self._forward(self.reference, part)[0]
            for name, column in found.items():
                columns.setdefault(name, []).append(column[part.spread])
            tokens.append(part.tokens)
        return whole(
            np.concatenate(tokens),
            {name: torch.cat(parts) for name, parts in columns.items()},
            data.turn_of,
            targets,
        )

    def _loss_batch(
        self, data: Pack, part: Slice, targets: Targets, view: tuple[IntArray, Whole] | None
    ) -> LossBatch:
        """Run the network on a slice and lay out what the losses see."""
        logprobs, extra = self._forward(self.model, part)
        reference = None
        if self.reference is not None and "reference_logprobs" in self.needs:
            with torch.no_grad():
                reference = self._forward(self.reference, part)[0][part.spread]
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
            fields["whole"], fields["index"] = (
                view[1],
                torch.from_numpy(np.searchsorted(view[0], part.tokens)).to(logprobs.device),
            )
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
            logprobs=logprobs[part.spread],
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
