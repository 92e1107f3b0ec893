"""Samples replies with torch in this process; input and output are token ids.

Requests with equal ids share one row of the batch, which splits when their sampled tokens differ.
Keys and values of earlier conversations are cached under their exact ids, so that the next turn
computes only its new tokens. In self-play many episodes share their first turns, so this is much
faster than one row per episode; if all contexts are distinct, it costs one dictionary look-up per
request. Samplers of models over one base, such as adapters, share one batch (``BaseWeights``).

Legend: R requests or replies, B rows (distinct contexts), M sampled tokens, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from sparring.core.errors import DivergedError, ModelError
from sparring.core.records import SampledSpan, SampleRequest, SampleResult, SamplingParams
from sparring.core.rng import Stream, uniforms
from sparring.models.attention import KeyValueCache
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import SampleBatch
from sparring.models.samplers.prefix_cache import (
    BaseWeights,
    CacheBudget,
    ContextRows,
    Forward,
    Prefill,
    PrefixCache,
    SingleModelForward,
    member_of,
)

EXACT = "float32"
LIKELY_NATS = 4.0  # tokens with log-probabilities below -LIKELY_NATS have a larger tolerance
MAX_PROBE_TOKENS = 24  # largest length of the conversation by which other engines are checked


def dtype_of(model: LanguageModel) -> str:
    """Return the type of a model's weights, such as "float32"."""
    return str(model.base.dtype).removeprefix("torch.")


def vocabulary_of(model: LanguageModel) -> int:
    """Return the size of a model's vocabulary."""
    return int(model.base.get_input_embeddings().weight.shape[0])


def probe_of(model: LanguageModel, room: int) -> list[int]:
    """Return the fixed conversation by which other engines that draw for a model are checked.

    Args:
        model: the model.
        room: number of tokens that the context must leave free after the conversation.
    """
    draws, vocabulary = Stream.from_seed(0).child("probe"), vocabulary_of(model)
    return [
        draws.integer(t, vocabulary) for t in range(min(MAX_PROBE_TOKENS, model.context - room))
    ]


def tolerance_of(dtype: str) -> float:
    """Return the largest allowed error of an engine's log-probabilities, by the type of weights."""
    return 1e-4 if dtype == EXACT else 0.25


def describe_difference(
    actual: Sequence[float], expected: Sequence[float], dtype: str
) -> str | None:
    """Return how another engine's log-probabilities differ; None if they are within the tolerance.

    Rounding moves a logit in proportion to its distance from the largest one. The tolerance of
    tokens less probable than e^-4 therefore grows with minus their log-probability.

    Args:
        actual: log-probabilities of the other engine.
        expected: log-probabilities of this process.
        dtype: type of the weights.
    """
    if len(actual) != len(expected):
        return f"there are {len(actual)} of them, not {len(expected)}"
    tolerances = [tolerance_of(dtype) * max(1.0, abs(value) / LIKELY_NATS) for value in expected]
    errors = [abs(a - b) for a, b in zip(actual, expected, strict=True)]
    too_large = [n for n, limit in enumerate(tolerances) if not errors[n] <= limit]  # NaN too
    if not too_large:
        return None
    worst = max(too_large, key=errors.__getitem__)
    return (
        f"they differ by {errors[worst]:.2g} from the learner's value {expected[worst]:.1f}; "
        f"{tolerances[worst]:.2g} is allowed"
    )


class ModelSampler(ABC):
    """A sampler of a ``LanguageModel``: its context, version and weights; see ``base.Sampler``.

    Args:
        model: the model.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    @property
    def context(self) -> int:
        """Largest length of a conversation in tokens, reply included."""
        return self.model.context

    @property
    def version(self) -> int:
        """Number of updates of the model's weights."""
        return self.model.version

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Load new weights, unless they are the model's tensors, and drop cached results."""
        addresses = {name: tensor.data_ptr() for name, tensor in self.model.tensors().items()}
        if addresses != {name: tensor.data_ptr() for name, tensor in weights.items()}:
            self.model.load_tensors(dict(weights))
        self.model.version = version
        self.refresh()
        return version

    @abstractmethod
    def refresh(self) -> None:
        """Drop results of older weights."""

    def check_length(self, longest: int) -> None:
        """Refuse a conversation that does not fit into the model.

        Args:
            longest: length of the longest conversation in tokens, reply included.

        Raises:
            ModelError: the conversation does not fit.
        """
        if longest > self.model.context:
            raise ModelError(
                f"A conversation of {longest} tokens exceeds the context of {self.model.context}; "
                "raise model.context."
            )


