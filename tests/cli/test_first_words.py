"""First commands of new users and the advice of errors: typing errors, wrong files, a full disk, and imports."""

import errno
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module

import pytest

from sparring import cli
from sparring.cli.verbs import FUNCTIONS, GROUPS, VERBS, command_of, message_of
from sparring.config import resolve
from sparring.config.plugins.registry import ALGORITHM_HINTS
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core import files
from sparring.core.errors import ConfigError, RunError, SparringError, nearest
from sparring.core.files import disk_error, disk_errors
from sparring.report.explanations import entries, explanation
from tests.cli.builders import call, succeed


def refusal(*words):
    outcome = call(*words)
    assert isinstance(outcome.exception, SparringError), outcome.output
    return str(outcome.exception)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["kuhn-tiny", "--steps", "10"], "write 'steps=10'"),
        (["kuhn-tiny", "--learner.learning_rate=0.1"], "write 'learner.learning_rate=0.1'"),
        (["kuhn-tiny", "steps", "10"], "write 'steps=10'"),
        (["kuhn-tiny", "credit.name=ppo"], "credit.name=gae 'losses=[{name: ppo_clip}"),
        (["kuhn-tiny", "credit.name=REINFORCE"], "credit.name=outcome"),
        (["kuhn-tiny", "credit.name=a2c"], "policy_gradient"),
        (["kuhn-tiny", "environments.0.name=kuhn"], "Did you mean 'kuhn_poker'"),
        (["kuhn-tiny", "learner.learning_rate=[0.001, 0.002]"], "start a run for each"),
        (
            ["kuhn-tiny", "scale.fleet=simulated", "scale.workers=2"],
            "scale.fleet: Input should be 'here', 'processes' or 'ray', got 'simulated'",
        ),
    ],
)
def test_a_wrong_train_command_is_answered_with_what_to_write(words, advice, tmp_path):
    message = refusal("train", *words, "--run", str(tmp_path / "run"))
    assert advice in message and len(message) < 900


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["scale", "plan", "kuhn-tiny", "--workers", "8"], "write: sparring train RECIPE --dry-run"),
        (["credit", "race", "--seeds", "2"], "`sparring credit race` was removed in version 0.3"),
        (["scale", "chaos", "kuhn-tiny"], "`sparring scale` was removed in version 0.3"),
        (["scale", "--help"], "write: sparring train RECIPE steps=3"),
        (
            ["train", "kuhn-tiny", "--dry-run", "--assume", "play=3"],
            "`sparring train --assume` was removed in version 0.3",
        ),
        (["train", "kuhn-tiny", "--times=scale.json"], "write: sparring train RECIPE steps=3"),
    ],
)
def test_a_removed_command_names_its_replacement(words, advice):
    message = refusal(*words)
    assert advice in message and "\n" not in message


def test_a_run_folder_and_an_environment_get_different_advice(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("name: x\n")
    assert f"sparring train --run {tmp_path} --resume" in refusal("train", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert "sparring play --environment kuhn_poker" in refusal("play", "kuhn_poker")


def test_the_error_of_a_wrong_recipe_states_how_to_mend_it(tmp_path):
    path = tmp_path / "mine.yaml"
    for recipe, advice in (
        ("extends: kuhn-tiny\n  steps: 3\n", "in the same column"),
        ("steps: 3\n", "environments: a recipe names its environments; begin it with the line extends: kuhn-tiny"),
    ):
        path.write_text(recipe)
        with pytest.raises(ConfigError, match=advice):
            resolve(load_recipe(str(path)))


@pytest.mark.parametrize("name", ["ppo", "a2c", "reinforce", "dapo", "dr_grpo"])
def test_the_advice_for_an_algorithm_is_a_valid_configuration(name):
    words = [word.rstrip(".") for word in shlex.split(ALGORITHM_HINTS[name].partition(";")[0]) if "=" in word]
    assert words[0].startswith("credit")
    resolve(apply_overrides(load_recipe("kuhn-tiny"), words))
    assert "credit" in explanation(name) and "credit" in explanation(name.upper())


def test_suggestions_prefer_names_with_the_same_beginning():
    assert nearest("kuhn", ["urn", "kuhn_poker", "kuhn_rounds", "run"])[0] == "kuhn_poker"
    assert nearest("", ["urn"]) == []
    assert [row["name"] for row in entries("recipes")][:3] == ["demo", "kuhn-tiny", "tictactoe-tiny"]
    outcome = call("lst")
    assert outcome.exit_code == 2 and "Did you mean 'list'?" in outcome.output


def test_the_plan_and_the_evaluation_steps_follow_the_configuration():
    text = call("train", "kuhn-tiny", "--dry-run").stdout
    assert "updates:" in text and "learning_rate" not in text and "add --json" in text
    full_plan = call("train", "kuhn-tiny", "--dry-run", "--json").stdout
    assert '"plan"' in full_plan and '"learning_rate"' in full_plan
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), ["evaluation.every=20"])).evaluation
    assert [step for step in range(1, 46) if config.is_due(step, 45)] == [1, 20, 40, 45]
    never_evaluated = resolve(apply_overrides(load_recipe("kuhn-tiny"), ["evaluation.every=0"])).evaluation
    assert not any(never_evaluated.is_due(step, 45) for step in range(1, 46))
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), ["environments=leduc_poker", "losses={name: ppo_clip}"]))
    assert [section.name for section in config.environments] == ["leduc_poker"]
    assert [loss.name for loss in config.losses] == ["ppo_clip"]


