"""A fake vLLM engine for tests: GPT-2 in numpy. A step samples one token of a few conversations; faults are optional.

Like vLLM's engine, it runs in a separate process that imports nothing of Sparring; it starts in half a second.
``FAULTS`` names a folder of fault files. A file such as ``die-2`` is a fault that happens once; the replica that takes
the fault removes the file. A file ``stop-K-L`` stops every reply at K tokens until weights have been loaded L times;
``stopped-L`` is written when a reply stops there. If ``passed-L`` exists when an engine starts, it does not stop.
Scores are computed only when no reply can continue.
"""

import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

FAULTS = "SPARRING_FAKE_FAULTS"
MAX_REQUESTS_PER_STEP = 3  # requests that get a token in one step


def take_fault(name):
    for path in sorted(Path(os.environ[FAULTS]).glob(f"{name}-*")):
        try:
            path.unlink()
            return True
        except FileNotFoundError:  # a different replica took this fault
            continue
    return False


class Engine:
    def __init__(self, settings):
        if take_fault("never"):
            time.sleep(600)
        if take_fault("broken"):
            raise RuntimeError("no kernel image is available")
        self.config = json.loads((Path(settings["model"]) / "config.json").read_text())
        self.about = {"engine": "fake"}
        self.weights, self.waiting, self.loads, self.replies = {}, [], 0, {}
        self.passed = {path.name.split("-")[1] for path in Path(os.environ[FAULTS]).glob("passed-*")}

    @property
    def busy(self):
        return bool(self.waiting)

    @property
    def tokens(self):
        return {number: len(reply[0]) for number, reply in self.replies.items()}

    def load(self, path, salt):
        if self.replies and take_fault("perish"):
            os._exit(9)
        if take_fault("pause"):  # fails after it has loaded some tensors
            self.weights["transformer.wte.weight"] = self.weights.get("transformer.wte.weight", 0.0) * 1.5
            self.loads += 1
            raise RuntimeError("out of memory")
        tensors = {name: value.astype(np.float64) for name, value in load_file(path).items()}
        if self.weights and take_fault("stale"):
            tensors = {}
        self.weights |= tensors
        if take_fault("skewed"):
            self.weights["transformer.wte.weight"] = self.weights["transformer.wte.weight"] * 1.01
        self.loads += 1

    def ask(self, number, ids, seed, sampling):
        self.waiting.append((number, ids, seed, sampling))

    def score(self, number, ids, first_token, sampling):
        self.waiting.append((number, ids, None, {**sampling, "begin": first_token}))

    def drop(self, numbers):
        self.waiting = [request for request in self.waiting if request[0] not in numbers]
        for number in numbers:
            self.replies.pop(number, None)

    def step(self):
        draws = [request for request in self.waiting if request[2] is not None][:MAX_REQUESTS_PER_STEP]
        active = [request for request in draws if not self.is_stopped(request[0])] or [
            request for request in self.waiting if request[2] is None
        ]
        if draws:
            if take_fault("die"):
                os._exit(9)
            if take_fault("hang"):
                time.sleep(600)
        finished_replies = [reply for request in active if (reply := self.answer(*request)) is not None]
        self.waiting = [
            request for request in self.waiting if request[0] not in {reply[0] for reply in finished_replies}
        ]
        return finished_replies

    def is_stopped(self, number):
        for path in Path(os.environ[FAULTS]).glob("stop-*"):
            tokens, loads = map(int, path.name.split("-")[1:])
            if str(loads) in self.passed:
                continue
            if self.tokens.get(number, 0) >= tokens and self.loads < loads:
                (path.parent / f"stopped-{loads}").touch()
                time.sleep(0.01)
                return True
        return False

    def answer(self, number, ids, seed, sampling):
        if seed is None:
            log_p = truncate(self.log_p(ids, sampling["temperature"]), sampling)
            return [number, [], [log_p[t - 1, ids[t]] for t in range(sampling["begin"], len(ids))], False]
        ids_so_far, logprobs, supports = self.replies.setdefault(number, ([], [], []))
        log_p = truncate(self.log_p([*ids, *ids_so_far], sampling["temperature"])[-1], sampling)
        digest = hashlib.sha256(f"{seed} {len(ids_so_far)}".encode()).digest()
        draw = int.from_bytes(digest[:8], "big") / 2**64
        token = min(int(np.searchsorted(np.exp(log_p).cumsum(), draw, side="right")), len(log_p) - 1)
        ids_so_far.append(token)
        logprobs.append(log_p[token])
        supports.append(
            [int(index) for index in np.argsort(-log_p)[: sampling.get("listed", 0)] if log_p[index] > -np.inf]
        )
        is_stopped = token in sampling["stop_ids"]
        if not is_stopped and len(ids_so_far) < sampling["max_new_tokens"]:
            return None
        del self.replies[number]
        if take_fault("nan"):
            logprobs[0] = float("nan")
        if take_fault("unkept"):
            supports[0] = []
        return [number, ids_so_far, logprobs[1:] if take_fault("garbled") else logprobs, not is_stopped, supports]

    def log_p(self, ids, temperature):
        weights, config = self.weights, self.config
        heads, epsilon = config["n_head"], config.get("layer_norm_epsilon", 1e-5)

        def norm(x, name):
            centred_x = x - x.mean(-1, keepdims=True)
            return (
                centred_x / np.sqrt((centred_x**2).mean(-1, keepdims=True) + epsilon) * weights[f"{name}.weight"]
                + weights[f"{name}.bias"]
            )

        def linear(x, name):
            return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

        x = weights["transformer.wte.weight"][ids] + weights["transformer.wpe.weight"][: len(ids)]
        causal_mask = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        for layer in range(config["n_layer"]):
            layer_name = f"transformer.h.{layer}"
            q, k, v = (
                projection.reshape(len(ids), heads, -1).swapaxes(0, 1)
                for projection in np.split(linear(norm(x, f"{layer_name}.ln_1"), f"{layer_name}.attn.c_attn"), 3, -1)
            )
            scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]) + causal_mask
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            attended = (scores / scores.sum(-1, keepdims=True)) @ v
            x = x + linear(attended.swapaxes(0, 1).reshape(len(ids), -1), f"{layer_name}.attn.c_proj")
            x = x + linear(
                np.maximum(linear(norm(x, f"{layer_name}.ln_2"), f"{layer_name}.mlp.c_fc"), 0.0),
                f"{layer_name}.mlp.c_proj",
            )
        logits = norm(x, "transformer.ln_f") @ weights["transformer.wte.weight"].T / temperature
        logits = logits - logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def truncate(log_p, sampling):
    if not sampling.get("top_k"):
        return log_p
    if log_p.ndim == 2:
        return np.stack([truncate(row, sampling) for row in log_p])
    order = np.argsort(-log_p, kind="stable")[: sampling["top_k"]]
    probabilities = np.exp(log_p[order])
    probabilities = probabilities / probabilities.sum()
    order = order[probabilities.cumsum() - probabilities < sampling["top_p"]]
    truncated = np.full(len(log_p), -np.inf)
    truncated[order] = log_p[order] - np.log(np.exp(log_p[order]).sum())
    return truncated
