"""Access control, body fields and error answers of the viewer's HTTP requests.

Other sites and other users of the machine must not use the viewer. Each request therefore needs
the right ``Host`` (against DNS rebinding) and no ``Origin`` or ``Sec-Fetch-Site`` of another site;
data also need the token. Cookies are not used, because all ports of a host share them.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from sparring.core.errors import SparringError
from sparring.report.episode_record import json_value

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
MAX_BODY = 64 * 1024  # largest number of bytes in the body of a request
OWN_HEADER = b"x-sparring"  # other pages' forms cannot send this header
PAGE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address, which other machines cannot reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class Guard:
    """An ASGI application that passes only permitted requests to another application.

    Args:
        app: the guarded application.
        token: required for data in ``Authorization: Bearer``.
        hosts: allowed names in ``Host`` besides loopback, with or without a port.
        any_address: whether ``Host`` may be any IP address; DNS rebinding works only with names.
    """

    app: App
    token: str
    hosts: Collection[str] = field(default=())
    any_address: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a forbidden request with an error, and pass on all others."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # web sockets are not accepted
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send)
        try:
            self._check(scope)
            await self.app(scope, _with_limit(receive), send)
        except RequestError as error:
            await _send_error(send, error)

    def _check(self, scope: Scope) -> None:
        headers = _unique_headers(scope["headers"])
        path: str = scope["path"]
        if not self._is_own_host(headers.get(b"host", "")):
            raise RequestError(
                403, "this Host is not the viewer's; open the address that was printed"
            )
        origin = headers.get(b"origin")
        if origin is not None and origin != f"http://{headers[b'host']}":
            raise RequestError(403, "requests of other pages are refused (Origin)")
        site, mode = headers.get(b"sec-fetch-site", "none"), headers.get(b"sec-fetch-mode")
        is_link = path == "/" and mode == "navigate" and scope["method"] == "GET"  # has no data
        if site not in ("same-origin", "none") and not is_link:
            raise RequestError(403, "requests of other pages are refused (Sec-Fetch-Site)")
        _check_body(scope["method"], headers)
        is_open = path == "/" or path.startswith("/static/")  # the page has no data of runs
        bearer = headers.get(b"authorization", "").encode("latin-1")
        if not is_open and not secrets.compare_digest(bearer, f"Bearer {self.token}".encode()):
            raise RequestError(
                401, "the token is missing or wrong; open the address that was printed"
            )

    def _is_own_host(self, host: str) -> bool:
        name, port = _split(host)
        if port and not (port.isascii() and port.isdigit()):
            return False
        if name in LOOPBACK or name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return self.any_address


def _split(host: str) -> tuple[str, str]:
    host = host.lower()
    if host.startswith("["):
        name, bracket, port_text = host.partition("]")
        return name + bracket, port_text[1:] if port_text.startswith(":") else port_text and "?"
    name, _, port = host.partition(":")
    return name, port


def _unique_headers(headers: Collection[tuple[bytes, bytes]]) -> dict[bytes, str]:
    values: dict[bytes, str] = {}
    single_headers = (b"host", b"origin", b"authorization", b"content-length", b"sec-fetch-site")
    for name, value in headers:
        if name in values and name in single_headers:
            raise RequestError(400, f"the header {name.decode('latin-1')} comes twice")
        values[name] = value.decode("latin-1")
    if b"host" not in values:
        raise RequestError(403, "there is no Host")
    return values


def _check_body(method: str, headers: dict[bytes, str]) -> None:
    """Refuse writes that a form of another page could send, and large bodies."""
    length = headers.get(b"content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise RequestError(400, "content-length is not a number")
    if int(length[:20]) > MAX_BODY:
        raise RequestError(413, f"a body has at most {MAX_BODY} bytes")
    if method in ("GET", "HEAD"):
        return
    if method != "POST":
        raise RequestError(405, "only GET, HEAD and POST are allowed")
    kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or OWN_HEADER not in headers:
        raise RequestError(415, "a body is application/json, with the header X-Sparring")


def _with_limit(receive: Receive) -> Receive:
    """Return a receiver that counts and limits the bytes that really arrive."""
    num_bytes = 0

    async def receive_counted() -> Message:
        nonlocal num_bytes
        message = await receive()
        num_bytes += len(message.get("body", b""))
        if num_bytes > MAX_BODY:
            raise RequestError(413, f"a body has at most {MAX_BODY} bytes")
        return message

    return receive_counted


def _with_headers(send: Send) -> Send:
    """Return a sender that adds ``HEADERS``, and ``PAGE_POLICY`` unless the answer has a policy."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.lower(), value) for name, value in message.get("headers", [])]
            names = {name for name, _ in headers}
            defaults = {**HEADERS, b"content-security-policy": PAGE_POLICY.encode()}
            other_pairs = [pair for pair in headers if pair[0] not in HEADERS]
            added_pairs = [(k, v) for k, v in defaults.items() if k in HEADERS or k not in names]
            message = {**message, "headers": other_pairs + added_pairs}
        await send(message)

    return send_with_headers


async def _send_error(send: Send, error: RequestError) -> None:
    body = json_bytes({"error": str(error)})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


MAX_LINE = 300  # largest number of characters in an error line


class RequestError(SparringError):
    """An error that is sent as the answer to a request.

    Args:
        status: HTTP status code.
        message: text of one line.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON in ASCII, so that lone surrogates are escaped."""
    return json.dumps(json_value(value), allow_nan=False, separators=(",", ":")).encode("ascii")


def one_line(error: BaseException) -> str:
    """Return an error's text as a line of at most 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}..."


MAX_NUMBER = 1 << 40  # numbers in a request are smaller


class JsonBody:
    """A JSON object in the body of a request.

    Args:
        data: the received bytes.

    Raises:
        RequestError: the body is not a JSON object.
    """

    def __init__(self, data: bytes) -> None:
        try:
            fields: Any = json.loads(data)
        except (ValueError, RecursionError):
            raise RequestError(400, "the body is not JSON") from None
        if not isinstance(fields, dict):
            raise RequestError(400, "the body must be an object")
        self._fields: dict[str, Any] = fields

    def number(self, name: str, default: int | None) -> int | None:
        """Return a whole number, or ``default`` if the field is missing.

        Raises:
            RequestError: the field is not a whole number.
        """
        value = self._fields.get(name)
        if value is None:
            return default
        if type(value) is not int or not 0 <= value < MAX_NUMBER:
            raise RequestError(400, f"{name} must be a whole number, at least 0")
        return value

    def required(self, name: str) -> int:
        """Return a required whole number.

        Raises:
            RequestError: the field is missing.
        """
        value = self.number(name, None)
        if value is None:
            raise RequestError(400, f"{name} is missing")
        return value

    def text(self, name: str, max_length: int) -> str | None:
        """Return a text, or None if the field is missing.

        Raises:
            RequestError: the field is not a text, or longer than ``max_length`` characters.
        """
        value = self._fields.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > max_length):
            raise RequestError(400, f"{name} must be a text of at most {max_length} characters")
        return value
