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
from sparring.core.rng import Stream
from sparring.models.adapters import add_adapters
from sparring.models.architectures import architecture
from sparring.models.attention import prefix_tree
from sparring.models.language_model import LanguageModel
from sparring.models.tiny import AdaptedGpt2, Gpt2, tiny_model

IDS = [(5, 9, 3, 7, 1), (5, 9, 4)]
LLAMA_SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 24}


def build_gpt2():
    return tiny_model(vocabulary_size=12, stream=Stream.from_seed(0), hidden_size=16, heads=2).to_transformers().eval()


def build_llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=12, max_position_embeddings=32, **LLAMA_SIZES)).eval()


BUILDS = {
    "gpt2": (build_gpt2, ()),
    "gpt2 attention": (build_gpt2, ("c_attn",)),
    "gpt2 positions": (build_gpt2, ("wpe",)),
    "gpt2 one layer": (build_gpt2, ("h.0.mlp.c_fc",)),
    "llama": (build_llama, ()),
    "llama head": (build_llama, ("lm_head", "q_proj")),
    "llama embeddings": (build_llama, ("embed_tokens",)),
}


def model_with_adapters(name, seed=0):
    build, targets = BUILDS[name]
    return LanguageModel(add_adapters(build(), rank=2, alpha=4.0, targets=targets, stream=Stream.from_seed(seed)), None)


def logits(model):
    return model.logits(model.hidden(prefix_tree(IDS)))


@pytest.mark.parametrize("name", BUILDS)
def test_adapters_act_in_the_forward_pass_and_have_gradients(name):
    model, without_adapters = model_with_adapters(name), LanguageModel(BUILDS[name][0](), None)
    assert model.forward.shares_prefixes
    assert torch.allclose(logits(model), logits(without_adapters), atol=1e-6)  # new adapters leave the logits unchanged
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    assert (logits(model) - logits(without_adapters)).abs().max() > 1e-2
    model.check()  # compares with the forward pass of the network
    logits(model).log_softmax(-1)[:, 3].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize("name", BUILDS)
def test_adapters_depend_only_on_the_stream(name):
    torch.manual_seed(1)
    parameters = model_with_adapters(name).parameters()
    torch.manual_seed(2)
    assert all(torch.equal(a, b) for a, b in zip(parameters, model_with_adapters(name).parameters(), strict=True))
    assert not all(
        torch.equal(a, b) for a, b in zip(parameters, model_with_adapters(name, seed=1).parameters(), strict=True)
    )


@pytest.mark.parametrize("target", ["wte", "lm_head"])
def test_an_adapter_on_tied_embeddings_is_refused(target):
    with pytest.raises(ModelError, match="one matrix for its input embeddings and its head"):
        add_adapters(build_gpt2(), rank=2, alpha=4.0, targets=[target], stream=Stream.from_seed(0))


def test_gpt2_without_adapters_keeps_its_fused_products():
    assert type(architecture(build_gpt2())) is Gpt2
    assert type(model_with_adapters("gpt2 one layer").forward.parts) is AdaptedGpt2
    assert type(model_with_adapters("gpt2").clone().forward.parts) is AdaptedGpt2


ROPE_MODEL_SIZES = {
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
FIXED_SCALINGS = {
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


def llama_with_rope(rope):
    torch.manual_seed(0)
    return LanguageModel(LlamaForCausalLM(LlamaConfig(**ROPE_MODEL_SIZES, rope_parameters=rope)).eval(), None)


def phi3_with_rope(rope):
    torch.manual_seed(0)
    config = Phi3Config(**ROPE_MODEL_SIZES, original_max_position_embeddings=32, rope_parameters=rope)
    return LanguageModel(Phi3ForCausalLM(config).eval(), None)


@torch.no_grad()
def difference_beside_a_longer_sequence(model):
    short_sequence = tuple(range(1, 21))
    long_sequence = tuple(1 + index % 39 for index in range(7, 67))
    separate_tree, joint_tree = prefix_tree([short_sequence]), prefix_tree([short_sequence, long_sequence])
    separate_logits = model.logits(model.hidden(separate_tree)[separate_tree.node[0]])
    joint_logits = model.logits(model.hidden(joint_tree)[joint_tree.node[0, :20]])
    return (separate_logits - joint_logits).abs().max().item()


@pytest.mark.parametrize("build", [llama_with_rope, phi3_with_rope])
def test_longrope_depends_on_the_batch_and_is_refused(build):
    model = build(LONGROPE)
    assert difference_beside_a_longer_sequence(model) > 1e-3
    with pytest.raises(ModelError, match=r"longrope.*longest conversation in a batch.*rope_type is default"):
        model.check()


def test_dynamic_rope_scaling_is_refused_with_the_fix():
    model = llama_with_rope({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0})
    with pytest.raises(ModelError, match=r"'dynamic'.*rope_type default.*model.context=128"):
        model.check()


def test_dynamic_scaling_of_one_layer_type_is_refused():
    rope_of_full_attention = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    config = Gemma3TextConfig(
        **ROPE_MODEL_SIZES,
        head_dim=8,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": FIXED_SCALINGS["default"], "full_attention": rope_of_full_attention},
    )
    with pytest.raises(ModelError, match="'dynamic'"):
        LanguageModel(Gemma3ForCausalLM(config).eval(), None).check()


@pytest.mark.parametrize("kind", FIXED_SCALINGS)
def test_fixed_rope_scaling_is_accepted_and_does_not_depend_on_the_batch(kind):
    model = llama_with_rope(FIXED_SCALINGS[kind])
    model.check()
    assert difference_beside_a_longer_sequence(model) < 1e-5
