"""Every command of the pages is in docs/commands.yaml, and one that fails is noticed."""


import itertools

import pytest

from sparring import config, recipe
from sparring.cli.verbs import VERBS
from tests.docs.loading import load

FENCE = "`" * 3


table = load("docs", "commands")
trying = load("docs", "try_commands")
PAGE = f"""Type `sparring explain
NAME`, see `sparring.interop`, `sparring train` and `runs/demo`.

{FENCE}
sparring train demo 'a=#1' \\
    seed=1     # a comment
src/sparring/   is no command
{FENCE}

{FENCE}bash
# a comment
export A=1
{FENCE}

{FENCE}sql
-- duckdb
SELECT 1
  FROM t;
{FENCE}

{FENCE}yaml
make: nothing
{FENCE}
Then `make demo`.
"""


# -- the table


def test_the_table_knows_every_command_of_the_pages_and_no_other():
    entries, commands = table.read_table(), table.documented()
    assert len(commands) > 50
    assert table.complaint(commands, entries) == ""


def test_commands_are_found_in_blocks_and_in_sentences():
    assert list(table.commands_of(PAGE)) == [
        "sparring explain NAME",
        "sparring train demo 'a=#1' seed=1",
        "export A=1",
        "duckdb: SELECT 1 FROM t;",
        "make demo",
    ]


def test_an_unknown_command_is_refused_with_the_entry_to_add(tmp_path):
    for page in ("README.md", "CONTRIBUTING.md"):
        (tmp_path / page).write_text("`sparring list`")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "quickstart.md").write_text(
        "`sparring train 'credit={name: rae}'` and `sparring list`"
    )
    known = [
        table.Entry(command="sparring  'list'", add=""),
        table.Entry(command="make gone", add=""),
    ]
    said = table.complaint(table.documented(tmp_path), known)
    assert "does not know a command of docs/quickstart.md; add:" in said
    assert "- command: 'sparring train ''credit={name: rae}'''\n  add: steps=2" in said
    assert "sparring list" not in said
    assert "delete its entry in docs/commands.yaml: make gone" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {command: make x}", "say one of add, long, never"),
        ("- {command: make x, add: '', never: why}", "say one of add, long, never"),
        ("- {command: make x, ad: ''}", "unexpected keyword argument 'ad'"),
        ("- {command: make x, add: '', where: {RUN: a}}", "it has no RUN"),
        ("- {command: make x, add: ''}\n- {command: make  x, add: ''}", "two entries for: make  x"),
    ],
)
def test_a_wrong_entry_is_refused(tmp_path, text, message):
    (tmp_path / "table.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        table.read_table(tmp_path / "table.yaml")


def test_an_entry_gives_the_line_to_run():
    entry = table.Entry(
        command="sparring evaluate RUN --out RUNS seed=S",
        add="--games 2",
        where={"RUN": "runs/a", "S": "1"},
    )
    assert entry.line(small=True) == "sparring evaluate runs/a --out RUNS seed=1 --games 2"
    assert entry.line(small=False) == "sparring evaluate runs/a --out RUNS seed=1"
    long, never = (
        table.Entry(command="make x", long="hours"),
        table.Entry(command="make x", never="why"),
    )
    assert (long.line(small=True), long.line(small=False)) == ("", "make x")
    assert never.line(small=True) == never.line(small=False) == ""


def test_every_command_that_trains_has_a_valid_configuration():
    for entry in table.read_table():
        program, verb, *rest = [*table.words(entry.line(small=True) or "make x")]
        assert program != "sparring" or verb in VERBS
        if (
            (program, verb) == ("sparring", "train")
            and not rest[0].startswith("-")
            and not rest[0].endswith(".yaml")
        ):
            after = [word for before, word in itertools.pairwise(rest) if before != "--assume"]
            overrides = [word for word in after if "=" in word and not word.startswith("-")]
            config.resolve(recipe.apply_overrides(recipe.load_recipe(rest[0]), overrides))


# -- running


@pytest.fixture
def shop(monkeypatch, tmp_path):
    for name in ("HOME", "XDG_CACHE_HOME", "SPARRING_CACHE", "PATH"):
        monkeypatch.setenv(name, "as it was" if name != "PATH" else "/usr/bin:/bin")
    monkeypatch.setattr(trying, "ROOT", tmp_path / "project")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "page.md").touch()
    (tmp_path / "shop").mkdir()
    return trying.Workshop(tmp_path / "shop", small=True)


