"""Estimators import only numpy and pydantic, losses also torch, so that other trainers can use both."""

import json
import subprocess
import sys

import pytest

from sparring.config.plugins import registry

HEAVY = "torch transformers jinja2 tokenizers safetensors open_spiel pyspiel scipy yaml typer click rich pyarrow filelock tensorboard"
REFUSE_IMPORTS = """
import importlib, json, sys

class RefusedImports:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, RefusedImports())
"""
ADVANTAGES = """
import sparring
turns = sparring.turn_table(reward=[0.0, 1.0, 0.0, -1.0], episode=[0, 0, 1, 1], group=[7] * 4, role=["a"] * 4)
print(json.dumps(sparring.advantages("rloo", turns).advantages.tolist()))
"""


def run_without(refused_packages, code):
    program = f"REFUSED = {sorted(refused_packages)!r}{REFUSE_IMPORTS}{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_advantages_need_only_numpy_and_pydantic():
    outcome = run_without(HEAVY.split(), ADVANTAGES)
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout) == [2.0, 2.0, -2.0, -2.0], "each return less the other one's"


@pytest.mark.parametrize(
    ("slot", "refused"),
    [
        ("credit", HEAVY.split()),
        # importing torch takes two seconds
        pytest.param("losses", HEAVY.split()[1:], marks=[pytest.mark.slow, pytest.mark.always]),
    ],
)
def test_every_module_of_the_slot_is_imported_without_other_libraries(slot, refused):
    names = registry.built_in(slot)
    code = f"for name in {names!r}: importlib.import_module(f'sparring.methods.{slot}.{{name}}')"
    outcome = run_without(refused, code)
    assert outcome.returncode == 0, outcome.stderr
    assert len(names) > 20


def test_a_refused_library_is_noticed():
    assert "yaml is not installed" in run_without(["yaml"], "import sparring.config.yaml_text").stderr
