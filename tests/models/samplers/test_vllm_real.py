"""The sampler `vllm` with the real vLLM. `make vllm-test` runs these tests in a separate environment."""

import os
import signal
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.files import file_digest
from sparring.core.records import SampleRequest, SamplingParams
from sparring.models.samplers.base import sample
from sparring.models.samplers.in_process import in_process
from sparring.models.samplers.vllm import replica as replicas
from sparring.models.samplers.vllm import vllm
from sparring.models.samplers.vllm.pool import FailureLimits
from sparring.models.samplers.vllm.served_weights import ServedWeights
from sparring.run.events import read_lines
from sparring.testing import check_backend, check_sampler
from tests.models.samplers.builders import (
    check,
    largest_difference,
    publish_between,
    small_model,
    true_at_every,
    update,
    with_adapters,
)
from tests.models.samplers.test_vllm import assert_same_token_sets
from tests.run_with_members import run
from tests.sockets import listening

VOCABULARY, STOP = 50, (2, 5)
PARAMS = SamplingParams(max_new_tokens=12, temperature=0.7)
OPTIONS = {"cache_bytes": 1 << 28}


def model(seed=3):
    return small_model(seed, VOCABULARY)


@pytest.fixture(scope="module")
def shared_sampler():
    """Return a sampler whose replicas serve all tests of this module."""
    torch.set_num_threads(1)
    yield vllm(model(9), **OPTIONS)


def make_requests(count=48):
    return [
        SampleRequest(ids=tuple(1 + (i * k) % 40 for k in range(5 + i % 34)), stream=2**64 - 1 - i)
        for i in range(count)
    ]


def test_the_sampler_keeps_the_contract_of_samplers(shared_sampler):
    first_model, second_model = model(), model(4)
    weights = {name: tensor.clone() for name, tensor in first_model.tensors().items()}
    check_sampler(
        lambda: vllm(first_model, **OPTIONS), vocabulary=VOCABULARY, stop_ids=STOP, weights=weights, conversations=12
    )
    check_backend(
        lambda: [vllm(first_model, **OPTIONS), vllm(second_model, **OPTIONS)], vocabulary=VOCABULARY, stop_ids=STOP
    )
    assert (
        vllm(first_model, **OPTIONS).backend is shared_sampler.backend and shared_sampler.backend.limits.num_lost == 0
    )


def test_replies_do_not_depend_on_order_batches_or_cache(shared_sampler):
    replies = sample(shared_sampler, make_requests(), PARAMS, STOP)
    assert largest_difference(shared_sampler.model, make_requests(), replies, PARAMS) < 1e-4
    assert sample(shared_sampler, make_requests(), PARAMS, STOP) == replies
    assert sample(shared_sampler, make_requests()[::-1], PARAMS, STOP)[::-1] == replies
    assert [
        reply for k in range(0, 48, 5) for reply in sample(shared_sampler, make_requests()[k : k + 5], PARAMS, STOP)
    ] == replies
    shared_sampler.refresh()
    assert sample(shared_sampler, make_requests(), PARAMS, STOP) == replies
    assert [sample(shared_sampler, [reply], PARAMS, STOP)[0] for reply in make_requests()[:8]] == replies[:8]


def test_prompts_that_need_several_engine_steps_are_read_completely(shared_sampler):
    requests = [SampleRequest(ids=tuple(1 + (i + k) % 40 for k in range(49)), stream=i) for i in range(250)]
    replies = sample(shared_sampler, requests, PARAMS, STOP)
    assert largest_difference(shared_sampler.model, requests[:20], replies[:20], PARAMS) < 1e-4
    assert [
        reply for k in range(0, 250, 50) for reply in sample(shared_sampler, requests[k : k + 50], PARAMS, STOP)
    ] == replies


def test_restored_weights_give_equal_replies(shared_sampler):
    learner, replies = shared_sampler.model, sample(shared_sampler, make_requests(), PARAMS, STOP)
    weights = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    for step in range(20):
        scaled_weights = {name: weight * (1 + 0.02 * ((step + 1) % 20)) for name, weight in weights.items()}
        shared_sampler.publish(scaled_weights, learner.version + 1)
        assert (
            largest_difference(
                learner, make_requests(8), sample(shared_sampler, make_requests(8), PARAMS, STOP), PARAMS
            )
            < 1e-4
        )
    assert sample(shared_sampler, make_requests(), PARAMS, STOP) == replies


