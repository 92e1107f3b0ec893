import json
import os
import random
import shutil
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from sparring.core.errors import ModelError
from sparring.core.rng import Stream
from sparring.models import forward_pass
from sparring.models.architectures import architecture
from sparring.models.attention import prefix_tree
from sparring.models.forward_pass import CompiledShape, decoding_of, library, shape_of
from sparring.models.language_model import LanguageModel
from sparring.models.load import load_language_model
from sparring.models.tiny import tiny_model, tiny_tokenizer

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
SHAPES = [
    (64, 4, 2, "relu"),
    (128, 2, 1, "gelu_new"),
    (32, 8, 3, "relu"),
    (48, 3, 2, "gelu_new"),
    (16, 1, 1, "relu"),
    (60, 4, 2, "relu"),
    (7, 1, 1, "relu"),
    (24, 2, 1, "gelu_new"),
]
VOCABULARY, CONTEXT = 50, 80


def build_gpt2(width=64, heads=4, layers=2, activation="relu"):
    """Return a GPT-2 whose weights, gains and biases are random and far from zero."""
    sizes = {"n_embd": width, "n_head": heads, "n_layer": layers, "n_positions": CONTEXT, "vocab_size": VOCABULARY}
    dropout = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
    network = GPT2LMHeadModel(GPT2Config(**sizes, **dropout, activation_function=activation))
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.15 * torch.randn(weight.shape, generator=rng))
    return LanguageModel(network.eval(), None)


def compiled_and_torch(model):
    """Return two models with the same weights: one with compiled code, one with torch."""
    torch_model = LanguageModel(model.network, None)
    torch_model.forward.compiled = None
    assert model.forward.compiled is not None
    return model, torch_model


