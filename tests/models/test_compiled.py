"""The compiled forward pass: what torch computes, with bits of its own, or torch where there is no compiler."""

import shutil

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from sparring.errors import ModelError
from sparring.models import compiled, lean
from sparring.models.architectures import architecture
from sparring.models.compiled import Shape, how, library, shape_of
from sparring.models.language_model import LanguageModel
from sparring.models.prefixes import prefix_tree
from sparring.models.tiny import tiny_model
from sparring.rng import Stream

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
SHAPES = [(64, 4, 2, "relu"), (128, 2, 1, "gelu_new"), (32, 8, 3, "relu"), (48, 3, 2, "gelu_new"), (16, 1, 1, "relu"), (60, 4, 2, "relu"), (7, 1, 1, "relu"), (24, 2, 1, "gelu_new")]
VOCABULARY, CONTEXT = 50, 80


def build(width=64, heads=4, layers=2, activation="relu"):
    """Return a GPT-2 whose weights, gains and biases are random and far from zero."""
    sizes = {"n_embd": width, "n_head": heads, "n_layer": layers, "n_positions": CONTEXT, "vocab_size": VOCABULARY}
    dropout = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
    network = GPT2LMHeadModel(GPT2Config(**sizes, **dropout, activation_function=activation))
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.15 * torch.randn(weight.shape, generator=draw))
    return LanguageModel(network.eval(), None)


def both(model):
    """Return two models over the same weights: one that is compiled, and one that is torch's."""
    other = LanguageModel(model.network, None)
    other.forward.compiled = None
    assert model.forward.compiled is not None
    return model, other


