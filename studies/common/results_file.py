"""The format of results files, from which pages take their figures.

A file is a JSON object with `command`, `setting`, `commit` (`-dirty` if code differs from it),
`versions`, `machine`, `date` and `rows`. A row has labels. If a study has several seeds, it also
has `values`: {figure: {seed: value}}; pages compute intervals from them. The interval of one run
over its games is in `intervals`: {figure: [low, high]}. If the values per seed were not kept,
`text` has the printed figure, and the `note` of the file says so.

Every row with a figure of skill (return, share solved or won, NashConv, best moves, ...) has a
column `starts`, which says from which initial states it was measured:

    unseen   initial states that do not occur in training
    seen     initial states that occur, or may occur, in training
    all      every initial state, exactly; or an environment with one initial state;
             or initial states drawn from all possible ones
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from sparring.environments.openspiel import OPENSPIEL

KEYS = ("command", "setting", "commit", "versions", "machine", "date", "rows")
STARTS = ("unseen", "seen", "all")
PACKAGES = ("sparring", "torch", "transformers", "numpy", OPENSPIEL)
# numbers in a row without `starts`: speeds, sizes, and what they are compared with
SPEED_COLUMNS = {
    *("turns/s", "TextArena turns/s", "tokens/s", "bare tokens/s", "play tokens/s"),
    *("sampled tokens/s", "forward tokens/s", "update tokens/s", "rollouts/s", "TRL rollouts/s"),
    *("bare rollouts/s", "simulations_per_second", "seconds", "released", "worst_ms", "each_ms"),
    *("worst_share", "first_share", "ratio", "efficiency", "prefill ratio", "distinct share"),
    *("error", "aim", "games", "turns", "positions", "new tokens", "conversation tokens"),
    *("peak GiB of play", "peak GiB"),
    *("modelled seconds", "plays/s", "share in play", "share learning", "share in messages"),
    *("lag, mean", "lag, most", "withheld", "load"),
    *("ms/turn", "library ms/turn", "loop ms/turn", "added ms/turn"),
    *("lost share", "memory ratio", "largest file, MiB", "all files, MiB", "written, MiB"),
}
UNITS = ("ms", "share", "x", "verdicts/s", "look-ups/s")  # units of rows with `value` and `unit`
LOST_NOTE = "per-seed values were not kept"
INTERVAL = re.compile(r"-?\d\.\d+ \[-?\d")


def as_text(document: Mapping[str, Any]) -> str:
    """Return the text of a results file: a line for each field and each row."""
    fields = {key: json.dumps(value) for key, value in document.items() if key != "rows"}
    rows = ",\n".join(f"  {json.dumps(row)}" for row in document["rows"])
    lines = [f" {json.dumps(key)}: {text}" for key, text in fields.items()]
    return "{\n" + ",\n".join([*lines, f' "rows": [\n{rows}\n ]']) + "\n}\n"


def software_and_machine() -> dict[str, Any]:
    """Return the versions and the machine of this process."""
    installed = {
        distribution.metadata["Name"].replace("-", "_") for distribution in metadata.distributions()
    }
    packages = {name: metadata.version(name) for name in PACKAGES if name in installed}
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "processor": processor_name(),
    }
    return {"versions": {"python": platform.python_version(), **packages}, "machine": machine}


def processor_name() -> str:
    """Return the name of the processor, or its architecture if the name is unknown."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1] if match else platform.processor()


def errors_of(document: Mapping[str, Any]) -> list[str]:
    """Return the errors of a published results file, in words."""
    messages = [f"It lacks '{key}'." for key in KEYS if key not in document]
    if len(str(document.get("command", "")).split()) < 2:
        messages.append("Its 'command' is not a whole command line.")
    if not re.match(r"[0-9a-f]{7,40}(-dirty)?$", str(document.get("commit", ""))):
        messages.append(f"Its 'commit' is {document.get('commit')!r}; write the hash of one.")
    if "python" not in document.get("versions", {}):
        messages.append("Its 'versions' lack 'python'.")
    rows = document.get("rows") or []
    for index, row in enumerate(rows):
        messages += [f"Row {index}: {error}" for error in errors_of_row(row)]
    if any("text" in row for row in rows) and LOST_NOTE not in document.get("note", ""):
        messages.append(f"Rows have 'text'; say in 'note' that {LOST_NOTE}.")
    return messages


def errors_of_row(row: Mapping[str, Any]) -> list[str]:
    """Return the errors of one row."""
    return [*_errors_of_starts(row), *_errors_of_values(row)]


def _errors_of_starts(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield errors in a row's column `starts`."""
    skill = ", ".join(f"'{name}'" for name in row if not is_label_or_speed(name, row))
    if "starts" not in row and skill:
        yield f"{skill} may be figures of skill; say on which 'starts' they were measured."
    if "starts" in row and row["starts"] not in STARTS:
        yield f"'starts' is {row['starts']!r}; write one of {', '.join(STARTS)}."


def _errors_of_values(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield errors in a row's figures."""
    for name, value in row.items():
        if isinstance(value, str) and INTERVAL.search(value):
            yield f"'{name}' is an interval in words; keep 'values' per seed."
    for name, values in row.get("values", {}).items():
        if not isinstance(values, dict):
            yield f"'{name}' is not a map from seeds to values."


def is_label_or_speed(name: str, row: Mapping[str, Any]) -> bool:
    """Return whether an entry is a label, a speed, or a number that a speed is compared with."""
    if name == "value":
        return row.get("unit") in UNITS
    return name in SPEED_COLUMNS or isinstance(row[name], str)