def some_ids(*shape, seed=0):
    return torch.randint(0, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.always
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_code_agrees_with_torch(shape):
    model, torch_model = compiled_and_torch(build_gpt2(*shape))
    ids = some_ids(5, 70)
    caches = [either.new_cache(5, 80) for either in (model, torch_model)]
    positions = torch.zeros(5, dtype=torch.int64)
    for length in (1, 13, 2, 1, 30, 1, 1, 16):
        chunk, ids = ids[:, :length], ids[:, length:]
        hidden_states, expected = (
            either.extend(chunk, positions, cache) for either, cache in zip((model, torch_model), caches, strict=True)
        )
        assert torch.allclose(hidden_states, expected, atol=1e-5), length
        positions = positions + length
        # rows get different lengths, like replies; later positions are overwritten
        positions = (positions - torch.arange(5) % 2).clamp(min=0)
    assert torch.allclose(caches[0].tensor, caches[1].tensor, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_contexts_with_shared_prefixes_agree_with_torch(shape):
    model, torch_model = compiled_and_torch(build_gpt2(*shape))
    shared_prefix = tuple(some_ids(20).tolist())
    contexts = [shared_prefix, (*shared_prefix[:7], 3, 4), (*shared_prefix, 5), (9,), (*shared_prefix[:19], 8, 8, 8)]
    tree = prefix_tree(contexts)
    caches = [either.new_cache(5, 30) for either in (model, torch_model)]
    with torch.no_grad():
        hidden_states, expected = (
            either.hidden(tree, cache) for either, cache in zip((model, torch_model), caches, strict=True)
        )
    assert torch.allclose(hidden_states, expected, atol=1e-5)
    for row, ids in enumerate(contexts):
        compiled_cache, torch_cache = (cache.tensor[:, :, row, :, : len(ids)] for cache in caches)
        assert torch.allclose(compiled_cache, torch_cache, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_bits_of_a_token_do_not_depend_on_the_batch(shape):
    model = build_gpt2(*shape)
    ids, expected = some_ids(9, 40), None
    for rows in ([*range(9)], [4], [4, 2], [0, 4, 8, 1, 2, 3, 5]):
        for sizes in ((40,), (1,) * 40, (17, 1, 22)):
            cache, position, outputs = model.new_cache(len(rows), 64), 0, []
            for size in sizes:
                positions = torch.full((len(rows),), position)
                outputs.append(model.extend(ids[rows, position : position + size], positions, cache))
                position += size
            hidden_states = torch.cat(outputs, 1)[rows.index(4)]
            expected = hidden_states if expected is None else expected
            assert torch.equal(hidden_states, expected), (rows, sizes)
    tree = prefix_tree([tuple(ids[row].tolist()) for row in (7, 4)])
    with torch.no_grad():
        assert torch.equal(model.hidden(tree, model.new_cache(2, 64))[tree.node[1]], expected)


def test_large_attention_scores_agree_with_torch():
    model, torch_model = compiled_and_torch(build_gpt2())
    with torch.no_grad():
        for block in model.network.transformer.h:
            block.attn.c_attn.weight.mul_(30)
    ids, positions = some_ids(3, 40), torch.zeros(3, dtype=torch.int64)
    hidden_states, expected = (
        either.extend(ids, positions, either.new_cache(3, 64)) for either in (model, torch_model)
    )
    assert torch.isfinite(hidden_states).all()
    assert torch.allclose(hidden_states, expected, atol=1e-3)


def test_compiled_code_uses_updated_weights():
    model = build_gpt2()
    ids, positions = some_ids(2, 3), torch.zeros(2, dtype=torch.int64)
    states_before = model.extend(ids, positions, model.new_cache(2, 16))
    model.load_tensors({name: tensor * 1.5 for name, tensor in model.tensors().items()})
    states_after = model.extend(ids, positions, model.new_cache(2, 16))
    torch_model = compiled_and_torch(model)[1]
    assert not torch.allclose(states_before, states_after, atol=1e-3)
    assert torch.allclose(states_after, torch_model.extend(ids, positions, torch_model.new_cache(2, 16)), atol=1e-5)


@pytest.mark.parametrize("ids, start", [([[VOCABULARY]], 0), ([[-1]], 0), ([[1]], 16), ([[1, 2]], 15), ([[1]], -1)])
def test_ids_and_positions_out_of_range_are_refused(ids, start):
    model = build_gpt2()
    cache = model.new_cache(1, 16)
    with pytest.raises(IndexError, match="where there are"):
        model.extend(torch.tensor(ids), torch.tensor([start]), cache)


def test_the_tiny_model_is_compiled_and_other_models_use_torch():
    assert shape_of(build_gpt2().forward.parts) == CompiledShape(64, 4, True, 1e-5)
    assert shape_of(build_gpt2(width=256, heads=4).forward.parts) is None  # large models use the threads of torch
    parts = build_gpt2(width=16, heads=2, layers=1).forward.parts
    for parts.epsilon in (float("nan"), float("inf"), -1.0):
        assert shape_of(parts) is None
    tiny = LanguageModel(tiny_model(vocabulary_size=30, stream=Stream.from_seed(0)), None)
    assert decoding_of(tiny.forward.parts) == "compiled"
    half_precision = architecture(build_gpt2().network.to(torch.bfloat16))
    assert shape_of(half_precision) is None
    assert decoding_of(half_precision) == "torch"


@pytest.mark.parametrize(
    "compiler, reason",
    [
        ("none", "CC=none"),
        ("no-such-compiler", "no C compiler 'no-such-compiler' (name one in $CC)"),
        ("false", "the C compiler 'false' failed: no message"),
    ],
)
def test_without_a_compiler_torch_is_used_and_the_reason_is_given(compiler, reason, monkeypatch):
    monkeypatch.setenv("CC", compiler)
    model = build_gpt2()
    assert decoding_of(model.forward.parts) == f"torch: {reason}"
    assert model.forward.compiled is None
    hidden_states = model.extend(some_ids(2, 3), torch.zeros(2, dtype=torch.int64), model.new_cache(2, 8))
    assert torch.isfinite(hidden_states).all()


def test_code_with_wrong_results_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "cache"))
    wrong_source = tmp_path / "wrong.c"
    wrong_source.write_text(forward_pass.SOURCE.read_text().replace("count = last + 1", "count = last"))
    monkeypatch.setattr(forward_pass, "SOURCE", wrong_source)
    forward_pass._library.cache_clear()
    with pytest.raises(ModelError, match=r"differs by .* use torch with CC=none"):
        assert build_gpt2().forward.compiled
    forward_pass._library.cache_clear()


def test_nan_weights_are_not_reported_as_an_error_of_the_code():
    model = build_gpt2()
    with torch.no_grad():
        model.network.transformer.wte.weight[0] = torch.nan
    assert model.forward.compiled is not None


def test_the_check_draws_nothing_from_the_global_generator():
    torch.manual_seed(1)
    expected = torch.get_rng_state()
    forward_pass._check_compiled.cache_clear()
    model = build_gpt2()
    torch.set_rng_state(expected)
    assert model.forward.compiled is not None
    assert torch.equal(torch.get_rng_state(), expected)


def test_if_code_cannot_be_compiled_stored_or_loaded_torch_is_used(monkeypatch, tmp_path):
    shape = CompiledShape(64, 4, True, 1e-5)
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "first"))
    broken_source = tmp_path / "broken.c"
    broken_source.write_text("void forward(void) { nonsense }")
    with monkeypatch.context() as patch:
        patch.setattr(forward_pass, "SOURCE", broken_source)
        assert "failed: " in library(shape)
        assert "nonsense" in library(shape)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "file"))
    assert "cannot be kept or loaded" in library(shape)


