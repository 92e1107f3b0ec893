"""Replies that go on over updates, for tests of samplers: weights that move while they are drawn, and whose log-probabilities tokens have."""

import itertools

import numpy as np
import torch

from sparring.core.records import SampledRun
from sparring.models.samplers.in_process import in_process


def moving(sampler, when, most=99):
    """Publish other weights while replies are awaited, each time that ``when()`` is true; return the model of each version."""
    models, first = {sampler.version: sampler.model.clone()}, {name: tensor.clone() for name, tensor in sampler.model.tensors().items()}

    def between():
        if len(models) <= most and when():
            draw = torch.Generator().manual_seed(len(models))
            scale = 0.1 if sampler.model.over is None else 0.3
            weights = {name: tensor + scale * torch.randn(tensor.shape, generator=draw) for name, tensor in first.items()}
            sampler.publish(weights, sampler.version + 1)
            models[sampler.version] = sampler.model.clone()

    sampler.between = between
    return models


def every(looks, sampler):
    """Return what is true at every so manieth look at a sampler whose replicas draw."""
    count = itertools.count(1)
    return lambda: any(one.stage == "ready" and one.pending for one in sampler.backend.replicas) and next(count) % looks == 0


def versions(reply, begun):
    runs = reply.runs or (SampledRun(len(reply.ids), begun),)
    assert sum(run.length for run in runs) == len(reply.ids) and all(run.length > 0 for run in runs), runs
    return [run.version for run in runs for _ in range(run.length)]


def logprobs(model, requests, said, params):
    """Return the log-probabilities of the tokens of each reply, each after those before it, by the learner's side."""
    prompts = [(*request.ids, *one.ids[:t]) for request, one in zip(requests, said, strict=True) for t in range(len(one.ids))]
    found = np.concatenate(in_process(model).score(prompts, [[(token,)] for one in said for token in one.ids], params))
    return np.split(found, np.cumsum([len(one.ids) for one in said])[:-1])


def check(models, begun, requests, said, params, tolerance=1e-4):
    """Check that every token has the log-probability of its version's weights over all before it, and not another's.

    Return how many replies have several runs.
    """
    by = {version: logprobs(model, requests, said, params) for version, model in models.items()}
    for place, one in enumerate(said):
        own = versions(one, begun)
        assert own == sorted(own)
        expected = np.array([by[version][place][t] for t, version in enumerate(own)])
        assert np.abs(expected - one.logprobs).max() < tolerance, (place, one.runs, np.abs(expected - one.logprobs))
    for version in set(models):
        mine = [(place, t) for place, one in enumerate(said) for t, own in enumerate(versions(one, begun)) if own == version]
        for other in set(models) - {version} if len(mine) >= 20 else ():
            assert np.mean([abs(by[other][place][t] - by[version][place][t]) for place, t in mine]) > 0.01
    return sum(len(one.runs) > 1 for one in said)
