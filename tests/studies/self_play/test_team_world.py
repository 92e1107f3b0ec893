"""The team world: exact measures of the environment, update steps of FXP's code, and mixtures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.exploitability import team_exploitability
from sparring.measure.info_states import enumerate_info_states
from studies.self_play.team_world import TeamWorld
from studies.self_play.worlds import Oracle

STREAM = Stream.from_seed(3)


def world(game="example", members=2, **options):
    rules = make_game("team_matrix", options={"game": game, "members": members, **options})
    return TeamWorld(rules.payoffs, game), rules


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 999),
    game=st.sampled_from(["example", "rock_paper_scissors", "seek_attack_defend"]),
    share=st.floats(0, 1),
)
def test_exploitability_equals_the_exact_evaluation(seed, game, share):
    team_world, rules = world(game, levels=2)
    states = enumerate_info_states(rules)
    policies = [team_world.start(0, "random", Stream.from_seed(seed).child(index)) for index in (0, 1)]
    mixture = team_world.mix(0, policies, np.array([share, 1 - share]))
    profiles = [[*index.rows, *index.rows] for index in policies]
    report = team_exploitability(states, rules.teams, profiles, [share, 1 - share])
    assert team_world.gap([mixture, mixture]) / 2 == pytest.approx(report.team_exploitability)
    assert team_world.one_seat_gap([mixture, mixture]) / 2 == pytest.approx(report.one_seat_exploitability, abs=1e-9)
    value = report.values[0]
    assert team_world.payoffs([mixture, mixture])[0] == pytest.approx(value, abs=1e-9) == pytest.approx(0, abs=1e-9)


def test_a_members_values_are_its_teams_payoff():
    team_world, _ = world("seek_attack_defend", members=3, levels=1)
    first_policy, second_policy = (team_world.start(side, "random", STREAM) for side in (0, 1))
    values = team_world.values(first_policy.rows, second_policy.visits)
    for member in range(3):
        for action in range(4):
            rows = first_policy.rows.copy()
            rows[member] = np.eye(4)[action]
            assert values[member, action] == pytest.approx(
                team_world.payoffs([team_world.team_plan(rows), second_policy])[0]
            )
        assert values[member] @ first_policy.rows[member] == pytest.approx(
            team_world.payoffs([first_policy, second_policy])[0]
        )


def test_a_best_response_is_the_best_joint_plan():
    team_world, _ = world("example", members=3)
    all_ones = team_world.team_plan(np.eye(2)[[1, 1, 1]])
    best_response = team_world.respond(0, [((all_ones,), 1.0)], Oracle(), start=all_ones)
    assert best_response.rows.argmax(axis=1).tolist() == [0, 0, 0] and team_world.payoffs([best_response, all_ones])[
        0
    ] == pytest.approx(1.5)
    assert team_world.wins([best_response, all_ones]).tolist() == [1.0, 0.0] and team_world.wins(
        [all_ones, all_ones]
    ).tolist() == [0.5, 0.5]


def test_update_steps_equal_the_released_code():
    team_world, _ = world("example", members=3)
    initial, oracle = team_world.start(0, "uniform", STREAM), Oracle(kind="improve", steps=2, rate=0.1, warm=True)
    after_response = team_world.respond(
        0, [((initial,), 1.0)], Oracle(kind="improve", steps=1, rate=0.1), start=initial, self_share=1.0
    )
    # every member answers with action 1; first seat 0 makes a double step, then seat 1
    assert after_response.rows[:, 1] == pytest.approx([0.6, 0.55, 0.55])
    after_self_play = team_world.respond(0, [((initial,), 1.0)], oracle, start=initial, self_share=1.0)
    assert after_self_play.rows[:, 1] == pytest.approx([0.64, 0.64, 0.595])
    live = team_world.respond(
        0, [((initial,), 1.0)], Oracle(kind="improve", steps=1, rate=0.1), start=after_response, self_share=1.0
    )
    assert live.rows == pytest.approx(after_self_play.rows) and live.steps == after_self_play.steps == 2


def test_a_phase_ends_at_convergence_after_at_least_50_other_steps():
    team_world, _ = world("example", members=3)
    initial, oracle = team_world.start(0, "uniform", STREAM), Oracle(kind="improve", steps=1000, rate=0.1)
    self_play_only = team_world.respond(0, [((initial,), 1.0)], oracle, start=initial, self_share=1.0)
    assert 30 < self_play_only.steps < 50 and self_play_only.rows[:, 1] == pytest.approx(1, abs=0.01)
    assert team_world.respond(0, [((self_play_only,), 1.0)], oracle, start=initial).steps == 51
    assert team_world.improved(initial, self_play_only.visits, oracle).steps < 50
