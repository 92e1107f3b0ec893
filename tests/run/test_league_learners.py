"""Several policies learn in one league; each policy has a population and a mixture."""

import json
from pathlib import Path

import numpy as np
import pytest

import sparring
from sparring import cli
from sparring.api.human_play import InteractiveSession, Lobby, Opponent
from sparring.api.measurement import measure
from sparring.api.suite_evaluation import PieceRunner
from sparring.api.suite_player import run_player
from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.core.records import LEARNER, ref, snapshot
from sparring.environments.catalogue import configured_game, make_game
from sparring.league.matchmakers import meta_strategy
from sparring.league.meta_game import side_payoffs
from sparring.league.payoffs import Payoffs
from sparring.measure.exploitability import evaluate_exploitability, query_policy
from sparring.measure.info_states import TabularScorer, enumerate_info_states
from sparring.play.players.exported import exported
from sparring.play.players.mixture import MemberMixture
from sparring.play.store import EpisodeStore
from sparring.play.team import Team
from sparring.run import checkpoint
from sparring.run.events import read_lines
from tests import run_with_members
from tests.engine.fleet.simulated import simulated_workers
from tests.run.builders import SMALL_RUN, train_in
from tests.run_with_members import last, run

BASE = {
    **SMALL_RUN,
    "name": "league",
    "steps": 4,
    "rollout": {"games_per_step": 24},
    "matchmaker": {"name": "by_tag", "past": {"any": 0.5}},
    "learner": {"average": 0.9},
}
TWO_LEARNERS = {
    "main": {},
    "counter": {"tag": "exploiter", "matchmaker": {"name": "by_tag", "live": {"main": 1.0}}, "restart": 1.0},
}


def league_config(learners=TWO_LEARNERS, *, sections=None, **league):
    return resolve(
        {
            **BASE,
            **(sections or {}),
            "league": {"every": 2, "keep": 4, "start": True, "plays": 12, "learners": learners, **league},
        }
    )


def weights_vector(model):
    return np.concatenate([tensor.numpy().ravel() for tensor in model.tensors().values()])


def episodes_of(path, step):
    steps_and_episodes = EpisodeStore(path / "episodes").episodes(lambda number: number == step)
    return [episode for _, episode in steps_and_episodes]


@pytest.fixture(scope="module")
def trained_league(tmp_path_factory):
    path = tmp_path_factory.mktemp("league") / "run"
    return path, run(path, league_config())


def test_each_learner_has_separate_members(trained_league):
    _, engine = trained_league
    steps = (0, 2, 4)
    assert set(engine.members) == {snapshot(step, name) for step in steps for name in ("main", "counter")}
    assert [member.step for member in engine.members] == sorted(steps * 2)


def test_parents_and_tags_of_members_are_stored(trained_league):
    league = json.loads(last(trained_league[0])[1])["league"]
    assert league["members"] == {
        "past-000002": {"parent": "past-000000", "tag": "main"},
        "past-000004": {"parent": "past-000002", "tag": "main"},
        "past-counter-000002": {"parent": "past-counter-000000", "tag": "exploiter"},
        "past-counter-000004": {"parent": "past-counter-000000", "tag": "exploiter"},
    }
    assert league["anew"] == ["counter"]


def test_the_payoff_book_has_separate_learners(trained_league):
    book = Payoffs.from_json(json.loads(last(trained_league[0])[1])["payoffs"])
    counter = ref("learner-counter")
    counter_against_main = book.results(counter, LEARNER)
    assert counter_against_main.games > 0 and counter_against_main.returns == pytest.approx(
        -book.results(LEARNER, counter).returns
    )
    # the counter plays only against the main learner
    assert book.results(LEARNER, LEARNER).games > 0 and book.results(counter, counter).games == 0
    assert book.results(snapshot(2), snapshot(2, "counter")).games > 0  # from games between members


