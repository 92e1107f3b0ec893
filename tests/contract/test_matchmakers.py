"""The contract of matchmakers, for every file in the slot."""

from sparring.config.plugins import registry
from sparring.testing import check_matchmaker
from tests.cases import every_case

CASES = [
    (name, preset)
    for name in registry.names("league.matchmakers")
    for preset in (None, *registry.load("league.matchmakers", name).presets)
]


@every_case(("name", "preset"), CASES)
def test_the_public_check_passes(name, preset):
    check_matchmaker(registry.bind("league.matchmakers", name, preset=preset))
