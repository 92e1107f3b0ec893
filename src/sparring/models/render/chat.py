"""The chat renderer: turns prompts into ids by the chat template of a pretrained model.

At the start the template renders a few probe conversations. The text around the probes' contents is
the scaffold, which is checked once. The template is never run over replies. Sampled ids stay as
they were sampled. Text between them is encoded as the tokenizer encodes it in the whole
conversation. Foreign text, such as an environment's, is split wherever it would become a special or
added token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date as Date
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, Protocol, runtime_checkable

from sparring.core.errors import ConfigError, ModelError, quoted
from sparring.core.records import ChatMessage
from sparring.environments.reply import CHOOSE, REPLY
from sparring.models.render.answers import BEGIN_OF_THOUGHT, END_OF_THOUGHT, Answer, answer_format
from sparring.models.render.chat_templates import (
    PROMPT_PROBE,
    REPLY_PROBE,
    TEMPLATES,
    ChatTemplate,
    check_template,
    split_at_contents,
    split_pieces,
    tool_turns,
)

SYSTEM_PROBE = "Obey these rules."  # a message that shows the scaffold of a system message
NO_THOUGHTS = "\n</think>\n\n"  # closes thoughts that a template opens, without thinking


@runtime_checkable
class HasDeclaredEnds(Protocol):
    """A tokenizer that knows which tokens the files of its model declare as ends of a text."""

    @property
    def declared_ends(self) -> Sequence[int]:
        """Ids of these tokens."""
        ...


class ChatRenderer:
    """Turns prompts into ids, and sampled ids into text, by a model's chat template.

    With ``history="keep"`` a conversation only grows. With "strip" later prompts leave out the
    thoughts of earlier replies, so that every turn is a new conversation and a separate training
    sample.

    ``stop_ids`` are the tokens that end a reply: first the template's, then those that the model's
    files declare as ends. ``tool_turns`` says how the template writes answers of tools: "stable",
    "unstable" or "none". The renderer accepts all three, because environments send no such answers.
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
                'renderer.history="strip" leaves out thoughts, but renderer.thinking is off; '
                "write renderer.history=keep."
            )
        self.tokenizer = tokenizer
        self.format = answer_format(answer, thinking=thinking)
        self.exact_answers = self.format.exact
        self.scorable = not thinking  # whether the probability of an action is that of one reply
        self.prefix_stable = history == "keep"
        self._thinking, self._system = thinking, system
        self._has_more_than_action = thinking or answer == "tagged"
        self._remedy = _remedy(tokenizer, template)
        self._template = self._compile_template(template, date)
        self.encode = lru_cache(maxsize=4096)(self._encode)
        self._decode = lru_cache(maxsize=4096)(self._decode_uncached)
        self._encode_parts = lru_cache(maxsize=4096)(self._encode_parts_uncached)
        self._count_marks = lru_cache(maxsize=64)(self._count_marks_uncached)
        self._encode_within = lru_cache(maxsize=4096)(self._encode_within_uncached)
        # ids that foreign text never gets, with their texts; white space and single characters are
        # text, even if a vocabulary has added tokens for them
        added_texts = {index: str(token) for index, token in tokenizer.added_tokens_decoder.items()}
        special_texts = {
            index: added_texts.get(index) or tokenizer.decode([index])
            for index in tokenizer.all_special_ids
        }
        self._names = {index: text for index, text in added_texts.items() if len(text.strip()) > 1}
        self._names |= special_texts
        texts = sorted({*self._names.values()} - {""}, key=lambda text: (-len(text), text))
        self._reserved_text = re.compile("|".join(map(re.escape, texts)) or r"(?!)")
        if tokenizer.unk_token_id not in (tokenizer.eos_token_id, tokenizer.bos_token_id):
            self._names.pop(tokenizer.unk_token_id, None)  # the token of unknown characters
        self._system_pieces: tuple[str, str] | None = None  # see ``_system_scaffold``
        self._split_template()
        self.tool_turns = tool_turns(self._render)

    # -- the pieces of the template ----------------------------------------------------------------

    def _compile_template(self, template: str | None, date: str) -> ChatTemplate:
        stored_template = getattr(self.tokenizer, "chat_template", None) or {}
        templates = (
            stored_template if isinstance(stored_template, dict) else {"default": stored_template}
        )
        for text in () if template else templates.values():
            check_template(str(text))
        source = {**templates, **TEMPLATES}.get(template or "default", template)
        if not source:
            names = f" called default, but {', '.join(sorted(templates))}" if templates else ""
            raise ModelError(
                f"This tokenizer has no chat template{names}. {self._remedy} Or use an "
                "instruction-tuned model."
            )
        try:
            today = Date.fromisoformat(date)
        except (ValueError, TypeError):
            raise ConfigError(
                f"renderer.date={quoted(date)} is not a date; write one such as 2024-07-26."
            ) from None
        return ChatTemplate(str(source), today)

    def _split_template(self) -> None:
        self._first, before_reply, after_reply, ask = split_pieces(self._render, self._remedy)
        if self._system.strip() not in self._first:
            raise ModelError(
                f"The chat template drops the system message {quoted(self._system)}, or changes "
                f"it. {self._remedy} Or write renderer.system=''."
            )
        ids = self._ids_of(after_reply)
        end_index = next((n for n, index in enumerate(ids) if index in self._names), len(ids))
        if end_index == len(ids) or self.tokenizer.decode(list(ids[:end_index])).strip():
            raise ModelError(
                f"The chat template ends a reply with {self.tokenizer.decode(list(ids[:1]))!r}, "
                "which is not a special token, so text of a reply could look like its end. "
                f"{self._remedy}"
            )
        space, self._mark, self._after = after_reply.partition(self._names[ids[end_index]])
        self._end = space + self._mark
        tokenizer = self.tokenizer
        ids_in_files = tokenizer.declared_ends if isinstance(tokenizer, HasDeclaredEnds) else ()
        candidates = [tokenizer.eos_token_id, *ids_in_files]
        declared_ends = [index for index in candidates if index in self._names]
        self.stop_ids: tuple[int, ...] = tuple(dict.fromkeys((ids[end_index], *declared_ends)))
        # white space that the template writes before a reply; the model has to sample it
        lead = before_reply[len(ask) :] if before_reply.startswith(ask) else ""
        self._before_reply, self._lead = before_reply, lead if lead.isspace() else ""
        opening = self.format.opening
        if ask.count(BEGIN_OF_THOUGHT) > ask.count(END_OF_THOUGHT):
            if not self._thinking:
                ask += NO_THOUGHTS
            elif opening.startswith(BEGIN_OF_THOUGHT):
                opening = ""
        self._ask = ask
        self._check_ids_of_parts()
        if opening:
            self._ask, self._lead = ask + self._lead + opening, ""
        example = f"{self._ask}{self._lead}{REPLY_PROBE}{self.format.ending}"
        self._end_ids = self._ids_after(example, self._end) or self.stop_ids[:1]

    def _render(
        self, contents: tuple[str, ...], later_role: str = "user", system: str | None = None
    ) -> list[str]:
        """Return the scaffold around the contents of a conversation; it ends where a reply begins.

        Args:
            contents: contents of user and assistant, alternating.
            later_role: role in place of "user" from the third content on.
            system: a system message before the contents, which counts as the first content; None:
                the renderer's system message, which does not count.
        """
        system_text = self._system if system is None else system
        messages = [{"role": "system", "content": system_text}] if system_text else []
        roles = ("user", *("assistant", later_role) * len(contents))
        messages += [
            {"role": role, "content": text} for role, text in zip(roles, contents, strict=False)
        ]
        variables = {
            **{name: str(token) for name, token in self.tokenizer.special_tokens_map.items()},
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
        probes = contents if system is None else (system, *contents)
        return split_at_contents(rendered, probes, self._remedy)

    def _check_ids_of_parts(self) -> None:
        """Check that the ids of a conversation's parts are those of its whole text.

        The answer format is left out, because its opening would split a token of the reply.
        """
        prompt_text = self._first + PROMPT_PROBE + self._ask
        reply_text = self._lead + REPLY_PROBE + self._end
        next_text = self._after + PROMPT_PROBE + self._ask
        prompt = self._ids_of(prompt_text)
        joined_ids = self._ids_of(prompt_text + reply_text + next_text)
        reply = self._ids_after(prompt_text, reply_text) or ()
        separate_ids = (*prompt, *reply, *self._continuation_ids(((next_text, "", ""),)))
        if separate_ids != joined_ids:
            pairs = list(zip(separate_ids, joined_ids, strict=False))
            first = next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))
            parts, expected = (
                self.tokenizer.convert_ids_to_tokens(list(ids[first : first + 3]))
                for ids in (separate_ids, joined_ids)
            )
            raise ModelError(
                f"The tokenizer reads a conversation differently from its parts: {expected} in the "
                f"whole, but {parts} where a reply begins or ends, so the model would be trained "
                f"on other ids than it samples. {self._remedy} Or use another tokenizer."
            )

    # -- ids of texts ------------------------------------------------------------------------------

    def _ids_of(self, text: str) -> tuple[int, ...]:
        """Return the tokenizer's ids of a text, special tokens included."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()

    def _count_marks_uncached(self, text: str) -> int:
        """Return the number of special and added tokens in a text."""
        return sum(index in self._names for index in self._ids_of(text))

    def _ids_after(self, prefix: str, text: str) -> tuple[int, ...] | None:
        """Return the ids of a text after another text; None if the two share a token."""
        prefix_ids, all_ids = self._ids_of(prefix), self._ids_of(prefix + text)
        return all_ids[len(prefix_ids) :] if all_ids[: len(prefix_ids)] == prefix_ids else None

    def _encode_within_uncached(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text within another text, without a tokenizer's leading space."""
        ids = self._ids_after("\n", text)
        return self._ids_of(text) if ids is None else ids

    def _encode_parts_uncached(self, parts: tuple[tuple[str, str, str], ...]) -> tuple[int, ...]:
        """Return the ids of a text of alternating scaffold and foreign text.

        The text is encoded as a whole, with cuts where foreign text would become a special or added
        token.

        Args:
            parts: (scaffold, foreign text, scaffold) tuples.
        """
        text, spans, marks = "", [], 0
        for before, foreign, after in parts:
            spans.append((len(text) + len(before), len(text) + len(before) + len(foreign)))
            marks += self._count_marks(before) + self._count_marks(after)
            text += before + foreign + after
        piece_start = 0
        ids: tuple[int, ...] = ()
        for cut_end in (*self._find_cuts(text, spans), len(text)):
            piece = text[piece_start:cut_end]
            ids += self._encode_within(piece) if piece_start else self._ids_of(piece)
            piece_start = cut_end
        if sum(index in self._names for index in ids) == marks:
            return ids
        # an added token also matches another form of this text: encode it character by character
        ids = ()
        for before, foreign, after in parts:
            character_ids = chain.from_iterable(map(self._encode_within, foreign))
            text_ids = tuple(index for index in character_ids if index not in self._names)
            ids += self._ids_of(before) + text_ids + self._ids_of(after)
        return ids

    def _find_cuts(self, text: str, spans: list[tuple[int, int]]) -> list[int]:
        """Return where to cut a text so that foreign text in ``spans`` has no special tokens."""
        cuts, position = [], 0
        while match := self._reserved_text.search(text, position):
            begin, end = match.span()
            span_starts = [low for low, high in spans if begin < high and low < end]
            position = max(begin + 1, span_starts[0]) if span_starts else end
            if span_starts and position < end:
                cuts.append(position)
        return cuts

    def _continuation_ids(self, parts: tuple[tuple[str, str, str], ...]) -> tuple[int, ...]:
        (scaffold, *rest_of_part), *other_parts = parts
        return self._encode_parts(((self._mark + scaffold, *rest_of_part), *other_parts))[1:]

    def _encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of foreign text, without special tokens."""
        return self._encode_parts((("", text, ""),))

    # -- conversations -----------------------------------------------------------------------------

    def _decode_uncached(self, ids: tuple[int, ...]) -> str:
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def _prompt_text(self, text: str, *, is_first: bool = False) -> str:
        """Return an environment's text; the first prompt also has the answer format's instruction.

        The request to reply with the action only is reworded if replies have tags or thoughts.
        """
        prompt = text.replace(REPLY, CHOOSE) if self._has_more_than_action else text
        has_instruction = is_first and self.format.instruction
        return f"{prompt}\n\n{self.format.instruction}" if has_instruction else prompt

    def initial(
        self, text: str, messages: Sequence[ChatMessage] = (), prefill: str = ""
    ) -> tuple[int, ...]:
        """Return the ids that open a conversation with a text and end where a reply begins.

        Args:
            text: the prompt.
            messages: earlier messages: a system message (if any), then user and assistant in turn.
            prefill: the beginning of the reply.

        Raises:
            ModelError: the chat template drops or changes a system message.
        """
        parts, before = self._earlier_parts(messages)
        parts.append((before, self._prompt_text(text, is_first=True), self._ask))
        return self._encode_parts((*parts, *self._prefill_part(prefill)))

    def _prefill_part(self, prefill: str) -> tuple[tuple[str, str, str], ...]:
        return (("", prefill, ""),) if prefill else ()

    def _earlier_parts(
        self, messages: Sequence[ChatMessage]
    ) -> tuple[list[tuple[str, str, str]], str]:
        """Return the parts of messages, and the scaffold before the user's next message."""
        parts: list[tuple[str, str, str]] = []
        before = self._first
        for role, content in messages:
            if role == "system":
                opening, before = self._system_scaffold()
                parts.append((opening, content, ""))
            elif role == "user":
                parts.append((before, content, self._before_reply))
            else:
                parts.append(("", content, self._end))
                before = self._after
        return parts, before

    def _system_scaffold(self) -> tuple[str, str]:
        """Return the scaffold before a system message, and from there to the user's message."""
        if self._system_pieces is None:
            opening, closing, _ = self._render((PROMPT_PROBE,), system=SYSTEM_PROBE)
            self._system_pieces = (opening, closing)
        return self._system_pieces

    def append(self, text: str, prefill: str = "") -> tuple[int, ...]:
        """Return the ids that continue a conversation with a text, up to where a reply begins."""
        part = (self._after, self._prompt_text(text), self._ask)
        return self._continuation_ids((part, *self._prefill_part(prefill)))

    def close(self, truncated: bool) -> tuple[int, ...]:
        """Return the tokens that close a reply: the end of turn if the reply was truncated."""
        return self._end_ids if truncated else ()

    def reply(self, text: str) -> tuple[int, ...]:
        """Encode a complete reply with an action exactly as the model would have sampled it."""
        parts = ((self._ask + self._lead, text, self.format.ending + self._end),)
        prompt_end, ids = self._ids_of(self._ask), self._encode_parts(parts)
        if ids[: len(prompt_end)] == prompt_end:
            return ids[len(prompt_end) :]
        return self._encode_parts(((self._lead, text, self.format.ending + self._end),))

    def conversation(
        self,
        past: list[tuple[str, tuple[int, ...]]],
        text: str,
        messages: Sequence[ChatMessage] = (),
        prefills: Sequence[str] = (),
    ) -> tuple[int, ...]:
        """Return the ids of a conversation without the thoughts of its replies.

        Args:
            past: (prompt, ids of the reply) of each earlier turn.
            text: the present prompt.
            messages: as in ``initial``.
            prefills: the beginning of each reply, the present one included; (): none.
        """
        reply_starts = [*prefills, *[""] * (len(past) + 1 - len(prefills))]
        parts, before = self._earlier_parts(messages)
        for number, (prompt, sampled) in enumerate(past):
            whole_reply = reply_starts[number] + self.parse(sampled)
            reply = self.format.without_thoughts(self._ask, whole_reply)
            prompt_text = self._prompt_text(prompt, is_first=number == 0)
            parts.append((before, prompt_text, self._before_reply))
            parts.append(("", reply, self._end))
            before = self._after
        parts.append((before, self._prompt_text(text, is_first=not past), self._ask))
        return self._encode_parts((*parts, *self._prefill_part(reply_starts[-1])))

    def parse(self, ids: tuple[int, ...]) -> str:
        """Return the text of sampled ids, without the end of turn."""
        return self._decode(ids[:-1] if ids and ids[-1] in self.stop_ids else ids)

    def read(self, text: str) -> str | None:
        """Return the part of a reply that names the action; None if its format is wrong."""
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
    """Turn conversations into ids for a pretrained model, by its chat template or as plain text.

    The template is split into pieces and checked: a new message must not change earlier text, the
    system message must be included, and the pieces must have the ids of the whole.

    Args:
        tokenizer: tokenizer of the model.
        system: a system message. Empty (default): the template's system message, if any.
        thinking: true: replies begin with thoughts. false (default): they do not. The value is also
            passed to the template as ``enable_thinking``.
        history: how prompts show earlier replies, the same in rollout, training and evaluation.
            "keep" (default) includes the thoughts. "strip" leaves them out and trains on every turn
            as a separate sample; it needs ``thinking``.
        answer: form of the action in a reply. "exact" (default): the action and nothing else.
            "free": any text, in which the environment finds it. "tagged": between <answer> and
            </answer> (MARS). "boxed": in a LaTeX box (SPIRAL).
        template: a Jinja chat template in place of the tokenizer's, or the name of one: "chatml",
            "gemma", or "completion": text that a base model completes after "Answer:"; each reply
            ends with the tokenizer's end token. null (default): the tokenizer's template.
        date: the date for templates that write the current date, so that prompts do not depend on a
            clock. "2024-07-26" (default): the date that Llama 3's templates write without a clock.
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