def test_each_episode_trains_the_learner_of_its_state(trained_league):
    path, _ = trained_league
    episodes = [episode for step in (1, 2, 3, 4) for episode in episodes_of(path, step)]
    episodes_by_learner = {}
    for episode in episodes:
        trained_players = {
            str(player) for player, is_trained in zip(episode.players, episode.trained, strict=True) if is_trained
        }
        assert len(trained_players) == 1
        episodes_by_learner.setdefault(trained_players.pop(), []).append(episode)
    assert {name: len(episodes_of_learner) for name, episodes_of_learner in episodes_by_learner.items()} == {
        "learner": 48,
        "learner-counter": 48,
    }
    for episode in episodes_by_learner["learner-counter"]:
        assert sorted(map(str, episode.players)) == ["learner", "learner-counter"]
    first_players = [str(episode.players[0]) for episode in episodes_by_learner["learner-counter"]]
    assert first_players.count("learner-counter") == 24


def test_both_learners_train_and_the_counter_restarts_at_each_snapshot(trained_league):
    path, engine = trained_league
    rows = [json.loads(row) for row in (path / "metrics.jsonl").read_text().splitlines()]
    assert all({"loss", "counter/loss"} <= row.keys() for row in rows if row.get("step"))
    counter, main = engine.policies["counter"], engine.policies["main"]
    distance_from_snapshot, distance_from_start = (
        np.abs(weights_vector(counter.past[4].model) - weights_vector(counter.past[step].model)).max()
        for step in (0, 2)
    )
    # the counter restarts, so member 4 is two steps from its start but four steps from member 2
    assert 0 < distance_from_snapshot < distance_from_start
    assert not np.array_equal(weights_vector(main.past[0].model), weights_vector(counter.past[0].model))
    assert (
        np.abs(weights_vector(main.past[4].model) - weights_vector(main.past[2].model)).max()
        < np.abs(weights_vector(main.past[4].model) - weights_vector(main.past[0].model)).max()
    )


def test_the_main_learner_is_evaluated(trained_league):
    _, engine = trained_league
    game = engine.environments[0][0]
    assert engine.seats(game) == (("main", True),) * 2
    assert str(engine.agent("policy").name) == "policy" and str(engine.agent("policy-counter").name) == "policy-counter"


@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_a_resumed_league_equals_an_uninterrupted_one(tmp_path, trained_league, num_steps):
    config = league_config()
    run(tmp_path / "parts", config, until=num_steps)
    run(tmp_path / "parts", config, resume=True)
    assert last(trained_league[0]) == last(tmp_path / "parts")


def test_workers_change_no_byte_of_a_league(tmp_path, trained_league):
    config = league_config()
    workers = {"fleet": "processes", "workers": 3, "unit_games": 4}
    with simulated_workers():
        run(tmp_path / "workers", config.model_copy(update={"scale": config.scale.model_copy(update=workers)}))
    assert last(trained_league[0]) == last(tmp_path / "workers")


def test_a_league_of_one_learner_equals_a_plain_run(tmp_path):
    league = {"every": 2, "keep": 4, "start": True, "plays": 12}
    plain_config = resolve({**BASE, "matchmaker": {"name": "pfsp"}, "league": league})
    league_config_of_one = resolve(
        {**BASE, "matchmaker": {"name": "pfsp"}, "league": {**league, "learners": {"main": {}}}}
    )
    for name, config in (("plain", plain_config), ("alone", league_config_of_one)):
        run(tmp_path / name, config)
    plain_files, alone_files = last(tmp_path / "plain"), last(tmp_path / "alone")
    assert plain_files[0] == alone_files[0] and plain_files[2] == alone_files[2]
    assert json.loads(plain_files[1])["payoffs"] == json.loads(alone_files[1])["payoffs"]


def test_learners_can_be_trained_one_after_another(tmp_path):
    config = league_config({"main": {}, "counter": {}}, together=False, sections={"steps": 6}, every=2)
    engine = run(tmp_path / "run", config)
    learners = [
        {
            str(player)
            for episode in episodes_of(tmp_path / "run", step)
            for player, is_trained in zip(episode.players, episode.trained, strict=True)
            if is_trained
        }
        for step in range(1, 7)
    ]
    assert learners == [{"learner"}] * 2 + [{"learner-counter"}] * 2 + [{"learner"}] * 2
    assert {str(member) for member in engine.members} == {
        "past-000000",
        "past-counter-000000",
        "past-000002",
        "past-counter-000004",
        "past-000006",
    }
    run(tmp_path / "parts", config, until=3)
    run(tmp_path / "parts", config, resume=True)
    assert last(tmp_path / "run") == last(tmp_path / "parts")


