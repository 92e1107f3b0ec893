"""`replay-unit` plays a unit of work of a step again with the same result; a missing checkpoint is refused."""

import pytest

import sparring
from sparring.api.unit_replay import replay, unit_of
from sparring.core.errors import CheckpointError, ConfigError
from sparring.play.store import EpisodeStore
from tests.cli.builders import call

CHANGES = (
    *(
        "steps=4",
        "threads=1",
        "warmup.updates=1",
        "warmup.games=8",
        "rollout.games_per_step=24",
        "rollout.group_size=4",
    ),
    *(
        "rollout.plan.name=branch",
        "matchmaker.name=pfsp",
        "matchmaker.past=0.5",
        "league.every=1",
        "checkpoint.every=2",
    ),
    *(
        "store.every=1",
        "scale.unit_games=8",
        "evaluation.exact=false",
        "model.hidden_size=16",
        "model.layers=1",
        "model.heads=2",
    ),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "run"
    sparring.train("kuhn-tiny", *CHANGES, run=path)
    return path


@pytest.fixture(scope="module")
def run_with_lag(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "ahead"
    sparring.train("kuhn-tiny", *CHANGES, "scale.lag=1", run=path)
    return path


def replay_step(run, step):
    episodes, unit = {}, 0
    while True:
        try:
            engine, specs, judging = unit_of(run, step, unit)
        except ConfigError as error:
            assert f"Step {step} has {unit} units" in str(error)
            return episodes, unit
        for spec, episode in replay(engine, specs, judging):
            if episode is not None:
                assert not episode.tracebacks and not episode.num_restarts
                episodes[spec.episode_id] = (episode.returns, episode.turns)
        unit += 1


@pytest.mark.parametrize(("run_fixture", "step"), [("run", 1), ("run", 3), ("run_with_lag", 2), ("run_with_lag", 4)])
def test_every_unit_of_a_step_is_replayed_exactly_also_branched_episodes(run_fixture, step, request):
    run = request.getfixturevalue(run_fixture)
    episodes, units = replay_step(run, step)
    stored_episodes = [episode for number, episode in EpisodeStore(run / "episodes").episodes() if number == step]
    assert episodes == {episode.episode_id: (episode.returns, len(episode.turns)) for episode in stored_episodes}
    assert units > 3  # branched episodes are in separate units


def test_a_replayed_step_needs_the_checkpoint_it_started_from(run, run_with_lag):
    with pytest.raises(CheckpointError, match=r"Steps that can be played again: 1, 3\. .*checkpoint.every=1"):
        unit_of(run, 2, 0)
    with pytest.raises(ConfigError, match="from 1 to 4"):
        unit_of(run, 5, 0)
    with pytest.raises(CheckpointError, match=r"Step 3 of .* begins where step 1 ended.*: 1, 2, 4\."):
        unit_of(run_with_lag, 3, 0)


def test_replay_unit_prints_every_episode(run):
    outcome = call("replay-unit", run, 3, 0)
    assert outcome.exit_code == 0 and "Unit 0 of step 3: 8 episodes of kuhn_poker." in outcome.output
    assert outcome.output.count("\nepisode ") == 8 == outcome.output.count(" turns, returns ")
    assert "All episodes were played." in outcome.output
