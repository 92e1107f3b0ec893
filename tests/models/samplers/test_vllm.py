"""The sampler vllm with a fake engine: replies, and the handling of replicas that fail.

tests/models/samplers/test_vllm_real.py has vLLM itself; `make vllm-test` runs it.
"""

import gc
import importlib.util
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, DivergedError, ModelError, RunError
from sparring.core.records import LEARNER, SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.models.attention import prefix_tree
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import SampleBatch, sample
from sparring.models.samplers.in_process import in_process, supports_of, truncate
from sparring.models.samplers.vllm import replica as replicas
from sparring.models.samplers.vllm import vllm
from sparring.models.tiny import tiny_model
from sparring.run import checkpoint
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
from tests.run_with_members import run

VOCABULARY, STOP = 24, (2, 5)
PARAMS = SamplingParams(max_new_tokens=4, temperature=0.8)
FAKE_ENGINE = Path(__file__).parent / "fake_vllm.py"
pytestmark = pytest.mark.usefixtures("faults")


def make_requests(count=12):
    return [
        SampleRequest(ids=tuple(1 + (i * k) % 20 for k in range(1 + i % 5)), stream=2**64 - 1 - i) for i in range(count)
    ]


def assert_same_logprobs(model, requests, replies):
    assert largest_difference(model, requests, replies, PARAMS) < 1e-5


def test_the_contract_holds_in_any_batch():
    first_model, other_model = small_model(), small_model(4)
    sampler, second_sampler = vllm(first_model, replicas=2), vllm(other_model, replicas=2)
    assert sampler.backend is second_sampler.backend and sampler.invariant
    weights = {name: tensor.clone() for name, tensor in first_model.tensors().items()}
    check_sampler(
        lambda: vllm(first_model, replicas=2), vocabulary=VOCABULARY, stop_ids=STOP, weights=weights, conversations=4
    )
    check_backend(
        lambda: [vllm(first_model, replicas=2), vllm(other_model, replicas=2)],
        vocabulary=VOCABULARY,
        stop_ids=STOP,
        conversations=3,
    )
    assert sampler.backend.limits.num_lost == 0
    assert_same_logprobs(other_model, make_requests(), sample(second_sampler, make_requests(), PARAMS, STOP))
    assert list(sampler.submit([], PARAMS, STOP)) == [] and sampler.score([], [], PARAMS) == []


def test_replies_use_current_weights_with_merged_adapters():
    base_model = freeze(small_model())
    learners = [
        with_adapters(base_model, number, targets) for number, targets in enumerate((["c_attn"], ["c_proj", "c_fc"]))
    ]
    samplers = [vllm(learner) for learner in (*learners, base_model)]
    for step in range(3):
        for index, learner in enumerate(learners):
            update(learner, step + index)
        for learner, sampler in zip((*learners, base_model), samplers, strict=True):
            assert_same_logprobs(learner, make_requests(), sample(sampler, make_requests(), PARAMS, STOP))
            assert sampler.version == learner.version
    batches = [SampleBatch(sampler, make_requests(5), PARAMS, STOP) for sampler in samplers]
    assert replies_of(batches) == [
        reply for sampler in samplers for reply in sample(sampler, make_requests(5), PARAMS, STOP)
    ]
    weight_parts = {part.name: part for part in samplers[0]._served.parts()}
    assert set(weight_parts) == {name for name, _ in base_model.network.named_parameters()}
    state = {name: part.state for name, part in weight_parts.items()}
    samplers[1]._served.write(replicas_folder(samplers[0]) / "x", state)
    assert set(load_file(replicas_folder(samplers[0]) / "x")) == {
        name for name in weight_parts if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
    }


def replicas_folder(sampler):
    return sampler.backend.replicas[0].log.parent


def test_scores_equal_the_learners_at_every_temperature():
    learner = small_model()
    sampler = vllm(learner)
    prompts, replies = [(1, 2, 3), (4,)], [[(1, 2), (5,)], [(7, 8, 9)]]
    for temperature in (1.0, 0.5):
        params = SamplingParams(max_new_tokens=3, temperature=temperature)
        for scores, expected in zip(
            sampler.score(prompts, replies, params), in_process(learner).score(prompts, replies, params), strict=True
        ):
            assert np.abs(scores - expected).max() < 1e-5


