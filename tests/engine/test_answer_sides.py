"""An answer with a mixture for each of two sides: its exact figures, who is drawn, and where it has no meaning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.core.errors import GameError
from sparring.core.refs import snapshot
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.measure.exact_figures import exact_figures_of
from sparring.measure.exploitability import ask, nash_conv, team_exploitability
from sparring.measure.info_states import Query, TabularScorer, UniformScorer, enumerate_info_states
from sparring.play.players.mixture import MemberMixture
from sparring.play.spec import EpisodeSpec
from sparring.play.team import play_teams
from sparring.run.evaluation import answer_of

KUHN = make_game("kuhn_poker")
STATES = enumerate_info_states(KUHN)
TEAMS = make_game("team_matrix", options={"game": "rock_paper_scissors", "members": 2})
TEAM_STATES = enumerate_info_states(TEAMS)
THREE = make_game("kuhn_poker", options={"players": 3})
MEMBERS = [snapshot(step) for step in (1, 2, 3)]


def mixture(scorers, first, second):
    members = MEMBERS[: len(scorers)]
    sides = [dict(zip(members, weights, strict=True)) for weights in (first, second)]
    return MemberMixture(sides[0], dict(zip(members, scorers, strict=True)).get, second=sides[1])


def poker(calls, bluffs_and_calls):
    """Return Kuhn poker's equilibrium but for a bluff and two calls: chance that the first seat calls with Q, and the second with Q or bluffs with J."""
    bets = {  # chance of the second action, to bet or call: by the cards and what was done
        "0": 0, "1": 0, "2": 0, "0pb": 0, "1pb": calls, "2pb": 1,
        "0p": bluffs_and_calls, "1p": 0, "2p": 1, "0b": 0, "1b": bluffs_and_calls, "2b": 1,
    }  # fmt: skip
    table = {}
    for query in STATES.queries:
        share = bets[query.key]
        table[query.seat, query.key] = dict(zip(query.legal_actions, (1 - share, share), strict=True))
    return TabularScorer(table)


def test_the_equilibrium_of_kuhn_poker_is_a_mixture_for_each_side():
    """The first calls with Q in 1/3, so 1/3 of the member that does; the second bluffs and calls in 1/3, so 1/3 of the other one."""
    members = [poker(1, 0), poker(0, 1)]
    pair = nash_conv(KUHN, STATES, mixture(members, [1 / 3, 2 / 3], [2 / 3, 1 / 3]))
    assert pair.nash_conv == pytest.approx(0, abs=1e-12) and pair.values == pytest.approx((-1 / 18, 1 / 18))
    for weights in ([1 / 3, 2 / 3], [2 / 3, 1 / 3]):  # one distribution for both sides is none
        assert nash_conv(KUHN, STATES, mixture(members, weights, weights)).nash_conv > 0.05
    turned = nash_conv(KUHN, STATES, mixture(members, [2 / 3, 1 / 3], [1 / 3, 2 / 3]))
    assert turned.nash_conv > 0.05


def tables(states, count):
    rows = st.lists(st.floats(0.0, 1.0), min_size=len(states), max_size=len(states))
    return st.lists(rows, min_size=count, max_size=count)


def scorer(states, rows, legal=1.0):
    found = {}
    for query, share in zip(states.queries, rows, strict=True):
        found[query.seat, query.key] = dict(zip(query.legal_actions, (legal * share, legal * (1 - share)), strict=True))
    return TabularScorer(found)


SHARES = st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3).filter(lambda shares: sum(shares) > 0.1)


@settings(max_examples=20)
@given(tables(STATES, 3), SHARES, SHARES)
def test_it_is_the_pair_of_the_sides_own_mixtures(rows, first, second):
    """Its NashConv is that of the table in which each seat has what its side's mixture says; OpenSpiel finds the best responses."""
    members = [scorer(STATES, row) for row in rows]
    first, second = ([share / sum(own) for share in own] for own in (first, second))
    alone = [ask(mixture(members, own, own), STATES)[0] for own in (first, second)]
    table = {(query.seat, query.key): dict(zip(query.legal_actions, alone[query.seat][n], strict=True)) for n, query in enumerate(STATES.queries)}
    pair = nash_conv(KUHN, STATES, mixture(members, first, second))
    joint = nash_conv(KUHN, STATES, TabularScorer(table))
    assert pair.gains == pytest.approx(joint.gains, abs=1e-9) and pair.values == pytest.approx(joint.values, abs=1e-9)


