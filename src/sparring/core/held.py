"""An object as a key of a cache."""

from __future__ import annotations

from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class Held(Generic[Kept]):
    """An object as a key: equal is the same object alone, which is kept as long as the key.

    Args:
        value: the object; it need have no hash.
    """

    def __init__(self, value: Kept) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and other.value is self.value
