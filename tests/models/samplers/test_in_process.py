import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ModelError
from sparring.core.records import SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.in_process import in_process, restrict, truncate
from sparring.models.tiny import tiny_model, tiny_tokenizer
from tests.hugging_face import hugging_face

TOKENIZER = tiny_tokenizer([f"w{i}" for i in range(12)])
MODEL = LanguageModel(tiny_model(vocabulary_size=len(TOKENIZER), stream=Stream.from_seed(3), context=64), TOKENIZER)
STOP = (2,)


def requests(contexts, seed=0, cached_lengths=None):
    root = Stream.from_seed(seed)
    cached_lengths = cached_lengths or [0] * len(contexts)
    pairs = enumerate(zip(contexts, cached_lengths, strict=True))
    return [SampleRequest(ids=tuple(ids), stream=root.child(i).key, num_cached_ids=k) for i, (ids, k) in pairs]


def reply_logprobs(ids, reply, params, supports=()):
    all_ids = torch.tensor([[*ids, *reply]])
    with torch.no_grad():
        logits = (
            hugging_face(MODEL.network)(all_ids, attention_mask=torch.ones_like(all_ids)).logits[0, len(ids) - 1 : -1]
            / params.temperature
        )
    if supports:
        logits = restrict(logits, list(supports))
    return logits.log_softmax(-1)[range(len(reply)), list(reply)].numpy()


CONTEXTS = st.lists(st.lists(st.integers(0, 16), min_size=1, max_size=9), min_size=1, max_size=8)
PARAMS = st.builds(
    SamplingParams,
    max_new_tokens=st.integers(1, 5),
    temperature=st.sampled_from([0.5, 1.0, 2.0]),
    top_p=st.sampled_from([1.0, 0.8]),
    top_k=st.sampled_from([0, 3]),
)


@pytest.mark.always
@settings(max_examples=40, deadline=None)
@given(CONTEXTS, PARAMS, st.integers(0, 999))
def test_log_probabilities_are_those_of_the_distribution_sampled_from(contexts, params, seed):
    sampler = in_process(MODEL)
    for context, result in zip(contexts, sampler.sample(requests(contexts, seed), params, STOP), strict=True):
        assert result.logprobs == pytest.approx(reply_logprobs(context, result.ids, params, result.support), abs=1e-5)
        assert result.truncated == (STOP[0] not in result.ids)
        assert len(result.support) == (len(result.ids) if params.top_p < 1 or params.top_k else 0)
        assert all(token in support for token, support in zip(result.ids, result.support, strict=False))
        assert STOP[0] not in result.ids[:-1]


@settings(max_examples=20, deadline=None)
@given(CONTEXTS, st.integers(0, 999))
def test_a_reply_does_not_depend_on_the_batch(contexts, seed):
    params, batch = SamplingParams(max_new_tokens=4), requests(contexts, seed)
    batch_replies = in_process(MODEL).sample(batch, params, STOP)
    reversed_batch_replies = in_process(MODEL).sample(batch[::-1], params, STOP)[::-1]
    separate_replies = [in_process(MODEL).sample([request], params, STOP)[0] for request in batch]
    assert (
        [reply.ids for reply in batch_replies]
        == [reply.ids for reply in reversed_batch_replies]
        == [reply.ids for reply in separate_replies]
    )


def test_a_cached_prefix_is_computed_once_and_changes_no_reply():
    params, sampler = SamplingParams(max_new_tokens=3), in_process(MODEL)
    contexts = [[1, 5, 6, 7, i] for i in range(6)]
    replies = sampler.sample(requests(contexts), params, STOP)
    cached_lengths = [5 + len(reply.ids) - 1 for reply in replies]
    longer_contexts = [[*context, *reply.ids, 9, 3] for context, reply in zip(contexts, replies, strict=True)]
    tokens_before = sampler.tokens_computed
    cached_replies = sampler.sample(
        requests(longer_contexts, 1, cached_lengths), SamplingParams(max_new_tokens=1), STOP
    )
    assert sampler.tokens_computed - tokens_before == 6 * 3  # the last sampled token and the two new ones
    uncached_replies = in_process(MODEL).sample(requests(longer_contexts, 1), SamplingParams(max_new_tokens=1), STOP)
    assert [reply.ids for reply in cached_replies] == [reply.ids for reply in uncached_replies]
    assert [reply.logprobs for reply in cached_replies] == [
        pytest.approx(reply.logprobs, abs=1e-5) for reply in uncached_replies
    ]


def test_equal_contexts_are_computed_once():
    sampler = in_process(MODEL)
    sampler.sample(requests([[1, 4, 5]] * 50), SamplingParams(max_new_tokens=1), STOP)
    assert sampler.tokens_computed == 3


def test_a_wrong_cache_hint_changes_no_reply():
    batch = requests([[1, 5, 6, 7]], cached_lengths=[2])
    assert in_process(MODEL).sample(batch, SamplingParams(max_new_tokens=2), STOP) == in_process(MODEL).sample(
        requests([[1, 5, 6, 7]]), SamplingParams(max_new_tokens=2), STOP
    )


