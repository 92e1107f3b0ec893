"""A method is added as one file and an environment as one folder; both are then listed, documented, measured and judged."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sparring.environments
import sparring.methods.credit
from sparring import cli
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.oracle_choice import choose_oracle
from sparring.methods.oracles.solvers import games_of_oracle
from studies.credit_race import race
from tests.contract import test_credit, test_credit_inputs, test_docstrings

ROOT = Path(__file__).parents[2]
MEDIAN = '''"""Credit: the return less the median of the batch."""

import numpy as np

from sparring.core.records import FloatArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, trajectory_returns


def median_of_batch(turns: TurnTable, *, scale: float = 1.0) -> FloatArray:
    """Compare a trajectory's return with the median of the batch.

    What: one advantage per trajectory.
    When to use: never.
    Mathematics:
        A[i, t] = scale * (R_i - median R)
    Shapes: advantages [N].
    Pitfalls: A batch of one trajectory gives 0, and so do equal returns.
    Reference: none.
    Verified by: tests/contract/test_one_file.py.

    Args:
        scale: factor of all advantages.
    """
    returns, _ = trajectory_returns(turns)
    middle = float(np.median(returns)) if len(returns) else 0.0
    return scale * broadcast_to_turns(returns - middle, turns)
'''
PRESETS = 'PRESETS = {"doubled": {"scale": 2.0}}\n'
WORDING = '''"""Environment: the urns again."""

from sparring.environments.openspiel.base import Game, Style
from sparring.environments.our_urns.rules import urn_of


def our_urns(*, draws: int = 3, style: Style = "brief") -> Game:
    """Return the urns under a name of our own.

    Args:
        draws: most draws.
        style: of the wording.
    """
    return urn_of(draws, style)
'''
RULES = '''"""The rules."""

from sparring.environments.openspiel.base import Game, Style
from sparring.environments.urn import urn


def urn_of(draws: int, style: Style) -> Game:
    """Return the game."""
    return urn(draws=draws, style=style)
'''
SOLVER = '''"""Solver: the first is best."""

from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.openspiel.base import State
from sparring.core.records import SolverResult

ORACLE = "posterior"


def our_urns(
    state: State, *, prior: Literal["uniform", "bank"] = "uniform", most: Annotated[float, Field(ge=0)] = 0.75
) -> SolverResult:
    """Say that the first action is best.

    Args:
        prior: is not asked for.
        most: what the first action is worth.
    """
    return SolverResult(values=[most, *[0.0] * (len(state.legal_actions()) - 1)])
'''


@pytest.fixture
def added_environment(tmp_path, monkeypatch):
    """Add a folder to the package of environments."""
    (tmp_path / "our_urns").mkdir()
    for module, text in {"__init__": WORDING, "rules": RULES, "solver": SOLVER}.items():
        (tmp_path / "our_urns" / f"{module}.py").write_text(text)
    monkeypatch.setattr(sparring.environments, "__path__", [*sparring.environments.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    registry.clear_caches()
    yield
    for module in [name for name in sys.modules if name.startswith("sparring.environments.our_urns")]:
        del sys.modules[module]
    registry.clear_caches()


@pytest.fixture
def added_estimator(tmp_path, monkeypatch):
    """Add a file to the package of estimators."""
    (tmp_path / "median_of_batch.py").write_text(MEDIAN + PRESETS)
    monkeypatch.setattr(sparring.methods.credit, "__path__", [*sparring.methods.credit.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    registry.clear_caches()
    yield
    sys.modules.pop("sparring.methods.credit.median_of_batch", None)
    registry.clear_caches()


def call(*arguments):
    outcome = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def page_of(slot, name):
    """Return the page of a plug-in, as tools/generate.py writes it."""
    specification = importlib.util.spec_from_file_location("pages_of_docs", ROOT / "tools" / "pages.py")
    pages = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(pages)
    return pages.method_page(registry.load(slot, name))


def test_a_folder_added_to_the_environments_is_one_with_its_solver(added_environment):
    assert "our_urns" in registry.names("environments") and "our_urns" in games_of_oracle("posterior")
    assert "our_urns" in call("list", "environments")
    assert "most: what the first action is worth" in call("explain", "our_urns")
    page = page_of("environments", "our_urns")
    assert (
        "src/sparring/environments/our_urns/__init__.py`" in page
        and "## Solver" in page
        and "| `most` | float | `0.75` |" in page
    )
    game = make_game("our_urns", options={"draws": 2})
    oracle, note = choose_oracle(game)
    assert (oracle.name, note) == ("posterior", "")
    state = game.reset(Stream.from_seed(0))
    assert max(oracle.judge([state])[0].values) == 0.75
    assert max(registry.bind("oracles", "posterior", {"options": {"most": 0.5}})().judge([state])[0].values) == 0.5
    with pytest.raises(UnknownNameError, match="Did you mean 'most'"):
        registry.bind("oracles", "posterior", {"options": {"mots": 0.5}})().covers(game)
    with pytest.raises(ConfigError, match="most"):
        registry.bind("oracles", "posterior", {"options": {"most": -1.0}})().covers(game)
    assert registry.bind("oracles", "constraint", {})().covers(game)


def test_an_estimator_of_28_lines_keeps_the_contract(added_estimator):
    assert MEDIAN.count("\n") <= 28
    for test in (
        test_credit.test_the_public_check_passes,
        test_credit.test_credit_is_finite_and_deterministic_and_keeps_its_inputs,
    ):
        test("median_of_batch")
    test_docstrings.check_headings("credit", "median_of_batch", registry.load("credit", "median_of_batch"))
    estimate = registry.bind("credit", "median_of_batch")
    test_credit_inputs.check_columns("median_of_batch", estimate, set())
    test_credit_inputs.check_refusals("median_of_batch", estimate)


def test_one_added_file_is_listed_explained_documented_and_compared(added_estimator, tmp_path):
    assert "median_of_batch" in registry.names("credit")
    assert "median_of_batch" in call("list", "credit")
    assert "scale * (R_i - median R)" in call("explain", "median_of_batch")
    page = page_of("credit", "median_of_batch")
    assert "doubled" in page and "Never" in page
    report = call(
        "credit", "compare", "--environment", "kuhn_poker", "--episodes", 320, "--batch", 32, "--no-time", "--json"
    )
    rows = {row["estimator"] for row in json.loads(report)["games"][0]["rows"]}
    assert {"median_of_batch", "median_of_batch:doubled"} <= rows
    small_options = (
        "steps=1",
        "rollout.games_per_step=8",
        "evaluation.every=1",
        "model.hidden_size=8",
        "model.heads=1",
    )
    for name in ("median_of_batch", "median_of_batch:doubled"):
        assert "curve" in race.run(tmp_path / "race", "kuhn-tiny", small_options, name, 0)


def test_added_plug_ins_are_gone_after_their_tests():
    assert "median_of_batch" not in registry.names("credit")
    assert "our_urns" not in (*registry.names("environments"), *games_of_oracle("posterior"))