def test_the_prompt_to_play_again_and_the_name_of_the_command(monkeypatch):
    from sparring.cli import play

    answers = iter(["foo", "S"])
    monkeypatch.setattr(play, "_ask", lambda text: next(answers))
    assert play._ask_again(alone=False) == "s"
    answers = iter(["s", "later", ""])
    assert play._ask_again(alone=True) == "y"
    from sparring.cli import text

    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("sys.argv", [".venv/bin/sparring", "train"])
    assert text.command() == ".venv/bin/sparring"
    monkeypatch.setattr("sys.argv", ["pytest"])
    assert text.command() == "sparring"


QUICK = [
    "steps=2",
    "rollout.games_per_step=8",
    "model.hidden_size=16",
    "model.layers=1",
    "evaluation.exact=false",
    "threads=1",
]
LONG = "n" * 300
COMMAND = [sys.executable, "-c", "from sparring.cli import main; main()"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("failing") / "run"
    succeed("train", "kuhn-tiny", *QUICK, "--run", path)
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "{run}", "--svg", "{tmp}/x/y/z.svg"], ["x/y/z.svg", "No such file"]),
        (["report", "{run}", "--svg", "{tmp}"], ["directory"]),
        (["report", "{tmp}/" + LONG], ["too long"]),
        (["train", "kuhn-tiny", *QUICK, "--run", "/proc/x"], ["/proc/x"]),
        (["train", "kuhn-tiny", *QUICK, "--run", "{tmp}/file/x"], ["file/x", "Not a directory"]),
        (["train", "--resume", "--run", "{tmp}/" + LONG], ["too long"]),
        (["train", "{tmp}/" + LONG + ".yaml"], ["nnn"]),
        (["train", "{tmp}/folder.yaml"], ["folder.yaml"]),
        (["train", "{tmp}/loop.yaml"], ["loop.yaml"]),
        (["evaluate", "{tmp}/" + LONG], ["too long"]),
        (["evaluate", "{run}", "--suite", "{tmp}/folder.yaml"], ["folder.yaml", "directory"]),
        (["evaluate", "{run}", "--suite", "{tmp}/latin.yaml"], ["latin.yaml", "UTF-8"]),
        (["play", "{tmp}/" + LONG], ["too long"]),
        (["export", "{run}", "{tmp}/file/x"], ["file/x"]),
        (["export", "{tmp}/" + LONG, "{tmp}/new"], ["too long"]),
        (["explain", LONG], ["nnn"]),
    ],
    ids=lambda value: " ".join(value)[:60],
)
def test_an_error_of_the_disk_is_one_line_with_the_path(arguments, words, trained, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"rows: \xff")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    outcome = call(*(argument.replace("{tmp}", str(tmp_path)).replace("{run}", str(trained)) for argument in arguments))
    assert isinstance(outcome.exception, SparringError), repr(outcome.exception)
    message = str(outcome.exception)
    assert all(word in message for word in words), message
    assert "\n" not in message and len(message) < 900


CODES = [
    "EIO",
    "EFBIG",
    "ENAMETOOLONG",
    "EISDIR",
    "ENOENT",
    "ENOTDIR",
    "ENOSPC",
    "EDQUOT",
    "EACCES",
    "EROFS",
    "EPERM",
    "EBUSY",
    "EMFILE",
]


@pytest.mark.parametrize("code", [*CODES, "ELOOP", "ESTALE", "ETIMEDOUT"])
def test_every_error_code_of_the_disk_has_path_and_cause(code, tmp_path):
    number = getattr(errno, code)
    with pytest.raises(RunError) as error, disk_errors(tmp_path / "x"):
        raise OSError(number, os.strerror(number), str(tmp_path / "x"))
    assert str(tmp_path / "x") in str(error.value)
    assert os.strerror(number) in str(error.value) or "full" in str(error.value)
    assert isinstance(error.value.__cause__, OSError)
    assert "a file or connection cannot be used" in str(disk_error(OSError("odd")))


@pytest.mark.parametrize("code", ["EIO", "EFBIG"])
def test_a_failing_disk_stops_training_with_one_line(code, tmp_path, monkeypatch):
    number = getattr(errno, code)

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "fsync", fail)
    outcome = call("train", "kuhn-tiny", *QUICK, "--run", tmp_path / "run")
    assert isinstance(outcome.exception, RunError), repr(outcome.exception)
    assert os.strerror(number) in str(outcome.exception) and str(tmp_path / "run") in str(outcome.exception)


