"""Sizes of models that are not on this machine."""

import pytest

from sparring.config.recipe import load_recipe, recipe_names
from sparring.core.errors import ModelError, UnknownNameError
from sparring.models.memory import Shape, count_parameters
from sparring.models.pretrained import KNOWN, known_config, known_size


@pytest.mark.parametrize(("name", "billions"), [("0.6B", 0.596), ("1.7B", 1.72), ("4B", 4.02), ("4B-Base", 4.02), ("8B", 8.19)])
def test_parameters_are_those_of_the_published_weights(name, billions):
    """As the models' pages say them."""
    parameters, shape, source = known_size(f"Qwen/Qwen3-{name}")
    assert parameters == pytest.approx(billions * 1e9, rel=2e-3) and source.startswith("its published configuration")
    assert parameters == count_parameters(known_config(f"Qwen/Qwen3-{name}")) and shape.vocabulary == 151936


def test_the_count_by_hand():
    """Embeddings, and per block: queries, keys, values, the way out, two norms of heads, three of the feed-forward layers, two norms."""
    hidden, inner, layers, width = 2560, 9728, 36, 128
    block = hidden * (32 + 8 + 8) * width + 32 * width * hidden + 2 * width + 3 * hidden * inner + 2 * hidden
    assert known_size("Qwen/Qwen3-4B")[0] == 151936 * hidden + layers * block + hidden
    assert known_size("Qwen/Qwen3-4B")[1] == Shape(layers=36, hidden=2560, inner=9728, attention=6144, vocabulary=151936)


def test_models_that_recipes_name_are_known():
    named = {load_recipe(name).get("model", {}).get("name", "tiny") for name in recipe_names()}
    assert named - {"tiny"} <= set(KNOWN)


@pytest.mark.parametrize(("name", "parameters"), [("smollm2-135m", 134_515_008), ("gemma3-270m", 268_098_176)])
def test_a_packaged_model_has_its_size_before_it_is_converted(name, parameters, tmp_path, monkeypatch):
    """As their pages say: 134.5 and 268 million."""
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path))
    found = known_size(name)
    assert found[0] == parameters and found[1] is not None and found[2].startswith("its published configuration")
    assert not any(tmp_path.iterdir())


def test_a_plan_refuses_the_name_that_a_run_refuses(tmp_path):
    """`model.name=qwen3-0.6b` was planned with 600 million parameters "from its name", and then refused by the run."""
    with pytest.raises(UnknownNameError, match=r"Unknown model 'qwen3-0\.6b'.*Did you mean the Hugging Face id Qwen/Qwen3-0\.6B\?"):
        known_size("qwen3-0.6b")
    with pytest.raises(ModelError, match="is not a model folder"):
        known_size(str(tmp_path))
    assert known_size("owner/some-4B")[0] == 4_000_000_000
