"""The documentation's site in a browser: search, both themes, a phone's width, and no request to another host."""

import functools
import http.server
import subprocess
import sys
import threading

import pytest

from tests.docs.loading import ROOT

SITE = ROOT / "build" / "site"
PAGES = (
    "",
    "docs/quickstart/",
    "docs/config/",
    "docs/methods/credit-mars/",
    "docs/api-reference/",
    "studies/credit_lab/page/",
)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site():
    subprocess.run([sys.executable, ROOT / "tools" / "build_site.py"], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


@pytest.fixture
def open_page(chromium, site):
    """Return a function that opens a page of the site; the test fails on page errors and external requests."""
    faults, contexts = [], []

    def open_page(path="", *, theme="light", width=1280):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"page error: {error}"))
        page.on(
            "request", lambda request: request.url.startswith((site, "data:", "blob:")) or faults.append(request.url)
        )
        page.goto(f"{site}{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


@pytest.mark.parametrize(
    ("words", "found_page"),
    [("NashConv", "docs/quickstart/"), ("free text", "docs/your-environment/"), ("Qwen3", "docs/my-model/")],
)
def test_the_search_finds_pages_and_leads_to_them(open_page, words, found_page):
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type(words)
    page.wait_for_selector(".md-search-result__item")
    links = page.locator(".md-search-result__link").evaluate_all("links => links.map(link => link.href)")
    (link, *_) = [link for link in links if found_page in link]
    page.goto(link)
    assert not any("studies/log/2" in link for link in links), "the log would hide the guides"
    assert words.lower() in page.locator("article").inner_text().lower()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_site_follows_the_theme_of_the_reader(open_page, theme):
    page = open_page(theme=theme)
    (red, *_) = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (red > 200) == (theme == "light")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_phone_and_shows_its_pictures(open_page, path):
    page = open_page(path, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "tables and code scroll by themselves"
    assert page.evaluate("[...document.images].filter(image => image.complete && !image.naturalWidth).length") == 0
