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
    MAX_ROWS,
    ROW_CANDIDATES,
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


def build_family(name):
    torch.manual_seed(5)
    network, generator = FAMILIES[name](), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return LanguageModel(network.eval(), None)


def first_prompts(num_prompts=22):
    """Return the first prompts of conversations, of 1 to 140 tokens; some share a prefix and some are equal."""
    generator = np.random.default_rng(7)
    shared_prefix = generator.integers(3, VOCABULARY, 140).tolist()
    prefix_lengths = [1, 5, 12, 30, 57, 62, 63, 64, 65, 90, 126, 129, 140]
    prompts = [
        (
            1,
            *shared_prefix[: prefix_lengths[i % len(prefix_lengths)]],
            *generator.integers(3, VOCABULARY, i % 4).tolist(),
        )
        for i in range(num_prompts - 2)
    ]
    return [*prompts, prompts[3], prompts[8]]


PARAMS = SamplingParams(max_new_tokens=4, temperature=0.9)


def play_conversations(model, *, order, size, cache_bytes=1 << 28, drop_caches=(), turns=3):
    """Sample some turns of all conversations, ``size`` conversations per call, and return all replies."""
    sampler, root = in_process(model, cache_bytes=cache_bytes), Stream.from_seed(11)
    conversations = [(ids, 0) for ids in first_prompts()]
    replies = [[] for _ in conversations]
    for turn in range(turns):
        for begin in range(0, len(order), size):
            chosen_indices = order[begin : begin + size]
            if (turn, begin) in drop_caches:
                sampler.refresh()
            requests = [
                SampleRequest(
                    ids=conversations[index][0],
                    stream=root.child(turn).child(index).key,
                    num_cached_ids=conversations[index][1],
                )
                for index in chosen_indices
            ]
            for index, result in zip(chosen_indices, sampler.sample(requests, PARAMS, STOP), strict=True):
                replies[index].append((result.ids, result.logprobs))
                conversation = conversations[index][0] + result.ids
                next_observation = tuple(3 + (7 * turn + 5 * index + k) % 90 for k in range((index + turn) % 6 + 1))
                conversations[index] = (conversation + next_observation, len(conversation) - 1)
    return replies


def execution_variants(all_variants):
    count, generator = len(first_prompts()), np.random.default_rng(0)
    for size in (1, 2, 3, 7, count) if all_variants else (1, 7):
        yield {"order": list(range(count)), "size": size}
        yield {"order": generator.permutation(count).tolist(), "size": size}
    yield {"order": list(range(count))[::-1], "size": 5, "cache_bytes": 1}  # the cache keeps only the last batch
    yield {"order": generator.permutation(count).tolist(), "size": count, "cache_bytes": 0}
    yield {"order": generator.permutation(count).tolist(), "size": 4, "drop_caches": {(1, 8), (2, 0), (2, 12)}}


SOME_OR_ALL_VARIANTS = pytest.mark.parametrize(
    "all_variants", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "every"]
)


@SOME_OR_ALL_VARIANTS
@pytest.mark.parametrize("name", FAMILIES)
def test_replies_do_not_depend_on_order_split_or_cache(name, all_variants):
    model = build_family(name)
    expected = play_conversations(model, order=list(range(len(first_prompts()))), size=len(first_prompts()))
    for variant in execution_variants(all_variants):
        assert play_conversations(model, **variant) == expected, variant
    assert in_process(model).invariant


@SOME_OR_ALL_VARIANTS
@pytest.mark.parametrize("name", ["tiny", "gpt2, heads of 64"])
def test_replies_are_invariant_without_compiled_code(name, all_variants, monkeypatch):
    monkeypatch.setenv("CC", "none")
    test_replies_do_not_depend_on_order_split_or_cache(name, all_variants)


@pytest.mark.parametrize("name", FAMILIES)
def test_replies_are_invariant_without_shared_prefix_queries(name, monkeypatch):
    model, all_indices = build_family(name), list(range(len(first_prompts())))
    monkeypatch.setattr(attention, "MAX_WHOLE_PAIRS", 1 << 60)
    expected = play_conversations(model, order=all_indices, size=len(all_indices))
    assert not prefix_tree(first_prompts()).parts
    monkeypatch.setattr(attention, "MAX_WHOLE_PAIRS", 0)
    assert len(prefix_tree(first_prompts()).parts) > 2
    assert play_conversations(model, order=all_indices, size=len(all_indices)) == expected
    assert play_conversations(model, order=all_indices[::-1], size=7) == expected


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_do_not_depend_on_the_batch(name):
    model, generator = build_family(name), np.random.default_rng(2)
    prompts = first_prompts()
    replies = [
        [tuple(generator.integers(3, VOCABULARY, 1 + (i + k) % 5).tolist()) for k in range(1 + i % 3)]
        for i in range(len(prompts))
    ]
    expected = in_process(model).score(prompts, replies, PARAMS)
    for size in (1, 2, 3, 7):
        scores = []
        for begin in range(0, len(prompts), size):
            scores += in_process(model).score(prompts[begin : begin + size], replies[begin : begin + size], PARAMS)
        for scores_of_reply, expected_scores in zip(scores, expected, strict=True):
            assert (scores_of_reply == expected_scores).all(), size


def test_replies_with_top_p_and_top_k_do_not_depend_on_the_batch():
    model, params = build_family("tiny"), SamplingParams(max_new_tokens=4, top_p=0.8, top_k=20)
    requests = [SampleRequest(ids=ids, stream=i) for i, ids in enumerate(first_prompts())]
    joint_replies = in_process(model).sample(requests, params, STOP)
    assert joint_replies == [in_process(model).sample([request], params, STOP)[0] for request in requests]


