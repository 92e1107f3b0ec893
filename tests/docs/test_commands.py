"""Every command of the pages is in tools/commands.yaml, and failed commands are reported."""

import functools
import itertools
import os
import re
import shlex
import subprocess

import pytest

from sparring import config
from sparring.cli.verbs import VERBS
from sparring.config import recipe
from tests.docs.loading import load

FENCE = "`" * 3


table = load("tools", "commands")
try_module = load("tools", "try_commands")
rotation = load(".ci", "rotation")
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


def test_the_table_lists_exactly_the_commands_of_the_pages():
    entries, commands = table.read_table(), table.commands_in_pages()
    assert len(commands) > 50
    assert table.table_problems(commands, entries) == ""


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
    (tmp_path / "docs" / "quickstart.md").write_text("`sparring train 'credit={name: rae}'` and `sparring list`")
    entries = [table.Entry(command="sparring  'list'", add=""), table.Entry(command="make gone", add="")]
    complaint = table.table_problems(table.commands_in_pages(tmp_path), entries)
    assert "does not know a command of docs/quickstart.md; add:" in complaint
    assert "- command: 'sparring train ''credit={name: rae}'''\n  add: steps=2" in complaint
    assert "sparring list" not in complaint
    assert "delete its entry in tools/commands.yaml: make gone" in complaint


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
        command="sparring evaluate RUN --out RUNS seed=S", add="--games 2", where={"RUN": "runs/a", "S": "1"}
    )
    assert entry.line(small=True) == "sparring evaluate runs/a --out RUNS seed=1 --games 2"
    assert entry.line(small=False) == "sparring evaluate runs/a --out RUNS seed=1"
    long_entry, skipped_entry = (
        table.Entry(command="make x", long="hours"),
        table.Entry(command="make x", never="why"),
    )
    assert (long_entry.line(small=True), long_entry.line(small=False)) == ("", "make x")
    assert skipped_entry.line(small=True) == skipped_entry.line(small=False) == ""


def test_every_command_that_trains_has_a_valid_configuration():
    for entry in table.read_table():
        program, verb, *arguments = [*table.words(entry.line(small=True) or "make x")]
        assert program != "sparring" or verb in VERBS
        if (
            (program, verb) == ("sparring", "train")
            and not arguments[0].startswith("-")
            and not arguments[0].endswith(".yaml")
        ):
            words = [word for previous, word in itertools.pairwise(arguments) if previous != "--assume"]
            overrides = [word for word in words if "=" in word and not word.startswith("-")]
            config.resolve(recipe.apply_overrides(recipe.load_recipe(arguments[0]), overrides))


@pytest.fixture
def try_commands(monkeypatch, tmp_path):
    for name in ("HOME", "XDG_CACHE_HOME", "SPARRING_CACHE", "PATH"):
        monkeypatch.setenv(name, "as it was" if name != "PATH" else "/usr/bin:/bin")
    monkeypatch.setattr(try_module, "ROOT", tmp_path / "project")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "page.md").touch()
    (tmp_path / "shop").mkdir()
    return try_module.Workshop(tmp_path / "shop", small=True)


def try_page(try_commands, page, *rows):
    try_commands.try_page(
        page, [(table.Command(row["command"], page), table.Entry(**{"add": "", **row})) for row in rows]
    )
    return try_commands.failed


def test_commands_run_as_typed_in_an_empty_home(try_commands, tmp_path, capsys):
    commands = {
        "command": "read line && cat my-file && echo $line $HOME",
        "files": {"my-file": "written "},
        "input": "typed\n",
    }
    skipped = {"command": "nothing", "add": None, "never": "why"}
    assert (
        try_page(try_commands, "README.md", {**commands, "expect": f"written typed {tmp_path}/shop/home"}, skipped)
        == []
    )
    assert capsys.readouterr().out.count("\n") == 1


def test_a_failed_command_is_shown_with_its_output(try_commands, capsys):
    rows = [{"command": "echo out; exit 3"}, {"command": "echo x", "expect": "y"}, {"command": "exit 2", "status": 2}]
    rows += [{"command": "echo Traceback"}, {"command": "sleep 60", "seconds": 1}]
    failures = try_page(try_commands, "README.md", *rows)
    assert failures == [
        "README.md: echo out; exit 3 (status 3)",
        "README.md: echo x (status 1)",
        "README.md: echo Traceback (status 1)",
        "README.md: sleep 60 (status -9)",
    ]
    assert "\nout\n" in capsys.readouterr().out


