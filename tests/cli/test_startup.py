"""What a process of a tiny run imports: every command, worker and learner waits for it."""

import json
import re
import subprocess
import sys

import pytest

MODELLING = re.compile(r"transformers\.(modeling_\w+|models\..*|generation.*|pytorch_utils)")
SIZES = ["threads=1", "steps=2", "rollout.games_per_step=8", "model.hidden_size=8", "model.layers=1", "model.heads=2", "evaluation.exact=false"]
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


def modelling(modules):
    return [name for name in modules if MODELLING.fullmatch(name)]


@pytest.mark.slow
@pytest.mark.always
def test_a_tiny_run_its_workers_and_learners_import_no_modelling_code(tmp_path):
    arguments = ["train", "kuhn-tiny", *SIZES, "--run", str(tmp_path / "run")]
    code = STAGES.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    stages = json.loads(done.stderr.splitlines()[-1])
    assert {stage: modelling(modules) for stage, modules in stages.items()} == {stage: [] for stage in stages}
    assert not {"torch", "transformers", "pyspiel", "pyarrow", "scipy"} & {*stages["help"]}
    assert len([name for name in stages["train"] if name.split(".")[0] == "sparring"]) <= 300
    late = {"ray", "sparring.engine.workers.fleet.ray", "sparring.engine.ranks.sharded", "sparring.measure.suite"}
    assert not late & {*stages["train"]}
    assert (tmp_path / "run" / "report.html").is_file()


def test_modelling_code_is_noticed():
    names = ["transformers.modeling_utils", "transformers.models.gpt2.modeling_gpt2", "transformers.generation", "transformers.pytorch_utils"]
    assert modelling(["torch", *names, "transformers.tokenization_utils_base"]) == names
