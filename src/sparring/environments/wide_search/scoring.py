"""Scores of tables, parsing and formatting of answers, and costs of waves of workers.

In a wave the lead calls several workers, who work in parallel until all are done. This module
stores a wave as the number of steps of each worker.
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
Wave = Sequence[int]  # number of steps of each worker in the wave


def count_critical_steps(lead_steps: int, waves: Iterable[Wave]) -> int:
    """Return the lead's steps plus those of the slowest worker of each wave."""
    return lead_steps + sum(max(wave, default=0) for wave in waves)


def count_total_steps(lead_steps: int, waves: Iterable[Wave]) -> int:
    """Return the steps of all seats."""
    return lead_steps + sum(map(sum, waves))


def wave_figures(
    lead_steps: int, waves: Sequence[Wave], num_successful: int, workers: int
) -> dict[str, float]:
    """Return the values of ``FIGURES`` for a finished episode.

    Mathematics: with w_t <= W workers in wave t, and F calls of a worker that found a right cell

        parallel = (max over t of w_t - 1) / (W - 1)
        finished_share = F / sum over t of w_t

    A share is 0 where its denominator is 0.

    Args:
        lead_steps: number of steps of the lead.
        waves: number of steps of each worker of each wave.
        num_successful: F, the number of calls that found a right cell.
        workers: W; 0 if one seat works alone.
    """
    width, num_calls = max(map(len, waves), default=0), sum(map(len, waves))
    return {
        "waves": float(len(waves)),
        "width": float(width),
        "critical_steps": float(count_critical_steps(lead_steps, waves)),
        "total_steps": float(count_total_steps(lead_steps, waves)),
        "called": float(num_calls),
        "finished": float(num_successful),
        "parallel": max(width - 1, 0) / (workers - 1) if workers > 1 else 0.0,
        "finished_share": num_successful / num_calls if num_calls else 0.0,
    }


Rows = Mapping[str, Mapping[str, str]]  # key of a row (its name) -> column -> value
CELL_PADDING = " .\"'`*"  # characters around a cell that do not count
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))", re.ASCII)
_NUMBER = re.compile(r"[-+]?\d{1,20}(?:\.\d{1,20})?", re.ASCII)


def normalise_cell(cell: str) -> str:
    """Return the normal form of a cell; equal cells have the same normal form.

    Cells that differ only in case, white space or ``CELL_PADDING`` are equal, and so are numbers of
    the same value, with or without commas between thousands.
    """
    text = " ".join(cell.casefold().split()).strip(CELL_PADDING)
    number = _THOUSANDS.sub("", text)
    if not _NUMBER.fullmatch(number):
        return text
    return format(Decimal(number).normalize(), "f")


def _normalise_rows(rows: Rows) -> dict[str, dict[str, str]]:
    """Return a table with cells in normal form; the first of several rows with one name counts."""
    normal_rows: dict[str, dict[str, str]] = {}
    for key, row in rows.items():
        cells = {column: normalise_cell(value) for column, value in row.items()}
        normal_rows.setdefault(normalise_cell(key), cells)
    return normal_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class TableScore:
    """Scores of an answer, each in [0, 1].

    Args:
        item_f1: 2 P R / (P + R); a right key (name of a row) counts as a right cell.
        precision: P, right cells over all cells of the answer.
        recall: R, right cells over all cells of the true table.
        non_key_f1: F1 of the cells without keys and without empty cells of the answer.
        row_f1: F1 of rows; a row is right if all its cells are right.
        success: 1 if the answer equals the true table.
    """

    item_f1: float
    precision: float
    recall: float
    non_key_f1: float
    row_f1: float
    success: float


def score_table(table: Rows, answer: Rows, columns: int) -> TableScore:
    """Return the scores of an answer; cells are compared by ``normalise_cell``.

    Mathematics, with E true rows, M rows of the answer and A columns besides the key:
        TP = sum of (1 + right cells of the row), over rows of the answer with a true key
        P = TP / (M (1 + A)),    R = TP / (E (1 + A)),    item F1 = 2 P R / (P + R)

    Args:
        table: the true table.
        answer: the answer; cells may be missing.
        columns: A, the number of columns besides the key.
    """
    table, answer = _normalise_rows(table), _normalise_rows(answer)
    num_right_by_row = {  # number of right cells, by the key of the row
        key: sum(table[key].get(column) == value for column, value in answer[key].items())
        for key in answer
        if key in table
    }
    num_right_cells = sum(num_right_by_row.values())
    num_right_rows = sum(count == columns for count in num_right_by_row.values())
    num_answer_cells = sum(map(len, answer.values()))
    true_positives, width = len(num_right_by_row) + num_right_cells, 1 + columns
    precision = _ratio(true_positives, len(answer) * width)
    recall = _ratio(true_positives, len(table) * width)
    non_key_precision = _ratio(num_right_cells, num_answer_cells)
    non_key_recall = _ratio(num_right_cells, len(table) * columns)
    return TableScore(
        item_f1=_harmonic_mean(precision, recall),
        precision=precision,
        recall=recall,
        non_key_f1=_harmonic_mean(non_key_precision, non_key_recall),
        row_f1=_harmonic_mean(*(_ratio(num_right_rows, len(rows)) for rows in (answer, table))),
        success=float(num_right_rows == len(table) == len(answer)),
    )


