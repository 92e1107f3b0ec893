"""The server of the viewer: one address, one token, and a way to open it in a browser."""

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
EVERYWHERE = ("0.0.0.0", "::")  # addresses that listen on all of a machine's
MISSING = "sparring view needs packages that are not installed; run pip install 'sparring[view]'."


def serve(
    roots: Sequence[Path],
    host: str,
    port: int | None,
    told: Callable[[str], None],
    *,
    browser: bool,
    query: str = "",
    trusted: Collection[str] = (),
    step: int | None = None,
    answer: str | None = None,
) -> None:
    """Serve run folders until the process is interrupted.

    Args:
        roots: run folders, or folders that hold some.
        host: address that is listened on.
        port: number; None takes 7460, or any free one if that is taken.
        told: called with lines for the user.
        browser: whether the page is opened.
        query: of the address that is told and opened, such as ``?view=play``.
        trusted: players against whom people may play besides the usual ones.
        step: of the checkpoint that people play against; None: the newest.
        answer: of the run that people play against; None: as its configuration says.

    Raises:
        ConfigError: the extra ``view`` is not installed, or there is no such folder.
        RunError: the address cannot be listened on.
    """
    try:
        import uvicorn

        from sparring.view.app import application
        from sparring.view.pages import Pages
        from sparring.view.plays import Plays
        from sparring.view.watch import Watch

        for root in roots:
            if not root.is_dir():
                raise ConfigError(f"There is no folder {root}; name run folders, or one with runs.")
        watch = Watch(roots)
    except ImportError as error:
        raise ConfigError(f"{MISSING} ({error})") from None
    listening = bound(host, port)
    number = listening.getsockname()[1]
    pages, token, address = Pages(watch), new_token(), f"http://{_named(host)}:{number}/{query}"
    plays = Plays(watch, trusted, step, answer=answer)
    hosts = [_named(host).lower(), socket.gethostname().lower(), socket.getfqdn().lower()]
    loopback = is_loopback(host)
    app = application(pages, token, () if loopback else hosts, not loopback, plays)
    told(f"{'Play' if query else f'{len(watch.runs)} runs'}: {address}#token={token}")
    if not loopback:
        told(
            f"{host} can be reached from other machines. This is plain HTTP: who listens on the "
            "network can read the token and all runs. ssh -L is safer: see docs/view.md."
        )
    told("Ctrl-C ends it.")
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off"
    )
    watch.start()
    threading.Thread(target=pages.warm, name="warm", daemon=True).start()
    opened = _opened(f"{address}#token={token}") if browser and loopback else None
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        plays.close()
        watch.close()
        pages.close()
        if opened is not None:
            opened.unlink(missing_ok=True)


def bound(host: str, port: int | None) -> socket.socket:
    """Return a socket that is bound to an address.

    Raises:
        RunError: it cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = [PORT, 0] if port is None else [port]
    tcp = socket.IPPROTO_TCP  # named, or asyncio leaves out TCP_NODELAY: 40 ms for each answer
    for number in wanted:
        listening = socket.socket(family, socket.SOCK_STREAM, tcp)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host.strip("[]"), number))
            listening.listen(128)  # who asks before the server is ready waits
        except (OSError, OverflowError) as error:
            listening.close()
            if number == wanted[-1]:
                cause = getattr(error, "strerror", None) or str(error)
                raise RunError(
                    f"{host} port {number} cannot be listened on: {cause}. Name another with "
                    "--port; 0 takes any that is free."
                ) from None
        else:
            return listening
    raise RunError(f"{host} has no free port.")


def _named(host: str) -> str:
    if host in EVERYWHERE:
        return socket.gethostname()
    return f"[{host.strip('[]')}]" if ":" in host else host


def _opened(address: str) -> Path | None:
    """Open an address by a private file, as all users can read command lines; return the file."""
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