def test_more_threads_give_equal_replies_and_close_log_probs():
    model, order = build_family("tiny"), list(range(len(first_prompts())))
    expected = play_conversations(build_family("tiny"), order=order, size=len(order))
    torch.set_num_threads(2)
    assert not in_process(model).invariant
    assert model.new_cache(1, 5).positions == 5, "without invariance the cache needs no padding"
    for replies, expected_replies in zip(play_conversations(model, order=order, size=3), expected, strict=True):
        for (ids, logprobs), (expected_ids, expected_logprobs) in zip(replies, expected_replies, strict=True):
            assert ids == expected_ids
            assert logprobs == pytest.approx(expected_logprobs, abs=1e-5)


def test_models_in_half_precision_or_without_our_forward_pass_are_not_invariant():
    small_shape = {**SHAPE, "hidden_size": 32}
    assert not in_process(LanguageModel(MistralForCausalLM(MistralConfig(**small_shape)).eval(), None)).invariant
    assert not in_process(
        LanguageModel(LlamaForCausalLM(LlamaConfig(**small_shape)).eval().to(torch.bfloat16), None)
    ).invariant


@pytest.mark.parametrize(("inner", "outer"), [(16, 64), (64, 256), (96, 40), (256, 64), (576, 1536), (1536, 576)])
def test_the_bits_of_a_product_row_do_not_depend_on_other_rows(inner, outer):
    """All other tests here rely on this rule; a machine that breaks it fails here first."""
    generator = torch.Generator().manual_seed(0)
    inputs, weight = torch.randn(2051, inner, generator=generator), torch.randn(outer, inner, generator=generator)
    fewest = fewest_rows([Product(inner, outer, is_linear=True, has_bias=False)])
    assert fewest in ROW_CANDIDATES
    expected = torch.nn.functional.linear(pad_rows(inputs, fewest), weight)
    for rows in (1, 2, 3, 4, 5, 9, 16, 31, 100, 513):
        assert (torch.nn.functional.linear(pad_rows(inputs[:rows], fewest), weight)[:rows] == expected[:rows]).all()


@pytest.mark.parametrize(
    ("min_rows", "expected_sizes"),
    [(1, {8, 16, 32, 48, 96}), (16, {16, 32, 48, 96}), (17, {32, 48, 96}), (48, {48, 96}), (97, set())],
)
def test_row_counts_with_different_summation_are_detected(min_rows, expected_sizes):
    """Simulate a machine whose sums differ for some row counts.

    If min_rows is a multiple of 16, these are all counts that are not multiples of min_rows; otherwise all smaller counts.
    """

    def run(count):
        is_different = count % min_rows > 0 if min_rows % 16 == 0 else count < min_rows
        return torch.full((count, 2), float(is_different))

    assert {rows for rows in ROW_CANDIDATES if is_batch_invariant(run, rows, run(MAX_ROWS))} == expected_sizes


@pytest.mark.parametrize("name", ["tiny", pytest.param("qwen3", marks=pytest.mark.slow)])
def test_a_long_conversation_changes_no_bit_of_a_short_one(name, monkeypatch):
    """From about 800 positions on, MKL sums a product in blocks, so a row must attend only to its sequence."""
    monkeypatch.setitem(SHAPE, "max_position_embeddings", 2048)
    monkeypatch.setitem(globals(), "CONTEXT", 2048)
    model, generator = build_family(name), np.random.default_rng(3)
    lengths = [1500, 130, 3, 1020, 700, 250, 129]
    requests = [
        SampleRequest(ids=tuple(generator.integers(3, VOCABULARY, length).tolist()), stream=length)
        for length in lengths
    ]
    separate_replies = [in_process(model).sample([request], PARAMS, STOP)[0] for request in requests]
    assert in_process(model).sample(requests, PARAMS, STOP) == separate_replies
    sampler = in_process(model)
    first_halves = [request._replace(ids=request.ids[: len(request.ids) // 2 + 1]) for request in requests]
    conversations = [
        half.ids + result.ids
        for half, result in zip(first_halves, sampler.sample(first_halves, PARAMS, STOP), strict=True)
    ]
    longer_requests = [
        request._replace(ids=ids + request.ids[len(ids) :], num_cached_ids=len(ids) - 1)
        for request, ids in zip(requests, conversations, strict=True)
    ]
    longer_requests = [request for request in longer_requests if len(request.ids) > request.num_cached_ids]
    tokens_before = sampler.tokens_computed
    cached_replies = sampler.sample(longer_requests, PARAMS, STOP)
    assert sampler.tokens_computed - tokens_before < sum(
        len(request.ids) - request.num_cached_ids for request in longer_requests
    ) + 4 * len(longer_requests)  # only the tokens that were not cached
    assert cached_replies == [in_process(model).sample([request], PARAMS, STOP)[0] for request in longer_requests]


@pytest.mark.parametrize("name", ["qwen3", "llama, heads of 64"])
def test_rows_are_sorted_by_length_so_no_keys_are_copied(name, monkeypatch):
    model, kinds, add = build_family(name), [], attention.InvariantAttention._add
    assert in_process(model).invariant, "the attention itself must be invariant"

    def record_kinds(self, *arguments):
        add(self, *arguments)
        if self._positions.shape[1] == 1:
            kinds.extend(type(part.rows) for part in self._parts)

    monkeypatch.setattr(attention.InvariantAttention, "_add", record_kinds)
    order = np.random.default_rng(3).permutation(len(first_prompts())).tolist()
    play_conversations(model, order=order, size=len(order), turns=1)
    assert len(kinds) > 6 and set(kinds) == {slice}
