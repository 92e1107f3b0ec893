"""Low-rank adapters on every family with a forward pass of our own: they take part, and all of them learn."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from sparring.core.errors import ModelError
from sparring.core.rng import Stream
from sparring.models.adapters import add_adapters
from sparring.models.architectures import architecture
from sparring.models.gpt2 import AdaptedGpt2, Gpt2
from sparring.models.language_model import LanguageModel
from sparring.models.prefixes import prefix_tree
from sparring.models.tiny import tiny_model

IDS = [(5, 9, 3, 7, 1), (5, 9, 4)]
SHAPE = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 24}


def gpt2():
    return tiny_model(vocabulary_size=12, stream=Stream.from_seed(0), hidden_size=16, heads=2).to_transformers().eval()


def llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=12, max_position_embeddings=32, **SHAPE)).eval()


BUILDS = {
    "gpt2": (gpt2, ()),
    "gpt2 attention": (gpt2, ("c_attn",)),
    "gpt2 positions": (gpt2, ("wpe",)),
    "gpt2 one layer": (gpt2, ("h.0.mlp.c_fc",)),
    "llama": (llama, ()),
    "llama head": (llama, ("lm_head", "q_proj")),
    "llama embeddings": (llama, ("embed_tokens",)),
}


def adapted(name, seed=0):
    build, targets = BUILDS[name]
    return LanguageModel(add_adapters(build(), rank=2, alpha=4.0, targets=targets, stream=Stream.from_seed(seed)), None)


def logits(model):
    return model.logits(model.hidden(prefix_tree(IDS)))


@pytest.mark.parametrize("name", BUILDS)
def test_adapters_take_part_in_the_forward_pass(name):
    model, plain = adapted(name), LanguageModel(BUILDS[name][0](), None)
    assert model.forward.shares_prefixes
    assert torch.allclose(logits(model), logits(plain), atol=1e-6)  # at the start they change nothing
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    assert (logits(model) - logits(plain)).abs().max() > 1e-2
    model.check()  # against the network's own forward


@pytest.mark.parametrize("name", BUILDS)
def test_every_adapter_has_a_gradient(name):
    model = adapted(name)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    logits(model).log_softmax(-1)[:, 3].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize("name", BUILDS)
def test_adapters_are_drawn_from_the_stream_alone(name):
    torch.manual_seed(1)
    first = adapted(name).parameters()
    torch.manual_seed(2)
    assert all(torch.equal(a, b) for a, b in zip(first, adapted(name).parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, adapted(name, seed=1).parameters(), strict=True))


@pytest.mark.parametrize("target", ["wte", "lm_head"])
def test_an_adapter_on_tied_embeddings_is_refused(target):
    with pytest.raises(ModelError, match="one matrix for its input embeddings and its head"):
        add_adapters(gpt2(), rank=2, alpha=4.0, targets=[target], stream=Stream.from_seed(0))


def test_a_plain_gpt2_keeps_its_fused_products():
    assert type(architecture(gpt2())) is Gpt2
    assert type(adapted("gpt2 one layer").forward.parts) is AdaptedGpt2
    assert type(adapted("gpt2").clone().forward.parts) is AdaptedGpt2
