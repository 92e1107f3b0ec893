import numpy as np
import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from sparring.core.records import SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.models import attention
from sparring.models.attention import pad_rows, prefix_tree
from sparring.models.language_model import (
    FILLS,
    MAX_ROWS,
    LanguageModel,
    Product,
    fewest_rows,
    is_batch_invariant,
)
from sparring.models.samplers.in_process import in_process
from sparring.models.tiny import tiny_model

VOCABULARY, STOP, CONTEXT = 96, (2,), 512
SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": CONTEXT,
}  # fmt: skip
WIDE = {**SHAPE, "hidden_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64}
FAMILIES = {
    "tiny": lambda: tiny_model(vocabulary_size=VOCABULARY, stream=Stream.from_seed(3), context=CONTEXT),
    "tiny of width 8": lambda: tiny_model(vocabulary_size=VOCABULARY, stream=Stream.from_seed(3), context=CONTEXT, hidden_size=8, layers=1, heads=2),
    "gpt2, heads of 64": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_embd=128, n_head=2, n_layer=2, n_positions=CONTEXT, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    ),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE)),
    "llama, heads of 64": lambda: LlamaForCausalLM(LlamaConfig(**WIDE)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SHAPE, sliding_window=20, layer_types=["sliding_attention", "full_attention"])),
}  # fmt: skip


def family(name):
    torch.manual_seed(5)
    network, generator = FAMILIES[name](), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return LanguageModel(network.eval(), None)


def openings(number=22):
    """Return conversations' first ids: some share beginnings, some are equal, of 1 to 140 tokens."""
    draw = np.random.default_rng(7)
    rules = draw.integers(3, VOCABULARY, 140).tolist()
    cuts = [1, 5, 12, 30, 57, 62, 63, 64, 65, 90, 126, 129, 140]
    out = [(1, *rules[: cuts[i % len(cuts)]], *draw.integers(3, VOCABULARY, i % 4).tolist()) for i in range(number - 2)]
    return [*out, out[3], out[8]]


PARAMS = SamplingParams(max_new_tokens=4, temperature=0.9)


def talk(model, *, order, size, cache_bytes=1 << 28, drop=(), turns=3):
    """Play some turns of all conversations, ``size`` of them in one call, and return all that was said."""
    sampler, root = in_process(model, cache_bytes=cache_bytes), Stream.from_seed(11)
    talks = [(ids, 0) for ids in openings()]
    replies = [[] for _ in talks]
    for turn in range(turns):
        for begin in range(0, len(order), size):
            chosen = order[begin : begin + size]
            if (turn, begin) in drop:
                sampler.refresh()
            requests = [
                SampleRequest(ids=talks[i][0], stream=root.child(turn).child(i).key, known=talks[i][1]) for i in chosen
            ]
            for i, result in zip(chosen, sampler.sample(requests, PARAMS, STOP), strict=True):
                replies[i].append((result.ids, result.logprobs))
                seen = talks[i][0] + result.ids
                news = tuple(3 + (7 * turn + 5 * i + k) % 90 for k in range((i + turn) % 6 + 1))
                talks[i] = (seen + news, len(seen) - 1)
    return replies


def ways(every):
    count, draw = len(openings()), np.random.default_rng(0)
    for size in (1, 2, 3, 7, count) if every else (1, 7):
        yield {"order": list(range(count)), "size": size}
        yield {"order": draw.permutation(count).tolist(), "size": size}
    yield {"order": list(range(count))[::-1], "size": 5, "cache_bytes": 1}  # all but the last batch is dropped
    yield {"order": draw.permutation(count).tolist(), "size": count, "cache_bytes": 0}
    yield {"order": draw.permutation(count).tolist(), "size": 4, "drop": {(1, 8), (2, 0), (2, 12)}}


EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "every"])


@EVERY
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_said_does_not_depend_on_order_split_or_cache(name, every):
    model = family(name)
    expected = talk(model, order=list(range(len(openings()))), size=len(openings()))
    for way in ways(every):
        assert talk(model, **way) == expected, way
    assert in_process(model).invariant


@EVERY
@pytest.mark.parametrize("name", ["tiny", "gpt2, heads of 64"])
def test_nor_where_torch_does_what_is_compiled_elsewhere(name, every, monkeypatch):
    monkeypatch.setenv("CC", "none")
    test_what_is_said_does_not_depend_on_order_split_or_cache(name, every)


@pytest.mark.parametrize("name", FAMILIES)
def test_nor_on_whether_own_prefixes_alone_ask(name, monkeypatch):
    model, everyone = family(name), list(range(len(openings())))
    monkeypatch.setattr(attention, "WHOLE_PAIRS", 1 << 60)
    expected = talk(model, order=everyone, size=len(everyone))
    assert not prefix_tree(openings()).parts
    monkeypatch.setattr(attention, "WHOLE_PAIRS", 0)
    assert len(prefix_tree(openings()).parts) > 2
    assert talk(model, order=everyone, size=len(everyone)) == expected
    assert talk(model, order=everyone[::-1], size=7) == expected


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_do_not_depend_on_the_replies_beside_them(name):
    model, draw = family(name), np.random.default_rng(2)
    prompts = openings()
    replies = [
        [tuple(draw.integers(3, VOCABULARY, 1 + (i + k) % 5).tolist()) for k in range(1 + i % 3)]
        for i in range(len(prompts))
    ]
    expected = in_process(model).score(prompts, replies, PARAMS)
    for size in (1, 2, 3, 7):
        scores = []
        for begin in range(0, len(prompts), size):
            scores += in_process(model).score(prompts[begin : begin + size], replies[begin : begin + size], PARAMS)
        for mine, other in zip(scores, expected, strict=True):
            assert (mine == other).all(), size


