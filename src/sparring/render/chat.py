"""The chat renderer: a pretrained model's own chat template as scaffold.

It is taken apart once and checked.

The template is never run over what was said. At the start it renders a few probe conversations; the
pieces between the probes' contents are the scaffold, and a conversation is laid out as scaffold ids
around content ids. So sampled ids stay as they were sampled, and foreign text is encoded with
special tokens switched off.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from sparring.environments.openspiel.wording import CHOOSE, REPLY
from sparring.errors import ConfigError, ModelError
from sparring.render.answers import Answer, answer_format
from sparring.render.probes import between, pieces, tool_turns
from sparring.render.template_limits import check_template, limited
from sparring.render.templates import TEMPLATES


class ChatRenderer:
    """Turns what a seat is told into ids, and sampled ids into text, by a model's chat template.

    With ``history="keep"`` a conversation only ever grows. With "strip" the thoughts of earlier
    replies are left out of what the model sees later, so every turn is laid out anew and becomes a
    training sample of its own.

    ``tool_turns`` says what the probe found about tools' answers: "stable", "unstable", or "none"
    where the template has no place for them. Games send none, so nothing is refused for it.
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
        self._template = TEMPLATES.get(template or "", template)
        self._thinking, self._system = thinking, system
        self._more_than_the_action = thinking or answer == "tagged"
        if self._template is None and not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                "This tokenizer has no chat template. Write renderer.template=chatml, or take an "
                "instruction-tuned model."
            )
        own = self._template or tokenizer.chat_template
        for text in own.values() if isinstance(own, dict) else [own]:
            check_template(str(text))
        self.encode = lru_cache(maxsize=4096)(self._encode)
        self._text = lru_cache(maxsize=4096)(self._decode)
        first, answered, after, ask = pieces(self._render)
        ids = self._scaffold(after)
        self._first = self._scaffold(first)
        self._check_specials(ids)
        self.stop_ids: tuple[int, ...] = (ids[0],)
        self._after, self._asked = ids[1:], ask + self.format.opening
        self._ask = (*self._scaffold(ask), *self._scaffold(self.format.opening))
        self._answered = self._scaffold(answered)
        self.tool_turns = tool_turns(self._render)

    # -- the template, taken apart -----------------------------------------------------------------

    def _render(self, contents: tuple[str, ...], later: str = "user") -> list[str]:
        """Return the scaffold between the contents of a conversation that waits for a reply.

        ``later`` speaks from the third on.
        """
        messages = [{"role": "system", "content": self._system}] if self._system else []
        roles = ("user", *("assistant", later) * len(contents))
        messages += [
            {"role": role, "content": text} for role, text in zip(roles, contents, strict=False)
        ]
        options = {
            "tokenize": False,
            "add_generation_prompt": True,
            "enable_thinking": self._thinking,
            "chat_template": self._template,
        }
        try:
            with limited():
                rendered: str = self.tokenizer.apply_chat_template(messages, **options)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"The chat template fails: {error}. Write renderer.template=chatml or "
                "renderer.system=''."
            ) from error
        return between(rendered, contents)

    def _scaffold(self, text: str) -> tuple[int, ...]:
        """Return the ids of scaffold text, special tokens included."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()

    def _check_specials(self, after: tuple[int, ...]) -> None:
        """Check that replies end with a special token and that foreign text cannot contain one.

        Raises:
            ModelError: they do not, or it can.
        """
        special = set(self.tokenizer.all_special_ids) | set(self.tokenizer.added_tokens_decoder)
        if not after or after[0] not in special:
            raise ModelError(
                f"The chat template ends a reply with {self.tokenizer.decode(list(after[:1]))!r}, "
                "which is no special token, so the end of a reply cannot be told from its text. "
                "Write renderer.template=chatml, if the tokenizer has <|im_end|>."
            )
        # of turns
        marks = {
            index: self.tokenizer.decode([index])
            for index in sorted(special & {*self._first, *after})
        }
        # in some vocabularies a line's end is one
        marks = {index: text for index, text in marks.items() if text.strip()}
        own = set(self.tokenizer.all_special_ids) | set(marks)
        for text in marks.values():
            if own & set(self.encode(f"a{text}b {text}")):
                raise ModelError(
                    f"This tokenizer reads {text!r} in plain text as special, so foreign text "
                    "could end a turn or begin one. Use a fast tokenizer in which the template's "
                    "marks are declared special tokens."
                )

    # -- conversations -----------------------------------------------------------------------------

    def _encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of foreign text; special tokens in it are read as plain characters."""
        return tuple(
            self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        )

    def _decode(self, ids: tuple[int, ...]) -> str:
        """Return the text of ids; special ids show by their names."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def _told(self, text: str) -> str:
        """Return what a game says.

        It does not ask for the action alone where the reply is to hold tags or thoughts as well.
        """
        return text.replace(REPLY, CHOOSE) if self._more_than_the_action else text

    def initial(self, text: str) -> tuple[int, ...]:
        """Return the ids that open a conversation with this text and ask for a reply."""
        text = self._told(text)
        told = f"{text}\n\n{self.format.instruction}" if self.format.instruction else text
        return (*self._first, *self.encode(told), *self._ask)

    def append(self, text: str) -> tuple[int, ...]:
        """Return the ids that tell a running conversation this text and ask for a reply."""
        return (*self._after, *self.encode(self._told(text)), *self._ask)

    def close(self, truncated: bool) -> tuple[int, ...]:
        """Return the scaffold that closes a reply.

        The end of turn where the reply was cut before saying it.
        """
        return self.stop_ids if truncated else ()

    def reply(self, text: str) -> tuple[int, ...]:
        """Return the ids of a complete reply with this action.

        The model would have sampled them after the opening.
        """
        return (*self.encode(text + self.format.ending), *self.stop_ids)

    def conversation(self, past: list[tuple[str, tuple[int, ...]]], text: str) -> tuple[int, ...]:
        """Return a conversation laid out anew, the thoughts of its replies left out.

        Args:
            past: what the seat was told and what it sampled, turn by turn.
            text: what it is told now.
        """
        ids: tuple[int, ...] = ()
        for number, (told, sampled) in enumerate([*past, (text, ())]):
            asked = self.initial(told) if number == 0 else self.append(told)
            if number == len(past):
                return ids + asked
            shown = self.format.without_thoughts(self._asked, self.parse(sampled))
            ids += (
                asked[: len(asked) - len(self._ask)]
                + self._answered
                + self.encode(shown)
                + self.stop_ids
            )
        return ids

    def parse(self, ids: tuple[int, ...]) -> str:
        """Return the text of sampled ids, without the end of turn."""
        return self._text(ids[:-1] if ids and ids[-1] in self.stop_ids else ids)

    def read(self, text: str) -> str | None:
        """Return the part of a reply that names the action.

        None if the reply has not the form asked for.
        """
        return self.format.read(text)


def chat(
    tokenizer: Any,
    *,
    system: str = "",
    thinking: bool = False,
    history: Literal["keep", "strip"] = "keep",
    answer: Answer = "exact",
    template: str | None = None,
) -> ChatRenderer:
    """Lay conversations out for a pretrained chat model, by the model's own chat template.

    The template is taken apart and checked: what was laid out must not change with a new message.

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
            "chatml" or "gemma". null (default): the tokenizer's own.
    """
    return ChatRenderer(
        tokenizer,
        system=system,
        thinking=thinking,
        history=history,
        answer=answer,
        template=template,
    )
