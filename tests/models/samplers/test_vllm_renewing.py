import json
import os
import signal

import pytest

from sparring.core.errors import RunError
from sparring.core.records import SampledRun, SamplingParams
from sparring.models.samplers.base import SampleBatch, sample
from sparring.models.samplers.vllm import requests, vllm
from sparring.models.samplers.vllm.requests import PendingCall, reply_requests
from tests.models.samplers.builders import adapted, check, every, moving, replies_of, small_model
from tests.models.samplers.test_vllm import PARAMS, STOP, make_requests

LONG = SamplingParams(max_new_tokens=12, temperature=0.8)
pytestmark = pytest.mark.usefixtures("faults")


@pytest.fixture
def stops(faults):
    """Let replies wait at some tokens for so many updates; return what is true when one waits, once for each."""

    def at(*tokens):
        for number, token in enumerate(tokens):
            (faults.folder / f"stop-{token}-{number + 2}").touch()

        def when():
            paths = [path for path in faults.folder.glob("stopped-*") if path.name not in seen]
            for path in paths:
                seen.add(path.name)
                path.with_name(path.name.replace("stopped", "passed")).touch()
            return bool(paths)

        seen = set()
        return when

    return at


@pytest.mark.parametrize("has_adapters", [False, True])
def test_every_token_is_of_the_weights_that_its_run_names(stops, has_adapters):
    learner = adapted(small_model(), 1) if has_adapters else small_model()
    sampler = vllm(learner)
    models = moving(sampler, stops(3, 6))
    replies = sample(sampler, make_requests(), LONG, STOP)
    assert check(models, 0, make_requests(), replies, LONG, 1e-5) and set(models) == {0, 1, 2}
    several = [reply.runs for reply in replies if len(reply.runs) > 1]
    assert any(len(runs) == 3 and runs[:2] == ((3, 0), (3, 1)) for runs in several)  # where one waited that began first
    assert (SampledRun(12, 2),) in {
        reply.runs for reply in replies
    }  # asked of the first weights, and begun with the last
    again = sample(sampler, make_requests(), LONG, STOP)
    assert check({2: models[2]}, 2, make_requests(), again, LONG, 1e-5) == 0 and not any(reply.runs for reply in again)
    assert sampler.backend.limits.lost == 0


def test_a_reply_that_ends_where_weights_change_is_of_the_older_ones(stops):
    sampler = vllm(small_model())
    models = moving(sampler, stops(3))
    short = SamplingParams(max_new_tokens=3, temperature=0.8)
    lots = [
        SampleBatch(sampler, make_requests(2), short, STOP),
        SampleBatch(sampler, make_requests(12)[2:], LONG, STOP),
    ]
    replies = replies_of(lots)
    check(models, 0, make_requests(2), replies[:2], short, 1e-5)
    assert check(models, 0, make_requests(12)[2:], replies[2:], LONG, 1e-5)
    assert [pair.runs for pair in replies[:2]] == [(), ()] and len(replies[0].ids) == 3


def test_what_was_said_stands_and_without_an_update_nothing_differs(stops):
    sampler = vllm(small_model())
    moving(sampler, stops(3))
    replies = sample(sampler, make_requests(), LONG, STOP)
    quiet = sample(vllm(small_model()), make_requests(), LONG, STOP)
    sampler = vllm(small_model())
    moving(sampler, lambda: False)
    assert sample(sampler, make_requests(), LONG, STOP) == quiet and any(len(reply.runs) > 1 for reply in replies)
    for reply, old in zip(replies, quiet, strict=True):
        length = reply.runs[0].length if reply.runs and not reply.runs[0].version else 0
        assert (reply.ids[:length], reply.logprobs[:length]) == (old.ids[:length], old.logprobs[:length])


