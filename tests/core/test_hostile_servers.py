"""Hostile model servers: every request ends in time with a one-line error that holds no part of the key.

The sampler `openai` meets the cases of ``HOSTILE_FIELDS``, ``RAW_RESPONSES`` and ``ADAPTER_RESPONSES``. A player meets servers that answer slowly, endlessly,
or with a redirect.
"""

import contextlib
import gc
import gzip
import json
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch

from sparring.core.errors import RolloutError, RunError
from sparring.core.records import SampleRequest, SamplingParams
from sparring.core.rng import Stream
from sparring.models.adapters import add_adapters
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import sample
from sparring.models.samplers.openai import openai
from sparring.models.tiny import tiny_model
from sparring.play.players.endpoint_account import Account

API_KEY = "sk-Very0Secret1Key2"
COMPLETION_BODY = json.dumps({"choices": [{"message": {"content": "bet"}, "finish_reason": "stop"}]}).encode()
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5}


@pytest.fixture
def start_server(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MY_API_KEY", API_KEY)
    stop, sockets = threading.Event(), []

    def start(respond):
        server = socket.create_server(("127.0.0.1", 0))
        sockets.append(server)
        requests = []

        def accept_connections():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=handle_connection, args=(connection,), daemon=True).start()

        def handle_connection(connection):
            with contextlib.suppress(OSError), connection:
                requests.append(read_request(connection))
                respond(connection, stop)

        threading.Thread(target=accept_connections, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/v1", requests

    yield start
    stop.set()
    for server in sockets:
        server.close()


def read_request(connection):
    """Return the head of a request and read its body: unread bytes would reset the connection."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(65536)
    head, _, body = text.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    while len(body) < length:
        body += connection.recv(65536)
    return head


def make_account(url, *, timeout=0.4, retries=0):
    no_budget = dict(budget_tokens=0, budget_cost=0.0, price_in=0.0, price_out=0.0, cache=None)
    return Account("A test", base_url=url, key_variable="MY_API_KEY", timeout=timeout, retries=retries, **no_budget)


def ask_endpoint(url, **options):
    return make_account(url, **options).ask(REQUEST, 0)


def http_response(body=COMPLETION_BODY, status="200 OK", *headers):
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def respond_slowly(repeated, first_bytes=b""):
    """Return a function that sends first_bytes at once, then one byte every 0.05 seconds for 20 seconds."""

    def respond(connection, stop):
        connection.sendall(first_bytes)
        for index in range(400):
            if stop.wait(0.05):
                return
            connection.sendall(repeated[index % len(repeated) :][:1])

    return respond


@pytest.mark.parametrize(
    "respond",
    [
        lambda connection, stop: stop.wait(20),
        respond_slowly(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1000),
        respond_slowly(b" ", http_response(b"", "200 OK").replace(b"content-length: 0", b"content-length: 1000")),
        respond_slowly(b"1\r\n \r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        respond_slowly(b" ", http_response(b"", "500 No").replace(b"content-length: 0", b"content-length: 1000")),
    ],
    ids=["silence", "headers", "body", "chunks", "error"],
)
def test_a_request_ends_at_its_deadline_however_slow_the_answer(start_server, respond):
    url, requests = start_server(respond)
    slow_account = make_account(url)
    start_time = time.monotonic()
    with pytest.raises(RolloutError, match=rf"Endpoint {url} .* did not answer within timeout=0\.4 seconds, 1 try"):
        slow_account.ask(REQUEST, 0)
    assert time.monotonic() - start_time < 5 and len(requests) == 1


def test_the_deadline_and_the_size_limit_bound_every_answer(start_server):
    url, requests = start_server(
        respond_slowly(b" ", http_response(b"").replace(b"content-length: 0", b"content-length: 1000"))
    )
    with pytest.raises(RolloutError, match="2 tries"):
        ask_endpoint(url, retries=1)
    assert len(requests) == 2

    def respond(connection, stop):
        for chunk in (response[start : start + 16] for start in range(0, len(response), 16)):
            connection.sendall(chunk)
            time.sleep(0.01)

    response = http_response()
    assert ask_endpoint(start_server(respond)[0], timeout=20).text == "bet"
    assert b"accept-encoding: identity" in requests[0].lower()


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_a_redirect_is_not_followed(start_server, status):
    second_url, requests = start_server(lambda connection, stop: connection.sendall(http_response()))
    url, _ = start_server(
        lambda connection, stop: connection.sendall(
            http_response(b"{}", status, f"location: {second_url}/chat/completions")
        )
    )
    with pytest.raises(RolloutError, match=f"status {status[:3]}"):
        ask_endpoint(url, timeout=20)
    assert requests == []


def test_environment_variables_of_openai_are_not_sent(start_server, monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "of-the-environment")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Own: of-the-environment")
    url, requests = start_server(lambda connection, stop: connection.sendall(http_response()))
    assert ask_endpoint(url, timeout=20).text == "bet"
    assert f"Bearer {API_KEY}".encode() in requests[0] and b"of-the-environment" not in requests[0]


@pytest.mark.parametrize(
    "echo",
    [
        API_KEY,
        API_KEY[:8],
        API_KEY[-6:],
        API_KEY[3:9].upper(),
        f"sk-{API_KEY[3:7]}***",
        " ".join([API_KEY[:6], API_KEY[6:12], API_KEY[12:]]),
    ],
)
def test_no_part_of_the_key_is_in_the_error(start_server, echo):
    url, _ = start_server(
        lambda connection, stop: connection.sendall(http_response(f"no such key: {echo}, sorry".encode(), "400 Bad"))
    )
    with pytest.raises(RolloutError, match=r"no such \*\*\*|no such key: .*sorry") as error:
        ask_endpoint(url, timeout=20)
    text = str(error.value).casefold()
    assert not [part for start in range(len(API_KEY) - 3) if (part := API_KEY[start : start + 4].casefold()) in text], (
        text
    )


def test_replies_hide_the_key_and_absurd_counts_and_delays_are_ignored(start_server):
    body = json.dumps({"choices": [{"message": {"content": f"bet {API_KEY}"}}]}).encode()
    assert (
        ask_endpoint(start_server(lambda connection, stop: connection.sendall(http_response(body)))[0], timeout=20).text
        == "bet ***"
    )
    body = COMPLETION_BODY[:-1] + b', "usage": {"prompt_tokens": 1' + b"0" * 400 + b', "completion_tokens": 3}}'
    completion = ask_endpoint(
        start_server(lambda connection, stop: connection.sendall(http_response(body)))[0], timeout=20
    )
    assert (completion.tokens_in, completion.tokens_out) == (None, 3)
    url, requests = start_server(respond_with(http_response(b"later", "503 Busy", "retry-after: 100000")))
    assert_refused(url, match="status 503: later", retries=1, timeout=20)
    assert len(requests) in (1, 2)


def tiny_language_model(*, adapters=False):
    network = tiny_model(
        vocabulary_size=24, stream=Stream.from_seed(3), context=64, hidden_size=16, layers=1, heads=2
    ).to_transformers()
    if adapters:
        network = add_adapters(network, rank=1, alpha=1.0, targets=["c_attn"], stream=Stream.from_seed(0))
    for name, parameter in network.named_parameters():
        parameter.requires_grad_("lora" in name)
    return LanguageModel(network, None)


def assert_refused(url, *, match, retries=0, timeout=0.4, **options):
    start_time, threads = time.monotonic(), torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.raises(RunError, match=match) as error:
        sampler = openai(
            tiny_language_model(**options),
            base_url=url,
            served="base",
            key_variable="MY_API_KEY",
            retries=retries,
            timeout=timeout,
        )
        sample(sampler, [SampleRequest((1, 2), 3)], SamplingParams(max_new_tokens=4), (2,))
    torch.set_num_threads(threads)
    message = str(error.value)
    assert time.monotonic() - start_time < timeout + 15 and len(message) < 800
    assert "\n" not in message and not [
        start for start in range(len(API_KEY) - 3) if API_KEY[start : start + 4] in message
    ]


def token_ids(*first_ids):
    return {"token_ids": [*first_ids, *[9] * (8 - len(first_ids))]}


def token_logprobs(*first_logprobs):
    return {"logprobs": {"token_logprobs": [*first_logprobs, *[-1.0] * (8 - len(first_logprobs))]}}


NOT_A_NUMBER = "in a reply of 'base'. It must be a finite number"
UNKNOWN_ID = "Each token must be an id from 0 to 23 and have a log-probability"
NO_COMPLETION = "answered with status 200 but not with a completion"
HOSTILE_FIELDS = {  # fields of the completion -> the error
    "nan": (token_logprobs(float("nan")), NOT_A_NUMBER),
    "inf": (token_logprobs(float("inf")), NOT_A_NUMBER),
    "null": (token_logprobs(None), NOT_A_NUMBER),
    "text": (token_logprobs("-1.0"), NOT_A_NUMBER),
    "bool": (token_logprobs(True), NOT_A_NUMBER),
    "large number": (token_logprobs(-(10**400)), NOT_A_NUMBER),
    "id too large": (token_ids(24), UNKNOWN_ID),
    "negative id": (token_ids(-1), UNKNOWN_ID),
    "float id": (token_ids(1.0), UNKNOWN_ID),
    "null id": (token_ids(None), UNKNOWN_ID),
    "no ids": ({"token_ids": []}, "gives no token ids"),
    "ids as text": ({"token_ids": "9" * 8}, NO_COMPLETION),
    "ids as object": ({"token_ids": {"9": 8}}, NO_COMPLETION),
    "no log-probabilities": ({"logprobs": None}, "gives no log-probabilities"),
    "fewer log-probabilities": ({"logprobs": {"token_logprobs": [-1.0] * 7}}, "8 tokens and 7 log-probabilities"),
    "more tokens": ({"token_ids": [9] * 9, "logprobs": {"token_logprobs": [-1.0] * 9}}, "ended a reply after 9 tokens"),
    "fewer tokens": (
        {"token_ids": [9] * 3, "logprobs": {"token_logprobs": [-1.0] * 3}},
        "ended a reply after 3 tokens",
    ),
    "another prompt": ({"prompt_token_ids": [7] * 3}, "as 3 other ids. It must neither add nor drop tokens"),
    "other weights": ({}, "differ from this model's by up to"),
}
DEADLINE_ERROR = "did not answer within timeout=0.4 seconds, 1 try"
CONNECTION_ERROR = "could not be reached, 1 try"


def respond_with(text, afterwards=lambda connection, stop: None):
    return lambda connection, stop: (connection.sendall(text), afterwards(connection, stop))


def reset_connection(connection, stop):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def respond_endlessly(head):
    def respond(connection, stop):
        connection.sendall(head)
        for _ in range(2048):
            connection.sendall(b" " * 2**20)

    return respond


RAW_RESPONSES = {  # bytes on the connection -> the error
    "hang": (lambda connection, stop: stop.wait(20), DEADLINE_ERROR),
    "reset": (reset_connection, CONNECTION_ERROR),
    "torn body": (respond_with(http_response().replace(b"content-length: ", b"content-length: 9")), CONNECTION_ERROR),
    "no HTTP": (respond_with(b"\x00\xff" * 40 + b"\r\n\r\n"), CONNECTION_ERROR),
    "endless header": (respond_with(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2**20), CONNECTION_ERROR),
    "two gigabytes": (
        respond_endlessly(b"HTTP/1.1 200 OK\r\ncontent-length: 2147483648\r\n\r\n"),
        "the response is longer than 16 MiB",
    ),
    "no length and no end": (respond_endlessly(b"HTTP/1.1 200 OK\r\n\r\n"), "the response is longer than 16 MiB"),
    "gzip bomb": (
        respond_with(http_response(gzip.compress(b" " * 2**24), "200 OK", "content-encoding: gzip")),
        "compressed, contrary to the request",
    ),
    "deep JSON": (respond_with(http_response(b"[" * 10**5)), NO_COMPLETION),
    "deep choices": (respond_with(http_response(b'{"choices":' * 10**4)), NO_COMPLETION),
    "no JSON": (respond_with(http_response(b"<html>\x1b[31m\xff\n</html>")), "not with a completion"),
    "nothing": (respond_with(http_response(b"")), "an empty body"),
    "no choices": (respond_with(http_response(b'{"choices": []}')), NO_COMPLETION),
    "the key": (respond_with(http_response(API_KEY.encode(), "400 Bad")), r"status 400: \*\*\*"),
    "wrong key": (
        respond_with(http_response(API_KEY[:9].encode(), "401 No")),
        "refuses the key in the environment variable MY_API_KEY",
    ),
}
ADAPTER_RESPONSES = {  # answers to the request to load an adapter -> the error
    "500": (respond_with(http_response(b"no", "500 No")), "status 500: no"),
    "404": (respond_with(http_response(b"no", "404 No")), "--enable-lora"),
    "hang": (lambda connection, stop: stop.wait(20), DEADLINE_ERROR),
}


@pytest.mark.parametrize("case", HOSTILE_FIELDS)
def test_a_reply_of_a_hostile_server_is_refused(start_server, case):
    change, message = HOSTILE_FIELDS[case]
    body = json.dumps({"choices": [{**token_ids(), **token_logprobs(), **change}]}).encode()
    assert_refused(start_server(respond_with(http_response(body)))[0], match=message, timeout=20)


@pytest.mark.parametrize("case", RAW_RESPONSES)
def test_hostile_bytes_on_the_connection_end_in_a_one_line_error(start_server, case):
    respond, message = RAW_RESPONSES[case]
    assert_refused(start_server(respond)[0], match=message, timeout=0.4 if message == DEADLINE_ERROR else 30)


@pytest.mark.parametrize("case", ADAPTER_RESPONSES)
def test_adapters_that_fail_to_load_leave_no_files(start_server, case, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    respond, message = ADAPTER_RESPONSES[case]
    assert_refused(
        start_server(respond)[0], match=message, adapters=True, timeout=0.4 if message == DEADLINE_ERROR else 20
    )
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_adapters_are_unloaded_at_the_end_of_the_process(start_server):
    url, requests = start_server(respond_with(http_response(b"ok")))
    code = f"""
import weakref
from sparring.models.samplers.openai import _unload
from sparring.core.endpoint_connection import Connection
connection = Connection(base_url={url!r}, key_variable="MY_API_KEY", timeout=20, retries=0)
connection.send("/load_lora_adapter", {{}}, str, "a word")
weakref.finalize(connection._openai, _unload, connection, "a")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert [head.split()[1] for head in requests] == [b"/v1/load_lora_adapter", b"/v1/unload_lora_adapter"]
