"""Speed of the learner's passes on a CPU with attention kernels and with torch.compile.

One pass is forward and backward over a packed minibatch of right-padded rows; its loss is the mean
log-probability of the tokens. ``sdpa`` is what runs use, ``eager`` writes attention as products,
``compiled`` is sdpa under torch.compile with dynamic shapes. Rows have several
lengths, as episodes have. Arms take turns in every round. The results are medians over rounds:
tokens per second, and their ratio to those of sdpa. ``seconds`` are those of the first pass over
every length, with compilation; ``error`` is the largest difference of a log-probability from sdpa.
"""

import argparse
import statistics
import time

import torch
from published import record, settings
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from sparring.models.pretrained import convert_packaged

ARMS = ("sdpa", "eager", "compiled")
LENGTHS = {"tiny": (24, 40, 56, 72), "SmolLM2-135M": (48, 96)}
ROWS = {"tiny": 128, "SmolLM2-135M": 1}


def build_model(name, arm):
    """Return the model of an arm; the models of all arms have the same weights."""
    attention = "eager" if arm == "eager" else "sdpa"
    if name == "tiny":
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            attn_implementation=attention,
        )
        model = LlamaForCausalLM(config)
    else:
        model = AutoModelForCausalLM.from_pretrained(
            convert_packaged("smollm2-135m"), attn_implementation=attention, dtype=torch.float32
        )
    return torch.compile(model, dynamic=True) if arm == "compiled" else model


def make_batches(name, vocabulary):
    """Return ids and mask for every length; a quarter of the rows is shorter by a third."""
    draw = torch.Generator().manual_seed(0)
    for length in LENGTHS[name]:
        ids = torch.randint(3, vocabulary, (ROWS[name], length), generator=draw)
        mask = torch.ones_like(ids)
        mask[: ROWS[name] // 4, length - length // 3 :] = 0
        yield ids, mask


def run_pass(model, ids, mask):
    """Run one forward and backward pass; return the log-probabilities."""
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    logprobs = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0] * mask[:, 1:]
    (-logprobs.sum() / mask.sum()).backward()
    for weight in model.parameters():
        weight.grad = None
    return logprobs.detach()


def measure_model(name, rounds):
    """Return the result rows of a model."""
    models = {arm: build_model(name, arm) for arm in ARMS}
    data = list(make_batches(name, models["sdpa"].config.vocab_size))
    tokens = sum(int(mask.sum()) for _, mask in data)
    first, logprobs, seconds = {}, {}, {arm: [] for arm in ARMS}
    for arm, model in models.items():
        began = time.perf_counter()
        logprobs[arm] = [run_pass(model, *batch) for batch in data]
        first[arm] = time.perf_counter() - began
    for index in range(rounds):
        for arm in ARMS[index % len(ARMS) :] + ARMS[: index % len(ARMS)]:
            began = time.perf_counter()
            for batch in data:
                run_pass(models[arm], *batch)
            seconds[arm].append(time.perf_counter() - began)
    ratios = {
        arm: [
            arm_values / other
            for arm_values, other in zip(seconds["sdpa"], seconds[arm], strict=True)
        ]
        for arm in ARMS
    }
    return [
        {
            "model": name,
            "arm": arm,
            "tokens/s": tokens / statistics.median(seconds[arm]),
            "ratio": statistics.median(ratios[arm]),
            "seconds": first[arm],
            "error": max(
                float((arm_values - other).abs().max())
                for arm_values, other in zip(logprobs["sdpa"], logprobs[arm], strict=True)
            ),
        }
        for arm in ARMS
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", nargs="+", default=list(LENGTHS))
    options = settings(parser, quick={"rounds": 1, "models": ["tiny"]})
    torch.set_num_threads(options.threads)
    rows = [row for name in options.models for row in measure_model(name, options.rounds)]
    record("compiled", rows, options)
