import random

import pytest
import torch

from sparring.core.errors import ModelError
from sparring.core.rng import Stream
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import (
    backend_of,
)
from sparring.models.samplers.in_process import in_process
from sparring.models.tiny import tiny_model
from sparring.testing import check_backend, check_sampler

VOCABULARY, STOP = 24, (2, 5)


def model():
    return LanguageModel(
        tiny_model(vocabulary_size=VOCABULARY, stream=Stream.from_seed(3), context=64).to_transformers(), None
    )


class ShuffledSampler:
    """A sampler that finishes replies in small batches and random order, each only when requested."""

    score = None

    def __init__(self):
        self.inner, self.order = in_process(model()), random.Random(4)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def submit(self, requests, params, stop_ids):
        open_indices = list(range(len(requests)))
        self.order.shuffle(open_indices)
        while open_indices:
            indices = [open_indices.pop() for _ in range(min(len(open_indices), self.order.randint(1, 4)))]
            for index, result in enumerate(self.inner.sample([requests[index] for index in indices], params, stop_ids)):
                yield [(indices[index], result)]


@pytest.mark.parametrize("make_sampler", [lambda: in_process(model()), ShuffledSampler])
@pytest.mark.parametrize("threads", [1, 2])
def test_samplers_keep_the_contract(make_sampler, threads):
    torch.set_num_threads(threads)
    num_conversations = 16 if threads == 1 else 3  # two threads are slow on a busy machine
    check_sampler(
        make_sampler,
        vocabulary=VOCABULARY,
        stop_ids=STOP,
        weights=make_sampler().model.tensors(),
        conversations=num_conversations,
    )


def maker_of_broken_sampler(**methods):
    return lambda: type("Broken", (ShuffledSampler,), methods)()


def replies_with(**methods):
    return lambda self, requests, params, stop_ids: (
        [(index, result._replace(**{name: change(result) for name, change in methods.items()}))]
        for index, result in enumerate(self.inner.sample(requests, params, stop_ids))
    )


def noisy_submit(self, requests, params, stop_ids):
    for index, result in enumerate(self.inner.sample(requests, params, stop_ids)):
        yield [(index, result._replace(logprobs=tuple(value - 1e-7 * len(requests) for value in result.logprobs)))]


def with_stream_of_index(self, requests, params, stop_ids):
    renumbered_requests = [request._replace(stream=index) for index, request in enumerate(requests)]
    return self.inner.submit(renumbered_requests, params, stop_ids)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"submit": lambda self, *call: iter([[*enumerate(self.inner.sample(*call))][1:]])}, "no reply to request 0"),
        (
            {"submit": lambda self, *call: iter([[*enumerate(self.inner.sample(*call))]] * 2)},
            "not an open request from 0 to",
        ),
        ({"submit": noisy_submit}, "compute each row"),
        ({"submit": with_stream_of_index}, "must be draw t of its request"),
        ({"submit": replies_with(truncated=lambda result: False)}, "truncated=False"),
        (
            {"submit": replies_with(ids=lambda result: (*result.ids, *result.ids))},
            "to max_new_tokens ids|goes on after",
        ),
        ({"submit": replies_with(logprobs=lambda result: result.logprobs[:-1])}, "finite one for each id"),
        ({"score": lambda self, prompts, replies, params: [[0.0]] * len(prompts)}, "score returns 0.0"),
        ({"context": 30}, "raise ModelError"),
        ({"publish": lambda self, weights, version: 1}, "publish was given version"),
        (
            {"publish": lambda self, weights, version: setattr(self.inner.model, "version", version) or version},
            "replies stayed equal",
        ),
    ],
)
def test_a_sampler_that_breaks_the_contract_fails_the_check(methods, message):
    make_sampler = maker_of_broken_sampler(**methods)
    with pytest.raises((AssertionError, ModelError), match=message):
        check_sampler(make_sampler, vocabulary=VOCABULARY, stop_ids=STOP, weights=make_sampler().model.tensors())


