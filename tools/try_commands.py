"""Run the commands of the pages, as tools/commands.yaml says, with an empty home and empty caches.

With `--rotation` the pages of `ALWAYS` are tried, and of the others one group of commands in seven,
by the commit's hash. Each page gets a copy of the project. The README's commands run in a shell, as
a user types them. Those of other pages that begin with `sparring` run in a fork of this process,
which has imported what they need. Two pages are tried at a time, each by a process of its own. A
command that another page has too is run once: a page that comes to it waits for its end, and gets
copies of the runs that it left.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import multiprocessing
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from filelock import FileLock

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / ".ci"))

from commands import (
    QUERY,
    ROOT,
    Command,
    Entry,
    commands_in_pages,
    in_groups,
    read_table,
    table_problems,
    words,
)
from rotation import is_due

TYPED = "README.md"  # its commands run in a shell
ALWAYS = (TYPED, "docs/quickstart.md", "docs/your-own.md")
LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv*", "runs", "build", "dist", "*.egg-info"),
    *("__pycache__", ".*_cache", ".hypothesis"),
)
AUTHOR = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
AT_ONCE = 2  # pages
DAY = 86_400.0  # seconds that a command of documented size may take
SHOWN = 3_000  # characters of the output of a command that failed
ASK = "import sys, duckdb; print(duckdb.sql(sys.argv[1]))"


class Workshop:
    """A folder in which the commands of pages run.

    Args:
        folder: an empty folder.
        small: whether commands get what makes them small.
    """

    def __init__(self, folder: Path, *, small: bool) -> None:
        self.folder, self.small = folder, small
        self.failed: list[str] = []
        self._done = folder / "done"  # for each command that was run a folder with the runs it left
        self._done.mkdir()
        home = folder / "home"
        home.mkdir()
        os.environ.update(
            HOME=str(home),
            XDG_CACHE_HOME=str(home / "cache"),
            SPARRING_CACHE=str(home / "sparring"),
        )
        os.environ["PATH"] = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self._base = folder / "base"
        shutil.copytree(ROOT, self._base, ignore=LEFT_OUT)
        commit = (*AUTHOR, "commit", "--quiet", "--message", "A copy")
        for git in (("init", "--quiet"), ("add", "."), commit):  # a repository, as a clone is
            subprocess.run(["git", *git], cwd=self._base, check=True)
        (self._base / ".venv").symlink_to(sys.prefix)

    def prepare(self) -> None:
        """Make the run that pages call runs/demo, and import what forks need."""
        from sparring.cli.verbs import VERBS, command_of

        for verb in VERBS:
            command_of(verb)

        steps = ["steps=2", "store.every=1"] if self.small else []
        line = shlex.join(["sparring", "train", "demo", *steps, "--run", "runs/demo"])
        self._tell(Command(line, "runs/demo"), line, *self._forked(line, self._base, "", DAY))

    def try_pages(self, commands: Mapping[str, Sequence[tuple[Command, Entry]]]) -> None:
        """Run the commands of all pages, several pages at a time, those with most commands first."""
        context = multiprocessing.get_context("fork")
        pages, failed = context.SimpleQueue(), context.SimpleQueue()
        pages_by_length = sorted(commands, key=lambda page: len(commands[page]), reverse=True)
        for page in [*pages_by_length, *[None] * AT_ONCE]:
            pages.put(page)

        def work() -> None:
            self.failed = []
            while (page := pages.get()) is not None:
                self.try_page(page, commands[page])
            failed.put(self.failed)

        workers = [context.Process(target=work) for _ in range(AT_ONCE)]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            for worker in workers:
                worker.terminate()  # which ends what it has started
        for worker in workers:
            failure = ["a process that tries pages ended before its time"]
            self.failed += failed.get() if worker.exitcode == 0 else failure

    def try_page(self, page: str, commands: Iterable[tuple[Command, Entry]]) -> None:
        """Run the commands of one page in their order."""
        project = self.folder / page.replace("/", "-")
        shutil.copytree(self._base, project, symlinks=True)
        for command, entry in commands:
            if line := entry.line(small=self.small):
                self._once(project, command, entry, line)

    def _once(self, project: Path, command: Command, entry: Entry, line: str) -> None:
        """Run one line, or wait until another page has, and copy the runs that it left there."""
        done = self._done / hashlib.sha256(repr(command.key).encode()).hexdigest()
        with FileLock(f"{done}.lock"):
            if not done.exists():
                runs = self._try(project, command, entry, line)
                done.mkdir()
                for run in runs:
                    shutil.copytree(project / run, done / run)
        for run in _runs(done):
            if not (project / run).exists():
                shutil.copytree(done / run, project / run)

    def _try(self, project: Path, command: Command, entry: Entry, line: str) -> list[Path]:
        """Run one line, tell how it went, and return the runs that it made."""
        for name, text in entry.files.items():
            (project / name).write_text(text, encoding="utf-8")
        runs_before, limit = set(_runs(project)), float(entry.seconds) if self.small else DAY
        can_fork = line.startswith("sparring ") and command.page != TYPED
        status, output, seconds = (self._forked if can_fork else self._typed)(
            line, project, entry.input, limit
        )
        is_ok = status == entry.status and entry.expect in output and "Traceback" not in output
        if entry.expect not in output:
            output += f"\nIt does not say {entry.expect!r}, which tools/commands.yaml expects."
        self._tell(command, line, 0 if is_ok else status or 1, output, seconds)
        return sorted(set(_runs(project)) - runs_before)

    def _typed(
        self, line: str, project: Path, input_text: str, limit: float
    ) -> tuple[int, str, float]:
        """Run a line in a shell, or a query in DuckDB; return status, output and seconds."""
        is_query = line.startswith(QUERY)
        arguments = (
            [sys.executable, "-c", ASK, line.removeprefix(QUERY)]
            if is_query
            else ["bash", "-c", line]
        )
        with tempfile.TemporaryFile("w+") as output:
            start_time = time.monotonic()
            process = subprocess.Popen(
                arguments,
                cwd=project,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                text=True,
                start_new_session=True,
            )
            try:
                process.communicate(input_text, timeout=limit)
            except subprocess.TimeoutExpired:
                output.write(f"It ran for more than {limit:.0f} s.")
            finally:
                _end(process.pid)
                process.wait()
            output.seek(0)
            return process.returncode, output.read(), time.monotonic() - start_time

    def _forked(
        self, line: str, project: Path, input_text: str, limit: float
    ) -> tuple[int, str, float]:
        """Run `sparring ...` in a fork of this process; return status, output and seconds."""
        pid = os.getpid()  # pages are tried side by side
        output_file, input_file = self.folder / f"output-{pid}", self.folder / f"input-{pid}"
        input_file.write_text(input_text, encoding="utf-8")
        start_time = time.monotonic()
        process = multiprocessing.get_context("fork").Process(
            target=_sparring, args=(words(line), project, input_file, output_file)
        )
        process.start()
        try:
            process.join(limit)
        finally:
            is_late = process.is_alive()
            _end(process.pid)
            process.join()
        output = (
            output_file.read_text(encoding="utf-8", errors="replace")
            + f"It ran for more than {limit:.0f} s." * is_late
        )
        return process.exitcode or 0, output, time.monotonic() - start_time

    def _tell(self, command: Command, line: str, status: int, output: str, seconds: float) -> None:
        """Print how a command went; the end of its output if it failed."""
        print(
            f"{'FAILED' if status else 'ok':>6} {seconds:6.1f} s  {command.page}: {line}",
            flush=True,
        )
        if status:
            self.failed.append(f"{command.page}: {line} (status {status})")
            print(output[-SHOWN:], f"again: {repeating(command)}", sep="\n", flush=True)


def commands_to_try(
    commands: Iterable[Command], entries: Iterable[Entry], *, only: str, rotation: str, small: bool
) -> dict[str, list[tuple[Command, Entry]]]:
    """Return the commands to try, by page; with a command all those that it needs.

    Args:
        commands: all of them, in the order of the pages.
        entries: what the table says of them.
        only: a pattern of PAGE: COMMAND.
        rotation: HASH/PARTS, of which one part is tried besides the pages of `ALWAYS`; "" for all.
        small: whether commands get what makes them small.
    """
    entry_of = {words(entry.command): entry for entry in entries}
    pages: dict[str, list[tuple[Command, Entry]]] = {}
    for command in commands:
        pages.setdefault(command.page, []).append((command, entry_of[command.key]))
    by_page: dict[str, list[tuple[Command, Entry]]] = {}
    for page, rows in pages.items():
        is_always_run = page in ALWAYS
        for group in [rows] if is_always_run else in_groups(rows, small=small):
            # without the page: a command of two pages comes up at one commit, and runs once
            is_group_due = is_always_run or is_due(
                "\n".join(command.text for command, _ in group), rotation
            )
            if is_group_due and any(
                entry.line(small=small) and re.search(only, f"{page}: {command.text}")
                for command, entry in group
            ):
                by_page.setdefault(page, []).extend(group)
    order = {command: index for index, command in enumerate(commands)}
    return {page: sorted(rows, key=lambda row: order[row[0]]) for page, rows in by_page.items()}


def repeating(command: Command) -> str:
    """Return the line that tries a command again, with all that it needs."""
    pattern = re.sub(r"[^\w ,./:=-]", ".", f"{command.page}: {command.text}")
    return f"make commands ONLY='{pattern}'"


def _sparring(
    arguments: tuple[str, ...], project: Path, input_file: Path, output_file: Path
) -> None:
    """Run the command line in this process, which is a fork."""
    os.setsid()
    for stream, path, flags in (
        (0, input_file, os.O_RDONLY),
        (1, output_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        os.dup2(os.open(path, flags, 0o600), stream)
    os.dup2(1, 2)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(index, mode) for index, mode in enumerate("rww"))
    os.chdir(project)
    sys.argv = list(arguments)
    from sparring.cli import main

    main()


def _runs(project: Path) -> list[Path]:
    """Return the run folders of a project, relative to it."""
    folders = (path.parent for path in project.rglob("metrics.jsonl"))
    return [folder.relative_to(project) for folder in folders if (folder / "config.yaml").is_file()]


def _end(group: int | None) -> None:
    """Kill a process that leads a group, and all that it started and left behind."""
    if group:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def main() -> None:
    """Run the commands; exit with the names of those that failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--documented", action="store_true", help="as the pages have them, however long they take"
    )
    parser.add_argument("--only", default="", help="a pattern of PAGE: COMMAND")
    parser.add_argument("--rotation", default="", help="HASH/PARTS: the part of a commit; else all")
    parser.add_argument("--list", action="store_true", help="print the commands, and run none")
    arguments = parser.parse_args()
    small = not arguments.documented
    commands, entries = commands_in_pages(), read_table()
    if problems := table_problems(commands, entries):
        sys.exit(problems)
    by_page = commands_to_try(
        commands, entries, only=arguments.only, rotation=arguments.rotation, small=small
    )
    if arguments.list:
        for page, rows in by_page.items():
            print(
                *(f"{page}: {line}" for _, entry in rows if (line := entry.line(small=small))),
                sep="\n",
            )
        return
    start_time = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory(prefix="sparring-commands-") as folder:
        shop = Workshop(Path(folder).resolve(), small=small)
        shop.prepare()
        shop.try_pages(by_page)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_seconds = usage.ru_utime + usage.ru_stime
    print(
        f"{time.monotonic() - start_time:.0f} s, {processor_seconds:.0f} s of processors, {len(shop.failed)} failed"
    )
    sys.exit("\n".join(shop.failed) or None)


if __name__ == "__main__":
    main()
