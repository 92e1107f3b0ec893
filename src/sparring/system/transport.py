"""One HTTP request within a deadline, however slowly the other side speaks, and within a size.

Time-outs of HTTP libraries are per read: a server that sends a byte now and then is waited for
without end. Here the whole try, from the connection to the last byte, is one task of an event loop,
and is given up at the deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import cache
from importlib import import_module
from threading import Thread
from typing import Any

LARGEST = 16 << 20  # bytes of an answer
GRACE = 5.0  # seconds that a given-up request may take to close its connection
OPENAI = "api.openai.com"
HEADERS = (
    "accept",
    "authorization",
    "content-type",
    "user-agent",
    "idempotency-key",
    "x-stainless-",
)
"""What is sent to others than OpenAI.

The package takes more out of the environment (organisation, project, custom headers).
"""

Answered = tuple[int, list[tuple[str, str]], bytes]


class DeadlineTransport:
    """What an HTTP client of the package openai sends requests by.

    Args:
        openai: the package.
        timeout: seconds that one try may take as a whole.
        host: who is asked.
    """

    def __init__(self, openai: Any, *, timeout: float, host: str) -> None:
        self.timeout, self.host = timeout, host
        # httpx, by the name it has there
        self._http = import_module(
            openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]
        )
        self._client = openai.DefaultAsyncHttpxClient(follow_redirects=False, timeout=timeout)

    def handle_request(self, request: Any) -> Any:
        """Return the response to a request; the time-outs of the request itself are not read.

        Raises:
            TimeoutException, HTTPError: of the HTTP library: no answer in time, or none that can be
                read.
        """
        sent = self._send(
            request.method, str(request.url), _allowed(request.headers, self.host), request.read()
        )
        future = asyncio.run_coroutine_threadsafe(sent, _loop())
        try:
            status, headers, body = future.result(self.timeout + GRACE)
        except (TimeoutError, FutureTimeoutError):
            future.cancel()
            raise self._http.ReadTimeout("the deadline has passed", request=request) from None
        return self._http.Response(status, headers=headers, content=body)

    def close(self) -> None:
        """Leave the connections to the loop, which ends with the process."""

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes
    ) -> Answered:
        """Return status, headers and body of the answer.

        Raises:
            TimeoutError: the deadline has passed.
            HTTPError: of the HTTP library: no connection, too long an answer, or one in an encoding
                that was not asked for.
        """
        async with (
            asyncio.timeout(self.timeout),
            self._client.stream(method, url, headers=headers, content=content) as answer,
        ):
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise self._http.ProtocolError("the answer is compressed, which was not asked for")
            body = bytearray()
            async for part in answer.aiter_raw():
                body += part
                if len(body) > LARGEST:
                    raise self._http.ProtocolError(f"the answer is longer than {LARGEST >> 20} MiB")
            kept = [
                (name, value)
                for name, value in answer.headers.multi_items()
                if name not in ("content-length", "transfer-encoding")
            ]
            return answer.status_code, kept, bytes(body)


def http_client(openai: Any, *, timeout: float, host: str) -> Any:
    """Return a client for ``openai.OpenAI(http_client=...)``.

    A deadline around every try, no redirect followed.
    """
    transport = DeadlineTransport(openai, timeout=timeout, host=host)
    return openai.DefaultHttpxClient(transport=transport, follow_redirects=False, timeout=timeout)


def _allowed(headers: Mapping[str, str], host: str) -> dict[str, str]:
    """Return the headers that are sent to a host."""
    kept = {
        name: value
        for name, value in headers.items()
        if name.startswith(HEADERS) or (host == OPENAI and name.startswith("openai-"))
    }
    return {**kept, "accept-encoding": "identity"}


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that all requests of this process run on, in a thread of its own."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="endpoint-network", daemon=True).start()
    return loop
