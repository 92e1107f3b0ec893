"""Exact figures of a mixture that teams draw from: by hand, beside one member's, by all draws."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.api.policy_evaluation import evaluate_policy
from sparring.config import EvaluationConfig
from sparring.core.errors import GameError
from sparring.core.refs import snapshot
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure import exact_figures
from sparring.measure.exact_figures import exact_figures_of
from sparring.measure.exploitability import ask, history_reach, nash_conv
from sparring.measure.info_states import TabularScorer, UniformScorer, enumerate_info_states
from sparring.play.players.mixture import MemberMixture
from sparring.run.evaluation import Evaluator

GAME = make_game("team_matrix", options={"game": "rock_paper_scissors", "members": 2})
STATES = enumerate_info_states(GAME)
ROCK, PAPER, SCISSORS = ([1, 1], [1, 0], [0, 0])  # the chance of the first choice, by member


def table(chances, legal=1.0):
    """Return a policy in which each seat takes its first choice with this chance; of two, in both teams."""
    rows = {}
    for query, first in zip(STATES.queries, chances if len(chances) == 4 else [*chances, *chances], strict=True):
        rows[query.seat, query.key] = dict(zip(query.legal_actions, (legal * first, legal * (1 - first)), strict=True))
    return TabularScorer(rows)


def mixture(scorers, weights, **more):
    members = [snapshot(step) for step in range(len(scorers))]
    return MemberMixture(dict(zip(members, weights, strict=True)), dict(zip(members, scorers, strict=True)).get, **more)


def found(policy):
    return exact_figures_of(GAME, STATES, policy)


def test_teams_that_draw_rock_or_paper_by_hand():
    """Against rock or paper, one half each, paper gets 1/2; a seat that knows that its team drew rock turns it to paper."""
    both = found(mixture([table(ROCK), table(PAPER)], [0.5, 0.5]))
    assert both.figures["team_exploitability/team_matrix"] == pytest.approx(0.5)
    assert both.figures["one_seat_exploitability/team_matrix"] == pytest.approx(0.5)
    assert (
        both.values == pytest.approx((0, 0, 0, 0)) and "nash_conv/team_matrix" not in both.figures
    )
    assert "share its draw" in both.note
    thirds = found(mixture([table(ROCK), table(PAPER), table(SCISSORS)], [1 / 3] * 3))
    assert thirds.figures["team_exploitability/team_matrix"] == pytest.approx(0.0)
    # seat by seat instead of team by team it would be another policy, which is no equilibrium
    mean = nash_conv(GAME, STATES, table([2 / 3, 1 / 3])).teams
    assert mean.team_exploitability > 0.1


def test_one_member_is_the_member():
    alone = table([0.3, 0.8], legal=0.9)
    report, one = nash_conv(GAME, STATES, alone), found(mixture([alone, table(ROCK)], [1.0, 0.0]))
    assert one.figures["team_exploitability/team_matrix"] == pytest.approx(report.teams.team_exploitability)
    assert one.figures["one_seat_exploitability/team_matrix"] == pytest.approx(report.teams.one_seat_exploitability)
    assert (
        one.figures["illegal_mass/team_matrix"]
        == pytest.approx(report.illegal_mass)
        == pytest.approx(0.1)
    )
    assert one.figures["illegal_mass_reached/team_matrix"] == pytest.approx(report.illegal_mass_reached)
    assert one.values == pytest.approx(report.values)
    plain = found(alone)
    assert plain.note == "" and plain.figures["nash_conv/team_matrix"] == report.nash_conv


@settings(deadline=None, max_examples=15)
@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=3, max_size=3), st.lists(st.floats(0.05, 1), min_size=3, max_size=3))
def test_values_are_the_mean_over_all_draws_and_equal_members_are_one(chances, weights):
    scorers = [table(row) for row in chances]
    shares = np.array(weights) / sum(weights)
    both = found(mixture(scorers, shares.tolist()))
    profiles, mean = [ask(scorer, STATES)[0] for scorer in scorers], np.zeros(4)
    for i, j in itertools.product(range(3), repeat=2):
        rows = [profiles[i if query.seat < 2 else j][n] for n, query in enumerate(STATES.queries)]
        reach = history_reach(STATES, rows)
        mean += shares[i] * shares[j] * (reach[STATES.tree.terminal] @ STATES.tree.returns)
    assert both.values == pytest.approx(tuple(mean), abs=1e-9)
    split = found(mixture([*scorers, scorers[0]], [shares[0] / 2, shares[1], shares[2], shares[0] / 2]))
    assert split.figures == pytest.approx(both.figures, abs=1e-9) and split.values == pytest.approx(both.values, abs=1e-9)


def test_where_each_seat_is_a_team_there_is_a_nash_conv():
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    one = exact_figures_of(game, states, mixture([UniformScorer(), UniformScorer()], [0.5, 0.5]))
    assert one.note == "" and one.figures["nash_conv/kuhn_poker"] == pytest.approx(11 / 12)


def test_a_run_and_an_evaluation_have_these_figures_and_say_once_what_is_missing():
    agent = mixture([table(ROCK), table(PAPER)], [0.5, 0.5], notes=["1 of 1 pairs of members have never met"])
    evaluator = Evaluator([GAME], EvaluationConfig(opponents=[]))
    for step in range(2):
        assert evaluator.measure(agent, Stream.from_seed(step))[
            "team_exploitability/team_matrix"
        ] == pytest.approx(0.5)
    assert [("never met" in note, "no NashConv" in note) for note in evaluator.fresh_notes()] == [
        (True, False),
        (False, True),
    ]
    result = evaluate_policy(agent, [GAME], opponents=[], games_per_seat=2, exact=True, max_states=100, seed=0)
    assert result["figures"]["value/team_matrix/a1"] == pytest.approx(0)
    assert (
        result["references"]["team_exploitability/team_matrix"]["best"] == 0
        and "no NashConv" in result["notes"][0]
    )


def test_too_many_draws_are_refused_and_too_many_plans_left_out(monkeypatch):
    agent = mixture([table(ROCK), table(PAPER)], [0.5, 0.5])
    monkeypatch.setattr("sparring.measure.exploitability.MOST", 1)
    few = found(agent)
    assert "too many plans" in few.note and set(few.figures) == {"illegal_mass/team_matrix", "illegal_mass_reached/team_matrix"}
    monkeypatch.setattr(exact_figures, "MOST", 1)
    with pytest.raises(GameError, match="4 draws of 2 teams from 2 members"):
        found(agent)
    with pytest.raises(GameError, match="cannot evaluate"):
        exact_figures_of(make_game("team_matrix", options={"members": 3}), STATES, agent)
