"""Members that play each other, and a learner that begins anew from its start."""

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
from sparring.environments.base import filled_together, teams_of
from sparring.environments.catalogue import make_game
from sparring.league.meta_game import member_payoffs, side_payoffs, unmet_note
from sparring.league.payoffs import Payoffs, Results, Row
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
from tests.run_with_members import BASE as MADE
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


def config_of(**league):
    return resolve({**BASE, "league": {**BASE["league"], **league}})


def tensors(model):
    return [tensor.numpy().copy() for tensor in model.tensors().values()]


def same(first, second):
    return all(np.array_equal(left, right) for left, right in zip(tensors(first), tensors(second), strict=True))


def test_members_play_each_other_and_the_start_stays(tmp_path):
    engine = run(tmp_path / "run", config_of(every=1))
    assert engine.members[0] == snapshot(0) and len(engine.members) == 3
    book = Payoffs.from_json(json.loads(last(tmp_path / "run")[1])["payoffs"])
    first, second, third = engine.members
    games = [book.results(*pair).games for pair in ((first, second), (first, third), (second, third))]
    assert min(games) >= 4 and sum(games) >= 12  # an illegal reply ends a play with a result
    forward, backward = book.results(first, third), book.results(third, first)
    assert (forward.games, forward.wins, forward.returns) == (
        backward.games,
        backward.losses,
        pytest.approx(-backward.returns),
    )
    seats = [book.results(first, third, seat=seat).games for seat in (0, 1)]
    assert abs(seats[0] - seats[1]) <= 1 + forward.games // 4
    assert book.results(LEARNER, first).games > 0  # training's own plays are there as before


def test_plays_change_no_weights(tmp_path):
    quiet = {**BASE, "matchmaker": {"name": "mixed", "past": 0.5}}
    outcomes = []
    for plays in (0, 12):
        config = resolve({**quiet, "league": {**BASE["league"], "plays": plays}})
        run(tmp_path / str(plays), config)
        outcomes.append(last(tmp_path / str(plays)))
    assert outcomes[0][0] == outcomes[1][0] and outcomes[0][2] == outcomes[1][2] and outcomes[0][1] != outcomes[1][1]


def test_a_learner_begins_anew_with_nothing_of_before(tmp_path):
    config = config_of(restart=True)
    engine = run(tmp_path / "run", config, until=2)
    learner, start = engine.policies["main"].trained, engine.policies["main"].past[0].model
    state = RunState(step=2, owners={"credit": {"x": 1}, "curriculum": {"y": 2}, "replay": ReplayBuffer((1,))})
    before = learner.model.version
    assert same(learner.model, engine.policies["main"].past[2].model) and not same(learner.model, start)
    assert restart_learners(config, engine, RunState(step=1)) == RunState(step=1) and learner.optimizer.state
    after = restart_learners(config, engine, state)
    assert same(learner.model, start) and same(learner.average.model, start)
    assert not learner.optimizer.state and learner.model.version > before  # so that samplers take the weights
    assert after.owners["credit"] == {} and after.owners["curriculum"] == {"y": 2} and not len(after.replay.stored)


