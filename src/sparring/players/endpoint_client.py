"""Talks to an OpenAI-compatible chat endpoint.

The key, one request with its retries, and what can go wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from sparring.environments.options import check_range
from sparring.errors import ConfigError, RolloutError
from sparring.players.endpoint_cache import Answer
from sparring.system.transport import OPENAI, http_client
from sparring.system.trust import address, check_host

_SHOWN = 200  # characters of an endpoint's own words that an error quotes
_PART = 4  # characters of the key in a row that are not quoted
_LONG = 8  # characters of a real key, at least; a shorter one is a word that may stand in replies
_MOST_TOKENS = 10**9  # that one answer may claim to have taken
_ADVICE = {
    400: (
        "It may not know an option that was sent: see its words, and try seed_requests=false, "
        "temperature=null or top_p=null."
    ),
    402: "The account has no credit left.",
    404: "Check base_url and model.",
    413: "The request is too large for it.",
    429: "Write a smaller concurrency or more retries, or look at the account's limits.",
}


class Client:
    """One endpoint, ready to be asked from many threads.

    The key stays in here: no message contains it.

    Args:
        base_url: http(s) address of the API, up to and without "/chat/completions".
        key_variable: name of the environment variable that holds the key; a loopback address may do
            without.
        timeout: seconds that one try may take as a whole, from the connection to the last byte of
            the answer.
        retries: tries after the first one, with exponential back-off (time-outs, lost connections,
            status 408, 409, 429, 5xx).

    Raises:
        ConfigError: the package openai is missing, the address is none or one that the user has not
            named, a number is out of range, or there is no usable key.
    """

    def __init__(self, *, base_url: str, key_variable: str, timeout: float, retries: int) -> None:
        check_range("endpoint: timeout", timeout, 0.001)
        check_range("endpoint: retries", retries, 0)
        self.base_url, self.key_variable, self.timeout, self.retries = (
            base_url,
            key_variable,
            timeout,
            retries,
        )
        asked = address(base_url)
        check_host(asked, key_variable)
        self._openai = openai = _library()
        self._key = _key(key_variable, needed=not asked.loopback)
        client = http_client(openai, timeout=timeout, host=asked.host)
        self._api = openai.OpenAI(
            api_key=self._key or "none",
            base_url=base_url,
            timeout=timeout,
            max_retries=retries,
            http_client=client,
        )
        # OpenAI's new models refuse the old name
        self.limit_name = "max_completion_tokens" if asked.host == OPENAI else "max_tokens"

    def ask(self, request: Mapping[str, Any]) -> Answer:
        """Return the answer to one request (the fields of a chat completion).

        Raises:
            RolloutError: there was none, or nothing that can be read as one.
        """
        openai, where = self._openai, f"Endpoint {self.base_url} (model {request['model']!r})"
        try:
            answer = _answer(self._api.chat.completions.with_raw_response.create(**request).text)
            return (
                answer
                if len(self._key) < _LONG
                else answer._replace(text=answer.text.replace(self._key, "***"))
            )
        except openai.APIStatusError as error:
            problem = (
                f"{where} answered with "
                f"status {error.status_code}{self._words(error)} {self._advice(error.status_code)}"
            )
        except openai.APITimeoutError:
            problem = (
                f"{where} did not answer within timeout={self.timeout:g} seconds, {self._tries}. "
                "Write a larger timeout or more retries."
            )
        except openai.APIConnectionError as error:
            problem = (
                f"{where} could not be "
                f"reached, {self._tries}: {self._clean(str(error.__cause__ or error))}. Check "
                "base_url."
            )
        except openai.OpenAIError as error:
            problem = f"{where} could not be asked: {self._clean(str(error))}."
        except _MalformedError as error:
            problem = (
                f"{where} answered with status 200 but not with a chat "
                f"completion: {self._clean(str(error))}. Check base_url."
            )
        # outside of the handlers: their exceptions hold the request's headers
        raise RolloutError(problem)

    @property
    def _tries(self) -> str:
        """How often a request was sent before it was given up."""
        return f"{self.retries + 1} tries" if self.retries else "1 try"

    def _advice(self, status: int) -> str:
        """Return what to do about a status."""
        if status in (401, 403):
            return (
                f"It refuses the key in the environment variable {self.key_variable}; set that to "
                "a valid key."
            )
        return _ADVICE.get(
            400 if status == 422 else status,
            "Run again later or write more retries." if status >= 500 else "",
        )

    def _words(self, error: Any) -> str:
        """Return the endpoint's own words about a status.

        They are left out where they may repeat a part of the key.
        """
        words = "" if error.status_code in (401, 403) else self._clean(error.response.text)
        return f": {words}." if words else "."

    def _clean(self, text: str) -> str:
        """Return the start of a text on one line, without the key or parts of it."""
        return " ".join(self._masked(text[: 8 * _SHOWN]).split())[:_SHOWN].rstrip(".")

    def _masked(self, text: str) -> str:
        """Return a text with ``***`` in place of the key and of every part of it."""
        if len(self._key) <= _PART:
            return text.replace(self._key, "***") if self._key else text
        parts = {self._key[at : at + _PART].casefold() for at in range(len(self._key) - _PART + 1)}
        hidden = [False] * len(text)
        for at in range(len(text) - _PART + 1):
            if text[at : at + _PART].casefold() in parts:
                hidden[at : at + _PART] = [True] * _PART
        shown = [
            ("***" if not at or not hidden[at - 1] else "") if hidden[at] else text[at]
            for at in range(len(text))
        ]
        return "".join(shown)


class _MalformedError(ValueError):
    """An answer that is no chat completion; the message is its start."""


def _library() -> Any:
    """Return the package openai, which only this agent needs."""
    try:
        import openai
    except ImportError:
        raise ConfigError(
            "Agent 'endpoint' needs the package openai, which is not installed; run pip install "
            "'sparring[endpoint]'."
        ) from None
    return openai


def _key(variable: str, *, needed: bool) -> str:
    """Return the key in an environment variable, "" if there is none and none is needed.

    Never show what may be a key.
    """
    key = os.environ.get(variable, "").strip()
    if needed and not key:
        raise ConfigError(
            f"endpoint: the environment variable {variable} is not set; put the key into it (any "
            "word if the endpoint wants none), or name another one by key_variable."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(
            f"endpoint: the environment variable {variable} holds characters that no key has; set "
            "it to the key alone."
        )
    return key


def _answer(body: str) -> Answer:
    """Return the answer in the body of a response; an absent or null content is an empty text."""
    try:
        data = json.loads(body)
        choice, usage = data["choices"][0], data.get("usage") or {}
        text = _text(choice["message"].get("content"))
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        truncated = choice.get("finish_reason") == "length"
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise _MalformedError(body.strip() or "an empty body") from None
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
