"""League members that play each other, exact results between members, and restarts of a learner."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparring
from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.core.records import LEARNER, snapshot
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.base import seats_by_player, teams_of
from sparring.environments.catalogue import make_game
from sparring.league.meta_game import member_payoffs, side_payoffs, unplayed_pairs_note
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.measure.exploitability import query_policy
from sparring.measure.info_states import enumerate_info_states
from sparring.measure.lab_episodes import TableAgent, random_table
from sparring.methods.selection.replay.base import ReplayBuffer
from sparring.ops.game_tree import policy_values
from sparring.play.spec import EpisodeSpec
from sparring.play.team import play_teams
from sparring.run import checkpoint, payoff_plays
from sparring.run.league_step import restart_learners
from sparring.run.payoff_plays import next_pairs, pair_results, with_exact, with_plays
from sparring.run.state import RunState
from tests.engine.fleet.simulated import simulated_workers
from tests.run.builders import SMALL_RUN
from tests.run_with_members import BASE as RUN_WITH_MEMBERS
from tests.run_with_members import MEMBERS, engine_of, last, run

BASE = {
    **SMALL_RUN,
    "name": "anew",
    "steps": 4,
    "rollout": {"games_per_step": 16},
    "matchmaker": {"name": "pfsp", "past": 0.5},
    "league": {"every": 2, "keep": 3, "start": True, "plays": 12},
    "replay": {"name": "r3"},
    "learner": {"average": 0.9},
}


def league_config(**league):
    return resolve({**BASE, "league": {**BASE["league"], **league}})


def copy_tensors(model):
    return [tensor.numpy().copy() for tensor in model.tensors().values()]


def have_equal_weights(first_model, second_model):
    return all(
        np.array_equal(left, right)
        for left, right in zip(copy_tensors(first_model), copy_tensors(second_model), strict=True)
    )


def test_members_play_each_other_and_the_initial_snapshot_stays(tmp_path):
    engine = run(tmp_path / "run", league_config(every=1))
    assert engine.members[0] == snapshot(0) and len(engine.members) == 3
    book = Payoffs.from_json(json.loads(last(tmp_path / "run")[1])["payoffs"])
    first_member, second_member, third_member = engine.members
    num_games = [
        book.results(*pair).games
        for pair in ((first_member, second_member), (first_member, third_member), (second_member, third_member))
    ]
    assert (
        min(num_games) >= 4 and sum(num_games) >= 12
    )  # 12 plays per step; an episode that an illegal reply ends also counts
    forward, backward = book.results(first_member, third_member), book.results(third_member, first_member)
    assert (forward.games, forward.wins, forward.returns) == (
        backward.games,
        backward.losses,
        pytest.approx(-backward.returns),
    )
    num_games_by_seat = [book.results(first_member, third_member, seat=seat).games for seat in (0, 1)]
    assert abs(num_games_by_seat[0] - num_games_by_seat[1]) <= 1 + forward.games // 4
    assert book.results(LEARNER, first_member).games > 0  # results of training episodes are unchanged


def test_games_between_members_change_no_weights(tmp_path):
    config_without_plays = {**BASE, "matchmaker": {"name": "mixed", "past": 0.5}}
    files_of_runs = []
    for num_plays in (0, 12):
        config = resolve({**config_without_plays, "league": {**BASE["league"], "plays": num_plays}})
        run(tmp_path / str(num_plays), config)
        files_of_runs.append(last(tmp_path / str(num_plays)))
    assert (
        files_of_runs[0][0] == files_of_runs[1][0]
        and files_of_runs[0][2] == files_of_runs[1][2]
        and files_of_runs[0][1] != files_of_runs[1][1]
    )


def test_a_restarted_learner_has_its_initial_state(tmp_path):
    config = league_config(restart=True)
    engine = run(tmp_path / "run", config, until=2)
    learner, initial_model = engine.policies["main"].trained, engine.policies["main"].past[0].model
    state = RunState(step=2, owners={"credit": {"x": 1}, "curriculum": {"y": 2}, "replay": ReplayBuffer((1,))})
    version_before = learner.model.version
    assert have_equal_weights(learner.model, engine.policies["main"].past[2].model) and not have_equal_weights(
        learner.model, initial_model
    )
    assert restart_learners(config, engine, RunState(step=1)) == RunState(step=1) and learner.optimizer.state
    state_after = restart_learners(config, engine, state)
    assert have_equal_weights(learner.model, initial_model) and have_equal_weights(learner.average.model, initial_model)
    # a new version, so that samplers take the weights
    assert not learner.optimizer.state and learner.model.version > version_before
    assert (
        state_after.owners["credit"] == {}
        and state_after.owners["curriculum"] == {"y": 2}
        and not len(state_after.replay.entries)
    )


def test_after_a_restart_the_initial_weights_play(tmp_path):
    run(tmp_path / "run", league_config(restart=True))
    finished_run = run(
        tmp_path / "other",
        resolve(
            {
                **BASE,
                "matchmaker": {"name": "mirror"},
                "replay": {"name": "none"},
                "league": {**BASE["league"], "restart": True},
            }
        ),
    )
    lines = [json.loads(line) for line in (tmp_path / "other" / "metrics.jsonl").read_text().splitlines()]
    assert [line["logprob_difference_max"] < 1e-4 for line in lines if "logprob_difference_max" in line] == [True] * 4
    assert not have_equal_weights(finished_run.policies["main"].model, finished_run.policies["main"].past[0].model)
    assert have_equal_weights(finished_run.policies["main"].model, finished_run.policies["main"].past[4].model)
    assert json.loads(last(tmp_path / "run")[1])["league"]["members"] == {
        f"past-00000{step}": {"parent": "past-000000"} for step in (2, 4)
    }


@pytest.mark.parametrize("num_steps", [1, 2, 3])
@pytest.mark.parametrize("restart", [False, True])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, restart, num_steps):
    config = league_config(restart=restart)
    run(tmp_path / "whole", config)
    run(tmp_path / "parts", config, until=num_steps)
    run(tmp_path / "parts", config, resume=True)
    assert last(tmp_path / "whole") == last(tmp_path / "parts")


@pytest.mark.parametrize("restart", [False, True])
def test_workers_change_no_byte(tmp_path, restart):
    config = league_config(restart=restart)
    run(tmp_path / "here", config)
    workers = {"fleet": "processes", "workers": 3, "unit_games": 4}
    with simulated_workers():
        run(tmp_path / "workers", config.model_copy(update={"scale": config.scale.model_copy(update=workers)}))
    assert last(tmp_path / "here") == last(tmp_path / "workers")


def test_pairs_with_the_fewest_games_play_next():
    members = [snapshot(step) for step in (0, 2, 4)]
    rows = {
        RowKey("kuhn", 0, members[0], members[1]): Results(games=3, wins=3),
        RowKey("other", 0, members[1], members[2]): Results(games=9, draws=9),
    }
    pairs = next_pairs(Payoffs(rows), members, "kuhn")
    pairs_in_order = [next(pairs) for _ in range(9)]
    pair_sets = [frozenset(pair) for pair in pairs_in_order]
    assert pair_sets[:6].count(frozenset(members[:2])) == 0 and {
        pair_sets.count(frozenset(pair)) for pair in (members[:2],)
    } == {1}
    assert pairs_in_order.count((members[0], members[2])) - pairs_in_order.count((members[2], members[0])) in (0, 1)
    assert list(next_pairs(Payoffs(), members[:1], "kuhn")) == []
    side_pairs = next_pairs(Payoffs(), members, "kuhn", self_play=True)  # nine ordered pairs play equally often
    assert Counter(next(side_pairs) for _ in range(90)) == Counter(
        {(row, column): 10 for row in members for column in members}
    )


def test_pairs_play_by_their_shares():
    """With 90 of 100 games played, the next 10 give each pair its share; a pair of share 0 plays once."""
    members = [snapshot(step) for step in (0, 2, 4)]
    rows = {
        RowKey("kuhn", 0, members[0], members[1]): Results(games=60),
        RowKey("kuhn", 0, members[0], members[2]): Results(games=30),
    }
    pairs = next_pairs(Payoffs(rows), members, "kuhn", [0.6, 0.3, 0.1])
    next_ten = [frozenset(next(pairs)) for _ in range(10)]
    assert next_ten == [frozenset(members[1:])] * 10
    pairs = next_pairs(Payoffs(), members, "kuhn", [0.75, 0.25, 0.0])
    first_nine = [frozenset(next(pairs)) for _ in range(9)]
    assert [first_nine.count(frozenset(pair)) for pair in itertools.combinations(members, 2)] == [6, 2, 1]


def test_equal_shares_give_the_order_by_fewest_games():
    members = [snapshot(step) for step in (0, 2, 4, 6)]
    rows = {
        RowKey("kuhn", 0, members[0], members[1]): Results(games=3),
        RowKey("kuhn", 1, members[2], members[3]): Results(games=0.5),
    }
    for itself in (False, True):  # a member with itself has the mean share of the pairs
        orders = [
            list(itertools.islice(next_pairs(Payoffs(rows), members, "kuhn", shares, self_play=itself), 40))
            for shares in (None, [1 / 4] * 6)
        ]
        assert orders[0] == orders[1]
        assert any(row == column for row, column in orders[0]) == itself


def play_in_one_call(config, engine, book, step):
    (game, _), root = engine.environments[0], engine.root.child("payoffs").child(step).child(0)
    pairs = itertools.islice(next_pairs(book, engine.members, game.name), config.league.plays)
    specs = [payoff_plays._spec(game, ((0,), (1,)), pair, number, root) for number, pair in enumerate(pairs)]
    return book.with_episodes(
        play_teams(specs, {str(member): engine.agent(member) for member in engine.members}), {game.name: (0, 1)}
    )


def test_focus_gives_more_games_to_members_with_weight():
    base_config = {**RUN_WITH_MEMBERS, "matchmaker": {"name": "meta_strategy", "solver": "last"}}
    config = resolve({**base_config, "league": {**RUN_WITH_MEMBERS["league"], "plays": 60}})
    engine = engine_of(config)
    book_without_focus = with_plays(config, engine, Payoffs(), 3)
    assert book_without_focus.to_json() == play_in_one_call(config, engine, Payoffs(), 3).to_json()
    config_with_focus = resolve({**base_config, "league": {**RUN_WITH_MEMBERS["league"], "plays": 60, "focus": 1.0}})
    book = with_plays(config_with_focus, engine, Payoffs(), 3)
    assert (
        book.to_json() == with_plays(config_with_focus, engine, Payoffs(), 3).to_json() != book_without_focus.to_json()
    )
    num_games = [book.results(*pair).games for pair in itertools.combinations(engine.members, 2)]
    assert sum(num_games) == 60 and num_games[0] == 5 and min(num_games[1:]) > 20  # the newest member has all weight
    assert with_plays(
        config_with_focus.model_copy(update={"league": config_with_focus.league.model_copy(update={"plays": 2})}),
        engine,
        Payoffs(),
        3,
    ).rows


def test_focus_with_sides_apart_includes_games_of_members_with_themselves():
    matchmaker = {"name": "meta_strategy", "solver": "last", "sides": "apart"}
    config = resolve(
        {
            **RUN_WITH_MEMBERS,
            "matchmaker": matchmaker,
            "league": {**RUN_WITH_MEMBERS["league"], "plays": 60, "focus": 1.0},
        }
    )
    engine = engine_of(config)
    book = with_plays(config, engine, Payoffs(), 3)
    num_games = [book.results(*pair).games for pair in itertools.combinations(engine.members, 2)]
    # each result is in the book once per side
    num_self_play_games = [book.results(member, member).games / 2 for member in engine.members]
    assert (
        sum(num_games) + sum(num_self_play_games) == 60
        and min(num_self_play_games) > 5
        and min(num_games[1:]) > num_games[0]
    )


def test_a_focus_without_a_solver_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"league\.focus weighs members.*write league\.answer: nash"):
        sparring.train(
            {**RUN_WITH_MEMBERS, "league": {**RUN_WITH_MEMBERS["league"], "focus": 0.5}}, run=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("league", "message"),
    [
        ({"start": True}, "every: 20"),
        ({"plays": 4}, "every: 20"),
        ({"every": 2, "restart": True}, "start: true"),
        ({"every": 2, "start": True, "keep": 1}, "keep: 2"),
        ({"every": 2, "focus": 0.5}, "plays: 0 plays none; write for example plays: 2000"),
        ({"every": 2, "plays": "exact", "focus": 0.5}, "plays: exact plays none; write for example plays: 2000"),
    ],
)
def test_wrong_options_of_games_between_members_are_refused(league, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**BASE, "league": league})


def test_a_restart_with_stale_weights_is_refused():
    with pytest.raises(ConfigError, match="restart: false"):
        resolve(
            {**BASE, "league": {**BASE["league"], "restart": True}, "scale": {"lag": 1}, "replay": {"name": "none"}}
        )


# Exact results of members against each other: by hand, compared with sampled episodes, in runs, and refused.
FIRST_MEMBER, SECOND_MEMBER = snapshot(1), snapshot(2)
EXACT_PLAYS = {"every": 1, "start": True, "plays": "exact"}


def exact_book_of_pairs(game, states, policies, **options):
    book = Payoffs()
    for pair in itertools.permutations(policies, 2):
        book = book.with_exact(pair_results(game, states, pair, policies, **options))
    return book


def test_uniform_against_always_bet_in_kuhn_poker_by_hand():
    """After a called bet each player wins 2 chips with probability 1/2, as both ignore their cards; a fold costs 1.

    Uniform play folds with probability 1/2 * 1/2 in the first seat (pass, bet, pass), 1/2 in the second (bet, pass).
    """
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    bets = [np.array([0.0, 1.0]) for _ in states.queries]
    assert all(query.legal_actions == ("pass", "bet") for query in states.queries)
    policies = {FIRST_MEMBER: [np.full(2, 0.5) for _ in bets], SECOND_MEMBER: bets}
    assert [row[1:] for row in pair_results(game, states, (FIRST_MEMBER, SECOND_MEMBER), policies)] == [
        (0, FIRST_MEMBER, SECOND_MEMBER),
        (1, SECOND_MEMBER, FIRST_MEMBER),
    ]
    book = exact_book_of_pairs(game, states, policies)
    first_seat, second_seat = (book.results(FIRST_MEMBER, SECOND_MEMBER, seat=seat) for seat in (0, 1))
    assert (first_seat.returns, first_seat.wins, first_seat.losses, first_seat.draws) == pytest.approx(
        (-0.25, 0.375, 0.625, 0.0)
    )
    assert (second_seat.returns, second_seat.wins, second_seat.losses) == pytest.approx((-0.5, 0.25, 0.75))
    game = member_payoffs(book, [FIRST_MEMBER, SECOND_MEMBER], {"kuhn_poker": 1.0})
    assert game.payoffs[0] == pytest.approx(np.array([[0, -0.375], [0.375, 0]])) and game.counts is None
    assert game.win_rates[0, 1] == pytest.approx(0.3125) and book.results(
        FIRST_MEMBER, SECOND_MEMBER
    ).rate_interval() == pytest.approx((0.3125, 0.3125))


def test_a_member_against_itself_by_hand():
    """Uniform play against itself: after two passes or a call each player wins with probability 1/2; else one folds."""
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    policies = {FIRST_MEMBER: [np.full(2, 0.5) for _ in states.queries]}
    book = Payoffs(pair_results(game, states, (FIRST_MEMBER, FIRST_MEMBER), policies))
    first_seat, second_seat = (book.results(FIRST_MEMBER, FIRST_MEMBER, seat=seat) for seat in (0, 1))
    # bet-fold has probability 1/4 and pays +1, pass-bet-fold 1/8 and -1: 1/4 - 1/8 = 0.125
    assert (first_seat.returns, second_seat.returns) == pytest.approx((0.125, -0.125))
    side_game = side_payoffs(book, [FIRST_MEMBER], "kuhn_poker", (0, 1), opposed=True)
    assert (side_game.payoffs[0][0, 0], side_game.payoffs[1][0, 0], side_game.counts) == pytest.approx(
        (0.125, -0.125, None)
    )


def test_a_run_with_sides_apart_has_exact_results_of_members_against_themselves():
    matchmaker = {"name": "meta_strategy", "sides": "apart"}
    config = resolve({**RUN_WITH_MEMBERS, "matchmaker": matchmaker, "league": EXACT_PLAYS})
    engine = engine_of(config)
    book = with_plays(config, engine, Payoffs(), 1)
    name = engine.environments[0][0].name
    assert all(
        book.results(member, member, environment=name, seat=seat).exact for member in engine.members for seat in (0, 1)
    )
    assert (
        not with_exact(config, engine, Payoffs()).results(engine.members[0], engine.members[0], environment=name).games
    )


def play_episodes_of(game, agents, games_per_order):
    first_team_seats, root = seats_by_player(tuple(teams_of(game)))[0], Stream.from_seed(3)
    specs = [
        EpisodeSpec(
            game=game, episode_id=number, group_id=number, deal=root.child(number).child("deal"), stream=root.child(number), trained=(False,) * game.num_seats,
            seats=tuple((FIRST_MEMBER, SECOND_MEMBER)[(seat in first_team_seats) == number % 2] for seat in range(game.num_seats)),
        )
        for number in range(2 * games_per_order)
    ]  # fmt: skip
    return Payoffs().with_episodes(play_teams(specs, agents), {game.name: teams_of(game)})


@pytest.mark.parametrize(
    ("name", "options"),
    [("kuhn_poker", {}), ("kuhn_poker", {"players": 3}), ("tiny_hanabi", {}), ("team_matrix", {})],
    ids=("two seats", "three seats", "one team", "two teams"),
)
def test_sampled_results_approach_the_exact_ones(name, options):
    game = make_game(name, options=options)
    states, stream = enumerate_info_states(game), Stream.from_seed(5)
    tables = {member: random_table(states, stream.child(str(member))) for member in (FIRST_MEMBER, SECOND_MEMBER)}
    exact_book = exact_book_of_pairs(game, states, {member: table.rows for member, table in tables.items()})
    sampled_book = play_episodes_of(game, {str(member): TableAgent(table) for member, table in tables.items()}, 400)
    assert set(exact_book.rows) == {row for row in sampled_book.rows if row.player != row.opponent}
    range_width = states.tree.returns.std() * 2
    for row, exact_results in exact_book.rows.items():
        result = sampled_book.rows[row]
        assert abs(result.mean_return - exact_results.mean_return) < 3 * range_width / result.games**0.5
        for share, count in zip(
            (exact_results.wins, exact_results.draws, exact_results.losses),
            (result.wins, result.draws, result.losses),
            strict=True,
        ):
            assert abs(count / result.games - share) < 3 * 0.5 / result.games**0.5
        assert exact_results.exact and exact_results.games == 1


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_exact_results_are_zero_sum_and_even_for_equal_members(seed):
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    stream = Stream.from_seed(seed)
    book = exact_book_of_pairs(
        game,
        states,
        {member: random_table(states, stream.child(str(member))).rows for member in (FIRST_MEMBER, SECOND_MEMBER)},
    )
    for seat in (0, 1):
        forward, backward = (
            book.results(FIRST_MEMBER, SECOND_MEMBER, seat=seat),
            book.results(SECOND_MEMBER, FIRST_MEMBER, seat=1 - seat),
        )
        assert forward.returns == pytest.approx(-backward.returns) and forward.wins == pytest.approx(backward.losses)
        assert forward.wins + forward.draws + forward.losses == pytest.approx(1.0)
    rows = random_table(states, stream).rows
    assert member_payoffs(
        exact_book_of_pairs(game, states, {FIRST_MEMBER: rows, SECOND_MEMBER: rows}),
        [FIRST_MEMBER, SECOND_MEMBER],
        {"kuhn_poker": 1.0},
    ).payoffs[0][0, 1] == pytest.approx(0)


def test_the_meta_strategy_equals_that_of_tabular_policies():
    config = resolve({**RUN_WITH_MEMBERS, "league": EXACT_PLAYS})
    engine = engine_of(config)
    book = with_exact(config, engine, Payoffs())
    states = enumerate_info_states(engine.environments[0][0])
    rows = [query_policy(engine.agent(member), states)[0] for member in MEMBERS]

    def first_return(first_rows, second_rows):
        joint_rows = [(first_rows, second_rows)[seat][index] for index, seat in enumerate(states.seats.tolist())]
        return policy_values(states.tree, states.seats, joint_rows).returns[0]

    matrix = np.array(
        [[(first_return(row, column) - first_return(column, row)) / 2 for column in rows] for row in rows]
    )
    game = member_payoffs(book, MEMBERS, {"kuhn_poker": 1.0})
    assert game.payoffs[0] == pytest.approx(matrix, abs=1e-12) and np.abs(matrix).max() > 0.01
    nash = bind("league.meta_solvers", "nash")
    by_matrix = sparring.league.meta_game.of_matrix((matrix - matrix.T) / 2)
    assert nash(game).sides[0] == pytest.approx(nash(by_matrix).sides[0], abs=1e-9)
    assert unplayed_pairs_note(nash, game) == ""


def test_only_new_pairs_are_computed(monkeypatch):
    config = resolve({**RUN_WITH_MEMBERS, "league": EXACT_PLAYS})
    engine, pairs = engine_of(config), []
    original_function = payoff_plays.pair_results
    monkeypatch.setattr(
        payoff_plays,
        "pair_results",
        lambda game, states, pair, *arguments, **options: (
            pairs.append(pair) or original_function(game, states, pair, *arguments, **options)
        ),
    )
    book = with_exact(config, engine, Payoffs())
    assert len(pairs) == 6 and with_exact(config, engine, book) == book and len(pairs) == 6
    engine.take_member(snapshot(3))
    extended_book = with_exact(config, engine, book)
    assert len(pairs) == 12 and all(snapshot(3) in pair for pair in pairs[6:])
    assert {row: extended_book.rows[row] for row in book.rows} == dict(book.rows)
    assert Payoffs.from_json(json.loads(json.dumps(extended_book.to_json()))) == extended_book


def train_and_read_book(path, config, **options):
    members = run(path, config, **options).members
    folder = checkpoint.load_latest(path).path
    return members, Payoffs.from_json(json.loads((folder / "state.json").read_text())["payoffs"])


LEARNERS = {"main": {"matchmaker": {"name": "meta_strategy"}}, "counter": {}}


@pytest.mark.parametrize("learners", [{}, LEARNERS], ids=("one", "several"))
def test_a_run_with_exact_results_has_every_pair_and_resumes(tmp_path, learners):
    league = {**EXACT_PLAYS, "keep": 2, "payoff_decay": 0.25, "answer": "nash", "learners": learners}
    config = resolve({**RUN_WITH_MEMBERS, "steps": 3, "league": league, "checkpoint": {"every": 1, "keep": 9}})
    members, book = train_and_read_book(tmp_path / "whole", config)
    assert len(members) == 2 * max(len(learners), 1)  # snapshots 1 and 2 of one learner have been dropped
    exact_rows = {(row.seat, row.player, row.opponent) for row, result in book.rows.items() if result.exact}
    assert exact_rows == {(seat, *pair) for seat in (0, 1) for pair in itertools.permutations(members, 2)}
    assert all(result.games == 1 for result in book.rows.values() if result.exact)  # exact results do not decay
    train_and_read_book(tmp_path / "parts", config, until=2)
    train_and_read_book(tmp_path / "parts", config, resume=True)
    full_checkpoint, resumed_checkpoint = (checkpoint.load_latest(tmp_path / name).path for name in ("whole", "parts"))
    for file in full_checkpoint.iterdir():
        if file.suffix in (".json", ".safetensors") and file.name != "manifest.json":
            assert (resumed_checkpoint / file.name).read_bytes() == file.read_bytes(), file.name
    assert (tmp_path / "whole/metrics.jsonl").read_bytes() == (tmp_path / "parts/metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"evaluation": {"max_states": 4}},
            "'kuhn_poker' has more than 4 information states .evaluation.max_states.*write league.plays: 2000",
        ),
        (
            {"environments": [{"name": "sudoku"}, {"name": "sealed_auction"}]},
            "sealed_auction.*write league.plays: 2000.*openings",
        ),
        ({"context": {"name": "summary", "every": 1}}, "kuhn_poker.*write league.plays: 2000.*memory of many wordings"),
        (
            {"league": {**EXACT_PLAYS, "plays": "exakt"}},
            "league.plays: it must be a whole number from 0 to.*write plays: 2000, or plays: exact, got 'exakt'",
        ),
    ],
    ids=("too many states", "no tree", "memories", "no number"),
)
def test_exact_results_are_refused_where_impossible(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        sparring.train({**RUN_WITH_MEMBERS, "league": EXACT_PLAYS, **changes}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_environment_of_one_seat_has_no_games_between_members():
    config = resolve({**RUN_WITH_MEMBERS, "environments": [{"name": "sudoku"}], "league": EXACT_PLAYS})
    payoff_plays.check_exact(config, LocalEngine(config))
    assert with_exact(config, engine_of(config), Payoffs()) == Payoffs()


def test_episodes_do_not_change_exact_results():
    exact_results = Results(games=1, wins=0.25, losses=0.75, returns=-0.5, exact=True)
    plays = Results(games=8, wins=8, returns=8.0)
    assert (
        exact_results + plays
        == plays + exact_results
        == exact_results + Results()
        == exact_results.with_decay(0.5)
        == exact_results
    )
    assert (exact_results + exact_results).mean_return == -0.5 and exact_results.win_rate(prior=9.0) == 0.25
    assert (
        Payoffs({RowKey("x", 0, FIRST_MEMBER, SECOND_MEMBER): exact_results}).restricted_to([FIRST_MEMBER]) == Payoffs()
    )
