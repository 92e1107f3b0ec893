"""The sampler vllm with vLLM itself: run by `make vllm-test`, as it needs an environment of its own."""

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
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.core.files import file_digest
from sparring.core.records import SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.engine.run_processes import playing
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import sample
from sparring.models.samplers.in_process import in_process
from sparring.models.samplers.vllm import replica as replicas
from sparring.models.samplers.vllm import vllm
from sparring.models.samplers.vllm.pool import FailureLimits
from sparring.models.samplers.vllm.served_weights import ServedWeights
from sparring.models.tiny import tiny_model
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from sparring.testing import check_backend, check_sampler
from tests.models.samplers.renewed import check, every, moving
from tests.models.samplers.test_vllm import truncated_alike
from tests.sockets import listening

VOCABULARY, STOP = 50, (2, 5)
PARAMS = SamplingParams(max_new_tokens=12, temperature=0.7)
OPTIONS = {"cache_bytes": 1 << 28}


def model(seed=3):
    return LanguageModel(tiny_model(vocabulary_size=VOCABULARY, stream=Stream.from_seed(seed), context=64, heads=2).to_transformers(), None)


@pytest.fixture(scope="module")
def kept():
    """A sampler whose replicas stay for all tests of this module."""
    torch.set_num_threads(1)
    yield vllm(model(9), **OPTIONS)


def asked(count=48):
    return [SampleRequest(ids=tuple(1 + (i * k) % 40 for k in range(5 + i % 34)), stream=2**64 - 1 - i) for i in range(count)]


def worst(own, requests, said):
    """Return how far log-probabilities are from those that the learner's side gives."""
    prompts = [(*request.ids, *one.ids[:t]) for request, one in zip(requests, said, strict=True) for t in range(len(one.ids))]
    replies = [[(token,)] for one in said for token in one.ids]
    expected = np.concatenate(in_process(own).score(prompts, replies, PARAMS))
    return np.abs(expected - [value for one in said for value in one.logprobs]).max()


def test_it_keeps_the_contract(kept):
    one, other = model(), model(4)
    weights = {name: tensor.clone() for name, tensor in one.tensors().items()}
    check_sampler(lambda: vllm(one, **OPTIONS), vocabulary=VOCABULARY, stop_ids=STOP, weights=weights, conversations=12)
    check_backend(lambda: [vllm(one, **OPTIONS), vllm(other, **OPTIONS)], vocabulary=VOCABULARY, stop_ids=STOP)
    assert vllm(one, **OPTIONS).backend is kept.backend and kept.backend.limits.lost == 0


def test_bits_are_the_same_shuffled_split_and_cached(kept):
    first = sample(kept, asked(), PARAMS, STOP)
    assert worst(kept.model, asked(), first) < 1e-4
    assert sample(kept, asked(), PARAMS, STOP) == first
    assert sample(kept, asked()[::-1], PARAMS, STOP)[::-1] == first
    assert [one for k in range(0, 48, 5) for one in sample(kept, asked()[k : k + 5], PARAMS, STOP)] == first
    kept.refresh()
    assert sample(kept, asked(), PARAMS, STOP) == first
    assert [sample(kept, [one], PARAMS, STOP)[0] for one in asked()[:8]] == first[:8]


def test_prompts_that_do_not_fit_into_one_step_are_not_cut(kept):
    many = [SampleRequest(ids=tuple(1 + (i + k) % 40 for k in range(49)), stream=i) for i in range(250)]
    said = sample(kept, many, PARAMS, STOP)
    assert worst(kept.model, many[:20], said[:20]) < 1e-4
    assert [one for k in range(0, 250, 50) for one in sample(kept, many[k : k + 50], PARAMS, STOP)] == said


def test_there_and_back_again_is_the_same_to_the_last_bit(kept):
    own, first = kept.model, sample(kept, asked(), PARAMS, STOP)
    weights = {name: tensor.clone() for name, tensor in own.tensors().items()}
    for step in range(20):
        scaled = {name: weight * (1 + 0.02 * ((step + 1) % 20)) for name, weight in weights.items()}
        kept.publish(scaled, own.version + 1)
        assert worst(own, asked(8), sample(kept, asked(8), PARAMS, STOP)) < 1e-4
    assert sample(kept, asked(), PARAMS, STOP) == first


