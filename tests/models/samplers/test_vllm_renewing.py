import json
import os
import signal

import pytest

from sparring.core.errors import RunError
from sparring.core.records import SampledSpan, SamplingParams
from sparring.models.samplers.base import SampleBatch, sample
from sparring.models.samplers.vllm import requests, vllm
from sparring.models.samplers.vllm.requests import PendingCall, reply_requests
from tests.models.samplers.builders import check, publish_between, replies_of, small_model, true_at_every, with_adapters
from tests.models.samplers.test_vllm import PARAMS, STOP, make_requests

LONG = SamplingParams(max_new_tokens=12, temperature=0.8)
pytestmark = pytest.mark.usefixtures("faults")


@pytest.fixture
def stops(faults):
    """Return a function that stops replies at given tokens; it returns a predicate that is true once after each stop."""

    def stop_at(*tokens):
        for index, token in enumerate(tokens):
            (faults.folder / f"stop-{token}-{index + 2}").touch()

        def is_newly_stopped():
            paths = [path for path in faults.folder.glob("stopped-*") if path.name not in reported]
            for path in paths:
                reported.add(path.name)
                path.with_name(path.name.replace("stopped", "passed")).touch()
            return bool(paths)

        reported = set()
        return is_newly_stopped

    return stop_at


@pytest.mark.parametrize("has_adapters", [False, True])
def test_every_token_has_the_weights_of_its_span(stops, has_adapters):
    learner = with_adapters(small_model(), 1) if has_adapters else small_model()
    sampler = vllm(learner)
    models = publish_between(sampler, stops(3, 6))
    replies = sample(sampler, make_requests(), LONG, STOP)
    assert check(models, 0, make_requests(), replies, LONG, 1e-5) and set(models) == {0, 1, 2}
    multi_span_replies = [reply.spans for reply in replies if len(reply.spans) > 1]
    assert any(
        len(runs) == 3 and runs[:2] == ((3, 0), (3, 1)) for runs in multi_span_replies
    )  # a reply that was stopped twice
    assert (SampledSpan(12, 2),) in {
        reply.spans for reply in replies
    }  # requested with the first weights but sampled with the last
    next_replies = sample(sampler, make_requests(), LONG, STOP)
    assert check({2: models[2]}, 2, make_requests(), next_replies, LONG, 1e-5) == 0 and not any(
        reply.spans for reply in next_replies
    )
    assert sampler.backend.limits.num_lost == 0


def test_a_reply_that_ends_at_an_update_uses_only_the_older_weights(stops):
    sampler = vllm(small_model())
    models = publish_between(sampler, stops(3))
    short_params = SamplingParams(max_new_tokens=3, temperature=0.8)
    batches = [
        SampleBatch(sampler, make_requests(2), short_params, STOP),
        SampleBatch(sampler, make_requests(12)[2:], LONG, STOP),
    ]
    replies = replies_of(batches)
    check(models, 0, make_requests(2), replies[:2], short_params, 1e-5)
    assert check(models, 0, make_requests(12)[2:], replies[2:], LONG, 1e-5)
    assert [pair.spans for pair in replies[:2]] == [(), ()] and len(replies[0].ids) == 3


def test_sampled_tokens_stay_and_without_an_update_replies_are_equal(stops):
    sampler = vllm(small_model())
    publish_between(sampler, stops(3))
    replies = sample(sampler, make_requests(), LONG, STOP)
    replies_without_update = sample(vllm(small_model()), make_requests(), LONG, STOP)
    sampler = vllm(small_model())
    publish_between(sampler, lambda: False)
    assert sample(sampler, make_requests(), LONG, STOP) == replies_without_update and any(
        len(reply.spans) > 1 for reply in replies
    )
    for reply, undisturbed_reply in zip(replies, replies_without_update, strict=True):
        length = reply.spans[0].length if reply.spans and not reply.spans[0].version else 0
        assert (reply.ids[:length], reply.logprobs[:length]) == (
            undisturbed_reply.ids[:length],
            undisturbed_reply.logprobs[:length],
        )


