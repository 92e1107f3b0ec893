"""The sampler openai with a fake server: requests, refusals of wrong servers, and the loading of adapters.

tests/models/samplers/test_openai_real.py has vLLM's server; `make vllm-test` runs it.
"""

import gc
import json
import os
import time

import pytest

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, ModelError, RunError
from sparring.core.records import SampleRequest, SamplingParams
from sparring.engine.local import LocalEngine
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import SampleBatch, sample
from sparring.models.samplers.in_process import in_process
from sparring.models.samplers.openai import openai
from sparring.run.events import read_lines
from sparring.testing import check_backend, check_sampler
from tests.models.samplers.builders import (
    freeze,
    largest_difference,
    replies_of,
    small_model,
    update,
    with_adapters,
)
from tests.models.samplers.fake_openai import FAULTS, Fake
from tests.run_with_members import run

VOCABULARY, STOP = 24, (2, 5)
PARAMS = SamplingParams(max_new_tokens=4, temperature=0.8)


@pytest.fixture
def base():
    return freeze(small_model())


@pytest.fixture
def server(base, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fake_server = Fake(base)
    gc.freeze()  # objects collected below belong to this test
    yield fake_server
    for _ in range(100):  # until the last abandoned reply has arrived
        gc.collect()
        if not list(tmp_path.glob("sparring-adapters-*")):
            break
        time.sleep(0.05)
    assert not list(tmp_path.glob("sparring-adapters-*")), "the folder of adapters was not removed"
    assert set(fake_server.models) == {"base"}, "adapters are still loaded at the server"
    fake_server.close()


def make_adapters(base, number=0):
    model = with_adapters(base, number, [["c_attn"], ["c_proj", "c_fc"]][number])
    update(model, 0)
    return model


def make_requests(count=12):
    return [
        SampleRequest(ids=tuple(1 + (i * k) % 20 for k in range(1 + i % 5)), stream=2**64 - 1 - i) for i in range(count)
    ]


def assert_same_logprobs(model, requests, replies):
    assert largest_difference(model, requests, replies, PARAMS) < 1e-5


def sampler_at(server, model, **options):
    return openai(model, base_url=server.url, served="base", **{"retries": 0, **options})


def test_the_contract_holds_in_any_batch(base, server):
    first_model, second_model = make_adapters(base), make_adapters(base, 1)
    weights = {name: tensor.clone() for name, tensor in first_model.tensors().items()}
    check_sampler(
        lambda: sampler_at(server, first_model), vocabulary=VOCABULARY, stop_ids=STOP, weights=weights, conversations=4
    )
    check_backend(
        lambda: [sampler_at(server, first_model), sampler_at(server, second_model)],
        vocabulary=VOCABULARY,
        stop_ids=STOP,
        conversations=3,
    )
    assert (
        not sampler_at(server, first_model).invariant
        and sampler_at(server, first_model).backend is sampler_at(server, second_model).backend
    )
    assert list(sampler_at(server, first_model).submit([], PARAMS, STOP)) == []


def test_replies_equal_those_of_in_process_with_the_same_seeds(base, server):
    learner, requests = make_adapters(base), make_requests()
    with_63_bit_seeds = [SampleRequest(request.ids, request.stream & (2**63 - 1)) for request in requests]
    assert [reply.ids for reply in sample(sampler_at(server, learner), requests, PARAMS, STOP)] == [
        reply.ids for reply in sample(in_process(learner), with_63_bit_seeds, PARAMS, STOP)
    ]
    assert {reply.truncated for reply in sample(sampler_at(server, learner), requests, PARAMS, STOP)} == {True, False}


def test_replies_use_current_weights_and_old_adapters_are_unloaded(base, server):
    models = [make_adapters(base), make_adapters(base, 1), base]
    samplers = [sampler_at(server, model, retries=3) for model in models]
    for step in range(3):
        for model, sampler in zip(models, samplers, strict=True):
            assert_same_logprobs(model, make_requests(), sample(sampler, make_requests(), PARAMS, STOP))
        assert len(server.models) == 3 and len(server.ever) == 2 * (step + 1)
        for index, model in enumerate(models[:2]):
            update(model, step + index)
    batches = [SampleBatch(sampler, make_requests(5), PARAMS, STOP) for sampler in samplers]
    assert replies_of(batches) == [
        reply for sampler in samplers for reply in sample(sampler, make_requests(5), PARAMS, STOP)
    ]


def test_published_weights_are_used_even_at_the_same_version(base, server):
    learner = make_adapters(base)
    sampler = sampler_at(server, learner)
    sample(sampler, make_requests(2), PARAMS, STOP)
    assert (
        sampler.publish({name: 1.5 * tensor for name, tensor in learner.tensors().items()}, learner.version)
        == learner.version
    )
    assert_same_logprobs(learner, make_requests(), sample(sampler, make_requests(), PARAMS, STOP))
    assert len(server.ever) == 2


def test_adapters_stay_loaded_until_their_calls_end(base, server):
    learner = make_adapters(base)
    sampler = sampler_at(server, learner, concurrency=1)
    pending = sampler.submit(make_requests(), PARAMS, STOP)
    first_results = [pairs for pairs in (next(pending), next(pending), next(pending)) if pairs]
    old_learner = learner.clone()
    update(learner, 1)
    later_replies = sample(sampler, make_requests(2), PARAMS, STOP)
    assert len(server.models) == 3, "a pending call still uses the old adapters"
    assert_same_logprobs(
        old_learner,
        make_requests(),
        [reply for _, reply in sorted([pair for pairs in (*first_results, *pending) for pair in pairs])],
    )
    assert_same_logprobs(learner, make_requests(2), later_replies)
    assert len(server.models) == 2


def test_an_abandoned_call_leaves_no_adapter(base, server):
    learner = make_adapters(base)
    sampler = sampler_at(server, learner, concurrency=1)
    pending = sampler.submit(make_requests(), PARAMS, STOP)
    next(pending)
    pending.close()
    update(learner, 1)
    assert_same_logprobs(learner, make_requests(), sample(sampler, make_requests(), PARAMS, STOP))
    assert len(server.models) == 2 and len(server.requests) < 2 + 5 + len(make_requests()), (
        "requests that had not started are not sent"
    )


def test_the_number_of_open_requests_reaches_its_limit(base, server):
    sample(sampler_at(server, make_adapters(base), concurrency=3), make_requests(24), PARAMS, STOP)
    assert 2 <= server.most <= 3


def test_a_restarted_server_gets_the_adapters_again(base, server):
    learner = make_adapters(base)
    sampler = sampler_at(server, learner)
    expected = sample(sampler, make_requests(), PARAMS, STOP)
    server.faults["restart"] = 1
    assert sample(sampler, make_requests(), PARAMS, STOP) == expected
    assert len(set(server.ever)) == 1 < len(server.ever)


def test_temporary_failures_are_retried(base, server):
    learner = make_adapters(base)
    server.faults["busy"] = 2
    sampler = sampler_at(server, learner, retries=3)
    assert_same_logprobs(learner, make_requests(), sample(sampler, make_requests(), PARAMS, STOP))
    server.faults["answer lost"] = 1
    update(learner, 1)
    assert_same_logprobs(learner, make_requests(), sample(sampler, make_requests(), PARAMS, STOP))


ERRORS_BY_FAULT = {
    "busy": "answered with status 503.*too busy",
    "no ids": "gives no token ids with a reply.*return_token_ids.*sampler.name=vllm",
    "null ids": "gives no token ids",
    "no logprobs": "gives no log-probabilities",
    "fewer logprobs": "8 tokens and 7 log-probabilities",
    "far logprob": "differ from this model's by up to 0.01; 0.0001.*processed_logprobs",
    "longer prompt": "read a prompt of 24 token ids as 25 other ids",
    "large id": "an id from 0 to 23",
    "shorter": "ended a reply after 7 tokens",
    "longer": "ended a reply after 9 tokens",
    "ids as text": "answered with status 200 but not with a completion",
    "no choice": "gives no token ids",
    "other weights": "differ from this model's by up to",
}


@pytest.mark.parametrize("kind", [*ERRORS_BY_FAULT])
def test_an_unsuitable_server_is_refused_in_one_line(kind, base, server):
    server.faults[kind] = 1
    with pytest.raises(RunError, match=ERRORS_BY_FAULT[kind]) as error_info:
        sample(sampler_at(server, make_adapters(base)), make_requests(), PARAMS, STOP)
    assert "\n" not in str(error_info.value)
    del error_info
    assert set(FAULTS) - set(ERRORS_BY_FAULT) == {"late stop"}


@pytest.mark.parametrize(
    "value",
    [None, float("nan"), float("-inf"), float("inf"), "-0.5", True, 10**400, {}],
    ids=["null", "nan", "-inf", "inf", "text", "bool", "large", "object"],
)
def test_a_log_probability_that_is_not_finite_is_reported_as_a_server_error(value, base, server):
    server.faults["odd logprob"], server.odd = 1, value
    with pytest.raises(
        RunError,
        match=r"The server returned the log-probability .{1,40} in a reply of '.*'\. It must be a finite number",
    ) as error_info:
        sample(sampler_at(server, make_adapters(base)), make_requests(), PARAMS, STOP)
    assert json.dumps(value)[:40] in str(error_info.value)
    del error_info


@pytest.mark.parametrize(
    ("kind", "message"), [("no ids", "gives no token ids"), ("late stop", "ended a reply after 5 tokens with id 2")]
)
def test_a_wrong_reply_is_refused_after_correct_ones(kind, message, base, server):
    sampler = sampler_at(server, make_adapters(base))
    all_replies = [
        request
        for request, reply in zip(make_requests(), sample(sampler, make_requests(), PARAMS, STOP), strict=True)
        if reply.truncated
    ]
    server.faults[kind] = 1
    with pytest.raises(RunError, match=message):
        sample(sampler, all_replies, PARAMS, STOP)


def test_a_larger_tolerance_can_be_configured(base, server):
    server.faults["far logprob"] = 1
    sample(sampler_at(server, make_adapters(base), tolerance=0.1), make_requests(), PARAMS, STOP)
    with pytest.raises(ConfigError, match="tolerance"):
        registry.bind("samplers", "openai", {"tolerance": 0})(base)


def test_log_probs_are_checked_once_per_temperature_and_update(base, server):
    learner = make_adapters(base)
    sampler, probes = (
        sampler_at(server, learner),
        lambda: sum(request["max_tokens"] == 8 for request in server.requests),
    )
    for temperature, count in ((0.8, 1), (0.8, 1), (1.0, 2), (0.8, 2)):
        sample(sampler, make_requests(2), SamplingParams(max_new_tokens=4, temperature=temperature), STOP)
        assert probes() == count
    update(learner, 1)
    sample(sampler, make_requests(2), PARAMS, STOP)
    assert probes() == 3
    other_sampler = sampler_at(server, base)
    sample(other_sampler, make_requests(2), PARAMS, STOP)
    sample(other_sampler, make_requests(2), PARAMS, STOP)
    assert probes() == 4


def test_unsupported_requests_are_refused(base, server):
    with pytest.raises(ModelError, match=r"only as adapters.*model.lora.rank=16"):
        sampler_at(server, small_model())
    with pytest.raises(ModelError, match=r"write sampler\.served"):
        openai(base, base_url=server.url)
    sampler = sampler_at(server, make_adapters(base))
    with pytest.raises(ModelError, match=r"sampler 'openai' and rollout.top_p=0.9"):
        sample(sampler, make_requests(1), SamplingParams(max_new_tokens=1, top_p=0.9), STOP)
    with pytest.raises(ModelError, match=r"exceeds the context of 64"):
        sample(sampler, [SampleRequest(tuple(range(62)), 1)], PARAMS, STOP)
    with pytest.raises(ConfigError, match=r"nothing is sent to gpu over http"):
        openai(make_adapters(base), base_url="http://gpu:8000/v1")


def test_an_unreachable_server_ends_the_run_in_one_line(base):
    with pytest.raises(
        RunError, match=r"http://127.0.0.1:9/v1 could not be reached, 1 try.*Check base_url"
    ) as error_info:
        sample(openai(make_adapters(base), base_url="http://127.0.0.1:9/v1", retries=0), make_requests(1), PARAMS, STOP)
    assert "\n" not in str(error_info.value)


def test_adapters_are_written_to_the_folder_shared_with_the_server(base, server, monkeypatch, tmp_path):
    (tmp_path / "shared").mkdir()
    monkeypatch.setenv("SPARRING_ADAPTERS", str(tmp_path / "shared"))
    sampler = sampler_at(server, make_adapters(base))
    sample(sampler, make_requests(1), PARAMS, STOP)
    assert len(list((tmp_path / "shared").glob("sparring-adapters-*/*/adapter_model.safetensors"))) == 1
    del sampler
    gc.collect()
    assert not list((tmp_path / "shared").iterdir())
    monkeypatch.setenv("SPARRING_ADAPTERS", str(tmp_path / "nowhere"))
    with pytest.raises(RunError, match=r"SPARRING_ADAPTERS names .*nowhere, which is not a folder"):
        sample(sampler_at(server, make_adapters(base), timeout=7), make_requests(1), PARAMS, STOP)


RUN = {
    "name": "with a server",
    "steps": 4,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "options": {"style": "full"}, "illegal": {"rule": "random"}}],
    "renderer": {"name": "chat"},
    "rollout": {"games_per_step": 8, "max_new_tokens": 4},
    "league": {"every": 2, "keep": 2},
    "matchmaker": {"name": "pfsp", "past": 0.5},
    "warmup": {"updates": 0},
    "learner": {"learning_rate": 0.01},
    "evaluation": {"every": 4, "exact": False, "opponents": []},
}


