"""The words of the tiny model, and the tokenizer that they make; without torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, models, pre_tokenizers

from sparring.config import RunConfig
from sparring.environments.base import Environment
from sparring.environments.catalogue import configured_game
from sparring.environments.foreign import words_of

PAD, BEGIN, END, ASK, UNKNOWN = "<pad>", "<begin>", "<end>", "<ask>", "<unknown>"
SPECIAL = (PAD, BEGIN, END, ASK, UNKNOWN)


def word_tokenizer(words: Iterable[str]) -> Tokenizer:
    """Return a word-level tokenizer over these words; anything else becomes ``<unknown>``.

    Args:
        words: whitespace-free words; duplicates are dropped and the rest sorted, so equal sets give
            equal ids.
    """
    vocabulary = {
        word: index for index, word in enumerate([*SPECIAL, *sorted(set(words) - set(SPECIAL))])
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def vocabulary(config: RunConfig, games: Sequence[Environment] | None = None) -> set[str]:
    """Return every word that is told or replied in brief style.

    Args:
        config: of the run.
        games: its environments, where they are made already.
    """
    if games is None:
        games = [configured_game(section) for section in config.environments]
    asked: tuple[str, ...] = getattr(config.context.bind("context").plugin.module, "WORDS", ())
    return {word for game in games for word in words_of(game)} | set(asked)
