"""Computes Sparring's losses for a trainer that expects one loss value per token.

Legend: B rows, L tokens of a row, M sampled tokens of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sparring.config.plugins.registry import BoundPlugin, bind
from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.interop.spans import spans
from sparring.methods.losses.base import LossBatch, LossTerm, WholeMinibatch

CARRY_GRADIENTS = ("logprobs", "entropy")


class CombinedLosses(NamedTuple):
    """The weighted sum of several losses."""

    values: Tensor  # [M], sum of the losses that have one value per token
    summed: Tensor  # scalar, sum of the losses that have one value per minibatch
    metrics: dict[str, float]  # keys LOSS/NAME


class Minibatch:
    """The fields of a minibatch that the trainer passes to losses; other fields raise an error."""

    def __init__(self, trainer: str, fields: Mapping[str, Tensor]) -> None:
        self._trainer, self._fields = trainer, dict(fields)

    def __getattr__(self, name: str) -> Tensor:
        """Return a field of ``WholeMinibatch``.

        Raises:
            ConfigError: the trainer does not pass this field to losses.
        """
        if name.startswith("_") or name not in WholeMinibatch.__dataclass_fields__:
            raise AttributeError(name)
        if name not in self._fields:
            raise ConfigError(
                f"this loss compares trajectories by their {name}, which {self._trainer} does not "
                "pass to losses; choose another."
            )
        return self._fields[name]


class Terms:
    """A weighted sum of losses.

    Args:
        losses: options by name of the loss; ``weight`` (a number, 1 by default) and ``preset`` are
            allowed besides the loss's own options.
        trainer: name of the trainer, for error messages.
        available: names of the fields that the trainer can supply to losses.
        hints: by name of a field: what to set so that the trainer supplies it, or what replaces it.

    Raises:
        ConfigError: a loss or option is unknown, or an option is a schedule.
    """

    def __init__(
        self,
        losses: Mapping[str, Mapping[str, Any]],
        *,
        trainer: str,
        available: frozenset[str],
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self.trainer, self.available, self.hints, self.calls = (
            trainer,
            available,
            dict(hints or {}),
            0,
        )
        self.bound: list[tuple[float, BoundPlugin]] = []
        for name, options in losses.items():
            loss_options = {
                key: value for key, value in options.items() if key not in ("weight", "preset")
            }
            loss = bind("losses", name, loss_options, preset=options.get("preset"))
            if loss.schedules:
                raise ConfigError(
                    f"loss {name!r}: {trainer} does not report the progress of a run; write "
                    f"numbers, not schedules: {sorted(loss.schedules)}."
                )
            self.bound.append((float(options.get("weight", 1.0)), loss))
        self.needs = frozenset().union(*(loss.needs for _, loss in self.bound))

    def check(self) -> None:
        """Raise ConfigError if a loss needs a field that the trainer does not supply."""
        for _, loss in self.bound:
            for need in sorted(loss.needs - self.available):
                advice = self.hints.get(need, "choose another loss")
                raise ConfigError(
                    f"loss {loss.plugin.name!r} needs {need!r}, which {self.trainer} does not "
                    f"pass to losses; {advice}."
                )

    def batch(
        self,
        mask: Tensor,
        columns: Mapping[str, Tensor],
        *,
        sampler: Tensor | None = None,
        per_row: Mapping[str, Tensor] | None = None,
    ) -> LossBatch:
        """Return a trainer's minibatch in the form that losses read.

        Args:
            mask: [B, L], true at the M sampled tokens.
            columns: fields of ``LossBatch`` [B, L] each: logprobs, old_logprobs, advantages, and
                entropy and reference_logprobs if the trainer has them.
            sampler: the sampler's log-probabilities [B, L]; None: equal to ``old_logprobs``.
            per_row: group and outcome of each row [B], if the trainer has them; fields of
                ``WholeMinibatch``.
        """
        turns = spans(mask.detach().cpu().numpy())
        flat = {
            name: tensor[mask] if name in CARRY_GRADIENTS else tensor[mask].detach()
            for name, tensor in columns.items()
        }
        turn = torch.from_numpy(turns.turn_of).to(mask.device)[mask]
        sequence = torch.arange(len(mask), device=mask.device)[:, None].expand_as(mask)[mask]
        first_turn = torch.from_numpy(np.cumsum(turns.num_turns) - turns.num_turns).to(mask.device)
        fields: dict[str, Any] = dict(flat)
        fields["sampler_logprobs"] = flat["old_logprobs"] if sampler is None else sampler[mask]
        if "entropy" in flat:
            fields["features"] = {"entropy": flat["entropy"]}
        if "whole" in self.needs:
            tensors = {name: tensor.detach() for name, tensor in flat.items()}
            tensors |= {
                "uniform": self._draw_uniform(flat["logprobs"]),
                "trajectory": sequence,
                "turn_index": turn - first_turn[sequence],
            }
            fields["whole"] = Minibatch(self.trainer, {**tensors, **(per_row or {})})
            fields["index"] = torch.arange(len(turn), device=mask.device)
        return LossBatch(sequence=sequence, turn=turn, num_sequences=len(mask), **fields)

    def _draw_uniform(self, tensor: Tensor) -> Tensor:
        """Return M numbers in [0, 1); the n-th call returns equal numbers in every process."""
        self.calls += 1
        draws = (
            Stream.from_seed(0).child("interop").child(self.calls).generator().random(len(tensor))
        )
        return torch.from_numpy(draws).to(tensor.device, tensor.dtype)

    def __call__(self, batch: LossBatch, *, factor: Tensor | None = None) -> CombinedLosses:
        """Return the weighted sum of the losses.

        Args:
            batch: the minibatch.
            factor: weight of each token [M], for the losses that allow weights.

        Raises:
            ConfigError: the trainer cannot supply a field, or all losses only weigh other losses.
        """
        self.check()
        terms: list[tuple[float, str, LossTerm]] = [
            (weight, loss.plugin.name, loss(batch)) for weight, loss in self.bound
        ]
        factors = [term.values for _, _, term in terms if term.level == "weight"]
        factors += [] if factor is None else [factor]
        losses = [(weight, term) for weight, _, term in terms if term.level != "weight"]
        if not losses:
            raise ConfigError(
                f"{terms[0][1]!r} only weighs other losses; combine it with another loss, as in "
                f"{{'ppo_clip': {{}}, {terms[0][1]!r}: {{}}}}."
            )
        values = torch.zeros_like(batch.logprobs)
        summed = torch.zeros((), dtype=batch.logprobs.dtype, device=batch.logprobs.device)
        for weight, term in losses:
            value = term.values
            for token_weights in factors if term.weighted else ():
                value = value * token_weights
            if term.level == "sum":
                summed = summed + weight * value.sum()
            else:
                values = values + weight * value
        metrics = {
            f"{name}/{key}": float(value)
            for _, name, term in terms
            for key, value in term.metrics.items()
        }
        return CombinedLosses(values, summed, metrics)
