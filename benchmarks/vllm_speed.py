"""Speed of the vLLM sampler, compared with the sampler in this process.

The model is SmolLM2-135M in float32. No two of the 1, 8, 32 or 128 conversations share a prompt;
each gets one reply of fixed length. The samplers take turns and use equally many threads. Prompts
are new in each round, so no KV cache holds them; their computation is timed.

``tokens/s`` is the median of sampled tokens per second over the rounds. ``ratio`` is the median of
vLLM's tokens per second divided by those of the sampler in this process in the same round.
``error`` is the largest difference between the log-probabilities of vLLM and of the learner's
forward pass, in the first eight conversations.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from published import record, settings

from sparring.core.records import SampleRequest, SamplingParams
from sparring.models.load import load_language_model
from sparring.models.memory import find_device
from sparring.models.samplers.base import sample
from sparring.models.samplers.in_process import in_process
from sparring.models.samplers.vllm import vllm

MODEL, CONVERSATIONS, PROMPT, NEW_TOKENS, ROUNDS = "smollm2-135m", [1, 8, 32, 128], 64, 32, 3
PARAMS = SamplingParams(max_new_tokens=NEW_TOKENS)


def random_requests(vocabulary, count, seed):
    """Return requests of random prompts."""
    ids = np.random.default_rng(seed).integers(0, vocabulary, (count, PROMPT))
    return [
        SampleRequest(tuple(row), 1000 * seed + index) for index, row in enumerate(ids.tolist())
    ]


def largest_difference(model, requests, replies):
    """Return the largest difference between the replies' log-probabilities and the learner's."""
    prompts = [
        (*request.ids, *reply.ids[:t])
        for request, reply in zip(requests, replies, strict=True)
        for t in range(len(reply.ids))
    ]
    reply_ids = [[(token,)] for reply in replies for token in reply.ids]
    expected = np.concatenate(in_process(model).score(prompts, reply_ids, PARAMS))
    values = [value for reply in replies for value in reply.logprobs]
    return float(np.abs(expected - values).max())


def measure_rows(model, samplers, counts, rounds):
    """Return the result rows."""
    vocabulary, rows = len(model.tokenizer), []
    for count in counts:
        speeds, far = {name: [] for name in samplers}, []
        for index in range(rounds):
            requests = random_requests(vocabulary, count, index)
            for name, sampler in samplers.items():
                began = time.perf_counter()
                replies = sample(sampler, requests, PARAMS, ())
                took = time.perf_counter() - began
                speeds[name].append(sum(len(reply.ids) for reply in replies) / took)
            far.append(largest_difference(model, requests[:8], replies[:8]))
        pairs = zip(speeds["vllm"], speeds["in_process"], strict=True)
        ratio = statistics.median(theirs / ours for theirs, ours in pairs)
        for name, by_round in speeds.items():
            row = {"conversations": str(count), "sampler": name}
            row["tokens/s"] = statistics.median(by_round)
            if name == "vllm":
                row |= {"ratio": ratio, "error": max(far)}
            rows.append(row)
            print(row, flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="of each sampler")
    parser.add_argument("--conversations", type=int, nargs="+", default=CONVERSATIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each sampler, by turns")
    options = settings(parser, quick={"conversations": [1], "rounds": 1})
    torch.set_num_threads(options.threads)
    model = load_language_model(
        MODEL, dtype="float32", training_bytes=None, device=find_device("cpu")
    )
    samplers = {"in_process": in_process(model), "vllm": vllm(model, threads=options.threads)}
    for sampler in samplers.values():  # costs and starts that occur once per process
        sample(sampler, random_requests(len(model.tokenizer), 4, ROUNDS), PARAMS, ())
    record("vllm", measure_rows(model, samplers, options.conversations, options.rounds), options)
