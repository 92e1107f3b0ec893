"""Parses the action in a reply.

The parser tries in this order: a reply that is exactly an action word, the word after the last
answer mark, the last bracketed or emphasised action word, and the last action word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Literal

Style = Literal["brief", "full"]
"""Wording: "brief" for a tiny model with a word-level vocabulary, "full" for a language model."""

REPLY = "Please reply with exactly one legal action, for example:"
# used in place of REPLY if a reply also holds other text, such as tags
CHOOSE = "Choose exactly one legal action, for example:"

# an action word is not part of a word, a hyphenated word or a number, and has no minus sign
_BEFORE = r"(?<!\w)(?<!\w-)(?<!\d[.,])(?<!-(?=\d))"
_AFTER = r"(?!\w|-\w|[.,]\d|%)"
_QUOTES = re.compile(
    '["\u00ab\u00bb\u201c-\u201f\u2039\u203a\u300c-\u300f\u301d-\u301f\uff02]'
)  # quotation marks of all scripts
_HINT = (
    r"(?:\b(?:answer|action|move)\b(?:\s+is)?\s*[\"'`*\[(<{]*"
    r"|\[\s*|<\s*|\*\*\s*)"
)
# answer marks: only the word after the last mark counts
_MARK = re.compile(
    r"\bboxed\s*\{|<(?:answer|action|move)>"
    r"|(?:\b|_)(?:answer|action|move|choice)[\"'`*_]*\s*(?:is\s*)?[:=]"
    r"|\b(?:answer|(?:final|my|best|right|correct)\s+(?:action|move|choice))\s+is\b(?!\s*[:=])",
    re.IGNORECASE,
)
# text that may stand between a mark and the action
_LEAD = (
    r"(?:[\s\"'`*_$\[(<{:=]|\\(?:text|mathrm|mathbf|textbf|texttt)\{)*"
    r"(?:(?:i|i'll|i'd|will|would|shall|to|the|a|my|is|in|on|at|with|for|of|play|choose|pick|take"
    r"|select|place|put|drop|go|column|row|cell|square|position|number|option|action|move"
    r"|mark|piece|stone|disc|card)\b[\s\"'`*_$\[(<{:=]+){0,8}?"
)


def in_quotation_marks(text: str) -> str:
    """Return a text in quotation marks, with its own quotation marks replaced by "'"."""
    return '"{}"'.format(_QUOTES.sub("'", text))


class ReplyParser:
    """Finds action words in free text, and ignores case if that is unambiguous.

    A reply that is exactly an action word means this action. In a reply with answer marks ("Final
    answer: bet", "my move is bet", "<answer>bet", "boxed{bet}") only the word after the last mark
    counts; a few words such as "I play" may come first. Without a mark the last bracketed or
    emphasised action word counts ("[bet]", "**bet**", "action bet"), otherwise the last one. "abet"
    does not contain "bet". Time is linear in the length of the reply, as every repetition in the
    patterns matches in one way only.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._exact = frozenset(words)
        counts = Counter(word.lower() for word in self._exact)
        self._by_lower = {word.lower(): word for word in self._exact if counts[word.lower()] == 1}

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
        """Patterns for a word after a mark, a bracketed word, and any word."""
        words = "|".join(
            re.escape(word) for word in sorted(self._exact, key=lambda word: (-len(word), word))
        )
        # for speed: the first letter excludes most positions
        letters = "".join(sorted({re.escape(word[:1]) for word in self._exact}))
        word = f"(?=[{letters}])({words})" if letters and "" not in self._exact else f"({words})"
        pattern = f"{_BEFORE}{word}{_AFTER}"
        after_mark, in_brackets, any_word = (
            re.compile(prefix + pattern, re.IGNORECASE) for prefix in (_LEAD, _HINT, "")
        )
        return after_mark, in_brackets, any_word

    def knows(self, word: str) -> bool:
        """Return whether ``word`` is exactly an action word; upper and lower case count."""
        return word in self._exact

    def word(self, reply: str) -> str | None:
        """Return the action word that equals ``reply`` without regard to case, or None."""
        text = reply.strip()
        return text if text in self._exact else self._by_lower.get(text.lower())

    def find(self, reply: str) -> str | None:
        """Return the action word that ``reply`` means, or None."""
        text, word = reply.strip(), self.word(reply)
        if word is not None or not self._exact:
            return word
        after_mark, *other_patterns = self._patterns
        end = -1
        for mark in _MARK.finditer(text):
            end = mark.end()
        if end >= 0:
            match = after_mark.match(text, end)
            return self._canonical(match[1]) if match else None
        for pattern in other_patterns:
            matches = [self._canonical(match) for match in pattern.findall(text)]
            words = [word for word in matches if word is not None]
            if words:
                return words[-1]
        return None

    def _canonical(self, text: str) -> str | None:
        return text if text in self._exact else self._by_lower.get(text.lower())


def listed_reply(words: Iterable[str], reply: str, exact: bool) -> str | None:
    """Return the action of a list that a reply means; None: unparsable.

    Args:
        words: the actions.
        reply: the text of the reply.
        exact: whether the reply must be the action and nothing else.
    """
    parser = _parser_of(tuple(words))
    return parser.word(reply) if exact else parser.find(reply)


@lru_cache(maxsize=1024)
def _parser_of(words: tuple[str, ...]) -> ReplyParser:
    return ReplyParser(words)


def actions_meant(play: object, seat: int, legal: tuple[str, ...]) -> tuple[str, ...]:
    """Return the action that each legal reply of a seat means.

    A reply is the action itself, except in ``choose``, where it is the number of a candidate.

    Args:
        play: the current play.
        seat: a seat that is due.
        legal: the seat's legal replies.
    """
    actions: tuple[str, ...] = (
        play.inner_actions(seat, legal) if hasattr(play, "inner_actions") else legal
    )
    return actions
