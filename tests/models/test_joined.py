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
)

from sparring.core.records import SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.models import language_model
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.attention import prefix_tree
from sparring.models.language_model import LanguageModel
from sparring.models.samplers import prefix_cache
from sparring.models.samplers.base import SampleBatch
from sparring.models.samplers.in_process import in_process
from sparring.models.samplers.prefix_cache import BaseWeights, member_of

VOCABULARY, STOP = 96, (2,)
SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 256, "tie_word_embeddings": False,
}  # fmt: skip
FAMILIES = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=144, n_head=2, n_layer=2, n_positions=256, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SHAPE, sliding_window=20, layer_types=["sliding_attention", "full_attention"])),
}  # fmt: skip
TARGETS = {"llama": ("q_proj", "lm_head"), "gpt2": ("c_attn",), "gemma3": ("o_proj", "up_proj")}
PARAMS = SamplingParams(max_new_tokens=4, temperature=0.9)


def base_model(name="llama"):
    torch.manual_seed(5)
    return LanguageModel(FAMILIES[name]().eval(), None)


def league_member(base_network, number, rank=3, targets=()):
    """Return a member with its own adapter weights; with rank 0, the base model."""
    network, generator = share_weights(base_network.network), torch.Generator().manual_seed(number)
    if rank:
        network = add_adapters(network, rank=rank, alpha=6.0, targets=targets, stream=Stream.from_seed(number))
    model = LanguageModel(network, None, shared_base=base_network)
    with torch.no_grad():
        for parameter in model.parameters() if rank else ():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def league(name="llama"):
    """Return members with adapters on all layers, on some, of another rank, without any, and a snapshot of the first."""
    base_network = base_model(name)
    first_model = league_member(base_network, 1)
    return [
        first_model,
        league_member(base_network, 2, rank=2, targets=TARGETS[name]),
        league_member(base_network, 3, rank=0),
        first_model.clone(),
        league_member(base_network, 4, rank=5),
    ]


def make_requests(number, count=9):
    generator = np.random.default_rng(7)
    shared_prompt = generator.integers(3, VOCABULARY, 90).tolist()
    root = Stream.from_seed(number)
    return [
        SampleRequest(
            (
                1,
                *shared_prompt[: (1, 5, 30, 63, 64, 65, 80)[index % 7]],
                *generator.integers(3, VOCABULARY, index % 4).tolist(),
            ),
            root.child(index).key,
        )
        for index in range(count)
    ]


def sample_jointly(samplers, requests, params=None):
    batches = [
        SampleBatch(sampler, batch, params[index] if params else PARAMS, STOP)
        for index, (sampler, batch) in enumerate(zip(samplers, requests, strict=True))
    ]
    (pairs,) = samplers[0].backend.submit(batches)
    replies, first_index = dict(pairs), 0
    all_replies = []
    for batch in requests:
        all_replies.append([replies[first_index + index] for index in range(len(batch))])
        first_index += len(batch)
    return all_replies


def next_turn_requests(requests, replies, turn):
    """Return the next requests of these conversations; some are not in the sampler's cache."""
    next_requests = []
    for index, (request, result) in enumerate(zip(requests, replies, strict=True)):
        conversation = request.ids + result.ids
        next_requests.append(
            SampleRequest(
                (*conversation, *range(3, 4 + (index + turn) % 5)),
                request.stream + turn,
                len(conversation) - 1 if index % 3 else 0,
            )
        )
    return next_requests


@pytest.mark.always
@pytest.mark.parametrize("name", FAMILIES)
def test_joint_replies_are_bit_equal_to_separate_sampling(name):
    models = league(name)
    samplers, separate_samplers = ([in_process(model) for model in models] for _ in "ab")
    assert all(sampler.invariant for sampler in samplers)
    requests = [make_requests(index % 3) for index in range(len(models))]
    for turn in range(1, 4):
        expected = [
            sampler.sample(batch, PARAMS, STOP) for sampler, batch in zip(separate_samplers, requests, strict=True)
        ]
        replies = sample_jointly(samplers, requests)
        assert replies == expected
        assert replies[0] == replies[3], "a snapshot gives the replies of its policy"
        assert len({batch[4].logprobs for batch in replies}) == 4, "the other members have other log-probabilities"
        assert [sampler.tokens_computed for sampler in samplers] == [
            sampler.tokens_computed for sampler in separate_samplers
        ]
        requests = [next_turn_requests(batch, answers, turn) for batch, answers in zip(requests, replies, strict=True)]


def test_a_reply_does_not_depend_on_the_other_models_in_the_call():
    samplers, requests = ([in_process(model) for model in league()], [make_requests(index) for index in range(5)])
    expected = sample_jointly(samplers, requests)
    for chosen_members in ([4, 0], [2, 1, 3], [3, 3], [1]):
        for sampler in samplers:
            sampler.refresh()
        replies = sample_jointly([samplers[n] for n in chosen_members], [requests[n][::-1] for n in chosen_members])
        assert [batch[::-1] for batch in replies] == [expected[n] for n in chosen_members]
    assert sample_jointly(samplers[:2], [[], requests[1]]) == [[], expected[1]]
    assert sample_jointly(samplers[:2], [[], []]) == [[], []]


def test_each_model_uses_its_own_sampling_parameters():
    samplers, separate_samplers = ([in_process(model) for model in league()[:3]] for _ in "ab")
    params = [
        SamplingParams(max_new_tokens=2),
        SamplingParams(max_new_tokens=5, temperature=0.5, top_k=7),
        SamplingParams(max_new_tokens=5, top_p=0.8),
    ]
    requests = [make_requests(0)] * 3
    expected = [
        sampler.sample(make_requests(0), setting, STOP)
        for sampler, setting in zip(separate_samplers, params, strict=True)
    ]
    assert sample_jointly(samplers, requests, params) == expected
    assert max(len(reply.ids) for reply in expected[0]) == 2 < max(len(reply.ids) for reply in expected[1])


