"""The world of teams: by the exact measures of the environment, steps of FXP's code, its mixtures."""

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
def test_it_is_as_exploitable_as_exact_evaluation_says(seed, game, share):
    here, rules = world(game, levels=2)
    states = enumerate_info_states(rules)
    parts = [here.start(0, "random", Stream.from_seed(seed).child(part)) for part in (0, 1)]
    mixed = here.mix(0, parts, np.array([share, 1 - share]))
    profiles = [[*part.rows, *part.rows] for part in parts]
    report = team_exploitability(states, rules.teams, profiles, [share, 1 - share])
    assert here.gap([mixed, mixed]) / 2 == pytest.approx(report.team_exploitability)
    assert here.one_seat_gap([mixed, mixed]) / 2 == pytest.approx(report.one_seat_exploitability, abs=1e-9)
    value = report.values[0]
    assert here.payoffs([mixed, mixed])[0] == pytest.approx(value, abs=1e-9) == pytest.approx(0, abs=1e-9)


def test_a_member_s_values_are_what_its_team_gets():
    here, _ = world("seek_attack_defend", members=3, levels=1)
    mine, theirs = (here.start(side, "random", STREAM) for side in (0, 1))
    values = here.values(mine.rows, theirs.visits)
    for member in range(3):
        for action in range(4):
            rows = mine.rows.copy()
            rows[member] = np.eye(4)[action]
            assert values[member, action] == pytest.approx(here.payoffs([here.of(rows), theirs])[0])
        assert values[member] @ mine.rows[member] == pytest.approx(here.payoffs([mine, theirs])[0])


def test_a_best_response_is_the_best_joint_plan():
    here, _ = world("example", members=3)
    ones = here.of(np.eye(2)[[1, 1, 1]])
    best = here.respond(0, [((ones,), 1.0)], Oracle(), start=ones)
    assert best.rows.argmax(axis=1).tolist() == [0, 0, 0] and here.payoffs([best, ones])[0] == pytest.approx(1.5)
    assert here.wins([best, ones]).tolist() == [1.0, 0.0] and here.wins([ones, ones]).tolist() == [0.5, 0.5]


def test_steps_are_those_of_the_released_code():
    here, _ = world("example", members=3)
    start, oracle = here.start(0, "uniform", STREAM), Oracle(kind="improve", steps=2, rate=0.1, warm=True)
    first = here.respond(0, [((start,), 1.0)], Oracle(kind="improve", steps=1, rate=0.1), start=start, self_share=1.0)
    # every member answers with one; the first one's step is twice as long, then the second one's
    assert first.rows[:, 1] == pytest.approx([0.6, 0.55, 0.55])
    second = here.respond(0, [((start,), 1.0)], oracle, start=start, self_share=1.0)
    assert second.rows[:, 1] == pytest.approx([0.64, 0.64, 0.595])
    live = here.respond(0, [((start,), 1.0)], Oracle(kind="improve", steps=1, rate=0.1), start=first, self_share=1.0)
    assert live.rows == pytest.approx(second.rows) and live.steps == second.steps == 2


def test_a_phase_ends_where_the_policy_is_its_own_answer_but_not_before_50_steps_of_others():
    here, _ = world("example", members=3)
    start, oracle = here.start(0, "uniform", STREAM), Oracle(kind="improve", steps=1000, rate=0.1)
    alone = here.respond(0, [((start,), 1.0)], oracle, start=start, self_share=1.0)
    assert 30 < alone.steps < 50 and alone.rows[:, 1] == pytest.approx(1, abs=0.01)
    assert here.respond(0, [((alone,), 1.0)], oracle, start=start).steps == 51
    assert here.improved(start, alone.visits, oracle).steps < 50