def test_new_weights_empty_the_cache():
    model = MODEL.clone()
    sampler = in_process(model)
    sampler.sample(requests([[1, 5, 6]]), SamplingParams(max_new_tokens=1), STOP)
    with torch.no_grad():
        next(iter(model.parameters())).add_(0.5)
    model.version += 1
    batch = requests([[1, 5, 6, 7]], cached_lengths=[3])
    uncached_replies = in_process(model).sample(batch, SamplingParams(max_new_tokens=1), STOP)
    assert sampler.sample(batch, SamplingParams(max_new_tokens=1), STOP)[0].logprobs == pytest.approx(
        uncached_replies[0].logprobs
    )


def test_token_frequencies_agree_with_the_probabilities():
    context = [1, 5, 6]
    results = in_process(MODEL).sample(requests([context] * 4000, 7), SamplingParams(max_new_tokens=1), ())
    counts = np.bincount([reply.ids[0] for reply in results], minlength=len(TOKENIZER))
    with torch.no_grad():
        expected = (
            hugging_face(MODEL.network)(torch.tensor([context])).logits[0, -1].double().softmax(-1).numpy() * 4000
        )
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-3


@settings(max_examples=20, deadline=None)
@given(CONTEXTS)
def test_scores_equal_brute_force(contexts):
    params = SamplingParams(max_new_tokens=3, temperature=0.7)
    replies = [[(5, 2), (6, 2), (7, 8, 2)], [(9, 2)]]
    groups = [replies[i % 2] for i in range(len(contexts))]
    for context, group, scores in zip(
        contexts, groups, in_process(MODEL).score([tuple(context) for context in contexts], groups, params), strict=True
    ):
        assert scores == pytest.approx([reply_logprobs(context, reply, params).sum() for reply in group], abs=1e-4)


def test_a_context_that_does_not_fit_is_refused():
    with pytest.raises(ModelError, match="66 tokens exceeds the context of 64"):
        in_process(MODEL).sample(requests([[1] * 62]), SamplingParams(max_new_tokens=4), STOP)


def test_top_k_and_top_p_by_hand():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert truncate(logits, top_p=0.75).exp()[0].tolist() == pytest.approx([0.625, 0.375, 0, 0])
    assert truncate(logits, top_k=1).exp()[0].tolist() == pytest.approx([1, 0, 0, 0])
    assert truncate(logits, top_p=0.01).exp()[0].tolist() == pytest.approx([1, 0, 0, 0])
    assert truncate(logits).exp()[0].tolist() == pytest.approx([0.5, 0.3, 0.15, 0.05])
    assert restrict(logits, [()]).equal(logits)


def test_a_turn_caches_only_its_new_tokens():
    params, sampler = SamplingParams(max_new_tokens=1), in_process(MODEL)
    contexts = [[1, *([5, 6] * 12), i] for i in range(4)]
    sampler.sample(requests(contexts), params, ())
    per_token = sampler.cache.bytes / (4 * 26)
    longer_contexts = [[*c, 7, 8] for c in contexts]
    sampler.sample(requests(longer_contexts, 1, [26] * 4), params, ())
    assert sampler.cache.bytes == pytest.approx(per_token * 4 * 28)
    branches = [[*longer_contexts[0], 9], [*longer_contexts[0], 10]]  # two continuations of one conversation
    sampler.sample(requests(branches, 2, [28, 28]), params, ())
    assert sampler.cache.bytes == pytest.approx(per_token * (4 * 28 + 2))
    cached_replies = sampler.sample(requests([[*p, 4] for p in branches], 3, [29, 29]), params, ())
    uncached_replies = in_process(MODEL).sample(requests([[*p, 4] for p in branches], 3), params, ())
    assert [reply.logprobs for reply in cached_replies] == [
        pytest.approx(reply.logprobs, abs=1e-5) for reply in uncached_replies
    ]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(3, 9), min_size=1, max_size=4), min_size=2, max_size=8),
    st.integers(0, 99),
    st.sampled_from([1, 9_000, 1 << 30]),
)
def test_the_cache_changes_no_conversation_of_several_turns(new_tokens, seed, budget):
    params, sampler = SamplingParams(max_new_tokens=2), in_process(MODEL, cache_bytes=budget)
    conversations, cached_lengths = [[1, 4 + row % 2] for row in range(3)], [0] * 3
    for turn, tokens_of_turn in enumerate(new_tokens):
        conversations = [
            [*conversation, *tokens_of_turn, *[5 + row] * ((row + turn) % 3)]
            for row, conversation in enumerate(conversations)
        ]
        if max(map(len, conversations)) > 58:
            break
        batch = requests(conversations, seed + turn, cached_lengths)
        results = sampler.sample(batch, params, STOP)
        expected = in_process(MODEL).sample(requests(conversations, seed + turn), params, STOP)
        assert [reply.ids for reply in results] == [reply.ids for reply in expected]
        assert [reply.logprobs for reply in results] == [pytest.approx(reply.logprobs, abs=1e-5) for reply in expected]
        cached_lengths = [
            len(conversation) + len(reply.ids) - 1 for conversation, reply in zip(conversations, results, strict=True)
        ]
        conversations = [
            [*conversation, *reply.ids] for conversation, reply in zip(conversations, results, strict=True)
        ]
