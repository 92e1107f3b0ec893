import io
import re
from pathlib import Path

import pytest

from sparring.api.policy_evaluation import evaluate_policy
from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import load_recipe
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.environments.catalogue import make_game
from sparring.measure import oracle_choice
from sparring.measure.agent_spec import AgentSpec, labels, parse_agent
from sparring.measure.info_states import UniformScorer
from sparring.measure.oracle_choice import OracleSpec, choose_oracle, oracles_for, parse_oracle
from sparring.measure.references import run_verdicts
from sparring.play.players.random import random
from sparring.report.match_tables import legend
from sparring.report.progress import ProgressLine
from sparring.run.loop import StepReport

EXPECTED_ORACLES = [
    ("tic_tac_toe", {}, "minimax"),
    ("nim", {}, "minimax"),
    ("sudoku", {}, "constraint"),
    ("minesweeper", {}, "posterior"),
    ("kuhn_poker", {}, "cfr"),
    ("dag_search", {}, "planning"),
]


@pytest.mark.parametrize(("name", "options", "oracle"), EXPECTED_ORACLES)
def test_the_first_exact_oracle_is_chosen(name, options, oracle):
    choice, note = choose_oracle(make_game(name, options=options))
    assert (choice.name, note) == (oracle, "")
    assert choice.covers(make_game(name, options=options)) == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tiny_hanabi", "cfr: its average policy is an equilibrium only for one seat or two opposed ones"),
        ("liars_dice", "cfr: its tree has over max_histories"),
    ],
)
def test_without_a_suitable_oracle_the_note_gives_the_reason(monkeypatch, name, reason):
    monkeypatch.setattr(oracle_choice, "MAX_HISTORIES", 100)
    choice, note = choose_oracle(make_game(name))
    assert choice is None
    assert reason in note and "minimax: something is hidden" in note and "--oracle" in note


def test_a_game_too_large_for_all_oracles_gets_none(monkeypatch):
    monkeypatch.setattr(oracle_choice, "MAX_POSITIONS", 50)
    monkeypatch.setattr(oracle_choice, "MAX_HISTORIES", 50)
    choice, note = choose_oracle(make_game("tic_tac_toe"))
    assert choice is None and "minimax: it has more than 50 positions" in note


def test_the_runs_oracle_is_used_without_its_noise():
    mcts = OracleSpec("mcts", {"simulations": 7}).make()
    game = make_game("tic_tac_toe")
    assert choose_oracle(game, mcts) == (mcts, "")
    noisy_oracle = registry.bind("oracles", "noisy", {"oracle": "minimax", "flip": 0.3})()
    assert oracles_for([game], None, {"tic_tac_toe": noisy_oracle})[0]["tic_tac_toe"] is noisy_oracle.inner


def test_a_requested_oracle_judges_the_games_it_can():
    games = [make_game("tic_tac_toe"), make_game("kuhn_poker")]
    oracles, notes = oracles_for(games, parse_oracle("minimax"), {"tic_tac_toe": OracleSpec("mcts", {}).make()})
    assert oracles["tic_tac_toe"].name == "minimax" and "kuhn_poker" not in oracles
    assert len(notes) == 1 and "kuhn_poker: no regret, as minimax cannot judge it: something is hidden" in notes[0]
    with pytest.raises(
        ConfigError, match=r"--oracle minimax cannot judge the games: kuhn_poker: something is hidden"
    ) as error:
        oracles_for(games[1:], parse_oracle("minimax"), {})
    assert "\n" not in str(error.value)


def test_options_are_read_as_written():
    assert parse_oracle("cfr iterations=1000 variant=cfr") == OracleSpec("cfr", {"iterations": 1000, "variant": "cfr"})


def test_a_name_and_options_are_read_as_yaml():
    assert parse_agent("random") == ("random", {})
    assert parse_agent("mcts simulations=1000 uct_c=1.5 solve=true") == (
        "mcts",
        {"simulations": 1000, "uct_c": 1.5, "solve": True},
    )
    spec = parse_agent("endpoint model=m base_url=http://127.0.0.1:8000/v1 system='You play games.' temperature=null")
    assert spec.options == {
        "model": "m",
        "base_url": "http://127.0.0.1:8000/v1",
        "system": "You play games.",
        "temperature": None,
    }
    assert parse_agent("mcts simulations=7").make().simulations == 7


@pytest.mark.parametrize(
    ("parse", "text", "error", "message"),
    [
        (parse_agent, "mtcs", UnknownNameError, "Did you mean 'mcts'"),
        (parse_agent, "mcts simulatons=3", UnknownNameError, "Did you mean 'simulations'"),
        (parse_agent, "mcts simulations=many", ConfigError, "option 'simulations'"),
        (parse_agent, "mcts 1000", ConfigError, "write key=value"),
        (parse_agent, "mcts simulations=[", ConfigError, "not a value for 'simulations'"),
        (parse_agent, "", ConfigError, "cannot be read"),
        (parse_agent, "mcts simulations='3", ConfigError, "cannot be read"),
        (parse_agent, "endpoint", ConfigError, "option 'model'"),
        (parse_oracle, "minmax", UnknownNameError, "Did you mean 'minimax'"),
        (parse_oracle, "cfr iterations=-3", ConfigError, "iterations"),
        (parse_oracle, 'cfr "', ConfigError, "Oracle 'cfr \"' cannot be read"),
    ],
)
def test_invalid_text_gives_one_clear_line(parse, text, error, message):
    with pytest.raises(error) as error_info:
        parse(text)
    assert message in str(error_info.value) and "\n" not in str(error_info.value)


