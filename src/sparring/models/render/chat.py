"""The chat renderer: a pretrained model's own chat template as scaffold.

The template is taken apart once and checked. At the start it renders a few probe conversations; the
pieces between the probes' contents are the scaffold, and it is never run over what was said.
Sampled ids stay as they were sampled. What stands between them is encoded as the tokenizer encodes
it in the whole, and foreign text in it is cut wherever it would become a special or added token.
"""

from __future__ import annotations

import re
from datetime import date as Date
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

from sparring.core.errors import ConfigError, ModelError, quoted
from sparring.environments.reply import CHOOSE, REPLY
from sparring.models.render.answers import BEGIN_OF_THOUGHT, END_OF_THOUGHT, Answer, answer_format
from sparring.models.render.base import HasDeclaredEnds
from sparring.models.render.chat_templates import (
    REPLY_PROBE,
    TEMPLATES,
    TOLD_PROBE,
    ChatTemplate,
    between,
    check_template,
    pieces,
    tool_turns,
)

NO_THOUGHTS = "\n</think>\n\n"  # closes thoughts that a template opens, where none are wanted


class ChatRenderer:
    """Turns what a seat is told into ids, and sampled ids into text, by a model's chat template.

    With ``history="keep"`` a conversation only ever grows. With "strip" the thoughts of earlier
    replies are left out of what the model sees later, so every turn is laid out anew and becomes a
    training sample of its own.

    ``stop_ids`` are the tokens that end a reply: first the one that the template writes, then those
    that the model's files declare as ends. ``tool_turns`` says what the probe found about tools'
    answers: "stable", "unstable", or "none" where the template has no place for them. Games send
    none, so nothing is refused for it.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        system: str,
        thinking: bool,
        history: Literal["keep", "strip"],
        answer: Answer,
        template: str | None,
        date: str,
    ) -> None:
        if history == "strip" and not thinking:
            raise ConfigError(
                'renderer.history="strip" leaves out thoughts, and renderer.thinking is off; '
                "write renderer.history=keep."
            )
        self.tokenizer = tokenizer
        self.format = answer_format(answer, thinking=thinking)
        self.exact_answers = self.format.exact
        self.scorable = not thinking  # whether the probability of an action is that of one reply
        self.prefix_stable = history == "keep"
        self._thinking, self._system = thinking, system
        self._more_than_the_action = thinking or answer == "tagged"
        self._remedy = _remedy(tokenizer, template)
        self._template = self._compiled(template, date)
        self.encode = lru_cache(maxsize=4096)(self._encode)
        self._text = lru_cache(maxsize=4096)(self._decode)
        self._laid_out = lru_cache(maxsize=4096)(self._lay_out)
        self._marks = lru_cache(maxsize=64)(self._count_marks)
        self._inside = lru_cache(maxsize=4096)(self._encode_inside)
        # what foreign text never yields; white space and single characters are text, also where a
        # vocabulary has added tokens for them
        added = {index: str(one) for index, one in tokenizer.added_tokens_decoder.items()}
        special = {
            index: added.get(index) or tokenizer.decode([index])
            for index in tokenizer.all_special_ids
        }
        self._names = {index: text for index, text in added.items() if len(text.strip()) > 1}
        self._names |= special
        texts = sorted({*self._names.values()} - {""}, key=lambda one: (-len(one), one))
        self._reserved_text = re.compile("|".join(map(re.escape, texts)) or r"(?!)")
        if tokenizer.unk_token_id not in (tokenizer.eos_token_id, tokenizer.bos_token_id):
            self._names.pop(tokenizer.unk_token_id, None)  # what stands for any unknown character
        self._take_apart()
        self.tool_turns = tool_turns(self._render)

    # -- the template, taken apart -----------------------------------------------------------------

    def _compiled(self, template: str | None, date: str) -> ChatTemplate:
        """Return the template to use, compiled; all that the tokenizer brings are looked at."""
        brought = getattr(self.tokenizer, "chat_template", None) or {}
        several = brought if isinstance(brought, dict) else {"default": brought}
        for text in () if template else several.values():
            check_template(str(text))
        own = {**several, **TEMPLATES}.get(template or "default", template)
        if not own:
            names = f" called default, but {', '.join(sorted(several))}" if several else ""
            raise ModelError(
                f"This tokenizer has no chat template{names}. {self._remedy} Or take an "
                "instruction-tuned model."
            )
        try:
            today = Date.fromisoformat(date)
        except (ValueError, TypeError):
            raise ConfigError(
                f"renderer.date={quoted(date)} is no date; write one such as 2024-07-26."
            ) from None
        return ChatTemplate(str(own), today)

    def _take_apart(self) -> None:
        self._first, answered, after, ask = pieces(self._render, self._remedy)
        if self._system.strip() not in self._first:
            raise ModelError(
                f"The chat template drops the system message {quoted(self._system)}, or changes "
                f"it. {self._remedy} Or write renderer.system=''."
            )
        ids = self._plain(after)
        place = next((n for n, index in enumerate(ids) if index in self._names), len(ids))
        if place == len(ids) or self.tokenizer.decode(list(ids[:place])).strip():
            raise ModelError(
                f"The chat template ends a reply with {self.tokenizer.decode(list(ids[:1]))!r}, "
                "which is no special token, so the end of a reply cannot be told from its text. "
                f"{self._remedy}"
            )
        space, self._mark, self._after = after.partition(self._names[ids[place]])
        self._end = space + self._mark
        tokenizer = self.tokenizer
        of_files = tokenizer.declared_ends if isinstance(tokenizer, HasDeclaredEnds) else ()
        declared = [tokenizer.eos_token_id, *of_files]
        ends = [index for index in declared if index in self._names]
        self.stop_ids: tuple[int, ...] = tuple(dict.fromkeys((ids[place], *ends)))
        # what the template writes before a reply and leaves to the model to say
        begun = answered[len(ask) :] if answered.startswith(ask) else ""
        self._answered, self._lead = answered, begun if begun.isspace() else ""
        opening = self.format.opening
        if ask.count(BEGIN_OF_THOUGHT) > ask.count(END_OF_THOUGHT):
            if not self._thinking:
                ask += NO_THOUGHTS
            elif opening.startswith(BEGIN_OF_THOUGHT):
                opening = ""
        self._ask = ask
        self._check_whole()
        if opening:
            self._ask, self._lead = ask + self._lead + opening, ""
        said = f"{self._ask}{self._lead}{REPLY_PROBE}{self.format.ending}"
        self._ended = self._past(said, self._end) or self.stop_ids[:1]

    def _render(self, contents: tuple[str, ...], later: str = "user") -> list[str]:
        """Return the scaffold between the contents of a conversation that waits for a reply.
        ``later`` speaks from the third on."""
        messages = [{"role": "system", "content": self._system}] if self._system else []
        roles = ("user", *("assistant", later) * len(contents))
        messages += [
            {"role": role, "content": text} for role, text in zip(roles, contents, strict=False)
        ]
        variables = {
            **{name: str(one) for name, one in self.tokenizer.special_tokens_map.items()},
            "messages": messages,
            "tools": None,
            "documents": None,
            "add_generation_prompt": True,
            "enable_thinking": self._thinking,
        }
        try:
            rendered = self._template.render(variables)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"The chat template fails: {error}. {self._remedy} Or write renderer.system=''."
            ) from error
        return between(rendered, contents, self._remedy)

    def _check_whole(self) -> None:
        """Check that a conversation has the ids that the tokenizer gives for its text. The form of
        the answer is left out: where it opens a reply, a token ends by our choice."""
        told, said = self._first + TOLD_PROBE + self._ask, self._lead + REPLY_PROBE + self._end
        later = self._after + TOLD_PROBE + self._ask
        prompt, whole = self._plain(told), self._plain(told + said + later)
        reply = self._past(told, said) or ()
        mine = (*prompt, *reply, *self._continued(((later, "", ""),)))
        if mine != whole:
            pairs = list(zip(mine, whole, strict=False))
            place = next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))
            parts, wanted = (
                self.tokenizer.convert_ids_to_tokens(list(ids[place : place + 3]))
                for ids in (mine, whole)
            )
            raise ModelError(
                f"The tokenizer reads a conversation otherwise than its parts: {wanted} in the "
                f"whole, and {parts} where a reply begins or ends, so the model would be taught "
                f"what it does not say. {self._remedy} Or take another tokenizer."
            )

    # -- ids of texts ------------------------------------------------------------------------------

    def _plain(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text as the tokenizer gives them, special tokens included."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()

    def _count_marks(self, text: str) -> int:
        return sum(index in self._names for index in self._plain(text))

    def _past(self, before: str, text: str) -> tuple[int, ...] | None:
        """Return the ids of a text as they are after another; None if the two share a token."""
        first, both = self._plain(before), self._plain(before + text)
        return both[len(first) :] if both[: len(first)] == first else None

    def _encode_inside(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text after a line's end. Some tokenizers put a space before the
        beginning of a text."""
        ids = self._past("\n", text)
        return self._plain(text) if ids is None else ids

    def _lay_out(self, parts: tuple[tuple[str, str, str], ...]) -> tuple[int, ...]:
        """Return the ids of a text in which scaffold and foreign text take turns.

        The text is encoded as a whole, but for cuts inside of what would make a special or added
        token of foreign text.

        Args:
            parts: scaffold, foreign text, scaffold, again and again.
        """
        text, spans, marks = "", [], 0
        for before, foreign, after in parts:
            spans.append((len(text) + len(before), len(text) + len(before) + len(foreign)))
            marks += self._marks(before) + self._marks(after)
            text += before + foreign + after
        begin = 0
        ids: tuple[int, ...] = ()
        for cut in (*self._cuts(text, spans), len(text)):
            piece = text[begin:cut]
            ids += self._inside(piece) if begin else self._plain(piece)
            begin = cut
        if sum(index in self._names for index in ids) == marks:
            return ids
        # there are added tokens for other writings of this text: character by character, then
        ids = ()
        for before, foreign, after in parts:
            letters = chain.from_iterable(map(self._inside, foreign))
            plain = tuple(index for index in letters if index not in self._names)
            ids += self._plain(before) + plain + self._plain(after)
        return ids

    def _cuts(self, text: str, spans: list[tuple[int, int]]) -> list[int]:
        """Return where to cut a text so that foreign spans yield no special or added token."""
        cuts, place = [], 0
        while match := self._reserved_text.search(text, place):
            begin, end = match.span()
            over = [low for low, high in spans if begin < high and low < end]
            place = max(begin + 1, over[0]) if over else end
            if over and place < end:
                cuts.append(place)
        return cuts

    def _continued(self, parts: tuple[tuple[str, str, str], ...]) -> tuple[int, ...]:
        (before, *rest), *others = parts
        return self._laid_out(((self._mark + before, *rest), *others))[1:]

    def _encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of foreign text by itself; no part of it becomes a special token."""
        return self._laid_out((("", text, ""),))

    # -- conversations -----------------------------------------------------------------------------

    def _decode(self, ids: tuple[int, ...]) -> str:
        """Return the text of ids; special ids show by their names."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def _told(self, text: str, *, first: bool = False) -> str:
        """Return what a game says, and how to answer where the conversation begins. It does not ask
        for the action alone where the reply is to hold tags or thoughts as well."""
        told = text.replace(REPLY, CHOOSE) if self._more_than_the_action else text
        asked = first and self.format.instruction
        return f"{told}\n\n{self.format.instruction}" if asked else told

    def initial(self, text: str) -> tuple[int, ...]:
        """Return the ids that open a conversation with this text and ask for a reply."""
        return self._laid_out(((self._first, self._told(text, first=True), self._ask),))

    def append(self, text: str) -> tuple[int, ...]:
        """Return the ids that tell a running conversation this text and ask for a reply."""
        return self._continued(((self._after, self._told(text), self._ask),))

    def close(self, truncated: bool) -> tuple[int, ...]:
        """Return the scaffold that closes a reply.

        The end of turn where the reply was cut before saying it.
        """
        return self._ended if truncated else ()

    def reply(self, text: str) -> tuple[int, ...]:
        """Return the ids of a complete reply with this action.

        The model would have sampled them after the opening.
        """
        whole = ((self._ask + self._lead, text, self.format.ending + self._end),)
        asked, ids = self._plain(self._ask), self._laid_out(whole)
        if ids[: len(asked)] == asked:
            return ids[len(asked) :]
        return self._laid_out(((self._lead, text, self.format.ending + self._end),))

    def conversation(self, past: list[tuple[str, tuple[int, ...]]], text: str) -> tuple[int, ...]:
        """Return a conversation laid out anew, the thoughts of its replies left out.

        Args:
            past: what the seat was told and what it sampled, turn by turn.
            text: what it is told now.
        """
        parts: list[tuple[str, str, str]] = []
        before = self._first
        for number, (told, sampled) in enumerate(past):
            shown = self.format.without_thoughts(self._ask, self.parse(sampled))
            parts.append((before, self._told(told, first=number == 0), self._answered))
            parts.append(("", shown, self._end))
            before = self._after
        parts.append((before, self._told(text, first=not past), self._ask))
        return self._laid_out(tuple(parts))

    def parse(self, ids: tuple[int, ...]) -> str:
        """Return the text of sampled ids, without the end of turn."""
        return self._text(ids[:-1] if ids and ids[-1] in self.stop_ids else ids)

    def read(self, text: str) -> str | None:
        """Return the part of a reply that names the action.

        None if the reply has not the form asked for.
        """
        return self.format.read(text)