def test_adapters_are_merged(shared_sampler):
    base_model = model(9)  # adapters freeze the base model
    without_adapters = vllm(base_model, **OPTIONS)
    learner = with_adapters(base_model, 1)
    sampler = vllm(learner, **OPTIONS)
    for step in range(3):
        update(learner, step)
        assert (
            largest_difference(learner, make_requests(), sample(sampler, make_requests(), PARAMS, STOP), PARAMS) < 1e-4
        )
        assert (
            largest_difference(
                base_model, make_requests(), sample(without_adapters, make_requests(), PARAMS, STOP), PARAMS
            )
            < 1e-4
        )


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_scores_equal_those_of_the_learner(shared_sampler, temperature):
    params = SamplingParams(max_new_tokens=3, temperature=temperature)
    prompts, replies = [(1, 2, 3), (4,), tuple(range(1, 41))], [[(1, 2), (5,)], [(7, 8, 9)], [tuple(range(1, 25))]]
    for scores, expected in zip(
        shared_sampler.score(prompts, replies, params),
        in_process(shared_sampler.model).score(prompts, replies, params),
        strict=True,
    ):
        assert np.abs(scores - expected).max() < 1e-4


@pytest.mark.parametrize(("top_k", "top_p"), [(10, 1.0), (10, 0.5), (50, 0.7), (1, 1.0)])
def test_a_reply_has_the_token_sets_after_truncation(top_k, top_p, shared_sampler):
    params = SamplingParams(max_new_tokens=6, temperature=0.7, top_p=top_p, top_k=top_k)
    drawn_replies = sample(shared_sampler, make_requests(12), params, STOP)
    assert_same_token_sets(shared_sampler.model, params, drawn_replies, 1e-4, make_requests(12))
    assert all(len(support) <= top_k for reply in drawn_replies for support in reply.support)
    prompts, replies = [(1, 2, 3), (4,)], [[(1, 2), (5,)], [(7, 8, 9)]]
    for scores, expected in zip(
        shared_sampler.score(prompts, replies, params),
        in_process(shared_sampler.model).score(prompts, replies, params),
        strict=True,
    ):
        assert np.array_equal(np.isinf(scores), np.isinf(expected)) and np.allclose(
            scores[np.isfinite(scores)], expected[np.isfinite(expected)], atol=1e-4
        )


def long_requests(count=48):
    return [
        SampleRequest(ids=tuple(1 + (i * k) % 40 for k in range(5 + i % 9)), stream=2**64 - 1 - i) for i in range(count)
    ]


LONG = SamplingParams(max_new_tokens=48, temperature=0.7)


def sample_with_updates(sampler, condition, count=48, max_updates=8):
    """Sample while weights change; check each token; return the numbers of versions and of replies with several runs."""
    first_version, initial_weights = (
        sampler.version,
        {name: tensor.clone() for name, tensor in sampler.model.tensors().items()},
    )
    models = publish_between(sampler, condition, max_updates)
    try:
        replies = sample(sampler, long_requests(count), LONG, STOP)
    finally:
        sampler.between_tokens = None
        sampler.publish(initial_weights, sampler.version + 1)
    num_with_several_runs = check(models, first_version, long_requests(count), replies, LONG)

    return len(models), num_with_several_runs


def test_after_an_in_flight_update_later_tokens_use_the_new_weights(shared_sampler):
    assert all(count > 1 for count in sample_with_updates(shared_sampler, true_at_every(3, shared_sampler)))
    replies = sample(shared_sampler, long_requests(), LONG, STOP)
    assert (
        check({shared_sampler.version: shared_sampler.model}, shared_sampler.version, long_requests(), replies, LONG)
        == 0
        == shared_sampler.backend.limits.num_lost
    )


def test_adapters_are_merged_into_running_replies(shared_sampler):
    sampler = vllm(with_adapters(model(9), 1), **OPTIONS)
    assert all(count > 1 for count in sample_with_updates(sampler, true_at_every(3, sampler)))


@pytest.mark.parametrize("kind", ["torn", "unknown"])
def test_a_failed_in_flight_update_is_retried_and_replies_continue(shared_sampler, kind, monkeypatch):
    original_write, failures = ServedWeights.write, []

    def write(self, path, state):
        result = original_write(self, path, state)
        if not failures and shared_sampler.backend.replicas[0].pending:
            failures.append(kind)
            if kind == "unknown":  # vLLM raises after it has loaded some tensors
                save_file({**load_file(path), "transformer.h.9.ln_1.weight": torch.zeros(64)}, path)
        return result

    def digest(path):
        result = file_digest(path)
        if failures == ["torn"]:
            failures.append("damaged")
            path.write_bytes(path.read_bytes()[:-8])
        return result

    def record_refusal(self, replica, reason):
        refusals.append(reason)
        original_count_refusal(self, replica, reason)

    original_count_refusal, refusals = FailureLimits.count_refusal, []
    monkeypatch.setattr(FailureLimits, "count_refusal", record_refusal)
    monkeypatch.setattr(ServedWeights, "write", write)
    monkeypatch.setattr(replicas, "file_digest", digest)
    assert sample_with_updates(shared_sampler, true_at_every(4, shared_sampler), max_updates=2)[1] > 1
    assert (
        len(refusals) == 1
        and ("has other content than was written" if kind == "torn" else "h.9") in refusals[0]
        and shared_sampler.backend.limits.num_lost == 0
    )


