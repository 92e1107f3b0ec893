"""Where benchmarks write their results, in the format of `studies/common/results_file.py`.

The default options of a script are the published setting. Only a run with all defaults writes to
benchmarks/results. With any other option it writes to runs/results, so a small trial does not
replace published results. `--out FILE` always writes to FILE.
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
    errors_of,
    errors_of_row,
    software_and_machine,
)

__all__ = ["INTERVAL", "KEYS", "errors_of", "errors_of_row"]
RESULTS = ROOT / "benchmarks" / "results"
TRIALS = ROOT / "runs" / "results"
FREE_OPTIONS = {"workers", "folder", "out"}  # options that do not change the results
PATH_OPTIONS = {"--folder", "--out"}  # those of them that name a path on this machine


def settings(parser, *free, quick=None):
    """Read the command line; add where results are written and the code that computes them.

    Args:
        parser: the script's options; their defaults are the published setting. `--out` and
            `--quick` are added.
        free: names of options that choose between published files, e.g. the study of several.
        quick: smallest value of options, by name: `--quick` sets those that the command line
            does not. A script can make other things smaller if `options.quick` is true.

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
        if is_default(getattr(options, name), parser.get_default(name)):
            setattr(options, name, value)
    options_by_name = {
        name: value for name, value in vars(options).items() if name not in FREE_OPTIONS
    }
    if not options_by_name["quick"]:
        del options_by_name["quick"]
    is_full_setting = all(
        is_default(value, parser.get_default(name))
        for name, value in options_by_name.items()
        if name not in free
    )
    options.out = options.out or (RESULTS if is_full_setting else TRIALS)
    options.source = {**provenance(), "setting": options_by_name}
    return options


def is_default(value, default):
    """Return whether an option has its default; a tuple may stand for a list."""
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        return list(value) == list(default)
    return value == default


def provenance():
    """Return the command line, commit, versions, machine and date of this process."""
    command = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *without_local_paths(sys.argv[1:])]
    return {
        "command": shlex.join(command).replace(str(ROOT) + os.sep, ""),
        "commit": code_commit(),
        **software_and_machine(),
        "date": time.strftime("%Y-%m-%d"),
    }


def without_local_paths(words):
    """Return the words of a command line without options that name a path on this machine."""
    result, skip = [], False
    for word in words:
        name, _, value = word.partition("=")
        if not skip and name not in PATH_OPTIONS:
            result.append(word)
        skip = name in PATH_OPTIONS and not value
    return result


def record(name, rows, options, **more):
    """Print rows and write them with their source to the file `options.out`, or to NAME.json in it.

    Args:
        name: the file's name without `.json`.
        rows: the result rows.
        options: the return value of `settings`.
        more: fields that replace those of this process, e.g. a stored commit; or a `note`.

    Raises:
        ValueError: the rows do not have the format of a results file.
    """
    document = {**options.source, **more, "rows": rows}
    wrong = errors_of(document)
    if wrong:
        raise ValueError(f"{name}: " + " ".join(wrong))
    path = options.out if options.out.suffix == ".json" else options.out / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_text(document), encoding="utf-8")
    for row in rows:
        print(", ".join(f"{label}: {text_of_value(value)}" for label, value in row.items()))
    print(f"Written to {path}.")
    return path


def text_of_value(value):
    """Return a value as text for the terminal; numbers, also nested ones, have four digits."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{label}: {text_of_value(inner)}" for label, inner in value.items())
            + "}"
        )
    return f"{value:.4g}" if isinstance(value, float) else str(value)
