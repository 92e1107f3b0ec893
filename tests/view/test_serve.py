"""The command `sparring view`: process, address, token, shutdown, and refused arguments."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import uvicorn
from typer.testing import CliRunner

import sparring
from sparring import cli
from sparring.core.errors import ConfigError, RunError
from sparring.view import pages
from sparring.view import serve as serving
from sparring.view.http_requests import is_loopback
from tests.view.run_writer import write_run

SOURCE = str(Path(sparring.__file__).parents[1])
COMMAND = [sys.executable, "-c", "import sparring.cli; sparring.cli.main()", "view"]


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(tmp_path):
    write_run(tmp_path / "runs" / "kuhn")
    files_before = sorted(path for path in tmp_path.rglob("*"))
    process = subprocess.Popen(
        [*COMMAND, "runs", "--no-browser", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCE},
    )
    line = process.stdout.readline()
    assert process.stdout.readline() == "Ctrl-C ends it.\n"
    address, _, token = line.split()[-1].partition("#token=")
    assert line.startswith("1 runs: http://127.0.0.1:") and len(token) >= 43
    assert "<!doctype html>" in urllib.request.urlopen(address).read().decode()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{address}api/runs")
    request = urllib.request.Request(f"{address}api/runs", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["runs"][0]["name"] == "kuhn"
        assert "server" not in answer.headers
    process.send_signal(signal.SIGINT)
    assert (*process.communicate(timeout=30), process.returncode) == ("", "", 0)
    assert sorted(path for path in tmp_path.rglob("*")) == files_before  # nothing was written


def test_one_pages_object_is_created_and_closed(tmp_path, monkeypatch):
    created_pages, closed_pages = [], []

    class RecordingPages(pages.Pages):
        def __init__(self, watch):
            super().__init__(watch)
            created_pages.append(self)

        def close(self):
            super().close()
            closed_pages.append(self)

    monkeypatch.setattr(pages, "Pages", RecordingPages)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: sockets[0].close())
    serving.serve([tmp_path], "127.0.0.1", 0, lambda line: None, browser=False)
    assert len(created_pages) == 1 and closed_pages == created_pages


@pytest.mark.slow
def test_the_viewer_needs_no_torch():
    code = (
        "import sys, sparring.view.app, sparring.view.pages, sparring.view.serve\n"
        "from sparring.view.episode_replay import Decoder, TINY\n"
        "assert Decoder({'environments': [{'name': 'kuhn_poker'}], 'model': {'name': TINY}}).tokenizer_of('learner') is not None\n"
        "print([name for name in ('torch', 'pandas') if name in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def run_view(*arguments):
    return CliRunner().invoke(cli.app, ["view", *map(str, arguments), "--no-browser"])


def test_missing_packages_folders_and_addresses_are_named(tmp_path, monkeypatch):
    error = run_view(tmp_path / "none").exception
    assert isinstance(error, ConfigError) and "none" in str(error)
    error = run_view(tmp_path, "--host", "203.0.113.7").exception
    assert isinstance(error, RunError) and "203.0.113.7" in str(error)
    for name in ("uvicorn", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
        error = run_view(tmp_path).exception
        assert isinstance(error, ConfigError) and "pip install 'sparring[view]'" in str(error)
        monkeypatch.undo()


def test_an_occupied_port_is_refused_if_requested_else_another_is_used(tmp_path, monkeypatch):
    with socket.socket() as other_socket:
        other_socket.bind(("127.0.0.1", 0))
        other_socket.listen()
        occupied_port = other_socket.getsockname()[1]
        error = run_view(tmp_path, "--port", occupied_port).exception
        assert isinstance(error, RunError) and "--port" in str(error)
    with serving.bind_socket("127.0.0.1", 0) as first_socket:
        monkeypatch.setattr(serving, "PORT", first_socket.getsockname()[1])
        with serving.bind_socket("127.0.0.1", None) as second_socket:
            assert second_socket.getsockname()[1] != first_socket.getsockname()[1]
            socket.create_connection(
                second_socket.getsockname(), timeout=5
            ).close()  # the connection waits and is not refused


def test_connections_have_tcp_no_delay():
    async def accept_connection():
        connection = asyncio.get_running_loop().create_future()
        with serving.bind_socket("127.0.0.1", 0) as server_socket:
            server = await asyncio.start_server(
                lambda reader, writer: connection.set_result(writer), sock=server_socket
            )
            async with server:
                _, client = await asyncio.open_connection(*server_socket.getsockname())
                writer = await connection
                no_delay = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                for stream in (client, writer):
                    stream.close()
        return no_delay

    assert asyncio.run(accept_connection()) != 0


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("127.9.9.9", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.evil", False),
    ],
)
def test_which_addresses_are_loopback(host, expected):
    assert is_loopback(host) is expected


def test_on_other_interfaces_the_command_warns_about_plain_http(tmp_path, monkeypatch):
    import uvicorn

    server_runs = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: server_runs.append((self.config.app, sockets)))
    lines = []
    serving.serve([tmp_path], "0.0.0.0", 0, lines.append, browser=True)
    (app, (server_socket,)) = server_runs[0]
    server_socket.close()
    assert app.any_address and socket.gethostname().lower() in app.hosts and len(app.token) >= 43
    assert "plain HTTP" in lines[1] and app.token in lines[0]
    serving.serve([tmp_path], "127.0.0.1", 0, lines.append, browser=False)
    app, (server_socket,) = server_runs[1]
    server_socket.close()
    assert not app.any_address and not app.hosts and "plain HTTP" not in " ".join(lines[3:])


def test_the_browser_gets_the_token_from_a_private_file(monkeypatch):
    opened_addresses = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(serving.webbrowser, "open", opened_addresses.append)
    path = serving._open_browser("http://127.0.0.1:1/#token=secret")
    try:
        assert opened_addresses == [path.as_uri()] and path.stat().st_mode & 0o777 == 0o600
        assert "http://127.0.0.1:1/#token=secret" in path.read_text()
    finally:
        path.unlink()