def test_published_weights_are_copied_unless_they_are_the_models_tensors():
    sampler, other_model = in_process(model()), model()
    with torch.no_grad():
        for tensor in other_model.tensors().values():
            tensor.mul_(0.5)
    assert sampler.publish(other_model.tensors(), 7) == sampler.version == sampler.model.version == 7
    assert all((weight == other_model.tensors()[name]).all() for name, weight in sampler.model.tensors().items())
    tensors_before = sampler.model.tensors()
    assert sampler.publish(tensors_before, 8) == 8
    with pytest.raises(ModelError, match="another model"):
        sampler.publish({"strange": torch.zeros(1)}, 9)
    assert sampler.version == 8


class SharedBackend:
    def __init__(self):
        self.order = random.Random(4)

    def submit(self, batches):
        replies = [reply for batch in batches if batch.requests for reply in batch.sampler.inner.sample(*batch[1:])]
        open_indices = list(range(len(replies)))
        self.order.shuffle(open_indices)
        for index in open_indices:
            yield [(index, replies[index])]


def shuffled_samplers(backend=SharedBackend, count=3):
    shared_backend, samplers = backend(), []
    for index in range(count):
        sampler = ShuffledSampler()
        with torch.no_grad():
            for tensor in sampler.inner.model.tensors().values():
                tensor.mul_(1 + 0.5 * index)
        sampler.backend = shared_backend
        samplers.append(sampler)
    return samplers


def adapted_model():
    return adapter_samplers(model(), 1)[0].model


def adapter_samplers(base_model, count=3):
    samplers = []
    for seed in range(count):
        network = add_adapters(
            share_weights(base_model.network), rank=1 + seed, alpha=2.0, targets=(), stream=Stream.from_seed(seed)
        )
        samplers.append(in_process(LanguageModel(network, None, shared_base=base_model)))
        with torch.no_grad():
            for index, tensor in enumerate(samplers[-1].model.tensors().values()):
                tensor.add_(0.02 * (1 + (index + seed) % 3))
    return samplers


def test_a_wrapper_uses_only_a_backend_that_it_sets_itself():
    wrapper = ShuffledSampler()
    wrapper.inner = in_process(adapted_model())
    assert wrapper.backend is wrapper.inner.backend is not None and backend_of(wrapper) is None
    wrapper.backend = SharedBackend()
    assert backend_of(wrapper) is wrapper.backend
    assert (
        backend_of(type("Slotted", (), {"__slots__": (), "backend": property(lambda self: wrapper.backend)})())
        is wrapper.backend
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_backends_keep_the_contract(threads):
    torch.set_num_threads(threads)
    base_model = model()
    for make_samplers in (shuffled_samplers, lambda: adapter_samplers(base_model)):
        check_backend(make_samplers, vocabulary=VOCABULARY, stop_ids=STOP, conversations=6 if threads == 1 else 2)


class WrongModelBackend(SharedBackend):
    def submit(self, batches):
        return super().submit([batch._replace(sampler=batches[0].sampler) for batch in batches])


class NoisyBackend(SharedBackend):
    def submit(self, batches):
        for ((index, result),) in super().submit(batches):
            yield [(index, result._replace(logprobs=tuple(value - 1e-7 * len(batches) for value in result.logprobs)))]


class ReversedBackend(SharedBackend):
    def submit(self, batches):
        return super().submit(batches[::-1])


@pytest.mark.parametrize(
    ("make_samplers", "message"),
    [
        (lambda: shuffled_samplers(WrongModelBackend), "With other samplers"),
        (lambda: shuffled_samplers(NoisyBackend), "compute each row"),
        (lambda: shuffled_samplers(ReversedBackend), "With other samplers"),
        (lambda: shuffled_samplers(count=1), "at least two"),
        (lambda: [ShuffledSampler(), ShuffledSampler()], "must share a backend"),
        (lambda: [*shuffled_samplers(count=1), *shuffled_samplers(count=1)], "must share a backend"),
    ],
)
def test_a_backend_that_breaks_the_contract_fails_the_check(make_samplers, message):
    with pytest.raises(AssertionError, match=message):
        check_backend(make_samplers, vocabulary=VOCABULARY, stop_ids=STOP)