def test_a_learner_can_have_its_own_schedule_and_random_restarts(tmp_path):
    gate = {"name": "gate", "against": "learners", "rate": 0.01, "least": 1}
    learners = {
        "main": {"schedule": {"name": "plateau", "window": 2, "longest": 6}},
        "counter": {"schedule": gate, "restart": 0.5, "share": 2.0},
    }
    engine = run(tmp_path / "run", league_config(learners, every=1, keep=12, sections={"steps": 8}))
    league = json.loads(last(tmp_path / "run")[1])["league"]
    steps = {name: [member.step for member in engine.members if (member.name or "main") == name] for name in learners}
    assert steps["counter"] == [0, 2, 4, 6, 8]  # the main never plays against it, so the gate opens at the latest step
    assert set(steps["main"]) <= {0, 4, 5, 6, 7, 8} and len(steps["main"]) >= 2
    assert len(league["returns"]["main"]) == 8 - max(steps["main"]) == league["age"].get("main")
    parents = [league["members"][f"past-counter-00000{step}"]["parent"] for step in (4, 6, 8)]
    assert len({parent == "past-counter-000000" for parent in parents}) == 2  # with this seed both parents occur


def test_league_jsonl_lists_every_snapshot_with_its_step(tmp_path):
    learners = {
        "main": {
            "schedule": {"name": "plateau", "window": 2, "gain": 9.0, "longest": 9.0}
        },  # snapshots at the end of two windows: steps 4 and 8
        "counter": {
            "tag": "exploiter",
            "schedule": {"name": "gate", "rate": 0.99, "longest": 3.0},
            "restart": 1.0,
        },  # a snapshot at the latest step, 6
    }
    config = league_config(learners, sections={"steps": 8}, keep=2, plays=0)
    run(tmp_path, config, until=5)
    assert [line["step"] for line in read_lines(tmp_path / "league.jsonl")] == [4]
    with open(tmp_path / "league.jsonl", "a") as file:
        file.write('{"member": "past-000006", "step": 6}\n{"torn')  # the state after a kill during a write
    engine = run(tmp_path, config, resume=True)
    assert read_lines(tmp_path / "league.jsonl") == [
        {"step": 4, "member": "past-000004", "parent": "past-000000", "tag": "main"},
        {"step": 6, "member": "past-counter-000006", "parent": "past-counter-000000", "tag": "exploiter"},
        {"step": 8, "member": "past-000008", "parent": "past-000004", "tag": "main"},
    ]
    assert snapshot(4) not in engine.members and snapshot(8) in engine.members


def test_a_league_works_with_a_lag(tmp_path):
    learners = {"main": {}, "counter": {"matchmaker": {"name": "by_tag", "past": {"main": 1.0}}}}
    config = league_config(
        learners, sections={"scale": {"fleet": "processes", "workers": 2, "unit_games": 6, "lag": 1, "order": "pinned"}}
    )
    with simulated_workers():
        run(tmp_path / "whole", config)
        run(tmp_path / "parts", config, until=3)
        run(tmp_path / "parts", config, resume=True)
    assert last(tmp_path / "whole") == last(tmp_path / "parts")


@pytest.mark.parametrize(
    ("learners", "sections", "message"),
    [
        ({"counter": {}}, {}, "one of them must be named main"),
        ({"main": {}, "counter": {}}, {"policies": {"third": {}}}, "'third' is trained and not among them"),
        ({"main": {}, "counter": {}}, {"policies": {"counter": {"frozen": True}}}, "'counter' is frozen"),
        ({"main": {}, "counter": {}}, {"roles": {"first": "main", "second": "counter"}}, "leave out roles"),
        ({"main": {"matchmaker": "pfps"}}, {}, "league.learners.main: .*pfsp"),
        (TWO_LEARNERS, {"scale": {"lag": 1}}, "lag: 0"),
        ({"main": {}, "a/b": {}}, {}, "a/b"),
    ],
)
def test_wrong_options_of_a_league_are_refused(learners, sections, message):
    with pytest.raises(ConfigError, match=message):
        league_config(learners, sections=sections)


