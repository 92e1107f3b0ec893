import json
import os
import signal

import numpy as np
import pytest
import torch

from sparring.config import resolve
from sparring.core.errors import ModelError, RunError
from sparring.core.records import SampledRun, SamplingParams
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.engine.workers.units import WorkUnit, answer_of, news_bytes, task_bytes
from sparring.engine.workers.worker import Worker
from sparring.engine.workers.worker_weights import PublishedWeights
from sparring.league.seating import starts
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import SampleBatch, finished_together, sample
from sparring.models.samplers.vllm import requests, vllm
from sparring.models.samplers.vllm.requests import PendingCall, replies_to
from tests.engine.test_distributed import CONFIG, differences, runs_of
from tests.models.samplers.renewed import check, every, moving
from tests.models.samplers.test_vllm import PARAMS, STOP, asked, model

LONG = SamplingParams(max_new_tokens=12, temperature=0.8)
pytestmark = pytest.mark.usefixtures("faults")


@pytest.fixture
def stops(faults):
    """Let replies wait at some tokens for so many updates; return what is true when one waits, once for each."""

    def at(*tokens):
        for number, token in enumerate(tokens):
            (faults.folder / f"stop-{token}-{number + 2}").touch()

        def when():
            found = [path for path in faults.folder.glob("stopped-*") if path.name not in seen]
            for path in found:
                seen.add(path.name)
                path.with_name(path.name.replace("stopped", "passed")).touch()
            return bool(found)

        seen = set()
        return when

    return at


@pytest.mark.parametrize("adapted", [False, True])
def test_every_token_is_of_the_weights_that_its_run_names(stops, adapted):
    own = model()
    if adapted:
        own = LanguageModel(add_adapters(share_weights(own.network), rank=2, alpha=4.0, targets=(), stream=Stream.from_seed(1)), None, over=own)
    sampler = vllm(own)
    models = moving(sampler, stops(3, 6))
    said = sample(sampler, asked(), LONG, STOP)
    assert check(models, 0, asked(), said, LONG, 1e-5) and set(models) == {0, 1, 2}
    several = [one.runs for one in said if len(one.runs) > 1]
    assert any(len(runs) == 3 and runs[:2] == ((3, 0), (3, 1)) for runs in several)  # where one waited that began first
    assert (SampledRun(12, 2),) in {one.runs for one in said}  # asked of the first weights, and begun with the last
    again = sample(sampler, asked(), LONG, STOP)
    assert check({2: models[2]}, 2, asked(), again, LONG, 1e-5) == 0 and not any(one.runs for one in again)
    assert sampler.backend.limits.lost == 0


def test_a_reply_that_ends_where_weights_change_is_of_the_older_ones(stops):
    sampler = vllm(model())
    models = moving(sampler, stops(3))
    short = SamplingParams(max_new_tokens=3, temperature=0.8)
    lots = [SampleBatch(sampler, asked(2), short, STOP), SampleBatch(sampler, asked(12)[2:], LONG, STOP)]
    found = dict(one for some in finished_together(sampler.backend, lots) for one in some)
    said = [found[place] for place in range(12)]
    check(models, 0, asked(2), said[:2], short, 1e-5)
    assert check(models, 0, asked(12)[2:], said[2:], LONG, 1e-5)
    assert [one.runs for one in said[:2]] == [(), ()] and len(said[0].ids) == 3


def test_what_was_said_stands_and_without_an_update_nothing_differs(stops):
    sampler = vllm(model())
    moving(sampler, stops(3))
    said = sample(sampler, asked(), LONG, STOP)
    quiet = sample(vllm(model()), asked(), LONG, STOP)
    sampler = vllm(model())
    moving(sampler, lambda: False)
    assert sample(sampler, asked(), LONG, STOP) == quiet and any(len(one.runs) > 1 for one in said)
    for one, old in zip(said, quiet, strict=True):
        length = one.runs[0].length if one.runs and not one.runs[0].version else 0
        assert (one.ids[:length], one.logprobs[:length]) == (old.ids[:length], old.logprobs[:length])


def test_several_replicas_and_models_each_take_their_own():
    sampler, other = vllm(model(), replicas=2), vllm(model(4), replicas=2)
    models = moving(sampler, every(3, sampler), most=5)
    other.between = lambda: None
    lots = [SampleBatch(sampler, asked(20), LONG, STOP), SampleBatch(other, asked(), LONG, STOP), SampleBatch(sampler, asked(20), LONG, STOP)]
    found = dict(one for some in finished_together(sampler.backend, lots) for one in some)
    said = [found[place] for place in range(52)]
    assert check(models, 0, asked(20), said[:20], LONG, 1e-5) and len(models) > 1
    check(models, 0, asked(20), said[32:], LONG, 1e-5)
    assert check({0: other.model}, 0, asked(), said[20:32], LONG, 1e-5) == 0
    assert not any(one.runs for one in said[20:32]) and sampler.backend.limits.lost == 0