def test_adapters_are_merged(kept):
    over = model(9)  # which adapters freeze
    plain = vllm(over, **OPTIONS)
    network = add_adapters(share_weights(over.network), rank=2, alpha=4.0, targets=(), stream=Stream.from_seed(1))
    own = LanguageModel(network, None, over=over)
    sampler = vllm(own, **OPTIONS)
    for step in range(3):
        with torch.no_grad():
            for tensor in own.tensors().values():
                tensor.add_(0.05 * torch.sin(torch.arange(tensor.numel()) + step).view_as(tensor))
        own.version += 1
        assert worst(own, asked(), sample(sampler, asked(), PARAMS, STOP)) < 1e-4
        assert worst(over, asked(), sample(plain, asked(), PARAMS, STOP)) < 1e-4


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_scores_are_the_learners(kept, temperature):
    params = SamplingParams(max_new_tokens=3, temperature=temperature)
    prompts, replies = [(1, 2, 3), (4,), tuple(range(1, 41))], [[(1, 2), (5,)], [(7, 8, 9)], [tuple(range(1, 25))]]
    for found, expected in zip(kept.score(prompts, replies, params), in_process(kept.model).score(prompts, replies, params), strict=True):
        assert np.abs(found - expected).max() < 1e-4


@pytest.mark.parametrize(("top_k", "top_p"), [(10, 1.0), (10, 0.5), (50, 0.7), (1, 1.0)])
def test_what_truncation_kept_comes_with_a_reply(top_k, top_p, kept):
    params = SamplingParams(max_new_tokens=6, temperature=0.7, top_p=top_p, top_k=top_k)
    said = sample(kept, asked(12), params, STOP)
    truncated_alike(kept.model, params, said, 1e-4, asked(12))
    assert all(len(one) <= top_k for reply in said for one in reply.kept)
    prompts, replies = [(1, 2, 3), (4,)], [[(1, 2), (5,)], [(7, 8, 9)]]
    for found, expected in zip(kept.score(prompts, replies, params), in_process(kept.model).score(prompts, replies, params), strict=True):
        assert np.array_equal(np.isinf(found), np.isinf(expected)) and np.allclose(found[np.isfinite(found)], expected[np.isfinite(expected)], atol=1e-4)


def long(count=48):
    return [SampleRequest(ids=tuple(1 + (i * k) % 40 for k in range(5 + i % 9)), stream=2**64 - 1 - i) for i in range(count)]


LONG = SamplingParams(max_new_tokens=48, temperature=0.7)


def renewed(sampler, when, count=48, most=8):
    """Sample while weights move; check every token, and return how many versions there were and the replies of several."""
    begun, first = sampler.version, {name: tensor.clone() for name, tensor in sampler.model.tensors().items()}
    models = moving(sampler, when, most)
    try:
        said = sample(sampler, long(count), LONG, STOP)
    finally:
        sampler.between = None
        sampler.publish(first, sampler.version + 1)
    several = check(models, begun, long(count), said, LONG)

    return len(models), several


def test_after_an_update_in_flight_every_later_token_is_of_the_new_weights(kept):
    assert all(one > 1 for one in renewed(kept, every(3, kept)))
    said = sample(kept, long(), LONG, STOP)
    assert check({kept.version: kept.model}, kept.version, long(), said, LONG) == 0 == kept.backend.limits.lost


def test_adapters_are_merged_into_replies_that_go_on(kept):
    over = model(9)
    network = add_adapters(share_weights(over.network), rank=2, alpha=4.0, targets=(), stream=Stream.from_seed(1))
    sampler = vllm(LanguageModel(network, None, over=over), **OPTIONS)
    assert all(one > 1 for one in renewed(sampler, every(3, sampler)))