def test_a_command_of_an_earlier_page_is_not_repeated(try_commands, tmp_path, capsys):
    training = {"command": "mkdir -p runs/a && touch runs/a/config.yaml runs/a/metrics.jsonl"}
    try_page(try_commands, "README.md", training)
    assert try_page(try_commands, "docs/a.md", training, {"command": "ls runs/a", "expect": "metrics.jsonl"}) == []
    assert capsys.readouterr().out.count("mkdir") == 1


def test_a_command_on_two_pages_tried_at_once_runs_once(try_commands, tmp_path):
    line = f"echo x >> {tmp_path}/ran; sleep 1; mkdir -p runs/a && touch runs/a/config.yaml runs/a/metrics.jsonl"
    check = "ls runs/a/metrics.jsonl"
    pages = {
        name: [(table.Command(text, name), table.Entry(command=text, add="")) for text in (line, f"{check} # {name}")]
        for name in ("README.md", "docs/a.md", "docs/b.md")
    }
    try_commands.try_pages(pages)
    assert try_commands.failed == [] and (tmp_path / "ran").read_text() == "x\n"


def test_a_forked_process_runs_the_command_line_with_its_status(try_commands):
    rows = [
        {"command": "sparring list slots-that-are-none", "status": 2},
        {"command": "sparring list players", "expect": "mcts"},
    ]
    assert try_page(try_commands, "docs/a.md", *rows) == []
    assert try_page(try_commands, "docs/b.md", {"command": "sparring explain no-such-name"}) != []


def test_pages_are_tried_side_by_side_and_every_failure_is_named(try_commands):
    def page(name, *commands):
        return [(table.Command(text, name), table.Entry(command=text, add="")) for text in commands]

    lines = {"README.md": ["exit 3"], "docs/a.md": ["true"], "docs/b.md": ["exit 4", "true"]}
    try_commands.try_pages({name: page(name, *commands) for name, commands in lines.items()})
    assert sorted(try_commands.failed) == ["README.md: exit 3 (status 3)", "docs/b.md: exit 4 (status 4)"]


def test_a_worker_process_that_dies_is_a_failure(try_commands):
    try_commands.try_pages({"docs/a.md": [(None, None)]})  # a missing command raises
    assert try_commands.failed == ["a process that tries pages ended before its time"]


def commits(parts):
    return [f"{0x1A2B3C4D + index:x}/{parts}" for index in range(parts)]


def rows_of(*lines, page="docs/a.md"):
    return [(table.Command(line, page), table.Entry(command=line, add="")) for line in lines]


def lines_of(groups):
    return [[command.text for command, _ in group] for group in groups]


@pytest.mark.parametrize("parts", [1, 5, 7])
def test_every_case_is_due_at_one_of_n_commits(parts):
    cases = [f"tests/test_a.py::test_b[{index}]" for index in range(100)]
    due_cases = [[case for case in cases if rotation.is_due(case, commit)] for commit in commits(parts)]
    assert sorted(itertools.chain(*due_cases)) == sorted(cases)
    assert all(rotation.is_due(case, "") for case in cases)


def test_when_a_case_is_due_depends_on_its_checksum_and_the_hash():
    # crc32(b"123456789") is 0xcbf43926, 3421780262: 2 more than a multiple of 5
    assert [commit for commit in "012345678" if rotation.is_due("123456789", f"{commit}/5")] == ["3", "8"]


@pytest.mark.parametrize("text", ["1a2b", "main/5", "1a2b/0", "/"])
def test_an_invalid_rotation_is_refused(text):
    with pytest.raises(ValueError, match="write 1a2b3c4d/5"):
        rotation.is_due("a", text)
    with pytest.raises(ValueError, match="write 1a2b3c4d/5"):
        rotation.why_interop(text, None)


def test_interop_runs_for_related_changes_and_one_commit_in_five():
    unrelated_files = ["docs/credit.md", "src/sparring/play/losses.py", "tests/methods/credit/test_critics.py"]
    turns = [rotation.why_interop(commit, unrelated_files) for commit in commits(5)]
    assert sorted(turns) == ["", "", "", "", "it is its turn"]
    for commit in commits(5):
        assert rotation.why_interop(commit, None) == "the parent of the commit is not here"
        reason = rotation.why_interop(commit, [*unrelated_files, "src/sparring/methods/losses/dapo.py"])
        assert reason == "the commit changes src/sparring/methods/losses/dapo.py"
    assert rotation.why_interop("", unrelated_files) == "everything runs"


