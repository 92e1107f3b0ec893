"""Draws of tokens for many replies: truncation, the sets it keeps, weights that change meanwhile.

Legend: B rows, M sampled tokens, R replies, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from sparring.core.errors import DivergedError
from sparring.core.records import SampledRun, SampleResult

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


def truncate(logits: Tensor, *, top_p: float = 1.0, top_k: int = 0) -> Tensor:
    """Return log-probabilities [B, V] renormalised over what truncation keeps; -inf elsewhere.

    ``top_k`` keeps the k largest (0: all); ``top_p`` then keeps the smallest set of most probable
    tokens whose mass reaches p (1: all), always at least one.
    """
    if 0 < top_k < logits.shape[-1]:
        threshold = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < threshold, -torch.inf)
    if top_p < 1.0:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        mass_before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        drop = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, mass_before >= top_p)
        logits = logits.masked_fill(drop, -torch.inf)
    return logits.log_softmax(-1)


def kept_sets(log_p: Tensor) -> list[tuple[int, ...]]:
    """Return for each row of [B, V] the ids that truncation kept."""
    return [tuple(torch.nonzero(row > -torch.inf).squeeze(1).tolist()) for row in log_p]


def restrict(logits: Tensor, kept: list[tuple[int, ...]]) -> Tensor:
    """Return logits [M, V] with everything outside the kept sets at -inf.

    An empty set keeps all.
    """
    drop = torch.zeros_like(logits, dtype=torch.bool)
    for row, ids in enumerate(kept):
        if ids:
            drop[row] = True
            drop[row, list(ids)] = False
    return logits.masked_fill(drop, -torch.inf)


class Renewing:
    """Which weights replies are drawn with, where these may change before a reply has ended.

    Args:
        between: called before each token but the first; weights may be changed in it. It returns
            the version of each model's, and what older ones computed is dropped by then.
        versions: of each model's weights at the first token.
    """

    def __init__(self, between: Callable[[], Sequence[int]], versions: Sequence[int]) -> None:
        self._between = between
        self._since = [(0, list(versions))]  # from which token on, and the version of each model's

    def renewed(self, token: int) -> bool:
        """Let weights change before a token is drawn; return whether some have."""
        with torch.inference_mode(False):
            now = list(self._between())
        if now == self._since[-1][1]:
            return False
        self._since.append((token, now))
        return True

    def runs(self, whose: int, length: int) -> tuple[SampledRun, ...]:
        """Return the sampled runs of a reply; () where it was drawn with its first weights alone.

        Args:
            whose: the number of its model.
            length: how many tokens it has.
        """
        begins = [(token, versions[whose]) for token, versions in self._since]
        return runs_of(begins, length, begins[0][1])


def runs_of(begins: Iterable[tuple[int, int]], length: int, first: int) -> tuple[SampledRun, ...]:
    """Return the sampled runs of a reply; () where all of it is of the weights it was asked of.

    Args:
        begins: from which token on, the first of all from 0, and the version of the weights.
        length: how many tokens it has.
        first: version of the weights that the sampler had when it was asked.
    """
    found: list[SampledRun] = []
    own = [(token, version) for token, version in begins if token < length]
    ends = [*(token for token, _ in own[1:]), length]
    for (token, version), end in zip(own, ends, strict=True):
        if found and found[-1].version == version:
            found[-1] = SampledRun(found[-1].length + end - token, version)
        else:
            found.append(SampledRun(end - token, version))
    return tuple(found) if [one.version for one in found] != [first] else ()
