"""The texts of a run's tokens: of a sampled reply, a piece per token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sparring.config import resolve
from sparring.engine.plan import TINY
from sparring.engine.vocabulary import vocabulary
from sparring.errors import SparringError
from sparring.models.tiny import tiny_tokenizer
from sparring.refs import MAIN, ref
from sparring.run.folder import RunFolder

BROKEN = "\ufffd"  # what a decoder writes for bytes that end no character


def load_tokenizers(path: Path) -> dict[str, Any]:
    """Return the tokenizer of each policy of a run, without its weights.

    Nothing is fetched from elsewhere.

    Raises:
        RunError: no such run.
        ModelError: the model is not on this machine.
    """
    from sparring.models.pretrained import tokenizer_of

    config = resolve(RunFolder.open(path).config())
    return {
        name: tiny_tokenizer(vocabulary(own))
        if own.model.name == TINY
        else tokenizer_of(own.model.name)
        for name, own in config.by_policy.items()
    }


def token_decoder(run: Path) -> tuple[Callable[[str, Sequence[int]], list[str]] | None, str]:
    """Return what gives the texts of a player's token ids; else None, and why.

    A piece of bytes that ends no character has an empty text; the piece that ends it has it all.
    """
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
