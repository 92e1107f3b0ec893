"""A sampler that holds weights of its own plays with those of now, as one in the training process does."""

import pytest

from sparring.config import resolve
from sparring.core.refs import LEARNER, PUBLISHED, snapshot
from sparring.engine.local import LocalEngine
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

APART = '''
from sparring.models.samplers.in_process import InProcessSampler

SLOT = "samplers"
PUBLISHED = []


class Apart(InProcessSampler):
    """Draws replies from a copy of the weights, which changes only when others are published."""

    def __init__(self, model):
        super().__init__(model.clone(), cache_bytes=1 << 20)

    def publish(self, weights, version):
        PUBLISHED.append(version)
        return super().publish(weights, version)


def apart(model):
    """Draw replies from a copy."""
    return Apart(model)
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apart")
    (folder / "apart.py").write_text(APART)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        import apart

        yield apart


@pytest.fixture
def apart(module):
    module.PUBLISHED.clear()
    return module


def engine(name):
    model = {"hidden_size": 16, "heads": 2}
    asked = {"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 32}, "model": model, "threads": 1}
    return LocalEngine(resolve({**asked, "learner": {"average": 0.5, "learning_rate": 0.01}, "sampler": {"name": name}}))


def rounds(run, count):
    methods, state, said = Methods.of(run.config), RunState(), []
    for _ in range(count):
        found = play_round(run.config, run, methods, state)
        state = found.state
        said.append([(turn.reply, [segment.logprobs for segment in turn.segments]) for one in found.episodes for turn in one.turns])
    return said


def test_weights_are_published_before_they_are_played_with(apart):
    mine, theirs = engine("apart.apart"), engine("in_process")
    assert rounds(mine, 3) == rounds(theirs, 3)
    assert apart.PUBLISHED == [1, 2]


def test_averaged_weights_are_published_and_snapshots_stay(apart):
    run = engine("apart.apart")
    run.take_member(snapshot(0))
    old, average = run.agent(snapshot(0)), run.agent(PUBLISHED)
    rounds(run, 2)
    assert run.agent(PUBLISHED) is average
    assert average.sampler.version == run.policies["main"].published.version == 2
    for name, weights in run.policies["main"].published.tensors().items():
        assert (average.sampler.model.tensors()[name] == weights).all()
    run.agent(snapshot(0))
    assert old.sampler.version == 0
    assert run.agent(LEARNER).sampler.version == 2
