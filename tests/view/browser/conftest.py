"""Fixtures: one Chromium for all tests, one server per test, and pages whose errors fail the test."""

import contextlib
import shutil
import socket
import threading
import time

import pytest

uvicorn = pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed", allow_module_level=True)

from sparring.view.app import application  # noqa: E402
from sparring.view.pages import Pages  # noqa: E402
from sparring.view.play_server import PlayServer  # noqa: E402
from sparring.view.watch import RunWatcher  # noqa: E402

TOKEN = "right-token"
# a proxy that does not exist makes every request to the network fail visibly
ARGUMENTS = ["--no-sandbox", "--proxy-server=http://127.0.0.1:9"]
RECORD_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


@pytest.fixture(scope="session")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class ViewServer:
    def __init__(self, folder):
        self.watch = RunWatcher([folder])
        self.watch.start()
        assert self.watch.idle.wait(20)
        server_socket = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{server_socket.getsockname()[1]}/"
        self.plays = PlayServer(self.watch)
        app = application(Pages(self.watch), TOKEN, plays=self.plays)
        config = uvicorn.Config(app, log_level="error", access_log=False, ws="none", lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([server_socket],), daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def end(self):
        self.server.should_exit = True
        self.thread.join(10)

    def close(self):
        self.end()
        self.plays.close()
        self.watch.close()


@contextlib.contextmanager
def serve_folder(folder):
    view_server = ViewServer(folder)
    try:
        yield view_server
    finally:
        view_server.close()


class Visitor:
    def __init__(self, browser):
        self.browser = browser
        self.faults = []
        self.allowed = ()
        self.contexts = []

    def context(self, theme="light", width=1366, height=768):
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        context.add_init_script(RECORD_VIOLATIONS)
        context.set_default_timeout(8000)
        self.contexts.append(context)
        return context

    def open(self, view_server, query="", *, context=None, loaded=True, **options):
        page = (context or self.context(**options)).new_page()
        page.on("console", lambda message: self.console(message, view_server))
        page.on("pageerror", lambda error: self.faults.append(f"page error: {error}"))
        page.on("request", lambda request: self.check_request(request, view_server.base))
        page.goto(f"{view_server.base}{query}#token={TOKEN}")
        if loaded:
            page.wait_for_selector("html[data-loaded]")
        return page

    def console(self, message, view_server=None):
        is_closed = (
            view_server is not None and view_server.server.should_exit
        )  # the closed server refuses a page that still polls
        allowed = any(allowed_text in message.text for allowed_text in self.allowed)
        allowed = allowed or (is_closed and "ERR_CONNECTION" in message.text)
        if message.type in ("error", "warning") and not allowed:
            self.faults.append(f"console: {message.text}")

    def check_request(self, request, base_url):
        if not request.url.startswith((base_url, "blob:", "data:")):
            self.faults.append(f"request: {request.url}")

    def close(self):
        contexts, self.contexts = self.contexts, []
        for context in contexts:
            for page in context.pages:
                self.faults += [f"policy: {breach}" for breach in page.evaluate("() => window.violations ?? []")]
            context.close()


@pytest.fixture
def visitor(chromium):
    """Return a visitor that opens pages; the test fails on page errors and on external requests."""
    visitor = Visitor(chromium)
    yield visitor
    visitor.close()
    assert visitor.faults == []


@pytest.fixture(scope="session")
def serve():
    return serve_folder