@pytest.mark.parametrize("kind", ["torn", "unknown"])
def test_an_update_in_flight_that_fails_is_tried_again_and_replies_go_on(kept, kind, monkeypatch):
    whole, failed = ServedWeights.write, []

    def write(self, path, held):
        found = whole(self, path, held)
        if not failed and kept.backend.replicas[0].pending:
            failed.append(kind)
            if kind == "unknown":  # vLLM raises when it has loaded some
                save_file({**load_file(path), "transformer.h.9.ln_1.weight": torch.zeros(64)}, path)
        return found

    def digest(path):
        found = file_digest(path)
        if failed == ["torn"]:
            failed.append("so")
            path.write_bytes(path.read_bytes()[:-8])
        return found

    def wrong(self, replica, what):
        said.append(what)
        real(self, replica, what)

    real, said = FailureLimits.wrong, []
    monkeypatch.setattr(FailureLimits, "wrong", wrong)
    monkeypatch.setattr(ServedWeights, "write", write)
    monkeypatch.setattr(replicas, "file_digest", digest)
    assert renewed(kept, every(4, kept), most=2)[1] > 1
    assert len(said) == 1 and ("is not what was written" if kind == "torn" else "h.9") in said[0] and kept.backend.limits.lost == 0


def test_a_replica_that_dies_in_an_update_is_asked_again(kept):
    (replica,) = kept.backend.replicas
    look, killed = every(3, kept), []

    def when():
        if replica.stage == "loading" and replica.pending and not killed:
            killed.append(replica.pid)
            os.kill(replica.pid, signal.SIGKILL)
        return not killed and look()

    lost = kept.backend.limits.lost
    assert renewed(kept, when)[0] > 1
    assert killed and kept.backend.limits.lost == lost + 1


def test_nothing_listens_but_on_loopback_and_one_that_is_killed_costs_no_reply(kept):
    first, lost = sample(kept, asked(), PARAMS, STOP), kept.backend.limits.lost
    (replica,) = kept.backend.replicas
    children = subprocess.run(["pgrep", "-P", str(replica.pid)], capture_output=True, text=True, check=False).stdout.split()
    assert listening([replica.pid, *children]) <= {"0100007F"}
    coming = kept.submit(asked(), PARAMS, STOP)
    os.kill(replica.pid, signal.SIGKILL)
    said = dict(one for found in coming for one in found)
    assert [said[place] for place in range(48)] == first and kept.backend.limits.lost == lost + 1


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


@pytest.mark.parametrize("way", ["tiny", "adapters"])
def test_in_every_step_of_a_run_log_probs_are_the_learners(way, llama, tmp_path):
    own = {"model": {"heads": 2}} if way == "tiny" else {**CHAT, "model": {"name": str(llama), "lora": {"rank": 4}}}
    config = resolve({**RUN, **own, "learner": {"learning_rate": 0.01}})
    engine = LocalEngine(config)
    folder = RunFolder.create(tmp_path / "run", to_yaml(config))
    with folder, playing(engine, folder.path):
        train(config, engine, folder)
    found = [line["logprob_difference_max"] for line in read_lines(folder.path / "metrics.jsonl") if "logprob_difference_max" in line]
    assert len(found) == 10 and max(found) < 1e-4


def test_in_a_run_of_fresh_order_replies_go_on_with_newer_weights(llama, tmp_path):
    own = {
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
    config = resolve({**RUN, **own, "scale": scale, "learner": {"learning_rate": 0.003}})
    engine = LocalEngine(config)
    folder = RunFolder.create(tmp_path / "run", to_yaml(config))
    with folder, playing(engine, folder.path):
        train(config, engine, folder)
    lines = read_lines(folder.path / "metrics.jsonl")
    found = [line["logprob_difference_max"] for line in lines if "logprob_difference_max" in line]
    assert found and max(found) < 1e-4
    table = pa.concat_tables(pq.read_table(path, columns=["run_versions"]) for path in sorted((folder.path / "episodes").glob("*.parquet")))
    assert any(len(set(one)) > 1 for one in table["run_versions"].to_pylist())


def test_a_recipe_of_a_small_pretrained_model_trains_a_step(tmp_path):
    changes = ["sampler=vllm", "threads=1", "steps=1", "rollout.games_per_step=8", "evaluation.exact=false", "evaluation.opponents.0.games_per_seat=2"]
    config = resolve(apply_overrides(load_recipe("mars/kuhn-smol"), changes))
    with RunFolder.create(tmp_path / "run", to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    (line,) = read_lines(tmp_path / "run" / "metrics.jsonl")[-1:]
    assert line["logprob_difference_max"] < 1e-4
