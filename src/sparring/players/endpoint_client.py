"""Asks an OpenAI-compatible endpoint for chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sparring.environments.options import check_range
from sparring.players.endpoint_cache import Answer
from sparring.system.endpoint import OPENAI, Connection, MalformedError
from sparring.system.trust import address

_MOST_TOKENS = 10**9  # that one answer may claim to have taken
_ADVICE = {
    400: (
        "It may not know an option that was sent: see its words, and try seed_requests=false, "
        "temperature=null or top_p=null."
    )
}


class Client(Connection):
    """One endpoint of chat completions; see ``Connection`` for its arguments.

    Raises:
        ConfigError: a number is out of range; and as for ``Connection``.
    """

    def __init__(self, *, base_url: str, key_variable: str, timeout: float, retries: int) -> None:
        check_range("endpoint: timeout", timeout, 0.001)
        check_range("endpoint: retries", retries, 0)
        super().__init__(
            base_url=base_url,
            key_variable=key_variable,
            timeout=timeout,
            retries=retries,
            advice=_ADVICE,
        )
        # OpenAI's new models refuse the old name
        asked = address(base_url).host
        self.limit_name = "max_completion_tokens" if asked == OPENAI else "max_tokens"

    def ask(self, request: Mapping[str, Any]) -> Answer:
        """Return the answer to one request (the fields of a chat completion).

        Raises:
            RolloutError: there was none, or nothing that can be read as one.
        """
        answer = self.send("/chat/completions", request, _answer, "a chat completion")
        return answer._replace(text=self.hidden(answer.text))


def _answer(body: str) -> Answer:
    """Return the answer in the body of a response; an absent or null content is an empty text."""
    try:
        data = json.loads(body)
        choice, usage = data["choices"][0], data.get("usage") or {}
        text = _text(choice["message"].get("content"))
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        truncated = choice.get("finish_reason") == "length"
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise MalformedError(body.strip() or "an empty body") from None
    tokens_in, tokens_out = (
        count if type(count) is int and 0 <= count <= _MOST_TOKENS else None for count in counts
    )
    return Answer(text=text, truncated=truncated, tokens_in=tokens_in, tokens_out=tokens_out)


def _text(content: Any) -> str:
    """Return a message's content as text that any file can hold.

    It may come in parts, of which some are no text.
    """
    if content is None:
        return ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError
    return content.encode("utf-8", "replace").decode("utf-8")
