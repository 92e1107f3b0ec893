"""An OpenAI-compatible server for tests that samples with ``in_process`` and loads adapters like vLLM's server.

``faults`` maps the name of a fault to the number of times that it will still happen; see ``FAULTS``.
"""

import json
import threading
from collections import Counter
from pathlib import Path

from peft import set_peft_model_state_dict
from safetensors.torch import load_file

from sparring.core.records import SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import sample
from sparring.models.samplers.in_process import in_process
from tests.play.players.model_server import Server


class Fake:
    """A server of one model, named "base", and of adapters on it.

    Args:
        base: the model.
    """

    def __init__(self, base):
        self.base, self.faults, self.lock = base, Counter(), threading.Lock()
        self.odd = None  # replaces a log-probability if the fault "odd logprob" happens
        self.models, self.ever, self.requests, self.most, self.now = {"base": base}, [], [], 0, 0
        self.server = Server(self.respond)
        self.url, self.close = self.server.url, self.server.close

    def respond(self, number, request):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        status, body = self.answer(self.server.paths[number], request)
        with self.lock:
            self.now -= 1
        return status, body, {"retry-after-ms": "1"}

    def happens(self, fault):
        with self.lock:
            self.faults[fault] -= (is_due := self.faults[fault] > 0)
        return is_due

    def answer(self, path, request):
        if self.happens("busy"):
            return 503, json.dumps({"error": {"message": "too busy"}})
        if path == "/v1/load_lora_adapter":
            return self.load(request)
        if path == "/v1/unload_lora_adapter":
            adapter = self.models.pop(request["lora_name"], None)
            return (200, "Success") if adapter else (404, json.dumps({"error": {"message": "cannot be found"}}))
        assert path == "/v1/completions", path
        return self.completion(request)

    def load(self, request):
        name, folder = request["lora_name"], Path(request["lora_path"])
        if name in self.models:
            return 400, json.dumps({"error": {"message": f"The lora adapter '{name}' has already been loaded."}})
        settings = json.loads((folder / "adapter_config.json").read_text())
        network = add_adapters(
            share_weights(self.base.network),
            rank=settings["r"],
            alpha=settings["lora_alpha"],
            targets=settings["target_modules"],
            stream=Stream.from_seed(0),
        )
        if not self.happens("other weights"):
            set_peft_model_state_dict(network, load_file(folder / "adapter_model.safetensors"))
        self.models[name] = LanguageModel(network, None)
        self.ever.append(name)
        return (
            (200, f"Success: LoRA adapter '{name}' added successfully.")
            if not self.happens("answer lost")
            else (503, "{}")
        )

    def completion(self, request):
        if self.happens("restart"):
            self.models = {"base": self.base}
        self.requests.append(request)
        model = self.models.get(request["model"])
        if model is None:
            return 404, json.dumps({"error": {"message": f"The model `{request['model']}` does not exist."}})
        settings = {
            "logprobs": 1,
            "ignore_eos": True,
            "return_token_ids": True,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
        }
        assert settings.items() <= request.items(), request
        params = SamplingParams(max_new_tokens=request["max_tokens"], temperature=request["temperature"])
        with self.lock:
            reply = sample(
                in_process(model),
                [SampleRequest(tuple(request["prompt"]), request["seed"])],
                params,
                tuple(request["stop_token_ids"]),
            )[0]
        choice = {
            "token_ids": list(reply.ids),
            "logprobs": {"token_logprobs": list(reply.logprobs)},
            "prompt_token_ids": request["prompt"],
            "text": "",
        }
        if self.happens("odd logprob"):
            choice["logprobs"]["token_logprobs"][0] = self.odd
        for fault, change in FAULTS.items():
            if self.happens(fault):
                change(choice)
        return 200, json.dumps({"choices": [choice]})


FAULTS = {
    "no ids": lambda choice: choice.pop("token_ids"),
    "null ids": lambda choice: choice.update(token_ids=None),
    "no logprobs": lambda choice: choice.update(logprobs=None),
    "fewer logprobs": lambda choice: choice["logprobs"]["token_logprobs"].pop(),
    "far logprob": lambda choice: choice["logprobs"]["token_logprobs"].__setitem__(
        0, choice["logprobs"]["token_logprobs"][0] - 0.01
    ),
    "longer prompt": lambda choice: choice["prompt_token_ids"].insert(0, 0),
    "large id": lambda choice: choice["token_ids"].__setitem__(0, 24),
    "shorter": lambda choice: (choice["token_ids"].pop(), choice["logprobs"]["token_logprobs"].pop()),
    "longer": lambda choice: (choice["token_ids"].append(9), choice["logprobs"]["token_logprobs"].append(-1.0)),
    "late stop": lambda choice: (choice["token_ids"].append(2), choice["logprobs"]["token_logprobs"].append(-1.0)),
    "ids as text": lambda choice: choice.update(token_ids="1 2 3"),
    "no choice": lambda choice: choice.clear(),
}
