"""Several policies that learn in one league."""

import json

import numpy as np
import pytest

from sparring.config import resolve
from sparring.core.errors import ConfigError
from sparring.core.refs import LEARNER, ref, snapshot
from sparring.league.payoffs import Payoffs
from sparring.play.store import EpisodeStore
from sparring.run.events import read_lines
from tests.engine.fleet.simulated import simulated_workers
from tests.run_with_members import last, run

BASE = {
    "name": "league", "steps": 4, "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}], "rollout": {"games_per_step": 24},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "matchmaker": {"name": "by_tag", "past": {"any": 0.5}}, "credit": {"name": "rae"},
    "learner": {"average": 0.9}, "warmup": {"updates": 1, "games": 8}, "evaluation": {"every": 9, "exact": False}, "checkpoint": {"every": 1, "keep": 9},
    "store": {"every": 1},
}
TWO = {"main": {}, "counter": {"tag": "exploiter", "matchmaker": {"name": "by_tag", "live": {"main": 1.0}}, "restart": 1.0}}


def config_of(learners=TWO, *, more=None, **league):
    return resolve({**BASE, **(more or {}), "league": {"every": 2, "keep": 4, "start": True, "plays": 12, "learners": learners, **league}})


def weights(model):
    return np.concatenate([tensor.numpy().ravel() for tensor in model.tensors().values()])


def episodes_of(path, step):
    found = EpisodeStore(path / "episodes").episodes(lambda number: number == step)
    return [episode for _, episode in found]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("league") / "run"
    return path, run(path, config_of())


def test_each_learner_has_members_of_its_own(trained):
    _, engine = trained
    steps = (0, 2, 4)
    assert set(engine.members) == {snapshot(step, name) for step in steps for name in ("main", "counter")}
    assert [member.step for member in engine.members] == sorted(steps * 2)


def test_it_is_recorded_who_came_from_whom_and_what_for(trained):
    league = json.loads(last(trained[0])[1])["league"]
    assert league["members"] == {
        "past-000002": {"parent": "past-000000", "tag": "main"}, "past-000004": {"parent": "past-000002", "tag": "main"},
        "past-counter-000002": {"parent": "past-counter-000000", "tag": "exploiter"},
        "past-counter-000004": {"parent": "past-counter-000000", "tag": "exploiter"},
    }
    assert league["anew"] == ["counter"]


def test_the_payoff_book_knows_them_apart(trained):
    book = Payoffs.from_json(json.loads(last(trained[0])[1])["payoffs"])
    counter = ref("learner-counter")
    against = book.results(counter, LEARNER)
    assert against.games > 0 and against.returns == pytest.approx(-book.results(LEARNER, counter).returns)
    assert book.results(LEARNER, LEARNER).games > 0 and book.results(counter, counter).games == 0  # it meets the main alone
    assert book.results(snapshot(2), snapshot(2, "counter")).games > 0  # plays among members


def test_who_is_trained_is_whose_state_it_is(trained):
    path, _ = trained
    episodes = [episode for step in (1, 2, 3, 4) for episode in episodes_of(path, step)]
    learning = {}
    for episode in episodes:
        who = {str(player) for player, asked in zip(episode.players, episode.trained, strict=True) if asked}
        assert len(who) == 1
        learning.setdefault(who.pop(), []).append(episode)
    assert {name: len(own) for name, own in learning.items()} == {"learner": 48, "learner-counter": 48}
    for episode in learning["learner-counter"]:
        assert sorted(map(str, episode.players)) == ["learner", "learner-counter"]
    sides = [str(episode.players[0]) for episode in learning["learner-counter"]]
    assert sides.count("learner-counter") == 24