Ids = tuple[int, ...]
MIN_TO_SORT = 1 << 14  # with more probabilities, sorting replies is faster than copying rows
NO_PROBABILITIES = (
    "The model gives no probabilities: its weights have grown too large; lower "
    "learner.learning_rate."
)


def draw(log_p: Tensor, row: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw tokens from rows ``row`` [R] of log-probabilities [B, V] by inversion of ``draws``.

    Returns:
        Tokens and their log-probabilities, [R] each.
    """
    cumulative = log_p.double().exp().cumsum(-1)
    index = torch.from_numpy(row).to(log_p.device)
    target = torch.from_numpy(draws).to(log_p.device) * cumulative[index, -1]
    if len(row) > len(log_p) and log_p.numel() >= MIN_TO_SORT:
        tokens = _search_by_row(cumulative, row, index, target)
    else:
        tokens = torch.searchsorted(cumulative[index], target[:, None], right=True).squeeze(1)
    tokens = tokens.clamp_(max=log_p.shape[1] - 1)
    return tokens.cpu().numpy(), log_p[index, tokens].cpu().numpy().astype(np.float64)


def _search_by_row(cumulative: Tensor, row: np.ndarray, index: Tensor, target: Tensor) -> Tensor:
    """Return where each target [R] belongs in its row of [B, V], without copies of rows.

    All targets of a row are searched together.
    """
    num_targets = np.bincount(row, minlength=len(cumulative))
    order = np.argsort(row, kind="stable")
    index_in_row = np.empty(len(row), dtype=np.int64)  # of each target
    index_in_row[order] = np.arange(len(row)) - (np.cumsum(num_targets) - num_targets)[row[order]]
    column = torch.from_numpy(index_in_row).to(index.device)
    targets = target.new_zeros((len(cumulative), int(num_targets.max())))
    targets[index, column] = target
    return torch.searchsorted(cumulative, targets, right=True)[index, column]


def make_results(
    tokens: np.ndarray, logprobs: np.ndarray, stop_ids: Ids, supports: list[list[Ids]]
) -> list[SampleResult]:
    """Return the sampled rows as records; -1 stands in place of tokens after the end."""
    lengths = (tokens >= 0).sum(axis=1).tolist()
    has_stop_id = np.isin(tokens[np.arange(len(tokens)), np.array(lengths) - 1], stop_ids).tolist()
    return [
        SampleResult(tuple(ids[:length]), tuple(values[:length]), not is_stopped, tuple(sets))
        for ids, values, length, is_stopped, sets in zip(
            tokens.tolist(), logprobs.tolist(), lengths, has_stop_id, supports, strict=True
        )
    ]


def sum_logprobs(logprobs: Tensor, replies: Sequence[Sequence[Ids]]) -> list[np.ndarray]:
    """Return the log-probability of every reply from those of its tokens [all replies, T].

    Raises:
        DivergedError: a log-probability is NaN.
    """
    all_replies = [reply for group in replies for reply in group]
    lengths = torch.tensor([len(reply) for reply in all_replies], device=logprobs.device)
    is_padding = torch.arange(logprobs.shape[1], device=logprobs.device) >= lengths[:, None]
    sums = logprobs.masked_fill(is_padding, 0.0).double().sum(1).cpu().numpy()
    if np.isnan(sums).any():
        raise DivergedError(NO_PROBABILITIES)
    return np.split(sums, np.cumsum([len(group) for group in replies])[:-1])


def truncate(logits: Tensor, *, top_p: float = 1.0, top_k: int = 0) -> Tensor:
    """Return truncated and renormalised log-probabilities [B, V]; -inf for dropped tokens.

    ``top_k`` keeps the k largest (0: all); ``top_p`` then keeps the smallest set of most probable
    tokens whose mass reaches p (1: all). At least one token is kept.
    """
    if 0 < top_k < logits.shape[-1]:
        threshold = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < threshold, -torch.inf)
    if top_p < 1.0:
        sorted_logits, order = logits.sort(dim=-1, descending=True, stable=True)
        mass_before = sorted_logits.softmax(-1).cumsum(-1) - sorted_logits.softmax(-1)
        no_drops = torch.zeros_like(logits, dtype=torch.bool)
        is_dropped = no_drops.scatter(-1, order, mass_before >= top_p)
        logits = logits.masked_fill(is_dropped, -torch.inf)
    return logits.log_softmax(-1)


def supports_of(log_p: Tensor) -> list[tuple[int, ...]]:
    """Return the ids that truncation kept, for each row of [B, V]."""
    return [tuple(torch.nonzero(row > -torch.inf).squeeze(1).tolist()) for row in log_p]


def restrict(logits: Tensor, supports: list[tuple[int, ...]]) -> Tensor:
    """Return logits [M, V] with -inf outside of the supports; an empty support keeps all."""
    is_dropped = torch.zeros_like(logits, dtype=torch.bool)
    for row, ids in enumerate(supports):
        if ids:
            is_dropped[row] = True
            is_dropped[row, list(ids)] = False
    return logits.masked_fill(is_dropped, -torch.inf)


class WeightUpdates:
    """Records which version of the weights drew each token of a batch.

    Args:
        update: function called before each token except the first, which returns the version of
            each model. If it changes weights, it also drops results of older weights.
        versions: version of each model's weights at the first token.
    """

    def __init__(self, update: Callable[[], Sequence[int]], versions: Sequence[int]) -> None:
        self._update = update
        self._changes = [(0, list(versions))]  # (first token, version of each model)

    def update_before(self, token: int) -> bool:
        """Let weights change before a token is drawn; return whether any weights changed."""
        with torch.inference_mode(False):
            versions = list(self._update())
        if versions == self._changes[-1][1]:
            return False
        self._changes.append((token, versions))
        return True

    def spans(self, model: int, length: int) -> tuple[SampledSpan, ...]:
        """Return the spans of a reply; () if its first weights drew all tokens.

        Args:
            model: number of the reply's model.
            length: length of the reply in tokens.
        """
        span_starts = [(token, versions[model]) for token, versions in self._changes]
        return spans_of(span_starts, length, span_starts[0][1])


def spans_of(starts: Iterable[tuple[int, int]], length: int, first: int) -> tuple[SampledSpan, ...]:
    """Return the spans of a reply; () if version ``first`` drew all tokens.

    A span is an unbroken part of a reply that one version of the weights sampled.

    Args:
        starts: (index of a span's first token, version of the weights), from token 0 on.
        length: length of the reply in tokens.
        first: version of the sampler's weights at the time of the request.
    """
    spans: list[SampledSpan] = []
    changes = [(token, version) for token, version in starts if token < length]
    span_ends = [*(token for token, _ in changes[1:]), length]
    for (token, version), end in zip(changes, span_ends, strict=True):
        if spans and spans[-1].version == version:
            spans[-1] = SampledSpan(spans[-1].length + end - token, version)
        else:
            spans.append(SampledSpan(end - token, version))
    return tuple(spans) if [span.version for span in spans] != [first] else ()


DrawRule = tuple[SamplingParams, Ids]  # the distribution to draw from, and the ids that end a reply


class ModelRequests(NamedTuple):
    """Requests to one model with one rule of drawing."""

    model: int  # number of the model
    rule: DrawRule
    requests: Sequence[SampleRequest]


def decode(
    forward: Forward,
    caches: Sequence[PrefixCache],
    groups: Sequence[ModelRequests],
    updates: WeightUpdates | None = None,
) -> list[SampleResult]:
    """Return one reply per request, in order; token t of a reply uses draw t of its stream.

    Args:
        forward: forward pass of the models.
        caches: KV cache of each model.
        groups: requests by model; at least one group has a request.
        updates: lets weights change between two tokens; None: the weights stay the same.

    Raises:
        DivergedError: the model gives no probabilities.
    """
    requests = [request for group in groups for request in group.requests]
    owners = [group.model for group in groups for _ in group.requests]
    rules = list(dict.fromkeys(group.rule for group in groups))
    rule_of_request = [rules.index(group.rule) for group in groups for _ in group.requests]
    first_request: dict[tuple[int, Ids], SampleRequest] = {}
    for model, request in zip(owners, requests, strict=True):
        first_request.setdefault((model, request.ids), request)
    order = sorted(first_request, key=lambda key: (key[0], len(key[1])))  # by model, then length
    row_of = {key: number for number, key in enumerate(order)}
    row_of_request = [
        row_of[model, request.ids] for model, request in zip(owners, requests, strict=True)
    ]
    rows = ContextRows(
        [ids for _, ids in order],
        [first_request[key].num_cached_ids for key in order],
        [model for model, _ in order],
    )
    replies = BatchDecoder(
        Prefill(forward, caches), rules, np.array(rule_of_request), np.array(row_of_request)
    ).run(requests, rows, updates)
    if updates is None:
        return replies
    return [
        reply._replace(spans=updates.spans(model, len(reply.ids)))
        for model, reply in zip(owners, replies, strict=True)
    ]


class BatchDecoder:
    """Draws the replies of a batch token by token.

    Args:
        prefill: computes the contexts.
        rules: the rules by which replies are drawn.
        rule: index of each request's rule in ``rules``, [R].
        row: index of each request's row in the batch, [R].
    """

    def __init__(
        self, prefill: Prefill, rules: Sequence[DrawRule], rule: np.ndarray, row: np.ndarray
    ) -> None:
        self._prefill, self._forward = prefill, prefill.forward
        self._rules, self._rule, self._row = rules, rule, row
        longest, num_requests = max(params.max_new_tokens for params, _ in rules), len(rule)
        self._limit = np.array([params.max_new_tokens for params, _ in rules])[rule]
        self._tokens = np.full((num_requests, longest), -1, dtype=np.int64)
        self._logprobs = np.zeros((num_requests, longest))
        self._supports: list[list[Ids]] = [[] for _ in range(num_requests)]

    def run(
        self,
        requests: Sequence[SampleRequest],
        rows: ContextRows,
        updates: WeightUpdates | None = None,
    ) -> list[SampleResult]:
        """Sample until every reply has ended; a change of weights recomputes all contexts."""
        keys = np.array([request.stream for request in requests], dtype=np.uint64)
        prefixes = [ids[:length] for ids, length, _ in zip(*rows, strict=True)]
        longest = self._tokens.shape[1]
        hidden, cache = self._prefill.compute(rows, longest)
        open_replies, contexts, owners = np.arange(len(keys)), rows.ids, np.array(rows.owners)
        for step in range(longest):
            if step and updates is not None and updates.update_before(step):
                hidden, cache = self._prefill.compute(
                    ContextRows(contexts, [0] * len(contexts), owners.tolist()), longest - step
                )
            logits = self._forward.logits(hidden, self._prefill.count_rows(owners))
            drawn_tokens, continues = self._draw(logits, open_replies, keys, step)
            if not continues.all():
                self._store(cache, contexts, prefixes, owners, self._row[open_replies[~continues]])
            open_replies, drawn_tokens = open_replies[continues], drawn_tokens[continues]
            if not len(open_replies):
                break
            parents, tokens = self._split_rows(open_replies, drawn_tokens)
            hidden, cache = self._extend(parents, tokens, contexts, owners, cache)
            pairs = zip(parents, tokens.tolist(), strict=True)
            contexts = [(*contexts[row], token) for row, token in pairs]
            prefixes, owners = [prefixes[row] for row in parents], owners[parents]
        if not np.isfinite(self._logprobs).all():
            raise DivergedError(NO_PROBABILITIES)
        return self._results()

    def _draw(
        self, logits: Tensor, open_replies: np.ndarray, keys: np.ndarray, step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw a token of every open reply; return (tokens, whether each reply continues)."""
        drawn_tokens = np.zeros(len(open_replies), dtype=np.int64)
        continues = np.zeros(len(open_replies), dtype=bool)
        for rule_index, (params, stop_ids) in enumerate(self._rules):
            (indices,) = np.nonzero(self._rule[open_replies] == rule_index)
            if not len(indices):
                continue
            requests = open_replies[indices]
            row, rule_logits = self._row[requests], logits
            if len(self._rules) > 1:
                rows, row = np.unique(row, return_inverse=True)
                rule_logits = logits[torch.from_numpy(rows).to(logits.device)]
            log_p = truncate(
                rule_logits / params.temperature, top_p=params.top_p, top_k=params.top_k
            )
            drawn_tokens[indices], self._logprobs[requests, step] = draw(
                log_p, row, uniforms(keys[requests], step)
            )
            if params.top_p < 1.0 or params.top_k:
                sets = supports_of(log_p)
                for request, set_index in zip(requests, row, strict=True):
                    self._supports[request].append(sets[set_index])
            stops = np.array(stop_ids, dtype=np.int64)
            continues[indices] = (drawn_tokens[indices, None] != stops).all(1)
        self._tokens[open_replies, step] = drawn_tokens
        return drawn_tokens, continues & (step + 1 < self._limit[open_replies])

    def _store(
        self,
        cache: KeyValueCache,
        contexts: Sequence[Ids],
        prefixes: Sequence[Ids],
        owners: np.ndarray,
        ended_rows: np.ndarray,
    ) -> None:
        rows = set(ended_rows.tolist())
        for number in sorted({int(owners[row]) for row in rows}):
            row_of = {contexts[row]: row for row in rows if owners[row] == number}
            self._prefill.caches[number].add(cache, row_of, prefixes)

    def _split_rows(
        self, open_replies: np.ndarray, drawn_tokens: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (row of the last step, new token) for each row of the next step."""
        keys = self._row[open_replies] << 32 | drawn_tokens
        pairs, inverse = np.unique(keys, return_inverse=True)
        self._row[open_replies] = inverse
        return pairs >> 32, pairs & 0xFFFFFFFF

    def _extend(
        self,
        parents: np.ndarray,
        tokens: np.ndarray,
        contexts: Sequence[Ids],
        owners: np.ndarray,
        cache: KeyValueCache,
    ) -> tuple[Tensor, KeyValueCache]:
        device = self._forward.device
        if len(parents) != len(contexts) or (parents != np.arange(len(contexts))).any():
            cache = cache.take(torch.from_numpy(parents).to(device))
        lengths = (len(contexts[parent]) for parent in parents)
        start = torch.from_numpy(np.fromiter(lengths, dtype=np.int64, count=len(parents)))
        counts = self._prefill.count_rows(owners[parents])
        hidden = self._forward.extend(
            torch.from_numpy(tokens)[:, None].to(device), start.to(device), counts, cache
        )
        self._prefill.count_computed(counts)
        return hidden[:, 0], cache

    def _results(self) -> list[SampleResult]:
        replies: list[SampleResult | None] = [None] * len(self._rule)
        for number, (_, stop_ids) in enumerate(self._rules):
            (indices,) = np.nonzero(self._rule == number)
            supports = [self._supports[index] for index in indices]
            results = make_results(
                self._tokens[indices], self._logprobs[indices], stop_ids, supports
            )
            for index, result in zip(indices.tolist(), results, strict=True):
                replies[index] = result
        return [result for result in replies if result is not None]


MAX_SCORED_CONTEXTS = 1024  # contexts per forward pass when scoring; bounds memory


class InProcessSampler(ModelSampler):
    """Samples replies from a language model; see ``base.Sampler``.

    Attributes:
        between_tokens: called between two tokens. If it changes weights, replies continue with the
            new weights. None: a reply's first weights draw all its tokens.
    """

    def __init__(self, model: LanguageModel, *, cache_bytes: int) -> None:
        super().__init__(model)
        self.member = member_of(model)
        base = None if self.member is None else self.member.model.shared_base
        self.backend = _find_shared_base(base)
        self.cache = PrefixCache(cache_bytes, self.backend.shared if self.backend else None)
        self._version = model.version
        self.between_tokens: Callable[[], None] | None = None

    @property
    def invariant(self) -> bool:
        """Whether a reply is exactly the same whichever other requests the sampler has.

        This needs one thread, float32 weights on the CPU, a supported family, and a machine whose
        products allow it (see ``models/language_model.py``).
        """
        return self.model.padding is not None

    @property
    def tokens_computed(self) -> int:
        """Number of positions run through the network so far."""
        return self.cache.tokens_computed

    def refresh(self) -> None:
        """Drop results of older weights; needed after the model's ``version`` has changed."""
        self.cache.clear()
        self._version = self.model.version

    def submit(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Return the replies with the numbers of their requests, all in one list."""
        replies = self.sample(requests, params, stop_ids) if requests else ()
        return iter(([*enumerate(replies)],))

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> list[SampleResult]:
        """Return one reply per request, in order.

        Token t of a reply uses draw t of its request's stream, so replies are independent.

        Args:
            requests: exact ids of R contexts, with their random streams.
            params: the distribution to draw from, whose log-probabilities are returned.
            stop_ids: a reply ends with the first of these, which is part of it.

        Raises:
            ModelError: a context and its reply do not fit into the model.
            DivergedError: the model gives no probabilities.
        """
        return sample_batches([SampleBatch(self, requests, params, stop_ids)])

    def prepare(self, batch: SampleBatch) -> None:
        """Drop results of older weights before a batch is sampled.

        Raises:
            ModelError: a context and its reply do not fit into the model.
        """
        self.drop_outdated()
        self.check_length(
            max(len(request.ids) for request in batch.requests) + batch.params.max_new_tokens
        )

    def drop_outdated(self) -> int:
        """Drop results of older weights, if any; return the present version."""
        if self.model.version != self._version:
            self.refresh()
        return self._version

    @torch.inference_mode()
    def score(
        self, prompts: Sequence[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[np.ndarray]:
        """Return the log-probability of whole replies.

        Args:
            prompts: exact ids of the contexts.
            replies: non-empty replies to score for each context, stop token included.
            params: the distribution that replies would be drawn from.

        Returns:
            For each context an array [number of its replies] of natural logarithms; -inf for
            replies that truncation excludes.

        Raises:
            ModelError: a context and a reply do not fit into the model.
            DivergedError: the model gives no probabilities.
        """
        if prompts:
            pairs = zip(prompts, replies, strict=True)
            self.check_length(max(len(ids) + max(map(len, group)) for ids, group in pairs))
        scores = []
        for begin in range(0, len(prompts), MAX_SCORED_CONTEXTS):
            chunk = slice(begin, begin + MAX_SCORED_CONTEXTS)
            scores.extend(self._score(list(prompts[chunk]), replies[chunk], params))
        return scores

    def _score(
        self, prompts: list[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[np.ndarray]:
        """Score a chunk: compute each context once, then each reply's tokens after it."""
        self.drop_outdated()
        all_replies = [reply for group in replies for reply in group]
        parents = torch.tensor(
            [row for row, group in enumerate(replies) for _ in group], device=self.model.device
        )
        width = max(map(len, all_replies))
        forward, zeros = SingleModelForward(self.model), [0] * len(prompts)
        prefill = Prefill(forward, [self.cache])
        hidden, cache = prefill.compute(ContextRows(prompts, zeros, zeros), width)
        target = torch.tensor(
            [(*reply, *(0,) * (width - len(reply))) for reply in all_replies],
            device=self.model.device,
        )
        states = hidden[parents][:, None]
        if width > 1:
            reply_cache = cache.take(parents)
            start = torch.tensor([len(ids) for ids in prompts], device=self.model.device)[parents]
            later_states = self.model.extend(target[:, :-1], start, reply_cache)
            states = torch.cat([states, later_states], dim=1)
        logits = forward.logits(states.flatten(0, 1), ()) / params.temperature
        log_p = truncate(logits, top_p=params.top_p, top_k=params.top_k)
        log_p = log_p.view(len(all_replies), width, -1)
        token_logprobs = log_p.gather(2, target[:, :, None]).squeeze(2)
        return sum_logprobs(token_logprobs, replies)


class SharedBase:
    """Draws for several samplers of models over one base; see ``base.Backend``.

    The KV caches of these samplers share one budget of bytes.

    Args:
        base: the model of the base without adapters.
    """

    def __init__(self, base: LanguageModel) -> None:
        self.shared, self._base = CacheBudget(), BaseWeights(base)

    def submit(
        self, batches: Sequence[SampleBatch]
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Return the replies with the numbers of their requests, all in one list.

        Samplers are called one by one if rounding in a common batch would change invariant replies.
        """
        batches = [batch for batch in batches if batch.requests]
        samplers = _distinct_samplers(batches)
        members = [sampler.member for sampler in samplers if sampler.member is not None]
        forward = self._base.join(members) if len(samplers) > 1 else None
        is_one_batch = bool(batches) and (forward is not None or len(samplers) == 1)
        calls = [batches] if is_one_batch else [[batch] for batch in batches]
        replies = [result for call in calls for result in sample_batches(call, forward)]
        return iter(([*enumerate(replies)],))


# keys are the ``id`` of the base's model; an entry stays while a sampler uses it
_bases: WeakValueDictionary[int, SharedBase] = WeakValueDictionary()


def _find_shared_base(base: LanguageModel | None) -> SharedBase | None:
    """Return the backend of all models over the same base; None without a base."""
    if base is None:
        return None
    shared = _bases.get(id(base))
    if shared is None:
        shared = _bases[id(base)] = SharedBase(base)
    return shared


def _distinct_samplers(batches: Sequence[SampleBatch]) -> list[InProcessSampler]:
    samplers = dict.fromkeys(batch.sampler for batch in batches)
    return [sampler for sampler in samplers if isinstance(sampler, InProcessSampler)]


@torch.inference_mode()
def sample_batches(
    batches: Sequence[SampleBatch], forward: Forward | None = None
) -> list[SampleResult]:
    """Return one reply per request of samplers in this process, in order.

    Args:
        batches: the batches, each with at least one request.
        forward: forward pass of the samplers' models, in the order of their first batches; None:
            one sampler has all batches.

    Raises:
        ModelError: a context and its reply do not fit into a model.
        DivergedError: a model gives no probabilities.
    """
    samplers = _distinct_samplers(batches)
    number_of = {id(sampler): index for index, sampler in enumerate(samplers)}
    groups = [
        ModelRequests(number_of[id(sampler)], (params, tuple(stop_ids)), requests)
        for sampler, requests, params, stop_ids in batches
    ]
    for group, batch in zip(groups, batches, strict=True):
        samplers[group.model].prepare(batch)
    caches = [sampler.cache for sampler in samplers]
    updates = _weight_updates(samplers)
    return decode(forward or SingleModelForward(samplers[0].model), caches, groups, updates)


def _weight_updates(samplers: Sequence[InProcessSampler]) -> WeightUpdates | None:
    """Return the record of weight updates between tokens; None if no sampler has a hook."""
    hooks = [hook for hook in dict.fromkeys(s.between_tokens for s in samplers) if hook]
    if not hooks:
        return None

    def call_hooks() -> list[int]:
        for hook in hooks:
            hook()
        return [sampler.drop_outdated() for sampler in samplers]

    return WeightUpdates(call_hooks, [sampler.drop_outdated() for sampler in samplers])


def in_process(model: LanguageModel, *, cache_bytes: int = 1 << 30) -> InProcessSampler:
    """Draw replies with torch in the training process; shared prefixes are computed once.

    With one thread, in float32 on a CPU, a reply is exactly the same with any other requests, in
    any order and number of calls, with or without its prefix in the KV cache. This holds for models
    of supported families (Llama, Qwen2, Qwen3, Gemma 3, GPT-2); for other models, or with more
    threads, log-probabilities stay within 1e-5.

    Args:
        model: the language model that replies are drawn from.
        cache_bytes: size of the KV cache of earlier conversations, in bytes. Beyond it the oldest
            entries are dropped and computed again when needed. Samplers of adapters over one base
            share this size. The default is 1 GiB.
    """
    return InProcessSampler(model, cache_bytes=cache_bytes)
