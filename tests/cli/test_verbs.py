"""The verbs are imported when they are called, and no sooner."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest
from typer.testing import CliRunner

from sparring.cli import app
from sparring.cli.verbs import FUNCTIONS, GROUPS, VERBS, command_of

HEAVY = ("torch", "transformers", "pyspiel", "pyarrow")
LOADED = f"import sys; print([name for name in {HEAVY} if name in sys.modules])"


@pytest.mark.parametrize(
    "code",
    [
        "import sparring",
        "import sparring.cli",
        "import sys; sys.argv = ['sparring', '--help']\nfrom sparring.cli import main\ntry: main()\nexcept SystemExit: pass",
        "import sys; sys.argv = ['sparring', '--version']\nfrom sparring.cli import main\ntry: main()\nexcept SystemExit: pass",
    ],
    ids=["import sparring", "import sparring.cli", "--help", "--version"],
)
def test_the_front_door_imports_no_library_of_models_or_games(code):
    done = subprocess.run([sys.executable, "-c", f"{code}\n{LOADED}"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_is_found_and_says_in_the_list_what_it_says_itself(verb):
    name = FUNCTIONS.get(verb, verb)
    module = import_module(f"sparring.cli.{name}")
    assert VERBS[verb] == inspect.getdoc(getattr(module, name)).splitlines()[0]
    assert CliRunner().invoke(app, [verb, "--help"]).exit_code == 0
    assert (getattr(command_of(verb), "commands", None) is not None) == (verb in GROUPS)


def test_a_verb_that_is_not_there_is_answered_by_the_nearest():
    found = CliRunner().invoke(app, ["lst"])
    assert found.exit_code == 2 and "Did you mean 'list'?" in found.output
