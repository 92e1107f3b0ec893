"""FXP and its baselines in team games, compared with the published table."""

from dataclasses import replace

import numpy as np
import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from studies.self_play.algorithms import WARM
from studies.self_play.cross_play import CrossPlay
from studies.self_play.frame import Recipe, Row, begin
from studies.self_play.team_table import ETA, RATE, measure_method, method
from studies.self_play.team_world import TeamWorld
from studies.self_play.tree_world import tree_world

RPS = {"game": "rock_paper_scissors", "members": 2, "start": "uniform", "steps": 1000, "seeds": 1}
THREE_MEMBERS = {**RPS, "game": "example", "members": 3}


def team_gains(answer, **options):
    return [seed["team"] for seed in measure_method(**options)[answer]]


def test_self_play_stops_where_no_single_seat_gains():
    ((seed,),) = measure_method(**THREE_MEMBERS, method="SP", rounds=1).values()
    assert seed["team"] == pytest.approx(1.486, abs=0.05) and seed["one seat"] < 0.01


def test_the_released_figures_in_rock_paper_scissors():
    assert team_gains("last", **RPS, method="SP", rounds=1) == pytest.approx([0.986], abs=0.01)
    assert team_gains("mixture", **RPS, method="PSRO uniform", rounds=19) == pytest.approx([0.100], abs=0.01)
    assert team_gains("mixture", **RPS, method="PSRO Nash", rounds=4, solver="fictitious_play") == pytest.approx(
        [0.016], abs=0.01
    )


def test_cross_play_reaches_the_equilibrium_but_its_last_main_does_not():
    answers = measure_method(**RPS, method="FXP", rounds=4, solver="nash")
    assert answers["mixture"][0]["team"] < 0.01 and answers["last"][0]["team"] > 0.99
    answers = measure_method(**THREE_MEMBERS, method="FXP", rounds=4, solver="nash")
    assert answers["mixture"][0]["team"] < 0.01 and answers["last"][0]["team"] < 0.01


def test_counters_without_resets_do_not_converge():
    options = {**THREE_MEMBERS, "start": "random", "steps": 200, "rounds": 10, "solver": "nash", "seeds": 1}
    assert max(team_gains("mixture", **options, method="gridworld")) < 0.01
    assert min(team_gains("mixture", **options, method="gridworld, one counter")) > 1
    assert min(team_gains("average", **options, method="gridworld")) > 1


def test_fictitious_self_play_trains_against_its_average(monkeypatch):
    (seed,) = measure_method(**{**RPS, "steps": 60}, method="FSP", rounds=60)["average"]
    assert 0.6 < seed["team"] < 0.99
    world = TeamWorld(make_game("team_matrix").payoffs, "example")
    run, opponents, respond = begin(method("FSP", "uniform", 9)[0], world, Stream.from_seed(0)), [], world.respond
    monkeypatch.setattr(
        world,
        "respond",
        lambda side, against, *rest, **more: opponents.append(against) or respond(side, against, *rest, **more),
    )
    past_visits = [run.live[0].visits]
    for _ in range(3):
        run.step()
        assert opponents[-1][0][0][0].visits == pytest.approx(np.mean(past_visits, axis=0))
        past_visits.append(run.live[0].visits)
    assert run.average[0].visits == pytest.approx(np.mean(past_visits, axis=0))


def test_a_round_of_cross_play_adds_a_main_and_a_counter_of_the_mains():
    rules = make_game("team_matrix", options={"members": 3})
    world = TeamWorld(rules.payoffs, "example")
    recipe = replace(method("FXP", "nash", 1000)[0], start="uniform")
    run = begin(recipe, world, Stream.from_seed(0))
    assert isinstance(run, CrossPlay) and recipe.row.self_share == ETA and recipe.oracle.rate == RATE
    run.step()
    first, main, counter = run.members[0]
    assert run.live[0] is main and counter.steps <= main.steps
    assert world.payoffs([counter, main])[0] == pytest.approx(1.5, abs=0.05)
    assert run.mains_answer(0).tolist() == [1.0]
    assert run.game().payoffs[0][1, 0] == pytest.approx(world.payoffs([main, first])[0])
    run.step()
    assert len(run.members[0]) == 5 and np.sum(run.strategy().sides[0]) == pytest.approx(1)


def test_two_seats_have_a_main_and_counters_each():
    world, recipe = (
        tree_world("kuhn_poker"),
        Recipe(row=Row(solver="nash", self_share=ETA), oracle=WARM, kind=CrossPlay),
    )
    run = begin(recipe, world, Stream.from_seed(0))
    gap_before = world.gap(run.answer())
    for _ in range(5):
        run.step()
    assert not run.shared and [len(members) for members in run.members] == [11, 11]
    assert world.gap(run.answer()) < 0.1 < gap_before
    counter, main = run.members[0][-1], run.live[1]
    assert world.payoffs([counter, main])[0] > world.payoffs([run.live[0], main])[0] - 1e-3
