"""The sampler openai with vLLM's own server: run by `make vllm-test`, as it needs a separate environment."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
import torch
from transformers import AutoModelForCausalLM

from sparring.config import resolve
from sparring.core.errors import RunError
from sparring.core.records import SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import sample
from sparring.models.samplers.openai import openai
from sparring.models.samplers.vllm.replica import environment, python
from sparring.run.events import read_lines
from tests.models.samplers.builders import freeze, update
from tests.models.samplers.test_openai import PARAMS, RUN, STOP, assert_same_logprobs
from tests.run_with_members import run

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class VllmServer:
    """vLLM's server of a model folder, on a port of this machine."""

    def __init__(self, folder, log, *options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.command = [
            python(),
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            folder,
            "--served-model-name",
            "base",
            "--host",
            "127.0.0.1",
        ]
        self.command += [
            "--port",
            self.port,
            "--dtype",
            "float32",
            "--enforce-eager",
            "--max-model-len",
            "2048",
            "--generation-config",
            "vllm",
        ]
        self.command += [
            "--logprobs-mode",
            "processed_logprobs",
            "--enable-lora",
            "--max-loras",
            "2",
            "--max-lora-rank",
            "8",
            "--max-cpu-loras",
            "4",
            *options,
        ]
        self.log, self.process = log, None
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.start()

    def start(self):
        variables = {
            **os.environ,
            **environment(1),
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
            "VLLM_CPU_KVCACHE_SPACE": "1",
        }
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [*map(str, self.command)], env=variables, stdout=log, stderr=log, start_new_session=True
            )
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url.removesuffix("/v1") + "/health", timeout=5)
                return
            except (urllib.error.URLError, OSError):
                assert self.process.poll() is None, self.log.read_text()[-3000:]
                time.sleep(0.5)
        raise AssertionError(self.log.read_text()[-3000:])

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def server(llama, tmp_path_factory):
    torch.set_num_threads(1)
    serving = VllmServer(llama, tmp_path_factory.mktemp("log") / "server.log")
    yield serving
    serving.end()


@pytest.fixture
def base(llama):
    return freeze(LanguageModel(AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32).eval(), None))


def with_adapters(base, number):
    network = add_adapters(
        share_weights(base.network),
        rank=4,
        alpha=8.0,
        targets=[LINEAR, LINEAR[:2]][number],
        stream=Stream.from_seed(number),
    )
    model = LanguageModel(network, None, shared_base=base)
    update(model, number)
    return model


def make_requests(count=24):
    return [
        SampleRequest(ids=tuple(1 + (i * k) % 40 for k in range(5 + i % 34)), stream=2**64 - 1 - i)
        for i in range(count)
    ]


def test_replies_use_current_weights_and_their_seeds(base, server):
    models = [with_adapters(base, index) for index in range(2)]
    samplers = [openai(model, base_url=server.url) for model in models]
    for step in range(3):
        for model, sampler in zip(models, samplers, strict=True):
            replies = sample(sampler, make_requests(), PARAMS, STOP)
            assert_same_logprobs(model, make_requests(), replies)
            assert sample(sampler, make_requests(), PARAMS, STOP) == replies, "by the same seeds"
            assert [sample(sampler, [request], PARAMS, STOP)[0] for request in make_requests(4)] == replies[:4]
            update(model, step)
    long_params = SamplingParams(max_new_tokens=40, temperature=1.0)
    replies = sample(samplers[0], make_requests(), long_params, STOP)
    assert {model.truncated for model in replies} == {True, False}
    assert all(
        (model.ids[-1] in STOP) is not model.truncated and not set(model.ids[:-1]) & set(STOP) for model in replies
    )


def test_a_model_without_adapters_is_requested_by_its_name(base, server):
    sampler = openai(base, base_url=server.url, served="base")
    assert_same_logprobs(base, make_requests(), sample(sampler, make_requests(), PARAMS, STOP))
    with pytest.raises(RunError, match=r"answered with status 404.*does not exist"):
        sample(openai(base, base_url=server.url, served="nobody", retries=0), make_requests(1), PARAMS, STOP)


def test_a_restarted_server_gets_the_adapters_again(base, server):
    sampler = openai(with_adapters(base, 0), base_url=server.url)
    replies = sample(sampler, make_requests(), PARAMS, STOP)
    server.end()
    server.start()
    assert sample(sampler, make_requests(), PARAMS, STOP) == replies


def test_in_every_step_of_a_run_log_probs_equal_the_learners(llama, server, tmp_path):
    model = {"name": str(llama), "lora": {"rank": 4}}
    config = resolve({**RUN, "model": model, "sampler": {"name": "openai", "base_url": server.url}})
    run(tmp_path / "run", config)
    differences = [
        line["logprob_difference_max"]
        for line in read_lines(tmp_path / "run" / "metrics.jsonl")
        if "logprob_difference_max" in line
    ]
    assert len(differences) == 4 and max(differences) < 1e-4


def test_a_server_with_another_model_is_refused(base, server):
    with torch.no_grad():
        next(base.network.parameters()).mul_(1.5)
    with pytest.raises(RunError, match=r"differ from this model's by up to"):
        sample(openai(base, base_url=server.url, served="base"), make_requests(1), PARAMS, STOP)
