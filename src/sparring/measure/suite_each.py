"""Rows of a suite that differ in one option alone, written as one row with ``each``.

    - name: game_{game}
      each: {game: 1..144}      # or a list of values
      game: ordinal_2x2

stands for 144 rows: in each the option ``game`` has another value, and the row's name has it in
place of ``{game}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sparring.errors import ConfigError, quoted

EACH = "each"
MOST = 1000  # rows that one may stand for
RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
EXAMPLE = "write each: {game: 1..144} and name: game_{game}"


def option_values(suite: str, place: int, row: Any) -> tuple[str, list[Any]] | None:
    """Return the option that a row's ``each`` names, with its values; None: it has no ``each``.

    Args:
        suite: its name, for errors.
        place: of the row in the file.
        row: as written.

    Raises:
        ConfigError: ``each`` is not one option with values that differ, the row's name has no place
            for them, or the option stands below ``options`` as well.
    """
    if not isinstance(row, Mapping) or EACH not in row:
        return None
    each, where = row[EACH], f"Suite {suite!r}: rows.{place}.{EACH}"
    if not isinstance(each, Mapping) or len(each) != 1:
        raise ConfigError(
            f"{where}: must name one option with its values, got {quoted(each)}; {EXAMPLE}."
        )
    ((option, written),) = each.items()
    values = _values(written)
    if values is None or len(set(map(str, values))) < len(values):
        raise ConfigError(
            f"{where}.{quoted(str(option))}: must be a list of different values, or whole numbers "
            f"FIRST..LAST, at most {MOST}, got {quoted(written)}; {EXAMPLE}."
        )
    if not isinstance(row.get("name"), str) or f"{{{option}}}" not in row["name"]:
        raise ConfigError(
            f"{where}: the row's name, {quoted(row.get('name'))}, has no {{{option}}}, so that its "
            f"rows cannot be told apart; {EXAMPLE}."
        )
    if isinstance(row.get("options"), Mapping) and option in row["options"]:
        raise ConfigError(
            f"{where}: the option {option!r} stands below options as well; write it once."
        )
    return str(option), values


def _values(written: Any) -> list[Any] | None:
    """Return the values of an option, or None where they are none or too many."""
    if isinstance(written, str) and (found := RANGE.fullmatch(written)):
        first, last = map(int, found.groups())
        return list(range(first, last + 1)) if first <= last < first + MOST else None
    plain = isinstance(written, list) and all(
        isinstance(value, (str, int, float)) for value in written
    )
    return list(written) if plain and 0 < len(written) <= MOST else None