# A league with a population per role: two policies for two roles, and separate weights per side.
TWO_ROLES = {
    "steps": 3,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "policies": {"one": {}, "two": {}},
    "roles": {"first": "one", "second": "two"},
    "matchmaker": {"name": "meta_strategy", "solver": "nash", "sides": "apart"},
    "league": {"every": 1, "keep": 4, "start": True, "plays": 18},
    "credit": {"name": "rae"},
    "evaluation": {"every": 9, "exact": False},
    "store": {"every": 1},
}


@pytest.fixture(scope="module")
def trained_roles(tmp_path_factory):
    path = tmp_path_factory.mktemp("roles") / "run"
    train_in(path, resolve(TWO_ROLES))
    return path


def payoffs_at_step(path, step):
    return Payoffs.from_json(checkpoint.load_step(path, step).state["payoffs"])


def test_opponents_in_a_role_belong_to_its_population(trained_roles):
    seats = [
        (episode.trained.index(True), episode.players)
        for _, episode in EpisodeStore(trained_roles / "episodes").episodes()
    ]
    assert {seat for seat, _ in seats} == {0, 1}
    for seat, players in seats:
        names = ("one", "two")
        assert players[seat] == ref(f"learner-{names[seat]}")
        assert players[1 - seat].kind == "snapshot" and players[1 - seat].name == names[1 - seat]


def test_members_meet_in_all_pairs_of_the_sides(trained_roles):
    members = [snapshot(step) for step in (0, 1, 2)]
    game = side_payoffs(payoffs_at_step(trained_roles, 3), members, "kuhn_poker", (0, 1), opposed=True)
    assert (game.counts > 0).all() and game.counts.diagonal().min() >= 1
    assert not np.allclose(
        game.payoffs[0], -game.payoffs[0].T
    )  # the roles differ, so the payoffs are not antisymmetric


def test_a_role_plays_against_the_meta_strategy_of_the_other_side(trained_roles, monkeypatch):
    from sparring.league.meta_solvers.base import MetaStrategy

    def solve_first_and_last(_, game):
        return MetaStrategy(sides=tuple(np.eye(size)[index] for size, index in zip(game.shape, (0, -1), strict=True)))

    monkeypatch.setattr(meta_strategy, "solve_meta_game", solve_first_and_last)
    meta_strategy._solve_apart.cache_clear()
    path = trained_roles.parent / "odd"
    train_in(path, resolve({**TWO_ROLES, "steps": 2}))
    opponents = {}
    for step, episode in EpisodeStore(path / "episodes").episodes():
        opponent_seat = 1 - episode.trained.index(True)
        opponents.setdefault((step, opponent_seat), set()).add(episode.players[opponent_seat].step)
    assert opponents == {(1, 0): {0}, (1, 1): {0}, (2, 0): {0}, (2, 1): {1}}


def test_a_mixture_of_members_of_two_policies_plays_each_in_its_role(trained_roles):
    trained_run = sparring.load_run(trained_roles)
    mixture, agents_by_seat = trained_run.answer("uniform"), []
    original_agent_of = mixture._agent_of
    mixture._agent_of = lambda reference: record_seats(original_agent_of(reference), agents_by_seat)
    game = make_game("kuhn_poker", options={"style": "brief"})
    episodes = sparring.play_episodes(game, [mixture, mixture], plays=40)
    assert all(episode.agents == ("MemberMixture", "MemberMixture") for episode in episodes)
    assert {(seat, agent.name) for seat, agent in agents_by_seat} == {
        (seat, f"past-{name}-{step:06d}") for seat, name in enumerate(("one", "two")) for step in range(4)
    }
    session = InteractiveSession(game, 0, Opponent("mixture-answer", "the answer", mixture), 3)
    while session.pending is not None:
        session.submit_reply(session.legal[0])
    assert (
        session.episode.agents == ("person-you", "mixture-answer")
        and ref(session.drawn_members["second"]) in mixture.members
    )
    assert session.record(session.episode).agents == ("person-you", session.drawn_members["second"])