def test_the_folders_that_interop_depends_on_exist():
    for folder in rotation.TOUCHES_INTEROP:
        assert (rotation.ROOT / folder).is_file() or list((rotation.ROOT / folder).glob("**/*.py")), folder


def test_changed_files_are_those_of_the_commit_and_none_without_a_parent(tmp_path):
    def git(*arguments):
        author = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
        line = ["git", *author, *arguments]
        return subprocess.run(line, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    assert rotation.changed_files("0", tmp_path) is None  # no repository
    git("init", "--quiet")
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
        git("add", name)
        git("commit", "--quiet", "--message", name)
    first_commit, second_commit, third_commit = git("rev-list", "--reverse", "HEAD").split()
    assert rotation.changed_files(third_commit[:8], tmp_path) == ["c"]
    assert rotation.changed_files(second_commit[:8], tmp_path) == ["b"]
    assert rotation.changed_files(first_commit[:8], tmp_path) is None
    (tmp_path / "b").write_text("not committed")
    assert rotation.changed_files(third_commit[:8], tmp_path) == ["b", "c"]


def test_commands_that_depend_on_each_other_form_one_group():
    training, other_training = "sparring train kuhn-tiny --run runs/a", "sparring train kuhn-tiny seed=1"
    lines = [
        training,
        other_training,
        "sparring show runs/demo",
        "sparring export runs/a my-model",
        "sparring list credit",
    ]
    lines += ["sparring evaluate --agent 'exported folder=my-model'", "sparring show runs/kuhn-tiny-seed1"]
    lines += ["sparring train kuhn-tiny"]
    lines += ["sparring train teams.yaml", "sparring play runs/teams-seed0", "sparring report runs/demo/x"]
    skipped = (table.Command("make x", "docs/a.md"), table.Entry(command="make x", never="why"))
    groups = lines_of(table.in_groups([skipped, *rows_of(*lines)], small=True))
    assert sorted(groups) == sorted(
        [
            [training, "sparring export runs/a my-model", "sparring evaluate --agent 'exported folder=my-model'"],
            [other_training, "sparring show runs/kuhn-tiny-seed1"],
            ["sparring train teams.yaml", "sparring play runs/teams-seed0"],
            *([line] for line in ("sparring show runs/demo", "sparring list credit", "sparring train kuhn-tiny")),
            ["sparring report runs/demo/x"],
        ]
    )
    lines = ["sparring train a --run runs/a", "sparring train b --run runs/b", "sparring report runs/a runs/b"]
    assert lines_of(table.in_groups(rows_of(*lines), small=True)) == [lines]


@functools.cache
def pages_and_table():
    return table.commands_in_pages(), table.read_table()


def pages_of_commands():
    commands, entries = pages_and_table()
    entry_by_words = {table.words(entry.command): entry for entry in entries}
    rows = [(command, entry_by_words[command.key]) for command in commands]
    return {page: list(of_page) for page, of_page in itertools.groupby(rows, key=lambda row: row[0].page)}


def test_every_run_that_a_command_reads_is_made_earlier_on_its_page():
    reads = re.compile(r"sparring (evaluate|show|play|report|export) ")
    missing_runs = []
    for page, rows in pages_of_commands().items():
        for group in table.in_groups(rows, small=True):
            existing_runs = set()
            for command, entry in group:
                line = entry.line(small=True)
                runs = {name for name in table.named_paths(line) if name.startswith("runs/")}
                if reads.match(line) and runs - existing_runs:
                    missing_runs.append(f"{page}: {command.text}")
                existing_runs |= runs | table.default_paths(line)
    assert missing_runs == []


def chosen_commands(commit="", only=""):
    pages = try_module.commands_to_try(*pages_and_table(), only=only, rotation=commit, small=True)
    return [(page, command.text) for page, rows in pages.items() for command, _ in rows]


def test_each_command_is_due_at_one_commit_in_seven_or_at_every_one():
    commands_by_commit = [chosen_commands(commit) for commit in commits(7)]
    all_rows = chosen_commands()
    commands_of_every_commit = [row for row in all_rows if row[0] in try_module.ALWAYS]
    assert {page for page, _ in commands_of_every_commit} == set(try_module.ALWAYS)
    rotated = [[row for row in commands if row[0] not in try_module.ALWAYS] for commands in commands_by_commit]
    assert sorted(commands_of_every_commit + list(itertools.chain(*rotated))) == sorted(all_rows)
    for commands in commands_by_commit:
        assert [row for row in commands if row[0] in try_module.ALWAYS] == commands_of_every_commit
        assert commands == [row for row in all_rows if row in commands]  # in the order of the pages
    assert max(map(len, rotated)) < len(all_rows) / 3


def test_a_command_of_two_pages_is_due_on_both_together():
    for commit in commits(7):
        rows = [row for row in chosen_commands(commit) if row[1] == "sparring reproduce credit-lab"]
        assert len(rows) in (0, 2)


def test_a_failed_command_prints_the_line_that_repeats_it(try_commands, capsys):
    try_page(try_commands, "docs/a.md", {"command": """(exit 3) # 'x' "$y" a=[1]"""})
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == """again: make commands ONLY='docs/a.md: .exit 3. . .x. ..y. a=.1.'"""
    text = """sparring evaluate runs/league --opponent "mixture 'players={random: 1, cfr: 1}'\""""
    program, target, pattern = shlex.split(try_module.repeating(table.Command(text, "docs/league.md")))
    assert (program, target) == ("make", "commands")
    selected_commands = [command for _, command in chosen_commands(only=pattern.removeprefix("ONLY="))]
    assert "--run runs/league" in selected_commands[0] and text in selected_commands and len(selected_commands) == 4
    assert chosen_commands(only="README.md: make test") == []


def run_make(*arguments):
    inherited = ("MAKE", "MFLAGS", "ROTATION", "COMMIT", "ONLY")  # variables of the make that runs the tests
    environment = {name: value for name, value in os.environ.items() if not name.startswith(inherited)}
    line = ["make", "--no-print-directory", *arguments]
    return subprocess.run(line, cwd=rotation.ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def test_clean_removes_every_environment_that_a_target_makes():
    environments = set(re.findall(r"\.venv[\w-]*", (rotation.ROOT / "Makefile").read_text(encoding="utf-8")))
    assert {".venv", ".venv-wheel", ".venv-verl", ".venv-peers"} <= environments
    assert environments <= set(run_make("--dry-run", "clean").split())


def test_help_has_a_line_for_every_target():
    text = (rotation.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.*)", text, re.MULTILINE)[1].split()) - {"interop-in-turn"}
    rows = [line.split("  ", 1) for line in run_make("help").splitlines()]
    assert sorted(target for names, _ in rows for target in names.split()) == sorted(targets)
    assert all(0 < len(line.strip()) < 100 for _, line in rows)


def test_a_commit_or_rotation_selects_and_an_empty_one_selects_all():
    def make_options(*arguments):
        line = run_make("--dry-run", "--old-file=models", "commands", *arguments).splitlines()[-1]
        return line.partition("try_commands.py ")[2]

    assert make_options("ROTATION=1a2b3c4d") == make_options("COMMIT=1a2b3c4d5e6f") == "--rotation '1a2b3c4d/7'"
    assert make_options("ROTATION=") == "--rotation ''"
    assert make_options("ONLY=docs/suites.md", "ROTATION=1a2b3c4d") == "--only 'docs/suites.md'"


def test_a_failed_check_stops_and_prints_the_seconds_of_its_parts(tmp_path):
    make_variables = ("FIRST=help no-such-target", "PAIRED=help", "LAST=help", f"PART_SECONDS={tmp_path}/seconds")
    with pytest.raises(subprocess.CalledProcessError) as error_info:
        run_make("check", *make_variables)
    lines = error_info.value.output.splitlines()[-3:]  # as the last part ended, and the table
    assert re.fullmatch(r"no-such-target +\d+ s, +\d+ s of processors, failed", lines[0])
    assert re.fullmatch(r"help +\d+ s, +\d+ s of processors", lines[1]) and lines[2] == lines[0]


def test_a_part_writes_its_output_status_and_seconds(tmp_path):
    seconds = tmp_path / "seconds"
    for command, status in (("echo out; echo err >&2", 0), ("exit 3", 3)):
        process = subprocess.run(
            [rotation.ROOT / ".ci" / "part", f"part-{status}", "bash", "-c", command],
            env={**os.environ, "PART_SECONDS": str(seconds)},
            capture_output=True,
            text=True,
        )
        assert process.returncode == status
        assert status or (process.stdout.startswith("out\n") and process.stderr == "err\n")
    lines = seconds.read_text().splitlines()
    assert re.fullmatch(r"part-0 +\d+ s, +\d+ s of processors", lines[0])
    assert re.fullmatch(r"part-3 +\d+ s, +\d+ s of processors, failed", lines[1])
