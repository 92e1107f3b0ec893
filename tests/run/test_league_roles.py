"""A league in which each role has a population of its own: two policies for two roles, and sides that are weighed apart."""

import json
from pathlib import Path

import numpy as np
import pytest

import sparring
from sparring import cli
from sparring.api.human_play import InteractiveSession, Lobby, Opponent
from sparring.api.measurement import measured
from sparring.api.suite_evaluation import Bench
from sparring.api.suite_player import run_player
from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.config.recipe import to_yaml
from sparring.core.refs import ref, snapshot
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import configured_game, make_game
from sparring.league.matchmakers import meta_strategy
from sparring.league.meta_game import side_payoffs
from sparring.league.payoffs import Payoffs
from sparring.measure.exploitability import ask, nash_conv
from sparring.measure.info_states import TabularScorer, enumerate_info_states
from sparring.play.players.exported import exported
from sparring.play.players.mixture import MemberMixture
from sparring.play.store import EpisodeStore
from sparring.play.team import Team
from sparring.run import checkpoint
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from tests import run_with_members

CONFIG = {
    "steps": 3, "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}], "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "policies": {"one": {}, "two": {}}, "roles": {"first": "one", "second": "two"},
    "matchmaker": {"name": "meta_strategy", "solver": "nash", "sides": "apart"}, "league": {"every": 1, "keep": 4, "start": True, "plays": 18},
    "credit": {"name": "rae"}, "evaluation": {"every": 9, "exact": False}, "store": {"every": 1},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path, config = tmp_path_factory.mktemp("roles") / "run", resolve(CONFIG)
    with RunFolder.create(path, to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    return path


def book_of(path, step):
    return Payoffs.from_json(checkpoint.load_step(path, step).state["payoffs"])


def test_who_is_met_in_a_role_is_of_that_role_s_population(trained):
    """Half of the plays train each role; the other seat has a snapshot of the other role's policy."""
    seats = [(episode.trained.index(True), episode.players) for _, episode in EpisodeStore(trained / "episodes").episodes()]
    assert {own for own, _ in seats} == {0, 1}
    for own, players in seats:
        names = ("one", "two")
        assert players[own] == ref(f"learner-{names[own]}")
        assert players[1 - own].kind == "snapshot" and players[1 - own].name == names[1 - own]


def test_members_meet_in_all_pairs_of_the_sides(trained):
    """Also a member's first role and its own second role, which are two policies."""
    members = [snapshot(step) for step in (0, 1, 2)]
    game = side_payoffs(book_of(trained, 3), members, "kuhn_poker", (0, 1), opposed=True)
    assert (game.counts > 0).all() and game.counts.diagonal().min() >= 1
    assert not np.allclose(game.payoffs[0], -game.payoffs[0].T)  # the roles are not alike


def test_a_role_meets_the_meta_strategy_of_the_other_side(trained, monkeypatch):
    """With a solver that gives the first side's oldest member and the second side's newest one."""
    from sparring.league.meta_solvers.base import MetaStrategy

    def odd(_, game):
        return MetaStrategy(sides=tuple(np.eye(size)[place] for size, place in zip(game.shape, (0, -1), strict=True)))

    monkeypatch.setattr(meta_strategy, "solved", odd)
    meta_strategy._solved_apart.cache_clear()
    path, config = trained.parent / "odd", resolve({**CONFIG, "steps": 2})
    with RunFolder.create(path, to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    met = {}
    for step, episode in EpisodeStore(path / "episodes").episodes():
        other = 1 - episode.trained.index(True)
        met.setdefault((step, other), set()).add(episode.players[other].step)
    assert met == {(1, 0): {0}, (1, 1): {0}, (2, 0): {0}, (2, 1): {1}}


def test_without_it_nothing_of_a_run_changes(tmp_path):
    """sides: together is the default, and members do not meet themselves."""
    config = resolve({**CONFIG, "steps": 1, "matchmaker": {"name": "meta_strategy"}})
    with RunFolder.create(tmp_path / "run", to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    rows = book_of(tmp_path / "run", 1).rows
    assert json.dumps(sorted({str(row.player) for row in rows if row.player == row.opponent})) == "[]"


def test_a_mixture_of_members_of_two_policies_plays_each_in_its_role(trained):
    """A member is a policy for each role: who is drawn sits there by the policy of the role."""
    run = sparring.load_run(trained)
    mixture, asked = run.answer("uniform"), []
    inner = mixture._agent_of
    mixture._agent_of = lambda who: spied(inner(who), asked)
    game = make_game("kuhn_poker", options={"style": "brief"})
    episodes = sparring.play_episodes(game, [mixture, mixture], plays=40)
    assert all(episode.agents == ("MemberMixture", "MemberMixture") for episode in episodes)
    assert {(seat, agent.name) for seat, agent in asked} == {(seat, f"past-{name}-{step:06d}") for seat, name in enumerate(("one", "two")) for step in range(4)}
    person = InteractiveSession(game, 0, Opponent("mixture-answer", "the answer", mixture), 3)
    while person.asked is not None:
        person.say(person.legal[0])
    assert person.episode.agents == ("person-you", "mixture-answer") and ref(person.drawn["second"]) in mixture.members
    assert person.record(person.episode).agents == ("person-you", person.drawn["second"])


ANSWERED = {**CONFIG, "league": {**CONFIG["league"], "plays": "exact", "answer": "nash"}, "evaluation": {"every": 1, "opponents": [{"name": "random", "games_per_seat": 2}]}, "checkpoint": {"every": 1}}


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    path = tmp_path_factory.mktemp("answered") / "run"
    run_with_members.run(path, resolve(ANSWERED))
    return path


def test_a_run_is_measured_by_the_pair_of_its_mixtures(answered):
    """By OpenSpiel, from both sides' members: each seat plays what its own side's mixture plays."""
    game = configured_game(resolve(ANSWERED).environments[0])
    states = enumerate_info_states(game)
    answer = sparring.load_run(answered).answer()
    meta = side_payoffs(book_of(answered, 3), [snapshot(step) for step in range(4)], "kuhn_poker", (0, 1), opposed=True)
    sides = bind("league.meta_solvers", "nash")(meta).sides
    assert [list(own.values()) for own in answer.sides] == [[one for one in side.tolist() if one > 0] for side in sides]
    assert answer.sides[0] != answer.sides[1]  # in this run
    table = {}
    for seat, own in enumerate(answer.sides):
        alone = MemberMixture(own, answer.agent)
        rows = ask(alone, states)[0]
        table |= {(seat, query.key): dict(zip(query.legal_actions, rows[n], strict=True)) for n, query in enumerate(states.queries) if query.seat == seat}
    (last,) = [line for line in read_lines(answered / "metrics.jsonl") if line["step"] == 3]
    assert last["nash_conv/kuhn_poker"] == pytest.approx(nash_conv(game, states, TabularScorer(table)).nash_conv, abs=1e-9)
    whole = MemberMixture(answer.sides[0], answer.agent)
    assert last["nash_conv/kuhn_poker"] != pytest.approx(nash_conv(game, states, whole).nash_conv, abs=1e-6)


def test_a_run_that_stops_and_goes_on_has_the_bytes_of_one_that_did_not(answered, tmp_path):
    run_with_members.run(tmp_path / "run", resolve(ANSWERED), until=2)
    run_with_members.run(tmp_path / "run", resolve(ANSWERED), resume=True)
    assert run_with_members.last(tmp_path / "run") == run_with_members.last(answered)


def test_evaluation_and_suites_measure_the_pair(answered):
    found = measured(answered, None, answer="nash", games_per_seat=2, judged=False)
    answer = sparring.load_run(answered).answer("nash")
    assert found["answer"] == f"mixture of {answer}" and " in the first side; " in found["answer"]
    (last,) = [line for line in read_lines(answered / "metrics.jsonl") if line["step"] == 3]
    assert found["figures"]["nash_conv/kuhn_poker"] == pytest.approx(last["nash_conv/kuhn_poker"])
    player = run_player(answered, None, None, answer="nash")
    assert player.about["sides"] == "apart" and "sides" not in run_player(answered, None, None, answer="policy").about
    bench = Bench({"rows": [], "seed": 0, "player": player.data, "answers": str(answered.parent / "answers.json")})
    assert bench.agent().sides == answer.sides
    assert bench.agent().agent(answer_member(answer, 1)).name == str(answer_member(answer, 1))


def test_who_sits_opposite_is_drawn_by_the_side_of_the_role(answered):
    room = Lobby(answered, answer="nash")
    game, answer = room.game(None), sparring.load_run(answered).answer("nash")
    opposite = room.opposite(game, None)
    for seat, role in enumerate(("first", "second")):
        sittings = [InteractiveSession(game, 1 - seat, opposite, seed) for seed in range(40)]
        met = [ref(sitting.drawn[role]) for sitting in sittings]
        for member in map(snapshot, range(4)):
            assert met.count(member) / 40 == pytest.approx(answer.sides[seat].get(member, 0), abs=0.25)
        assert set(met) <= set(answer.sides[seat])


def answer_member(answer, side):
    return next(iter(answer.sides[side]))


def test_the_exported_pair_is_each_role_s_snapshots_and_plays_as_the_run_does(answered, tmp_path):
    run = sparring.load_run(answered)
    run.export(tmp_path / "pair", answer="nash")
    answer, data = run.answer("nash"), json.loads((tmp_path / "pair" / "sparring.json").read_text())
    assert data["version"] == 2 and data["sides"] == [
        {str(who.of(name)): pytest.approx(weight) for who, weight in own.items()} for name, own in zip(("one", "two"), answer.sides, strict=True)
    ]
    assert {path.name for path in (tmp_path / "pair").iterdir() if path.is_dir()} == {name for own in data["sides"] for name in own}
    card = (tmp_path / "pair" / "README.md").read_text()
    assert "| member | weight in the first side | weight in the second side |" in card and "by its weight in the team's side" in card
    alone, game = exported(folder=str(tmp_path / "pair")), configured_game(resolve(ANSWERED).environments[0])
    states = enumerate_info_states(game)
    for one, other in zip(alone.action_logprobs(states.queries), answer.action_logprobs(states.queries), strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    replies = [[turn.reply for play in sparring.play_episodes(game, [agent, agent], plays=30) for turn in play.turns] for agent in (alone, answer)]
    assert replies[0] == replies[1]
    run.export(tmp_path / "one", answer="nash", policy="one")  # one model in both roles
    assert json.loads((tmp_path / "one" / "sparring.json").read_text())["sides"] == [{str(who): pytest.approx(weight) for who, weight in own.items()} for own in answer.sides]


def test_the_weights_of_each_side_are_shown(answered, capsys):
    cli.app(["show", str(answered), "--league"], standalone_mode=False)
    shown = capsys.readouterr().out
    answer = sparring.load_run(answered).answer("nash")
    rows = [[str(snapshot(step)), *(f"{own.get(snapshot(step), 0):.3f}" for own in answer.sides)] for step in range(4)]
    said = shown.partition("Weights by nash (league.answer):")[2].split("\n")
    assert said[2].split() == ["member", "in", "the", "first", "side", "in", "the", "second", "side"] and [line.split() for line in said[3:7]] == rows
    cli.app(["show", str(answered), "--league", "--json"], standalone_mode=False)
    weights = json.loads(capsys.readouterr().out)["weights"]
    assert weights["source"] == "league.answer" and [own.get(snapshot(0), 0) for own in answer.sides] == pytest.approx(weights["members"][0]["sides"])


def test_a_mixture_of_two_sides_is_met_as_a_bot_by_its_sides(answered, tmp_path):
    sparring.load_run(answered).export(tmp_path / "pair", answer="nash")
    bots = {"pair": {"name": "exported", "folder": str(tmp_path / "pair")}}
    changes = {"bots": bots, "policies": {}, "roles": {}, "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"pair": 1.0}}, "league": {}, "steps": 1}
    sparring.train({**CONFIG, **changes}, run=tmp_path / "run")
    met = {(seat, Path(str(player)).name.split("-")[1]) for _, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes() for seat, player in enumerate(episode.players) if player.kind == "bot"}
    assert met == {(0, "one"), (1, "two")}


def spied(team, asked):
    def at(game, seat):
        asked.append((seat, team.at(game, seat)))
        return asked[-1][1]

    return Team(team.name, at)
