"""The registry: plug-ins by file name, options by signature, the nearest name for a typo."""

import inspect
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import Field
from tests.cases import every_case

from sparring.config.plugins import plugin, registry
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.environments.options import entry_of

LINEAR_SCHEDULE = {"schedule": "linear", "start": 0.4, "end": 0.2}
EVERY_PLUGIN = [(slot, name) for slot in registry.SLOTS for name in registry.names(slot)]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Options of an entry."""

    size: Annotated[int, Field(ge=1, le=4)] = 3
    cost: float = 0.5


def sample(
    rows,
    *,
    share: Annotated[float, Field(ge=0, le=1)] = 0.5,
    rounds: Annotated[int, Field(ge=1)] = 3,
    cap: float | None = None,
    limit: Annotated[float, Field(gt=1)] | None = None,
    kind: Literal["plain", "fancy"] = "plain",
    bots: dict[str, float] | None = None,
):
    """Return its options.

    The first line is what lists show.
    """
    return rows, share, rounds, cap, limit, kind, bots


def needy(*, count: int):
    """Need a count."""
    return count


@pytest.fixture(autouse=True)
def plugins(monkeypatch):
    """Add two plug-ins without files, `sample` and `needy`, whose options are of every kind."""
    module = types.ModuleType("sample")
    module.PRESETS = {"wide": {"share": 0.9, "rounds": 5}}
    module.NEEDS = {"values"}
    samples = {
        function.__name__: registry.Plugin(slot="credit", name=function.__name__, function=function, module=module)
        for function in (sample, needy)
    }
    load_plugin = registry.load
    monkeypatch.setattr(
        registry, "load", lambda slot, name: samples[name] if name in samples else load_plugin(slot, name)
    )
    base_attribute = plugin.base_attribute
    # the checks of a turn table and of credit, which the samples do not use
    calls = (
        "check_input",
        "check_output",
        "adapt",
    )
    monkeypatch.setattr(
        plugin, "base_attribute", lambda slot, name: None if name in calls else base_attribute(slot, name)
    )


def test_the_check_of_options_is_built_once_and_defaults_are_not_shared(monkeypatch):
    def listed(rows, *, names: list[str] = ["a"], share: float = 0.5):  # noqa: B006
        return names, share

    plugin = registry.Plugin(slot="credit", name="listed", function=listed, module=types.ModuleType("listed"))
    checked_plugin = registry.with_options(plugin)
    monkeypatch.setattr(typing, "get_type_hints", lambda *_, **__: pytest.fail("read again"))
    monkeypatch.setattr("pydantic.create_model", lambda *_, **__: pytest.fail("made again"))
    checked_plugin.options["names"].append("b")
    bound_again = registry.with_options(plugin, {"share": 1})
    assert bound_again.options == {"names": ["a"], "share": 1.0}
    with pytest.raises(ConfigError, match="option 'share'"):
        registry.with_options(plugin, {"share": "much"})


@every_case(("slot", "name"), EVERY_PLUGIN, ids="-".join)
def test_every_plugin_describes_itself_and_its_options_have_types(slot, name):
    plugin = registry.load(slot, name)
    assert plugin.module.__name__.rsplit(".", 1)[1] in (plugin.name, "standard")
    assert plugin.function is getattr(plugin.module, name) and plugin.function.__module__.startswith(
        plugin.module.__name__
    )
    assert plugin.summary
    assert set(plugin.options) <= set(typing.get_type_hints(plugin.function))
    for preset in plugin.presets:
        registry.bind(slot, name, preset=preset)


def test_plugins_are_sorted_and_their_declarations_are_read():
    for slot in registry.SLOTS:
        assert registry.names(slot) == tuple(sorted(registry.names(slot))) != ()
    assert "base" not in registry.names("credit")
    assert "reduction" not in registry.names("losses")
    nim, value = registry.load("environments", "nim"), registry.load("columns", "token_value")
    assert inspect.isclass(nim.function) and list(nim.options) == ["pile_sizes", "is_misere", "style"]
    assert value.module.__name__ == "sparring.methods.columns.standard" and (
        value.declared("PER", ""),
        registry.required_services(registry.bind("columns", "value")),
    ) == ("token", {"critic"})
    assert not {"standard", "flag_turns", "playout_values"} & {*registry.names("columns")}
    plugin = registry.load("credit", "sample")
    assert (plugin.needs, plugin.summary) == ({"value"}, "Return its options.")
    assert list(plugin.options) == ["share", "rounds", "cap", "limit", "kind", "bots"]


def test_an_entry_has_the_options_of_its_dataclass_and_of_its_plugin():
    calls = []

    class Entry:
        """Make something."""

        def __init__(self, options: Sizes, *, style: str = "brief") -> None:
            calls.append((options, style))

    plugin = registry.Plugin(
        slot="environments", name="entry", function=entry_of(Entry, Sizes), module=types.ModuleType("entry")
    )
    assert list(plugin.options) == ["size", "cost", "style"] and plugin.summary == "Make something."
    registry.with_options(plugin, {"cost": 2, "style": "full"})()
    assert calls == [(Sizes(size=3, cost=2.0), "full")]
    with pytest.raises(ConfigError, match=r"option 'size': Input should be less than or equal to 4, got 5"):
        registry.with_options(plugin, {"size": 5})


def test_a_plugin_folder_may_also_hold_a_solver():
    assert set(registry.names_with_line_in_part("environments", "solver", "def reference(")) >= {
        "sokoban",
        "sudoku",
        "zebra",
    }
    assert registry.names_with_line_in_part("environments", "solver", "def sudoku(") == ("sudoku",)
    assert (
        registry.names_with_line_in_part("environments", "solver", "def nothing(")
        == registry.names_with_line_in_part("rewards", "solver", "")
        == ()
    )
    solver = registry.load_part("environments", "sudoku", "solver")
    assert (solver.module.__name__, str(registry.with_options(solver))) == (
        "sparring.environments.sudoku.solver",
        "solver 'sudoku' (environments.N.oracle)",
    )
    assert (
        registry.load_part("environments", "kuhn_rounds", "solver")
        is registry.load_part("environments", "nim", "solver")
        is None
    )
    with pytest.raises(
        UnknownNameError, match=r"option of environments\.solver 'sudoku' 'rigt'\. Did you mean 'right'"
    ):
        registry.with_options(solver, {"rigt": "forced"})


def test_needs_may_depend_on_an_option():
    module = registry.load("credit", "sample").module
    module.NEEDS_BY = {"kind": {"fancy": {"old_logprobs"}}, "rounds": {3: {"action_values"}}}
    # the old need "action_values" stands for these three columns
    exact_columns = {
        "action_value",
        "state_value",
        "default_value",
    }
    assert registry.bind("credit", "sample").needs == {"value", *exact_columns}
    assert registry.bind("credit", "sample", {"kind": "fancy"}).needs == {"value", "old_logprob", *exact_columns}
    assert registry.bind("credit", "sample", {"kind": "fancy"}, preset="wide").needs == {"value", "old_logprob"}
    assert registry.bind("credit", "needy", {"count": 1}).needs == {"value"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: registry.names("credits"), "Unknown slot 'credits'. Did you mean 'credit'"),
        (
            lambda: registry.load("credit", "grpoo"),
            "Unknown advantage estimator 'grpoo'. Did you mean 'grpo'.*sparring list credit",
        ),
        (lambda: registry.load("losses", "base"), "Unknown loss 'base'"),
        (lambda: registry.load("losses", "../config"), "Unknown loss"),
        (
            lambda: registry.bind("credit", "mars", {"gama": 1.0}),
            "Unknown option of credit 'mars' 'gama'. Did you mean 'gamma'",
        ),
        (
            lambda: registry.bind("credit", "mars", preset="as_relesed"),
            "Unknown preset of credit 'mars' 'as_relesed'. Did you mean 'as_released'",
        ),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(call, message):
    with pytest.raises(UnknownNameError, match=message):
        call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": "x"}, "credit 'sample', option 'share': .*got 'x'"),
        ({"share": float("nan")}, "option 'share'"),
        ({"share": float("inf")}, "option 'share'"),
        ({"share": None}, "option 'share'"),
        ({"share": -0.1}, "option 'share': .*greater than or equal to 0, got -0.1"),
        ({"share": 1.1}, "option 'share': .*less than or equal to 1, got 1.1"),
        ({"rounds": 0}, "option 'rounds': .*greater than or equal to 1, got 0"),
        ({"limit": 1.0}, "option 'limit"),
        ({"kind": "max"}, "option 'kind': .*'plain' or 'fancy', got 'max'"),
        ({"bots": {"random": "often"}}, "option 'bots.random'"),
        ({"rounds": {"schedule": "linear", "start": 3, "end": 1}}, "option 'rounds'"),
        ({"share": {"schedule": "linear", "start": 0.5}}, "option 'share': a linear schedule takes"),
        (
            {"share": {"schedule": "linear", "start": 1.5, "end": 0.5}},
            "option 'share': .*less than or equal to 1, got 1.5 in its schedule",
        ),
        (
            {"share": {"schedule": "staircase", "values": [0, 2, 1], "at": [0.2, 0.4]}},
            "option 'share': .*got 2.0 in its schedule",
        ),
        ({"share": {"schedule": "linear", "start": float("inf"), "end": 0.5}}, "option 'share': .*finite"),
        ({"limit": {"schedule": "linear", "start": 3.0, "end": 0.5}}, "option 'limit': .*got 0.5 in its schedule"),
    ],
    ids=str,
)
def test_wrong_values_are_refused_with_the_option_and_the_value(options, message):
    with pytest.raises(ConfigError, match=message):
        registry.bind("credit", "sample", options)


def test_options_and_their_limits_schedules_presets_and_defaults():
    with pytest.raises(ConfigError, match="option 'count': Field required"):
        registry.bind("credit", "needy")
    assert registry.bind("credit", "needy", {"count": 2})() == 2
    assert registry.bind("credit", "sample").at(0.5) == dict(
        share=0.5, rounds=3, cap=None, limit=None, kind="plain", bots=None
    )
    options = registry.bind("credit", "sample", {"rounds": 2}, preset="wide").at(0.0)
    assert (options["share"], options["rounds"]) == (0.9, 2)
    assert registry.load("credit", "sample").presets["wide"] == {"share": 0.9, "rounds": 5}
    for share in (0, 1):
        assert registry.bind("credit", "sample", {"share": share}).options["share"] == share
    assert registry.bind("credit", "sample", {"rounds": 1}).options["rounds"] == 1
    assert (
        registry.bind("credit", "sample", {"limit": {"schedule": "linear", "start": 4, "end": 2}}).at(0.5)["limit"]
        == 3.0
    )
    bound_plugin = registry.bind("credit", "sample", {"share": LINEAR_SCHEDULE, "kind": "fancy"})
    assert bound_plugin([1]) == ([1], 0.4, 3, None, None, "fancy", None)
    assert bound_plugin([1], progress=1.0)[1] == pytest.approx(0.2) and "share" not in bound_plugin.options
    assert registry.bind("credit", "sample", {"cap": LINEAR_SCHEDULE}).at(0.5)["cap"] == pytest.approx(0.3)
    bound_plugin = registry.bind(
        "losses",
        "ppo_clip",
        {"clip_high": LINEAR_SCHEDULE, "dual_clip": {"schedule": "linear", "start": 3, "end": 2}},
        preset="dapo",
    )
    assert bound_plugin.at(0.5) == pytest.approx({"clip_low": 0.2, "clip_high": 0.3, "dual_clip": 2.5})


def test_a_module_or_folder_with_a_function_of_its_name_is_a_plugin(tmp_path, monkeypatch):
    import sparring.methods.features as slot

    (tmp_path / "plain.py").write_text("def plain():\n    pass\n")
    (tmp_path / "helper.py").write_text(
        "def other():\n    pass\n\n\nclass helper:\n    def helper(self):\n        pass\n"
    )
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__init__.py").write_text("from math import inf\n\n\ndef folder(option=inf):\n    pass\n")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.py").write_text('"""No plug-in."""\n')
    names_before = registry.built_in("features")
    monkeypatch.setattr(slot, "__path__", [*slot.__path__, str(tmp_path)])
    registry.built_in.cache_clear()
    try:
        assert set(registry.built_in("features")) == {*names_before, "plain", "folder"}
    finally:
        monkeypatch.undo()
        registry.built_in.cache_clear()
    assert registry.built_in("features") == names_before


def test_an_option_of_an_old_version_is_dropped_only_at_its_default():
    """Configurations of old runs have such options."""
    assert "max_entries" not in registry.bind("credit", "coma", {"max_entries": 20_000, "decay": 0.5}).options
    with pytest.raises(
        ConfigError, match=r"'coma' has no option 'max_entries' any more: max_entries=7 needs version 0.2.0"
    ):
        registry.bind("credit", "coma", {"max_entries": 7})
