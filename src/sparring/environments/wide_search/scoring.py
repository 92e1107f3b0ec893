"""How well a table was found: item F1 and what stands beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

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
