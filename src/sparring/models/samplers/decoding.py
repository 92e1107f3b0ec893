"""Replies sampled token by token, in one batch, for one model or several over one base.

Every distinct context is computed once. Requests of one model with equal ids share one row of the
batch, and rows part when their sampled tokens part.

Legend: R requests, B rows (distinct contexts), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sparring.core.errors import DivergedError
from sparring.core.records import SampleRequest, SampleResult, SamplingParams
from sparring.core.rng import uniforms
from sparring.models.joined import Forward
from sparring.models.kv_cache import KeyValueCache
from sparring.models.samplers.draws import LOST, Ids, Renewing, draw, kept_sets, results, truncate
from sparring.models.samplers.prefix_cache import Prefill, PrefixCache, Rows

Way = tuple[SamplingParams, Ids]  # the distribution to draw from, and the ids that end a reply


class Asked(NamedTuple):
    """Requests to one model, and how their replies are drawn."""

    whose: int  # the model's number
    way: Way
    requests: Sequence[SampleRequest]


def decode(
    forward: Forward,
    caches: Sequence[PrefixCache],
    asked: Sequence[Asked],
    renewing: Renewing | None = None,
) -> list[SampleResult]:
    """Return one reply per request, in order; draw t of a reply is draw t of its own stream.

    Args:
        forward: of the models.
        caches: of each model the KV cache.
        asked: at least one request in all.
        renewing: what may change the models' weights between two tokens; None: nothing does.

    Raises:
        DivergedError: the model gives no probabilities.
    """
    requests = [request for one in asked for request in one.requests]
    whose = [one.whose for one in asked for _ in one.requests]
    ways = list(dict.fromkeys(one.way for one in asked))
    way = [ways.index(one.way) for one in asked for _ in one.requests]
    places: dict[tuple[int, Ids], int] = {}
    for place, (own, request) in enumerate(zip(whose, requests, strict=True)):
        places.setdefault((own, request.ids), place)
    order = sorted(places, key=lambda key: (key[0], len(key[1])))  # neighbours are as long
    row = {key: number for number, key in enumerate(order)}
    node = [row[own, request.ids] for own, request in zip(whose, requests, strict=True)]
    rows = Rows(
        [ids for _, ids in order],
        [requests[places[key]].known for key in order],
        [own for own, _ in order],
    )
    found = Decoding(Prefill(forward, caches), ways, np.array(way), np.array(node)).run(
        requests, rows, renewing
    )
    if renewing is None:
        return found
    return [
        one._replace(runs=renewing.runs(own, len(one.ids)))
        for own, one in zip(whose, found, strict=True)
    ]


class Decoding:
    """Replies as they come about.

    Args:
        prefill: of the models.
        ways: how replies are drawn.
        way: of each request the number of its way, [R].
        node: of each request the row that it stands at, [R].
    """

    def __init__(
        self, prefill: Prefill, ways: Sequence[Way], way: np.ndarray, node: np.ndarray
    ) -> None:
        self._prefill, self._forward = prefill, prefill.forward
        self._ways, self._way, self._node = ways, way, node
        longest, count = max(params.max_new_tokens for params, _ in ways), len(way)
        self._limit = np.array([params.max_new_tokens for params, _ in ways])[way]
        self._tokens = np.full((count, longest), -1, dtype=np.int64)
        self._logprobs = np.zeros((count, longest))
        self._kept: list[list[Ids]] = [[] for _ in range(count)]

    def run(
        self, requests: Sequence[SampleRequest], rows: Rows, renewing: Renewing | None = None
    ) -> list[SampleResult]:
        """Sample until every reply has ended.

        Where weights change on the way, all that was said so far is computed anew.
        """
        keys = np.array([request.stream for request in requests], dtype=np.uint64)
        known = [ids[:length] for ids, length, _ in zip(*rows, strict=True)]
        longest = self._tokens.shape[1]
        hidden, cache = self._prefill.contexts(rows, longest)
        alive, at, whose = np.arange(len(keys)), rows.ids, np.array(rows.whose)
        for step in range(longest):
            if step and renewing is not None and renewing.renewed(step):
                hidden, cache = self._prefill.contexts(
                    Rows(at, [0] * len(at), whose.tolist()), longest - step
                )
            logits = self._forward.logits(hidden, self._prefill.counts(whose))
            chosen, going = self._draw(logits, alive, keys, step)
            if not going.all():
                self._keep(cache, at, known, whose, self._node[alive[~going]])
            alive, chosen = alive[going], chosen[going]
            if not len(alive):
                break
            parents, new = self._parted(alive, chosen)
            hidden, cache = self._extend(parents, new, at, whose, cache)
            at = [(*at[row], token) for row, token in zip(parents, new.tolist(), strict=True)]
            known, whose = [known[row] for row in parents], whose[parents]
        if not np.isfinite(self._logprobs).all():
            raise DivergedError(LOST)
        return self._results()

    def _draw(
        self, logits: Tensor, alive: np.ndarray, keys: np.ndarray, step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw the next token of every reply that goes on; return these, and which still do."""
        chosen, going = np.zeros(len(alive), dtype=np.int64), np.zeros(len(alive), dtype=bool)
        for number, (params, stop_ids) in enumerate(self._ways):
            (places,) = np.nonzero(self._way[alive] == number)
            if not len(places):
                continue
            own, node, some = alive[places], self._node[alive[places]], logits
            if len(self._ways) > 1:
                rows, node = np.unique(node, return_inverse=True)
                some = logits[torch.from_numpy(rows).to(logits.device)]
            log_p = truncate(some / params.temperature, top_p=params.top_p, top_k=params.top_k)
            chosen[places], self._logprobs[own, step] = draw(log_p, node, uniforms(keys[own], step))
            if params.top_p < 1.0 or params.top_k:
                sets = kept_sets(log_p)
                for request, row in zip(own, node, strict=True):
                    self._kept[request].append(sets[row])
            stops = np.array(stop_ids, dtype=np.int64)
            going[places] = (chosen[places, None] != stops).all(1)
        self._tokens[alive, step] = chosen
        return chosen, going & (step + 1 < self._limit[alive])

    def _keep(
        self,
        cache: KeyValueCache,
        at: Sequence[Ids],
        known: Sequence[Ids],
        whose: np.ndarray,
        ended: np.ndarray,
    ) -> None:
        """Keep the keys and values of rows at which replies have ended."""
        rows = set(ended.tolist())
        for number in sorted({int(whose[row]) for row in rows}):
            own = {at[row]: row for row in rows if whose[row] == number}
            self._prefill.caches[number].add(cache, own, known)

    def _parted(self, alive: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return one row per distinct continuation: the row before it, and its token.

        Replies stand at these from then on.
        """
        pairs, inverse = np.unique(self._node[alive] << 32 | chosen, return_inverse=True)
        self._node[alive] = inverse
        return pairs >> 32, pairs & 0xFFFFFFFF

    def _extend(
        self,
        parents: np.ndarray,
        new: np.ndarray,
        at: Sequence[Ids],
        whose: np.ndarray,
        cache: KeyValueCache,
    ) -> tuple[Tensor, KeyValueCache]:
        """Return hidden states and cache of rows, each a token after the one before it."""
        device = self._forward.device
        if len(parents) != len(at) or (parents != np.arange(len(at))).any():
            cache = cache.take(torch.from_numpy(parents).to(device))
        lengths = (len(at[parent]) for parent in parents)
        start = torch.from_numpy(np.fromiter(lengths, dtype=np.int64, count=len(parents)))
        counts = self._prefill.counts(whose[parents])
        hidden = self._forward.extend(
            torch.from_numpy(new)[:, None].to(device), start.to(device), counts, cache
        )
        self._prefill.computed(counts)
        return hidden[:, 0], cache

    def _results(self) -> list[SampleResult]:
        """Return the replies, those of each way by its own stop ids."""
        found: list[SampleResult | None] = [None] * len(self._way)
        for number, (_, stop_ids) in enumerate(self._ways):
            (places,) = np.nonzero(self._way == number)
            kept = [self._kept[place] for place in places]
            own = results(self._tokens[places], self._logprobs[places], stop_ids, kept)
            for place, result in zip(places.tolist(), own, strict=True):
                found[place] = result
        return [result for result in found if result is not None]