def test_with_truncation_the_sets_kept_are_the_same_too():
    model, params = family("tiny"), SamplingParams(max_new_tokens=4, top_p=0.8, top_k=20)
    requests = [SampleRequest(ids=ids, stream=i) for i, ids in enumerate(openings())]
    together = in_process(model).sample(requests, params, STOP)
    assert together == [in_process(model).sample([request], params, STOP)[0] for request in requests]


def test_more_threads_say_the_same_and_nearly_as_likely():
    model, expected = family("tiny"), talk(family("tiny"), order=list(range(22)), size=22)
    torch.set_num_threads(2)
    assert not in_process(model).invariant
    assert model.new_cache(1, 5).positions == 5, "nothing is paid for what is not promised"
    for mine, other in zip(talk(model, order=list(range(22)), size=3), expected, strict=True):
        for (ids, logprobs), (others, likely) in zip(mine, other, strict=True):
            assert ids == others
            assert logprobs == pytest.approx(likely, abs=1e-5)


def test_a_model_that_is_run_as_a_whole_or_in_half_precision_promises_nothing():
    small = {**SHAPE, "hidden_size": 32}
    assert not in_process(LanguageModel(MistralForCausalLM(MistralConfig(**small)).eval(), None)).invariant
    assert not in_process(
        LanguageModel(LlamaForCausalLM(LlamaConfig(**small)).eval().to(torch.bfloat16), None)
    ).invariant


@pytest.mark.parametrize(("inner", "outer"), [(16, 64), (64, 256), (96, 40), (256, 64), (576, 1536), (1536, 576)])
def test_a_row_of_a_product_has_its_own_bits(inner, outer):
    """The rule that the rest stands on; a machine whose products break it fails here first."""
    draw = torch.Generator().manual_seed(0)
    x, weight = torch.randn(2051, inner, generator=draw), torch.randn(outer, inner, generator=draw)
    fewest = fewest_rows([Product(inner, outer, is_linear=True, has_bias=False)])
    assert fewest in FILLS
    expected = torch.nn.functional.linear(pad_rows(x, fewest), weight)
    for rows in (1, 2, 3, 4, 5, 9, 16, 31, 100, 513):
        assert (torch.nn.functional.linear(pad_rows(x[:rows], fewest), weight)[:rows] == expected[:rows]).all()


@pytest.mark.parametrize(
    ("least", "good"),
    [(1, {8, 16, 32, 48, 96}), (16, {16, 32, 48, 96}), (17, {32, 48, 96}), (48, {48, 96}), (97, set())],
)
def test_rows_that_a_machine_sums_in_another_way_are_found(least, good):
    """A machine whose products of fewer rows, or of a remainder of so many, are summed in another way."""

    def run(count):
        return torch.full((count, 2), float(count % least > 0 if least % 16 == 0 else count < least))

    assert {rows for rows in FILLS if is_batch_invariant(run, rows, run(MAX_ROWS))} == good


@pytest.mark.parametrize("name", ["tiny", pytest.param("qwen3", marks=pytest.mark.slow)])
def test_a_long_conversation_moves_no_bit_of_a_short_one(name, monkeypatch):
    """From about 800 positions on MKL sums a product in pieces, so what it looks at must be its own."""
    monkeypatch.setitem(SHAPE, "max_position_embeddings", 2048)
    monkeypatch.setitem(globals(), "CONTEXT", 2048)
    model, draw = family(name), np.random.default_rng(3)
    lengths = [1500, 130, 3, 1020, 700, 250, 129]
    requests = [
        SampleRequest(ids=tuple(draw.integers(3, VOCABULARY, length).tolist()), stream=length) for length in lengths
    ]
    alone = [in_process(model).sample([request], PARAMS, STOP)[0] for request in requests]
    assert in_process(model).sample(requests, PARAMS, STOP) == alone
    sampler = in_process(model)
    halves = [request._replace(ids=request.ids[: len(request.ids) // 2 + 1]) for request in requests]
    seen = [half.ids + result.ids for half, result in zip(halves, sampler.sample(halves, PARAMS, STOP), strict=True)]
    longer = [
        request._replace(ids=ids + request.ids[len(ids) :], known=len(ids) - 1)
        for request, ids in zip(requests, seen, strict=True)
    ]
    longer = [request for request in longer if len(request.ids) > request.known]
    before = sampler.tokens_computed
    again = sampler.sample(longer, PARAMS, STOP)
    assert sampler.tokens_computed - before < sum(len(request.ids) - request.known for request in longer) + 4 * len(
        longer
    )  # of the rest alone
    assert again == [in_process(model).sample([request], PARAMS, STOP)[0] for request in longer]


@pytest.mark.parametrize("name", ["qwen3", "llama, heads of 64"])
def test_rows_of_a_token_stand_by_length_so_that_no_keys_are_copied(name, monkeypatch):
    model, kinds, add = family(name), [], attention.InvariantAttention._add
    assert in_process(model).invariant, "which asks attention itself"

    def seen(self, *arguments):
        add(self, *arguments)
        if self._positions.shape[1] == 1:
            kinds.extend(type(part.rows) for part in self._parts)

    monkeypatch.setattr(attention.InvariantAttention, "_add", seen)
    order = np.random.default_rng(3).permutation(len(openings())).tolist()
    talk(model, order=order, size=len(order), turns=1)
    assert len(kinds) > 6 and set(kinds) == {slice}