def _ratio(count: int, total: int) -> float:
    return count / total if total else 0.0


def _harmonic_mean(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision and recall else 0.0


ROW_SEPARATOR, EMPTY_CELL, EMPTY_TABLE = ";", "-", "none"  # words of brief style
_DASH = re.compile(r":?-+:?")
Table = dict[str, dict[str, str]]


def read_table(text: str, world: World, *, brief: bool) -> Table | None:
    """Parse the table in a text; return None if the text is malformed.

    In full style the table is the first markdown table. The header has every column once, in any
    order; a line of dashes follows, and all rows have the same number of cells. In brief style the
    table is ``name value value ; name value value`` in order of the columns, or ``none``. The first
    of several rows with one name counts. Empty cells (brief: ``-``) are left out.
    """
    rows = _brief_rows(text, world) if brief else _markdown_rows(text, world)
    if rows is None:
        return None
    answer: Table = {}
    names: set[str] = set()
    for name, row in rows:
        if normalise_cell(name) not in names:
            names.add(normalise_cell(name))
            answer[name] = {column: value for column, value in row.items() if value}
    return answer


def _brief_rows(text: str, world: World) -> list[tuple[str, dict[str, str]]] | None:
    if text.split() == [EMPTY_TABLE]:
        return []
    rows = []
    for row_text in text.split(ROW_SEPARATOR):
        name, *values = row_text.split() or [""]
        if not name or name == EMPTY_CELL or len(values) != len(world.columns):
            return None
        cells = ("" if value == EMPTY_CELL else value for value in values)
        rows.append((name, dict(zip(world.columns, cells, strict=True))))
    return rows


def _markdown_rows(text: str, world: World) -> list[tuple[str, dict[str, str]]] | None:
    lines: list[list[str]] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("|"):
            lines.append([cell.strip() for cell in line[1:].removesuffix("|").split("|")])
        elif lines:
            break
    if len(lines) < 2 or len({len(line) for line in lines}) != 1:
        return None
    header, dashes, *rows = lines
    names = [normalise_cell(cell) for cell in header]
    columns = {normalise_cell(column): column for column in (world.key, *world.columns)}
    if any(names.count(column) != 1 for column in columns) or not all(map(_DASH.fullmatch, dashes)):
        return None
    named_rows = []
    for row in rows:
        cells = {columns[c]: cell for c, cell in zip(names, row, strict=True) if c in columns}
        name = cells.pop(world.key)
        if not name:
            return None
        named_rows.append((name, cells))
    return named_rows


def format_table(rows: Table, world: World, *, brief: bool) -> str:
    """Return the text of a table in the form that ``read_table`` parses."""
    if brief:
        row_texts = (
            " ".join((name, *(row.get(column, EMPTY_CELL) for column in world.columns)))
            for name, row in rows.items()
        )
        return f" {ROW_SEPARATOR} ".join(row_texts) or EMPTY_TABLE
    header = (world.key, *world.columns)
    lines = [header, ("---",) * len(header)]
    lines += [(name, *(row.get(c, "") for c in world.columns)) for name, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sample_table(notes: Table, world: World, stream: Stream, *, brief: bool) -> str:
    """Return the noted rows as text, with each value replaced by a random value of its column.

    Warm-up (imitation of such replies) teaches only the form; RL must learn the right values.
    """
    values = {
        column: [row[column] for row in notes.values() if column in row] for column in world.columns
    }
    rows: Table = {}
    for number, (name, row) in enumerate(notes.items()):
        row_stream = stream.child(number)
        rows[name] = {
            column: values[column][row_stream.integer(index, len(values[column]))]
            for index, column in enumerate(row)
        }
    return format_table(rows, world, brief=brief)