def test_the_step_after_a_snapshot_is_played_by_the_start(tmp_path):
    run(tmp_path / "run", config_of(restart=True))
    whole = run(
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
    assert not same(whole.policies["main"].model, whole.policies["main"].past[0].model)
    assert same(whole.policies["main"].model, whole.policies["main"].past[4].model)
    assert json.loads(last(tmp_path / "run")[1])["league"]["members"] == {
        f"past-00000{step}": {"parent": "past-000000"} for step in (2, 4)
    }


@pytest.mark.parametrize("until", [1, 2, 3])
@pytest.mark.parametrize("restart", [False, True])
def test_a_run_that_goes_on_ends_as_one_that_was_not_interrupted(tmp_path, restart, until):
    config = config_of(restart=restart)
    run(tmp_path / "whole", config)
    run(tmp_path / "parts", config, until=until)
    run(tmp_path / "parts", config, resume=True)
    assert last(tmp_path / "whole") == last(tmp_path / "parts")


@pytest.mark.parametrize("restart", [False, True])
def test_workers_change_no_byte_of_it(tmp_path, restart):
    config = config_of(restart=restart)
    run(tmp_path / "here", config)
    workers = {"fleet": "processes", "workers": 3, "unit_games": 4}
    with simulated_workers():
        run(tmp_path / "workers", config.model_copy(update={"scale": config.scale.model_copy(update=workers)}))
    assert last(tmp_path / "here") == last(tmp_path / "workers")


def test_those_meet_next_who_have_met_least():
    names = [snapshot(step) for step in (0, 2, 4)]
    rows = {
        Row("kuhn", 0, names[0], names[1]): Results(games=3, wins=3),
        Row("other", 0, names[1], names[2]): Results(games=9, draws=9),
    }
    pairs = next_pairs(Payoffs(rows), names, "kuhn")
    ordered = [next(pairs) for _ in range(9)]
    unordered = [frozenset(pair) for pair in ordered]
    assert unordered[:6].count(frozenset(names[:2])) == 0 and {
        unordered.count(frozenset(pair)) for pair in (names[:2],)
    } == {1}
    assert ordered.count((names[0], names[2])) - ordered.count((names[2], names[0])) in (0, 1)
    assert list(next_pairs(Payoffs(), names[:1], "kuhn")) == []
    sides = next_pairs(Payoffs(), names, "kuhn", itself=True)  # nine cells, alike
    assert Counter(next(sides) for _ in range(90)) == Counter({(row, column): 10 for row in names for column in names})


def test_pairs_meet_by_their_shares():
    """Of 100 plays, 90 of which are there, so many that each pair has its share; one of share 0 plays once."""
    names = [snapshot(step) for step in (0, 2, 4)]
    rows = {
        Row("kuhn", 0, names[0], names[1]): Results(games=60),
        Row("kuhn", 0, names[0], names[2]): Results(games=30),
    }
    pairs = next_pairs(Payoffs(rows), names, "kuhn", [0.6, 0.3, 0.1])
    first_ten = [frozenset(next(pairs)) for _ in range(10)]
    assert first_ten == [frozenset(names[1:])] * 10
    pairs = next_pairs(Payoffs(), names, "kuhn", [0.75, 0.25, 0.0])
    first_nine = [frozenset(next(pairs)) for _ in range(9)]
    assert [first_nine.count(frozenset(pair)) for pair in itertools.combinations(names, 2)] == [6, 2, 1]


def test_shares_that_are_equal_are_the_order_of_those_who_have_met_least():
    names = [snapshot(step) for step in (0, 2, 4, 6)]
    rows = {
        Row("kuhn", 0, names[0], names[1]): Results(games=3),
        Row("kuhn", 1, names[2], names[3]): Results(games=0.5),
    }
    for itself in (False, True):  # a member with itself has the mean share of the pairs
        orders = [
            list(itertools.islice(next_pairs(Payoffs(rows), names, "kuhn", shares, itself=itself), 40))
            for shares in (None, [1 / 4] * 6)
        ]
        assert orders[0] == orders[1]
        assert any(row == column for row, column in orders[0]) == itself


def played_in_one_call(config, engine, book, step):
    (game, _), root = engine.environments[0], engine.root.child("payoffs").child(step).child(0)
    pairs = itertools.islice(next_pairs(book, engine.members, game.name), config.league.plays)
    specs = [payoff_plays._spec(game, ((0,), (1,)), pair, number, root) for number, pair in enumerate(pairs)]
    return book.after(
        play_teams(specs, {str(member): engine.agent(member) for member in engine.members}), {game.name: (0, 1)}
    )


def test_without_focus_plays_are_those_of_before_to_the_bit_and_with_it_those_who_weigh_play_more():
    setting = {**MADE, "matchmaker": {"name": "meta_strategy", "solver": "last"}}
    config = resolve({**setting, "league": {**MADE["league"], "plays": 60}})
    engine = engine_of(config)
    plain = with_plays(config, engine, Payoffs(), 3)
    assert plain.to_json() == played_in_one_call(config, engine, Payoffs(), 3).to_json()
    focused = resolve({**setting, "league": {**MADE["league"], "plays": 60, "focus": 1.0}})
    book = with_plays(focused, engine, Payoffs(), 3)
    assert book.to_json() == with_plays(focused, engine, Payoffs(), 3).to_json() != plain.to_json()
    games = [book.results(*pair).games for pair in itertools.combinations(engine.members, 2)]
    assert sum(games) == 60 and games[0] == 5 and min(games[1:]) > 20  # the newest has all weight
    assert with_plays(
        focused.model_copy(update={"league": focused.league.model_copy(update={"plays": 2})}), engine, Payoffs(), 3
    ).rows


def test_a_focus_and_sides_apart_share_the_plays_between_pairs_and_members_with_themselves():
    matchmaker = {"name": "meta_strategy", "solver": "last", "sides": "apart"}
    config = resolve({**MADE, "matchmaker": matchmaker, "league": {**MADE["league"], "plays": 60, "focus": 1.0}})
    engine = engine_of(config)
    book = with_plays(config, engine, Payoffs(), 3)
    pairs = [book.results(*pair).games for pair in itertools.combinations(engine.members, 2)]
    # each is in the book once for each side
    alone = [book.results(member, member).games / 2 for member in engine.members]
    assert sum(pairs) + sum(alone) == 60 and min(alone) > 5 and min(pairs[1:]) > pairs[0]


def test_a_focus_without_a_solver_is_refused_at_the_start(tmp_path):
    with pytest.raises(ConfigError, match=r"league\.focus weighs members.*write league\.answer: nash"):
        sparring.train({**MADE, "league": {**MADE["league"], "focus": 0.5}}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("league", "message"),
    [
        ({"start": True}, "every: 20"),
        ({"plays": 4}, "every: 20"),
        ({"every": 2, "restart": True}, "start: true"),
        ({"every": 2, "start": True, "keep": 1}, "keep: 2"),
        ({"every": 2, "focus": 0.5}, "plays: 0 plays none; write plays: 2000"),
        ({"every": 2, "plays": "exact", "focus": 0.5}, "plays: exact plays none; write plays: 2000"),
    ],
)
def test_what_does_not_fit_is_refused(league, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**BASE, "league": league})


