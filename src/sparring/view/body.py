"""The body of a request, read field by field."""

from __future__ import annotations

import json
from typing import Any

from sparring.view.answers import Refused

NUMBERS = 1 << 40  # numbers in a request are below this


class Body:
    """An object of JSON that a page has sent.

    Args:
        data: as it came.

    Raises:
        Refused: it is no JSON, or no object.
    """

    def __init__(self, data: bytes) -> None:
        try:
            found: Any = json.loads(data)
        except (ValueError, RecursionError):
            raise Refused(400, "the body is no JSON") from None
        if not isinstance(found, dict):
            raise Refused(400, "the body must be an object")
        self._fields: dict[str, Any] = found

    def number(self, name: str, otherwise: int | None) -> int | None:
        """Return a whole number, or ``otherwise`` where there is none.

        Raises:
            Refused: it is something else.
        """
        found = self._fields.get(name)
        if found is None:
            return otherwise
        if type(found) is not int or not 0 <= found < NUMBERS:
            raise Refused(400, f"{name} must be a whole number from 0 on")
        return found

    def due(self, name: str) -> int:
        """Return a whole number that must be there.

        Raises:
            Refused: it is not.
        """
        found = self.number(name, None)
        if found is None:
            raise Refused(400, f"{name} is missing")
        return found

    def text(self, name: str, longest: int) -> str | None:
        """Return a text, or None where there is none.

        Raises:
            Refused: it is something else, or longer than ``longest`` characters.
        """
        found = self._fields.get(name)
        if found is not None and (not isinstance(found, str) or len(found) > longest):
            raise Refused(400, f"{name} must be a text of at most {longest} characters")
        return found
