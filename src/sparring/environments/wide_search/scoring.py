"""Scores of tables, parsing and formatting of answers, and costs of waves of workers.

A wave is a call of the lead for several workers, who work in parallel until all are done. A wave is
a sequence of the steps of each of its workers.
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
Wave = Sequence[int]  # steps of each worker in the wave


def critical_steps(lead: int, waves: Iterable[Wave]) -> int:
    """Return the lead's steps plus those of the slowest worker of each wave."""
    return lead + sum(max(wave, default=0) for wave in waves)


def total_steps(lead: int, waves: Iterable[Wave]) -> int:
    """Return the steps of all seats."""
    return lead + sum(map(sum, waves))


def wave_figures(lead: int, waves: Sequence[Wave], finished: int, workers: int) -> dict[str, float]:
    """Return the figures of FIGURES for a finished episode.

    Mathematics: with w_t workers in wave t, at most W, and F successful calls of a worker

        parallel = (max over t of w_t - 1) / (W - 1)
        finished_share = F / sum over t of w_t

    and 0 where nothing can be divided.

    Args:
        lead: steps of the lead.
        waves: steps of the workers of each wave.
        finished: F.
        workers: W; 0 if one seat works alone.
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
AROUND = " .\"'`*"  # characters that may surround a cell
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))", re.ASCII)
_NUMBER = re.compile(r"[-+]?\d{1,20}(?:\.\d{1,20})?", re.ASCII)


def plain(cell: str) -> str:
    """Return the normal form of a cell for comparisons.

    The normal form ignores case, white space, and surrounding characters; numbers compare by value,
    with or without commas between thousands.
    """
    text = " ".join(cell.casefold().split()).strip(AROUND)
    number = _THOUSANDS.sub("", text)
    if not _NUMBER.fullmatch(number):
        return text
    return format(Decimal(number).normalize(), "f")


def _plain(rows: Rows) -> dict[str, dict[str, str]]:
    """Return the normal form of a table; the first of several rows of one name stays."""
    out: dict[str, dict[str, str]] = {}
    for key, row in rows.items():
        out.setdefault(plain(key), {name: plain(value) for name, value in row.items()})
    return out


@dataclass(frozen=True, kw_only=True, slots=True)
class TableScore:
    """Scores of an answer, each in [0, 1].

    Args:
        item_f1: 2 P R / (P + R) of the cells, including keys of right rows.
        precision: P, right cells over all cells of the answer.
        recall: R, right cells over all cells of the truth.
        non_key_f1: the same without keys and without empty cells of the answer.
        row_f1: the same for complete rows.
        success: 1 if the answer is exactly the table.
    """

    item_f1: float
    precision: float
    recall: float
    non_key_f1: float
    row_f1: float
    success: float


def score(table: Rows, answer: Rows, columns: int) -> TableScore:
    """Return the scores of an answer.

    Mathematics, with E true rows, M rows of the answer and A columns beside the key:
        TP = sum over rows of the answer whose key is in the truth of 1 + right cells of the row
        P = TP / (M (1 + A)),    R = TP / (E (1 + A)),    item F1 = 2 P R / (P + R)

    Cells compare by ``plain``.

    Args:
        table: the true table.
        answer: the answer; cells may be missing.
        columns: A.
    """
    table, answer = _plain(table), _plain(answer)
    matched = [key for key in answer if key in table]
    right = {
        key: sum(table[key].get(name) == value for name, value in answer[key].items())
        for key in matched
    }
    cells = sum(right.values())
    num_values = sum(map(len, answer.values()))
    num_right = sum(count == columns for count in right.values())
    width = 1 + columns
    precision = _share(len(matched) + cells, len(answer) * width)
    recall = _share(len(matched) + cells, len(table) * width)
    return TableScore(
        item_f1=_harmonic_mean(precision, recall),
        precision=precision,
        recall=recall,
        non_key_f1=_harmonic_mean(_share(cells, num_values), _share(cells, len(table) * columns)),
        row_f1=_harmonic_mean(_share(num_right, len(answer)), _share(num_right, len(table))),
        success=float(num_right == len(table) == len(answer)),
    )


def _share(part: int, total: int) -> float:
    return part / total if total else 0.0


def _harmonic_mean(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision and recall else 0.0


NEXT, EMPTY, NONE = ";", "-", "none"  # in brief style: between rows, an empty cell, no rows at all
_RULE = re.compile(r":?-+:?")
Table = dict[str, dict[str, str]]


def read_table(text: str, world: World, *, brief: bool) -> Table | None:
    """Return the table in a text by name; None if the text is malformed.

    In full style the table is the first markdown table: a header with the name's column and all
    others, each once and in any order, a line of dashes, and the same number of cells in every row.
    In brief style the table is ``name value value ; name value value`` in order of the columns, or
    ``none``. The first of several rows of one name stays; empty cells (brief: ``-``) do not count.
    """
    rows = _brief_rows(text, world) if brief else _markdown(text, world)
    if rows is None:
        return None
    answer: Table = {}
    names: set[str] = set()
    for name, row in rows:
        if plain(name) not in names:
            names.add(plain(name))
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
        cells = ("" if value == EMPTY else value for value in values)
        rows.append((name, dict(zip(world.columns, cells, strict=True))))
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
    columns = {plain(column): column for column in (world.key, *world.columns)}
    if any(names.count(column) != 1 for column in columns) or not all(map(_RULE.fullmatch, rule)):
        return None
    pairs = []
    for row in rows:
        cells = {columns[n]: cell for n, cell in zip(names, row, strict=True) if n in columns}
        name = cells.pop(world.key)
        if not name:
            return None
        pairs.append((name, cells))
    return pairs


def written_table(rows: Table, world: World, *, brief: bool) -> str:
    """Return the text of a table; missing cells are empty."""
    if brief:
        parts = (
            " ".join((name, *(row.get(column, EMPTY) for column in world.columns)))
            for name, row in rows.items()
        )
        return f" {NEXT} ".join(parts) or NONE
    header = (world.key, *world.columns)
    lines = [header, ("---",) * len(header)]
    lines += [(name, *(row.get(c, "") for c in world.columns)) for name, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sample_table(noted: Table, world: World, stream: Stream, *, brief: bool) -> str:
    """Return the text of the noted rows with noted values shuffled within each column.

    Warm-up imitates only the form; reinforcement learning has to learn the right values.
    """
    values = {
        column: [row[column] for row in noted.values() if column in row] for column in world.columns
    }
    rows: Table = {}
    for number, (name, row) in enumerate(noted.items()):
        draws = stream.child(number)
        rows[name] = {
            column: values[column][draws.integer(place, len(values[column]))]
            for place, column in enumerate(row)
        }
    return written_table(rows, world, brief=brief)