def test_code_is_cached_and_compiled_again_if_damaged(monkeypatch, tmp_path):
    shape = CompiledShape(32, 2, True, 1e-5)
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "one"))
    library(shape)
    (file,) = (tmp_path / "one" / "compiled").iterdir()
    file_bytes, modified_at = file.read_bytes(), file.stat().st_mtime_ns
    forward_pass._library.cache_clear()
    library(shape)
    assert file.stat().st_mtime_ns == modified_at
    for index, damage in enumerate((b"", b"no code", file_bytes[:-300], file_bytes[:2000] + b"x" + file_bytes[2001:])):
        monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / f"damaged {index}"))
        damaged_file = tmp_path / f"damaged {index}" / "compiled" / file.name
        damaged_file.parent.mkdir(parents=True)
        damaged_file.write_bytes(damage)
        assert not isinstance(library(shape), str)
        assert damaged_file.read_bytes() == file_bytes


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_code_that_other_users_can_write_is_not_loaded(mode, monkeypatch, tmp_path):
    """A user who can write the code can also write its digest."""
    shape = CompiledShape(8, 1, True, 1e-5)
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path))
    library(shape)
    (path,) = (tmp_path / "compiled").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    inode = path.stat().st_ino
    path.chmod(mode)
    path.parent.chmod(0o777)
    forward_pass._library.cache_clear()
    assert not isinstance(library(shape), str)
    assert path.stat().st_ino != inode, "the file was not replaced"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("owned_path", ["file", "folder"])
def test_code_of_another_user_is_not_loaded(owned_path, monkeypatch, tmp_path):
    shape = CompiledShape(8, 1, True, 1e-5)
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path))
    library(shape)
    (path,) = (tmp_path / "compiled").iterdir()
    cache_folder, original_fstat, inode = (
        path.parent,
        os.fstat,
        (path if owned_path == "file" else path.parent).stat().st_ino,
    )

    def fstat(descriptor):
        status = original_fstat(descriptor)
        return SimpleNamespace(st_uid=os.geteuid() + 1, st_mode=status.st_mode) if status.st_ino == inode else status

    forward_pass._library.cache_clear()
    monkeypatch.setattr(os, "fstat", fstat)
    code = library(shape)
    if owned_path == "folder":
        assert "other users can write" in code and str(cache_folder) in code
        assert "name a folder of your own in $SPARRING_CACHE" in code
    else:
        assert not isinstance(code, str)
        assert path.stat().st_ino != inode, "the file was not replaced"


def test_renamed_code_of_another_shape_is_not_loaded(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path))
    library(CompiledShape(8, 1, True, 1e-5))
    (path,) = (tmp_path / "compiled").iterdir()
    library(CompiledShape(12, 1, True, 1e-5))
    (other_file,) = set((tmp_path / "compiled").iterdir()) - {path}
    expected, other_code = path.read_bytes(), other_file.read_bytes()
    path.write_bytes(other_code)
    forward_pass._library.cache_clear()
    library(CompiledShape(8, 1, True, 1e-5))
    assert path.read_bytes() == expected


def test_every_tensor_that_the_code_reads_has_its_shape_checked():
    network = build_gpt2(width=16, heads=2, layers=2).network
    names = [name for name, _ in network.named_parameters()]
    assert len(names) == 12 * 2 + 4  # the output head shares the embedding
    for name in names:
        module, _, leaf = name.rpartition(".")
        module, weight = network.get_submodule(module), network.get_parameter(name)
        for axis in range(weight.dim()):
            if axis == 0 and name.endswith(("wte.weight", "wpe.weight")):
                continue  # this size is the number of tokens or of positions
            for change in (-1, 1):
                shape = [size + change * (dimension == axis) for dimension, size in enumerate(weight.shape)]
                setattr(module, leaf, nn.Parameter(torch.zeros(shape)))
                assert shape_of(architecture(network)) is None, (name, shape)
        setattr(module, leaf, nn.Parameter(torch.zeros(*weight.shape, 1)))
        assert shape_of(architecture(network)) is None, name
        setattr(module, leaf, weight)
    network.config.n_layer = 3  # more layers than the weights have
    assert shape_of(architecture(network)) is None
    network.config.n_layer = 2
    assert shape_of(architecture(network)) == CompiledShape(16, 2, True, 1e-5)


