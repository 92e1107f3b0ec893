"""The scripts of benchmarks/: unique names, a smallest size for each, and errors of compared packages."""

import ast
import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

from tests.docs.loading import ROOT, load

FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))
HELPERS = {"common", "published", "scale_model", "view_store", *(name for name in SCRIPTS if name.startswith("peer_"))}
# packages that TRL, Transformers and PEFT try to import: a script with such a name would be imported instead of the package
OPTIONAL_IMPORTS = {
    *(
        "accelerate",
        "aqlm",
        "auto_gptq",
        "bitsandbytes",
        "comet_ml",
        "datasets",
        "deepspeed",
        "diffusers",
        "eetq",
        "fastapi",
        "flash_attn",
    ),
    *(
        "gptqmodel",
        "hqq",
        "jmespath",
        "joblib",
        "kernels",
        "liger_kernel",
        "llm_blender",
        "math_verify",
        "mergekit",
        "peft",
        "pydantic",
        "requests",
    ),
    *(
        "rich",
        "textarena",
        "torch",
        "torchao",
        "trackio",
        "transformers",
        "trl",
        "unsloth",
        "uvicorn",
        "vllm",
        "vllm_ascend",
        "wandb",
        "weave",
    ),
}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def imported_packages():
    packages = set()
    for name in SCRIPTS:
        for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                packages |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                packages.add(node.module.partition(".")[0])
    return packages - set(SCRIPTS)


def required_packages():
    text = (
        (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        + MAKEFILE
        + (ROOT / "requirements-vllm.txt").read_text(encoding="utf-8")
    )
    names = re.findall(r"""(?:^|["'\s])([A-Za-z][\w.-]*?)(?:\[[\w,]+\])?\s*(?:==|>=|<=|~=)""", text, re.MULTILINE)
    return {name.lower().replace("-", "_") for name in names}


def test_no_script_has_the_name_of_a_package():
    """Python searches the folder of a script before all packages."""
    assert {"torch", "trl", "textarena", "numpy"} <= imported_packages() and {
        "trl",
        "peft",
        "torch",
    } <= required_packages()
    packages = (
        imported_packages()
        | required_packages()
        | OPTIONAL_IMPORTS
        | set(packages_distributions())
        | set(sys.stdlib_module_names)
    )
    assert not packages & set(SCRIPTS)


def scripts_in_makefile():
    words = re.search(r"^BENCHMARKS := (.*?)\n\n", MAKEFILE, re.MULTILINE | re.DOTALL).group(1)
    peers = re.search(r"^WITH_PEERS := (.*)$", MAKEFILE, re.MULTILINE).group(1)
    words = re.sub(r"\$\(if \$\([^)]*\)[^,]*,([^)]*)\)", r"\1", words.replace("$(WITH_PEERS)", peers))
    elsewhere = re.findall(r"benchmarks/(\w+)\.py --quick", MAKEFILE)  # in the targets of other environments
    return [*(word.split(":")[0] for word in words.split() if word != "\\"), *elsewhere]


def test_make_runs_every_script_at_its_smallest_size():
    assert set(scripts_in_makefile()) == set(SCRIPTS) - HELPERS


def test_a_quick_run_sets_only_missing_options_and_is_marked_as_trial(monkeypatch):
    import argparse

    published = load("benchmarks", "published")
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8])
    monkeypatch.setattr(sys, "argv", ["benchmarks/x.py", "--quick", "--rounds", "3"])
    options = published.settings(parser, quick={"rounds": 1, "sizes": [1]})
    assert (options.rounds, options.sizes, options.quick, options.out) == (3, [1], True, published.TRIALS)
    assert options.source["setting"] == {"rounds": 3, "sizes": [1], "quick": True}


@pytest.mark.parametrize(
    ("script", "message"),
    [("import nowhere_at_all", "No module named 'nowhere_at_all'"), ("pass", "peer.py ended with 0")],
)
def test_the_error_of_a_compared_package_is_shown(tmp_path, script, message):
    """In a separate process: the package's text goes to the terminal, and the script ends with an error."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "peer.py").write_text(script)
    lines = [
        "import sys, pathlib, common",
        f"common.ROOT = pathlib.Path({str(tmp_path)!r})",
        "common.PEERS = pathlib.Path(sys.executable)",
        "common.ask_peer('peer.py')",
    ]
    code = "; ".join(lines)
    process = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert process.returncode == 1 and message in process.stderr and "CalledProcessError" not in process.stderr