def tried(shop, page, *rows):
    shop.try_page(
        page,
        [(table.Command(row["command"], page), table.Entry(**{"add": "", **row})) for row in rows],
    )
    return shop.failed


def test_commands_run_as_typed_in_an_empty_home(shop, tmp_path, capsys):
    typed = {
        "command": "read line && cat my-file && echo $line $HOME",
        "files": {"my-file": "written "},
        "input": "typed\n",
    }
    left_out = {"command": "nothing", "add": None, "never": "why"}
    assert (
        tried(
            shop, "README.md", {**typed, "expect": f"written typed {tmp_path}/shop/home"}, left_out
        )
        == []
    )
    assert capsys.readouterr().out.count("\n") == 1


def test_a_command_that_fails_is_told_with_its_output(shop, capsys):
    rows = [
        {"command": "echo out; exit 3"},
        {"command": "echo x", "expect": "y"},
        {"command": "exit 2", "status": 2},
    ]
    rows += [{"command": "echo Traceback"}, {"command": "sleep 60", "seconds": 1}]
    failed = tried(shop, "README.md", *rows)
    assert failed == [
        "README.md: echo out; exit 3 (status 3)",
        "README.md: echo x (status 1)",
        "README.md: echo Traceback (status 1)",
        "README.md: sleep 60 (status -9)",
    ]
    assert "\nout\n" in capsys.readouterr().out


def test_a_command_of_an_earlier_page_is_not_run_again_and_its_runs_are_there(
    shop, tmp_path, capsys
):
    made = {
        "command": "mkdir -p runs/a && touch runs/a/config.yaml runs/a/metrics.jsonl"
    }
    tried(shop, "README.md", made)
    assert tried(shop, "docs/a.md", made, {"command": "ls runs/a", "expect": "metrics.jsonl"}) == []
    assert capsys.readouterr().out.count("mkdir") == 1


def test_a_command_of_two_pages_is_run_once_where_both_are_tried_at_once(shop, tmp_path):
    line = f"echo x >> {tmp_path}/ran; sleep 1; mkdir -p runs/a && touch runs/a/config.yaml runs/a/metrics.jsonl"
    check = "ls runs/a/metrics.jsonl"
    pages = {
        name: [(table.Command(text, name), table.Entry(command=text, add="")) for text in (line, f"{check} # {name}")]
        for name in ("README.md", "docs/a.md", "docs/b.md")
    }
    shop.try_pages(pages)
    assert shop.failed == [] and (tmp_path / "ran").read_text() == "x\n"


def test_a_fork_runs_the_command_line_with_its_status(shop):
    rows = [
        {"command": "sparring list slots-that-are-none", "status": 2},
        {"command": "sparring list players", "expect": "mcts"},
    ]
    assert tried(shop, "docs/a.md", *rows) == []
    assert tried(shop, "docs/b.md", {"command": "sparring explain no-such-name"}) != []


def test_pages_are_tried_side_by_side_and_every_failure_is_named(shop):
    def page(name, *commands):
        return [(table.Command(text, name), table.Entry(command=text, add="")) for text in commands]

    lines = {"README.md": ["exit 3"], "docs/a.md": ["true"], "docs/b.md": ["exit 4", "true"]}
    shop.try_pages({name: page(name, *commands) for name, commands in lines.items()})
    assert sorted(shop.failed) == ["README.md: exit 3 (status 3)", "docs/b.md: exit 4 (status 4)"]


def test_a_process_that_ends_before_its_time_is_a_failure(shop):
    shop.try_pages({"docs/a.md": [(None, None)]})  # no command: it raises
    assert shop.failed == ["a process that tries pages ended before its time"]