def test_both_learn_and_the_counter_began_anew(trained):
    path, engine = trained
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert all({"loss", "counter/loss"} <= line.keys() for line in lines if line.get("step"))
    counter, main = engine.policies["counter"], engine.policies["main"]
    near, far = (np.abs(weights(counter.past[4].model) - weights(counter.past[step].model)).max() for step in (0, 2))
    assert 0 < near < far  # two steps from its start; four from its first snapshot and back
    assert not np.array_equal(weights(main.past[0].model), weights(counter.past[0].model))
    assert np.abs(weights(main.past[4].model) - weights(main.past[2].model)).max() < np.abs(weights(main.past[4].model) - weights(main.past[0].model)).max()


def test_the_main_is_who_is_measured(trained):
    _, engine = trained
    game = engine.environments[0][0]
    assert engine.seats(game) == (("main", True),) * 2
    assert str(engine.agent("policy").name) == "policy" and str(engine.agent("policy-counter").name) == "policy-counter"


@pytest.mark.parametrize("until", [1, 2, 3])
def test_a_league_that_goes_on_ends_as_one_that_was_not_interrupted(tmp_path, trained, until):
    config = config_of()
    run(tmp_path / "parts", config, until=until)
    run(tmp_path / "parts", config, resume=True)
    assert last(trained[0]) == last(tmp_path / "parts")


def test_workers_change_no_byte_of_it(tmp_path, trained):
    config = config_of()
    workers = {"fleet": "processes", "workers": 3, "unit_games": 4}
    with simulated_workers():
        run(tmp_path / "workers", config.model_copy(update={"scale": config.scale.model_copy(update=workers)}))
    assert last(trained[0]) == last(tmp_path / "workers")


def test_with_one_learner_it_is_a_plain_run(tmp_path):
    league = {"every": 2, "keep": 4, "start": True, "plays": 12}
    plain = resolve({**BASE, "matchmaker": {"name": "pfsp"}, "league": league})
    alone = resolve({**BASE, "matchmaker": {"name": "pfsp"}, "league": {**league, "learners": {"main": {}}}})
    for name, config in (("plain", plain), ("alone", alone)):
        run(tmp_path / name, config)
    one, other = last(tmp_path / "plain"), last(tmp_path / "alone")
    assert one[0] == other[0] and one[2] == other[2]
    assert json.loads(one[1])["payoffs"] == json.loads(other[1])["payoffs"]


def test_one_after_another(tmp_path):
    config = config_of({"main": {}, "counter": {}}, together=False, more={"steps": 6}, every=2)
    engine = run(tmp_path / "run", config)
    found = [{str(p) for e in episodes_of(tmp_path / "run", step) for p, asked in zip(e.players, e.trained, strict=True) if asked} for step in range(1, 7)]
    assert found == [{"learner"}] * 2 + [{"learner-counter"}] * 2 + [{"learner"}] * 2
    assert {str(member) for member in engine.members} == {"past-000000", "past-counter-000000", "past-000002", "past-counter-000004", "past-000006"}
    run(tmp_path / "parts", config, until=3)
    run(tmp_path / "parts", config, resume=True)
    assert last(tmp_path / "run") == last(tmp_path / "parts")


def test_a_schedule_of_its_own_and_a_restart_by_chance(tmp_path):
    gate = {"name": "gate", "against": "learners", "rate": 0.01, "least": 1}
    learners = {"main": {"schedule": {"name": "plateau", "window": 2, "longest": 6}}, "counter": {"schedule": gate, "restart": 0.5, "share": 2.0}}
    engine = run(tmp_path / "run", config_of(learners, every=1, keep=12, more={"steps": 8}))
    league = json.loads(last(tmp_path / "run")[1])["league"]
    steps = {name: [member.step for member in engine.members if (member.name or "main") == name] for name in learners}
    assert steps["counter"] == [0, 2, 4, 6, 8]  # never met by the main, so that the gate opens at the latest
    assert set(steps["main"]) <= {0, 4, 5, 6, 7, 8} and len(steps["main"]) >= 2
    assert len(league["returns"]["main"]) == 8 - max(steps["main"]) == league["age"].get("main")
    parents = [league["members"][f"past-counter-00000{step}"]["parent"] for step in (4, 6, 8)]
    assert len({parent == "past-counter-000000" for parent in parents}) == 2  # with this seed both happen
    shares = [sum(str(p) == "learner-counter" for e in episodes_of(tmp_path / "run", step) for p, asked in zip(e.players, e.trained, strict=True) if asked) for step in (1, 2, 3)]
    assert sum(shares) > 0


