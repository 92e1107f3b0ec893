"""Token-in token-out sampling with torch in this process.

Every distinct context is computed once, requests with equal ids share one row of the batch, and
rows part when their sampled tokens part. The keys and values of everything said so far are kept
under the exact ids they belong to, so a conversation's next turn pays for its new tokens alone. In
self-play many games share their openings, which makes this much cheaper than one row per game; with
all contexts distinct it costs one dictionary look-up per request. Samplers of models over one base,
such as adapters of it, are asked in one batch (``JoinedBase``).

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
from sparring.core.records import SampledRun, SampleRequest, SampleResult, SamplingParams
from sparring.core.rng import Stream, uniforms
from sparring.models.attention import KeyValueCache
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import Lot
from sparring.models.samplers.prefix_cache import (
    Alone,
    Forward,
    JoinedBase,
    Prefill,
    PrefixCache,
    Rows,
    Stock,
    member_of,
)

EXACT = "float32"
LIKELY = 4.0  # minus the log-probability from which on a token's tolerance grows
PROBE = 24  # tokens of the conversation that others are tried on, at most


def dtype_of(model: LanguageModel) -> str:
    """Return the type of a model's weights, such as "float32"."""
    return str(model.base.dtype).removeprefix("torch.")


def vocabulary_of(model: LanguageModel) -> int:
    """Return the number of tokens that a model knows."""
    return int(model.base.get_input_embeddings().weight.shape[0])


def probe_of(model: LanguageModel, room: int) -> list[int]:
    """Return the conversation that others who draw for a model are tried on; the same one always.

    Args:
        model: whose tokens it has.
        room: tokens that the context is to have left after it.
    """
    draws, vocabulary = Stream.from_seed(0).child("probe"), vocabulary_of(model)
    return [draws.integer(t, vocabulary) for t in range(min(PROBE, model.context - room))]


def tolerance_of(dtype: str) -> float:
    """Return how far log-probabilities may be from those that this process computes.

    Args:
        dtype: of the weights.
    """
    return 1e-4 if dtype == EXACT else 0.25


def strays(said: Sequence[float], expected: Sequence[float], dtype: str) -> str | None:
    """Return how log-probabilities differ from those that this process computes; None if by little.

    The logit of an improbable token is far from that of the most probable, and rounding moves it by
    as many parts of that distance: its tolerance grows in proportion, from probability e^-4 on.

    Args:
        said: by another engine.
        expected: of this process.
        dtype: of the weights.
    """
    if len(said) != len(expected):
        return f"there are {len(said)} of them, and not {len(expected)}"
    limits = [tolerance_of(dtype) * max(1.0, abs(own) / LIKELY) for own in expected]
    far = [abs(a - b) for a, b in zip(said, expected, strict=True)]
    beyond = [place for place, limit in enumerate(limits) if not far[place] <= limit]  # NaN too
    if not beyond:
        return None
    place = max(beyond, key=far.__getitem__)
    return (
        f"they differ from the learner's by {far[place]:.2g} where it has {expected[place]:.1f}, "
        f"and {limits[place]:.2g} is allowed"
    )


class OfModel(ABC):
    """The model of a sampler: its context, its version and its weights; see ``base.Sampler``.

    Args:
        model: gives its weights.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    @property
    def context(self) -> int:
        """Longest conversation in tokens, the reply included."""
        return self.model.context

    @property
    def version(self) -> int:
        """Number of updates that the model's weights have seen."""
        return self.model.version

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Take new weights, unless they are the model's own, and drop what older ones computed."""
        places = {name: tensor.data_ptr() for name, tensor in self.model.tensors().items()}
        if places != {name: tensor.data_ptr() for name, tensor in weights.items()}:
            self.model.load_tensors(dict(weights))
        self.model.version = version
        self.refresh()
        return version

    @abstractmethod
    def refresh(self) -> None:
        """Drop what was computed with older weights."""

    def check_length(self, longest: int) -> None:
        """Refuse a conversation that does not fit into the model, its reply included.

        Args:
            longest: tokens of the longest one.

        Raises:
            ModelError: it does not fit.
        """
        if longest > self.model.context:
            raise ModelError(
                f"A conversation of {longest} tokens exceeds the context of {self.model.context}; "
                "raise model.context."
            )


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
        tokens = _target_places(cumulative, node, index, target)
    else:
        tokens = torch.searchsorted(cumulative[index], target[:, None], right=True).squeeze(1)
    tokens = tokens.clamp_(max=log_p.shape[1] - 1)
    return tokens.cpu().numpy(), log_p[index, tokens].cpu().numpy().astype(np.float64)


