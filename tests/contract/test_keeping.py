"""What every keeping rule must hold, for every file found in the slot; and what a run refuses of one."""

import inspect
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring import registry
from sparring.errors import PluginError
from sparring.league.keeping.base import KeepRequest
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.refs import LEARNER, snapshot
from sparring.registry import Plugin, with_options
from sparring.rng import Stream

ROOT = Path(__file__).parents[2]
HEADINGS = ("What:", "When to use:", "Mathematics:", "Pitfalls:", "Reference:", "Verified by:")
NAMES = registry.names("league.keeping")
CASES = [(name, preset) for name in NAMES for preset in (None, *registry.load("league.keeping", name).presets)]


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_says_what_it_is(name):
    text = inspect.getdoc(registry.load("league.keeping", name).function)
    places = [text.find(heading) for heading in HEADINGS]
    assert -1 not in places and places == sorted(places)
    assert all((ROOT / path).is_file() for path in re.findall(r"tests/[\w/]+\.py", text))


def asked(steps, keep, seed):
    members = tuple(map(snapshot, steps))
    rows = {Row("nim", 0, LEARNER, member): Results(games=step % 5, wins=step % 5) for member, step in zip(members, steps, strict=True)}
    return KeepRequest(members=members, keep=keep, payoffs=Payoffs(rows), step=steps[-1], stream=Stream.from_seed(seed))


@pytest.mark.parametrize(("name", "preset"), CASES)
@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.integers(0, 10**9), min_size=1, max_size=9, unique=True).map(sorted), keep=st.integers(1, 9), seed=st.integers(0, 99))
def test_it_keeps_as_many_as_may_stay_and_is_a_function_of_what_it_is_told(name, preset, steps, keep, seed):
    rule = registry.bind("league.keeping", name, preset=preset)
    kept = rule(asked(steps, keep, seed))
    assert 0 < len(kept) <= keep and set(kept) <= set(map(snapshot, steps))
    assert len(steps) > keep or set(kept) == set(map(snapshot, steps))
    assert rule(asked(steps, keep, seed)) == kept


BAD = {
    "no tuple": (lambda request: None, "must return the snapshots that stay"),
    "names": (lambda request: ("past-000010",), "must return the snapshots that stay"),
    "a stranger": (lambda request: (snapshot(99),), "keeps 'past-000099', which is none of the 3 snapshots"),
    "too many": (lambda request: request.members, r"at most 2 snapshots \(league.keep\)"),
    "one twice": (lambda request: request.members[:1] * 2, "each once; it gave past-000010, past-000010"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_answer_that_cannot_be_used_is_refused(name):
    function, said = BAD[name]
    made = with_options(Plugin(slot="league.keeping", name="mine", function=function, module=inspect.getmodule(function)))
    with pytest.raises(PluginError, match=said) as error:
        made(asked([10, 20, 30], 2, 0))
    assert "keeping rule 'mine' (league.keeping)" in str(error.value)
