"""The plain renderer of the tiny model, its vocabulary, and its word-level tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from sparring.config import RunConfig
from sparring.core.errors import ModelError
from sparring.core.records import ChatMessage
from sparring.environments.base import Environment
from sparring.environments.catalogue import configured_game
from sparring.environments.foreign import words_of

PAD, BEGIN, END, ASK, UNKNOWN = "<pad>", "<begin>", "<end>", "<ask>", "<unknown>"
SPECIAL = (PAD, BEGIN, END, ASK, UNKNOWN)


def word_tokenizer(words: Iterable[str]) -> Tokenizer:
    """Return a word-level tokenizer over these words; anything else becomes ``<unknown>``.

    Args:
        words: words without white space; they are sorted, so that equal sets give equal ids.
    """
    vocabulary = {
        word: index for index, word in enumerate([*SPECIAL, *sorted(set(words) - set(SPECIAL))])
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def vocabulary(config: RunConfig, games: Sequence[Environment] | None = None) -> set[str]:
    """Return all words that prompts and replies may have in brief style.

    Args:
        config: configuration of the run.
        games: environments of the run; None: they are made from the configuration.
    """
    if games is None:
        games = [configured_game(section) for section in config.environments]
    words = {word for game in games for word in words_of(game)}
    return words | set(config.context.bind("context").plugin.declarations.WORDS)


class PlainRenderer:
    """Turns prompts into ids, and sampled ids into text.

    A conversation is ``<begin> words <ask> reply <end> words <ask> reply <end> ...``, so that every
    prompt of a seat begins with the ids of the seat's previous prompt.
    """

    prefix_stable = True
    exact_answers = False  # in brief style a reply may contain more than the action
    scorable = True

    def __init__(self, tokenizer: Any) -> None:
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        tokens = (BEGIN, END, ASK, UNKNOWN)
        missing_tokens = [token for token in tokens if token not in vocabulary]
        if missing_tokens:
            raise ModelError(
                f"This tokenizer has no {missing_tokens[0]!r}: the plain renderer works with the "
                "tiny model's tokenizer only."
            )
        special_tokens = set(tokenizer.all_special_tokens)
        self.begin, self.end, self.ask, self.unknown = (vocabulary[token] for token in tokens)
        self.words = {
            word: index for word, index in vocabulary.items() if word not in special_tokens
        }
        self._text = {index: word for word, index in vocabulary.items()}
        self.encode = lru_cache(maxsize=65536)(self._encode)

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a reply."""
        return (self.end,)

    def _encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text's words; unknown and special words become ``<unknown>``."""
        return tuple(self.words.get(word, self.unknown) for word in text.split())

    def initial(
        self, text: str, messages: Sequence[ChatMessage] = (), prefill: str = ""
    ) -> tuple[int, ...]:
        """Return the ids that open a conversation with a text and end where a reply begins."""
        earlier_ids = chain.from_iterable(self.encode(message.content) for message in messages)
        return (self.begin, *earlier_ids, *self.append(text, prefill))

    def append(self, text: str, prefill: str = "") -> tuple[int, ...]:
        """Return the ids that continue a conversation with a text, up to where a reply begins."""
        return (*self.encode(text), self.ask, *self.encode(prefill))

    def close(self, truncated: bool) -> tuple[int, ...]:
        """Return the tokens that close a reply: the end token if the reply was truncated."""
        return (self.end,) if truncated else ()

    def reply(self, text: str) -> tuple[int, ...]:
        """Encode a reply exactly as the model would have sampled it, end token included."""
        return (*self.encode(text), self.end)

    def parse(self, ids: tuple[int, ...]) -> str:
        """Return the text of sampled ids, in which special ids appear by their names."""
        if ids and ids[-1] == self.end:
            ids = ids[:-1]
        return " ".join(self._text[index] for index in ids)

    def read(self, text: str) -> str | None:
        """Return the part of a reply that names the action: the whole text."""
        return text


def plain(tokenizer: Any) -> PlainRenderer:
    """Turn conversations into ids for the tiny model: one token per word, no chat template."""
    return PlainRenderer(tokenizer)
