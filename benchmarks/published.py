"""Where a benchmark's results belong; their format is `studies/common/results_file.py`'s.

The defaults of a script are the published setting. Only a run with all of them writes to
benchmarks/results; with any other option it writes to runs/results, so a small trial replaces
nothing that is published. `--out FILE` writes there in any case.
"""

import os
import shlex
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sparring.run.provenance import code_commit
from studies.common.results_file import (
    INTERVAL,
    KEYS,
    as_text,
    faults,
    row_faults,
    software_and_machine,
)

__all__ = ["INTERVAL", "KEYS", "faults", "row_faults"]
RESULTS = ROOT / "benchmarks" / "results"
TRIALS = ROOT / "runs" / "results"
FREE = {"workers", "folder", "out"}  # options that change no figure
PLACES = {"--folder", "--out"}  # of these, options that name a place on this machine


def settings(parser, *free, quick=None):
    """Read the command line; say where its results belong, and from which code they come.

    Args:
        parser: the script's options; their defaults are the published setting. `--out` and
            `--quick` are added.
        free: names of options that choose between published files, e.g. the study of several.
        quick: options at their smallest size, by name: what `--quick` gives those that are left
            out. A script may make more of it smaller by `given.quick`.

    Returns:
        The options, with `out` (where to write) and `source` (the fields of a results file).
    """
    parser.add_argument(
        "--quick", action="store_true", help="the smallest size, for a moment: it measures nothing"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="write the results to this file; else benchmarks/results, or runs/results of a trial",
    )
    options = parser.parse_args()
    for name, value in (quick or {}).items() if options.quick else ():
        if same(getattr(options, name), parser.get_default(name)):
            setattr(options, name, value)
    named = {name: value for name, value in vars(options).items() if name not in FREE}
    if not named["quick"]:
        del named["quick"]
    whole = all(
        same(value, parser.get_default(name)) for name, value in named.items() if name not in free
    )
    options.out = options.out or (RESULTS if whole else TRIALS)
    options.source = {**provenance(), "setting": named}
    return options


def same(value, default):
    """Return whether an option has its default; a tuple may stand for a list."""
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        return list(value) == list(default)
    return value == default


def provenance():
    """Return the command line, commit, versions, machine and date of this process."""
    command = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *portable(sys.argv[1:])]
    return {
        "command": shlex.join(command).replace(str(ROOT) + os.sep, ""),
        "commit": code_commit(),
        **software_and_machine(),
        "date": time.strftime("%Y-%m-%d"),
    }


def portable(words):
    """Return the words of a command line without those that name a place on this machine alone."""
    result, skip = [], False
    for word in words:
        name, _, value = word.partition("=")
        if not skip and name not in PLACES:
            result.append(word)
        skip = name in PLACES and not value
    return result


def record(name, rows, options, **more):
    """Print rows and write them with their source to `given.out`, a file, or NAME.json there.

    Args:
        name: the file's name without `.json`.
        rows: see the top of this file.
        given: from `settings`.
        more: fields in place of this process's, as the commit of kept runs; or a `note`.

    Raises:
        ValueError: the rows are not what a results file may hold.
    """
    document = {**options.source, **more, "rows": rows}
    wrong = faults(document)
    if wrong:
        raise ValueError(f"{name}: " + " ".join(wrong))
    path = options.out if options.out.suffix == ".json" else options.out / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_text(document), encoding="utf-8")
    for row in rows:
        print(", ".join(f"{label}: {brief(value)}" for label, value in row.items()))
    print(f"Written to {path}.")
    return path


def brief(value):
    """Return a value as text for the terminal: numbers with four digits, nested ones too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{label}: {brief(inner)}" for label, inner in value.items()) + "}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
