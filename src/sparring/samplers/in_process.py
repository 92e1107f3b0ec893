"""Token-in token-out sampling with torch in this process.

Every distinct context is computed once. Requests with equal ids share one row of the batch, rows
part when their sampled tokens part, and the keys and values of everything said so far are kept
under the exact ids they belong to, so a conversation's next turn pays for its new tokens alone. In
self-play many games share their openings, which makes this much cheaper than one row per game; with
all contexts distinct it costs one dictionary look-up per request.

Legend: R requests, B rows (distinct contexts), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sparring.errors import DivergedError, ModelError
from sparring.models.language_model import LanguageModel
from sparring.models.lean import KeyValueCache
from sparring.models.prefixes import prefix_tree
from sparring.rng import uniforms
from sparring.samplers.draws import LOST, Ids, draw, results, totals
from sparring.samplers.prefix_cache import Chain, PrefixCache
from sparring.samplers.truncation import kept_sets, truncate
from sparring.types import SampleRequest, SampleResult, SamplingParams

SCORED_AT_ONCE = 1024  # contexts per forward pass when scoring; bounds memory


class InProcessSampler:
    """Samples replies from a language model.

    ``tokens_computed`` counts the positions run through the network.
    """

    def __init__(self, model: LanguageModel, *, cache_bytes: int) -> None:
        self.model = model
        self.cache = PrefixCache(cache_bytes)
        self.tokens_computed = 0
        self._version = model.version

    def refresh(self) -> None:
        """Drop what was computed with older weights. Call after every update of the model."""
        self.cache.clear()
        self._version = self.model.version

    @torch.inference_mode()
    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> list[SampleResult]:
        """Return one reply per request, in order.

        Draw t of a reply is draw t of the request's own stream, so a reply does not depend on its
        neighbours.

        Args:
            requests: R exact contexts with their streams.
            params: the distribution to draw from; its log-probabilities are the ones returned.
            stop_ids: a reply ends with the first of these, which is part of it.

        Raises:
            ModelError: a context and its reply do not fit into the model.
            DivergedError: the model gives no probabilities.
        """
        if self.model.version != self._version:
            self.refresh()
        self._check_length(max(len(request.ids) for request in requests) + params.max_new_tokens)
        contexts: dict[Ids, int] = {}
        known: list[int] = []
        node = np.empty(len(requests), dtype=np.int64)
        for index, request in enumerate(requests):
            row = contexts.setdefault(request.ids, len(contexts))
            if row == len(known):
                known.append(request.known)
            node[index] = row
        rows = list(contexts)
        hidden, cache = self._prefill(rows, known, params.max_new_tokens)
        begin = [ids[:length] for ids, length in zip(rows, known, strict=True)]
        return self._decode(requests, params, stop_ids, rows, begin, node, hidden, cache)

    @torch.inference_mode()
    def score(
        self, prompts: Sequence[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[np.ndarray]:
        """Return the log-probability of whole replies.

        Args:
            prompts: exact contexts.
            replies: for each context the replies to score, stop token included, none of them empty.
            params: the distribution replies would be drawn from.

        Returns:
            For each context an array [number of its replies] of natural logarithms; -inf where
            truncation leaves no way.

        Raises:
            ModelError: a context and a reply do not fit into the model.
            DivergedError: the model gives no probabilities.
        """
        if prompts:
            self._check_length(
                max(
                    len(ids) + max(map(len, own)) for ids, own in zip(prompts, replies, strict=True)
                )
            )
        scores = []
        for begin in range(0, len(prompts), SCORED_AT_ONCE):
            chunk = slice(begin, begin + SCORED_AT_ONCE)
            scores.extend(self._score(list(prompts[chunk]), replies[chunk], params))
        return scores

    def _check_length(self, longest: int) -> None:
        """Refuse a conversation that does not fit into the model, its reply included."""
        if longest > self.model.context:
            raise ModelError(
                f"A conversation of {longest} tokens exceeds the context of {self.model.context}; "
                "raise model.context."
            )

    def _score(
        self, prompts: list[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[np.ndarray]:
        """Score a chunk: each context once, then each reply's tokens on top of its context."""
        if self.model.version != self._version:
            self.refresh()
        flat = [reply for group in replies for reply in group]
        parents = torch.tensor(
            [row for row, group in enumerate(replies) for _ in group], device=self.model.device
        )
        width = max(map(len, flat))
        hidden, cache = self._prefill(prompts, [0] * len(prompts), width)
        target = torch.tensor(
            [(*reply, *(0,) * (width - len(reply))) for reply in flat], device=self.model.device
        )
        states = hidden[parents][:, None]
        if width > 1:
            branched = cache.take(parents)
            start = torch.tensor([len(ids) for ids in prompts], device=self.model.device)[parents]
            states = torch.cat([states, self.model.extend(target[:, :-1], start, branched)], dim=1)
        logits = self.model.logits(states.flatten(0, 1)).float() / params.temperature
        log_p = truncate(logits, top_p=params.top_p, top_k=params.top_k).view(len(flat), width, -1)
        said = log_p.gather(2, target[:, :, None]).squeeze(2)
        return totals(said, replies)

    def _prefill(
        self, rows: list[Ids], known: list[int], room: int
    ) -> tuple[Tensor, KeyValueCache]:
        """Return the last hidden state [B, C] and the cache of every context."""
        places = [
            self.cache.find(ids[:length]) if length else None
            for ids, length in zip(rows, known, strict=True)
        ]
        fresh = [row for row, place in enumerate(places) if place is None]
        seen = [row for row, place in enumerate(places) if place is not None]
        room += max(map(len, rows))
        if not seen:
            return self._prefill_fresh(rows, room)
        found = [place for place in places if place is not None]
        if not fresh:
            return self._prefill_seen(rows, known, found, room)
        parts = [
            (fresh, *self._prefill_fresh([rows[row] for row in fresh], room)),
            (
                seen,
                *self._prefill_seen(
                    [rows[row] for row in seen], [known[row] for row in seen], found, room
                ),
            ),
        ]
        device = self.model.device
        hidden = torch.empty(
            (len(rows), parts[0][1].shape[1]), dtype=parts[0][1].dtype, device=device
        )
        cache = self.model.new_cache(len(rows), room)
        for chosen, states, part in parts:
            index = torch.tensor(chosen, device=device)
            hidden[index] = states
            cache.copy_from(part, torch.arange(len(chosen), device=device), index, room)
        return hidden, cache

    def _prefill_fresh(self, rows: list[Ids], room: int) -> tuple[Tensor, KeyValueCache]:
        """Return hidden states and cache of unknown contexts; what they share is computed once."""
        device = self.model.device
        tree, cache = prefix_tree(rows).to(device), self.model.new_cache(len(rows), room)
        ends = tree.node[
            torch.arange(len(rows), device=device),
            torch.tensor([len(ids) - 1 for ids in rows], device=device),
        ]
        self.tokens_computed += len(tree.ids)
        return self.model.hidden(tree, cache)[ends], cache

    def _prefill_seen(
        self, rows: list[Ids], known: list[int], places: list[Chain], room: int
    ) -> tuple[Tensor, KeyValueCache]:
        """Return hidden states and cache of contexts whose first ``known`` ids were computed."""
        device = self.model.device
        new = [len(ids) - begin for ids, begin in zip(rows, known, strict=True)]
        width = max(new)
        # padding is written beyond shorter rows
        cache = self.model.new_cache(len(rows), max(max(known) + width, room))
        self.cache.copy(places, cache)
        padded = np.zeros((len(rows), width), dtype=np.int64)
        for row, (ids, begin) in enumerate(zip(rows, known, strict=True)):
            padded[row, : len(ids) - begin] = ids[begin:]
        hidden = self.model.extend(
            torch.from_numpy(padded).to(device), torch.tensor(known, device=device), cache
        )
        self.tokens_computed += sum(new)
        return hidden[
            torch.arange(len(rows), device=device), torch.tensor(new, device=device) - 1
        ], cache

    def _decode(
        self,
        requests: Sequence[SampleRequest],
        params: SamplingParams,
        stop_ids: Ids,
        rows: list[Ids],
        known: list[Ids],
        node: np.ndarray,
        hidden: Tensor,
        cache: KeyValueCache,
    ) -> list[SampleResult]:
        """Sample until every reply has ended.

        ``node[r]`` is the row that request r stands at, ``known`` what began each row.
        """
        keys = np.array([request.stream for request in requests], dtype=np.uint64)
        tokens = np.full((len(requests), params.max_new_tokens), -1, dtype=np.int64)
        logprobs = np.zeros((len(requests), params.max_new_tokens))
        kept: list[list[Ids]] = [[] for _ in requests]
        alive = np.arange(len(requests))
        for step in range(params.max_new_tokens):
            log_p = truncate(
                self.model.logits(hidden).float() / params.temperature,
                top_p=params.top_p,
                top_k=params.top_k,
            )
            chosen, chosen_logprobs = draw(log_p, node[alive], uniforms(keys[alive], step))
            tokens[alive, step], logprobs[alive, step] = chosen, chosen_logprobs
            if params.top_p < 1.0 or params.top_k:
                sets = kept_sets(log_p)
                for request in alive:
                    kept[request].append(sets[node[request]])
            going = ~np.isin(chosen, stop_ids)
            if step + 1 == params.max_new_tokens:
                going[:] = False
            if not going.all():
                self.cache.add(
                    cache, {rows[row]: row for row in set(node[alive[~going]].tolist())}, known
                )
            alive, chosen = alive[going], chosen[going]
            if not len(alive):
                break
            rows, known, hidden, cache = self._branch(rows, known, node, alive, chosen, cache)
        if not np.isfinite(logprobs).all():
            raise DivergedError(LOST)
        return results(tokens, logprobs, stop_ids, kept)

    def _branch(
        self,
        rows: list[Ids],
        known: list[Ids],
        node: np.ndarray,
        alive: np.ndarray,
        chosen: np.ndarray,
        cache: KeyValueCache,
    ) -> tuple[list[Ids], list[Ids], Tensor, KeyValueCache]:
        """Extend the rows by the tokens chosen, one row per distinct continuation.

        Updates ``node`` in place.
        """
        pairs, inverse = np.unique(node[alive] << 32 | chosen, return_inverse=True)
        node[alive] = inverse
        parents, new = pairs >> 32, pairs & 0xFFFFFFFF
        if len(parents) != len(rows) or (parents != np.arange(len(rows))).any():
            cache = cache.take(torch.from_numpy(parents).to(self.model.device))
        start = torch.tensor([len(rows[parent]) for parent in parents], device=self.model.device)
        rows = [(*rows[parent], int(token)) for parent, token in zip(parents, new, strict=True)]
        hidden = self.model.extend(
            torch.from_numpy(new)[:, None].to(self.model.device), start, cache
        )
        self.tokens_computed += len(rows)
        return rows, [known[parent] for parent in parents], hidden[:, 0], cache


def in_process(model: LanguageModel, *, cache_bytes: int = 1 << 30) -> InProcessSampler:
    """Draw replies with torch in the training process; what they share is computed once.

    Args:
        model: the language model that replies are drawn from.
        cache_bytes: size of the KV cache of the conversations so far, in bytes. Beyond it the
            oldest entries are dropped and computed again when needed. The default is 1 GiB.
    """
    return InProcessSampler(model, cache_bytes=cache_bytes)
