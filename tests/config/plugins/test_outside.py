"""Plug-ins from outside are found by module name or entry point; other modules are not imported."""

import json
import sys
import textwrap
from importlib import metadata
from types import SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

from sparring.cli import app
from sparring.config import resolve
from sparring.config.plugins import outside, registry
from sparring.config.recipe import load_recipe
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.solvers import has_reference, reference_of, solver_of

REWARD_MODULE = '''
"""Rewards for a test."""
SLOT = "rewards"


def short_replies(episode, *, most: int = 3):
    """Pay every reply of at most ``most`` characters 1."""
    return [float(len(turn.reply) <= most) for turn in episode.turns]


def nothing(episode):
    return [0.0 for turn in episode.turns]


def private(episode):
    return [0.0 for turn in episode.turns]


from os import system

PLUGINS = ("nothing", "system")
'''
ESTIMATOR_MODULE = '''
import numpy as np
from sparring.core.records import Credit

SLOT = "credit"


def ours(turns, state, *, scale: float = 1.0):
    """The reward of each turn."""
    return Credit(advantages=scale * turns.reward, state=state)
'''
MATCHMAKER_MODULE = """
SLOT = "league.matchmakers"


def selfish(*args, **options):
    from sparring.league.matchmakers.mirror import mirror

    return mirror(*args)
"""
GAME_MODULE = '''
SLOT = "environments"


def our_kuhn():
    """Kuhn poker under another name."""
    from sparring.environments.kuhn_poker import kuhn_poker

    return kuhn_poker()
'''
SOLVER_MODULE = '''
from sparring.core.records import SolverResult

ORACLE = "posterior"


def our_urn(state, *, prior: str = "uniform", most: float = 1.0):
    """All actions are worth the same."""
    return SolverResult(values=[most for action in state.legal_actions()])


def reference(state):
    return ("draw",)
'''


@pytest.fixture(autouse=True)
def no_plugins_loaded():
    registry.clear_caches()
    loaded_before = dict(outside._loaded)
    outside._loaded.clear()
    yield
    registry.clear_caches()
    outside._loaded.clear()
    outside._loaded.update(loaded_before)


@pytest.fixture
def write_package(tmp_path, monkeypatch, request):
    name = f"own_{abs(hash(request.node.name)) % 10**8}"
    folder = tmp_path / "path" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "path"))

    def write(**modules):
        for module, text in modules.items():
            (folder / f"{module}.py").write_text(textwrap.dedent(text))
        return name

    yield write
    for module in [module for module in sys.modules if module.split(".")[0] == name]:
        del sys.modules[module]


def install_entry_points(monkeypatch, installed):
    def entry_points(*, group):
        return [point for point in installed if point.group == group]

    monkeypatch.setattr(outside, "metadata", SimpleNamespace(**{**vars(metadata), "entry_points": entry_points}))


def test_plug_ins_are_loaded_by_module_name_from_any_package(write_package, tmp_path):
    name = write_package(short_replies=REWARD_MODULE)
    by_module, by_function = (registry.load("rewards", f"{name}.short_replies{suffix}") for suffix in ("", ".nothing"))
    assert (by_module.function.__name__, by_function.function.__name__) == ("short_replies", "nothing")
    assert by_module.module is by_function.module and set(by_module.options) == {"most"}
    assert registry.bind("rewards", f"{name}.short_replies", {"most": 5}).options == {"most": 5}
    assert registry.is_known("rewards", f"{name}.short_replies") and not registry.is_known("rewards", "short_replies")
    with pytest.raises(UnknownNameError, match="option of rewards"):
        registry.bind("rewards", f"{name}.short_replies", {"least": 5})
    name = write_package()
    (tmp_path / "path" / f"{name}_alone.py").write_text(REWARD_MODULE)
    assert registry.load("rewards", f"{name}_alone.nothing").function.__name__ == "nothing"
    name = write_package()
    (tmp_path / "path" / name / "__init__.py").unlink()
    (tmp_path / "path" / name / "deeper").mkdir()
    (tmp_path / "path" / name / "deeper" / "short_replies.py").write_text(REWARD_MODULE)
    assert registry.load("rewards", f"{name}.deeper.short_replies").options.keys() == {"most"}


@pytest.mark.parametrize("function", ["private", "system", "__class__", "PLUGINS", "SLOT"])
def test_only_listed_functions_of_a_module_are_plug_ins(write_package, function):
    name = write_package(short_replies=REWARD_MODULE)
    with pytest.raises(
        ConfigError,
        match=f"'{function}' is not a plug-in of the module .*which has 'nothing', 'short_replies'|has no function '{function}'",
    ):
        registry.load("rewards", f"{name}.short_replies.{function}")