FRESH_ORDER = {"fleet": "processes", "workers": 1, "order": "fresh", "lag": 1, "unit_games": 4}


@pytest.mark.parametrize(
    "scale",
    [
        pytest.param({}, marks=pytest.mark.always),
        *(pytest.param(scale, marks=pytest.mark.slow) for scale in ({"fleet": "processes", "workers": 1}, FRESH_ORDER)),
    ],
    ids=["here", "worker", "fresh"],
)
def test_in_every_step_of_a_run_log_probs_equal_the_learners(scale, chat_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    settings = {**RUN, "model": {"name": str(chat_folder), "lora": {"rank": 4}}, "scale": scale}
    model = LocalEngine(resolve(settings)).policies["main"].model
    fake_server = Fake(model.shared_base or freeze(LanguageModel(model.network.unload(), None)))
    config = resolve({**settings, "sampler": {"name": "openai", "base_url": fake_server.url, "retries": 0}})
    run(tmp_path / "run", config)
    lines = list(read_lines(tmp_path / "run" / "metrics.jsonl"))
    differences = [line["logprob_difference_max"] for line in lines if "logprob_difference_max" in line]
    assert (
        len(lines) == 4
        and len(differences) == (4 if scale is not FRESH_ORDER else len(differences)) > 0
        and max(differences) < 1e-4
    )
    assert len(set(fake_server.ever)) >= 4, "each update loads an adapter of a new name"
    fake_server.close()


def test_errors_contain_no_api_key(base, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-Very0Secret1Key2")
    server.faults["busy"] = 1
    with pytest.raises(RunError) as error_info:
        sample(sampler_at(server, make_adapters(base), timeout=8), make_requests(1), PARAMS, STOP)
    assert "Secret" not in str(error_info.value) and os.environ["OPENAI_API_KEY"]
