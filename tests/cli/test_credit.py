"""`sparring credit compare` as users call it."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from sparring.config.plugins import registry
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import parse_named
from sparring.measure.info_states import enumerate_info_states
from tests.cli.builders import assert_refused, call, succeed

FEW_EPISODES = ["--episodes", 320, "--batch", 32, "--no-time"]
SOME_ESTIMATORS = ["--estimators", "outcome,rloo,grpo:dr_grpo,gae lam=0.5,ppr process=steps"]


def compare(*arguments):
    return call("credit", "compare", *arguments)


def figures(outcome):
    assert outcome.exit_code == 0, outcome.output
    result = json.loads(outcome.stdout)
    for game in result["games"]:
        for row in game["rows"]:
            row.pop("seconds", None)
    return result


def test_every_estimator_is_in_the_json_and_two_calls_agree():
    result, result_again = (figures(compare("--environment", "kuhn_poker", *FEW_EPISODES, "--json")) for _ in range(2))
    assert result == result_again
    (game,) = result["games"]
    assert {row["estimator"].partition(":")[0] for row in game["rows"]} == set(registry.names("credit"))
    assert (game["episodes"], game["batches"], game["num_info_states"], game["num_parameters"]) == (320, 10, 12, 24)
    for row in game["rows"]:
        if "refused" not in row:
            assert row["bias"]["low"] <= row["bias"]["mean"] <= row["bias"]["high"]
            assert set(row["seats"]) == {"first", "second"}
    assert figures(compare("--environment", "kuhn_poker", *FEW_EPISODES, "--json", "--seed", 1)) != result


def test_tables_have_intervals_and_name_estimators_that_were_not_measured(tmp_path):
    outcome = succeed("credit", "compare", "--environment", "kuhn_poker", *FEW_EPISODES, *SOME_ESTIMATORS)
    text = " ".join(outcome.stdout.split())
    assert re.search(r"grpo:dr_grpo 0\.125 \[0\.125, 0\.125\]", text)
    assert "gae lam=0.5" in text
    assert "320 episodes" in text
    assert "not measured: ppr process=steps: credit 'ppr'" in text
    outcome = succeed(
        "credit",
        "compare",
        "--environment",
        "kuhn_poker",
        *FEW_EPISODES,
        "--estimators",
        "grpo",
        "--page",
        tmp_path / "lab.md",
    )
    interval, number = r"-?[\d.e+]+ \[-?[\d.e+]+, -?[\d.e+]+\]", r"(-|-?[\d.e+]+)"
    (row,) = (line for line in (tmp_path / "lab.md").read_text().splitlines() if line.startswith("| [`grpo`]"))
    assert re.fullmatch(r"\| \S+ \| " + rf"{interval} \| " * 5 + rf"{number} \| " * 4 + rf"{number} \|", row), row
    assert re.search(r" grpo " + rf"{interval} " * 5, " ".join(outcome.stdout.split()))


def test_every_game_of_the_credit_page_can_be_enumerated():
    """The page is made by `make credit-lab`; three of its nine games are positions of tic-tac-toe."""
    results = Path(__file__).parents[2] / "studies" / "credit_lab" / "results.json"
    game_names = [game["game"] for game in json.loads(results.read_text(encoding="utf-8"))["games"]]
    assert len(game_names) == 9 and sum(name.startswith("tic_tac_toe start=") for name in game_names) == 3
    for text in game_names:
        name, options = parse_named(text, "Game", "")
        assert len(enumerate_info_states(make_game(name, options=options), limit=50_000)) > 1


@pytest.mark.parametrize("policy", ["uniform", "tiny"])
def test_other_policies_can_play_the_episodes(policy):
    result = figures(
        compare("--environment", "tiny_hanabi", "--policy", policy, *FEW_EPISODES, *SOME_ESTIMATORS, "--json")
    )
    assert result["settings"]["policy"] == policy
    assert result["games"][0]["gradient_norm"] > 0


def test_a_run_is_measured_on_the_games_it_was_trained_on(tmp_path):
    quick = ["steps=1", "rollout.games_per_step=16", "model.hidden_size=16", "model.layers=1", "threads=1"]
    succeed("train", "kuhn-tiny", *quick, "--run", tmp_path / "run")
    all_games, named_game = (
        figures(compare("--policy", tmp_path / "run", *FEW_EPISODES, *SOME_ESTIMATORS, *games, "--json"))
        for games in ((), ("--environment", "kuhn_poker"))
    )
    assert all_games == named_game
    assert [game["game"] for game in all_games["games"]] == ["kuhn_poker"]
    refused_outcome = compare("--policy", tmp_path / "run", "--environment", "leduc_poker", *FEW_EPISODES)
    assert "Unknown game of the run" in str(refused_outcome.exception)


def test_a_page_has_a_table_and_a_chart_per_game(tmp_path):
    page = tmp_path / "docs" / "lab.md"
    succeed(
        "credit",
        "compare",
        "--environment",
        "kuhn_poker",
        "--environment",
        "leduc_poker style=full",
        *FEW_EPISODES,
        *SOME_ESTIMATORS,
        "--page",
        page,
    )
    text = page.read_text()
    assert (
        f"sparring credit compare --environment kuhn_poker --environment 'leduc_poker style=full' --policy random --estimators '{SOME_ESTIMATORS[1]}'"
        in text
    )
    assert text.count("| [`rloo`](methods/credit-rloo.md) | 0.000 ") == 2
    assert text.count("[`gae lam=0.5`](methods/credit-gae.md)") == 2
    assert text.count("[`ppr process=steps`](methods/credit-ppr.md): not measured.") == 2
    for image in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        names = "".join(ElementTree.fromstring((page.parent / image).read_text()).itertext())
        assert "grpo:dr_grpo" in names
        assert "ppr" not in names
    assert text.count("![") == 2
    assert re.findall("^## (.*)$", text, re.MULTILINE) == ["kuhn_poker", "leduc_poker style=full"]


def test_a_plot_is_written_and_no_time_leaves_the_seconds_out(tmp_path):
    arguments = ["--environment", "kuhn_poker", "--estimators", "outcome", "--episodes", 320, "--batch", 32, "--json"]
    row_with_time, row_without_time = (
        json.loads(compare(*arguments, *flags).stdout)["games"][0]["rows"][0] for flags in ((), ("--no-time",))
    )
    assert row_with_time.pop("seconds") > 0
    assert row_without_time.pop("seconds") is None
    assert row_with_time == row_without_time
    succeed(
        "credit",
        "compare",
        "--environment",
        "kuhn_poker",
        *FEW_EPISODES,
        *SOME_ESTIMATORS,
        "--plot",
        tmp_path / "plot.svg",
    )
    marks = ElementTree.fromstring((tmp_path / "plot.svg").read_text()).findall("{http://www.w3.org/2000/svg}circle")
    assert len(marks) > 4  # at least one circle per estimator in the legend and one in the plot


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a game"),
        (["--environment", "khun_poker"], "Did you mean 'kuhn_poker'"),
        (["--environment", "connect_four"], "too large for exact evaluation"),
        (["--environment", "leduc_poker", "--max-states", "100"], "too large for exact evaluation"),
        (["--environment", "kuhn_poker", "--estimators", "grpo:dr"], "preset"),
        (["--environment", "kuhn_poker", "--policy", "{tmp}/nowhere"], "run folder"),
        (["--environment", "kuhn_poker", "--policy", "{tmp}"], "not a run folder"),
        (["--environment", "kuhn_poker", "--episodes", "10"], "write --episodes 256"),
        (["--environment", "kuhn_poker", "--group-size", "7"], "whole groups"),
        (
            [
                "--environment",
                "kuhn_poker",
                "--environment",
                "tiny_hanabi",
                *map(str, FEW_EPISODES),
                *SOME_ESTIMATORS,
                "--plot",
                "{tmp}/x.svg",
            ],
            "use --page",
        ),
        (
            ["--environment", "kuhn_poker", *map(str, FEW_EPISODES), *SOME_ESTIMATORS, "--plot", "{tmp}/no/x.svg"],
            "cannot be written",
        ),
        (
            [
                "--environment",
                "kuhn_poker",
                *map(str, FEW_EPISODES),
                *SOME_ESTIMATORS,
                "--page",
                "{tmp}/something/x.md",
            ],
            "cannot be written",
        ),
    ],
)
def test_bad_input_is_refused_with_one_line(arguments, message, tmp_path):
    (tmp_path / "something").write_text("")
    assert_refused(compare(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments)), message)
