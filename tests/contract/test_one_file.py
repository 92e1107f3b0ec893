"""Adding a method is adding one file: an estimator dropped into the folder is found, listed, documented, measured and raced."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sparring.credit
from sparring import cli, registry

ROOT = Path(__file__).parents[2]
MEDIAN = '''"""Credit: the median."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparring.credit.base import check, spread, trajectory_returns
from sparring.types import Credit, TurnTable

PRESETS = {"doubled": {"scale": 2.0}}


def median_of_batch(turns: TurnTable, state: Mapping[str, Any], *, scale: float = 1.0) -> Credit:
    """Compare a trajectory's return with the median of the batch.

    What: a test.
    When to use: never.
    Mathematics: A = scale * (R - median R).
    Shapes: advantages [N].
    Pitfalls: none.
    Reference: none.
    Verified by: tests/contract/test_one_file.py.

    Args:
        scale: factor of all advantages.
    """
    check(turns, "median_of_batch")
    returns, _ = trajectory_returns(turns)
    middle = float(np.median(returns)) if len(returns) else 0.0
    return Credit(advantages=scale * spread(returns - middle, turns), state=dict(state))
'''


@pytest.fixture
def dropped(tmp_path, monkeypatch):
    """A folder of the slot with one more file in it."""
    (tmp_path / "median_of_batch.py").write_text(MEDIAN)
    monkeypatch.setattr(sparring.credit, "__path__", [*sparring.credit.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    registry.forget()
    yield
    sys.modules.pop("sparring.credit.median_of_batch", None)
    registry.forget()


def call(*arguments):
    outcome = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def test_a_file_dropped_into_the_folder_is_all_it_takes(dropped, tmp_path):
    assert "median_of_batch" in registry.names("credit")
    assert "median_of_batch" in call("list", "credit")
    assert "A = scale" in call("explain", "median_of_batch")
    specification = importlib.util.spec_from_file_location("pages_of_docs", ROOT / "docs" / "pages.py")
    pages = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(pages)
    page = pages.method_page(registry.load("credit", "median_of_batch"))
    assert "doubled" in page and "Never" in page
    lab = call("credit", "compare", "--game", "kuhn_poker", "--episodes", 320, "--batch", 32, "--no-time", "--json")
    rows = {row["estimator"] for row in json.loads(lab)["games"][0]["rows"]}
    assert {"median_of_batch", "median_of_batch:doubled"} <= rows
    small = ("steps=1", "rollout.games_per_step=8", "evaluation.every=1", "model.hidden_size=8", "model.heads=1")
    options = ("--seeds", 1, "--workers", 1, "--folder", tmp_path / "race", "--estimators", "median_of_batch,median_of_batch:doubled")
    raced = json.loads(call("credit", "race", *small, *options, "--json"))
    assert {row["estimator"] for row in raced["rows"] if "curve" in row} == {"median_of_batch", "median_of_batch:doubled"}


def test_and_nothing_is_left_of_it():
    assert "median_of_batch" not in registry.names("credit")
