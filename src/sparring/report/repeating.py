"""What repeats a run: its command, its commit, its configuration, its machine and packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.config.scale import FRESH
from sparring.report.page import folded, marked, paragraphs, table
from sparring.run.changes import CHANGES, START
from sparring.run.events import read_lines
from sparring.run.folder import CONFIG
from sparring.run.provenance import PROVENANCE, starts

STARTS = ("started", "after step", "command", "commit", "replies", "decoding")


def repeating(run: Path, config: Mapping[str, Any]) -> str:
    """Return how a run is repeated, and where it ran, as HTML."""
    begun = starts(run)
    parts = [_commands(begun), paragraphs(_conditions(config, begun)), _changes(run)]
    if begun:
        parts += ["<h3>Starts</h3>", table(STARTS, map(_start, begun))]
        parts += ["<h3>Machine and packages</h3>", _machines(begun)]
    else:
        parts.append(
            f'<p class="missing">{PROVENANCE} is missing or cannot be read: command, commit, '
            "machine and versions are not known.</p>"
        )
    return "".join(parts)


def configuration(run: Path) -> str:
    """Return the whole configuration, folded."""
    text = (run / CONFIG).read_text(encoding="utf-8", errors="replace")
    return folded(f"The whole configuration ({CONFIG})", f"<pre>{marked(text)}</pre>")


def _commands(begun: Sequence[Mapping[str, Any]]) -> str:
    """Return the commands that repeat a run."""
    lines = []
    first = begun[0] if begun else {}
    commit, command = str(first.get("commit") or ""), str(first.get("command") or "")
    if commit:
        lines.append(f"git checkout {commit.removesuffix('-dirty')}    # of Sparring")
    if command.startswith("sparring train"):
        lines.append(command)
    elif command:
        lines.append(f"# begun from Python: {command}")
    lines.append("# or, with the configuration below in a file run.yaml:")
    lines.append("sparring train run.yaml --run again")
    text = marked("\n".join(lines))
    return f'<pre class="wrapped">{text}</pre>'


def _conditions(config: Mapping[str, Any], begun: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return in sentences what must be alike for figures to be alike."""
    said = []
    commits = {str(start.get("commit")) for start in begun if start.get("commit")}
    if any(commit.endswith("-dirty") for commit in commits):
        said.append("The code had changes that were not committed, so the commit is not all of it.")
    if len(commits) > 1:
        said.append("The run went on with other code than it began with: see the starts.")
    scale = config.get("scale")
    if isinstance(scale, Mapping) and scale.get("order") == FRESH:
        said.append(
            "Plays were learnt from in the order in which they came (scale.order: fresh), so this "
            "run cannot be repeated: the same seed gives other figures. Pinned order repeats."
        )
        return said
    threads = config.get("threads")
    number = f"threads: {threads}" if threads else "threads: 0, one per core"
    said.append(
        f"The seed is {config.get('seed', 0)}. Metrics are the same bytes on one kind of machine "
        f"with one number of threads ({number}) and the same packages."
    )
    return said


def _changes(run: Path) -> str:
    """Return the settings that were changed while the run went on."""
    lines = [line for line in read_lines(run / CHANGES) if START not in line]
    if not lines:
        return ""
    rows = [
        (str(line.get("key")), str(line["step"]), str(line.get("old")), str(line.get("new")))
        for line in lines
    ]
    return "<h3>Changed while it ran</h3>" + table(("setting", "after step", "from", "to"), rows)


def _start(start: Mapping[str, Any]) -> list[str]:
    """Return a start as a row."""
    names = ("date", "after_step", "command", "commit", "replies", "decoding")
    return [_text(start.get(name)) for name in names]


def _machines(begun: Sequence[Mapping[str, Any]]) -> str:
    """Return the machines and packages of all starts as a table, a column for each that differs."""
    found: list[dict[str, str]] = []
    for start in begun:
        one = {"host": _text(start.get("host"))}
        for part in ("machine", "versions"):
            given = start.get(part)
            one |= {str(k): _text(v) for k, v in given.items()} if isinstance(given, dict) else {}
        if one not in found:
            found.append(one)
    names = list(dict.fromkeys(name for one in found for name in one))
    heads = [
        "",
        *(f"machine {n}" if len(found) > 1 else "machine" for n in range(1, len(found) + 1)),
    ]
    return table(heads, ([name, *(one.get(name, "-") for one in found)] for name in names))


def _text(value: Any) -> str:
    """Return a value of the provenance as text."""
    return "" if value is None else str(value)
