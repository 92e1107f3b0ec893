"""How well a table was found, how answers are read and written, and what waves of workers cost.

A wave is a call of the lead: so many workers, who work at once, and all of whom it waits for. A
wave is written as the steps of each of its workers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sparring.core.rng import Stream
from sparring.environments.wide_search.world import World

FIGURES = (
    *("waves", "width", "critical_steps", "total_steps"),
    *("called", "finished", "parallel", "finished_share"),
)
Wave = Sequence[int]  # steps of each worker that was called


def critical_steps(lead: int, waves: Iterable[Wave]) -> int:
    """Return the lead's steps, and those of the slowest worker of each wave."""
    return lead + sum(max(wave, default=0) for wave in waves)


def total_steps(lead: int, waves: Iterable[Wave]) -> int:
    """Return the steps of all seats."""
    return lead + sum(map(sum, waves))


def counted(lead: int, waves: Sequence[Wave], finished: int, workers: int) -> dict[str, float]:
    """Return the figures of FIGURES, of a play that is over.

    Mathematics: with w_t workers in wave t, W at most, and F calls of a worker that ended well

        parallel = (max over t of w_t - 1) / (W - 1)
        finished_share = F / sum over t of w_t

    and 0 where nothing can be divided.

    Args:
        lead: its steps.
        waves: steps of the workers of each.
        finished: F.
        workers: W; 0: one seat works alone.
    """
    width, called = max(map(len, waves), default=0), sum(map(len, waves))
    return {
        "waves": float(len(waves)),
        "width": float(width),
        "critical_steps": float(critical_steps(lead, waves)),
        "total_steps": float(total_steps(lead, waves)),
        "called": float(called),
        "finished": float(finished),
        "parallel": max(width - 1, 0) / (workers - 1) if workers > 1 else 0.0,
        "finished_share": finished / called if called else 0.0,
    }


Rows = Mapping[str, Mapping[str, str]]  # by the key of a row: value by column
AROUND = " .\"'`*"  # what may stand around a cell
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))", re.ASCII)
_NUMBER = re.compile(r"[-+]?\d{1,20}(?:\.\d{1,20})?", re.ASCII)


def plain(cell: str) -> str:
    """Return a cell as it is compared.

    Case, white space, and signs around it do not count; numbers are compared by their values, with
    or without commas between thousands.
    """
    text = " ".join(cell.casefold().split()).strip(AROUND)
    number = _THOUSANDS.sub("", text)
    if not _NUMBER.fullmatch(number):
        return text
    return format(Decimal(number).normalize(), "f")


def _plain(rows: Rows) -> dict[str, dict[str, str]]:
    """Return a table as it is compared; of rows whose names are then equal the first one stays."""
    found: dict[str, dict[str, str]] = {}
    for key, row in rows.items():
        found.setdefault(plain(key), {name: plain(value) for name, value in row.items()})
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How well a table was found; every figure is in [0, 1].

    Args:
        item_f1: 2 P R / (P + R) of the cells, keys of right rows among them.
        precision: P, right cells over all cells of the answer.
        recall: R, right cells over all cells of the truth.
        non_key_f1: the same without keys; an answer's empty cells are not counted as said.
        row_f1: of whole rows.
        success: 1 if the whole table is right, and nothing else is in it.
    """

    item_f1: float
    precision: float
    recall: float
    non_key_f1: float
    row_f1: float
    success: float


def score(truth: Rows, answer: Rows, columns: int) -> Score:
    """Return how well an answer gives a table.

    Mathematics, of E true rows, M rows of the answer and A columns beside the key:
        TP = sum over rows of the answer whose key is in the truth of 1 + right cells of the row
        P = TP / (M (1 + A)),    R = TP / (E (1 + A)),    item F1 = 2 P R / (P + R)

    Cells are compared as ``plain`` gives them.

    Args:
        truth: the table.
        answer: what was found; a cell may be missing.
        columns: A.
    """
    truth, answer = _plain(truth), _plain(answer)
    met = [key for key in answer if key in truth]
    right = {
        key: sum(truth[key].get(name) == value for name, value in answer[key].items())
        for key in met
    }
    cells = sum(right.values())
    said = sum(map(len, answer.values()))
    whole = sum(count == columns for count in right.values())
    wide = 1 + columns
    precision = _share(len(met) + cells, len(answer) * wide)
    recall = _share(len(met) + cells, len(truth) * wide)
    return Score(
        item_f1=_mean(precision, recall),
        precision=precision,
        recall=recall,
        non_key_f1=_mean(_share(cells, said), _share(cells, len(truth) * columns)),
        row_f1=_mean(_share(whole, len(answer)), _share(whole, len(truth))),
        success=float(whole == len(truth) == len(answer)),
    )


def _share(part: int, whole: int) -> float:
    """Return a part of a whole; 0 of nothing."""
    return part / whole if whole else 0.0


def _mean(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 where either is 0."""
    return 2 * precision * recall / (precision + recall) if precision and recall else 0.0


