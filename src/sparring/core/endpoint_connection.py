"""Sends requests to an OpenAI-compatible endpoint through the package openai.

Time-outs of HTTP libraries apply to each read, so a server that sends single bytes slowly can block
forever. Here each try has one deadline, from the connection to the last byte.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from threading import Thread
from typing import Any, TypeVar

from sparring.core.errors import ConfigError, RolloutError
from sparring.core.trust import check_host, parse_address

MAX_BYTES = 16 << 20  # largest number of bytes of a response
OPENAI = "api.openai.com"
_HEADERS = (
    "accept",
    "authorization",
    "connection",
    "content-",
    "host",
    "idempotency-key",
    "user-agent",
    "x-stainless-",
)
"""Prefixes of the headers that are sent to hosts other than OpenAI.

The package would add headers from the environment (organisation, project, custom headers).
"""
_MAX_QUOTED = 200  # characters of an endpoint's message that an error quotes
_MIN_MASKED = 4  # characters of the shortest part of a key that is masked
_MIN_KEY = 8  # characters of a real key; a shorter key may occur as a word in replies
_ADVICE = {
    402: "The account has no credit left.",
    404: "Check base_url and model.",
    413: "The request is too large for it.",
    429: "Write a smaller concurrency or more retries, or look at the account's limits.",
}

Response = TypeVar("Response")


class MalformedError(ValueError):
    """A response of the wrong form; the message is the beginning of the response."""


class StatusError(RolloutError):
    """An endpoint answered with a status that means failure.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Connection:
    """A connection to one endpoint, usable from many threads; no error text contains the key.

    Args:
        base_url: http(s) address of the API without "/completions".
        key_variable: the environment variable with the key; a loopback address needs no key.
        timeout: seconds for one try, from the connection to the last byte of the response.
        retries: tries after the first one, with exponential back-off (time-outs, lost connections,
            status 408, 409, 429, 5xx).
        advice: advice for error texts by HTTP status; it extends or replaces the default.

    Raises:
        ConfigError: the package openai is missing, the address is wrong or was not named by the
            user, or there is no usable key.
    """

    def __init__(
        self,
        *,
        base_url: str,
        key_variable: str,
        timeout: float,
        retries: int,
        advice: Mapping[int, str] | None = None,
    ) -> None:
        self.base_url, self.key_variable = base_url, key_variable
        self.timeout, self.retries = timeout, retries
        self._advice_by_status = {**_ADVICE, **(advice or {})}
        address = parse_address(base_url)
        check_host(address, key_variable)
        self._openai = openai = _import_openai()
        self._key = _read_key(key_variable, is_required=not address.is_loopback)
        self._api = openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=base_url,
            timeout=timeout,
            max_retries=retries,
            http_client=_make_http_client(openai, address.host),
        )

    def send(
        self,
        path: str,
        request: Mapping[str, Any],
        read: Callable[[str], Response],
        expected: str,
        *,
        single_try: float | None = None,
    ) -> Response:
        """Send one request and return the parsed response.

        Args:
            path: path below ``base_url``, such as "/completions".
            request: the fields of the request; errors name its "model".
            read: a function that parses a response's body, or raises ``MalformedError``.
            expected: the expected body in words, such as "a chat completion".
            single_try: seconds of the only try; None: ``timeout`` and ``retries`` apply.

        Raises:
            StatusError: the endpoint refused, or every try failed.
            RolloutError: there was no response, or the response cannot be read.
        """
        openai, endpoint = self._openai, f"Endpoint {self.base_url}"
        endpoint += f" (model {request['model']!r})" if "model" in request else ""
        status = None
        try:
            options = {} if single_try is None else {"timeout": single_try, "max_retries": 0}
            response = self._api.post(path, cast_to=str, body=dict(request), options=options)
            return read(asyncio.run_coroutine_threadsafe(response, _network_loop()).result())
        except openai.APIStatusError as error:
            status = error.status_code
            detail, advice = self._detail(error), self._advice(status)
            problem = f"{endpoint} answered with status {status}{detail} {advice}"
        except openai.APITimeoutError:
            problem = (
                f"{endpoint} did not answer within timeout={self.timeout:g} seconds, "
                f"{self._tries}. Write a larger timeout or more retries."
            )
        except openai.APIConnectionError as error:
            problem = (
                f"{endpoint} could not be "
                f"reached, {self._tries}: {self._clean_text(str(error.__cause__ or error))}. Check "
                "base_url."
            )
        except openai.OpenAIError as error:
            problem = f"{endpoint} could not be called: {self._clean_text(str(error))}."
        except MalformedError as error:
            problem = (
                f"{endpoint} answered with status 200 but not with {expected}: "
                f"{self._clean_text(str(error))}. Check base_url."
            )
        # raised outside of the handlers, because their exceptions hold the request's headers
        if status is not None:
            raise StatusError(problem, status)
        raise RolloutError(problem)

    def mask_key(self, text: str) -> str:
        """Return a text with the whole key replaced by ***."""
        return text if len(self._key) < _MIN_KEY else text.replace(self._key, "***")

    @property
    def _tries(self) -> str:
        return f"{self.retries + 1} tries" if self.retries else "1 try"

    def _advice(self, status: int) -> str:
        if status in (401, 403):
            return (
                f"It refuses the key in the environment variable {self.key_variable}; set the "
                "variable to a valid key."
            )
        return self._advice_by_status.get(
            400 if status == 422 else status,
            "Run again later or write more retries." if status >= 500 else "",
        )

    def _detail(self, error: Any) -> str:
        """Return the endpoint's message, except for statuses whose message may repeat the key."""
        message = "" if error.status_code in (401, 403) else self._clean_text(error.response.text)
        return f": {message}." if message else "."

    def _clean_text(self, text: str) -> str:
        return " ".join(self._mask_key(text[: 8 * _MAX_QUOTED]).split())[:_MAX_QUOTED].rstrip(".")

    def _mask_key(self, text: str) -> str:
        if len(self._key) <= _MIN_MASKED:
            return text.replace(self._key, "***") if self._key else text
        parts = {
            self._key[i : i + _MIN_MASKED].casefold()
            for i in range(len(self._key) - _MIN_MASKED + 1)
        }
        is_masked = [False] * len(text)
        for i in range(len(text) - _MIN_MASKED + 1):
            if text[i : i + _MIN_MASKED].casefold() in parts:
                is_masked[i : i + _MIN_MASKED] = [True] * _MIN_MASKED
        characters = [
            ("***" if not i or not is_masked[i - 1] else "") if is_masked[i] else text[i]
            for i in range(len(text))
        ]
        return "".join(characters)


