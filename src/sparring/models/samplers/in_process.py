"""Token-in token-out sampling with torch in this process.

Every distinct context is computed once, requests with equal ids share one row of the batch, and the
keys and values of everything said so far are kept under the exact ids they belong to, so a
conversation's next turn pays for its new tokens alone. In self-play many games share their
openings, which makes this much cheaper than one row per game; with all contexts distinct it costs
one dictionary look-up per request. Samplers of models over one base, such as adapters of it, are
asked in one batch (``models/joined.py``).

Legend: R requests, B rows (distinct contexts), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from weakref import WeakValueDictionary

import numpy as np
import torch

from sparring.core.records import SampleRequest, SampleResult, SamplingParams
from sparring.models.joined import Alone, Forward, JoinedBase, member_of
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import Lot
from sparring.models.samplers.decoding import Asked, decode
from sparring.models.samplers.draws import Ids, Renewing, totals, truncate
from sparring.models.samplers.of_model import OfModel
from sparring.models.samplers.prefix_cache import Prefill, PrefixCache, Rows, Stock

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
        here, if the machine's products allow it (see ``models/invariance.py``).
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
