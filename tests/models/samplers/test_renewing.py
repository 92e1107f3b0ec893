from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.records import Episode, SampledSpan, SamplingParams, Turn
from sparring.core.rng import Stream
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import SampleBatch
from sparring.models.samplers.in_process import WeightUpdates, in_process, restrict
from sparring.models.tiny import tiny_model
from sparring.play.context.base import Ledger, sampled_segments
from sparring.play.episode import recorded_reply
from sparring.play.players.base import Reply
from sparring.report.episode_text import turn_texts
from sparring.testing.context import Letters
from tests.models.samplers.builders import with_adapters
from tests.models.samplers.test_in_process import TOKENIZER, requests

BASE = LanguageModel(
    tiny_model(vocabulary_size=len(TOKENIZER), stream=Stream.from_seed(3), context=64).to_transformers(), TOKENIZER
)
STOP = (2,)
PARAMS = SamplingParams(max_new_tokens=8)
TOLERANCE = 1e-5
CONTEXTS = [[1, 5, 6], [1, 5, 6], [1, 5, 6], [1, 9], [1, 5, 7, 8], [4]]


def perturb(model):
    generator = torch.Generator().manual_seed(model.version)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    model.version += 1


def perturb_between_tokens(sampler, *token_numbers):
    """Change a sampler's weights before the tokens with these numbers, from 1; return a dictionary: version -> model."""
    models, num_calls = {}, 0

    def perturb_if_due():
        nonlocal num_calls
        num_calls += 1
        if num_calls in token_numbers:
            models[sampler.version] = sampler.model.clone()
            perturb(sampler.model)
        models[sampler.version] = sampler.model.clone()

    sampler.between_tokens = perturb_if_due
    return models


def reply_logprobs(model, ids, reply, params, supports=()):
    """Return a reply's log-probabilities by the Hugging Face forward pass in float64, which has smaller rounding errors."""
    all_ids = torch.tensor([[*ids, *reply]])
    with torch.no_grad():
        logits = (
            deepcopy(model.network)
            .double()(all_ids, attention_mask=torch.ones_like(all_ids))
            .logits[0, len(ids) - 1 : -1]
            / params.temperature
        )
    logits = restrict(logits, list(supports)) if supports else logits
    return logits.log_softmax(-1)[range(len(reply)), list(reply)].numpy()


def check_spans(models, context, result, params):
    """Check that each span has the log-probabilities of the weights that sampled it, and not of other weights."""
    assert sum(span.length for span in result.spans) in (0, len(result.ids))
    end = 0
    for length, version in result.spans:
        tokens, end = slice(end, end + length), end + length
        expected = reply_logprobs(models[version], context, result.ids, params, result.support)
        assert np.array(result.logprobs)[tokens] == pytest.approx(expected[tokens], abs=TOLERANCE)
        if len(result.spans) > 1 and length > 1 and not result.support:
            logprobs_of_other_weights = [
                reply_logprobs(models[other_span.version], context, result.ids, params)[tokens]
                for other_span in result.spans
                if other_span.version != version
            ]
            assert all(np.abs(logprobs - expected[tokens]).max() > 1e-3 for logprobs in logprobs_of_other_weights)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 999), st.sampled_from([1.0, 0.8]), st.sampled_from([0, 3]), st.sets(st.integers(1, 6), max_size=3)
)
def test_each_span_has_the_log_probabilities_of_its_own_weights(seed, top_p, top_k, token_numbers):
    sampler = in_process(BASE.clone())
    params = SamplingParams(max_new_tokens=8, top_p=top_p, top_k=top_k)
    models = perturb_between_tokens(sampler, *token_numbers)
    for context, result in zip(CONTEXTS, sampler.sample(requests(CONTEXTS, seed), params, STOP), strict=True):
        assert [span.version for span in result.spans][:1] in ([], [0])
        num_changes = sum(number < len(result.ids) for number in token_numbers)
        assert len(result.spans) == (1 + num_changes if num_changes else 0)
        check_spans(models, context, result, params)


def test_sampled_tokens_stay_and_without_a_change_replies_are_equal():
    batch = requests(CONTEXTS)
    plain_replies = in_process(BASE.clone()).sample(batch, PARAMS, STOP)
    unchanged_sampler, changed_sampler = in_process(BASE.clone()), in_process(BASE.clone())
    perturb_between_tokens(unchanged_sampler), perturb_between_tokens(changed_sampler, 3)
    assert unchanged_sampler.sample(batch, PARAMS, STOP) == plain_replies  # bit-equal, and without spans
    results = changed_sampler.sample(batch, PARAMS, STOP)
    assert [(reply.ids[:3], reply.logprobs[:3]) for reply in results] == [
        (reply.ids[:3], reply.logprobs[:3]) for reply in plain_replies
    ]
    assert any(reply.spans for reply in results) and {reply.spans[0] for reply in results if reply.spans} == {
        SampledSpan(3, 0)
    }


