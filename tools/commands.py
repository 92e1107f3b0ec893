"""Find every command in the pages, and read what tools/commands.yaml says of each.

`python tools/commands.py` prints the entries that the table lacks; tools/try_commands.py runs them.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools" / "commands.yaml"
SHELLS = {"bash", "sh", "shell", "console"}
PROGRAMS = ("sparring", "make", "pip", "python", "tensorboard", "git", "cd", "export")
QUERY = "duckdb: "  # how a block of SQL begins as a command
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(rf"`((?:{'|'.join(PROGRAMS[:5])})\s[^`]+)`")
VERB = re.compile(
    r"sparring (train|evaluate|play|show|explain|export|report|new|credit( \w+)?)"
)  # and no more
FATES = ("add", "long", "never")
# what a line may leave to later lines of its page: a run, a JSON file, or my-NAME
PATHS = re.compile(r"\bruns/[\w/-]+|\bmy-[\w-]+|[\w-]+\.json\b")
SHARED = "runs/demo"  # a run that every page has
SMALL = {  # what a suggested entry adds, by the first words of the command
    "sparring train": "steps=2",
    "sparring evaluate": "--games 2",
    "sparring credit compare": "--episodes 256",
    "sparring reproduce": "--quick",
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command as a page has it."""

    text: str
    page: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Its words: what makes two commands the same, however they are quoted."""
        return words(self.text)


@dataclass(frozen=True, slots=True)
class Entry:
    """What the table says of a command; one of ``add``, ``long`` and ``never`` is given.

    Args:
        command: as the pages have it.
        add: what `make check` adds to make it small; "" runs it as it is.
        long: why only `make check-all` runs it.
        never: why nothing runs it.
        where: what stands for its placeholders, e.g. {RUN: runs/demo}.
        input: what is typed while it runs.
        files: files that it reads and a user would have written, by path.
        seconds: how long it may take when small.
        status: its exit status.
        expect: what its output holds.
    """

    command: str
    add: str | None = None
    long: str = ""
    never: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    input: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    seconds: int = 300
    status: int = 0
    expect: str = ""

    def line(self, *, small: bool) -> str:
        """Return the line to run, or "" where this size is not run."""
        if self.never or (small and self.add is None):
            return ""
        line = self.command
        for name, value in self.where.items():
            line = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", lambda _, to=value: to, line)
        return f"{line} {self.add}".rstrip() if small else line


def words(text: str) -> tuple[str, ...]:
    """Return the words of a command as a shell reads them; those of a query as they stand."""
    if text.startswith(QUERY):
        return tuple(text.split())
    return tuple(shlex.split(text, comments=True))


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages whose commands are run: the README first, then in the order of a reader."""
    first_pages = [root / name for name in ("README.md", "docs/quickstart.md", "CONTRIBUTING.md")]
    folders = [(root / "docs").rglob("*.md"), (root / "studies").glob("*/page.md")]
    other_pages = [*map(sorted, folders), sorted((root / "benchmarks").glob("*.md"))]
    return [
        *first_pages,
        *(page for names_of in other_pages for page in names_of if page not in first_pages),
    ]


def commands_in_pages(root: Path = ROOT) -> list[Command]:
    """Return the commands of all pages in their order; one that a page repeats is named once."""
    commands: dict[tuple[str, ...], Command] = {}
    for page in pages(root):
        name = str(page.relative_to(root))
        for text in commands_of(page.read_text(encoding="utf-8")):
            commands.setdefault((name, *words(text)), Command(text, name))
    return list(commands.values())


def commands_of(text: str) -> Iterator[str]:
    """Yield the commands of a page in order: lines of code, queries, and code in sentences."""
    end = 0
    for block in FENCED.finditer(text):
        yield from _inline(text[end : block.start()])
        end = block.end()
        language, body = block.groups()
        if language == "sql":
            lines = (line.strip() for line in body.splitlines())
            yield QUERY + " ".join(line for line in lines if line and not line.startswith("--"))
        elif language in SHELLS or not language:
            yield from _lines(body, every=language in SHELLS)
    yield from _inline(text[end:])


def _inline(text: str) -> Iterator[str]:
    """Yield the commands that stand in sentences; a verb alone is the name of one."""
    for code in INLINE.findall(text):
        if not VERB.fullmatch(command := " ".join(code.split())):
            yield command


def _lines(body: str, *, every: bool) -> Iterator[str]:
    """Yield the commands of a code block; unless ``every`` line is one, those of known programs."""
    for line in re.sub(r"\\\n\s*", "", body).splitlines():
        first = line.split(maxsplit=1)[:1]
        if first and not line.startswith("#") and (every or first[0] in PROGRAMS):
            yield without_comment(line)