def test_a_full_memory_and_long_errors_are_one_short_line(monkeypatch, tmp_path):
    def raise_memory_error(*_, **__):
        raise MemoryError("Unable to allocate 9.00 EiB")

    monkeypatch.setattr("sparring.api.runs.LocalEngine", raise_memory_error)
    outcome = call("train", "kuhn-tiny", *QUICK, "--run", tmp_path / "run")
    assert isinstance(outcome.exception, RunError) and "The memory is full (Unable to allocate 9.00 EiB)" in str(
        outcome.exception
    )
    monkeypatch.setattr("sparring.cli.explain.explanation", lambda _: 1 / 0)
    assert isinstance(call("explain", "mars").exception, ZeroDivisionError)
    monkeypatch.delenv("SPARRING_DEBUG", raising=False)
    message = message_of(ConfigError("a\nb" + "x" * 10_000))
    assert message.startswith("error: a b") and "\n" not in message and len(message) < 4100


@pytest.fixture
def failing_explain(monkeypatch):
    monkeypatch.setattr("sparring.cli.explain.explanation", lambda _: {}["no such\nkey"])
    monkeypatch.setattr(sys, "argv", ["sparring", "explain", "mars"])


@pytest.mark.parametrize("debug", ["", "0", "1"])
def test_an_unexpected_error_is_one_line_unless_debugging_is_on(failing_explain, debug, monkeypatch, capfd):
    monkeypatch.setenv("SPARRING_DEBUG", debug)
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    lines = capfd.readouterr().err.splitlines()
    assert exit_.value.code == 1
    assert lines[-1].startswith("error: something unexpected failed at test_first_words.py:")
    assert "KeyError" in lines[-1] and "SPARRING_DEBUG=1" in lines[-1] and "report" in lines[-1]
    assert (len(lines) == 1) == (debug != "1")
    assert ("Traceback (most recent call last):" in lines) == (debug == "1")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["list", "methods"], ["explain", "mars"]])
def test_a_closed_pipe_is_no_error(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run([*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert process.stderr == ""


HEAVY = ("torch", "transformers", "pyspiel", "pyarrow")
LOADED = f"import sys; print([name for name in {HEAVY} if name in sys.modules])"


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.argv = ['sparring', '--help']\nfrom sparring.cli import main\ntry: main()\nexcept SystemExit: pass",
        "import sys; sys.argv = ['sparring', '--version']\nfrom sparring.cli import main\ntry: main()\nexcept SystemExit: pass",
    ],
    ids=["--help", "--version"],
)
def test_help_and_version_import_no_heavy_library(code):
    process = subprocess.run([sys.executable, "-c", f"{code}\n{LOADED}"], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_of_commands_shows_the_first_line_of_each_docstring(verb):
    name = FUNCTIONS.get(verb, verb)
    module = import_module(f"sparring.cli.{name}")
    assert VERBS[verb] == inspect.getdoc(getattr(module, name)).splitlines()[0]
    succeed(verb, "--help")
    assert (getattr(command_of(verb), "commands", None) is not None) == (verb in GROUPS)


MODELLING = re.compile(r"transformers\.(modeling_\w+|models\..*|generation.*|pytorch_utils)")
SIZES = [
    "threads=1",
    "steps=2",
    "rollout.games_per_step=8",
    "model.hidden_size=8",
    "model.layers=1",
    "model.heads=2",
    "evaluation.exact=false",
]
STAGES = """
import json, sys
stages = {{}}
def note(stage):
    stages[stage] = sorted(sys.modules)
import sparring.cli
sparring.cli.app(["--help"], standalone_mode=False)
note("help")
import sparring.cli.train
note("train")
import sparring.engine.workers.worker, sparring.engine.ranks.rank_process
note("workers and learners")
sparring.cli.app({arguments!r}, standalone_mode=False)
note("a run")
print(json.dumps(stages), file=sys.stderr)
"""


def modelling_modules(modules):
    return [name for name in modules if MODELLING.fullmatch(name)]


@pytest.mark.slow
@pytest.mark.always
def test_a_run_of_the_tiny_model_imports_no_modelling_code(tmp_path):
    arguments = ["train", "kuhn-tiny", *SIZES, "--run", str(tmp_path / "run")]
    code = STAGES.format(arguments=arguments)
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    stages = json.loads(process.stderr.splitlines()[-1])
    assert {stage: modelling_modules(modules) for stage, modules in stages.items()} == {stage: [] for stage in stages}
    assert not {"torch", "transformers", "pyspiel", "pyarrow", "scipy"} & {*stages["help"]}
    assert len([name for name in stages["train"] if name.split(".")[0] == "sparring"]) <= 300
    not_imported = {
        "ray",
        "sparring.engine.workers.fleet.ray",
        "sparring.engine.ranks.sharded",
        "sparring.measure.suite",
    }
    assert not not_imported & {*stages["train"]}
    assert (tmp_path / "run" / "report.html").is_file()


def test_modelling_modules_are_recognised_by_name():
    names = [
        "transformers.modeling_utils",
        "transformers.models.gpt2.modeling_gpt2",
        "transformers.generation",
        "transformers.pytorch_utils",
    ]
    assert modelling_modules(["torch", *names, "transformers.tokenization_utils_base"]) == names
