"""Exact results of members against each other: by hand, beside plays, in runs, and where there are none."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparring
from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.core.refs import snapshot
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.base import filled_together, teams_of
from sparring.environments.catalogue import make_game
from sparring.league.meta_game import member_payoffs, side_payoffs, unmet_note
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.measure.exploitability import ask
from sparring.measure.info_states import enumerate_info_states
from sparring.measure.lab_episodes import TableAgent, random_table
from sparring.ops.game_tree import policy_values
from sparring.play.spec import EpisodeSpec
from sparring.play.team import play_teams
from sparring.run import checkpoint, payoff_plays
from sparring.run.payoff_plays import pair_results, with_exact, with_plays
from tests.run_with_members import BASE, MEMBERS, engine_of, run

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
    assert game.wins[0, 1] == pytest.approx(0.3125) and book.results(ONE, OTHER).rate_interval() == pytest.approx((0.3125, 0.3125))


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
    config = resolve({**BASE, "matchmaker": matchmaker, "league": EXACT})
    engine = engine_of(config)
    book = with_plays(config, engine, Payoffs(), 1)
    name = engine.environments[0][0].name
    assert all(book.results(one, one, environment=name, seat=seat).exact for one in engine.members for seat in (0, 1))
    assert not with_exact(config, engine, Payoffs()).results(engine.members[0], engine.members[0], environment=name).games


def played(game, agents, each):
    """Return the book of plays of two members, each of them in the first side ``each`` times."""
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
    ("name", "options"), [("kuhn_poker", {}), ("kuhn_poker", {"players": 3}), ("tiny_hanabi", {}), ("team_matrix", {})],
    ids=("two seats", "three seats", "one team", "two teams"),
)
def test_plays_tend_to_the_exact_values(name, options):
    game = make_game(name, options=options)
    states, stream = enumerate_info_states(game), Stream.from_seed(5)
    tables = {who: random_table(states, stream.child(str(who))) for who in (ONE, OTHER)}
    exact = both_ways(game, states, {who: table.rows for who, table in tables.items()})
    found = played(game, {str(who): TableAgent(table) for who, table in tables.items()}, 400)
    assert set(exact.rows) == {row for row in found.rows if row.player != row.opponent}
    spread = states.tree.returns.std() * 2
    for row, known in exact.rows.items():
        result = found.rows[row]
        assert abs(result.mean_return - known.mean_return) < 3 * spread / result.games**0.5
        for share, counted in zip((known.wins, known.draws, known.losses), (result.wins, result.draws, result.losses), strict=True):
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
        one, other = book.results(ONE, OTHER, seat=seat), book.results(OTHER, ONE, seat=1 - seat)
        assert one.returns == pytest.approx(-other.returns) and one.wins == pytest.approx(other.losses)
        assert one.wins + one.draws + one.losses == pytest.approx(1.0)
    same = random_table(states, stream).rows
    assert member_payoffs(both_ways(game, states, {ONE: same, OTHER: same}), [ONE, OTHER], {"kuhn_poker": 1.0}).payoffs[0][0, 1] == pytest.approx(0)


def test_the_meta_strategy_is_that_of_the_matrix_of_tabular_policies():
    config = resolve({**BASE, "league": EXACT})
    engine = engine_of(config)
    book = with_exact(config, engine, Payoffs())
    states = enumerate_info_states(engine.environments[0][0])
    rows = [ask(engine.agent(member), states)[0] for member in MEMBERS]

    def value(first, second):
        mixed = [(first, second)[seat][place] for place, seat in enumerate(states.seats.tolist())]
        return policy_values(states.tree, states.seats, mixed).returns[0]

    matrix = np.array([[(value(one, other) - value(other, one)) / 2 for other in rows] for one in rows])
    game = member_payoffs(book, MEMBERS, {"kuhn_poker": 1.0})
    assert game.payoffs[0] == pytest.approx(matrix, abs=1e-12) and np.abs(matrix).max() > 0.01
    nash = bind("league.meta_solvers", "nash")
    by_matrix = sparring.league.meta_game.of_matrix((matrix - matrix.T) / 2)
    assert nash(game).sides[0] == pytest.approx(nash(by_matrix).sides[0], abs=1e-9)
    assert unmet_note(nash, game) == ""


def test_only_new_pairs_are_computed(monkeypatch):
    config = resolve({**BASE, "league": EXACT})
    engine, pairs = engine_of(config), []
    compute = payoff_plays.pair_results
    monkeypatch.setattr(payoff_plays, "pair_results", lambda game, states, pair, *rest, **more: pairs.append(pair) or compute(game, states, pair, *rest, **more))
    book = with_exact(config, engine, Payoffs())
    assert len(pairs) == 6 and with_exact(config, engine, book) == book and len(pairs) == 6
    engine.take_member(snapshot(3))
    more = with_exact(config, engine, book)
    assert len(pairs) == 12 and all(snapshot(3) in pair for pair in pairs[6:])
    assert {row: more.rows[row] for row in book.rows} == dict(book.rows)
    assert Payoffs.from_json(json.loads(json.dumps(more.to_json()))) == more


def trained(path, config, **options):
    """Train, or go on; return the members and the book."""
    members = run(path, config, **options).members
    found = checkpoint.load_latest(path).path
    return members, Payoffs.from_json(json.loads((found / "state.json").read_text())["payoffs"])


LEARNERS = {"main": {"matchmaker": {"name": "meta_strategy"}}, "counter": {}}


@pytest.mark.parametrize("learners", [{}, LEARNERS], ids=("one", "several"))
def test_a_run_has_a_value_of_every_pair_and_goes_on_with_the_same_bytes(tmp_path, learners):
    league = {**EXACT, "keep": 2, "payoff_decay": 0.25, "answer": "nash", "learners": learners}
    config = resolve({**BASE, "steps": 3, "league": league, "checkpoint": {"every": 1, "keep": 9}})
    members, book = trained(tmp_path / "whole", config)
    assert len(members) == 2 * max(len(learners), 1)  # of one learner step 1 and 2 have left
    exact = {(row.seat, row.player, row.opponent) for row, found in book.rows.items() if found.exact}
    assert exact == {(seat, *pair) for seat in (0, 1) for pair in itertools.permutations(members, 2)}
    assert all(found.games == 1 for found in book.rows.values() if found.exact)  # they do not fade
    trained(tmp_path / "parts", config, until=2)
    trained(tmp_path / "parts", config, resume=True)
    whole, parts = (checkpoint.load_latest(tmp_path / name).path for name in ("whole", "parts"))
    for file in whole.iterdir():
        if file.suffix in (".json", ".safetensors") and file.name != "manifest.json":
            assert (parts / file.name).read_bytes() == file.read_bytes(), file.name
    assert (tmp_path / "whole/metrics.jsonl").read_bytes() == (tmp_path / "parts/metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"evaluation": {"max_states": 4}}, "'kuhn_poker' has more than 4 information states .evaluation.max_states.*write league.plays: 2000"),
        ({"environments": [{"name": "sudoku"}, {"name": "sealed_auction"}]}, "sealed_auction.*write league.plays: 2000.*openings"),
        ({"context": {"name": "summary", "every": 1}}, "kuhn_poker.*write league.plays: 2000.*memory of many wordings"),
        ({"league": {**EXACT, "plays": "exakt"}}, "league.plays: it is no number of plays.*write plays: 2000, say, or plays: exact, got 'exakt'"),
    ],
    ids=("too many states", "no tree", "memories", "no number"),
)
def test_where_there_are_no_exact_values_the_run_is_refused_and_nothing_is_written(tmp_path, changes, said):
    with pytest.raises(ConfigError, match=said):
        sparring.train({**BASE, "league": EXACT, **changes}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_seat_alone_meets_nobody():
    config = resolve({**BASE, "environments": [{"name": "sudoku"}], "league": EXACT})
    payoff_plays.check_exact(config, LocalEngine(config))
    assert with_exact(config, engine_of(config), Payoffs()) == Payoffs()


def test_plays_add_nothing_to_exact_results():
    exact = Results(games=1, wins=0.25, losses=0.75, returns=-0.5, exact=True)
    plays = Results(games=8, wins=8, returns=8.0)
    assert exact + plays == plays + exact == exact + Results() == exact.faded(0.5) == exact
    assert (exact + exact).mean_return == -0.5 and exact.win_rate(prior=9.0) == 0.25
    assert Payoffs({Row("x", 0, ONE, OTHER): exact}).among([ONE]) == Payoffs()