def test_new_weights_of_one_model_leave_the_caches_of_others():
    models = league()[:2]
    samplers = [in_process(model) for model in models]
    replies = sample_jointly(samplers, [make_requests(0)] * 2)
    with torch.no_grad():
        for parameter in models[0].parameters():
            parameter.mul_(0.5)
    models[0].version += 1
    size = samplers[1].cache.bytes
    next_replies = sample_jointly(samplers, [make_requests(0)] * 2)
    assert next_replies[1] == replies[1]
    assert next_replies[0] == in_process(models[0]).sample(make_requests(0), PARAMS, STOP) != replies[0]
    assert samplers[1].cache.bytes == 2 * size


def test_an_adapter_row_by_hand():
    """Compute W x + (alpha / rank) B A x in one layer, for two adapters and without an adapter."""
    routes = prefix_cache.AdapterRoutes()
    layer = torch.nn.Linear(2, 1, bias=False)
    adapter_a, adapter_b = (
        prefix_cache.Adapter(torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(1, 1, bias=False), scale)
        for scale in (2.0, 0.5)
    )
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 10.0]]))
        for adapter, inner_weight, outer_weight in (
            (adapter_a, [[1.0, 1.0]], [[3.0]]),
            (adapter_b, [[0.0, 2.0]], [[-1.0]]),
        ):
            adapter.inner.weight.copy_(torch.tensor(inner_weight))
            adapter.outer.weight.copy_(torch.tensor(outer_weight))
        routes.set([{"layer": adapter_a}, {}, {"layer": adapter_b}], [1, 1, 2], None)
        product = prefix_cache.AdaptedLayer(layer, "layer", routes)(torch.tensor([[1.0, 2.0]] * 5))
    assert product[:, 0].tolist() == [21 + 2 * 3 * 3, 21, 21 - 0.5 * 4, 21 - 0.5 * 4, 21]


def test_prefixes_of_two_models_are_not_shared():
    sequences = [(1, 2, 3), (1, 2, 4), (1, 2, 3)]
    tree = prefix_tree(sequences, [0, 1, 1])
    assert tree.ids.tolist() == [1, 2, 3, 1, 2, 3, 4]
    assert tree.node.tolist() == [[0, 1, 2], [3, 4, 6], [3, 4, 5]]
    assert (
        prefix_tree(sequences, [0, 0, 0]).node.tolist()
        == prefix_tree(sequences).node.tolist()
        == [[0, 1, 2], [0, 1, 3], [0, 1, 2]]
    )


def test_models_that_cannot_be_sampled_jointly_are_no_members():
    base_network = base_model()
    assert member_of(league_member(base_network, 1)) is not None
    assert member_of(league_member(base_network, 1, targets=("embed_tokens", "q_proj"))) is None, (
        "no product is tried for these"
    )
    assert member_of(LanguageModel(base_network.network, None)) is None, "it was not made with share_weights"
    model_without_lean_forward = LanguageModel(
        MistralForCausalLM(MistralConfig(**{**SHAPE, "num_hidden_layers": 1})).eval(), None
    )
    assert member_of(league_member(model_without_lean_forward, 1)) is None
    assert in_process(league_member(model_without_lean_forward, 1)).backend is None
    sampler_a, sampler_b = in_process(league_member(base_network, 1)), in_process(league_member(base_network, 2))
    assert sampler_a.backend is sampler_b.backend is not in_process(league_member(base_model(), 1)).backend


def test_without_a_common_safe_row_count_models_are_sampled_in_sequence(monkeypatch):
    base_network = base_model()
    models = [league_member(base_network, 1, rank=3), league_member(base_network, 2, rank=2)]
    expected = [in_process(model).sample(make_requests(0), PARAMS, STOP) for model in models]
    adapter_ranks = {
        model: {product.outer for product in language_model.products_of(model.network)} & {2, 3} for model in models
    }
    assert list(adapter_ranks.values()) == [{3}, {2}]
    monkeypatch.setattr(prefix_cache, "fewest_rows", lambda products: 0)
    members = [member_of(model) for model in models]
    assert BaseWeights(base_network).join(members) is None
    assert sample_jointly([in_process(model) for model in models], [make_requests(0)] * 2) == expected
    torch.set_num_threads(2)  # with 2 threads equal bits are not guaranteed, and all models form one batch
    assert BaseWeights(base_network).join(members) is not None


def test_samplers_share_one_cache_budget():
    models = league()[:3]
    samplers = [in_process(model, cache_bytes=1 << 40) for model in models]
    sample_jointly(samplers, [make_requests(0)] * 3)
    cache_budget = samplers[0].backend.shared
    all_cached_bytes = cache_budget.bytes
    assert (
        all_cached_bytes
        == sum(sampler.cache.bytes for sampler in samplers)
        > max(sampler.cache.bytes for sampler in samplers)
    )
    expected = sample_jointly(samplers, [make_requests(1)] * 3)
    for sampler in samplers:
        sampler.refresh()
        sampler.cache.budget = all_cached_bytes // 2
    sample_jointly(samplers, [make_requests(0)] * 3)
    assert 0 < cache_budget.bytes <= all_cached_bytes // 2
    assert sample_jointly(samplers, [make_requests(1)] * 3) == expected
    del samplers, sampler
    assert cache_budget.bytes == 0, "the cache of deleted samplers is freed"
