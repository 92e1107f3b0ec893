"""Layers: what machines a run has, laid over any recipe by ``with=``."""

import pytest

from sparring.config.recipe import apply_overrides, layers, load_recipe, recipe_names
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.report.catalogue import entries, explanation


def test_a_layer_lies_over_the_recipe_and_is_none():
    base = load_recipe("mars/kuhn-paper")
    found = apply_overrides(base, ["learner.micro_tokens=99", "learner.ranks=2", "with=scale/8-gpus"])
    assert found["learner"]["ranks"] == 2 and found["learner"]["micro_tokens"] == 99 and found["learner"]["sharding"] == "fsdp2"
    assert found["learner"]["minibatches"] == 16 and found["model"]["name"] == "Qwen/Qwen3-4B" and found["sampler"]["name"] == "vllm"
    assert "sharding" not in base["learner"], "the recipe itself stays"
    with pytest.raises(ConfigError, match=r"is laid over another one; write for example mars/kuhn-paper with=scale/8-gpus"):
        load_recipe("scale/8-gpus")
    assert not {*layers()} & {*recipe_names()}
    listed = {row["name"]: row for row in entries("recipes")}
    assert listed["scale/ray-gpus"]["kind"] == "layer" and "with=scale/ray-gpus" in listed["scale/ray-gpus"]["summary"]
    assert "sharding: fsdp2" in explanation("scale/8-gpus")


def test_several_layers_and_files_lie_over_one_another_in_order(tmp_path):
    (own := tmp_path / "mine.yaml").write_text("learner: {ranks: 8}\nmodel: {context: 99}\n")
    found = apply_overrides(load_recipe("mars/kuhn-paper"), [f"with=[scale/8-gpus, {own}]"])
    assert found["learner"]["ranks"] == 8 and found["model"]["device"] == "cuda" and found["model"]["context"] == 99
    twice = apply_overrides(load_recipe("mars/kuhn-paper"), ["with=scale/8-gpus", f"with={own}"])
    assert twice == found
    (both := tmp_path / "both.yaml").write_text("extends: [mars/kuhn-paper, scale/8-gpus]\n")
    assert load_recipe(str(both)) == apply_overrides(load_recipe("mars/kuhn-paper"), ["with=scale/8-gpus"])


@pytest.mark.parametrize("text", ["3", "null", "{a: b}", "[scale/8-gpus, 3]"])
def test_what_is_no_layer_is_refused(text):
    with pytest.raises(ConfigError, match=r"must name recipes: write with=scale/8-gpus"):
        apply_overrides({}, [f"with={text}"])
    with pytest.raises(UnknownNameError, match=r"Unknown layer 'scale/8-gpu'. Did you mean 'scale/8-gpus'"):
        apply_overrides({}, ["with=scale/8-gpu"])
    with pytest.raises(UnknownNameError, match="layer"):
        apply_overrides({}, ["with=kuhn-tiny"])
    with pytest.raises(ConfigError, match=r"There is no file 'no.yaml'"):
        apply_overrides({}, ["with=no.yaml"])