def _target_places(cumulative: Tensor, node: np.ndarray, index: Tensor, target: Tensor) -> Tensor:
    """Return where each target [R] belongs in its row of [B, V], without a copy of it for each. A
    row of targets is made of those of each row."""
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
        """Return one row per distinct continuation: the row before it, and its token."""
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
        found: list[SampleResult | None] = [None] * len(self._way)
        for number, (_, stop_ids) in enumerate(self._ways):
            (places,) = np.nonzero(self._way == number)
            kept = [self._kept[place] for place in places]
            own = results(self._tokens[places], self._logprobs[places], stop_ids, kept)
            for place, result in zip(places.tolist(), own, strict=True):
                found[place] = result
        return [result for result in found if result is not None]


SCORED_AT_ONCE = 1024  # contexts per forward pass when scoring; bounds memory


class InProcessSampler(OfModel):
    """Samples replies from a language model; see ``base.Sampler``.

    Attributes:
        between: called between two tokens; weights may be changed in it, and replies go on with
            what they are then. None: a reply is of the weights that it began with.
    """

    def __init__(self, model: LanguageModel, *, cache_bytes: int) -> None:
        super().__init__(model)
        self.member = member_of(model)
        self.backend = None if self.member is None else _shared(self.member.model.over)
        self.cache = PrefixCache(cache_bytes, self.backend.stock if self.backend else None)
        self._version = model.version
        self.between: Callable[[], None] | None = None

    @property
    def invariant(self) -> bool:
        """Whether a reply has the same bits whatever else is sampled.

        It has with one thread, float32 weights on the CPU, and a family whose forward pass is known
        here, if the machine's products allow it (see ``models/language_model.py``).
        """
        return self.model.own is not None

    @property
    def tokens_computed(self) -> int:
        """Number of positions run through the network so far."""
        return self.cache.tokens_computed

    def refresh(self) -> None:
        """Drop what was computed with older weights.

        The model's ``version`` says when that is due.
        """
        self.cache.clear()
        self._version = self.model.version

    def submit(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Return the replies with their places; all are finished at once, as one batch."""
        found = self.sample(requests, params, stop_ids) if requests else ()
        return iter(([*enumerate(found)],))

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
        return sampled([Lot(self, requests, params, stop_ids)])

    def ready(self, lot: Lot) -> None:
        """Drop what older weights computed, before a lot is sampled.

        Raises:
            ModelError: a context and its reply do not fit into the model.
        """
        self.renewed()
        self.check_length(
            max(len(request.ids) for request in lot.requests) + lot.params.max_new_tokens
        )

    def renewed(self) -> int:
        """Drop what older weights computed; return the version of those of now."""
        if self.model.version != self._version:
            self.refresh()
        return self._version

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
            self.check_length(
                max(
                    len(ids) + max(map(len, own)) for ids, own in zip(prompts, replies, strict=True)
                )
            )
        scores = []
        for begin in range(0, len(prompts), SCORED_AT_ONCE):
            chunk = slice(begin, begin + SCORED_AT_ONCE)
            scores.extend(self._score(list(prompts[chunk]), replies[chunk], params))
        return scores

    def _score(
        self, prompts: list[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[np.ndarray]:
        """Score a chunk: each context once, then each reply's tokens on top of its context."""
        self.renewed()
        flat = [reply for group in replies for reply in group]
        parents = torch.tensor(
            [row for row, group in enumerate(replies) for _ in group], device=self.model.device
        )
        width = max(map(len, flat))
        forward, none = Alone(self.model), [0] * len(prompts)
        prefill = Prefill(forward, [self.cache])
        hidden, cache = prefill.contexts(Rows(prompts, none, none), width)
        target = torch.tensor(
            [(*reply, *(0,) * (width - len(reply))) for reply in flat], device=self.model.device
        )
        states = hidden[parents][:, None]
        if width > 1:
            branched = cache.take(parents)
            start = torch.tensor([len(ids) for ids in prompts], device=self.model.device)[parents]
            states = torch.cat([states, self.model.extend(target[:, :-1], start, branched)], dim=1)
        logits = forward.logits(states.flatten(0, 1), ()) / params.temperature
        log_p = truncate(logits, top_p=params.top_p, top_k=params.top_k).view(len(flat), width, -1)
        said = log_p.gather(2, target[:, :, None]).squeeze(2)
        return totals(said, replies)


class SharedBase:
    """Draws for several samplers of models over one base; see ``base.Backend``.

    Their KV caches share one budget of bytes.

    Args:
        over: the model of the base alone.
    """

    def __init__(self, over: LanguageModel) -> None:
        self.stock, self._base = Stock(), JoinedBase(over)

    def submit(self, lots: Sequence[Lot]) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Return the replies with their places; all are finished at once, as one batch.

        Where replies have bits of their own, and would not have them in one batch, the samplers are
        asked one after the other.
        """
        lots = [lot for lot in lots if lot.requests]
        samplers = _samplers(lots)
        members = [one.member for one in samplers if one.member is not None]
        forward = self._base.join(members) if len(samplers) > 1 else None
        at_once = bool(lots) and (forward is not None or len(samplers) == 1)
        calls = [lots] if at_once else [[lot] for lot in lots]
        found = [result for call in calls for result in sampled(call, forward)]
        return iter(([*enumerate(found)],))


# by the identity of the model of each base, as long as a sampler has it
_bases: WeakValueDictionary[int, SharedBase] = WeakValueDictionary()


def _shared(over: LanguageModel | None) -> SharedBase | None:
    """Return what asks the samplers of all models over the same one; None over none."""
    if over is None:
        return None
    found = _bases.get(id(over))
    if found is None:
        found = _bases[id(over)] = SharedBase(over)
    return found


def _samplers(lots: Sequence[Lot]) -> list[InProcessSampler]:
    """Return the samplers of some lots, each once, in the order of their first."""
    return list(
        dict.fromkeys(one for lot in lots if isinstance(one := lot.sampler, InProcessSampler))
    )


@torch.inference_mode()
def sampled(lots: Sequence[Lot], forward: Forward | None = None) -> list[SampleResult]:
    """Return one reply per request of samplers in this process, in order.

    Args:
        lots: each with a request at least.
        forward: of the samplers' models, in the order of their first lots; None: all lots are of
            one sampler.

    Raises:
        ModelError: a context and its reply do not fit into a model.
        DivergedError: a model gives no probabilities.
    """
    samplers = _samplers(lots)
    number = {id(sampler): place for place, sampler in enumerate(samplers)}
    asked = [
        Asked(number[id(sampler)], (params, tuple(stop_ids)), requests)
        for sampler, requests, params, stop_ids in lots
    ]
    for one, lot in zip(asked, lots, strict=True):
        samplers[one.whose].ready(lot)
    caches = [sampler.cache for sampler in samplers]
    renewing = _renewing(samplers)
    return decode(forward or Alone(samplers[0].model), caches, asked, renewing)


def _renewing(samplers: Sequence[InProcessSampler]) -> Renewing | None:
    """Return what may change the weights of some samplers between two tokens; None: nothing."""
    calls = list(dict.fromkeys(one.between for one in samplers if one.between is not None))
    if not calls:
        return None

    def between() -> list[int]:
        for call in calls:
            call()
        return [sampler.renewed() for sampler in samplers]

    return Renewing(between, [sampler.renewed() for sampler in samplers])


def in_process(model: LanguageModel, *, cache_bytes: int = 1 << 30) -> InProcessSampler:
    """Draw replies with torch in the training process; what they share is computed once.

    With one thread, in float32 on a CPU, a reply has the same bits whatever is asked beside it, in
    whatever order and number of calls, and whether or not the KV cache has its beginning. That
    holds for the families of models that run through the lean forward pass; others, and more
    threads, keep log-probabilities within 1e-5.

    Args:
        model: the language model that replies are drawn from.
        cache_bytes: size of the KV cache of the conversations so far, in bytes. Beyond it the
            oldest entries are dropped and computed again when needed. Samplers of adapters over
            one base keep so many all together. The default is 1 GiB.
    """
    return InProcessSampler(model, cache_bytes=cache_bytes)