def test_several_replicas_and_models_each_take_their_own():
    sampler, other = vllm(small_model(), replicas=2), vllm(small_model(4), replicas=2)
    models = moving(sampler, every(3, sampler), most=5)
    other.between = lambda: None
    lots = [
        SampleBatch(sampler, make_requests(20), LONG, STOP),
        SampleBatch(other, make_requests(), LONG, STOP),
        SampleBatch(sampler, make_requests(20), LONG, STOP),
    ]
    replies = replies_of(lots)
    assert check(models, 0, make_requests(20), replies[:20], LONG, 1e-5) and len(models) > 1
    check(models, 0, make_requests(20), replies[32:], LONG, 1e-5)
    assert check({0: other.model}, 0, make_requests(), replies[20:32], LONG, 1e-5) == 0
    assert not any(reply.runs for reply in replies[20:32]) and sampler.backend.limits.lost == 0


@pytest.mark.parametrize("kind", ["perish", "die", "pause", "stale", "skewed", "torn", "garbled"])
def test_an_update_that_fails_costs_no_reply_and_every_run_names_its_weights(stops, faults, kind, torn):
    sampler, when = vllm(small_model()), stops(3)

    def failing():
        if not when():
            return False
        torn.append(kind) if kind == "torn" else faults(kind)
        return True

    models = moving(sampler, failing)
    replies = sample(sampler, make_requests(), LONG, STOP)
    several = check(models, 0, make_requests(), replies, LONG, 1e-5)
    assert set(models) == {0, 1} and not torn and not list(faults.folder.glob(f"{kind}-*"))
    keeps = kind in ("pause", "torn")
    assert sampler.backend.limits.lost == (0 if keeps else 1) and bool(several) == keeps
    if not keeps:  # what was lost is asked again, and told again from its beginning
        assert {reply.runs[0].version for reply in replies if reply.runs} == {1}
    assert sample(sampler, make_requests(), PARAMS, STOP) == sample(vllm(models[1]), make_requests(), PARAMS, STOP)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("pause", "refuses weights: RuntimeError: out of memory"), ("skewed", "computes other log-probabilities")],
)
def test_an_update_that_goes_on_failing_ends_the_run(stops, faults, kind, text):
    sampler, when = vllm(small_model()), stops(3)

    def failing():
        if when():
            faults(kind, 2)
            return True
        return False

    moving(sampler, failing)
    with pytest.raises(RunError, match=text):
        sample(sampler, make_requests(), LONG, STOP)


def test_a_replica_that_is_killed_after_an_update_is_asked_for_the_newest():
    sampler = vllm(small_model(), replicas=2)
    when, killed = every(3, sampler), []

    def kills():
        busy = [
            replica
            for replica in sampler.backend.replicas
            if replica.stage in ("loading", "checking") and len(replica.pending) > 1
        ]
        if busy and not killed:
            killed.append(busy[0].pid)
            os.kill(busy[0].pid, signal.SIGKILL)
        return when()

    models = moving(sampler, kills, most=5)
    replies = sample(sampler, make_requests(40), LONG, STOP)
    check(models, 0, make_requests(40), replies, LONG, 1e-5)
    assert killed and sampler.backend.limits.lost == 1


@pytest.mark.parametrize(
    ("runs", "good"),
    [
        ([[0, "1.0.0"]], ()),
        ([[0, "1.0.0"], [1, "1.0.1"]], ()),
        ([[0, "1.4.0"]], (SampledRun(2, 4),)),
        ([[0, "1.0.0"], [1, "1.4.0"]], (SampledRun(1, 0), SampledRun(1, 4))),
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
def test_runs_as_a_replica_tells_them(runs, good):
    (ask,) = reply_requests(
        [SampleBatch(vllm(small_model(31)), make_requests(1), LONG, STOP)], PendingCall(), iter([7])
    )
    runs = json.loads(
        json.dumps(runs).replace('"1.', f'"{ask.served.number}.').replace('"2.', f'"{ask.served.number + 1}.')
    )
    answer = requests.parse_answer(ask, [[7, 8], [-1.0, -1.0], True, [], runs])
    assert (None if answer is None else answer.runs) == good
    assert requests.parse_answer(ask, [[7, 8], [-1.0, -1.0], True]) is None