def test_labels_have_options_only_if_two_agents_share_a_name():
    mcts_100, mcts_1000 = (
        AgentSpec("mcts", {"simulations": 100, "uct_c": 2.0}),
        AgentSpec("mcts", {"simulations": 1000, "uct_c": 2.0}),
    )
    assert labels([mcts_100, AgentSpec("random", {})]) == ["mcts", "random"]
    assert labels([mcts_100, mcts_1000, AgentSpec("random", {})]) == [
        "mcts(simulations=100)",
        "mcts(simulations=1000)",
        "random",
    ]
    assert labels([AgentSpec("mcts", {}), mcts_1000]) == ["mcts", "mcts(simulations=1000,uct_c=2.0)"]


def test_labels_are_valid_in_metric_names():
    urls = [AgentSpec("endpoint", {"model": "m", "base_url": f"http://{host}/v1"}) for host in "ab"]
    assert labels(urls) == ["endpoint(base_url=http:_a_v1)", "endpoint(base_url=http:_b_v1)"]


def test_two_equal_agents_are_refused():
    with pytest.raises(ConfigError, match="'mcts\\(simulations=3\\)' occurs twice"):
        labels([AgentSpec("mcts", {"simulations": 3})] * 2 + [AgentSpec("mcts", {})])


class Uniform:
    name, renderer = "uniform", None

    def __init__(self):
        self.act, self.action_logprobs = random().act, UniformScorer().action_logprobs


def evaluation_report(*names):
    games = [make_game(name) for name in names]
    bots = [parse_agent("random")]
    return evaluate_policy(Uniform(), games, opponents=bots, games_per_seat=20, exact=True, max_states=500, seed=0)


def test_every_figure_has_its_references():
    result = evaluation_report("kuhn_poker", "tiny_hanabi", "connect_four")
    for name, value in result["figures"].items():
        if not name.endswith("tiny_hanabi"):
            assert result["references"][name]["uniform"] == pytest.approx(value), name
    assert result["references"]["value/kuhn_poker/first"]["best"] == pytest.approx(-1 / 18)
    assert result["references"]["optimality_gap/tiny_hanabi"]["best"] == 0
    text = "\n".join(result["verdicts"])
    assert (
        "kuhn_poker: NashConv 0.917: uniform play has 0.917, an equilibrium 0; this is 100% of uniform play's." in text
    )
    assert "connect_four against random: win or draw" in text and "uniform play" in text


def test_one_seat_games_are_also_compared_with_uniform_play():
    (verdict,) = (line for line in evaluation_report("minesweeper")["verdicts"] if "success" in line)
    assert re.match(r"minesweeper[^:]*: success 0\.", verdict)


def test_every_figure_is_explained_in_one_line():
    kinds = [line.partition(":")[0] for line in legend(evaluation_report("kuhn_poker", "tiny_hanabi")["figures"])]
    expected = {
        "nash_conv",
        "illegal_mass",
        "illegal_mass_reached",
        "exploitability",
        "value",
        "optimality_gap",
        "best play",
    }
    assert expected == set(kinds)


def test_run_verdicts_compare_the_last_figure_with_references():
    config = {"environments": [{"name": "kuhn_poker"}, {"name": "no such game"}, {"name": "connect_four"}]}
    lines = [
        {"step": 1, "nash_conv/kuhn_poker": 1.0},
        {"step": 9, "nash_conv/kuhn_poker": 0.5, "illegal_mass_reached/kuhn_poker": 0.4},
    ]
    (verdict,) = run_verdicts(config, lines)
    assert "NashConv at step 9 0.500: uniform play has 0.917" in verdict and "40% of all replies in episodes" in verdict
    assert run_verdicts({}, lines) == [] and run_verdicts(config, []) == []
    for invalid_environments in (
        3,
        "kuhn_poker",
        [3],
        [{"name": "kuhn_poker", "options": {"players": 9}}],
        {"name": "kuhn_poker"},
    ):
        assert run_verdicts({"games": invalid_environments}, lines) == []


def progress_lines(*reports, recipe="kuhn-tiny"):
    stream = io.StringIO()
    with ProgressLine(resolve(load_recipe(recipe)), Path("run"), stream=stream) as progress_line:
        for report in reports:
            progress_line(report)
    return stream.getvalue().splitlines()


def step(number, metrics, *, steps=2, seconds=1.0, games=64):
    return StepReport(step=number, steps=steps, metrics=metrics, seconds=seconds, games=games)


def test_the_progress_line_names_the_step_of_older_figures_and_orders_seats():
    match = {f"match/kuhn_poker/random/{role}/win_or_draw": 0.5 for role in ("first", "second")}
    lines = progress_lines(
        step(1, {"legal_rate": 0.2, "nash_conv/kuhn_poker": 0.7, **match}), step(2, {"legal_rate": 0.4})
    )
    assert "kuhn_poker: uniform play has NashConv 0.917; an equilibrium has 0" in lines
    assert lines[-2].endswith(
        "NashConv 0.700 (EMA)  first vs random win-or-draw 0.500 (EMA)  second vs random win-or-draw 0.500 (EMA)  legal 0.200 (live)  64 games/s"
    )
    assert lines[-1].endswith(
        "NashConv 0.700 (EMA) (step 1)  first vs random win-or-draw 0.500 (EMA) (step 1)  second vs random win-or-draw 0.500 (EMA) (step 1)  legal 0.400 (live)  64 games/s"
    )


def test_slow_rates_keep_a_decimal():
    assert "  0.4 games/s" in progress_lines(step(2, {"legal_rate": 1.0}, seconds=20.0, games=8))[-1]
    assert "  640 games/s" in progress_lines(step(2, {"legal_rate": 1.0}, seconds=0.1))[-1]
