"""The texts of a run's tokens: of a sampled reply, a piece per token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sparring.errors import SparringError
from sparring.refs import MAIN, ref

BROKEN = "\ufffd"  # what a decoder writes for bytes that end no character


def token_decoder(run: Path) -> tuple[Callable[[str, Sequence[int]], list[str]] | None, str]:
    """Return what gives the texts of a player's token ids; else None, and why.

    A piece of bytes that ends no character has an empty text; the piece that ends it has it all.
    """
    from sparring.experiments.load import load_tokenizers

    try:
        tokenizers = load_tokenizers(run)
    except SparringError as error:
        return None, f"Tokens are shown as ids: {error}"

    def pieces(agent: str, ids: Sequence[int]) -> list[str]:
        tokenizer = tokenizers.get(ref(agent).name or MAIN)
        return [str(index) for index in ids] if tokenizer is None else split(tokenizer, ids)

    return pieces, ""


def split(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the text that each of these ids adds to that of the ones before."""
    texts, before = [], ""
    for end in range(1, len(ids) + 1):
        whole = str(tokenizer.decode(list(ids[:end])))
        ready = whole if end == len(ids) else whole.rstrip(BROKEN)
        if not ready.startswith(before):  # a decoder that changes what it has written
            return [str(tokenizer.decode([index])) for index in ids]
        texts.append(ready[len(before) :])
        before = ready
    return texts
