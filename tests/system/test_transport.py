"""Endpoints that speak slowly, without end, or elsewhere: every try ends in time, and says no more than it must."""

import contextlib
import json
import socket
import threading
import time

import pytest

from sparring.errors import RolloutError
from sparring.players.endpoint_account import Account
from sparring.system.endpoint import LARGEST

KEY = "sk-Very0Secret1Key2"
BODY = json.dumps({"choices": [{"message": {"content": "bet"}, "finish_reason": "stop"}]}).encode()
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5}


@pytest.fixture
def listen(monkeypatch):
    """Return a function that starts a server: ``speak(connection)`` gets every connection once its request has come."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MY_API_KEY", KEY)
    done, sockets = threading.Event(), []

    def start(speak):
        server = socket.create_server(("127.0.0.1", 0))
        sockets.append(server)
        heard = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection):
            with contextlib.suppress(OSError), connection:
                heard.append(request_on(connection))
                speak(connection, done)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/v1", heard

    yield start
    done.set()
    for server in sockets:
        server.close()


def request_on(connection):
    """Return a whole request: what a server leaves unread resets the connection."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(65536)
    head, _, body = text.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65536)
    return head


def account(url, *, timeout=0.4, retries=0):
    free = dict(budget_tokens=0, budget_cost=0.0, price_in=0.0, price_out=0.0, cache=None)
    return Account("A test", base_url=url, key_variable="MY_API_KEY", timeout=timeout, retries=retries, **free)


def ask(url, **options):
    return account(url, **options).ask(REQUEST, 0)


def answer(body=BODY, status="200 OK", *headers):
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def drip(whole, before=b""):
    """Return a way to speak: a part at once, then a byte every 0.05 seconds, 20 seconds long."""

    def speak(connection, done):
        connection.sendall(before)
        for number in range(400):
            if done.wait(0.05):
                return
            connection.sendall(whole[number % len(whole) :][:1])

    return speak


@pytest.mark.parametrize(
    "speak",
    [
        lambda connection, done: done.wait(20),
        drip(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1000),
        drip(b" ", answer(b"", "200 OK").replace(b"content-length: 0", b"content-length: 1000")),
        drip(b"1\r\n \r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        drip(b" ", answer(b"", "500 No").replace(b"content-length: 0", b"content-length: 1000")),
    ],
    ids=["silence", "headers", "body", "chunks", "error"],
)
def test_a_try_ends_at_the_deadline_however_slowly_it_is_answered(listen, speak):
    url, heard = listen(speak)
    slow = account(url)
    began = time.monotonic()
    with pytest.raises(RolloutError, match=rf"Endpoint {url} .* did not answer within timeout=0\.4 seconds, 1 try"):
        slow.ask(REQUEST, 0)
    assert time.monotonic() - began < 5 and len(heard) == 1


def test_every_try_has_a_deadline_of_its_own(listen):
    url, heard = listen(drip(b" ", answer(b"").replace(b"content-length: 0", b"content-length: 1000")))
    with pytest.raises(RolloutError, match="2 tries"):
        ask(url, retries=1)
    assert len(heard) == 2


def test_a_slow_answer_within_the_deadline_is_taken(listen):
    def speak(connection, done):
        for byte in (whole[at : at + 16] for at in range(0, len(whole), 16)):
            connection.sendall(byte)
            time.sleep(0.01)

    whole = answer()
    assert ask(listen(speak)[0], timeout=20).text == "bet"


def test_an_answer_without_end_is_given_up(listen):
    def speak(connection, done):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(LARGEST // 2**20 + 3):
            connection.sendall(b" " * 2**20)

    with pytest.raises(RolloutError, match="the answer is longer than 16 MiB"):
        ask(listen(speak)[0], timeout=30)


def test_a_compressed_answer_is_not_unpacked(listen):
    url, heard = listen(lambda connection, done: connection.sendall(answer(b"x" * 9, "200 OK", "content-encoding: gzip")))
    with pytest.raises(RolloutError, match="compressed"):
        ask(url)
    assert b"accept-encoding: identity" in heard[0].lower()


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_a_redirect_is_not_followed(listen, status):
    other, heard = listen(lambda connection, done: connection.sendall(answer()))
    url, _ = listen(lambda connection, done: connection.sendall(answer(b"{}", status, f"location: {other}/chat/completions")))
    with pytest.raises(RolloutError, match=f"status {status[:3]}"):
        ask(url, timeout=20)
    assert heard == []


def test_nothing_else_of_the_environment_is_sent(listen, monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "of-the-environment")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Own: of-the-environment")
    url, heard = listen(lambda connection, done: connection.sendall(answer()))
    assert ask(url, timeout=20).text == "bet"
    assert f"Bearer {KEY}".encode() in heard[0] and b"of-the-environment" not in heard[0]


@pytest.mark.parametrize("echo", [KEY, KEY[:8], KEY[-6:], KEY[3:9].upper(), f"sk-{KEY[3:7]}***", " ".join([KEY[:6], KEY[6:12], KEY[12:]])])
def test_no_part_of_the_key_is_quoted(listen, echo):
    url, _ = listen(lambda connection, done: connection.sendall(answer(f"no such key: {echo}, sorry".encode(), "400 Bad")))
    with pytest.raises(RolloutError, match=r"no such \*\*\*|no such key: .*sorry") as caught:
        ask(url, timeout=20)
    text = str(caught.value).casefold()
    assert not [part for at in range(len(KEY) - 3) if (part := KEY[at : at + 4].casefold()) in text], text


def test_a_reply_that_echoes_the_key_is_kept_without_it(listen):
    body = json.dumps({"choices": [{"message": {"content": f"bet {KEY}"}}]}).encode()
    assert ask(listen(lambda connection, done: connection.sendall(answer(body)))[0], timeout=20).text == "bet ***"


def test_counts_beyond_reason_are_none(listen):
    body = BODY[:-1] + b', "usage": {"prompt_tokens": 1' + b"0" * 400 + b', "completion_tokens": 3}}'
    found = ask(listen(lambda connection, done: connection.sendall(answer(body)))[0], timeout=20)
    assert (found.tokens_in, found.tokens_out) == (None, 3)
