"""How a language model is asked to word its action, and how the action is read out of its reply.

- "free": say anything; the game finds the action in the text.
- "exact": the action and nothing else.
- "tagged": ``<think>...</think><answer>ACTION</answer>``, or the answer tag alone without thinking
  (MARS). The reply is opened for the model with the first tag.
- "boxed": reasoning, then ``\\boxed{ACTION}``, of which the last counts (SPIRAL), or the box alone
  without thinking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Answer = Literal["free", "exact", "tagged", "boxed"]

BEGIN_OF_THOUGHT, END_OF_THOUGHT = "<think>", "</think>"
_PARTING = re.compile(r"</think>\s*<answer>")
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BOX = "\\boxed{"
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerFormat:
    """One way to word an answer.

    Attributes:
        instruction: what the model is told about it.
        opening: the beginning of every reply, given to the model.
        ending: what follows the action in a complete reply.
        exact: whether what is read must be the action word and nothing else.
        pattern: what a whole reply, opening included, must look like; its last group is the action.
            None reads everything.
        anywhere: whether a box may stand anywhere (the last one counts, also where it cannot be
            read), or the pattern must be the whole reply.
        parting: in place of a pattern: what stands between the thoughts and the action of a reply
            from ``<think>`` to ``ending``. The first one counts, so that a reply is gone through
            once; a pattern for the whole would go back for each.
    """

    instruction: str = ""
    opening: str = ""
    ending: str = ""
    exact: bool = False
    pattern: re.Pattern[str] | None = None
    anywhere: bool = False
    parting: re.Pattern[str] | None = None

    def read(self, text: str) -> str | None:
        """Return the part of a reply that names the action.

        None if the reply has not the form asked for.
        """
        text = (self.opening + text).strip()
        if self.parting is not None:
            end = len(text) - len(self.ending)
            whole = text.startswith(BEGIN_OF_THOUGHT) and text.endswith(self.ending)
            found = self.parting.search(text, len(BEGIN_OF_THOUGHT), end) if whole else None
            return text[found.end() : end].strip() if found else None
        if self.pattern is None:
            return text
        if self.anywhere:  # no other box where the last cannot be read
            last = self.pattern.match(text, max(text.rfind(_BOX), 0))
            return last[1].strip() if last else None
        match = self.pattern.fullmatch(text)
        return match.groups()[-1].strip() if match else None

    def without_thoughts(self, asked: str, text: str) -> str:
        """Return what a reply says besides its thoughts: nothing, if it was cut before they ended.

        Args:
            asked: the scaffold before the reply, which may begin the thoughts; it ends with the
                opening.
            text: the reply, without its opening.
        """
        if self.anywhere:
            assert self.pattern is not None
            return next((match[0] for match in reversed(list(self.pattern.finditer(text)))), "")
        _, closed, rest = (self.opening + text).rpartition(END_OF_THOUGHT)
        if closed:
            return rest.strip()
        begun = (asked + text).count(BEGIN_OF_THOUGHT) > asked.count(END_OF_THOUGHT)
        return "" if begun else rest.strip()


def answer_format(name: Answer, *, thinking: bool) -> AnswerFormat:
    """Return the format of this name, with or without room for thinking before the answer."""
    if name == "tagged" and thinking:
        told = (
            "Think between <think> and </think>, then give one action between <answer> and "
            "</answer>."
        )
        return AnswerFormat(
            instruction=told, opening="<think>\n", ending="</answer>", exact=True, parting=_PARTING
        )
    if name == "tagged":
        told = "Give one action between <answer> and </answer> and nothing else."
        return AnswerFormat(
            instruction=told, opening="<answer>", ending="</answer>", exact=True, pattern=_TAGGED
        )
    if name == "boxed" and thinking:
        told = "Reason step by step, and put your final action into \\boxed{}."
        return AnswerFormat(instruction=told, ending="}", exact=True, pattern=_BOXED, anywhere=True)
    if name == "boxed":
        told = "Do not explain; put your action into \\boxed{} and say nothing else."
        return AnswerFormat(
            instruction=told, opening="\\boxed{", ending="}", exact=True, pattern=_BOXED
        )
    if name == "exact":
        return AnswerFormat(
            instruction="Answer with one legal action and nothing else.", exact=True
        )
    return AnswerFormat()
