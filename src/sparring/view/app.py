"""The web application, in Starlette: its addresses, and the functions that answer them."""

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
from sparring.view.run_files import read_regular_file
from sparring.view.static_pages import STATIC, app_page

MEDIA_TYPES = {
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
    any_address: bool = False,
    plays: PlayServer | None = None,
) -> Guard:
    """Return the application behind a guard that checks every request.

    Args:
        pages: functions that compute the answers.
        token: token that requests for data must have.
        hosts: allowed names in ``Host`` besides loopback names.
        any_address: whether ``Host`` may be any IP address.
        plays: sessions of people who play; None: nobody may play.
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
        Route("/", _app_page),
        Route("/static/{name:path}", _static_file),
        *(Route(path, _endpoint(function, _json_response)) for path, function in getters.items()),
        Route("/export/{run}/{step}/{episode}.html", _endpoint(pages.export, _html_response)),
    ]
    if plays is not None:
        routes += _play_routes(plays)
    handlers = {404: _unknown_address, 405: _unknown_address}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(app=app, token=token, hosts=hosts, any_address=any_address)


def _endpoint(
    respond: Callable[..., Any], as_response: Callable[[Any], Response]
) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        params = {**dict(request.query_params), **request.path_params}
        try:
            return as_response(respond(params))
        except RequestError as error:
            return _error_response(error.status, str(error))
        except FileNotFoundError:
            return _error_response(404, "it has been deleted in the meantime")
        except (SparringError, OSError) as error:
            return _error_response(400, one_line(error))

    return endpoint


def _play_routes(plays: PlayServer) -> list[Route]:
    """Return the addresses for people who play; no other address accepts POST."""
    routes = {
        "/play": plays.begin,
        "/play/{id}/move": plays.move,
        "/play/{id}/hint": plays.hint,
        "/play/{id}/judge": plays.judge,
        "/play/{id}/next": plays.next,
        "/play/{id}/leave": plays.leave,
    }
    return [
        Route("/play", _endpoint(plays.options, _json_response)),
        Route("/play/{id}", _endpoint(plays.state, _json_response)),
        *(
            Route(path, _body_endpoint(respond), methods=["POST"])
            for path, respond in routes.items()
        ),
    ]


def _body_endpoint(
    respond: Callable[[Mapping[str, str], bytes], Any],
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint like ``_endpoint`` for requests with a body."""

    async def endpoint(request: Request) -> Response:
        try:
            body = await request.body()
        except RequestError as error:
            return _error_response(error.status, str(error))
        answer = _endpoint(lambda query: respond(query, body), _json_response)
        return await run_in_threadpool(answer, request)

    return endpoint


def _html_response(page: bytes) -> Response:
    headers = {"content-disposition": 'attachment; filename="replay.html"'}
    return Response(page, media_type=MEDIA_TYPES[".html"], headers=headers)


def _json_response(answer: Any) -> Response:
    if answer is None:
        return Response(status_code=304)
    return Response(json_bytes(answer), media_type="application/json")


async def _app_page(request: Request) -> Response:
    return Response(app_page(request.query_params), headers={"content-type": MEDIA_TYPES[".html"]})


async def _static_file(request: Request) -> Response:
    """Return a static file; reading it here is faster than reading it in a thread."""
    name = request.path_params["name"]
    kind = MEDIA_TYPES.get(Path(name).suffix)
    if kind is None or _NAME.fullmatch(name) is None:
        return _error_response(404, "there is no such file")
    try:
        return Response(read_regular_file(STATIC / name, 0)[0], headers={"content-type": kind})
    except OSError:
        return _error_response(404, "there is no such file")


def _error_response(status: int, message: str) -> Response:
    body = json_bytes({"error": message})
    return Response(body, status_code=status, media_type="application/json")


def _unknown_address(request: Request, error: Any) -> Response:
    messages = {
        404: "there is nothing at this address",
        405: "this address does not accept this method",
    }
    return _error_response(error.status_code, messages[error.status_code])
