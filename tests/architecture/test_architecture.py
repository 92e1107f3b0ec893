"""The rules of the architecture hold in every file, and each rule notices a breach."""

import queue
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparring.config.plugins import registry
from sparring.core.child_process import Mailbox
from tests.architecture import rules
from tests.cases import every_case

SOURCE = Path(__file__).parents[2] / "src" / "sparring"
FILES = sorted(SOURCE.rglob("*.py"))
ENVIRONMENTS = SOURCE / "environments"
BASES = [ENVIRONMENTS / name for name in ("base.py", "bank.py", "combining.py", "question.py", "drawing/canvas.py")]
INTERFACE = rules.documented_methods(path.read_text() for path in [*BASES, *(ENVIRONMENTS / "openspiel").glob("*.py")])
MAX_LINES = 1000  # largest number of lines of a file


def module(path):
    """Return a file's module as ``methods.credit.mars``; "" for the package itself."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


@every_case("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)), parts=16)
def test_every_file_keeps_the_rules(path):
    source = path.read_text()
    if module(path):
        assert rules.layering(module(path), source) == []
    assert rules.undocumented(source, INTERFACE if path.is_relative_to(ENVIRONMENTS) else frozenset()) == []
    assert rules.forbidden_uses(module(path), source) == []
    lines = source.count("\n")
    assert lines <= MAX_LINES, f"{lines} lines"
    for node in rules.functions(rules.parsed(source)):
        assert rules.length(node) <= 80, f"{node.name} has {rules.length(node)} lines"


def test_no_line_has_more_than_a_hundred_columns():
    files = {str(path.relative_to(SOURCE)): path.read_text().splitlines() for path in FILES}
    wide_lines = [
        (name, index) for name, lines in files.items() for index, line in enumerate(lines, 1) if len(line) > 100
    ]
    assert wide_lines == []


def test_the_page_of_the_architecture_has_every_package():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    packages_on_page = re.findall(r"^\| \d+ \| `([a-z_]+)` \|", page, re.MULTILINE)
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert sorted(packages_on_page) == sorted(packages) == sorted(rules.ORDER)
    assert [path.name for path in SOURCE.glob("*.py")] == ["__init__.py"]


def test_nobody_waits_with_a_timeout_on_a_simple_queue():
    """In CPython 3.11 a get with a timeout may never return; see ``Mailbox`` of core/child_process.py."""
    assert Mailbox is not queue.SimpleQueue
    assert [
        path.name for path in FILES if "SimpleQueue" in path.read_text() and "get(timeout" in path.read_text()
    ] == []


def test_only_the_openspiel_package_names_openspiel():
    files = (path for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert {
        str(path): lines
        for path in files
        if (lines := rules.openspiel_named(path.relative_to(SOURCE).as_posix(), path.read_text()))
    } == {}


@every_case(
    "text",
    [
        "def f(state):\n    return state.spiel.returns()",
        '"""Return a ``pyspiel.TabularPolicy``."""',
        "x = 1  # see game.spiel",
        "packages: [open_spiel]",
        "from open_spiel.python import games",
        "states.spiel_keys",
    ],
)
def test_a_name_of_openspiel_is_noticed_elsewhere(text):
    for path in (
        "environments/kuhn_poker.py",
        "measure/exploitability.py",
        "recipes/own.yaml",
        "environments/openspiel_own.py",
    ):
        assert rules.openspiel_named(path, text) != []
    assert rules.openspiel_named("environments/openspiel/base.py", text) == []
    spoken = "# OpenSpiel's MCTSBot\nfrom sparring.environments.openspiel.base import Game\nspiel = load(NAME)"
    assert rules.openspiel_named("methods/oracles/mcts.py", spoken) == []


@pytest.mark.slow
@pytest.mark.always
def test_only_games_over_openspiel_name_their_class():
    files = {path: rules.games_named(path.relative_to(SOURCE).as_posix(), path.read_text()) for path in FILES}
    assert {str(path): names for path, names in files.items() if names} == {}
    typing_import = "if TYPE_CHECKING:\n    from sparring.environments.openspiel.base import Game"
    assert rules.games_named("measure/oracle_regret.py", typing_import) and rules.games_named(
        "environments/talk.py", typing_import
    )
    assert (
        rules.games_named(
            "environments/nim.py", "from sparring.environments.openspiel.base import Game\nclass Nim(Game): ..."
        )
        == []
    )


@pytest.mark.slow
@pytest.mark.always
def test_no_modules_import_each_other_in_a_cycle():
    """Imports under TYPE_CHECKING are also counted."""
    project = SOURCE.parents[1]
    studies = {
        ".".join(path.relative_to(project).with_suffix("").parts): path.read_text()
        for path in (project / "studies").rglob("*.py")
    }
    assert (
        rules.import_cycle({f"sparring.{module(path)}".rstrip("."): path.read_text() for path in FILES} | studies) == []
    )
    typing_import = "if TYPE_CHECKING:\n    from sparring.a import A"
    assert rules.import_cycle({"sparring.a": "from sparring import b", "sparring.b": typing_import}) == [
        "sparring.a",
        "sparring.b",
        "sparring.a",
    ]
    assert rules.import_cycle({"sparring": "", "sparring.a": "import sparring", "sparring.b": typing_import}) == []


@every_case("path", sorted((SOURCE / "ops").glob("*.py")), ids=lambda path: path.name)
def test_ops_imports_only_mathematics(path):
    assert rules.non_mathematical_imports(path.read_text()) == []


@pytest.mark.parametrize(
    "source", ["import os", "from pathlib import Path", "from sparring.core.files import parse_json", "import torch"]
)
def test_other_imports_in_ops_are_noticed(source):
    assert rules.non_mathematical_imports(source) != []


def test_the_training_loop_names_no_method():
    names = {name for slot in ("credit", "losses", "rewards", "selection") for name in registry.names(slot)}
    for part in ("run", "learn", "engine"):
        for path in sorted((SOURCE / part).glob("*.py")):
            assert rules.named_methods(path.read_text(), names) == [], path


@every_case(
    ("where", "source"),
    [
        ("environments", "import torch"),
        ("environments", "from sparring.learn.learner import Learner"),
        ("play.store", "from sparring.run import loop"),
        ("methods.credit.mars", "from sparring.environments.openspiel.base import Game"),
        ("methods.credit", "from ..environments import base"),
        ("environments", "from .. import engine"),
        ("engine", "from sparring.run.loop import train"),
        ("ops", "def late():\n    import torch.nn"),
        ("methods.credit.mars", "from torch import nn"),
        ("report.page", "from sparring.models.samplers.base import Sampler"),
    ],
)
def test_an_import_of_a_higher_layer_is_noticed(where, source):
    assert rules.layering(where, source)


def test_imports_of_lower_layers_and_for_types_are_allowed():
    assert rules.layering("learn", "import torch\nfrom sparring.methods.credit.base import component") == []
    assert rules.layering("environments", "if TYPE_CHECKING:\n    from sparring.run.loop import train") == []


@every_case(
    "source",
    [
        "try:\n    pass\nexcept:\n    pass",
        "def f(x=[]):\n    pass",
        "print(1)",
        "import random\nrandom.seed(0)",
        "np.random.default_rng()",
        "np.random.Generator(np.random.Philox(0))",
        "import random as dice\ndice.shuffle(x)",
        "from numpy.random import default_rng\ndefault_rng()",
        "import numpy.random as draws\ndraws.rand()",
        "torch.rand(3)",
        "from torch import multinomial\nmultinomial(p, 1)",
        "weight.normal_()",
        "torch.nn.init.normal_(weight)",
        "torch.manual_seed(0)",
        "import pickle",
        "np.load(f, allow_pickle=True)",
        "yaml.load(f)",
        "os.system('ls')",
        "def f(x=dict()):\n    pass",
        "async def f(*, x=[]):\n    pass",
        "f = lambda x=[]: x",
        "import sys\nsys.stdout.write('1')",
        "torch.load(f)",
        "subprocess.run('ls', shell=True)",
        "eval('1')",
    ],
)
def test_forbidden_uses_are_noticed(source):
    assert rules.forbidden_uses("ops", source)


def test_allowed_uses_are_not_reported():
    assert rules.forbidden_uses("cli", "print(1)") == []
    assert rules.forbidden_uses("models", "torch.rand(3, generator=g)\nweight.normal_(generator=g)") == []
    assert rules.forbidden_uses("core.rng", "import numpy as np\nnp.random.Generator(np.random.Philox(key=1))") == []
    assert rules.forbidden_uses("play.players", "self.random.choose(x)\nstream.uniform(0)") == []


@pytest.mark.parametrize(
    "source",
    [
        '"""m"""\ndef f(x: int) -> int:\n    return x',
        '"""m"""\ndef f(x):\n    """d"""',
        '"""m"""\ndef f(*x, **y) -> None:\n    """d"""',
        '"""m"""\nclass A:\n    """d"""\n    async def f(self) -> None:\n        pass',
        "x = 1",
    ],
)
def test_missing_docstrings_are_noticed(source):
    assert rules.undocumented(source)


def test_a_method_of_an_interface_needs_no_docstring():
    source = '"""m"""\nclass A:\n    """d"""\n    def f(self) -> None:\n        pass'
    assert rules.undocumented(source, {"f"}) == [] != rules.undocumented(source, {"g"})
    assert rules.undocumented('"""m"""\ndef f(x: int) -> int:\n    return x', {"f"})


def test_a_named_method_is_noticed():
    assert rules.named_methods('"""mars"""\nif name == "mars":\n    pass', {"mars"}) == ["line 2: 'mars'"]
    assert rules.named_methods("from sparring.methods.credit import mars", {"mars"})
    assert rules.named_methods("from sparring.methods.credit.mars import mars as estimator", {"mars"})
    assert rules.named_methods("from sparring.methods.losses.base import LossBatch", {"mars"}) == []


@pytest.mark.slow
@pytest.mark.always
def test_the_library_imports_no_study_and_studies_use_only_public_names():
    study_imports = [
        str(path)
        for path in FILES
        if any(name.split(".")[0] in ("studies", "tests") for name, _ in rules.imports(rules.parsed(path.read_text())))
    ]
    assert study_imports == []
    studies = sorted((SOURCE.parents[1] / "studies").rglob("*.py"))
    private_imports = [
        (str(path), name)
        for path in studies
        for name, _ in rules.imports(rules.parsed(path.read_text()))
        if any(part.startswith("_") and part != "__future__" for part in name.split("."))
    ]
    assert len(studies) > 60 and private_imports == []


def test_packages_without_torch_do_not_import_it_indirectly():
    modules = [
        path
        for path in FILES
        if (name := module(path))
        and (
            not rules.within(name, (*rules.TORCH_PACKAGES, "api", "cli", "report"))
            or rules.within(name, rules.NO_TORCH)
        )
    ]
    names = [
        ".".join(("sparring", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for path in modules
    ]
    assert len(names) > 80
    code = f"import importlib, sys\nfor name in {names!r}:\n    importlib.import_module(name)\n    assert 'torch' not in sys.modules, name"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr.splitlines()[-1]