NEXT, EMPTY, NONE = ";", "-", "none"  # in brief style: between rows, an empty cell, no rows at all
_RULE = re.compile(r":?-+:?")
Table = dict[str, dict[str, str]]


def read_table(text: str, world: World, *, brief: bool) -> Table | None:
    """Return the table in a text by name; None where it is malformed.

    In full style it is the first markdown table: a header with the name's column and all others,
    each once and in any order, a line of dashes, and as many cells in every row. In brief style it
    is ``name value value ; name value value`` in order of the columns, or ``none``. The first of
    two rows of one name stays; an empty cell, in brief style ``-``, says nothing.
    """
    found = _brief_rows(text, world) if brief else _markdown(text, world)
    if found is None:
        return None
    answer: Table = {}
    known: set[str] = set()
    for name, row in found:
        if plain(name) not in known:
            known.add(plain(name))
            answer[name] = {column: value for column, value in row.items() if value}
    return answer


def _brief_rows(text: str, world: World) -> list[tuple[str, dict[str, str]]] | None:
    if text.split() == [NONE]:
        return []
    rows = []
    for part in text.split(NEXT):
        name, *values = part.split() or [""]
        if not name or name == EMPTY or len(values) != len(world.columns):
            return None
        said = ("" if value == EMPTY else value for value in values)
        rows.append((name, dict(zip(world.columns, said, strict=True))))
    return rows


def _markdown(text: str, world: World) -> list[tuple[str, dict[str, str]]] | None:
    lines: list[list[str]] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("|"):
            lines.append([cell.strip() for cell in line[1:].removesuffix("|").split("|")])
        elif lines:
            break
    if len(lines) < 2 or len({len(line) for line in lines}) != 1:
        return None
    header, rule, *rows = lines
    names = [plain(cell) for cell in header]
    wanted = {plain(column): column for column in (world.key, *world.columns)}
    if any(names.count(one) != 1 for one in wanted) or not all(map(_RULE.fullmatch, rule)):
        return None
    found = []
    for row in rows:
        cells = {wanted[one]: cell for one, cell in zip(names, row, strict=True) if one in wanted}
        name = cells.pop(world.key)
        if not name:
            return None
        found.append((name, cells))
    return found


def written_table(rows: Table, world: World, *, brief: bool) -> str:
    """Return a table as it is written; what a row does not have is left empty."""
    if brief:
        said = (
            " ".join((name, *(row.get(column, EMPTY) for column in world.columns)))
            for name, row in rows.items()
        )
        return f" {NEXT} ".join(said) or NONE
    header = (world.key, *world.columns)
    lines = [header, ("---",) * len(header)]
    lines += [(name, *(row.get(one, "") for one in world.columns)) for name, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sample_table(noted: Table, world: World, stream: Stream, *, brief: bool) -> str:
    """Return a table of the rows that were noted, with values that were, each in a row by chance.

    What is imitated in warm-up is the form; which value belongs where is left to be learnt.
    """
    values = {
        column: [row[column] for row in noted.values() if column in row] for column in world.columns
    }
    rows: Table = {}
    for number, (name, row) in enumerate(noted.items()):
        own = stream.child(number)
        rows[name] = {
            column: values[column][own.integer(place, len(values[column]))]
            for place, column in enumerate(row)
        }
    return written_table(rows, world, brief=brief)