@settings(max_examples=20)
@given(tables(STATES, 3), tables(TEAM_STATES, 3), SHARES)
def test_equal_weights_are_one_mixture_to_the_bit(rows, team_rows, shares):
    own = [share / sum(shares) for share in shares]
    for game, states, given_ in ((KUHN, STATES, rows), (TEAMS, TEAM_STATES, team_rows)):
        members = [scorer(states, row, 0.9) for row in given_]
        two = mixture(members, own, own)
        one = MemberMixture(dict(zip(MEMBERS, own, strict=True)), two.agent)
        assert [row.tobytes() for row in two.action_logprobs(states.queries)] == [row.tobytes() for row in one.action_logprobs(states.queries)]
        assert exact_figures_of(game, states, two) == exact_figures_of(game, states, one)


def test_teams_draw_by_their_own_sides_by_hand():
    """The first team draws rock and the second paper: scissors would bring the first 2 more, and the second has its best."""
    rock, paper = ([1, 1], [1, 0])
    members = [scorer(TEAM_STATES, [*choices, *choices], legal) for choices, legal in ((rock, 1.0), (paper, 0.5))]
    found = exact_figures_of(TEAMS, TEAM_STATES, mixture(members, [1, 0], [0, 1]))
    assert found.figures["team_exploitability/team_matrix"] == pytest.approx((2 + 0) / 2)
    assert found.values == pytest.approx((-1, -1, 1, 1))
    report = team_exploitability(TEAM_STATES, TEAMS.teams, [ask(one, TEAM_STATES)[0] for one in members], [[1, 0], [0, 1]])
    assert report.joint == pytest.approx((2, 0)) and report.values == pytest.approx((-1, 1))
    assert found.figures["illegal_mass/team_matrix"] == pytest.approx((0 + 0.5) / 2)
    assert found.figures["illegal_mass_reached/team_matrix"] == pytest.approx((0 + 0.5) / 2)


def drawn(game, agent, plays, **more):
    root, found = Stream.from_seed(0), []
    specs = [EpisodeSpec(game=game, episode_id=n, group_id=n, deal=root.child(n), stream=root.child(n), seats=("agent",) * game.num_seats, trained=(False,) * game.num_seats) for n in range(plays)]
    asked = []
    inner = agent._agent_of
    agent._agent_of = lambda who: asked.append(who) or inner(who)
    play_teams(specs, {"agent": agent}, **more)
    asked = asked[len(agent.members) :]  # each is made once before
    for n in range(plays):
        found.append(tuple(asked[n * game.num_seats : (n + 1) * game.num_seats]))
    return found


@pytest.fixture(scope="module")
def engine():
    config = {
        "name": "sides", "steps": 2, "threads": 1,
        "environments": [{"name": "kuhn_poker", "weight": 3}, {"name": "leduc_poker"}, {"name": "team_matrix", "weight": 0, "options": {"members": 2}}],
        "rollout": {"games_per_step": 8}, "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "league": {"every": 1}, "warmup": {"updates": 0},
    }
    made = LocalEngine(resolve(config))
    for member in MEMBERS:
        made.take_member(member)
    return made


def test_each_seat_draws_by_its_side_and_a_team_together(engine):
    agent = MemberMixture({MEMBERS[0]: 0.25, MEMBERS[1]: 0.75}, engine.agent, second={MEMBERS[1]: 0.5, MEMBERS[2]: 0.5})
    met = drawn(engine.environments[0][0], agent, 400)
    shares = [[sum(seats[seat] == member for seats in met) / 400 for member in MEMBERS] for seat in (0, 1)]
    assert shares[0] == pytest.approx([0.25, 0.75, 0], abs=0.06) and shares[1] == pytest.approx([0, 0.5, 0.5], abs=0.06)
    assert agent.members == {MEMBERS[0]: 0.125, MEMBERS[1]: 0.625, MEMBERS[2]: 0.25}
    assert str(agent) == "0.250 past-000001, 0.750 past-000002 in the first side; 0.500 past-000002, 0.500 past-000003 in the second"
    agent = MemberMixture({MEMBERS[0]: 1.0}, engine.agent, second={MEMBERS[1]: 0.5, MEMBERS[2]: 0.5})
    met = drawn(engine.environments[2][0], agent, 40)
    assert all(a == b == MEMBERS[0] and c == d for a, b, c, d in met) and {seats[2] for seats in met} == set(MEMBERS[1:])


def test_the_same_weights_in_both_sides_draw_whom_one_mixture_draws(engine):
    weights = {MEMBERS[0]: 0.25, MEMBERS[1]: 0.75}
    one, two = MemberMixture(weights, engine.agent), MemberMixture(weights, engine.agent, second=weights)
    assert drawn(KUHN, one, 50) == drawn(KUHN, two, 50)


