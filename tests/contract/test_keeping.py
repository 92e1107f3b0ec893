"""The contract of keeping rules of a league, and the answers of one that a run refuses."""

import inspect

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.registry import Plugin, with_options
from sparring.core.errors import PluginError
from sparring.core.records import snapshot
from sparring.testing import check_keeping, keep_request

NAMES = registry.names("league.keeping")
CASES = [(name, preset) for name in NAMES for preset in (None, *registry.load("league.keeping", name).presets)]


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_the_public_check_passes(name, preset):
    check_keeping(registry.bind("league.keeping", name, preset=preset))


BAD_RULES = {
    "no tuple": (lambda request: None, "must return the snapshots that stay"),
    "names": (lambda request: ("past-000010",), "must return the snapshots that stay"),
    "a stranger": (lambda request: (snapshot(99),), "keeps 'past-000099', which is not one of the 3 snapshots"),
    "too many": (lambda request: request.members, r"at most 2 snapshots \(league.keep\)"),
    "one twice": (lambda request: request.members[:1] * 2, "each once; it returned past-000010, past-000010"),
}


@pytest.mark.parametrize("name", BAD_RULES)
def test_an_answer_that_cannot_be_used_is_refused(name):
    function, message = BAD_RULES[name]
    rule = with_options(
        Plugin(slot="league.keeping", name="mine", function=function, module=inspect.getmodule(function))
    )
    with pytest.raises(PluginError, match=message) as error:
        rule(keep_request([10, 20, 30], 2))
    assert "keeping rule 'mine' (league.keeping)" in str(error.value)
