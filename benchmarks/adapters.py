"""Speed of conversations with eight adapters on one base model, compared with a single adapter.

The model is SmolLM2-135M in float32, with adapters of rank 16 on every linear layer. No two of the
64 conversations share a prompt; each gets one reply of fixed length. Three ways take turns:

    one adapter             all 64 conversations with it
    eight in one batch      eight conversations with each adapter, all at once
    eight one by one        the same conversations, one adapter after the other

``ratio`` is the seconds per sampled token, divided by those with one adapter in the same round;
the median over rounds is reported. Every way computes its prompts. The replies of the last two
ways are compared: with one thread they have the same bits.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from published import record, settings

from sparring.core.records import SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.load import load_language_model
from sparring.models.memory import find_device
from sparring.models.samplers.base import SampleBatch, stream_backend_replies
from sparring.models.samplers.in_process import in_process

MODEL, RANK, ADAPTERS, MAX_RATIO = "smollm2-135m", 16, 8, 1.5
CONVERSATIONS, PROMPT, NEW_TOKENS, ROUNDS = 64, 24, 16, 3


def models_with_adapters(base):
    """Return models with different adapters on the base model, which change its replies."""
    models = []
    for seed in range(ADAPTERS):
        network = share_weights(base.network)
        stream, draw = Stream.from_seed(seed), torch.Generator().manual_seed(seed)
        network = add_adapters(network, rank=RANK, alpha=2 * RANK, targets=(), stream=stream)
        models.append(LanguageModel(network, base.tokenizer, shared_base=base))
        with torch.no_grad():
            for weight in models[-1].parameters():
                weight.add_(0.01 * torch.randn(weight.shape, generator=draw))
    return models


def conversations(vocabulary, count):
    """Return requests of random prompts."""
    ids = np.random.default_rng(0).integers(0, vocabulary, (count, PROMPT))
    return [SampleRequest(tuple(row), index) for index, row in enumerate(ids.tolist())]


def sample_replies(models, requests, *, at_once):
    """Return the replies of all models; each model gets an equal share of the requests."""
    params, count = SamplingParams(max_new_tokens=NEW_TOKENS), len(requests) // len(models)
    samplers = [in_process(model) for model in models]
    lots = [
        SampleBatch(sampler, requests[index * count : (index + 1) * count], params, ())
        for index, sampler in enumerate(samplers)
    ]
    calls = [lots] if at_once else [[lot] for lot in lots]
    backend = samplers[0].backend
    return [
        result
        for call in calls
        for replies in stream_backend_replies(backend, call)
        for _, result in replies
    ]


def time_all_ways(models, requests, rounds):
    """Return the seconds per sampled token of each way, [rounds], and whether replies are
    bit-equal.
    """
    ways = {
        "one adapter": lambda: sample_replies(models[:1], requests, at_once=True),
        "eight in one batch": lambda: sample_replies(models, requests, at_once=True),
        "eight one by one": lambda: sample_replies(models, requests, at_once=False),
    }
    seconds, replies = {name: [] for name in ways}, {}
    sample_replies(models, requests[:ADAPTERS], at_once=True)  # costs that occur once per process
    for _ in range(rounds):
        for name, work in ways.items():
            began = time.perf_counter()
            replies[name] = work()
            took = time.perf_counter() - began
            seconds[name].append(took / sum(len(reply.ids) for reply in replies[name]))
    return seconds, replies["eight in one batch"] == replies["eight one by one"]


def measure_threads(models, requests, threads, rounds):
    """Return the result rows for one number of threads."""
    torch.set_num_threads(threads)
    by_arm, same = time_all_ways(models, requests, rounds)
    rows = []
    for name, seconds in by_arm.items():
        pairs = zip(seconds, by_arm["one adapter"], strict=True)
        row = {"threads": str(threads), "what": name, "seconds": statistics.median(seconds)}
        row["ratio"] = statistics.median(arm_seconds / alone for arm_seconds, alone in pairs)
        if name == "eight in one batch":
            row |= {"aim": MAX_RATIO, "replies": "the same bits" if same else "within 1e-5"}
        rows.append(row)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[torch.get_num_threads(), 1])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each way, by turns")
    options = settings(parser, quick={"threads": [1], "rounds": 1})
    base = load_language_model(
        MODEL, dtype="float32", training_bytes=None, device=find_device("cpu")
    )
    requests = conversations(len(base.tokenizer), ADAPTERS if options.quick else CONVERSATIONS)
    models = models_with_adapters(base)
    record(
        "adapters",
        [
            row
            for threads in options.threads
            for row in measure_threads(models, requests, threads, options.rounds)
        ],
        options,
    )
