"""A user's environment outside OpenSpiel trains and is evaluated by mean return; unsupported uses fail with a clear error."""

import importlib
import json
import sys

import pytest
from typer.testing import CliRunner

import sparring.environments
from sparring import cli
from sparring.config.plugins import registry
from sparring.core.errors import GameError, SparringError
from sparring.environments import catalogue

ENVIRONMENT_SOURCE = '''"""Two seats name a number at once; the higher one wins."""

from sparring.core.records import Observation

WORDS = ("one", "two", "three")


class Numbers:
    roles, max_turns, min_utility, max_utility, zero_sum, brief = ("left", "right"), 2, -1.0, 1.0, True, True

    def vocabulary(self):
        return ("numbers", *WORDS)

    def reset(self, stream):
        return NumbersPlay()


class NumbersPlay:
    done, returns = False, (0.0, 0.0)

    def due(self):
        return () if self.done else (0, 1)

    def observe(self, seat):
        return Observation(prompt="numbers", key=f"numbers {seat}")

    def legal(self, seat):
        return WORDS

    def step(self, replies):
        left, right = (WORDS.index(replies[seat]) for seat in (0, 1))
        won = float((left > right) - (left < right))
        self.done, self.returns = True, (won, -won)


def numbers(*, style: str = "brief"):
    """A user's game."""
    return Numbers()
'''

QUICK_OVERRIDES = [
    "steps=2",
    "rollout.games_per_step=8",
    "model.hidden_size=16",
    "model.layers=1",
    "threads=1",
    "environments=[{name: numbers}]",
]


def run_cli(*arguments, text=None):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input=text)