def test_requests_of_a_replica_that_dies_in_an_update_are_repeated(shared_sampler):
    (replica,) = shared_sampler.backend.replicas
    should_kill, killed_pids = true_at_every(3, shared_sampler), []

    def when():
        if replica.stage == "loading" and replica.pending and not killed_pids:
            killed_pids.append(replica.pid)
            os.kill(replica.pid, signal.SIGKILL)
        return not killed_pids and should_kill()

    num_lost = shared_sampler.backend.limits.num_lost
    assert sample_with_updates(shared_sampler, when)[0] > 1
    assert killed_pids and shared_sampler.backend.limits.num_lost == num_lost + 1


def test_engines_listen_only_on_loopback_and_a_killed_one_loses_no_reply(shared_sampler):
    expected_replies, num_lost = (
        sample(shared_sampler, make_requests(), PARAMS, STOP),
        shared_sampler.backend.limits.num_lost,
    )
    (replica,) = shared_sampler.backend.replicas
    children = subprocess.run(
        ["pgrep", "-P", str(replica.pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    assert listening([replica.pid, *children]) <= {"0100007F"}
    pending = shared_sampler.submit(make_requests(), PARAMS, STOP)
    os.kill(replica.pid, signal.SIGKILL)
    replies = dict(pair for pairs in pending for pair in pairs)
    assert [
        replies[index] for index in range(48)
    ] == expected_replies and shared_sampler.backend.limits.num_lost == num_lost + 1


RUN = {
    "name": "with vllm",
    "steps": 10,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}],
    "rollout": {"games_per_step": 16},
    "league": {"every": 3, "keep": 2},
    "matchmaker": {"name": "pfsp", "past": 0.5},
    "warmup": {"updates": 0},
    "evaluation": {"every": 10, "exact": False},
    "sampler": {"name": "vllm", **OPTIONS},
}
CHAT = {
    "environments": [{"name": "kuhn_poker", "options": {"style": "full"}, "illegal": {"rule": "random"}}],
    "renderer": {"name": "chat"},
    "rollout": {"games_per_step": 8, "max_new_tokens": 4},
}


@pytest.mark.parametrize("model_kind", ["tiny", "adapters"])
def test_in_every_step_of_a_run_log_probs_equal_the_learners(model_kind, llama, tmp_path):
    settings = (
        {"model": {"heads": 2}}
        if model_kind == "tiny"
        else {**CHAT, "model": {"name": str(llama), "lora": {"rank": 4}}}
    )
    config = resolve({**RUN, **settings, "learner": {"learning_rate": 0.01}})
    run(tmp_path / "run", config)
    differences = [
        line["logprob_difference_max"]
        for line in read_lines(tmp_path / "run" / "metrics.jsonl")
        if "logprob_difference_max" in line
    ]
    assert len(differences) == 10 and max(differences) < 1e-4


def test_with_order_fresh_running_replies_continue_with_newer_weights(llama, tmp_path):
    settings = {
        **CHAT,
        "model": {"name": str(llama)},
        "rollout": {"games_per_step": 8, "max_new_tokens": 48},
        "store": {"every": 1},
        "evaluation": {"every": 99, "exact": False},
        "league": {},
        "matchmaker": {"name": "mirror"},
        "steps": 8,
    }
    scale = {"fleet": "processes", "workers": 1, "unit_games": 8, "order": "fresh", "lag": 4}
    config = resolve({**RUN, **settings, "scale": scale, "learner": {"learning_rate": 0.003}})
    run(tmp_path / "run", config)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    differences = [line["logprob_difference_max"] for line in lines if "logprob_difference_max" in line]
    assert differences and max(differences) < 1e-4
    table = pa.concat_tables(
        pq.read_table(path, columns=["run_versions"])
        for path in sorted((tmp_path / "run" / "episodes").glob("*.parquet"))
    )
    assert any(len(set(versions)) > 1 for versions in table["run_versions"].to_pylist())


def test_a_recipe_of_a_small_pretrained_model_trains_a_step(tmp_path):
    overrides = [
        "sampler=vllm",
        "threads=1",
        "steps=1",
        "rollout.games_per_step=8",
        "evaluation.exact=false",
        "evaluation.opponents.0.games_per_seat=2",
    ]
    config = resolve(apply_overrides(load_recipe("mars/kuhn-smol"), overrides))
    run(tmp_path / "run", config)
    (line,) = read_lines(tmp_path / "run" / "metrics.jsonl")[-1:]
    assert line["logprob_difference_max"] < 1e-4
