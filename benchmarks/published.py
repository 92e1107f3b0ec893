"""Results files: one format, the source of the figures, and when a run may write one.

A file is a JSON object with `command`, `setting`, `commit` (`-dirty` if the tree differs from it),
`versions`, `machine`, `date` and `rows`. A row has its labels and, of a study over seeds,
`values`: {figure: {seed: value}}; intervals are derived where a page shows them. One run's interval
over games stands in `intervals`: {figure: [low, high]}. A figure whose values per seed are lost
stands in `text` as it was printed, and the file's `note` says so.

The defaults of a script are the published setting. Only a run with all of them writes to
benchmarks/results; with any other option it writes to runs/results, so a small trial replaces
nothing that is published. `--out FILE` writes there in any case.

Every row with a figure of skill (return, share solved or won, NashConv, best moves, ...) says on
which `starts` it was measured:

    unseen   starts that training never met
    seen     starts that training met, or may have met
    all      every start, exactly; or an environment with one start;
             or starts drawn from all that play can meet
"""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TRIALS = ROOT / "runs" / "results"
FREE = {"workers", "folder", "out"}  # options that change no figure
PLACES = {"--folder", "--out"}  # of these, options that name a place on this machine
KEYS = ("command", "setting", "commit", "versions", "machine", "date", "rows")
STARTS = ("unseen", "seen", "all")
PACKAGES = ("sparring", "torch", "transformers", "numpy", "open_spiel")
# what a row without `starts` may hold in numbers: speeds, sizes, and what they are compared with
SPEED = {
    *(
        "turns/s",
        "TextArena turns/s",
        "tokens/s",
        "bare tokens/s",
        "play tokens/s",
        "sampled tokens/s",
        "forward tokens/s",
    ),
    *(
        "update tokens/s",
        "rollouts/s",
        "TRL rollouts/s",
        "bare rollouts/s",
        "simulations_per_second",
        "seconds",
        "released",
    ),
    *(
        "worst_ms",
        "each_ms",
        "worst_share",
        "first_share",
        "ratio",
        "efficiency",
        "prefill ratio",
        "distinct share",
        "error",
        "aim",
    ),
    *(
        "games",
        "turns",
        "positions",
        "new tokens",
        "conversation tokens",
        "peak GiB of play",
        "peak GiB",
    ),
    *("memory ratio", "largest file, MiB", "all files, MiB", "written, MiB"),
}
UNITS = ("ms", "share", "x", "verdicts/s", "look-ups/s")  # of rows with `value` and `unit`
LOST = "per-seed values were not kept"
INTERVAL = re.compile(r"-?\d\.\d+ \[-?\d")


def settings(parser, *free):
    """Read the command line; say where its results belong, and from which code they come.

    Args:
        parser: the script's options; their defaults are the published setting. `--out` is added.
        free: names of options that choose between published files, e.g. the study of several.

    Returns:
        The options, with `out` (where to write) and `source` (the fields of a results file).
    """
    parser.add_argument(
        "--out",
        type=Path,
        help="write the results to this file; else benchmarks/results, or runs/results of a trial",
    )
    given = parser.parse_args()
    asked = {name: value for name, value in vars(given).items() if name not in FREE}
    whole = all(
        same(value, parser.get_default(name)) for name, value in asked.items() if name not in free
    )
    given.out = given.out or (RESULTS if whole else TRIALS)
    given.source = {**provenance(), "setting": asked}
    return given


def same(value, default):
    """Return whether an option has its default; a tuple may stand for a list."""
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        return list(value) == list(default)
    return value == default


def provenance():
    """Return the command line, commit, versions, machine and date of this process."""
    installed = {found.metadata["Name"].replace("-", "_") for found in metadata.distributions()}
    command = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *portable(sys.argv[1:])]
    return {
        "command": shlex.join(command).replace(str(ROOT) + os.sep, ""),
        "commit": commit(ROOT),
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in PACKAGES if name in installed},
        },
        "machine": {
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "processor": processor(),
        },
        "date": time.strftime("%Y-%m-%d"),
    }


def portable(words):
    """Return the words of a command line without those that name a place on this machine alone."""
    kept, skip = [], False
    for word in words:
        name, _, value = word.partition("=")
        if not skip and name not in PLACES:
            kept.append(word)
        skip = name in PLACES and not value
    return kept


def commit(folder):
    """Return the commit of a folder's repository, `-dirty` if a file that git follows differs."""

    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    return git("rev-parse", "HEAD") + (
        "-dirty" if git("status", "--porcelain", "--untracked-files=no") else ""
    )


def processor():
    """Return the processor's name, or its kind where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.processor()


def record(name, rows, given, **more):
    """Print rows and write them with their source to `given.out`, a file, or NAME.json there.

    Args:
        name: the file's name without `.json`.
        rows: see the top of this file.
        given: from `settings`.
        more: fields in place of this process's, as the commit of kept runs; or a `note`.

    Raises:
        ValueError: the rows are not what a results file may hold.
    """
    document = {**given.source, **more, "rows": rows}
    wrong = faults(document)
    if wrong:
        raise ValueError(f"{name}: " + " ".join(wrong))
    path = given.out if given.out.suffix == ".json" else given.out / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(", ".join(f"{label}: {brief(value)}" for label, value in row.items()))
    print(f"Written to {path}.")
    return path


def brief(value):
    """Return a value as text for the terminal: numbers with four digits, nested ones too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{label}: {brief(inner)}" for label, inner in value.items()) + "}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def faults(document):
    """Return what is wrong with the content of a results file, in words."""
    found = [f"It lacks '{key}'." for key in KEYS if key not in document]
    if len(str(document.get("command", "")).split()) < 2:
        found.append("Its 'command' is not a whole command line.")
    if not re.match(r"[0-9a-f]{7,40}(-dirty)?$", str(document.get("commit", ""))):
        found.append(f"Its 'commit' is {document.get('commit')!r}; write the hash of one.")
    if "python" not in document.get("versions", {}):
        found.append("Its 'versions' lack 'python'.")
    rows = document.get("rows") or []
    for number, row in enumerate(rows):
        found += [f"Row {number}: {fault}" for fault in row_faults(row)]
    if any("text" in row for row in rows) and LOST not in document.get("note", ""):
        found.append(f"Rows have 'text'; say in 'note' that {LOST}.")
    return found


def row_faults(row):
    """Return what is wrong with one row."""
    if "starts" in row:
        known = row["starts"] in STARTS
        found = (
            [] if known else [f"'starts' is {row['starts']!r}; write one of {', '.join(STARTS)}."]
        )
    else:
        skill = ", ".join(f"'{name}'" for name in row if not speed(name, row))
        found = (
            [f"{skill} may be figures of skill; say on which 'starts' they were measured."]
            if skill
            else []
        )
    printed = [
        name for name, value in row.items() if isinstance(value, str) and INTERVAL.search(value)
    ]
    found += [f"'{name}' is an interval in words; keep 'values' per seed." for name in printed]
    seeds = row.get("values", {}).items()
    flat = [name for name, values in seeds if not isinstance(values, dict)]
    return found + [f"'{name}' is not a map from seeds to values." for name in flat]


def speed(name, row):
    """Return whether an entry of a row is a label, a speed, or what a speed is compared with."""
    if name == "value":
        return row.get("unit") in UNITS
    return name in SPEED or isinstance(row[name], str)
