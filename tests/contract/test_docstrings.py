"""Docstrings of plug-ins have the headings of their slot in order, and name tests that exist."""

import inspect
import re
from pathlib import Path

import pytest

from sparring.config.plugins import registry
from sparring.methods.oracles.solvers import games_of_oracle

ROOT = Path(__file__).parents[2]
HEADINGS = ("What:", "When to use:", "Mathematics:", "Shapes:", "Pitfalls:", "Reference:", "Verified by:")
WITH_SHAPES = ("credit", "losses", "rewards")
WITHOUT_MATHEMATICS = ("selection", "selection.curricula")
OTHERS = ("rollout.plans", "league.keeping", "league.meta_solvers", "league.schedules")


def check_headings(slot, name, plugin):
    text = inspect.getdoc(plugin.function)
    absent = () if slot in WITH_SHAPES else ("Shapes:", "Mathematics:") if slot in WITHOUT_MATHEMATICS else ("Shapes:",)
    positions = [text.find(heading) for heading in HEADINGS if heading not in absent]
    assert -1 not in positions and positions == sorted(positions), (slot, name)
    tests = re.findall(r"tests/[\w/]+(?:\.py)?", text.partition("Verified by:")[2])
    assert tests and all((ROOT / path).exists() for path in tests), (slot, name)


@pytest.mark.parametrize("slot", [*WITH_SHAPES, *WITHOUT_MATHEMATICS, *OTHERS])
def test_docstrings_have_the_headings_and_their_tests_exist(slot):
    for name in registry.names(slot):
        check_headings(slot, name, registry.load(slot, name))


@pytest.mark.parametrize("oracle", ["constraint", "posterior"])
def test_docstrings_of_solvers_also_have_the_headings(oracle):
    for name in games_of_oracle(oracle):
        check_headings("solver", name, registry.load_part("environments", name, "solver"))
