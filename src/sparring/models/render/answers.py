"""Formats of a language model's answer: its instruction, and how a reply names its action.

- "free": any text; the environment finds the action in it.
- "exact": the action and nothing else.
- "tagged" (MARS): ``<think>...</think><answer>ACTION</answer>``; without thinking only the answer
  tag. The prompt ends with the first tag.
- "boxed" (SPIRAL): reasoning, then ``\\boxed{ACTION}``; the last box counts. Without thinking only
  the box.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Answer = Literal["free", "exact", "tagged", "boxed"]

BEGIN_OF_THOUGHT, END_OF_THOUGHT = "<think>", "</think>"
_SEPARATOR = re.compile(r"</think>\s*<answer>")
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BOX = "\\boxed{"
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerFormat:
    """A format of answers.

    Attributes:
        instruction: its description in the first prompt.
        opening: the beginning of every reply, at the end of the prompt.
        ending: text after the action in a complete reply.
        exact: whether the answer must be the action and nothing else.
        pattern: pattern of a whole reply, opening included; its last group is the action. None: the
            whole reply is the action.
        matches_part: whether the pattern may match a part of the reply; then the last match counts,
            even if it is unparsable. If false, the pattern must match the whole reply.
        separator: pattern of the text between thoughts and action, in a reply from ``<think>`` to
            ``ending``; used in place of ``pattern``. The first match counts. The search needs one
            pass, while a pattern of the whole reply would backtrack.
    """

    instruction: str = ""
    opening: str = ""
    ending: str = ""
    exact: bool = False
    pattern: re.Pattern[str] | None = None
    matches_part: bool = False
    separator: re.Pattern[str] | None = None

    def read(self, text: str) -> str | None:
        """Return the part of a reply that names the action; None if its format is wrong."""
        text = (self.opening + text).strip()
        if self.separator is not None:
            end = len(text) - len(self.ending)
            is_complete = text.startswith(BEGIN_OF_THOUGHT) and text.endswith(self.ending)
            begin = len(BEGIN_OF_THOUGHT)
            match = self.separator.search(text, begin, end) if is_complete else None
            return text[match.end() : end].strip() if match else None
        if self.pattern is None:
            return text
        if self.matches_part:  # only the last box counts
            match = self.pattern.match(text, max(text.rfind(_BOX), 0))
            return match[1].strip() if match else None
        match = self.pattern.fullmatch(text)
        return match.groups()[-1].strip() if match else None

    def without_thoughts(self, prompt_end: str, text: str) -> str:
        """Return a reply without its thoughts; "" if it was truncated within them.

        Args:
            prompt_end: the scaffold before the reply, which may begin the thoughts and ends with
                the opening.
            text: the reply, without its opening.
        """
        if self.matches_part:
            assert self.pattern is not None
            return next((match[0] for match in reversed(list(self.pattern.finditer(text)))), "")
        _, end_mark, answer = (self.opening + text).rpartition(END_OF_THOUGHT)
        if end_mark:
            return answer.strip()
        num_begun = (prompt_end + text).count(BEGIN_OF_THOUGHT)
        return "" if num_begun > prompt_end.count(END_OF_THOUGHT) else answer.strip()


def answer_format(name: Answer, *, thinking: bool) -> AnswerFormat:
    """Return the format with this name, with or without thinking before the answer."""
    if name == "tagged" and thinking:
        instruction = (
            "Think between <think> and </think>, then give one action between <answer> and "
            "</answer>."
        )
        return AnswerFormat(
            instruction=instruction,
            opening="<think>\n",
            ending="</answer>",
            exact=True,
            separator=_SEPARATOR,
        )
    if name == "tagged":
        instruction = "Give one action between <answer> and </answer> and nothing else."
        return AnswerFormat(
            instruction=instruction,
            opening="<answer>",
            ending="</answer>",
            exact=True,
            pattern=_TAGGED,
        )
    if name == "boxed" and thinking:
        instruction = "Reason step by step, and put your final action into \\boxed{}."
        return AnswerFormat(
            instruction=instruction, ending="}", exact=True, pattern=_BOXED, matches_part=True
        )
    if name == "boxed":
        instruction = "Do not explain; put your action into \\boxed{} and say nothing else."
        return AnswerFormat(
            instruction=instruction, opening="\\boxed{", ending="}", exact=True, pattern=_BOXED
        )
    if name == "exact":
        return AnswerFormat(
            instruction="Answer with one legal action and nothing else.", exact=True
        )
    return AnswerFormat()
