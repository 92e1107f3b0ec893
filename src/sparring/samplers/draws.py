"""Draws of tokens for many replies at once, and what they amount to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sparring.errors import DivergedError
from sparring.types import SampleResult

Ids = tuple[int, ...]
LARGE = 1 << 14  # probabilities from which on a copy of a row for each reply costs more than order
LOST = (
    "The model gives no probabilities: its weights have grown too large; lower "
    "learner.learning_rate."
)


def draw(log_p: Tensor, node: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens [R] by inverse transform sampling, and their values.

    They are drawn from rows ``node`` of log-probabilities [B, V].
    """
    cumulative = log_p.double().exp().cumsum(-1)
    index = torch.from_numpy(node).to(log_p.device)
    target = torch.from_numpy(draws).to(log_p.device) * cumulative[index, -1]
    if len(node) > len(log_p) and log_p.numel() >= LARGE:
        tokens = _shared(cumulative, node, index, target)
    else:
        tokens = torch.searchsorted(cumulative[index], target[:, None], right=True).squeeze(1)
    tokens = tokens.clamp_(max=log_p.shape[1] - 1)
    return tokens.cpu().numpy(), log_p[index, tokens].cpu().numpy().astype(np.float64)


def _shared(cumulative: Tensor, node: np.ndarray, index: Tensor, target: Tensor) -> Tensor:
    """Return where each target [R] belongs in its row of [B, V], without a copy of it for each.

    A row of targets is made of those of each row.
    """
    order, count = np.argsort(node, kind="stable"), np.bincount(node, minlength=len(cumulative))
    number = np.empty(len(node), dtype=np.int64)  # of a target among those of its row
    number[order] = np.arange(len(node)) - (np.cumsum(count) - count)[node[order]]
    column = torch.from_numpy(number).to(index.device)
    targets = target.new_zeros((len(cumulative), int(count.max())))
    targets[index, column] = target
    return torch.searchsorted(cumulative, targets, right=True)[index, column]


def results(
    tokens: np.ndarray, logprobs: np.ndarray, stop_ids: Ids, kept: list[list[Ids]]
) -> list[SampleResult]:
    """Return the sampled rows as records; -1 marks what was never sampled."""
    lengths = (tokens >= 0).sum(axis=1).tolist()
    stopped = np.isin(tokens[np.arange(len(tokens)), np.array(lengths) - 1], stop_ids).tolist()
    return [
        SampleResult(tuple(ids[:length]), tuple(values[:length]), not stop, tuple(sets))
        for ids, values, length, stop, sets in zip(
            tokens.tolist(), logprobs.tolist(), lengths, stopped, kept, strict=True
        )
    ]


def totals(said: Tensor, replies: Sequence[Sequence[Ids]]) -> list[np.ndarray]:
    """Return the log-probability of every reply from that of its tokens, [all replies, T].

    Raises:
        DivergedError: one of them is no number.
    """
    flat = [reply for group in replies for reply in group]
    lengths = torch.tensor([len(reply) for reply in flat], device=said.device)
    outside = torch.arange(said.shape[1], device=said.device) >= lengths[:, None]
    found = said.masked_fill(outside, 0.0).double().sum(1).cpu().numpy()
    if np.isnan(found).any():
        raise DivergedError(LOST)
    return np.split(found, np.cumsum([len(group) for group in replies])[:-1])
