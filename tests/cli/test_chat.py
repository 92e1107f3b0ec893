"""A pretrained chat model with adapters through the whole command line."""

import json

import pytest
import yaml

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import ConfigError
from sparring.engine.plan import process_memory
from sparring.models.load import load_language_model
from tests.cli.builders import call, succeed

CONFIG = """
steps: 2
environments: [{name: kuhn_poker, options: {style: STYLE}, illegal: {penalty: 1.0}}]
model: {name: FOLDER, lora: {rank: 4}, gradient_checkpointing: RECOMPUTE}
renderer: {name: chat, answer: boxed}
rollout: {games_per_step: 8, max_new_tokens: 6}
learner: {learning_rate: 0.001, average: 0.9}
evaluation: {every: 2, max_states: 100}
checkpoint: {every: 1}
threads: 1
"""


def sparring(*arguments):
    return succeed(*arguments).stdout


@pytest.fixture
def recipe(chat_folder, tmp_path):
    def write(recompute, style="full"):
        path = tmp_path / "chat.yaml"
        path.write_text(
            CONFIG.replace("FOLDER", str(chat_folder)).replace("RECOMPUTE", recompute).replace("STYLE", style)
        )
        return path

    return write


@pytest.mark.parametrize(("recompute", "style"), [("false", "full"), ("true", "brief")])
def test_a_chat_model_trains_resumes_and_exports(recipe, tmp_path, recompute, style):
    path = recipe(recompute, style)
    sparring("train", path, "--run", tmp_path / "whole", "steps=3")
    sparring("train", path, "--run", tmp_path / "parts")
    sparring("train", "--resume", "--run", tmp_path / "parts", "steps=3")
    whole, parts = ((tmp_path / run / "metrics.jsonl").read_text().splitlines() for run in ("whole", "parts"))
    assert whole[0] == parts[0] and len(whole) == len(parts) == 3
    last = json.loads(whole[-1])
    assert last["logprob_difference_max"] < 1e-4 and 0 <= last["nash_conv/kuhn_poker"] < 4
    sparring("export", tmp_path / "whole", tmp_path / "out")
    load_language_model(tmp_path / "out")


def test_two_runs_of_a_chat_model_are_bit_equal(recipe, tmp_path):
    for run in ("one", "two"):
        sparring("train", recipe("false", "brief"), "--run", tmp_path / run)
    assert (tmp_path / "one" / "metrics.jsonl").read_bytes() == (tmp_path / "two" / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("name", "count", "source"),
    [
        ("Qwen/Qwen3-4B", 4_022_468_096, "its published configuration"),
        ("some/model-4B", 4_000_000_000, "its name"),
        ("some/model-350m-chat", 350_000_000, "its name"),
        ("some/other", None, None),
    ],
)
def test_the_plan_says_what_a_model_needs(recipe, name, count, source):
    plan = sparring("train", recipe("false"), f"model.name={name}", "--dry-run")
    plan = yaml.safe_load(plan)["plan"]
    model, needs = plan["model"], plan["needs"]
    if count is None:
        assert needs.startswith("unknown")
    else:
        assert model["parameters"] == count and source in model["parameters_from"]
        parts = process_memory(resolve(apply_overrides(load_recipe(str(recipe("false"))), [f"model.name={name}"])))[
            "training process"
        ].parts
        assert parts["weights"] == 4 * count
        assert parts["training"] == round(0.01 * count) * 4 * (3 + 1)  # adapters, and an average
        assert plan["memory_gib"] == pytest.approx(sum(parts.values()) / 2**30, abs=0.06)
        assert ("activations left out" in needs) == (source == "its name")
        assert ("activations_and_logits" in parts) == (source != "its name") and ("No GPU is needed" in needs) == (
            count < 10**9
        )


def test_the_plan_counts_parameters_and_says_how_the_model_speaks(recipe, chat_folder):
    plan = sparring("train", recipe("false"), "--dry-run")
    plan = yaml.safe_load(plan)["plan"]
    network = load_language_model(chat_folder).network
    assert plan["model"]["parameters"] == sum(p.numel() for p in network.parameters()) and "fits" in plan["needs"]
    keeps = "sampler={name: in_process, cache_bytes: 536870912}"
    plan = yaml.safe_load(sparring("train", recipe("false"), keeps, "--dry-run"))["plan"]
    assert plan["renderer"] == {
        "name": "chat", "system": "", "thinking": False, "history": "keep", "answer": "boxed", "template": None, "date": "2024-07-26"
    }  # fmt: skip
    parts = process_memory(resolve(apply_overrides(load_recipe(str(recipe("false"))), [keeps])))[
        "training process"
    ].parts
    assert parts["keys_and_values_kept"] == 2**29 and parts["activations_and_logits"] > 0
    assert "GiB on the first GPU (an estimate)" in sparring(
        "train", recipe("false"), "model.device=cuda:77", "--dry-run"
    )


@pytest.mark.parametrize("device", ["cuda:77", "abacus"])
def test_a_device_that_is_not_there_is_named(recipe, tmp_path, device):
    outcome = call("train", recipe("false"), f"model.device={device}", "--run", tmp_path / "run")
    assert isinstance(outcome.exception, ConfigError) and "model.device=auto" in str(outcome.exception)


def test_thoughts_leave_exact_evaluation_out_and_say_so(recipe, tmp_path):
    path, thinking = recipe("false"), "renderer={name: chat, answer: tagged, thinking: true, history: strip}"
    outcome = succeed("train", path, thinking, "--run", tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2 and not any("nash_conv/kuhn_poker" in row for row in rows)
    assert "renderer.thinking" in outcome.output
    succeed("evaluate", tmp_path / "run", "--games", 2, "--opponent", "random")
