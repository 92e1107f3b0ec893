"""Starts the viewer's server at an address with a token, and opens it in a browser."""

from __future__ import annotations

import html
import os
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from sparring.core.errors import ConfigError, RunError
from sparring.view.http_requests import is_loopback, new_token

PORT = 7460
EVERYWHERE = ("0.0.0.0", "::")  # addresses that listen on all interfaces
NO_PACKAGES = (
    "sparring view needs packages that are not installed; run pip install 'sparring[view]'."
)


def serve(
    roots: Sequence[Path],
    host: str,
    port: int | None,
    print_line: Callable[[str], None],
    *,
    browser: bool,
    query: str = "",
    trusted: Collection[str] = (),
    step: int | None = None,
    answer: str | None = None,
) -> None:
    """Serve run folders until the process is interrupted.

    Args:
        roots: run folders, or folders that contain some.
        host: address to listen on.
        port: port to listen on; None: 7460, or any free port if 7460 is in use.
        print_line: called with each line for the user.
        browser: whether to open the page in a browser.
        query: query of the printed address, such as ``?view=play``.
        trusted: further opponents that people may choose.
        step: step of the checkpoint that people play against; None: the newest.
        answer: which policies people play against, as ``league.answer``; None: as configured.

    Raises:
        ConfigError: the extra ``view`` is not installed, or a folder does not exist.
        RunError: the server cannot listen on the address.
    """
    try:
        import uvicorn

        from sparring.view.app import application
        from sparring.view.pages import Pages
        from sparring.view.play_server import PlayServer
        from sparring.view.watch import RunWatcher

        for root in roots:
            if not root.is_dir():
                raise ConfigError(f"There is no folder {root}; name run folders, or their folder.")
        watch = RunWatcher(roots)
    except ImportError as error:
        raise ConfigError(f"{NO_PACKAGES} ({error})") from None
    listener = bind_socket(host, port)
    actual_port = listener.getsockname()[1]
    pages, token = Pages(watch), new_token()
    address = f"http://{_url_host(host)}:{actual_port}/{query}"
    plays = PlayServer(watch, trusted, step, answer=answer)
    hosts = [_url_host(host).lower(), socket.gethostname().lower(), socket.getfqdn().lower()]
    loopback = is_loopback(host)
    app = application(pages, token, () if loopback else hosts, not loopback, plays)
    print_line(f"{'Play' if query else f'{len(watch.runs)} runs'}: {address}#token={token}")
    if not loopback:
        print_line(
            f"{host} can be reached from other machines. This is plain HTTP: anybody on the "
            "network can read the token and all runs. ssh -L is safer: see docs/view.md."
        )
    print_line("Ctrl-C ends it.")
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off"
    )
    watch.start()
    threading.Thread(target=pages.preload, name="preload", daemon=True).start()
    redirect_file = _open_browser(f"{address}#token={token}") if browser and loopback else None
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        plays.close()
        watch.close()
        pages.close()
        if redirect_file is not None:
            redirect_file.unlink(missing_ok=True)


def bind_socket(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        RunError: the address is in use or not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [PORT, 0] if port is None else [port]
    tcp = socket.IPPROTO_TCP  # without it asyncio does not set TCP_NODELAY: 40 ms per answer
    for number in ports:
        listener = socket.socket(family, socket.SOCK_STREAM, tcp)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host.strip("[]"), number))
            listener.listen(128)  # early requests wait until the server is ready
        except (OSError, OverflowError) as error:
            listener.close()
            if number == ports[-1]:
                cause = getattr(error, "strerror", None) or str(error)
                raise RunError(
                    f"Cannot listen on {host} port {number}: {cause}. Name another port with "
                    "--port; 0 takes any free one."
                ) from None
        else:
            return listener
    raise RunError(f"{host} has no free port.")


def _url_host(host: str) -> str:
    if host in EVERYWHERE:
        return socket.gethostname()
    return f"[{host.strip('[]')}]" if ":" in host else host


def _open_browser(address: str) -> Path | None:
    """Open an address through a private file, because others can read a command line."""
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return None
    descriptor, name = tempfile.mkstemp(prefix="sparring-view-", suffix=".html")  # mode 0600
    with open(descriptor, "w", encoding="utf-8") as stream:
        target = html.escape(address, quote=True)
        stream.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">')
    webbrowser.open(Path(name).as_uri())
    return Path(name)