def test_each_replica_and_model_uses_its_own_weights():
    sampler, other_sampler = vllm(small_model(), replicas=2), vllm(small_model(4), replicas=2)
    models = publish_between(sampler, true_at_every(3, sampler), max_updates=5)
    other_sampler.between_tokens = lambda: None
    batches = [
        SampleBatch(sampler, make_requests(20), LONG, STOP),
        SampleBatch(other_sampler, make_requests(), LONG, STOP),
        SampleBatch(sampler, make_requests(20), LONG, STOP),
    ]
    replies = replies_of(batches)
    assert check(models, 0, make_requests(20), replies[:20], LONG, 1e-5) and len(models) > 1
    check(models, 0, make_requests(20), replies[32:], LONG, 1e-5)
    assert check({0: other_sampler.model}, 0, make_requests(), replies[20:32], LONG, 1e-5) == 0
    assert not any(reply.spans for reply in replies[20:32]) and sampler.backend.limits.num_lost == 0


@pytest.mark.parametrize("kind", ["perish", "die", "pause", "stale", "skewed", "torn", "garbled"])
def test_a_failed_update_loses_no_reply_and_spans_have_the_right_weights(stops, faults, kind, torn):
    sampler, is_stopped = vllm(small_model()), stops(3)

    def failing():
        if not is_stopped():
            return False
        torn.append(kind) if kind == "torn" else faults(kind)
        return True

    models = publish_between(sampler, failing)
    replies = sample(sampler, make_requests(), LONG, STOP)
    num_with_several_spans = check(models, 0, make_requests(), replies, LONG, 1e-5)
    assert set(models) == {0, 1} and not torn and not list(faults.folder.glob(f"{kind}-*"))
    keeps_tokens = kind in ("pause", "torn")
    assert (
        sampler.backend.limits.num_lost == (0 if keeps_tokens else 1) and bool(num_with_several_spans) == keeps_tokens
    )
    if not keeps_tokens:  # lost requests are repeated from their beginning
        assert {reply.spans[0].version for reply in replies if reply.spans} == {1}
    assert sample(sampler, make_requests(), PARAMS, STOP) == sample(vllm(models[1]), make_requests(), PARAMS, STOP)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("pause", "refuses weights: RuntimeError: out of memory"), ("skewed", "computes wrong log-probabilities")],
)
def test_an_update_that_always_fails_ends_the_run(stops, faults, kind, text):
    sampler, is_stopped = vllm(small_model()), stops(3)

    def failing():
        if is_stopped():
            faults(kind, 2)
            return True
        return False

    publish_between(sampler, failing)
    with pytest.raises(RunError, match=text):
        sample(sampler, make_requests(), LONG, STOP)


def test_a_replica_killed_after_an_update_restarts_with_the_newest_weights():
    sampler = vllm(small_model(), replicas=2)
    should_kill, killed = true_at_every(3, sampler), []

    def kill_busy_replica():
        busy = [
            replica
            for replica in sampler.backend.replicas
            if replica.stage in ("loading", "checking") and len(replica.pending) > 1
        ]
        if busy and not killed:
            killed.append(busy[0].pid)
            os.kill(busy[0].pid, signal.SIGKILL)
        return should_kill()

    models = publish_between(sampler, kill_busy_replica, max_updates=5)
    replies = sample(sampler, make_requests(40), LONG, STOP)
    check(models, 0, make_requests(40), replies, LONG, 1e-5)
    assert killed and sampler.backend.limits.num_lost == 1


@pytest.mark.parametrize(
    ("runs", "is_valid"),
    [
        ([[0, "1.0.0"]], ()),
        ([[0, "1.0.0"], [1, "1.0.1"]], ()),
        ([[0, "1.4.0"]], (SampledSpan(2, 4),)),
        ([[0, "1.0.0"], [1, "1.4.0"]], (SampledSpan(1, 0), SampledSpan(1, 4))),
        *(
            ([*bad], None)
            for bad in (
                [],
                [[1, "1.0.0"]],
                [[0, "2.0.0"]],
                [[0, "1.0.0"], [2, "1.1.0"]],
                [[0, "1.0.0"], [0, "1.1.0"]],
                [[0, ""]],
                [[0, "1.0"]],
                [[0]],
                [[0, 1]],
                [[0, None]],
            )
        ),
    ],
)
def test_spans_reported_by_a_replica_are_checked(runs, is_valid):
    (request,) = reply_requests(
        [SampleBatch(vllm(small_model(31)), make_requests(1), LONG, STOP)], PendingCall(), iter([7])
    )
    runs = json.loads(
        json.dumps(runs).replace('"1.', f'"{request.served.number}.').replace('"2.', f'"{request.served.number + 1}.')
    )
    answer = requests.parse_answer(request, [[7, 8], [-1.0, -1.0], True, [], runs])
    assert (None if answer is None else answer.spans) == is_valid
    assert requests.parse_answer(request, [[7, 8], [-1.0, -1.0], True]) is None