def _remedy(tokenizer: Any, template: str | None) -> str:
    if template != "chatml" and {"<|im_start|>", "<|im_end|>"} <= set(tokenizer.get_vocab()):
        return "Write renderer.template=chatml."
    if template != "completion" and tokenizer.eos_token_id is not None:
        return "Write renderer.template=completion, which ends replies as the tokenizer ends texts."
    return "Give a template in renderer.template that ends every turn with a special token."


def chat(
    tokenizer: Any,
    *,
    system: str = "",
    thinking: bool = False,
    history: Literal["keep", "strip"] = "keep",
    answer: Answer = "exact",
    template: str | None = None,
    date: str = "2024-07-26",
) -> ChatRenderer:
    """Lay conversations out for a pretrained model, by its chat template or as text to complete.

    The template is taken apart and checked: what was laid out must not change with a new message,
    a system message must be in it, and the ids of the parts must be those of the whole.

    Args:
        tokenizer: the model's.
        system: a system message. Empty (default) leaves it to the template.
        thinking: true: replies begin with thoughts. false (default): they do not. It is also passed
            to the template as ``enable_thinking``.
        history: what the model sees of its earlier replies, the same in rollout, training and
            evaluation. "keep" (default) leaves the thoughts in. "strip" takes them out and trains
            on every turn as a sample of its own; it needs ``thinking``.
        answer: how the action is worded. "exact" (default): the action and nothing else. "free": in
            any words, in which the game finds it. "tagged": between <answer> and </answer> (MARS);
            "boxed": in a LaTeX box (SPIRAL).
        template: a Jinja chat template to use in place of the tokenizer's, or the name of one:
            "chatml" or "gemma"; or "completion": text that a base model completes after "Answer:",
            each reply with the tokenizer's own end. null (default): the tokenizer's own.
        date: the day that templates write which ask for today's, so that no clock is in a prompt.
            "2024-07-26" (default) is what Llama 3's templates write where there is no clock.
    """
    return ChatRenderer(
        tokenizer,
        system=system,
        thinking=thinking,
        history=history,
        answer=answer,
        template=template,
        date=date,
    )