def test_it_is_for_two_sides(engine):
    agent = mixture([UniformScorer(), UniformScorer()], [1, 0], [0, 1])
    told = "kuhn_poker: this mixture has weights for each of two sides, and here are 3; take one policy"
    with pytest.raises(GameError, match=told):
        agent.at(THREE, 0)
    with pytest.raises(GameError, match=told):
        nash_conv(THREE, enumerate_info_states(THREE), agent)
    with pytest.raises(GameError, match=told):
        drawn(THREE, agent, 1)
    with pytest.raises(GameError, match=r"sudoku: .* and here are 1"):
        agent.at(make_game("sudoku"), 0)
    assert MemberMixture({MEMBERS[0]: 1.0}, engine.agent).at(THREE, 2).shares() == {MEMBERS[0]: 1.0}


def test_a_question_without_teams_has_a_side_for_each_seat_and_with_teams_its_own():
    agent = mixture([poker(1, 0), UniformScorer()], [0, 1], [1, 0])
    query = Query(game="any", seat=1, key="1b", observations=("",), actions=(), legal_actions=("pass", "bet"))
    assert np.exp(agent.action_logprobs([query])[0]) == pytest.approx([1, 0])  # the member of the second side
    for teams, wanted in (((0, 0, 1, 1), [0.5, 0.5]), ((0, 1, 0, 1), [1, 0]), ((0, 0), [1, 0])):
        (row,) = agent.action_logprobs([Query(game="any", seat=1, key="1b", observations=("",), actions=(), legal_actions=("pass", "bet"), teams=teams)])
        assert np.exp(row) == pytest.approx(wanted)
    assert TEAM_STATES.queries[0].teams == (0, 0, 1, 1) and STATES.queries[0].teams == (0, 1)


def sided(first, environment="kuhn_poker", second_seat=1):
    """Return the rows in which the first side's member i earns first[i][j] from the second side's member j, who loses it."""
    rows = {}
    for i, player in enumerate(MEMBERS[: len(first)]):
        for j, opponent in enumerate(MEMBERS[: len(first)]):
            paid = first[i][j]
            if paid is not None:
                rows[Row(environment, 0, player, opponent)] = Results(games=10, draws=10, returns=10 * paid)
                rows[Row(environment, second_seat, opponent, player)] = Results(games=10, draws=10, returns=-10 * paid)
    return rows


def test_the_answer_weighs_each_side_by_itself(engine):
    """The mean of 3/4 of one game and 1/4 of another is 3, 0 / 1, 2, and a third member loses: p = 1/4 and q = 1/2 in the last line."""
    kuhn = sided([[4, 0, 8], [0, 2, 8], [-9, -9, 0]])
    leduc = sided([[0, 0, 8], [4, 2, 8], [-9, -9, 0]], "leduc_poker")
    book = Payoffs({**kuhn, **leduc, **sided([[-50] * 3] * 3, "team_matrix", 2)})  # held out
    found = answer_of(engine, book, "nash", apart=True)
    assert found.sides[0] == pytest.approx({MEMBERS[0]: 0.25, MEMBERS[1]: 0.75})
    assert found.sides[1] == pytest.approx({MEMBERS[0]: 0.5, MEMBERS[1]: 0.5}) and found.notes == ()
    together = answer_of(engine, book, "nash")
    assert len(together.sides) == 1 and together.members == {MEMBERS[1]: 1.0}  # as whole players the second earns 1/2 from the first


@given(st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=3, max_size=3), st.sampled_from(["nash", "correlated", "uniform", "projected_replicator"]))
@settings(max_examples=20)
def test_the_weights_of_each_side_are_a_distribution(engine, payoffs, solver):
    found = answer_of(engine, Payoffs(sided(payoffs)), solver, apart=True)
    for own in found.sides:
        assert sum(own.values()) == pytest.approx(1) and all(0 < share <= 1 + 1e-9 for share in own.values())
        assert set(own) <= set(MEMBERS)


def test_pairs_that_never_met_in_their_sides_are_counted(engine):
    kuhn = sided([[0, 1, None], [1, 0, 1], [1, 1, None]])
    leduc = sided([[0, 1, None], [1, 0, 1], [1, 1, None]], "leduc_poker")
    (note,) = answer_of(engine, Payoffs({**kuhn, **leduc}), "nash", apart=True).notes
    assert note.startswith("2 of 9 pairs of members have never met")
    assert answer_of(engine, Payoffs(), "uniform", apart=True).notes == ()


def test_without_members_and_where_it_is_no_mixture_it_is_the_policy(engine):
    assert answer_of(engine, Payoffs(), "policy", apart=True).name == "policy"