def _import_openai() -> Any:
    try:
        import openai
    except ImportError:
        raise ConfigError(
            "An endpoint needs the package openai, which is not installed; run pip install "
            "'sparring[endpoint]'."
        ) from None
    return openai


def _make_http_client(openai: Any, host: str) -> Any:
    # the module httpx, by the name under which openai imports it
    http = import_module(openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])
    allowed_prefixes = (*_HEADERS, "openai-") if host == OPENAI else _HEADERS

    class _Client(openai.DefaultAsyncHttpxClient):  # type: ignore[misc]
        async def send(self, request: Any, **options: Any) -> Any:
            for name in [name for name in request.headers if not name.startswith(allowed_prefixes)]:
                del request.headers[name]
            request.headers["accept-encoding"] = "identity"
            try:
                async with asyncio.timeout(request.extensions["timeout"]["read"]):
                    return await self._read_all(request, **options)
            except TimeoutError:
                raise http.ReadTimeout("the deadline has passed", request=request) from None

        async def _read_all(self, request: Any, **options: Any) -> Any:
            """Return the response with its whole body; redirects are not followed."""
            options |= {"stream": True, "follow_redirects": False}
            response = await super().send(request, **options)
            try:
                if response.headers.get("content-encoding", "identity") != "identity":
                    problem = "the response is compressed, contrary to the request"
                    raise http.ProtocolError(problem, request=request)
                body = bytearray()
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_BYTES:
                        problem = f"the response is longer than {MAX_BYTES >> 20} MiB"
                        raise http.ProtocolError(problem, request=request)
            finally:
                await response.aclose()
            headers = [
                (name, value)
                for name, value in response.headers.multi_items()
                if name not in ("content-length", "transfer-encoding")
            ]
            return http.Response(
                response.status_code, headers=headers, content=bytes(body), request=request
            )

    return _Client()


@cache
def _network_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="endpoint-network", daemon=True).start()
    return loop


def _read_key(variable: str, *, is_required: bool) -> str:
    key = os.environ.get(variable, "").strip()
    if is_required and not key:
        raise ConfigError(
            f"endpoint: the environment variable {variable} is not set; put the key into it (any "
            "word if the endpoint needs no key), or name another variable by key_variable."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(
            f"endpoint: the environment variable {variable} holds characters that are not part of "
            "a key; set it to the key alone."
        )
    return key
