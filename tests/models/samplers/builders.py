"""Shared helpers of sampler tests: small models that change, replies of sample batches, and the learner's log-probabilities."""

import itertools

import numpy as np
import torch

from sparring.core.records import SampledSpan
from sparring.core.rng import Stream
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import stream_backend_replies
from sparring.models.samplers.in_process import in_process
from sparring.models.tiny import tiny_model


def small_model(seed=3, vocabulary=24):
    return LanguageModel(
        tiny_model(vocabulary_size=vocabulary, stream=Stream.from_seed(seed), context=64, heads=2).to_transformers(),
        None,
    )


def freeze(model):
    for parameter in model.network.parameters():
        parameter.requires_grad_(False)
    return model


def with_adapters(base, number=0, targets=()):
    network = add_adapters(
        share_weights(base.network), rank=2, alpha=4.0, targets=targets, stream=Stream.from_seed(number)
    )
    return LanguageModel(network, None, shared_base=base)


@torch.no_grad()
def update(model, step):
    for tensor in model.tensors().values():
        tensor.add_(0.1 * torch.sin(torch.arange(tensor.numel()) + step).view_as(tensor))
    model.version += 1


def replies_of(batches):
    """Return the replies to all requests of these sample batches, which one backend answers together."""
    reply_by_index = dict(
        pair for pairs in stream_backend_replies(batches[0].sampler.backend, batches) for pair in pairs
    )
    return [reply_by_index[index] for index in range(len(reply_by_index))]


def publish_between(sampler, condition, max_updates=99):
    """Publish new weights whenever ``condition()`` is true during sampling; return the model of each version."""
    models, first = (
        {sampler.version: sampler.model.clone()},
        {name: tensor.clone() for name, tensor in sampler.model.tensors().items()},
    )

    def publish_if_due():
        if len(models) <= max_updates and condition():
            generator = torch.Generator().manual_seed(len(models))
            scale = 0.1 if sampler.model.shared_base is None else 0.3
            weights = {
                name: tensor + scale * torch.randn(tensor.shape, generator=generator) for name, tensor in first.items()
            }
            sampler.publish(weights, sampler.version + 1)
            models[sampler.version] = sampler.model.clone()

    sampler.between_tokens = publish_if_due
    return models


def true_at_every(num_calls, sampler):
    """Return a function that is true at every ``num_calls``-th call while replicas of the sampler have open requests."""
    count = itertools.count(1)
    return lambda: (
        any(replica.stage == "ready" and replica.pending for replica in sampler.backend.replicas)
        and next(count) % num_calls == 0
    )


def versions(reply, first):
    spans = reply.spans or (SampledSpan(len(reply.ids), first),)
    assert sum(span.length for span in spans) == len(reply.ids) and all(span.length > 0 for span in spans), spans
    return [span.version for span in spans for _ in range(span.length)]


def logprobs(model, requests, replies, params):
    """Return the log-probabilities of all reply tokens as the learner computes them."""
    prompts = [
        (*request.ids, *reply.ids[:t])
        for request, reply in zip(requests, replies, strict=True)
        for t in range(len(reply.ids))
    ]
    return np.concatenate(
        in_process(model).score(prompts, [[(token,)] for reply in replies for token in reply.ids], params)
    )


def largest_difference(model, requests, replies, params):
    return np.abs(
        logprobs(model, requests, replies, params) - [value for reply in replies for value in reply.logprobs]
    ).max()


def check(models, first, requests, replies, params, tolerance=1e-4):
    """Check that each token has the log-probability of its own version's weights and of no other version.

    Return how many replies have several spans.
    """
    logprobs_by_version = {
        version: np.split(
            logprobs(model, requests, replies, params), np.cumsum([len(reply.ids) for reply in replies])[:-1]
        )
        for version, model in models.items()
    }
    for index, reply in enumerate(replies):
        token_versions = versions(reply, first)
        assert token_versions == sorted(token_versions)
        expected = np.array([logprobs_by_version[version][index][t] for t, version in enumerate(token_versions)])
        assert np.abs(expected - reply.logprobs).max() < tolerance, (
            index,
            reply.spans,
            np.abs(expected - reply.logprobs),
        )
    for version in set(models):
        own_tokens = [
            (index, t)
            for index, reply in enumerate(replies)
            for t, token_versions in enumerate(versions(reply, first))
            if token_versions == version
        ]
        for other_version in set(models) - {version} if len(own_tokens) >= 20 else ():
            assert (
                np.mean(
                    [
                        abs(logprobs_by_version[other_version][index][t] - logprobs_by_version[version][index][t])
                        for index, t in own_tokens
                    ]
                )
                > 0.01
            )
    return sum(len(reply.spans) > 1 for reply in replies)