WITH_ANSWER = {
    **TWO_ROLES,
    "league": {**TWO_ROLES["league"], "plays": "exact", "answer": "nash"},
    "evaluation": {"every": 1, "opponents": [{"name": "random", "games_per_seat": 2}]},
    "checkpoint": {"every": 1},
}


@pytest.fixture(scope="module")
def run_with_answer(tmp_path_factory):
    path = tmp_path_factory.mktemp("answered") / "run"
    run_with_members.run(path, resolve(WITH_ANSWER))
    return path


def test_a_run_is_evaluated_by_its_pair_of_mixtures(run_with_answer):
    game = configured_game(resolve(WITH_ANSWER).environments[0])
    states = enumerate_info_states(game)
    answer = sparring.load_run(run_with_answer).answer()
    meta_game = side_payoffs(
        payoffs_at_step(run_with_answer, 3), [snapshot(step) for step in range(4)], "kuhn_poker", (0, 1), opposed=True
    )
    sides = bind("league.meta_solvers", "nash")(meta_game).sides
    assert [list(shares.values()) for shares in answer.sides] == [
        [weight for weight in side.tolist() if weight > 0] for side in sides
    ]
    assert answer.sides[0] != answer.sides[1]  # a condition of this test: the two sides differ in this run
    table = {}
    for seat, shares in enumerate(answer.sides):
        mixture = MemberMixture(shares, answer.agent)
        rows = query_policy(mixture, states)[0]
        table |= {
            (seat, query.key): dict(zip(query.legal_actions, rows[index], strict=True))
            for index, query in enumerate(states.queries)
            if query.seat == seat
        }
    (last_metrics,) = [line for line in read_lines(run_with_answer / "metrics.jsonl") if line["step"] == 3]
    assert last_metrics["nash_conv/kuhn_poker"] == pytest.approx(
        evaluate_exploitability(game, states, TabularScorer(table)).nash_conv, abs=1e-9
    )
    first_mixture = MemberMixture(answer.sides[0], answer.agent)
    assert last_metrics["nash_conv/kuhn_poker"] != pytest.approx(
        evaluate_exploitability(game, states, first_mixture).nash_conv, abs=1e-6
    )


def test_an_interrupted_and_resumed_run_has_the_same_bytes(run_with_answer, tmp_path):
    run_with_members.run(tmp_path / "run", resolve(WITH_ANSWER), until=2)
    run_with_members.run(tmp_path / "run", resolve(WITH_ANSWER), resume=True)
    assert run_with_members.last(tmp_path / "run") == run_with_members.last(run_with_answer)


def test_evaluation_and_suites_measure_the_pair(run_with_answer):
    report = measure(run_with_answer, None, answer="nash", games_per_seat=2, use_oracle=False)
    answer = sparring.load_run(run_with_answer).answer("nash")
    assert report["answer"] == f"mixture of {answer}" and " in the first side; " in report["answer"]
    (last_metrics,) = [line for line in read_lines(run_with_answer / "metrics.jsonl") if line["step"] == 3]
    assert report["figures"]["nash_conv/kuhn_poker"] == pytest.approx(last_metrics["nash_conv/kuhn_poker"])
    player = run_player(run_with_answer, None, None, answer="nash")
    assert (
        player.about["sides"] == "apart"
        and "sides" not in run_player(run_with_answer, None, None, answer="policy").about
    )
    runner = PieceRunner(
        {"rows": [], "seed": 0, "player": player.data, "answers": str(run_with_answer.parent / "answers.json")}
    )
    assert runner.agent().sides == answer.sides
    assert runner.agent().agent(first_member_of_side(answer, 1)).name == str(first_member_of_side(answer, 1))


def test_the_opponent_of_a_person_is_drawn_by_its_side(run_with_answer):
    lobby = Lobby(run_with_answer, answer="nash")
    game, answer = lobby.game(None), sparring.load_run(run_with_answer).answer("nash")
    opponent = lobby.opponent(game, None)
    for seat, role in enumerate(("first", "second")):
        sessions = [InteractiveSession(game, 1 - seat, opponent, seed) for seed in range(40)]
        members = [ref(session.drawn_members[role]) for session in sessions]
        for member in map(snapshot, range(4)):
            assert members.count(member) / 40 == pytest.approx(answer.sides[seat].get(member, 0), abs=0.25)
        assert set(members) <= set(answer.sides[seat])