def test_the_solver_in_the_folder_of_a_game_is_found(write_package, tmp_path):
    name = write_package()
    folder = tmp_path / "path" / name / "our_urn"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        'SLOT = "environments"\n\n\ndef our_urn():\n    from sparring.environments.urn import urn\n\n    return urn()\n'
    )
    game = make_game(f"{name}.our_urn")
    # the solver belongs to the rules, which are those of urn
    assert solver_of(game, "posterior").module.__name__ == "sparring.environments.urn.solver"
    (folder / "solver.py").write_text(SOLVER_MODULE)
    registry.clear_caches()
    game = make_game(f"{name}.our_urn")
    oracle, state = registry.bind("oracles", "posterior", {"options": {"most": 0.5}})(), game.reset(Stream.from_seed(0))
    assert set(oracle.judge([state])[0].values) == {0.5} and has_reference(game) and reference_of(state) == ("draw",)
    assert f"{name}.our_urn.solver" in outside.loaded_modules()
    config_with_reward = {
        "environments": [{"name": f"{name}.our_urn"}],
        "rewards": [{"name": "reference_match"}],
        "reorder_outcomes": True,
    }
    assert resolve({**load_recipe("kuhn-tiny"), **config_with_reward}).environments[0].name == f"{name}.our_urn"
    with pytest.raises(UnknownNameError, match="Did you mean 'most'"):
        registry.bind("oracles", "posterior", {"options": {"mots": 0.5}})().covers(game)


@pytest.mark.parametrize(
    "line", ["SLOT = 'rewards'", "SLOT: Final = 'rewards'", 'SLOT: Final[str]="rewards"  # a reward']
)
def test_a_module_declares_its_slot_in_one_line(write_package, line):
    name = write_package(good=f"from typing import Final\n\n{line}\n\n\ndef good(episode): ...\n")
    assert registry.load("rewards", f"{name}.good").name == f"{name}.good"


def test_the_slot_is_read_from_the_source_without_importing_it(write_package, tmp_path):
    name = write_package(bad='"""How to:\n\nSLOT = "rewards"\n"""\nraise SystemExit("imported")\n')
    with pytest.raises(ConfigError, match="is not a plug-in"):
        registry.load("rewards", f"{name}.bad")
    name = write_package()
    (tmp_path / "path" / name / "bad.py").write_bytes("SLOT = 'rewards'  # é".encode("latin-1"))
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        registry.load("rewards", f"{name}.bad")
    name = write_package(both=REWARD_MODULE.replace("short_replies", "both"))
    (tmp_path / "path" / name / "__init__.py").write_text(REWARD_MODULE.replace("short_replies", "both"))
    assert registry.load("rewards", f"{name}.both").module.__name__ == f"{name}.both"
    name = write_package()
    (tmp_path / "path" / name / "__init__.py").write_text("raise SystemExit('imported')")
    with pytest.raises(ConfigError, match="there is no module"):
        registry.load("rewards", f"{name}.sub.missing")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def bad(episode, *, k=1): ...", "its option 'k' has no annotation; write such as k: float"),
        ("def bad(episode, *, k: 'Nope' = 1): ...", "annotations of its function cannot be read: NameError"),
    ],
)
def test_an_option_without_a_readable_annotation_is_refused(write_package, text, message):
    name = write_package(bad=f"SLOT = 'rewards'\n{text}\n")
    with pytest.raises(ConfigError, match=message):
        registry.bind("rewards", f"{name}.bad", {"k": 2})


def test_a_broken_entry_point_breaks_neither_lists_nor_runs(monkeypatch, caplog):
    entry_points = [
        metadata.EntryPoint(name="broken", value="no_such_package_here", group="sparring.losses"),
        metadata.EntryPoint(name="odd", value="my package!", group="sparring.losses"),
    ]
    install_entry_points(monkeypatch, entry_points)
    registry.clear_caches()
    result = CliRunner().invoke(app, ["list", "losses"], catch_exceptions=False)
    assert result.exit_code == 0 and "ppo_clip" in result.output and "broken" not in result.output
    assert "importing 'no_such_package_here' failed" in caplog.text
    assert CliRunner().invoke(app, ["train", "kuhn-tiny", "--dry-run"]).exit_code == 0
    with pytest.raises(ConfigError, match="an entry point: importing"):
        registry.bind("losses", "broken")


@pytest.mark.parametrize("name", ["os.system", "subprocess.call", "antigravity.fly", "json.tool", "xml.dom.minidom"])
def test_a_module_without_a_slot_is_not_imported(name, monkeypatch):
    for module in [module for module in sys.modules if module in ("antigravity", "json.tool")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ConfigError, match=r"is not a plug-in\. Write the line SLOT = 'rewards'|there is no module"):
        registry.bind("rewards", name)
    assert not {"antigravity", "json.tool"} & sys.modules.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SLOT = 'rewards'\n1 / 0\n",
            r"advantage estimator|importing '.*' failed in bad\.py, line 2: ZeroDivisionError",
        ),
        ("SLOT = 'rewards'\nraise SystemExit(3)\n", r"failed in bad\.py, line 2: SystemExit: 3"),
        ("SLOT = 'rewards'\nimport no_such_package_here\n", "failed.*No module named 'no_such_package_here'"),
        ("SLOT = 'rewards'\ndef other(episode): ...\n", "has no function 'bad'"),
        ("SLOT = 'credit'\ndef bad(turns): ...\n", "is a plug-in of 'credit', not of 'rewards'"),
        ("def bad(episode): ...\n", r"is not a plug-in\. Write the line SLOT = 'rewards'"),
        ("# SLOT = 'rewards'\ndef bad(episode): ...\n", r"is not a plug-in"),
        ("SLOT = 'rewards'\ndef bad(:\n", r"failed.*SyntaxError"),
    ],
)
def test_a_broken_plug_in_is_refused_with_one_line(write_package, text, message):
    name = write_package(bad=text)
    with pytest.raises(ConfigError, match=message) as error:
        registry.load("rewards", f"{name}.bad")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a..b", ".a", "a.", "a b.c", "a.1", "../x.y", "a/b.c", "a.b\nc"])