def test_cached_values_of_older_weights_are_not_used_later():
    sampler = in_process(BASE.clone())
    first_replies = sampler.sample(
        requests(CONTEXTS, 1), PARAMS, STOP
    )  # fills the cache with values that become outdated
    models = perturb_between_tokens(sampler, 2)
    later_replies = sampler.sample(requests(CONTEXTS, 1), PARAMS, STOP)
    longer_contexts = [
        (*context, *reply.ids, 7)
        for replies in (first_replies, later_replies)
        for context, reply in zip(CONTEXTS, replies, strict=True)
    ]
    cached_lengths = [len(context) - 2 for context in longer_contexts]
    for context, result in zip(
        longer_contexts, sampler.sample(requests(longer_contexts, 2, cached_lengths), PARAMS, STOP), strict=True
    ):
        assert not result.spans
        assert result.logprobs == pytest.approx(reply_logprobs(models[1], context, result.ids, PARAMS), abs=TOLERANCE)


def test_in_a_batch_of_several_models_each_model_has_separate_spans():
    samplers = [in_process(with_adapters(BASE, number)) for number in (1, 2)]
    for sampler in samplers:
        perturb(sampler.model)
    backend = samplers[0].backend
    assert backend is not None and backend is samplers[1].backend
    models = perturb_between_tokens(samplers[1], 3)
    batches = [SampleBatch(sampler, requests(CONTEXTS, index), PARAMS, STOP) for index, sampler in enumerate(samplers)]
    replies = dict(pair for pairs in backend.submit(batches) for pair in pairs)
    first_replies, second_replies = [replies[index] for index in range(6)], [replies[index] for index in range(6, 12)]
    assert not any(reply.spans for reply in first_replies) and any(reply.spans for reply in second_replies)
    for context, result in zip(CONTEXTS, first_replies, strict=True):
        assert result.logprobs == pytest.approx(
            reply_logprobs(samplers[0].model, context, result.ids, PARAMS), abs=TOLERANCE
        )
    for context, result in zip(CONTEXTS, second_replies, strict=True):
        check_spans(models, context, result, PARAMS)


def weights_line(segments):
    """Return the line of `sparring show` about the weights of a reply."""
    turn = Turn(0, 0, "learner", "", (), "abc", None, "ok", {}, segments)
    episode = Episode(
        episode_id=0,
        group_id=0,
        game="g",
        seed=0,
        roles=("a",),
        agents=("learner",),
        trained=(True,),
        turns=(turn,),
        returns=(0.0,),
    )
    (text,) = turn_texts(episode, {}, None)
    return text.reply.facts["weights"]


def test_weight_spans_by_hand():
    states = iter([[1, 5], [1, 5], [2, 5], [2, 6], [2, 6]])
    weight_updates = WeightUpdates(lambda: next(states), [1, 5])
    assert [weight_updates.update_before(token) for token in range(1, 6)] == [False, False, True, True, False]
    assert weight_updates.spans(0, 6) == ((3, 1), (3, 2)) and weight_updates.spans(1, 6) == ((4, 5), (2, 6))
    assert weight_updates.spans(0, 3) == weight_updates.spans(1, 4) == ()


def test_a_reply_of_several_spans_has_a_segment_per_span_and_is_restored():
    reply = Reply(
        "abc",
        (97, 98, 99, 2),
        (-0.1, -0.2, -0.3, -0.4),
        ((97,), (98,), (99,), (2,)),
        False,
        8,
        (SampledSpan(1, 7), SampledSpan(3, 8)),
    )
    first_segment, second_segment = sampled_segments(reply)
    assert (first_segment.ids, first_segment.logprobs, first_segment.support, first_segment.weights_version) == (
        (97,),
        (-0.1,),
        ((97,),),
        7,
    )
    assert (second_segment.ids, second_segment.logprobs, second_segment.support, second_segment.weights_version) == (
        (98, 99, 2),
        (-0.2, -0.3, -0.4),
        ((98,), (99,), (2,)),
        8,
    )
    ledger = Ledger(Letters())
    ledger.ask("x")
    segments = ledger.record(reply)
    assert [segment.kind for segment in segments] == ["prompt", "sampled", "sampled"] and ledger.ids[-4:] == reply.ids
    assert weights_line(segments) == "of 7 updates for the first 1 tokens, of 8 updates for the next 3"
    assert weights_line(segments[:2]) == ""
    turn = Turn(0, 0, "learner", "", (), "abc", None, "ok", {}, segments, weights_version=8)
    assert recorded_reply(turn) == reply