def test_a_restart_with_a_lag_is_refused():
    with pytest.raises(ConfigError, match="restart: false"):
        resolve(
            {**BASE, "league": {**BASE["league"], "restart": True}, "scale": {"lag": 1}, "replay": {"name": "none"}}
        )


# exact results of members against each other: by hand, beside plays, in runs, and where there are none
ONE, OTHER = snapshot(1), snapshot(2)
EXACT = {"every": 1, "start": True, "plays": "exact"}


def both_ways(game, states, policies, **options):
    book = Payoffs()
    for pair in itertools.permutations(policies, 2):
        book = book.with_exact(pair_results(game, states, pair, policies, **options))
    return book


def test_uniform_against_always_bet_in_kuhn_poker_by_hand():
    """Called or bet, 2 chips lie at an even chance, as neither looks at its card; a fold costs 1.

    From the first seat uniform folds in 1/2 * 1/2 of plays (pass, bet, pass), from the second in 1/2 (bet, pass).
    """
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    bets = [np.array([0.0, 1.0]) for _ in states.queries]
    assert all(query.legal_actions == ("pass", "bet") for query in states.queries)
    policies = {ONE: [np.full(2, 0.5) for _ in bets], OTHER: bets}
    assert [row[1:] for row in pair_results(game, states, (ONE, OTHER), policies)] == [(0, ONE, OTHER), (1, OTHER, ONE)]
    book = both_ways(game, states, policies)
    first, second = (book.results(ONE, OTHER, seat=seat) for seat in (0, 1))
    assert (first.returns, first.wins, first.losses, first.draws) == pytest.approx((-0.25, 0.375, 0.625, 0.0))
    assert (second.returns, second.wins, second.losses) == pytest.approx((-0.5, 0.25, 0.75))
    game = member_payoffs(book, [ONE, OTHER], {"kuhn_poker": 1.0})
    assert game.payoffs[0] == pytest.approx(np.array([[0, -0.375], [0.375, 0]])) and game.counts is None
    assert game.wins[0, 1] == pytest.approx(0.3125) and book.results(ONE, OTHER).rate_interval() == pytest.approx(
        (0.3125, 0.3125)
    )


