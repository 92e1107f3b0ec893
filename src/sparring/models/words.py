"""The words of the tiny model, and the tokenizer that they make; without torch."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models, pre_tokenizers

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
