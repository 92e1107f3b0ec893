"""Names are nouns of the field, and a class name occurs only once."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests.architecture import rules

PROJECT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "benchmarks", "studies", "tools", "examples")
STORED = {  # options and fields that people have typed or that decide random draws keep their names
    "src/sparring/environments/ordinal_2x2/__init__.py": {"drawn"},
    "src/sparring/environments/repeated_dilemma.py": {"told"},
    "src/sparring/environments/wide_search/world.py": {"asked"},
    "src/sparring/league/matchmakers/meta_strategy.py": {"own"},
}
REPEATED_CLASSES = {"Engine"}  # vLLM's processes find their Engine by this name
REPEATED_MODULES = {
    "base",
    "__init__",
    "load",
    "loop",
    "play",
    "solvers",
}  # a command and the module that it calls, or a plug-in of a slot
CATALOGUES = ("environments/", "methods/", "play/players/", "play/plans/", "league/", "cli/")
pytestmark = [pytest.mark.slow, pytest.mark.always]


def sources(*folders):
    """Yield (path in the project, text) of every module of some folders."""
    for folder in folders:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            yield path.relative_to(PROJECT).as_posix(), path.read_text()


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_is_a_participle(folder):
    assert {
        path: names for path, source in sources(folder) if (names := rules.vague_names(source, STORED.get(path, set())))
    } == {}


def test_no_module_is_named_by_a_participle_or_like_another():
    words = rules.PARTICIPLES | {word.lower() for word in rules.NO_CLASS}
    assert [path for folder in FOLDERS for path, _ in sources(folder) if Path(path).stem in words] == []
    stems = defaultdict(list)
    for path, _ in sources("src"):
        inside = path.removeprefix("src/sparring/")
        if Path(path).stem not in REPEATED_MODULES and not inside.startswith(CATALOGUES):
            stems[Path(path).stem].append(inside)
    assert {stem: paths for stem, paths in stems.items() if len(paths) > 1} == {}


def test_a_class_name_is_used_once():
    classes = defaultdict(list)
    for path, source in sources("src"):
        for node in ast.walk(rules.parsed(source)):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(path)
    assert {name for name, paths in classes.items() if len(paths) > 1} == REPEATED_CLASSES


def test_no_docstring_has_a_fragment():
    assert {path: lines for path, source in sources("src") if (lines := rules.fragments(source))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "for one in rows:\n    pass",
        "def f(told): ...",
        "lambda own: 1",
        "[said for said in texts]",
        "with f() as kept:\n    pass",
        "try:\n    f()\nexcept E as given:\n    pass",
        "_asked: int = 0",
        "class Told: ...",
        "class _Whole: ...",
        "left = rows",
        "if (held := f()):\n    pass",
    ],
)
def test_a_vague_name_is_noticed(source):
    assert rules.vague_names(source)


def test_plain_names_and_sentences_are_allowed():
    assert rules.vague_names("left, right = 1, 2\nself.told = 1\nclass Episode:\n    def found(self): ...") == []
    assert rules.vague_names("told = 1", {"told"}) == []
    assert (
        rules.fragments('"""A module.\n\nIt does much."""')
        == ["line 1: ... It"]
        == rules.fragments('"""Do. It is\n    late."""')
    )
    assert rules.fragments('def f():\n    """Return rows.\n\n    Args:\n        x: A row. It is long.\n    """') == []