def test_a_member_against_itself_where_each_side_has_its_own_population():
    """Uniform play against itself: passing twice or being called shows cards, at an even chance; the rest is folds."""
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    policies = {ONE: [np.full(2, 0.5) for _ in states.queries]}
    book = Payoffs(pair_results(game, states, (ONE, ONE), policies))
    first, second = (book.results(ONE, ONE, seat=seat) for seat in (0, 1))
    assert (first.returns, second.returns) == pytest.approx((0.125, -0.125))  # 1/4 bet-fold +1, 1/8 pass-bet-fold -1
    apart = side_payoffs(book, [ONE], "kuhn_poker", (0, 1), opposed=True)
    assert (apart.payoffs[0][0, 0], apart.payoffs[1][0, 0], apart.counts) == pytest.approx((0.125, -0.125, None))


def test_a_run_with_sides_apart_has_exact_results_of_members_against_themselves():
    matchmaker = {"name": "meta_strategy", "sides": "apart"}
    config = resolve({**MADE, "matchmaker": matchmaker, "league": EXACT})
    engine = engine_of(config)
    book = with_plays(config, engine, Payoffs(), 1)
    name = engine.environments[0][0].name
    assert all(
        book.results(member, member, environment=name, seat=seat).exact for member in engine.members for seat in (0, 1)
    )
    assert (
        not with_exact(config, engine, Payoffs()).results(engine.members[0], engine.members[0], environment=name).games
    )


def played(game, agents, each):
    first, root = filled_together(tuple(teams_of(game)))[0], Stream.from_seed(3)
    specs = [
        EpisodeSpec(
            game=game, episode_id=number, group_id=number, deal=root.child(number).child("deal"), stream=root.child(number), trained=(False,) * game.num_seats,
            seats=tuple((ONE, OTHER)[(seat in first) == number % 2] for seat in range(game.num_seats)),
        )
        for number in range(2 * each)
    ]  # fmt: skip
    return Payoffs().after(play_teams(specs, agents), {game.name: teams_of(game)})


@pytest.mark.parametrize(
    ("name", "options"),
    [("kuhn_poker", {}), ("kuhn_poker", {"players": 3}), ("tiny_hanabi", {}), ("team_matrix", {})],
    ids=("two seats", "three seats", "one team", "two teams"),
)
def test_plays_tend_to_the_exact_values(name, options):
    game = make_game(name, options=options)
    states, stream = enumerate_info_states(game), Stream.from_seed(5)
    tables = {who: random_table(states, stream.child(str(who))) for who in (ONE, OTHER)}
    exact = both_ways(game, states, {who: table.rows for who, table in tables.items()})
    sampled = played(game, {str(who): TableAgent(table) for who, table in tables.items()}, 400)
    assert set(exact.rows) == {row for row in sampled.rows if row.player != row.opponent}
    spread = states.tree.returns.std() * 2
    for row, known in exact.rows.items():
        result = sampled.rows[row]
        assert abs(result.mean_return - known.mean_return) < 3 * spread / result.games**0.5
        for share, counted in zip(
            (known.wins, known.draws, known.losses), (result.wins, result.draws, result.losses), strict=True
        ):
            assert abs(counted / result.games - share) < 3 * 0.5 / result.games**0.5
        assert known.exact and known.games == 1


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_what_one_wins_another_pays_and_what_all_do_is_sure(seed):
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    stream = Stream.from_seed(seed)
    book = both_ways(game, states, {who: random_table(states, stream.child(str(who))).rows for who in (ONE, OTHER)})
    for seat in (0, 1):
        forward, backward = book.results(ONE, OTHER, seat=seat), book.results(OTHER, ONE, seat=1 - seat)
        assert forward.returns == pytest.approx(-backward.returns) and forward.wins == pytest.approx(backward.losses)
        assert forward.wins + forward.draws + forward.losses == pytest.approx(1.0)
    same = random_table(states, stream).rows
    assert member_payoffs(both_ways(game, states, {ONE: same, OTHER: same}), [ONE, OTHER], {"kuhn_poker": 1.0}).payoffs[
        0
    ][0, 1] == pytest.approx(0)


