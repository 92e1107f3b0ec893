"""Token ids as text, by the tokenizer file alone: no model is loaded, and nothing is fetched.

A byte-level token may be part of a character. So a sampled run is decoded id by id, and a token
that completes no character has an empty text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from sparring.config import RunConfig
from sparring.core.errors import SparringError
from sparring.core.files import cache_folder
from sparring.core.foreign_text import current_keys
from sparring.core.refs import MAIN, ref
from sparring.models.words import vocabulary, word_tokenizer
from sparring.view.answers import one_line

TINY, FILE = "tiny", "tokenizer.json"


class Piece(NamedTuple):
    """The text of a token.

    Attributes:
        text: what it adds.
        whole: whether it completed a character; if not, its text comes with a later token.
    """

    text: str
    whole: bool


class Decoder:
    """The tokenizers of a run's policies, as far as they are on this machine.

    Args:
        config: the run's, as its file has it.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.notes: list[str] = []
        self._by_policy: dict[str, Tokenizer] = {}
        try:
            # plug-ins are not bound, which would import torch for methods that nobody asks here
            known = current_keys(config, "The configuration")
            policies = RunConfig.model_validate(known).by_policy
        except (SparringError, ValueError, TypeError) as error:
            self.notes.append(f"tokens are shown as ids: {one_line(error)}")
            return
        for name, own in policies.items():
            found = _tokenizer(own)
            if isinstance(found, str):
                self.notes.append(f"tokens of {name} are shown as ids: {found}")
            else:
                self._by_policy[name] = found

    def of(self, agent: str) -> Tokenizer | None:
        """Return the tokenizer of a player in its text form; None where it is not here."""
        try:
            name = ref(agent).name or MAIN
        except SparringError:
            name = MAIN
        alone = next(iter(self._by_policy.values())) if len(self._by_policy) == 1 else None
        return self._by_policy.get(name, alone)


def text_of(tokenizer: Tokenizer | None, ids: Sequence[int]) -> str | None:
    """Return what ids say, special tokens included; None where that is not known."""
    if tokenizer is None:
        return None
    try:
        found: str = tokenizer.decode(list(ids), skip_special_tokens=False)
    except (OverflowError, TypeError, ValueError):
        return None
    return found


def pieces(tokenizer: Tokenizer | None, ids: Sequence[int]) -> list[Piece]:
    """Return the text of each token of a sampled run; empty texts where they are not known."""
    if tokenizer is None:
        return [Piece("", True)] * len(ids)
    stream, found = DecodeStream(skip_special_tokens=False), []
    for index in ids:
        try:
            text = stream.step(tokenizer, index)
        except Exception:  # of the library: an id beyond the vocabulary, or bytes of none
            return [Piece("", True)] * len(ids)
        found.append(Piece(text or "", text is not None))
    return found


def _tokenizer(config: RunConfig) -> Tokenizer | str:
    """Return the tokenizer of a policy, or why there is none."""
    name = config.model.name
    try:
        if name == TINY:
            return word_tokenizer(vocabulary(config))
        path = _file(name)
        if path is None:
            return f"the tokenizer of {name!r} is not on this machine"
        return Tokenizer.from_file(str(path))
    except Exception as error:  # an environment of one's own, or a file that is no tokenizer
        return one_line(error)


def _file(name: str) -> Path | None:
    """Return where the tokenizer of a model lies: in its folder, or in a cache."""
    for folder in (Path(name).expanduser(), cache_folder() / name):
        if (folder / FILE).is_file():
            return folder / FILE
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(name, FILE)
    except (ImportError, ValueError):
        return None
    return Path(found) if isinstance(found, str) else None
