"""The sampler vllm with an engine of these tests in place of vLLM's: what is said, and what becomes of replicas that fail.

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

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import to_yaml
from sparring.core.errors import ConfigError, DivergedError, ModelError, RunError
from sparring.core.records import LEARNER, SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.engine.run_processes import playing
from sparring.league.payoffs import Payoffs
from sparring.measure.exploitability import nash_conv
from sparring.measure.info_states import enumerate_info_states
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.attention import prefix_tree
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import SampleBatch, finished_together, sample
from sparring.models.samplers.in_process import in_process, supports_of, truncate
from sparring.models.samplers.vllm import replica as replicas
from sparring.models.samplers.vllm import vllm
from sparring.models.tiny import tiny_model
from sparring.run import checkpoint
from sparring.run.evaluation import answer_of
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from sparring.testing import check_backend, check_sampler

VOCABULARY, STOP = 24, (2, 5)
PARAMS = SamplingParams(max_new_tokens=4, temperature=0.8)
FAKE = Path(__file__).parent / "fake_vllm.py"
pytestmark = pytest.mark.usefixtures("faults")


def model(seed=3):
    return LanguageModel(tiny_model(vocabulary_size=VOCABULARY, stream=Stream.from_seed(seed), context=64, heads=2).to_transformers(), None)


def asked(count=12):
    return [SampleRequest(ids=tuple(1 + (i * k) % 20 for k in range(1 + i % 5)), stream=2**64 - 1 - i) for i in range(count)]


def learners(own, requests, said):
    prompts = [(*request.ids, *one.ids[:t]) for request, one in zip(requests, said, strict=True) for t in range(len(one.ids))]
    replies = [[(token,)] for one in said for token in one.ids]
    return np.concatenate(in_process(own).score(prompts, replies, PARAMS))


def same(own, requests, said):
    assert np.abs(learners(own, requests, said) - [value for one in said for value in one.logprobs]).max() < 1e-5


def test_it_keeps_the_contract_in_any_company():
    one, other = model(), model(4)
    sampler, second = vllm(one, replicas=2), vllm(other, replicas=2)
    assert sampler.backend is second.backend and sampler.invariant
    weights = {name: tensor.clone() for name, tensor in one.tensors().items()}
    check_sampler(lambda: vllm(one, replicas=2), vocabulary=VOCABULARY, stop_ids=STOP, weights=weights, conversations=4)
    check_backend(lambda: [vllm(one, replicas=2), vllm(other, replicas=2)], vocabulary=VOCABULARY, stop_ids=STOP, conversations=3)
    assert sampler.backend.limits.lost == 0
    same(other, asked(), sample(second, asked(), PARAMS, STOP))
    assert list(sampler.submit([], PARAMS, STOP)) == [] and sampler.score([], [], PARAMS) == []


def test_replies_are_of_the_weights_of_now_adapters_merged():
    over = model()
    for parameter in over.network.parameters():
        parameter.requires_grad_(False)
    own = []
    for number in range(2):
        network = add_adapters(
            share_weights(over.network), rank=2, alpha=4.0, targets=[["c_attn"], ["c_proj", "c_fc"]][number], stream=Stream.from_seed(number)
        )
        own.append(LanguageModel(network, None, over=over))
    samplers = [vllm(one) for one in (*own, over)]
    for step in range(3):
        for place, one in enumerate(own):
            with torch.no_grad():
                for tensor in one.tensors().values():
                    tensor.add_(0.1 * torch.sin(torch.arange(tensor.numel()) + step + place).view_as(tensor))
            one.version += 1
        for one, sampler in zip((*own, over), samplers, strict=True):
            same(one, asked(), sample(sampler, asked(), PARAMS, STOP))
            assert sampler.version == one.version
    lots = [SampleBatch(sampler, asked(5), PARAMS, STOP) for sampler in samplers]
    said = dict(one for found in finished_together(samplers[0].backend, lots) for one in found)
    for number in range(3):
        assert [said[5 * number + place] for place in range(5)] == sample(samplers[number], asked(5), PARAMS, STOP)
    part = {one.name: one for one in samplers[0]._served.parts()}
    assert set(part) == {name for name, _ in over.network.named_parameters()}
    held = {name: one.state for name, one in part.items()}
    samplers[1]._served.write(replicas_folder(samplers[0]) / "x", held)
    assert set(safetensors(replicas_folder(samplers[0]) / "x")) == {name for name in part if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))}


def replicas_folder(sampler):
    return sampler.backend.replicas[0].log.parent


def safetensors(path):
    from safetensors.torch import load_file

    return load_file(path)


def test_what_is_scored_is_what_the_learner_says_at_every_temperature():
    own = model()
    sampler = vllm(own)
    prompts, replies = [(1, 2, 3), (4,)], [[(1, 2), (5,)], [(7, 8, 9)]]
    for temperature in (1.0, 0.5):
        params = SamplingParams(max_new_tokens=3, temperature=temperature)
        for found, expected in zip(sampler.score(prompts, replies, params), in_process(own).score(prompts, replies, params), strict=True):
            assert np.abs(found - expected).max() < 1e-5


@pytest.mark.parametrize("kind", ["die", "garbled", pytest.param("hang", marks=pytest.mark.slow), "pause", "stale", "skewed"])
def test_a_replica_that_fails_is_started_again_and_asked_again_with_the_same_seeds(faults, kind):
    own = model()
    sampler = vllm(own, timeout=6.0 if kind == "hang" else 300.0)
    quiet = sample(sampler, asked(), PARAMS, STOP)
    first = sampler.backend.replicas[0].pid
    faults(kind)
    with torch.no_grad():
        own.network.transformer.wte.weight.add_(0.05 * torch.sin(torch.arange(VOCABULARY * 64)).view(VOCABULARY, 64))
    own.version += 1
    said = sample(sampler, asked(), PARAMS, STOP)
    same(own, asked(), said)
    assert said != quiet and sample(sampler, asked(), PARAMS, STOP) == said
    assert sampler.backend.limits.lost == (0 if kind == "pause" else 1)
    assert (sampler.backend.replicas[0].pid == first) == (kind == "pause")


def test_replicas_share_what_is_asked_and_one_that_is_killed_costs_no_reply():
    sampler = vllm(model(), replicas=2)
    quiet = sample(sampler, asked(40), PARAMS, STOP)
    pids = [one.pid for one in sampler.backend.replicas]
    until = time.monotonic() + 60
    while not all(one.key for one in sampler.backend.replicas):  # the second may have come late
        assert sample(sampler, asked(40), PARAMS, STOP) == quiet and time.monotonic() < until
    coming = sampler.submit(asked(40), PARAMS, STOP)
    assert all(one.pending for one in sampler.backend.replicas)
    os.kill(pids[1], signal.SIGKILL)
    said = dict(one for found in coming for one in found)
    assert [said[place] for place in range(40)] == quiet and sampler.backend.limits.lost == 1
    assert sampler.backend.replicas[0].pid == pids[0]


def test_a_call_that_is_closed_leaves_nothing_to_do_and_nothing_to_hear():
    sampler = vllm(model())
    quiet = sample(sampler, asked(), PARAMS, STOP)
    for _ in range(3):
        sampler.submit(asked(40), PARAMS, STOP).close()
    (only,) = sampler.backend.replicas
    assert not only.pending and sample(sampler, asked(), PARAMS, STOP) == quiet


def test_a_torn_file_of_weights_is_refused_and_written_anew_once(torn):
    torn.append(1)
    own = model()
    sampler = vllm(own)
    same(own, asked(), sample(sampler, asked(), PARAMS, STOP))
    assert not torn and sampler.backend.limits.lost == 0
    torn += [1, 1]
    sampler.refresh()
    with pytest.raises(RunError, match=r"gives up: replica 0 refuses weights: WeightFileError: .*is not what was written"):
        sample(sampler, asked(), PARAMS, STOP)
    torn.clear()
    same(own, asked(), sample(sampler, asked(), PARAMS, STOP))  # and all begins anew


@pytest.mark.parametrize(
    ("kind", "times", "options", "said"),
    [
        pytest.param(
            "never",
            2,
            {"start_timeout": 4.0},
            r"was not ready after \d+ s \(sampler.start_timeout\), before it was ready, 2 times in a row",
            marks=pytest.mark.slow,
        ),
        ("broken", 2, {}, r"has failed: RuntimeError: no kernel image is available, before it was ready, 2 times in a row.*It printed last: .*no kernel image"),
        (
            "skewed",
            2,
            {},
            r"computes other log-probabilities than its weights give: they differ from the learner's by 0\.\d+ where it has -\d\.\d, and 0.0001\d* is allowed",
        ),
        ("die", 3, {}, "has ended, the third one that ended over one request"),
        ("die", 1, {"restarts": 0}, r"has ended, and 1 were lost in an hour \(sampler.restarts\)"),
        pytest.param("hang", 1, {"timeout": 5.0, "restarts": 0}, r"has said nothing for \d+ s while ready \(sampler.timeout\)", marks=pytest.mark.slow),
    ],
    ids=["never", "broken", "skewed", "die", "restarts", "hang"],
)
def test_what_goes_on_failing_ends_with_what_failed(faults, kind, times, options, said):
    faults(kind, times)
    sampler = vllm(model(), **options)
    with pytest.raises(RunError, match=said):
        sample(sampler, asked(), PARAMS, STOP)
    assert [one.pid for one in sampler.backend.replicas] == [None]
    if "restarts" not in options and kind != "never":
        assert len(sample(sampler, asked(), PARAMS, STOP)) == 12  # the next call begins anew


def test_what_vllm_does_not_give_is_refused_by_name(monkeypatch, tmp_path):
    sampler = vllm(model())
    for params, said in [
        (SamplingParams(max_new_tokens=1, top_p=0.9), r"rollout.top_p=0.9 without rollout.top_k.*Write rollout.top_k: 100 as well"),
        (SamplingParams(max_new_tokens=1, top_k=1001), r"rollout.top_k=1001.*at most 1000"),
        (SamplingParams(max_new_tokens=1, temperature=0.001), r"rollout.temperature: 0.01 or more"),
        (SamplingParams(max_new_tokens=64), "raise model.context"),
    ]:
        for call in (lambda p: sampler.submit(asked(), p, STOP), lambda p: sampler.score([(1,)], [[(2,) * p.max_new_tokens]], p)):
            with pytest.raises(ModelError, match=said):
                call(params)
    assert sampler.backend.replicas == []  # none was started for this
    with pytest.raises(ModelError, match=r"have 16. Of a tiny model write model.heads"):
        vllm(LanguageModel(tiny_model(vocabulary_size=VOCABULARY, stream=Stream.from_seed(0)), None))
    monkeypatch.setenv("SPARRING_VLLM_PYTHON", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"SPARRING_VLLM_PYTHON names .*none. Run make vllm"):
        vllm(model())
    monkeypatch.delenv("SPARRING_VLLM_PYTHON")
    monkeypatch.setattr(replicas, "CHECKOUT", tmp_path / "bin")
    with pytest.raises(ConfigError, match=r"there is no .*bin. Run make vllm"):
        vllm(model())


def test_replicas_are_shared_out_among_gpus(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "CUDA_VISIBLE_DEVICES" not in replicas.environment(1)
    assert replicas.environment(1, 3)["CUDA_VISIBLE_DEVICES"] == "3"
    sampler = registry.bind("samplers", "vllm", {"replicas": 3, "device": "cuda", "gpus": [1, 2]})(model())
    same(sampler.model, asked(), sample(sampler, asked(), PARAMS, STOP))
    seen = [Path(f"/proc/{one.pid}/environ").read_bytes().split(b"\0") for one in sampler.backend.replicas]
    assert [[one for one in own if one.startswith(b"CUDA_VIS")] for own in seen] == [[b"CUDA_VISIBLE_DEVICES=%d" % gpu] for gpu in (1, 2, 1)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, GPU-ab")
    assert [replicas.environment(1, gpu)["CUDA_VISIBLE_DEVICES"] for gpu in (0, 1)] == ["4", "GPU-ab"]
    with pytest.raises(ConfigError, match=r"names GPU 2, and CUDA_VISIBLE_DEVICES=4, GPU-ab leaves 2"):
        replicas.environment(1, 2)
    with pytest.raises(ConfigError, match=r"gpus=\[1\] and device=cpu; write device: cuda"):
        vllm(model(), gpus=(1,))
    with pytest.raises(ConfigError, match="gpus"):
        registry.bind("samplers", "vllm", {"device": "cuda", "gpus": [-1]})(model())


@pytest.mark.parametrize(("top_k", "top_p"), [(5, 1.0), (5, 0.7), (24, 0.5), (1, 1.0), (500, 0.9)])
def test_what_truncation_kept_comes_with_a_reply(top_k, top_p):
    own, params = model(), SamplingParams(max_new_tokens=4, temperature=0.8, top_p=top_p, top_k=top_k)
    sampler = vllm(own)
    truncated_alike(own, params, sample(sampler, asked(), params, STOP), 1e-5)
    prompts, replies = [(1, 2, 3), (4,)], [[(1, 2), (5,)], [(7, 8, 9)]]
    for found, expected in zip(sampler.score(prompts, replies, params), in_process(own).score(prompts, replies, params), strict=True):
        assert np.array_equal(np.isinf(found), np.isinf(expected))
        assert np.allclose(found[np.isfinite(found)], expected[np.isfinite(expected)], atol=1e-5)


def truncated_alike(own, params, said, tolerance, requests=None):
    """Check log-probabilities and kept sets of replies against those of the model in this process."""
    for request, one in zip(requests or asked(len(said)), said, strict=True):
        for t, token in enumerate(one.ids):
            ids = (*request.ids, *one.ids[:t])
            tree = prefix_tree([ids], [0])
            with torch.inference_mode():
                logits = own.logits(own.hidden(tree)[tree.node[0, len(ids) - 1 : len(ids)]])
            log_p = truncate(logits / params.temperature, top_p=params.top_p, top_k=params.top_k)
            assert one.kept[t] == supports_of(log_p)[0] and token in one.kept[t]
            assert abs(float(log_p[0, token]) - one.logprobs[t]) < tolerance


def test_a_kept_set_without_its_token_is_no_answer(faults):
    faults("unkept")
    sampler = vllm(model())
    assert len(sample(sampler, asked(), SamplingParams(max_new_tokens=4, top_k=3), STOP)) == 12
    assert sampler.backend.limits.lost == 1


def test_it_promises_bits_in_float32_on_a_cpu_alone():
    half = model()
    half.network.to(torch.bfloat16)
    assert vllm(model()).invariant and not vllm(model(), device="cuda").invariant
    assert not vllm(LanguageModel(half.network, None)).invariant


def test_weights_that_have_changed_while_requests_waited_are_noticed():
    own = model()
    sampler = vllm(own)
    coming = sampler.submit(asked(), PARAMS, STOP)  # the replica is not there yet
    own.version += 1
    with pytest.raises(ModelError, match="have changed while replies"):
        list(coming)


def test_probabilities_that_are_no_numbers_end_the_run(faults):
    own = model()
    sampler = vllm(own)
    sample(sampler, asked(), PARAMS, STOP)
    faults("nan")
    with pytest.raises(DivergedError, match="no probabilities"):
        sample(sampler, asked(), PARAMS, STOP)
    with torch.no_grad():
        own.network.transformer.wte.weight[0] = float("nan")
    own.version += 1
    with pytest.raises(DivergedError, match="no probabilities"):
        sample(sampler, asked(), PARAMS, STOP)


def test_replicas_end_with_those_who_ask():
    sampler = vllm(model())
    sample(sampler, asked(), PARAMS, STOP)
    folder, pid = replicas_folder(sampler), sampler.backend.replicas[0].pid
    assert folder.stat().st_mode & 0o077 == 0 and not list(folder.glob("*.safetensors"))
    del sampler
    gc.collect()
    assert not folder.exists() and not Path(f"/proc/{pid}/cmdline").exists()


def test_the_engine_of_these_tests_imports_nothing_of_sparring():
    spec = importlib.util.spec_from_file_location("sparring_child", replicas.CHILD)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path in (replicas.CHILD, replicas.CHILD.parent / "sparring_vllm.py", FAKE):
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


def trained(path, changes=(), **options):
    config = resolve({**RUN, **dict(changes), "sampler": {"name": "vllm", **options}})
    engine = LocalEngine(config)
    folder = RunFolder.create(path, to_yaml(config))
    with folder, playing(engine, path):
        train(config, engine, folder)
    weights = {file.name: file.read_bytes() for file in checkpoint.load_latest(path).path.glob("*.safetensors")}
    lost = engine.policies["main"].agent(LEARNER).sampler.backend.limits.lost
    return weights, (path / "metrics.jsonl").read_bytes(), lost


def test_provenance_says_who_draws():
    own = [LocalEngine(resolve({**RUN, **changed})).policies["main"] for changed in ({"sampler": {"name": "vllm"}}, {})]
    assert own[0].decoding == "vllm" and own[0].invariant and own[1].decoding == own[1].model.decoding != "vllm"


def test_a_run_with_a_league_has_the_learners_log_probs_and_the_same_bytes_whatever_dies(faults, tmp_path):
    weights, metrics, lost = trained(tmp_path / "quiet")
    steps = [line for line in read_lines(tmp_path / "quiet" / "metrics.jsonl") if "logprob_difference_max" in line]
    assert len(steps) == 4 and all(line["logprob_difference_max"] < 1e-4 for line in steps) and not lost
    faults("die", 2)
    faults("stale", 1)
    assert trained(tmp_path / "dying", replicas=2) == (weights, metrics, 3)


def test_several_learners_beside_it_have_the_bytes_of_one(tmp_path):
    one, two = (trained(tmp_path / str(ranks), {"learner": {"leaves": 2, "ranks": ranks}}) for ranks in (1, 2))
    assert one == two and not one[2]


def test_two_policies_learn_with_it_and_answer_for_each_role(tmp_path):
    """Members of both are drawn and scored by replicas, and the pair of mixtures is as exploitable as they say in this process."""
    own = {
        "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
        "policies": {"opener": {}, "answerer": {}},
        "roles": {"first": "opener", "second": "answerer"},
        "matchmaker": {"name": "meta_strategy", "solver": "nash", "sides": "apart"},
        "league": {"every": 1, "keep": 2, "start": True, "plays": 8, "answer": "nash"},
    }
    config = resolve({**RUN, **own, "sampler": {"name": "vllm", "replicas": 2}})
    engine, folder = LocalEngine(config), RunFolder.create(tmp_path / "run", to_yaml(config))
    with folder, playing(engine, folder.path):
        train(config, engine, folder)
    lines = read_lines(folder.path / "metrics.jsonl")
    found = [value for line in lines for name, value in line.items() if name.endswith("logprob_difference_max")]
    assert len(found) == 2 * len(lines) and max(found) < 1e-4
    own["sampler"] = {"name": "in_process"}
    here = LocalEngine(resolve({**RUN, **own}))
    here.restore(checkpoint.load_latest(folder.path).path)
    book = Payoffs.from_json(folder.checkpoint(4).state["payoffs"])
    answers = [answer_of(one, book, "nash", apart=True) for one in (engine, here)]
    game = engine.environments[0][0]
    gaps = [nash_conv(game, enumerate_info_states(game), answer).nash_conv for answer in answers]
    assert gaps[0] == pytest.approx(lines[-1]["nash_conv/kuhn_poker"], abs=1e-9) and gaps[0] == pytest.approx(gaps[1], abs=1e-5)