def first_member_of_side(answer, side):
    return next(iter(answer.sides[side]))


def test_the_exported_pair_equals_that_of_the_run(run_with_answer, tmp_path):
    trained_run = sparring.load_run(run_with_answer)
    trained_run.export(tmp_path / "pair", answer="nash")
    answer, data = trained_run.answer("nash"), json.loads((tmp_path / "pair" / "sparring.json").read_text())
    assert data["version"] == 2 and data["sides"] == [
        {str(reference.for_policy(name)): pytest.approx(weight) for reference, weight in shares.items()}
        for name, shares in zip(("one", "two"), answer.sides, strict=True)
    ]
    assert {path.name for path in (tmp_path / "pair").iterdir() if path.is_dir()} == {
        name for shares in data["sides"] for name in shares
    }
    card = (tmp_path / "pair" / "README.md").read_text()
    assert (
        "| member | weight in the first side | weight in the second side |" in card
        and "by its weight in the team's side" in card
    )
    exported_player, game = (
        exported(folder=str(tmp_path / "pair")),
        configured_game(resolve(WITH_ANSWER).environments[0]),
    )
    states = enumerate_info_states(game)
    for row, expected_row in zip(
        exported_player.action_logprobs(states.queries), answer.action_logprobs(states.queries), strict=True
    ):
        assert row == pytest.approx(expected_row, abs=1e-5)
    replies = [
        [turn.reply for episode in sparring.play_episodes(game, [agent, agent], plays=30) for turn in episode.turns]
        for agent in (exported_player, answer)
    ]
    assert replies[0] == replies[1]
    trained_run.export(tmp_path / "one", answer="nash", policy="one")  # the models of one policy, for both roles
    assert json.loads((tmp_path / "one" / "sparring.json").read_text())["sides"] == [
        {str(reference): pytest.approx(weight) for reference, weight in shares.items()} for shares in answer.sides
    ]


def test_the_weights_of_each_side_are_shown(run_with_answer, capsys):
    cli.app(["show", str(run_with_answer), "--league"], standalone_mode=False)
    stdout = capsys.readouterr().out
    answer = sparring.load_run(run_with_answer).answer("nash")
    rows = [
        [str(snapshot(step)), *(f"{shares.get(snapshot(step), 0):.3f}" for shares in answer.sides)] for step in range(4)
    ]
    lines = stdout.partition("Weights by nash (league.answer):")[2].split("\n")
    assert (
        lines[2].split() == ["member", "weight", "as", "first", "side", "weight", "as", "second", "side"]
        and [line.split() for line in lines[3:7]] == rows
    )
    cli.app(["show", str(run_with_answer), "--league", "--json"], standalone_mode=False)
    weights = json.loads(capsys.readouterr().out)["weights"]
    assert weights["source"] == "league.answer" and [
        shares.get(snapshot(0), 0) for shares in answer.sides
    ] == pytest.approx(weights["members"][0]["sides"])


def test_a_pair_of_mixtures_as_a_bot_plays_by_side(run_with_answer, tmp_path):
    sparring.load_run(run_with_answer).export(tmp_path / "pair", answer="nash")
    bots = {"pair": {"name": "exported", "folder": str(tmp_path / "pair")}}
    changes = {
        "bots": bots,
        "policies": {},
        "roles": {},
        "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"pair": 1.0}},
        "league": {},
        "steps": 1,
    }
    sparring.train({**TWO_ROLES, **changes}, run=tmp_path / "run")
    bots_by_seat = {
        (seat, Path(str(player)).name.split("-")[1])
        for _, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes()
        for seat, player in enumerate(episode.players)
        if player.kind == "bot"
    }
    assert bots_by_seat == {(0, "one"), (1, "two")}


def record_seats(mixture, agents_by_seat):
    def agent_at(game, seat):
        agents_by_seat.append((seat, mixture.agent_of_seat(game, seat)))
        return agents_by_seat[-1][1]

    return Team(mixture.name, agent_at)