@pytest.mark.parametrize("kind", ["perish", "die", "pause", "stale", "skewed", "torn", "garbled"])
def test_an_update_that_fails_costs_no_reply_and_every_run_names_its_weights(stops, faults, kind, torn):
    sampler, when = vllm(model()), stops(3)

    def failing():
        if not when():
            return False
        torn.append(kind) if kind == "torn" else faults(kind)
        return True

    models = moving(sampler, failing)
    said = sample(sampler, asked(), LONG, STOP)
    several = check(models, 0, asked(), said, LONG, 1e-5)
    assert set(models) == {0, 1} and not torn and not list(faults.folder.glob(f"{kind}-*"))
    keeps = kind in ("pause", "torn")
    assert sampler.backend.limits.lost == (0 if keeps else 1) and bool(several) == keeps
    if not keeps:  # what was lost is asked again, and told again from its beginning
        assert {one.runs[0].version for one in said if one.runs} == {1}
    assert sample(sampler, asked(), PARAMS, STOP) == sample(vllm(models[1]), asked(), PARAMS, STOP)


@pytest.mark.parametrize(("kind", "text"), [("pause", "refuses weights: RuntimeError: out of memory"), ("skewed", "computes other log-probabilities")])
def test_an_update_that_goes_on_failing_ends_the_run(stops, faults, kind, text):
    sampler, when = vllm(model()), stops(3)

    def failing():
        if when():
            faults(kind, 2)
            return True
        return False

    moving(sampler, failing)
    with pytest.raises(RunError, match=text):
        sample(sampler, asked(), LONG, STOP)


def test_a_replica_that_is_killed_after_an_update_is_asked_for_the_newest():
    sampler = vllm(model(), replicas=2)
    when, killed = every(3, sampler), []

    def kills():
        busy = [one for one in sampler.backend.replicas if one.stage in ("loading", "checking") and len(one.pending) > 1]
        if busy and not killed:
            killed.append(busy[0].pid)
            os.kill(busy[0].pid, signal.SIGKILL)
        return when()

    models = moving(sampler, kills, most=5)
    said = sample(sampler, asked(40), LONG, STOP)
    check(models, 0, asked(40), said, LONG, 1e-5)
    assert killed and sampler.backend.limits.lost == 1


def test_without_between_weights_that_change_are_noticed_as_before():
    sampler = vllm(model())
    coming = sampler.submit(asked(), LONG, STOP)
    sampler.model.version += 1
    with pytest.raises(ModelError, match="have changed while replies"):
        list(coming)


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
    (ask,) = replies_to([SampleBatch(vllm(model(31)), asked(1), LONG, STOP)], PendingCall(), iter([7]))
    runs = json.loads(json.dumps(runs).replace('"1.', f'"{ask.served.number}.').replace('"2.', f'"{ask.served.number + 1}.'))
    found = requests.answer_of(ask, [[7, 8], [-1.0, -1.0], True, [], runs])
    assert (None if found is None else found.runs) == good
    assert requests.answer_of(ask, [[7, 8], [-1.0, -1.0], True]) is None


def test_a_worker_that_plays_takes_news_between_the_tokens_of_a_reply(stops, tmp_path):
    config = resolve({**CONFIG, "model": {"hidden_size": 32, "layers": 1, "heads": 1}, "sampler": {"name": "vllm"}})
    engine = LocalEngine(config)
    published = PublishedWeights(engine, tmp_path / "weights")
    older = published.files(published.pin_newest())
    with torch.no_grad():
        for parameter in engine.model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    engine.model.version += 1
    newer = published.files(published.pin_newest())
    specs = starts(
        0,
        games=engine.environments,
        rollout=config.rollout,
        matchmaker=config.matchmaker.bind("league.matchmakers"),
        members=(),
        root=engine.root,
        progress=0.0,
    )
    unit, when = WorkUnit(tuple(specs), older, 0.0), stops(1)
    worker = Worker(config.model_dump(mode="json"))

    def between():
        if when():
            worker.renew(news_bytes(newer), {})

    episodes = answer_of(worker.answer(task_bytes({0: unit}), {}, between), {0: unit}).rollouts[0].episodes
    old, new = older[0].version, newer[0].version
    assert {(place, version) for _, place, version, _ in runs_of(episodes)} == {(0, old), (1, new), (0, new)}
    assert differences(engine, episodes, new).max() < 1e-4 < 0.01 < np.max(differences(engine, episodes, old))
