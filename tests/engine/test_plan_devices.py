"""What a plan says of each device: who holds what there, whether it fits, and how long a run takes."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from sparring.cli import app
from sparring.config import resolve
from sparring.engine import plan_devices
from sparring.engine.plan_devices import devices, longest_tokens
from sparring.errors import ConfigError, UnknownNameError
from sparring.experiments.plan_hours import assumed, by_probe, by_rates, players
from sparring.experiments.scale_file import Probe
from sparring.models.memory import GIB
from sparring.recipe import apply_overrides, layers, load_recipe, recipe_names

PAPERS = [name for name in recipe_names() if name.endswith("-paper")]
EIGHT = "with=scale/8-gpus"
SMOL = [name for name in recipe_names() if name == "mars/kuhn-smol" or (name.startswith("vpr/") and "-smol" in name)]


def configured(recipe, *overrides):
    return resolve(apply_overrides(load_recipe(recipe), overrides))


def planned(*words):
    outcome = CliRunner().invoke(app, ["train", *words, "--dry-run"])
    assert outcome.exit_code == 0, outcome.output
    return yaml.safe_load(outcome.stdout)["plan"]


def test_there_are_paper_recipes_and_both_layers():
    assert len(PAPERS) == 12 and len(SMOL) == 11 and set(layers()) == {"scale/8-gpus", "scale/ray-gpus"}


@pytest.mark.parametrize("layer", layers())
@pytest.mark.parametrize("recipe", PAPERS)
def test_every_paper_recipe_has_a_plan_in_both_forms_and_fits(recipe, layer):
    config = configured(recipe, f"with={layer}")
    found = devices(config, 80)
    assert found and all("memory_gib" in own for own in found.values())
    assert {own["fits"][:3] for place, own in found.items() if place != "a worker's machine"} == {"yes"}
    learners = {role: parts for own in found.values() for role, parts in own.items() if role.startswith("learner")}
    assert set(learners) == {f"learner {number}" for number in range(4)}
    for parts in learners.values():
        assert {"weights", "gradients", "moments", "activations_and_whole_blocks"} <= set(parts)
    drawing = "replica 3 of vLLM" if layer == "scale/8-gpus" else "a worker"
    (cache,) = [own[drawing]["keys_and_values"] for own in found.values() if drawing in own]
    assert cache == 40.0
    assert "hours at most" in by_rates(config, assumed(["play=2500", "learn=8000"]))
    assert devices(config, 24)["GPU 0"]["fits"].startswith("NO, there are 21.6 GiB, nine tenths of 24 GB. For learner 0: lower learner.micro_tokens")
    published = configured(recipe)
    same = {"environments", "rollout", "credit", "losses", "rewards", "steps", "renderer", "name", "summary", "seed"}
    assert all(getattr(config, key) == getattr(published, key) for key in same), "a form changes machines alone"


def test_one_gpu_does_not_hold_what_the_paper_trains_in_float32():
    found = devices(configured("mars/kuhn-paper", "model.device=cuda"), 80)["GPU 0"]
    assert "train adapters" in found["fits"] and found["fits"].startswith("NO") and found["training process"]["moments"] == pytest.approx(2 * found["training process"]["weights"], rel=1e-2)


def test_a_learner_holds_its_share_and_the_training_process_the_whole():
    found = devices(configured("mars/kuhn-paper", EIGHT), 80)
    whole, part = found["GPU 0"]["training process"], found["GPU 1"]["learner 1"]
    weights = 4022468096 * 2 / GIB
    assert whole == {"weights": round(weights, 2), "copies": round(weights, 2)}  # the reference
    assert part["weights"] == part["copies"] == round(weights / 4, 2)
    assert (part["gradients"], part["moments"]) == (round(weights / 2, 2), round(3 * weights / 2, 2))  # float32: 4 bytes, and 12 with the copies
    assert found["GPU 0"]["memory_gib"] == pytest.approx(sum(whole.values()) + sum(found["GPU 0"]["learner 0"].values()), abs=0.1)
    two = devices(configured("mars/kuhn-paper", EIGHT, "learner.ranks=2", "learner.gpus=[0,1]"), 80)["GPU 1"]["learner 1"]
    assert two["moments"] == pytest.approx(2 * part["moments"], abs=0.02)


def test_learners_that_split_nothing_hold_all():
    overrides = ("model.device=cuda", "model.lora=null", "learner.ranks=2", "learner.leaves=2")
    found = devices(configured("mars/kuhn-smol", *overrides), 80)
    own, further = found["GPU 0"]["training process"], found["GPU 1"]["learner 1"]
    assert own == {**further, "keys_and_values": 0.5} and {"weights", "gradients", "moments", "activations"} <= further.keys()


def test_the_longest_conversation_is_looked_at_by_itself():
    kuhn, board = (configured(f"mars/{name}-paper", EIGHT) for name in ("kuhn", "tictactoe"))
    assert longest_tokens(kuhn) == 2 * (4096 + 64) and longest_tokens(board) == 5 * (4096 + 64)
    assert longest_tokens(configured("mars/tictactoe-paper", "model.context=9000")) == 9000
    stripped = configured("spiral/multi-game-paper")
    assert longest_tokens(stripped) < 2 * 4096, "thoughts of past turns are not shown"
    assert "longest_conversation" not in devices(kuhn, 80)["GPU 1"]
    said = devices(board, 80)["GPU 1"]["longest_conversation"]
    assert said.startswith("NO") and "41.0 GiB more. Lower rollout.max_new_tokens or model.context, or take GPUs of 106 GB" in said
    assert "longest_conversation" not in devices(board, 141)["GPU 1"]


def test_workers_are_counted_on_the_gpus_that_they_share():
    base = ("model.device=cuda", "scale.workers=3")
    found = devices(configured("mars/kuhn-smol", *base, "scale.fleet=processes", "scale.gpus=[1,2]"), 80)
    assert found["GPU 1"]["2 workers"] == {"weights": 1.0, "keys_and_values": 1.0} and found["GPU 2"]["a worker"] == {"weights": 0.5, "keys_and_values": 0.5}
    ray = devices(configured("mars/kuhn-smol", *base, "scale.fleet=ray", "scale.address=auto", "scale.gpus_per_worker=0.25"), 80)
    assert ray["a GPU of the Ray cluster"]["4 workers"]["weights"] == 2.0
    shared = devices(configured("mars/kuhn-smol", *base, "scale.fleet=processes", "scale.share_gpus=true"), 80)
    assert list(shared) == ["GPU 0"] and shared["GPU 0"]["3 workers"]["weights"] == 1.5


@pytest.mark.parametrize("recipe", SMOL)
def test_small_recipes_with_vllm_on_a_cpu_have_a_plan(recipe, monkeypatch):
    monkeypatch.setattr(plan_devices, "available_bytes", lambda: 16 * GIB)
    for how in ("sampler=vllm", "sampler.name=vllm"):
        found = devices(configured(recipe, how), 80)["this machine"]
        assert found["replica 0 of vLLM"]["weights"] == 1.0 and found["replica 0 of vLLM"]["program"] == 0.9  # twice, as weights are packed
        assert "keys_and_values" not in found["training process"] and found["fits"] == "yes, there are 16.0 GiB"


def test_the_command_says_devices_and_hours():
    found = planned("mars/kuhn-smol", "sampler=vllm")
    assert "replica 0 of vLLM" in found["devices"]["this machine"] and not [key for key in found["model"] if key.startswith("memory")]
    assert found["model"]["needs"] == "what devices say below" and "arithmetic" in found["time"]
    assert "devices" not in planned("kuhn-tiny", "steps=1")
    paper = planned("mars/kuhn-paper", EIGHT)
    assert paper["time"].startswith("unknown; state --assume play=TOKENS")
    timed = planned("mars/kuhn-paper", EIGHT, "--assume", "play=2500", "--assume", "learn=8000", "--assume", "gpu_gb=48")
    assert timed["devices"]["GPU 0"]["fits"].startswith("NO, there are 43.2 GiB")
    outcome = CliRunner().invoke(app, ["train", "kuhn-tiny", "--assume", "play=1"])
    assert "write --dry-run beside them" in str(outcome.exception)


def test_hours_by_hand():
    """200 steps sample 786,432 tokens, 4,096 of every 4,160 that are learnt from."""
    config, rates = configured("mars/kuhn-paper", EIGHT), assumed(["play=1000", "learn=2000"])
    step = 786432 / (4 * 1000) + 786432 * (1 + 64 / 4096) / (4 * 2000)
    assert by_rates(config, rates).startswith(f"{200 * step / 3600:.1f} hours at most: in a step 786,432 tokens are sampled by 4")
    ray = configured("mars/kuhn-paper", "with=scale/ray-gpus", "scale.lag=1")
    assert players(ray) == 8 and players(configured("mars/kuhn-smol")) == 1
    assert by_rates(ray, rates).startswith(f"{200 * max(786432 / 8000, 786432 * (1 + 64 / 4096) / 8000) / 3600:.1f} hours") and "same time" in by_rates(ray, rates)
    assert by_rates(configured("spiral/kuhn-paper", EIGHT), rates).count("learnt from by 4 in") == 1


def test_hours_by_a_probe(tmp_path):
    times = dict.fromkeys(("unit", "play", "together", "learner", "seating", "write", "load", "message"), 0.01)
    found = Probe(recipe="a", steps=3, plays=32, unit_games=32, units=1, log_mean=0.0, log_sigma=0.1, alone=2.0, task_bytes=1, answer_bytes=1, weights_bytes=1, memory_bytes=1, **times)
    found.save(tmp_path / "scale.json")
    config = configured("mars/kuhn-smol")
    assert by_probe(config, tmp_path / "scale.json").startswith(f"{40 * 2 * 2 / 3600:.2f} hours: a step takes 4 s")
    workers = configured("mars/kuhn-smol", "scale.fleet=processes", "scale.workers=2")
    assert float(by_probe(workers, tmp_path / "scale.json").split()[0]) < 0.01
    assert "by" in planned("mars/kuhn-smol", "--times", str(tmp_path / "scale.json"))["time"]
    (tmp_path / "wrong.json").write_text(json.dumps({"version": 1}))
    with pytest.raises(ConfigError, match="holds no probe"):
        by_probe(config, tmp_path / "wrong.json")


@pytest.mark.parametrize(("text", "said"), [("play=0", "positive number; write play=80"), ("learn=fast", "positive number"), ("play=nan", "positive number"), ("gpu_gb=-1", "memory of a GPU"), ("play", "positive number")])
def test_figures_that_are_none_are_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        assumed([text])
    with pytest.raises(UnknownNameError, match=r"Unknown figure of --assume 'plays'.*'play'"):
        assumed(["plays=1"])
