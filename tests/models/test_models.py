import math

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from sparring.core.errors import ModelError
from sparring.core.rng import Stream
from sparring.methods.features.entropy import entropy
from sparring.models import attention
from sparring.models.architectures import architecture
from sparring.models.attention import prefix_tree
from sparring.models.language_model import LanguageModel, logprobs_agree
from sparring.models.load import load_language_model
from sparring.models.tiny import tiny_model, tiny_tokenizer
from tests.hugging_face import hugging_face

WORDS = ("bet", "pass", "J", "Q", "K")


def build_tiny(seed=0, **sizes):
    tokenizer = tiny_tokenizer(WORDS)
    return LanguageModel(tiny_model(vocabulary_size=len(tokenizer), stream=Stream.from_seed(seed), **sizes), tokenizer)


def some_ids(batch, length, vocabulary=10, seed=0):
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(seed))


def ids_with_shared_prefixes(length):
    """Return seven unsorted sequences that share more than half of their positions."""
    ids = some_ids(7, length)
    ids[1, : length - 1] = ids[0, : length - 1]
    ids[3, : length // 2] = ids[0, : length // 2]
    for row in (2, 4, 5, 6):
        ids[row, : length - 2] = ids[3, : length - 2]
    return ids


def full_hidden_states(model, ids):
    """Return the hidden states [R, T, C] of complete sequences [R, T]."""
    tree = prefix_tree([tuple(row) for row in ids.tolist()])
    return model.hidden(tree)[tree.node]


SHAPE = {"vocab_size": 10, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 12}
SHAPE |= {"num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 64, "initializer_range": 0.2}
FAMILIES = {
    "tiny": lambda: build_tiny(hidden_size=48, layers=3, heads=3).network,
    "gpt2": lambda: build_tiny(hidden_size=48, layers=3, heads=3).network.to_transformers(),
    "gpt2-one": lambda: build_tiny(layers=1, heads=1).network.to_transformers(),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, attention_bias=True, tie_word_embeddings=True)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**{**SHAPE, "head_dim": 8})),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE)),
    "whole": lambda: MistralForCausalLM(MistralConfig(**SHAPE)),
    "gemma3": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(
            **SHAPE, sliding_window=4, layer_types=["sliding_attention", "full_attention", "sliding_attention"]
        )
    ),
}


def build_family(name):
    network = FAMILIES[name]()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return LanguageModel(network.eval(), None)


@pytest.mark.parametrize("pairs", [0, attention.MAX_WHOLE_PAIRS])
@pytest.mark.parametrize("scores", [0, attention.MAX_EXPLICIT_SCORES])
@pytest.mark.parametrize("name", FAMILIES)
def test_lean_forward_equals_hugging_face(name, scores, pairs, monkeypatch):
    monkeypatch.setattr(attention, "MAX_EXPLICIT_SCORES", scores)
    monkeypatch.setattr(attention, "MAX_WHOLE_PAIRS", pairs)
    model, ids = build_family(name), ids_with_shared_prefixes(11)
    assert bool(prefix_tree([tuple(row) for row in ids.tolist()]).parts) == (pairs == 0)
    expected = hugging_face(model.network)(ids, attention_mask=torch.ones_like(ids)).logits
    assert torch.allclose(
        model.logits(full_hidden_states(model, ids).flatten(0, 1)).view_as(expected), expected, atol=2e-5
    )


@pytest.mark.parametrize(
    "name", [name for name in FAMILIES if name != "tiny"]
)  # the tiny model has no separate lean forward pass
def test_every_family_passes_the_model_check(name):
    build_family(name).check()


def test_a_model_that_scales_its_logits_is_refused():
    network = FAMILIES["whole"]()
    forward = network.forward
    network.forward = lambda **arguments: (lambda out: out.__class__(logits=3 * out.logits))(forward(**arguments))
    with pytest.raises(ModelError, match="log-probabilities differ"):
        LanguageModel(network.eval(), None).check()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_in_half_precision_the_check_uses_the_mean_difference(dtype):
    """In bfloat16 a few log-probabilities of SmolLM2 are wrong by several units, in either forward pass."""
    exact_logprobs = torch.linspace(-20, -1, 200).view(4, 50)
    one_wrong, all_wrong, not_finite = exact_logprobs.clone(), exact_logprobs + 0.6, exact_logprobs.clone()
    one_wrong[2, 7] += 4.9
    not_finite[0, 0] = torch.nan
    assert logprobs_agree(exact_logprobs, exact_logprobs, dtype)
    assert logprobs_agree(one_wrong, exact_logprobs, dtype) == (dtype != torch.float32)
    assert not logprobs_agree(all_wrong, exact_logprobs, dtype)
    assert not logprobs_agree(not_finite, exact_logprobs, dtype)
    assert logprobs_agree(exact_logprobs + 5e-4, exact_logprobs, dtype)


