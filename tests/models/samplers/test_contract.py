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


class Disordered:
    """A sampler that finishes replies in small batches and random order, each only when requested."""

    score = None

    def __init__(self):
        self.inner, self.order = in_process(model()), random.Random(4)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def submit(self, requests, params, stop_ids):
        places = list(range(len(requests)))
        self.order.shuffle(places)
        while places:
            piece = [places.pop() for _ in range(min(len(places), self.order.randint(1, 4)))]
            for index, result in enumerate(self.inner.sample([requests[index] for index in piece], params, stop_ids)):
                yield [(piece[index], result)]


@pytest.mark.parametrize("make", [lambda: in_process(model()), Disordered])
@pytest.mark.parametrize("threads", [1, 2])
def test_samplers_keep_the_contract(make, threads):
    torch.set_num_threads(threads)
    number = 16 if threads == 1 else 3  # two threads are slow on a busy machine
    check_sampler(make, vocabulary=VOCABULARY, stop_ids=STOP, weights=make().model.tensors(), conversations=number)


def broken_sampler(**changed):
    return lambda: type("Broken", (Disordered,), changed)()


def replies_with(**changed):
    return lambda self, requests, params, stop_ids: (
        [(place, result._replace(**{name: change(result) for name, change in changed.items()}))]
        for place, result in enumerate(self.inner.sample(requests, params, stop_ids))
    )


def noisy(self, requests, params, stop_ids):
    for index, result in enumerate(self.inner.sample(requests, params, stop_ids)):
        yield [(index, result._replace(logprobs=tuple(value - 1e-7 * len(requests) for value in result.logprobs)))]


def with_stream_of_index(self, requests, params, stop_ids):
    shifted = [request._replace(stream=index) for index, request in enumerate(requests)]
    return self.inner.submit(shifted, params, stop_ids)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"submit": lambda self, *call: iter([[*enumerate(self.inner.sample(*call))][1:]])}, "no reply for request 0"),
        (
            {"submit": lambda self, *call: iter([[*enumerate(self.inner.sample(*call))]] * 2)},
            "not an open request from 0 to",
        ),
        ({"submit": noisy}, "let no product depend"),
        ({"submit": with_stream_of_index}, "own stream"),
        ({"submit": replies_with(truncated=lambda result: False)}, "truncated=False"),
        ({"submit": replies_with(ids=lambda result: (*result.ids, *result.ids))}, "of ids|goes on after"),
        ({"submit": replies_with(logprobs=lambda result: result.logprobs[:-1])}, "finite one for each id"),
        ({"score": lambda self, prompts, replies, params: [[0.0]] * len(prompts)}, "score gives 0.0"),
        ({"context": 30}, "raise ModelError"),
        ({"publish": lambda self, weights, version: 1}, "publish was given version"),
        (
            {"publish": lambda self, weights, version: setattr(self.inner.model, "version", version) or version},
            "replies stayed equal",
        ),
    ],
)
def test_a_sampler_that_breaks_the_contract_fails_the_check(changed, words):
    make = broken_sampler(**changed)
    with pytest.raises((AssertionError, ModelError), match=words):
        check_sampler(make, vocabulary=VOCABULARY, stop_ids=STOP, weights=make().model.tensors())


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


class Server:
    def __init__(self):
        self.order = random.Random(4)

    def submit(self, lots):
        replies = [reply for lot in lots if lot.requests for reply in lot.sampler.inner.sample(*lot[1:])]
        places = list(range(len(replies)))
        self.order.shuffle(places)
        for index in places:
            yield [(index, replies[index])]


def members(backend=Server, count=3):
    shared, samplers = backend(), []
    for index in range(count):
        sampler = Disordered()
        with torch.no_grad():
            for tensor in sampler.inner.model.tensors().values():
                tensor.mul_(1 + 0.5 * index)
        sampler.backend = shared
        samplers.append(sampler)
    return samplers


def adapted_model():
    return adapters(model(), 1)[0].model


def adapters(base_model, count=3):
    samplers = []
    for seed in range(count):
        network = add_adapters(
            share_weights(base_model.network), rank=1 + seed, alpha=2.0, targets=(), stream=Stream.from_seed(seed)
        )
        samplers.append(in_process(LanguageModel(network, None, over=base_model)))
        with torch.no_grad():
            for index, tensor in enumerate(samplers[-1].model.tensors().values()):
                tensor.add_(0.02 * (1 + (index + seed) % 3))
    return samplers


def test_a_wrapper_uses_its_named_backend_not_the_wrapped_samplers():
    wrapper = Disordered()
    wrapper.inner = in_process(adapted_model())
    assert wrapper.backend is wrapper.inner.backend is not None and backend_of(wrapper) is None
    wrapper.backend = Server()
    assert backend_of(wrapper) is wrapper.backend
    assert (
        backend_of(type("Slotted", (), {"__slots__": (), "backend": property(lambda self: wrapper.backend)})())
        is wrapper.backend
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_backends_keep_the_contract(threads):
    torch.set_num_threads(threads)
    base_model = model()
    for make in (members, lambda: adapters(base_model)):
        check_backend(make, vocabulary=VOCABULARY, stop_ids=STOP, conversations=6 if threads == 1 else 2)


class Mixed(Server):
    def submit(self, lots):
        return super().submit([lot._replace(sampler=lots[0].sampler) for lot in lots])


class Noisy(Server):
    def submit(self, lots):
        for ((index, result),) in super().submit(lots):
            yield [(index, result._replace(logprobs=tuple(value - 1e-7 * len(lots) for value in result.logprobs)))]


class Turned(Server):
    def submit(self, lots):
        return super().submit(lots[::-1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: members(Mixed), "with other samplers|log-probabilities"),
        (lambda: members(Noisy), "let no product depend"),
        (lambda: members(Turned), "with other samplers|log-probabilities"),
        (lambda: members(count=1), "at least two"),
        (lambda: [Disordered(), Disordered()], "must share a backend"),
        (lambda: [*members(count=1), *members(count=1)], "must share a backend"),
    ],
)
def test_a_backend_that_breaks_the_contract_fails_the_check(make, words):
    with pytest.raises(AssertionError, match=words):
        check_backend(make, vocabulary=VOCABULARY, stop_ids=STOP)