@pytest.mark.parametrize(
    "kind", ["die", "garbled", pytest.param("hang", marks=pytest.mark.slow), "pause", "stale", "skewed"]
)
def test_a_failed_replica_restarts_and_repeats_requests_with_their_seeds(faults, kind):
    learner = small_model()
    sampler = vllm(learner, timeout=6.0 if kind == "hang" else 300.0)
    replies_without_failure = sample(sampler, make_requests(), PARAMS, STOP)
    first_pid = sampler.backend.replicas[0].pid
    faults(kind)
    update(learner, 0)
    replies = sample(sampler, make_requests(), PARAMS, STOP)
    assert_same_logprobs(learner, make_requests(), replies)
    assert replies != replies_without_failure and sample(sampler, make_requests(), PARAMS, STOP) == replies
    assert sampler.backend.limits.num_lost == (0 if kind == "pause" else 1)
    assert (sampler.backend.replicas[0].pid == first_pid) == (kind == "pause")


def test_replicas_share_requests_and_no_reply_is_lost_if_one_is_killed():
    sampler = vllm(small_model(), replicas=2)
    replies_without_failure = sample(sampler, make_requests(40), PARAMS, STOP)
    pids = [replica.pid for replica in sampler.backend.replicas]
    deadline = time.monotonic() + 60
    while not all(replica.key for replica in sampler.backend.replicas):  # the second replica may start late
        assert (
            sample(sampler, make_requests(40), PARAMS, STOP) == replies_without_failure and time.monotonic() < deadline
        )
    pending = sampler.submit(make_requests(40), PARAMS, STOP)
    assert all(replica.pending for replica in sampler.backend.replicas)
    os.kill(pids[1], signal.SIGKILL)
    replies = dict(pair for pairs in pending for pair in pairs)
    assert [replies[index] for index in range(40)] == replies_without_failure and sampler.backend.limits.num_lost == 1
    assert sampler.backend.replicas[0].pid == pids[0]


def test_a_closed_call_leaves_no_request_and_no_reply():
    sampler = vllm(small_model())
    replies_without_failure = sample(sampler, make_requests(), PARAMS, STOP)
    for _ in range(3):
        sampler.submit(make_requests(40), PARAMS, STOP).close()
    (replica,) = sampler.backend.replicas
    assert not replica.pending and sample(sampler, make_requests(), PARAMS, STOP) == replies_without_failure


def test_a_truncated_file_of_weights_is_refused_and_rewritten_once(torn):
    torn.append(1)
    learner = small_model()
    sampler = vllm(learner)
    assert_same_logprobs(learner, make_requests(), sample(sampler, make_requests(), PARAMS, STOP))
    assert not torn and sampler.backend.limits.num_lost == 0
    torn += [1, 1]
    sampler.refresh()
    with pytest.raises(
        RunError, match=r"stops: replica 0 refuses weights: WeightFileError: .*differs from what was written"
    ):
        sample(sampler, make_requests(), PARAMS, STOP)
    torn.clear()
    assert_same_logprobs(
        learner, make_requests(), sample(sampler, make_requests(), PARAMS, STOP)
    )  # and the next call works