@pytest.mark.parametrize("pairs", [0, attention.MAX_WHOLE_PAIRS])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_lean_gradients_equal_hugging_face(name, recompute, pairs, monkeypatch):
    monkeypatch.setattr(attention, "MAX_WHOLE_PAIRS", pairs)
    model, ids = build_family(name), ids_with_shared_prefixes(7)
    model.forward.recompute = recompute
    gradients = []
    for forward in (
        lambda: hugging_face(model.network)(ids, attention_mask=torch.ones_like(ids)).logits,
        lambda: model.logits(full_hidden_states(model, ids)),
    ):
        model.network.zero_grad()
        forward().log_softmax(-1)[..., 3].sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for gradient, expected_gradient in zip(*gradients, strict=True):
        assert torch.allclose(gradient, expected_gradient, atol=2e-4, rtol=1e-4)


@pytest.mark.always
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("chunks", [[11], [1] * 11, [4, 1, 6]])
def test_extending_in_chunks_equals_one_forward_pass(name, chunks):
    model, ids = build_family(name), some_ids(3, 11)
    expected, cache, position, outputs = full_hidden_states(model, ids), model.new_cache(3, 14), 0, []
    for size in chunks:
        outputs.append(model.extend(ids[:, position : position + size], torch.full((3,), position), cache))
        position += size
    assert torch.allclose(torch.cat(outputs, 1), expected, atol=2e-5)


@pytest.mark.parametrize("pairs", [0, attention.MAX_WHOLE_PAIRS])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_cache_filled_from_a_prefix_tree_can_be_extended(name, pairs, monkeypatch):
    monkeypatch.setattr(attention, "MAX_WHOLE_PAIRS", pairs)
    model, ids = build_family(name), ids_with_shared_prefixes(9)
    cache = model.new_cache(len(ids), 12)
    with torch.no_grad():
        model.hidden(prefix_tree([tuple(row) for row in ids[:, :6].tolist()]), cache)
    states = model.extend(ids[:, 6:], torch.full((len(ids),), 6), cache)
    assert torch.allclose(states, full_hidden_states(model, ids)[:, 6:], atol=2e-5)


def test_rows_of_different_lengths_ignore_padding():
    model, ids = build_tiny(), some_ids(2, 9)
    cache = model.new_cache(2, 16)
    model.extend(ids[:, :5], torch.tensor([0, 0]), cache)  # row 1 uses 3 of these 5; the rest is padding
    states = model.extend(ids[:, 5:7], torch.tensor([5, 3]), cache)
    separate_row = torch.cat([ids[1, :3], ids[1, 5:7]])[None]
    assert torch.allclose(states[1], full_hidden_states(model, separate_row)[0, 3:], atol=1e-5)
    assert torch.allclose(states[0], full_hidden_states(model, ids[:1, :7])[0, 5:], atol=1e-5)


def test_gelu_is_supported_and_dropout_is_not():
    network = build_tiny().network.to_transformers()
    network.config.activation_function = "gelu_new"
    assert architecture(network) is not None
    network.config.attn_pdrop = 0.1
    assert architecture(network) is None
    # the model uses the forward pass of Hugging Face
    assert not LanguageModel(network.eval(), None).forward.shares_prefixes


def test_a_new_model_depends_on_its_seed_and_is_close_to_uniform():
    model = build_tiny()
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(109_000, abs=500)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), build_tiny().parameters(), strict=True))
    assert not torch.equal(next(iter(model.parameters())), next(iter(build_tiny(1).parameters())))
    logits = model.logits(full_hidden_states(model, some_ids(4, 6)).flatten(0, 1))
    assert entropy(logits).mean() > 0.75 * math.log(logits.shape[1])


def test_saved_models_load_in_hugging_face(tmp_path):
    model = build_tiny()
    model.save(tmp_path)
    network, tokenizer = AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    ids = torch.tensor([tokenizer("bet pass K")["input_ids"]])
    assert ids.shape == (1, 3)
    loaded_model = load_language_model(tmp_path)
    assert torch.allclose(network(ids).logits[0], loaded_model.logits(full_hidden_states(model, ids)[0]), atol=1e-5)
    assert tokenizer.get_vocab() == model.tokenizer.get_vocab()


def test_a_damaged_weights_file_is_refused(tmp_path):
    build_tiny().save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x80\x04pickle?")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_language_model(tmp_path)


def test_a_clone_has_separate_weights():
    model = build_tiny()
    clone = model.clone()
    with torch.no_grad():
        next(iter(model.parameters())).add_(1.0)
    assert not torch.equal(next(iter(model.parameters())), next(iter(clone.parameters())))