@pytest.fixture(scope="module")
def plugin_folder(tmp_path_factory):
    """Return a folder whose modules count as environments during these tests."""
    folder = tmp_path_factory.mktemp("outside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparring.environments, "__path__", [*sparring.environments.__path__, str(folder)])
        patch.setattr(
            sys, "dont_write_bytecode", True
        )  # else two sources of equal size within one second share one .pyc
        yield folder
    clear_plugin_caches()


def clear_plugin_caches():
    sys.modules.pop("sparring.environments.numbers", None)
    importlib.invalidate_caches()
    registry.clear_caches()
    catalogue.game_names.cache_clear()


@pytest.fixture
def install_source(plugin_folder):
    """Return a function that replaces the source of the environment."""

    def write(source):
        (plugin_folder / "numbers.py").write_text(source)
        clear_plugin_caches()

    yield write
    write(ENVIRONMENT_SOURCE)


@pytest.fixture(scope="module")
def run_folder(plugin_folder, tmp_path_factory):
    (plugin_folder / "numbers.py").write_text(ENVIRONMENT_SOURCE)
    clear_plugin_caches()
    run = tmp_path_factory.mktemp("trained") / "run"
    result = run_cli(
        "train", "kuhn-tiny", *QUICK_OVERRIDES, "evaluation.opponents=[{name: random, games_per_seat: 4}]", "--run", run
    )
    assert result.exit_code == 0, (result.output, result.exception)
    return run


def test_a_foreign_environment_trains_and_its_mean_return_is_evaluated(run_folder):
    last_metrics = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()][-1]
    assert "match/numbers/random/left/return" in last_metrics and "nash_conv/numbers" not in last_metrics
    cli_result = run_cli("evaluate", run_folder, "--games", 6, "--json")
    assert cli_result.exit_code == 0, (cli_result.output, cli_result.exception)
    result = json.loads(cli_result.stdout)
    assert {row["role"] for row in result["matches"]} == {"left", "right"}
    assert any("numbers: no exact figures" in note for note in result["notes"])
    assert any("numbers: no regret" in note for note in result["notes"])
    cli_result = run_cli("evaluate", run_folder, "--games", 4, "--league", "--json")
    assert cli_result.exit_code == 0, (cli_result.output, cli_result.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ["play", "{run}"],
        ["evaluate", "{run}", "--games", "4", "--opponent", "cfr"],
        ["evaluate", "{run}", "--games", "4", "--opponent", "mcts"],
        ["evaluate", "{run}", "--games", "4", "--opponent", "minimax"],
        ["evaluate", "{run}", "--games", "4", "--oracle", "minimax"],
        ["evaluate", "{run}", "--games", "4", "--oracle", "cfr"],
        ["evaluate", "{run}", "--games", "4", "--oracle", "mcts"],
        ["evaluate", "{run}", "--games", "4", "--oracle", "noisy"],
        ["evaluate", "{run}", "--suite", "{suite}", "--workers", "1"],
        ["credit", "compare", "--environment", "numbers", "--episodes", "640", "--estimators", "rloo"],
        ["train", "kuhn-tiny", *QUICK_OVERRIDES, "environments.0.oracle={name: minimax}", "--run", "{new}"],
        ["train", "kuhn-tiny", *QUICK_OVERRIDES, "environments.0.oracle={name: cfr}", "--run", "{new}"],
        ["train", "kuhn-tiny", *QUICK_OVERRIDES, "credit={name: exact_advantage}", "--run", "{new}"],
        [
            "train",
            "kuhn-tiny",
            *QUICK_OVERRIDES,
            "rollout.playouts=2",
            "rewards=[{name: playout_value}]",
            "reorder_outcomes=true",
            "--run",
            "{new}",
        ],
        [
            "train",
            "kuhn-tiny",
            *QUICK_OVERRIDES,
            "rollout.group_size=4",
            "rollout.plan={name: branch}",
            "--run",
            "{new}",
        ],
        [
            "train",
            "kuhn-tiny",
            *QUICK_OVERRIDES,
            "matchmaker={name: mixed, past: 0, bots: {cfr: 1.0}}",
            "--run",
            "{new}",
        ],
        ["train", "kuhn-tiny", *QUICK_OVERRIDES, "environments.0.illegal={payoff: mars}", "--run", "{new}"],
        ["explain", "numbers"],
        ["list", "environments", "--json"],
    ],
    ids=" ".join,
)
def test_unsupported_uses_fail_with_one_line_that_names_it(arguments, run_folder, tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text("rows: [{name: a, game: numbers, role: trained, kind: exact}]")
    paths = {"{run}": str(run_folder), "{suite}": str(suite), "{new}": str(tmp_path / "new")}
    result = run_cli(*(paths.get(argument, argument) for argument in arguments), text="one\n" * 20)
    if result.exception is None:
        return
    assert isinstance(result.exception, SparringError), repr(result.exception)
    message = str(result.exception)
    assert "numbers" in message.lower() and "\n" not in message, message


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("    def reset(self, stream):", "reset"),
        (
            '    roles, max_turns, min_utility, max_utility, zero_sum, brief = ("left", "right"), 2, -1.0, 1.0, True, True',
            "roles, max_turns",
        ),
    ],
)
def test_an_environment_without_a_required_attribute_is_refused(line, missing, install_source, tmp_path):
    install_source(
        ENVIRONMENT_SOURCE.replace(line, "    spare = 1" if "def" not in line else "    def spare(self, stream):")
    )
    result = run_cli("train", "kuhn-tiny", *QUICK_OVERRIDES, "--run", tmp_path / "run")
    assert isinstance(result.exception, GameError), repr(result.exception)
    assert f"'numbers' (Numbers in sparring.environments.numbers) lacks {missing}" in str(result.exception)


@pytest.mark.parametrize("name", ["observe", "legal", "step", "due", "done", "returns"])
def test_a_play_without_a_required_attribute_is_refused(name, install_source, tmp_path):
    attributes_line = "    done, returns = False, (0.0, 0.0)\n"
    changed_line = attributes_line.replace(name, f"spare_{name}") if name in attributes_line else attributes_line
    text = ENVIRONMENT_SOURCE.replace(attributes_line, changed_line).replace(
        "self.done, self.returns =", "done, returns =" if name in attributes_line else "self.done, self.returns ="
    )
    install_source(text.replace(f"    def {name}(self", f"    def spare_{name}(self"))
    result = run_cli("train", "kuhn-tiny", *QUICK_OVERRIDES, "--run", tmp_path / "run")
    assert isinstance(result.exception, SparringError), repr(result.exception)
    message = str(result.exception)
    assert repr(name) in message and "numbers" in message and "\n" not in message