def test_the_meta_strategy_is_that_of_the_matrix_of_tabular_policies():
    config = resolve({**MADE, "league": EXACT})
    engine = engine_of(config)
    book = with_exact(config, engine, Payoffs())
    states = enumerate_info_states(engine.environments[0][0])
    rows = [query_policy(engine.agent(member), states)[0] for member in MEMBERS]

    def value(first, second):
        mixed = [(first, second)[seat][place] for place, seat in enumerate(states.seats.tolist())]
        return policy_values(states.tree, states.seats, mixed).returns[0]

    matrix = np.array([[(value(row, column) - value(column, row)) / 2 for column in rows] for row in rows])
    game = member_payoffs(book, MEMBERS, {"kuhn_poker": 1.0})
    assert game.payoffs[0] == pytest.approx(matrix, abs=1e-12) and np.abs(matrix).max() > 0.01
    nash = bind("league.meta_solvers", "nash")
    by_matrix = sparring.league.meta_game.of_matrix((matrix - matrix.T) / 2)
    assert nash(game).sides[0] == pytest.approx(nash(by_matrix).sides[0], abs=1e-9)
    assert unmet_note(nash, game) == ""


def test_only_new_pairs_are_computed(monkeypatch):
    config = resolve({**MADE, "league": EXACT})
    engine, pairs = engine_of(config), []
    compute = payoff_plays.pair_results
    monkeypatch.setattr(
        payoff_plays,
        "pair_results",
        lambda game, states, pair, *rest, **more: pairs.append(pair) or compute(game, states, pair, *rest, **more),
    )
    book = with_exact(config, engine, Payoffs())
    assert len(pairs) == 6 and with_exact(config, engine, book) == book and len(pairs) == 6
    engine.take_member(snapshot(3))
    more = with_exact(config, engine, book)
    assert len(pairs) == 12 and all(snapshot(3) in pair for pair in pairs[6:])
    assert {row: more.rows[row] for row in book.rows} == dict(book.rows)
    assert Payoffs.from_json(json.loads(json.dumps(more.to_json()))) == more


def trained(path, config, **options):
    members = run(path, config, **options).members
    folder = checkpoint.load_latest(path).path
    return members, Payoffs.from_json(json.loads((folder / "state.json").read_text())["payoffs"])


LEARNERS = {"main": {"matchmaker": {"name": "meta_strategy"}}, "counter": {}}


@pytest.mark.parametrize("learners", [{}, LEARNERS], ids=("one", "several"))
def test_a_run_has_a_value_of_every_pair_and_goes_on_with_the_same_bytes(tmp_path, learners):
    league = {**EXACT, "keep": 2, "payoff_decay": 0.25, "answer": "nash", "learners": learners}
    config = resolve({**MADE, "steps": 3, "league": league, "checkpoint": {"every": 1, "keep": 9}})
    members, book = trained(tmp_path / "whole", config)
    assert len(members) == 2 * max(len(learners), 1)  # of one learner step 1 and 2 have left
    exact = {(row.seat, row.player, row.opponent) for row, result in book.rows.items() if result.exact}
    assert exact == {(seat, *pair) for seat in (0, 1) for pair in itertools.permutations(members, 2)}
    assert all(result.games == 1 for result in book.rows.values() if result.exact)  # they do not fade
    trained(tmp_path / "parts", config, until=2)
    trained(tmp_path / "parts", config, resume=True)
    whole, parts = (checkpoint.load_latest(tmp_path / name).path for name in ("whole", "parts"))
    for file in whole.iterdir():
        if file.suffix in (".json", ".safetensors") and file.name != "manifest.json":
            assert (parts / file.name).read_bytes() == file.read_bytes(), file.name
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
            {"league": {**EXACT, "plays": "exakt"}},
            "league.plays: it is not a number of plays.*write plays: 2000, say, or plays: exact, got 'exakt'",
        ),
    ],
    ids=("too many states", "no tree", "memories", "no number"),
)
def test_where_there_are_no_exact_values_the_run_is_refused_and_nothing_is_written(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        sparring.train({**MADE, "league": EXACT, **changes}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_seat_alone_meets_nobody():
    config = resolve({**MADE, "environments": [{"name": "sudoku"}], "league": EXACT})
    payoff_plays.check_exact(config, LocalEngine(config))
    assert with_exact(config, engine_of(config), Payoffs()) == Payoffs()


def test_plays_add_nothing_to_exact_results():
    exact = Results(games=1, wins=0.25, losses=0.75, returns=-0.5, exact=True)
    plays = Results(games=8, wins=8, returns=8.0)
    assert exact + plays == plays + exact == exact + Results() == exact.decayed(0.5) == exact
    assert (exact + exact).mean_return == -0.5 and exact.win_rate(prior=9.0) == 0.25
    assert Payoffs({Row("x", 0, ONE, OTHER): exact}).among([ONE]) == Payoffs()