@pytest.mark.parametrize(
    ("kind", "times", "options", "message"),
    [
        pytest.param(
            "never",
            2,
            {"start_timeout": 4.0},
            r"was not ready after \d+ s \(sampler.start_timeout\), before it was ready, 2 times in a row",
            marks=pytest.mark.slow,
        ),
        (
            "broken",
            2,
            {},
            r"has failed: RuntimeError: no kernel image is available, before it was ready, 2 times in a row.*It printed last: .*no kernel image",
        ),
        (
            "skewed",
            2,
            {},
            r"computes wrong log-probabilities for its weights: they differ by 0\.\d+ from the learner's value -\d\.\d; 0.0001\d* is allowed",
        ),
        ("die", 3, {}, "has ended, the third one lost with the same request"),
        ("die", 1, {"restarts": 0}, r"has ended, and 1 replicas were lost in an hour \(sampler.restarts\)"),
        pytest.param(
            "hang",
            1,
            {"timeout": 5.0, "restarts": 0},
            r"has sent nothing for \d+ s while ready \(sampler.timeout\)",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["never", "broken", "skewed", "die", "restarts", "hang"],
)
def test_repeated_failures_end_with_an_error_that_names_them(faults, kind, times, options, message):
    faults(kind, times)
    sampler = vllm(small_model(), **options)
    with pytest.raises(RunError, match=message):
        sample(sampler, make_requests(), PARAMS, STOP)
    assert [replica.pid for replica in sampler.backend.replicas] == [None]
    if "restarts" not in options and kind != "never":
        assert len(sample(sampler, make_requests(), PARAMS, STOP)) == 12  # the next call works


def test_options_that_vllm_does_not_support_are_refused_by_name(monkeypatch, tmp_path):
    sampler = vllm(small_model())
    for params, message in [
        (
            SamplingParams(max_new_tokens=1, top_p=0.9),
            r"rollout.top_p=0.9 without rollout.top_k.*Set rollout.top_k too, e.g. to 100",
        ),
        (SamplingParams(max_new_tokens=1, top_k=1001), r"rollout.top_k=1001.*at most 1000"),
        (SamplingParams(max_new_tokens=1, temperature=0.001), r"rollout.temperature: 0.01 or more"),
        (SamplingParams(max_new_tokens=64), "raise model.context"),
    ]:
        for call in (
            lambda p: sampler.submit(make_requests(), p, STOP),
            lambda p: sampler.score([(1,)], [[(2,) * p.max_new_tokens]], p),
        ):
            with pytest.raises(ModelError, match=message):
                call(params)
    assert sampler.backend.replicas == []  # no replica was started
    with pytest.raises(ModelError, match=r"have 16. For the tiny model, set model.heads"):
        vllm(LanguageModel(tiny_model(vocabulary_size=VOCABULARY, stream=Stream.from_seed(0)), None))
    monkeypatch.setenv("SPARRING_VLLM_PYTHON", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"SPARRING_VLLM_PYTHON names .*none. Run make vllm"):
        vllm(small_model())
    monkeypatch.delenv("SPARRING_VLLM_PYTHON")
    monkeypatch.setattr(replicas, "DEFAULT_PYTHON", tmp_path / "bin")
    with pytest.raises(ConfigError, match=r"there is no .*bin. Run make vllm"):
        vllm(small_model())


def test_replicas_are_distributed_over_gpus(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "CUDA_VISIBLE_DEVICES" not in replicas.environment(1)
    assert replicas.environment(1, 3)["CUDA_VISIBLE_DEVICES"] == "3"
    sampler = registry.bind("samplers", "vllm", {"replicas": 3, "device": "cuda", "gpus": [1, 2]})(small_model())
    assert_same_logprobs(sampler.model, make_requests(), sample(sampler, make_requests(), PARAMS, STOP))
    environments = [
        Path(f"/proc/{replica.pid}/environ").read_bytes().split(b"\0") for replica in sampler.backend.replicas
    ]
    assert [[text for text in variables if text.startswith(b"CUDA_VIS")] for variables in environments] == [
        [b"CUDA_VISIBLE_DEVICES=%d" % gpu] for gpu in (1, 2, 1)
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, GPU-ab")
    assert [replicas.environment(1, gpu)["CUDA_VISIBLE_DEVICES"] for gpu in (0, 1)] == ["4", "GPU-ab"]
    with pytest.raises(ConfigError, match=r"names GPU 2, but CUDA_VISIBLE_DEVICES=4, GPU-ab has only 2"):
        replicas.environment(1, 2)
    with pytest.raises(ConfigError, match=r"gpus=\[1\] and device=cpu; write device: cuda"):
        vllm(small_model(), gpus=(1,))
    with pytest.raises(ConfigError, match="gpus"):
        registry.bind("samplers", "vllm", {"device": "cuda", "gpus": [-1]})(small_model())


@pytest.mark.parametrize(("top_k", "top_p"), [(5, 1.0), (5, 0.7), (24, 0.5), (1, 1.0), (500, 0.9)])
def test_a_reply_has_the_token_sets_that_remain_after_truncation(top_k, top_p):
    learner, params = small_model(), SamplingParams(max_new_tokens=4, temperature=0.8, top_p=top_p, top_k=top_k)
    sampler = vllm(learner)
    assert_same_token_sets(learner, params, sample(sampler, make_requests(), params, STOP), 1e-5)
    prompts, replies = [(1, 2, 3), (4,)], [[(1, 2), (5,)], [(7, 8, 9)]]
    for scores, expected in zip(
        sampler.score(prompts, replies, params), in_process(learner).score(prompts, replies, params), strict=True
    ):
        assert np.array_equal(np.isinf(scores), np.isinf(expected))
        assert np.allclose(scores[np.isfinite(scores)], expected[np.isfinite(expected)], atol=1e-5)


def assert_same_token_sets(model, params, replies, tolerance, requests=None):
    for request, reply in zip(requests or make_requests(len(replies)), replies, strict=True):
        for index, token in enumerate(reply.ids):
            ids = (*request.ids, *reply.ids[:index])
            tree = prefix_tree([ids], [0])
            with torch.inference_mode():
                logits = model.logits(model.hidden(tree)[tree.node[0, len(ids) - 1 : len(ids)]])
            log_p = truncate(logits / params.temperature, top_p=params.top_p, top_k=params.top_k)
            assert reply.support[index] == supports_of(log_p)[0] and token in reply.support[index]
            assert abs(float(log_p[0, token]) - reply.logprobs[index]) < tolerance


def test_a_token_set_without_the_sampled_token_is_refused(faults):
    faults("unkept")
    sampler = vllm(small_model())
    assert len(sample(sampler, make_requests(), SamplingParams(max_new_tokens=4, top_k=3), STOP)) == 12
    assert sampler.backend.limits.num_lost == 1


def test_only_float32_on_a_cpu_is_invariant():
    half_precision = small_model()
    half_precision.network.to(torch.bfloat16)
    assert vllm(small_model()).invariant and not vllm(small_model(), device="cuda").invariant
    assert not vllm(LanguageModel(half_precision.network, None)).invariant


def test_weights_that_change_while_requests_wait_are_refused():
    learner = small_model()
    sampler = vllm(learner)
    pending = sampler.submit(make_requests(), PARAMS, STOP)  # the replica has not started yet
    learner.version += 1
    with pytest.raises(ModelError, match="have changed while requests"):
        list(pending)


def test_log_probs_that_are_not_finite_end_the_run(faults):
    learner = small_model()
    sampler = vllm(learner)
    sample(sampler, make_requests(), PARAMS, STOP)
    faults("nan")
    with pytest.raises(DivergedError, match="no probabilities"):
        sample(sampler, make_requests(), PARAMS, STOP)
    with torch.no_grad():
        learner.network.transformer.wte.weight[0] = float("nan")
    learner.version += 1
    with pytest.raises(DivergedError, match="no probabilities"):
        sample(sampler, make_requests(), PARAMS, STOP)


def test_replicas_end_with_their_process():
    sampler = vllm(small_model())
    sample(sampler, make_requests(), PARAMS, STOP)
    folder, pid = replicas_folder(sampler), sampler.backend.replicas[0].pid
    assert folder.stat().st_mode & 0o077 == 0 and not list(folder.glob("*.safetensors"))
    del sampler
    gc.collect()
    assert not folder.exists() and not Path(f"/proc/{pid}/cmdline").exists()


def test_the_fake_engine_imports_nothing_of_sparring():
    spec = importlib.util.spec_from_file_location("sparring_child", replicas.CHILD)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path in (replicas.CHILD, replicas.CHILD.parent / "sparring_vllm.py", FAKE_ENGINE):
        if path.exists():
            assert "import sparring" not in path.read_text() and "from sparring" not in path.read_text(), path


RUN = {
    "name": "with vllm",
    "steps": 4,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}],
    "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 32, "layers": 1, "heads": 1},
    "league": {"every": 1, "keep": 2},
    "matchmaker": {"name": "pfsp", "past": 0.5},
    "warmup": {"updates": 1, "games": 8},
    "evaluation": {"every": 4},
}


def train(path, changes=(), **options):
    config = resolve({**RUN, **dict(changes), "sampler": {"name": "vllm", **options}})
    engine = run(path, config)
    weights = {file.name: file.read_bytes() for file in checkpoint.load_latest(path).path.glob("*.safetensors")}
    num_lost = engine.policies["main"].agent(LEARNER).sampler.backend.limits.num_lost
    return weights, (path / "metrics.jsonl").read_bytes(), num_lost


def test_provenance_names_the_sampler():
    policies = [
        LocalEngine(resolve({**RUN, **changes})).policies["main"] for changes in ({"sampler": {"name": "vllm"}}, {})
    ]
    assert (
        policies[0].decoding == "vllm"
        and policies[0].invariant
        and policies[1].decoding == policies[1].model.decoding != "vllm"
    )


def test_a_league_run_has_the_same_bytes_after_any_replica_failure(faults, tmp_path):
    weights, metrics, num_lost = train(tmp_path / "quiet")
    steps = [line for line in read_lines(tmp_path / "quiet" / "metrics.jsonl") if "logprob_difference_max" in line]
    assert len(steps) == 4 and all(line["logprob_difference_max"] < 1e-4 for line in steps) and not num_lost
    faults("die", 2)
    faults("stale", 1)
    assert train(tmp_path / "dying", replicas=2) == (weights, metrics, 3)


def test_several_learners_give_the_bytes_of_one_learner(tmp_path):
    files_of_one, files_of_two = (
        train(tmp_path / str(ranks), {"learner": {"leaves": 2, "ranks": ranks}}) for ranks in (1, 2)
    )
    assert files_of_one == files_of_two and not files_of_one[2]
