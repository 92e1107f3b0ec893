"""What stands beside a policy's figures in evaluations, reports and the progress line."""

import io
import re
from pathlib import Path

import pytest

from sparring.api.policy_evaluation import evaluate_policy
from sparring.config import resolve
from sparring.config.recipe import load_recipe
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import parse_agent
from sparring.measure.info_states import UniformScorer
from sparring.measure.references import run_verdicts
from sparring.play.players.random import random
from sparring.report.match_tables import legend
from sparring.report.progress import Watcher
from sparring.run.loop import StepReport


class Uniform:
    name, renderer = "uniform", None

    def __init__(self):
        self.act, self.action_logprobs = random().act, UniformScorer().action_logprobs


def measured(*names):
    games = [make_game(name) for name in names]
    bots = [parse_agent("random")]
    return evaluate_policy(Uniform(), games, opponents=bots, games_per_seat=20, exact=True, max_states=500, seed=0)


def test_every_figure_has_its_references():
    result = measured("kuhn_poker", "tiny_hanabi", "connect_four")
    for name, value in result["figures"].items():
        if not name.endswith("tiny_hanabi"):
            assert result["references"][name]["uniform"] == pytest.approx(value), name
    assert result["references"]["value/kuhn_poker/first"]["best"] == pytest.approx(-1 / 18)
    assert result["references"]["optimality_gap/tiny_hanabi"]["best"] == 0
    told = "\n".join(result["verdicts"])
    assert "kuhn_poker: NashConv 0.917: uniform play has 0.917, an equilibrium 0; this is 100% of uniform play's." in told
    assert "connect_four against random: win or draw" in told and "uniform play" in told


def test_one_seat_is_set_beside_uniform_play_too():
    (told,) = (line for line in measured("minesweeper")["verdicts"] if "success" in line)
    assert re.match(r"minesweeper[^:]*: success 0\.", told)


def test_every_figure_is_explained_in_a_line():
    kinds = [line.partition(":")[0] for line in legend(measured("kuhn_poker", "tiny_hanabi")["figures"])]
    wanted = {"nash_conv", "illegal_mass", "illegal_mass_reached", "exploitability", "value", "optimality_gap", "best play"}
    assert wanted == set(kinds)


def test_a_report_says_how_far_the_last_figure_is():
    config = {"environments": [{"name": "kuhn_poker"}, {"name": "no such game"}, {"name": "connect_four"}]}
    lines = [{"step": 1, "nash_conv/kuhn_poker": 1.0}, {"step": 9, "nash_conv/kuhn_poker": 0.5, "illegal_mass_reached/kuhn_poker": 0.4}]
    (told,) = run_verdicts(config, lines)
    assert "NashConv at step 9 0.500: uniform play has 0.917" in told and "40% of those in play" in told
    assert run_verdicts({}, lines) == [] and run_verdicts(config, []) == []
    for odd in (3, "kuhn_poker", [3], [{"name": "kuhn_poker", "options": {"players": 9}}], {"name": "kuhn_poker"}):
        assert run_verdicts({"games": odd}, lines) == []


def line_of(*reports, recipe="kuhn-tiny"):
    stream = io.StringIO()
    with Watcher(resolve(load_recipe(recipe)), Path("run"), stream=stream) as watcher:
        for report in reports:
            watcher(report)
    return stream.getvalue().splitlines()


def step(number, metrics, *, steps=2, seconds=1.0, games=64):
    return StepReport(step=number, steps=steps, metrics=metrics, seconds=seconds, games=games)


def test_the_progress_line_names_the_step_of_older_figures_and_has_seats_in_order():
    match = {f"match/kuhn_poker/random/{role}/win_or_draw": 0.5 for role in ("first", "second")}
    lines = line_of(step(1, {"legal_rate": 0.2, "nash_conv/kuhn_poker": 0.7, **match}), step(2, {"legal_rate": 0.4}))
    assert "kuhn_poker: NashConv of uniform play is 0.917, of an equilibrium 0" in lines
    assert lines[-2].endswith(
        "NashConv 0.700 (EMA)  first vs random win-or-draw 0.500 (EMA)  second vs random win-or-draw 0.500 (EMA)  legal 0.200 (live)  64 games/s"
    )
    assert lines[-1].endswith(
        "NashConv 0.700 (EMA) (step 1)  first vs random win-or-draw 0.500 (EMA) (step 1)  second vs random win-or-draw 0.500 (EMA) (step 1)  legal 0.400 (live)  64 games/s"
    )


def test_slow_rates_keep_a_decimal():
    assert "  0.4 games/s" in line_of(step(2, {"legal_rate": 1.0}, seconds=20.0, games=8))[-1]
    assert "  640 games/s" in line_of(step(2, {"legal_rate": 1.0}, seconds=0.1))[-1]