def test_a_text_that_is_no_module_name_is_unknown(name):
    assert not registry.is_known("rewards", name)
    with pytest.raises(UnknownNameError):
        registry.load("rewards", name)


def test_a_missing_module_is_refused_with_how_to_install_it():
    with pytest.raises(
        ConfigError, match=r"there is no module 'no_such_package_here' here\. Install the package of 'no_such"
    ):
        registry.load("rewards", "no_such_package_here.reward")
    with pytest.raises(UnknownNameError, match=r"named package\.module"):
        registry.load("rewards", "short_replies")
    assert (
        not outside.is_outside("sparring.methods.oracles.constraint")
        and outside.slot_of("sparring.methods.oracles.constraint") is None
    )


def test_entry_points_are_listed_by_name_but_built_in_names_win(write_package, monkeypatch):
    name = write_package(short_replies=REWARD_MODULE.replace('SLOT = "rewards"', ""), format_bonus=REWARD_MODULE)
    group = "sparring.rewards"
    entry_points = [
        metadata.EntryPoint(name="brief", value=f"{name}.short_replies:short_replies", group=group),
        metadata.EntryPoint(name="short_replies", value=f"{name}.short_replies", group=group),
        metadata.EntryPoint(name=registry.built_in("rewards")[0], value=f"{name}.format_bonus:nothing", group=group),
        metadata.EntryPoint(name="not a name", value="os:system", group=group),
    ]
    install_entry_points(monkeypatch, entry_points)
    registry.clear_caches()
    try:
        assert set(registry.names("rewards")) == {*registry.built_in("rewards"), "brief", "short_replies"}
        assert (
            registry.load("rewards", "brief").function.__name__
            == registry.load("rewards", "short_replies").function.__name__
        )
        built_in_name = registry.built_in("rewards")[0]
        assert registry.load("rewards", built_in_name).module.__name__ == f"sparring.methods.rewards.{built_in_name}"
        broken_entry_point = metadata.EntryPoint(name="brief", value="no_such_package_here", group=group)
        with pytest.raises(
            ConfigError, match="reward 'brief', an entry point: importing 'no_such_package_here' failed"
        ):
            outside.from_entry_point(broken_entry_point, "reward")
    finally:
        registry.clear_caches()


def test_a_run_with_outside_plug_ins_trains_resumes_and_evaluates(write_package, tmp_path, monkeypatch):
    name = write_package(
        short_replies=REWARD_MODULE, ours=ESTIMATOR_MODULE, selfish=MATCHMAKER_MODULE, our_kuhn=GAME_MODULE
    )
    recipe = {
        "extends": "kuhn-tiny",
        "name": "own",
        "steps": 2,
        "environments": [{"name": f"{name}.our_kuhn"}],
        "rewards": [{"name": f"{name}.short_replies", "most": 4}],
        "credit": {"name": f"{name}.ours", "scale": 0.5},
        "matchmaker": {"name": f"{name}.selfish"},
        "rollout": {"games_per_step": 16, "group_size": 1},
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(recipe))
    monkeypatch.chdir(tmp_path)

    def run_cli(*arguments):
        registry.clear_caches()
        result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    run_cli("train", "own.yaml", "--run", "run", "threads=1")
    run_cli("train", "--run", "run", "--resume", "steps=3")
    assert json.loads(run_cli("evaluate", "run", "--games", "2", "--json"))
    run_cli("report", "run")
    run_cli("export", "run", "exported")
    explained = run_cli("explain", f"{name}.short_replies")
    assert "Pay every reply of at most" in explained and "option most: int, default 3" in explained
    assert f"{name}.ours" in run_cli(
        "credit",
        "compare",
        "--environment",
        "kuhn_poker",
        "--estimators",
        f"{name}.ours,{name}.ours scale=2",
        "--episodes",
        "256",
        "--no-time",
    )
    start = json.loads((tmp_path / "run" / "provenance.json").read_text())["starts"][0]
    assert set(start["plugins"]) == {f"{name}.{module}" for module in ("short_replies", "ours", "selfish", "our_kuhn")}
    assert all(len(entry["sha256"]) == 64 for entry in start["plugins"].values())