def some_ids(*shape, seed=0):
    return torch.randint(0, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.always
@pytest.mark.parametrize("shape", SHAPES)
def test_it_computes_what_torch_does(shape):
    model, other = both(build(*shape))
    ids = some_ids(5, 70)
    caches = [one.new_cache(5, 80) for one in (model, other)]
    at = torch.zeros(5, dtype=torch.int64)
    for length in (1, 13, 2, 1, 30, 1, 1, 16):
        chunk, ids = ids[:, :length], ids[:, length:]
        found, expected = (one.extend(chunk, at, cache) for one, cache in zip((model, other), caches, strict=True))
        assert torch.allclose(found, expected, atol=1e-5), length
        at = at + length
        # rows drift apart, as replies of different lengths do; what is behind them is written over
        at = (at - torch.arange(5) % 2).clamp(min=0)
    assert torch.allclose(caches[0].tensor, caches[1].tensor, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_contexts_with_shared_beginnings_are_read_as_torch_reads_them(shape):
    model, other = both(build(*shape))
    rules = tuple(some_ids(20).tolist())
    contexts = [rules, (*rules[:7], 3, 4), (*rules, 5), (9,), (*rules[:19], 8, 8, 8)]
    tree = prefix_tree(contexts)
    caches = [one.new_cache(5, 30) for one in (model, other)]
    with torch.no_grad():
        found, expected = (one.hidden(tree, cache) for one, cache in zip((model, other), caches, strict=True))
    assert torch.allclose(found, expected, atol=1e-5)
    for row, ids in enumerate(contexts):
        mine, theirs = (cache.tensor[:, :, row, :, : len(ids)] for cache in caches)
        assert torch.allclose(mine, theirs, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_token_has_its_own_bits_whatever_is_beside_it(shape):
    model = build(*shape)
    ids, expected = some_ids(9, 40), None
    for rows in ([*range(9)], [4], [4, 2], [0, 4, 8, 1, 2, 3, 5]):
        for sizes in ((40,), (1,) * 40, (17, 1, 22)):
            cache, at, parts = model.new_cache(len(rows), 64), 0, []
            for size in sizes:
                start = torch.full((len(rows),), at)
                parts.append(model.extend(ids[rows, at : at + size], start, cache))
                at += size
            found = torch.cat(parts, 1)[rows.index(4)]
            expected = found if expected is None else expected
            assert torch.equal(found, expected), (rows, sizes)
    tree = prefix_tree([tuple(ids[row].tolist()) for row in (7, 4)])
    with torch.no_grad():
        assert torch.equal(model.hidden(tree, model.new_cache(2, 64))[tree.node[1]], expected)


def test_scores_far_apart_are_as_torch_has_them():
    """What a query does not look at has weight 0, also where every other score is far below."""
    model, other = both(build())
    with torch.no_grad():
        for block in model.network.transformer.h:
            block.attn.c_attn.weight.mul_(30)
    ids, at = some_ids(3, 40), torch.zeros(3, dtype=torch.int64)
    found, expected = (one.extend(ids, at, one.new_cache(3, 64)) for one in (model, other))
    assert torch.isfinite(found).all()
    assert torch.allclose(found, expected, atol=1e-3)


def test_an_update_of_the_weights_is_seen():
    model = build()
    ids, at = some_ids(2, 3), torch.zeros(2, dtype=torch.int64)
    before = model.extend(ids, at, model.new_cache(2, 16))
    model.load_tensors({name: tensor * 1.5 for name, tensor in model.tensors().items()})
    after = model.extend(ids, at, model.new_cache(2, 16))
    other = both(model)[1]
    assert not torch.allclose(before, after, atol=1e-3)
    assert torch.allclose(after, other.extend(ids, at, other.new_cache(2, 16)), atol=1e-5)


@pytest.mark.parametrize("ids, start", [([[VOCABULARY]], 0), ([[-1]], 0), ([[1]], 16), ([[1, 2]], 15), ([[1]], -1)])
def test_what_is_outside_of_a_table_is_refused(ids, start):
    model = build()
    cache = model.new_cache(1, 16)
    with pytest.raises(IndexError, match="where there are"):
        model.extend(torch.tensor(ids), torch.tensor([start]), cache)


def test_models_of_other_kinds_are_torchs():
    assert shape_of(build().forward.parts) == Shape(64, 4, True, 1e-5)
    assert shape_of(build(width=256, heads=4).forward.parts) is None  # torch has several threads for it
    half = architecture(build().network.to(torch.bfloat16))
    assert shape_of(half) is None
    assert how(half) == "torch"


@pytest.mark.parametrize(
    "compiler, why",
    [
        ("none", "CC=none"),
        ("no-such-compiler", "no C compiler 'no-such-compiler' (name one in $CC)"),
        ("false", "the C compiler 'false' failed: no message"),
    ],
)
def test_without_a_compiler_torch_does_it_and_says_why(compiler, why, monkeypatch):
    monkeypatch.setenv("CC", compiler)
    model = build()
    assert how(model.forward.parts) == f"torch: {why}"
    assert model.forward.compiled is None
    hidden = model.extend(some_ids(2, 3), torch.zeros(2, dtype=torch.int64), model.new_cache(2, 8))
    assert torch.isfinite(hidden).all()


def test_code_that_computes_something_else_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "cache"))
    wrong = tmp_path / "wrong.c"
    wrong.write_text(compiled.SOURCE.read_text().replace("count = last + 1", "count = last"))
    monkeypatch.setattr(compiled, "SOURCE", wrong)
    compiled._library.cache_clear()
    with pytest.raises(ModelError, match=r"differs by .* leave it out by CC=none"):
        assert build().forward.compiled
    compiled._library.cache_clear()


def test_a_model_whose_weights_are_no_numbers_is_not_the_codes_fault():
    model = build()
    with torch.no_grad():
        model.network.transformer.wte.weight[0] = torch.nan
    assert model.forward.compiled is not None


def test_the_check_draws_nothing_from_the_global_generator():
    torch.manual_seed(1)
    expected = torch.get_rng_state()
    lean._check_compiled.cache_clear()
    model = build()
    torch.set_rng_state(expected)
    assert model.forward.compiled is not None
    assert torch.equal(torch.get_rng_state(), expected)


def test_code_that_cannot_be_compiled_kept_or_loaded_is_torchs_to_do(monkeypatch, tmp_path):
    shape = Shape(64, 4, True, 1e-5)
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "first"))
    broken = tmp_path / "broken.c"
    broken.write_text("void forward(void) { nonsense }")
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "SOURCE", broken)
        assert "failed: " in library(shape)
        assert "nonsense" in library(shape)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "file"))
    assert "cannot be kept or loaded" in library(shape)


def test_code_is_kept_and_made_anew_where_it_is_damaged(monkeypatch, tmp_path):
    shape = Shape(32, 2, True, 1e-5)
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "one"))
    library(shape)
    (kept,) = (tmp_path / "one" / "compiled").iterdir()
    whole, made = kept.read_bytes(), kept.stat().st_mtime_ns
    compiled._library.cache_clear()
    library(shape)
    assert kept.stat().st_mtime_ns == made
    for number, damage in enumerate((b"", b"no code", whole[:-300], whole[:2000] + b"x" + whole[2001:])):
        monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / f"damaged {number}"))
        other = tmp_path / f"damaged {number}" / "compiled" / kept.name
        other.parent.mkdir(parents=True)
        other.write_bytes(damage)
        assert not isinstance(library(shape), str)
        assert compiled._is_whole(other)


def test_the_embedded_model_is_compiled():
    model = LanguageModel(tiny_model(vocabulary_size=30, stream=Stream.from_seed(0)), None)
    assert how(model.forward.parts) == "compiled"
