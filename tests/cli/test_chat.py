"""A pretrained chat model with adapters: train, resume, plan, evaluate and export on the command line."""

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


def stdout_of(*arguments):
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
    stdout_of("train", path, "--run", tmp_path / "whole", "steps=3")
    stdout_of("train", path, "--run", tmp_path / "parts")
    stdout_of("train", "--resume", "--run", tmp_path / "parts", "steps=3")
    whole_lines, resumed_lines = (
        (tmp_path / run / "metrics.jsonl").read_text().splitlines() for run in ("whole", "parts")
    )
    assert whole_lines[0] == resumed_lines[0] and len(whole_lines) == len(resumed_lines) == 3
    last_metrics = json.loads(whole_lines[-1])
    assert last_metrics["logprob_difference_max"] < 1e-4 and 0 <= last_metrics["nash_conv/kuhn_poker"] < 4
    stdout_of("export", tmp_path / "whole", tmp_path / "out")
    load_language_model(tmp_path / "out")


def test_two_runs_of_a_chat_model_are_bit_equal(recipe, tmp_path):
    for run in ("one", "two"):
        stdout_of("train", recipe("false", "brief"), "--run", tmp_path / run)
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
def test_the_plan_estimates_the_memory_of_a_model(recipe, name, count, source):
    plan = stdout_of("train", recipe("false"), f"model.name={name}", "--dry-run")
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
        # adapters of 1 % of the weights, 4 bytes each: 3 copies to train and 1 of the EMA
        assert parts["training"] == round(0.01 * count) * 4 * (3 + 1)
        assert plan["memory_gib"] == pytest.approx(sum(parts.values()) / 2**30, abs=0.06)
        assert ("without activations" in needs) == (source == "its name")
        assert ("activations_and_logits" in parts) == (source != "its name") and ("No GPU is needed" in needs) == (
            count < 10**9
        )


def test_the_plan_counts_parameters_and_shows_the_renderer(recipe, chat_folder):
    plan = stdout_of("train", recipe("false"), "--dry-run")
    plan = yaml.safe_load(plan)["plan"]
    network = load_language_model(chat_folder).network
    assert plan["model"]["parameters"] == sum(p.numel() for p in network.parameters()) and "fits" in plan["needs"]
    cached_sampler = "sampler={name: in_process, cache_bytes: 536870912}"
    plan = yaml.safe_load(stdout_of("train", recipe("false"), cached_sampler, "--dry-run"))["plan"]
    assert plan["renderer"] == {
        "name": "chat", "system": "", "thinking": False, "history": "keep", "answer": "boxed", "template": None, "date": "2024-07-26"
    }  # fmt: skip
    parts = process_memory(resolve(apply_overrides(load_recipe(str(recipe("false"))), [cached_sampler])))[
        "training process"
    ].parts
    assert parts["keys_and_values_kept"] == 2**29 and parts["activations_and_logits"] > 0
    assert "GiB on the first GPU (an estimate)" in stdout_of(
        "train", recipe("false"), "model.device=cuda:77", "--dry-run"
    )


@pytest.mark.parametrize("device", ["cuda:77", "abacus"])
def test_a_missing_device_is_refused_by_name(recipe, tmp_path, device):
    outcome = call("train", recipe("false"), f"model.device={device}", "--run", tmp_path / "run")
    assert isinstance(outcome.exception, ConfigError) and "model.device=auto" in str(outcome.exception)


def test_with_thoughts_exact_evaluation_is_skipped_with_a_note(recipe, tmp_path):
    path, thinking = recipe("false"), "renderer={name: chat, answer: tagged, thinking: true, history: strip}"
    outcome = succeed("train", path, thinking, "--run", tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2 and not any("nash_conv/kuhn_poker" in row for row in rows)
    assert "renderer.thinking" in outcome.output
    succeed("evaluate", tmp_path / "run", "--games", 2, "--opponent", "random")
