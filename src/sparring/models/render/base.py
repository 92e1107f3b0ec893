"""Optional abilities of renderers, and of the tokenizers that they encode with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class HasWords(Protocol):
    """A renderer with a closed vocabulary: any other word becomes an unknown token."""

    @property
    def words(self) -> Mapping[str, int]:
        """The id of each word."""
        ...


@runtime_checkable
class HasDeclaredEnds(Protocol):
    """A tokenizer that knows which tokens the files of its model declare as ends of a text."""

    @property
    def declared_ends(self) -> Sequence[int]:
        """Ids of these tokens."""
        ...
