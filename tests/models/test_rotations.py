"""Rotary positions that depend on who shares the batch are refused; all others pass and depend on nobody."""

import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
)

from sparring.core.errors import ModelError
from sparring.models.language_model import LanguageModel
from sparring.models.prefixes import prefix_tree

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "pad_token_id": 0,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0] * 4,
    "original_max_position_embeddings": 32,
}
KEPT = {
    "default": {"rope_type": "default", "rope_theta": 10000.0},
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
    "yarn": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32},
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
}


def llama(rope):
    torch.manual_seed(0)
    return LanguageModel(LlamaForCausalLM(LlamaConfig(**SHAPE, rope_parameters=rope)).eval(), None)


def phi3(rope):
    torch.manual_seed(0)
    config = Phi3Config(**SHAPE, original_max_position_embeddings=32, rope_parameters=rope)
    return LanguageModel(Phi3ForCausalLM(config).eval(), None)


@torch.no_grad()
def shift_beside_a_longer_one(model):
    """Return how much the logits of 20 tokens differ beside 60 tokens from those alone."""
    short = tuple(range(1, 21))
    long = tuple(1 + index % 39 for index in range(7, 67))
    alone, both = prefix_tree([short]), prefix_tree([short, long])
    first = model.logits(model.hidden(alone)[alone.node[0]])
    second = model.logits(model.hidden(both)[both.node[0, :20]])
    return (first - second).abs().max().item()


@pytest.mark.parametrize("build", [llama, phi3])
def test_longrope_depends_on_the_batch_and_is_refused(build):
    model = build(LONGROPE)
    assert shift_beside_a_longer_one(model) > 1e-3
    with pytest.raises(ModelError, match=r"longrope.*longest conversation in a batch.*rope_type is default"):
        model.check()


def test_dynamic_scaling_is_refused_with_what_to_write():
    model = llama({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0})
    with pytest.raises(ModelError, match=r"'dynamic'.*rope_type default.*model.context=128"):
        model.check()


def test_one_layer_type_is_enough():
    full = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    config = Gemma3TextConfig(
        **SHAPE,
        head_dim=8,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": KEPT["default"], "full_attention": full},
    )
    with pytest.raises(ModelError, match="'dynamic'"):
        LanguageModel(Gemma3ForCausalLM(config).eval(), None).check()


@pytest.mark.parametrize("kind", KEPT)
def test_rotations_that_are_fixed_pass_and_do_not_depend_on_the_batch(kind):
    model = llama(KEPT[kind])
    model.check()
    assert shift_beside_a_longer_one(model) < 1e-5