def test_every_snapshot_is_noted_with_the_step_it_was_taken_at(tmp_path):
    """Of each learner by its schedule, who came from whom, also those that left; cut off like figures when a run goes on."""
    learners = {
        "main": {"schedule": {"name": "plateau", "window": 2, "gain": 9.0, "longest": 9.0}},  # as soon as there are two windows: at 4 and 8
        "counter": {"tag": "exploiter", "schedule": {"name": "gate", "rate": 0.99, "longest": 3.0}, "restart": 1.0},  # at the latest: 6
    }
    config = config_of(learners, more={"steps": 8}, keep=2, plays=0)
    run(tmp_path, config, until=5)
    assert [line["step"] for line in read_lines(tmp_path / "league.jsonl")] == [4]
    with open(tmp_path / "league.jsonl", "a") as stream:
        stream.write('{"member": "past-000006", "step": 6}\n{"torn')  # of a step that was killed
    engine = run(tmp_path, config, resume=True)
    assert read_lines(tmp_path / "league.jsonl") == [
        {"step": 4, "member": "past-000004", "parent": "past-000000", "tag": "main"},
        {"step": 6, "member": "past-counter-000006", "parent": "past-counter-000000", "tag": "exploiter"},
        {"step": 8, "member": "past-000008", "parent": "past-000004", "tag": "main"},
    ]
    assert snapshot(4) not in engine.members and snapshot(8) in engine.members


def test_a_league_plays_ahead_with_a_lag(tmp_path):
    learners = {"main": {}, "counter": {"matchmaker": {"name": "by_tag", "past": {"main": 1.0}}}}
    config = config_of(learners, more={"scale": {"fleet": "processes", "workers": 2, "unit_games": 6, "lag": 1, "order": "pinned"}})
    with simulated_workers():
        run(tmp_path / "whole", config)
        run(tmp_path / "parts", config, until=3)
        run(tmp_path / "parts", config, resume=True)
    assert last(tmp_path / "whole") == last(tmp_path / "parts")


@pytest.mark.parametrize(
    ("learners", "more", "said"),
    [
        ({"counter": {}}, {}, "one of them must be named main"),
        ({"main": {}, "counter": {}}, {"policies": {"third": {}}}, "'third' is trained and not among them"),
        ({"main": {}, "counter": {}}, {"policies": {"counter": {"frozen": True}}}, "'counter' is frozen"),
        ({"main": {}, "counter": {}}, {"roles": {"first": "main", "second": "counter"}}, "leave the roles out"),
        ({"main": {"matchmaker": "pfps"}}, {}, "league.learners.main: .*pfsp"),
        ({"main": {"schedule": {"name": "gate", "rate": 2}}}, {}, "league.learners.main: .*rate"),
        ({"main": {}, "counter": {"restart": 1.5}}, {}, "restart"),
        ({"main": {}, "counter": {"share": 0}}, {}, "share"),
        ({"main": {}, "a/b": {}}, {}, "a/b"),
    ],
)
def test_what_does_not_fit_is_refused(learners, more, said):
    with pytest.raises(ConfigError, match=said):
        config_of(learners, more=more)


def test_a_restart_wants_the_start_and_no_lag():
    with pytest.raises(ConfigError, match="start: true"):
        config_of(start=False)
    with pytest.raises(ConfigError, match="lag: 0"):
        config_of(more={"scale": {"lag": 1}})