def without_comment(line: str) -> str:
    """Return a shell line up to its comment."""
    quote = ""
    for index, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (index == 0 or line[index - 1].isspace()):
            return line[:index].rstrip()
    return line.rstrip()


def read_table(path: Path = TABLE) -> list[Entry]:
    """Return the entries of the table.

    Raises:
        ValueError: an entry is not what `Entry` describes; the message names the command.
    """
    entries = [_entry(row) for row in yaml.safe_load(path.read_text(encoding="utf-8"))]
    seen: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        if seen.setdefault(words(entry.command), entry) is not entry:
            raise ValueError(f"{path.name} has two entries for: {entry.command}")
    return entries


def _entry(row: Mapping[str, Any]) -> Entry:
    """Return a row of the table as an entry, checked."""
    try:
        entry = Entry(**row)
    except TypeError as error:
        raise ValueError(f"{row}: {error}") from None
    if sum(fate in row for fate in FATES) != 1:
        raise ValueError(f"{entry.command}: say one of {', '.join(FATES)}")
    missing = [name for name in entry.where if name not in entry.command]
    if missing:
        raise ValueError(f"{entry.command}: it has no {', '.join(missing)}")
    return entry


def in_groups(
    commands: Iterable[tuple[Command, Entry]], *, small: bool
) -> list[list[tuple[Command, Entry]]]:
    """Return the commands of a page that run at this size, in groups that need no other group.

    A command joins the groups of earlier commands that make or name a run or a file that it names.
    """
    rows = [(command, entry) for command, entry in commands if entry.line(small=small)]
    groups: list[tuple[set[str], list[int]]] = []  # runs and files, and numbers of rows
    for number, (_, entry) in enumerate(rows):
        line = entry.line(small=small)
        paths_in_line = named_paths(line)
        connected_groups = [group for group in groups if group[0] & paths_in_line]
        paths = (paths_in_line | default_paths(line)).union(
            *(earlier for earlier, _ in connected_groups)
        )
        numbers = sorted([number, *(earlier for _, group in connected_groups for earlier in group)])
        groups = [*(group for group in groups if group not in connected_groups), (paths, numbers)]
    return [[rows[number] for number in numbers] for _, numbers in groups]


def named_paths(line: str) -> set[str]:
    """Return the runs and files that a line names, without the run that every page has."""
    return {path for path in PATHS.findall(line) if not f"{path}/".startswith(f"{SHARED}/")}


def default_paths(line: str) -> set[str]:
    """Return the run that a line makes without naming it."""
    recipe = re.match(r"sparring train ([\w/-]+)", line)
    if not recipe or "--run " in line:
        return set()
    seed = re.search(r"\sseed=(\d+)", line)
    return {f"runs/{recipe[1]}-seed{seed[1] if seed else 0}"}


def unknown(commands: Iterable[Command], entries: Iterable[Entry]) -> list[Command]:
    """Return the documented commands that the table lacks, each once."""
    keys_in_table = {words(entry.command) for entry in entries}
    return list(
        {command.key: command for command in commands if command.key not in keys_in_table}.values()
    )


def stale(commands: Iterable[Command], entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries whose command no page has any more."""
    keys_in_pages = {command.key for command in commands}
    return [entry for entry in entries if words(entry.command) not in keys_in_pages]


def suggestion(command: Command) -> str:
    """Return an entry for a command, as lines of the table."""
    additions = (addition for start, addition in SMALL.items() if command.text.startswith(start))
    row = {"command": command.text, "add": next(additions, "")}
    return yaml.safe_dump([row], sort_keys=False, width=10_000)


def table_problems(commands: list[Command], entries: list[Entry]) -> str:
    """Return what is wrong with the table and the lines that mend it; "" where it is right."""
    lines = []
    for command in unknown(commands, entries):
        lines += [
            f"tools/commands.yaml does not know a command of {command.page}; add:",
            suggestion(command),
        ]
    if lines:
        lines.append(
            "`add` is what makes it small, '' if it is. `long: WHY` in its place leaves the command "
            "to `make check-all`, `never: WHY` to nobody; tools/commands.py describes more."
        )
    lines += [
        f"No page has this any more; delete its entry in tools/commands.yaml: {entry.command}"
        for entry in stale(commands, entries)
    ]
    return "\n".join(lines)


def main() -> None:
    """Print what the table lacks, and fail if it lacks anything."""
    sys.exit(table_problems(commands_in_pages(), read_table()) or None)


if __name__ == "__main__":
    main()
