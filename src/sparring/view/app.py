"""The web application, in Starlette: addresses and the functions that answer them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sparring.core.errors import SparringError
from sparring.view.http_requests import Guard, RequestError, json_bytes, one_line
from sparring.view.pages import Pages
from sparring.view.play_server import PlayServer
from sparring.view.run_files import read_from
from sparring.view.static_pages import STATIC, shell

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
EPISODE = "/api/runs/{run}/episodes/{step}/{episode}"
_NAME = re.compile(r"(?:vendor/)?[A-Za-z0-9_][A-Za-z0-9_.-]*")


def application(
    pages: Pages,
    token: str,
    hosts: Collection[str] = (),
    addresses: bool = False,
    plays: PlayServer | None = None,
) -> Guard:
    """Return the application behind its guard.

    Args:
        pages: the answers.
        token: required for data.
        hosts: names of this server besides loopback.
        addresses: whether ``Host`` may be any IP address.
        plays: human plays; None: nobody may play.
    """
    getters: dict[str, Callable[..., Any]] = {
        "/api/runs": pages.runs,
        "/api/runs/{run}": pages.run,
        "/api/runs/{run}/series": pages.series,
        "/api/runs/{run}/references": pages.references,
        "/api/runs/{run}/league": pages.league,
        "/api/runs/{run}/family": pages.family,
        "/api/runs/{run}/meta": pages.meta,
        "/api/runs/{run}/workers": pages.workers,
        "/api/runs/{run}/groups/{step}/{group}": pages.group,
        EPISODE: pages.episode,
        EPISODE + "/board/{turn}": pages.board,
        EPISODE + "/policy/{turn}": pages.policy,
        "/api/differences": pages.differences,
        "/api/sparks": pages.sparks,
        "/api/episodes": pages.episodes,
        "/api/changes": pages.changes,
    }
    routes = [
        Route("/", _shell),
        Route("/static/{name:path}", _file),
        *(Route(path, _endpoint(function, _json)) for path, function in getters.items()),
        Route("/export/{run}/{step}/{episode}.html", _endpoint(pages.exported, _page)),
    ]
    if plays is not None:
        routes += _play_routes(plays)
    handlers = {404: _unknown_address, 405: _unknown_address}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(app=app, token=token, hosts=hosts, addresses=addresses)


def _endpoint(
    respond: Callable[..., Any], as_response: Callable[[Any], Response]
) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        params = {**dict(request.query_params), **request.path_params}
        try:
            return as_response(respond(params))
        except RequestError as refused:
            return _error(refused.status, str(refused))
        except FileNotFoundError:
            return _error(404, "it was there a moment ago, and is gone now")
        except (SparringError, OSError) as error:
            return _error(400, one_line(error))

    return endpoint


def _play_routes(plays: PlayServer) -> list[Route]:
    """Return the addresses of human plays, the only ones that accept POST."""
    routes = {
        "/play": plays.begin,
        "/play/{id}/move": plays.move,
        "/play/{id}/hint": plays.hint,
        "/play/{id}/judge": plays.judge,
        "/play/{id}/next": plays.next,
        "/play/{id}/leave": plays.leave,
    }
    return [
        Route("/play", _endpoint(plays.options, _json)),
        Route("/play/{id}", _endpoint(plays.state, _json)),
        *(Route(path, _body_endpoint(take), methods=["POST"]) for path, take in routes.items()),
    ]


def _body_endpoint(
    take: Callable[[Mapping[str, str], bytes], Any],
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint with a body, otherwise like those of ``_endpoint``."""

    async def endpoint(request: Request) -> Response:
        try:
            body = await request.body()
        except RequestError as refused:
            return _error(refused.status, str(refused))
        answer = _endpoint(lambda query: take(query, body), _json)
        return await run_in_threadpool(answer, request)

    return endpoint


def _page(page: bytes) -> Response:
    headers = {"content-disposition": 'attachment; filename="replay.html"'}
    return Response(page, media_type=KINDS[".html"], headers=headers)


def _json(answer: Any) -> Response:
    if answer is None:
        return Response(status_code=304)
    return Response(json_bytes(answer), media_type="application/json")


async def _shell(request: Request) -> Response:
    return Response(shell(request.query_params), headers={"content-type": KINDS[".html"]})


async def _file(request: Request) -> Response:
    """Return a static file; reading it here is faster than in a thread."""
    name = request.path_params["name"]
    kind = KINDS.get(Path(name).suffix)
    if kind is None or _NAME.fullmatch(name) is None:
        return _error(404, "there is no such file")
    try:
        return Response(read_from(STATIC / name, 0)[0], headers={"content-type": kind})
    except OSError:
        return _error(404, "there is no such file")


def _error(status: int, message: str) -> Response:
    body = json_bytes({"error": message})
    return Response(body, status_code=status, media_type="application/json")


def _unknown_address(request: Request, error: Any) -> Response:
    messages = {404: "there is nothing at this address", 405: "this address takes no such request"}
    return _error(error.status_code, messages[error.status_code])
