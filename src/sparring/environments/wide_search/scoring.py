"""How well a table was found: item F1 and what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Rows = Mapping[str, Mapping[str, str]]  # by the key of a row: value by column


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

    Args:
        truth: the table.
        answer: what was found; a cell may be missing.
        columns: A.
    """
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