def write_random_folder(folder, rng, widths):
    """Write a GPT-2 folder of random sizes; its configuration may be changed afterwards."""
    width, heads = rng.choice(widths)
    config = GPT2Config(
        n_embd=width,
        n_head=heads,
        n_layer=rng.randint(1, 3),
        n_positions=rng.choice([1, 2, 5, 11, 12, 13, 40]),
        vocab_size=rng.choice([6, 7, 20, 33]),
        n_inner=rng.choice([None, None, 4 * width, 1, width, 4 * width - 1, 4 * width + 1, 16 * width]),
        activation_function=rng.choice(["relu", "gelu_new"]),
        layer_norm_epsilon=rng.choice([1e-5, 1e-5, 1e-3]),
        tie_word_embeddings=rng.random() < 0.7,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
    )
    torch.manual_seed(rng.randrange(1 << 30))
    network = GPT2LMHeadModel(config)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.1 * torch.randn(weight.shape))
    network.save_pretrained(folder)
    tiny_tokenizer(["a"]).save_pretrained(folder)  # 6 tokens
    if rng.random() < 0.4:
        path = folder / "config.json"
        configuration = json.loads(path.read_text())
        name = rng.choice(
            ["n_embd", "n_inner", "n_positions", "n_ctx", "vocab_size", "n_layer", "n_head", "layer_norm_epsilon"]
        )
        value = (configuration.get(name) or 4) * rng.choice([2, 3, 0.5]) + rng.choice([-1, 0, 1])
        path.write_text(json.dumps({**configuration, name: value if name == "layer_norm_epsilon" else int(value)}))


def check_random_folder(folder, rng):
    """Load a folder, check that compiled code agrees with the network, and return whether it is compiled (None if refused)."""
    try:
        model = load_language_model(folder)
    except ModelError as error:
        assert "differs by" not in str(error), error
        return None
    if model.forward.compiled is None:
        return False
    length = min(8, model.context)
    ids = torch.randint(
        0, model.network.config.vocab_size, (2, length), generator=torch.Generator().manual_seed(rng.randrange(99))
    )
    with torch.no_grad():
        expected = model.network(input_ids=ids).logits.log_softmax(-1)
        hidden_states = model.extend(ids, torch.zeros(2, dtype=torch.int64), model.new_cache(2, length))
        assert torch.allclose(model.logits(hidden_states).log_softmax(-1), expected, atol=1e-4), model.network.config
    return True


@pytest.mark.slow
def test_folders_of_random_sizes_agree_with_their_network_or_are_refused(tmp_path):
    outcomes = []
    for seed in range(160):
        rng = random.Random(f"odd {seed}")
        write_random_folder(tmp_path / str(seed), rng, [(1, 1), (6, 3), (16, 2), (16, 16), (40, 5), (128, 1), (132, 4)])
        outcomes.append(check_random_folder(tmp_path / str(seed), rng))
    assert all(outcomes.count(outcome) >= 15 for outcome in (True, False, None)), outcomes


def test_loaded_code_is_compared_with_the_models_weights(tmp_path, monkeypatch):
    """The code agrees for random weights but not for these weights."""
    network = build_gpt2(width=16, heads=2, layers=1).network
    network.save_pretrained(tmp_path)
    tiny_tokenizer(["a"]).save_pretrained(tmp_path)
    assert load_language_model(tmp_path).decoding == "compiled"
    compiled_call = forward_pass.CompiledPass.__call__
    monkeypatch.setattr(
        forward_pass.CompiledPass,
        "__call__",
        lambda self, *arguments: compiled_call(self, *arguments) + (len(self.parts.tokens) == VOCABULARY),
    )
    with pytest.raises(ModelError, match=r"compiled forward pass of GPT2LMHeadModel differs by .*CC=none"):
        load_language_model(tmp_path)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("name", ["transformer.wte.weight", "transformer.h.1.mlp.c_proj.bias", "transformer.ln_f.bias"])
def test_weights_that_are_not_finite_are_named(name, value, tmp_path):
    network = build_gpt2(width=16, heads=2).network
    with torch.no_grad():
        network.get_parameter(name).view(-1)[-1] = float(value)
    network.save_pretrained(tmp_path)
    tiny_tokenizer(["a"]).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=rf"{name} of GPT2LMHeadModel holds numbers that are NaN or infinite"):
        load_language_model(tmp_path)
