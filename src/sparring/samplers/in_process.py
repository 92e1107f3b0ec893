"""Token-in token-out sampling with torch in this process.

Every distinct context is computed once. Requests with equal ids share one row of the batch, rows
part when their sampled tokens part, and the keys and values of everything said so far are kept
under the exact ids they belong to, so a conversation's next turn pays for its new tokens alone. In
self-play many games share their openings, which makes this much cheaper than one row per game; with
all contexts distinct it costs one dictionary look-up per request.

Legend: R requests, B rows (distinct contexts), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from sparring.errors import DivergedError, ModelError
from sparring.models.attention import filled
from sparring.models.kv_cache import KeyValueCache
from sparring.models.language_model import LanguageModel
from sparring.rng import uniforms
from sparring.samplers.draws import LOST, Ids, draw, results, totals
from sparring.samplers.prefill import Prefill
from sparring.samplers.truncation import kept_sets, truncate
from sparring.types import SampleRequest, SampleResult, SamplingParams

SCORED_AT_ONCE = 1024  # contexts per forward pass when scoring; bounds memory


class InProcessSampler:
    """Samples replies from a language model; see ``base.Sampler``."""

    def __init__(self, model: LanguageModel, *, cache_bytes: int) -> None:
        self.model = model
        self.prefill = Prefill(model, cache_bytes)
        self._version = model.version

    @property
    def context(self) -> int:
        """Longest conversation in tokens, the reply included."""
        return self.model.context

    @property
    def version(self) -> int:
        """Number of updates that the model's weights have seen."""
        return self.model.version

    @property
    def invariant(self) -> bool:
        """Whether a reply has the same bits whatever else is sampled.

        It has with one thread, float32 weights on the CPU, and a family whose forward pass is known
        here, if the machine's products allow it (see ``models/invariance.py``).
        """
        return self.model.own is not None

    @property
    def tokens_computed(self) -> int:
        """Number of positions run through the network so far."""
        return self.prefill.tokens_computed

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Take new weights, unless they are the model's own, and drop what older ones computed."""
        places = {name: tensor.data_ptr() for name, tensor in self.model.tensors().items()}
        if places != {name: tensor.data_ptr() for name, tensor in weights.items()}:
            self.model.load_tensors(dict(weights))
        self.model.version = version
        self.refresh()
        return version

    def refresh(self) -> None:
        """Drop what was computed with older weights.

        The model's ``version`` says when that is due.
        """
        self.prefill.cache.clear()
        self._version = self.model.version

    def submit(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Return the replies with their places; all are finished at once, as one batch."""
        found = self.sample(requests, params, stop_ids) if requests else ()
        return iter(([*enumerate(found)],))

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
        hidden, cache = self.prefill.contexts(rows, known, params.max_new_tokens)
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

    def _logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [M, V] of hidden states [M, C], as invariant as the sampler is."""
        own = self.model.own
        return self.model.logits(filled(hidden, own.rows if own else 1))[: len(hidden)].float()

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
        hidden, cache = self.prefill.contexts(prompts, [0] * len(prompts), width)
        target = torch.tensor(
            [(*reply, *(0,) * (width - len(reply))) for reply in flat], device=self.model.device
        )
        states = hidden[parents][:, None]
        if width > 1:
            branched = cache.take(parents)
            start = torch.tensor([len(ids) for ids in prompts], device=self.model.device)[parents]
            states = torch.cat([states, self.model.extend(target[:, :-1], start, branched)], dim=1)
        logits = self._logits(states.flatten(0, 1)) / params.temperature
        log_p = truncate(logits, top_p=params.top_p, top_k=params.top_k).view(len(flat), width, -1)
        said = log_p.gather(2, target[:, :, None]).squeeze(2)
        return totals(said, replies)

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
        alive, stops = np.arange(len(requests)), np.array(stop_ids, dtype=np.int64)
        for step in range(params.max_new_tokens):
            log_p = truncate(
                self._logits(hidden) / params.temperature, top_p=params.top_p, top_k=params.top_k
            )
            chosen, chosen_logprobs = draw(log_p, node[alive], uniforms(keys[alive], step))
            tokens[alive, step], logprobs[alive, step] = chosen, chosen_logprobs
            if params.top_p < 1.0 or params.top_k:
                sets = kept_sets(log_p)
                for request in alive:
                    kept[request].append(sets[node[request]])
            going = (chosen[:, None] != stops).all(1)
            if step + 1 == params.max_new_tokens:
                going[:] = False
            if not going.all():
                self.prefill.cache.add(
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
        lengths = (len(rows[parent]) for parent in parents)
        start = torch.from_numpy(np.fromiter(lengths, dtype=np.int64, count=len(parents)))
        rows = [(*rows[parent], int(token)) for parent, token in zip(parents, new, strict=True)]
        hidden = self.model.extend(
            torch.from_numpy(new)[:, None].to(self.model.device), start.to(self.model.device), cache
        )
        self.prefill.tokens_computed += len(rows)
        return rows, [known[parent] for parent in parents], hidden[:, 0], cache


def in_process(model: LanguageModel, *, cache_bytes: int = 1 << 30) -> InProcessSampler:
    """Draw replies with torch in the training process; what they share is computed once.

    With one thread, in float32 on a CPU, a reply has the same bits whatever is asked beside it, in
    whatever order and number of calls, and whether or not the KV cache has its beginning. That
    holds for the families of models that run through the lean forward pass; others, and more
    threads, keep log-probabilities within 1e-5.

    Args:
        model: the language model that replies are drawn from.
        cache_bytes: size of the KV cache of the conversations so far, in bytes. Beyond it the
            oldest entries are dropped and computed again when needed. The default is 1 GiB.
    """
    return InProcessSampler(model, cache_bytes=cache_bytes)
