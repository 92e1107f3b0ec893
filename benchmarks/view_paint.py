"""The time until the viewer's pages are visible: largest contentful paint in headless Chromium.

    python benchmarks/view_paint.py              20 runs, five visits of each page
    python benchmarks/view_paint.py --quick      takes a moment

A short run of Kuhn poker is trained and copied; the viewer serves the copies and has served each
page once. Every visit uses a new browser context, so its cache is empty. `drawn` is the time until
the page has drawn its data, `largest paint` the time that the browser reports, both from the start
of the navigation. The script needs the packages that `make view-test` installs.
"""

import argparse
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from published import record, settings
from view import request_answer, start_viewer

MAX_MILLISECONDS = 1000.0
REPORT_MILLISECONDS = 400  # after the page is drawn, until the browser has reported its paints
TRAIN_ARGUMENTS = (
    "kuhn-tiny",
    "steps=20",
    "rollout.games_per_step=64",
    "store.every=2",
    "threads=1",
)
OBSERVE_SCRIPT = """
window.paints = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.paints.push(entry.startTime);
}).observe({ type: "largest-contentful-paint", buffered: true });
document.addEventListener("DOMContentLoaded", () => {
  new MutationObserver((_, observer) => {
    if (!document.documentElement.dataset.loaded) return;
    window.drawn = performance.now();
    observer.disconnect();
  }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-loaded"] });
});
"""


def visit_page(browser, address):
    """Visit a page; return the times of its data and of its largest paint in milliseconds."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    context.add_init_script(OBSERVE_SCRIPT)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-loaded]")
    page.wait_for_timeout(REPORT_MILLISECONDS)
    paint = page.evaluate("() => [window.drawn, window.paints.at(-1)]")
    context.close()
    return paint


def measure_pages(pages, token, visits):
    """Return rows of the medians over visits; the first visit of a page is not counted."""
    rows = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, address in pages.items():
            times = [visit_page(browser, f"{address}#token={token}") for _ in range(visits + 1)][1:]
            for what, values in zip(
                ("drawn", "largest paint"), zip(*times, strict=True), strict=True
            ):
                row = {"page": name, "what": what, "value": statistics.median(values), "unit": "ms"}
                rows.append({**row, "aim": MAX_MILLISECONDS} if what == "largest paint" else row)
        browser.close()
    return rows


def train_and_copy(folder, copies):
    """Train a short run and copy it."""
    command = [
        sys.executable,
        "-c",
        "import sparring.cli; sparring.cli.main()",
        "train",
        *TRAIN_ARGUMENTS,
    ]
    first = folder / "run-0"
    subprocess.run([*command, "--run", str(first)], stdout=subprocess.DEVNULL, check=True)
    for index in range(1, copies):
        shutil.copytree(first, folder / f"run-{index}")


def measure(options):
    """Return the rows of all pages."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        folder.mkdir()
        train_and_copy(folder, options.runs)
        server, base, token = start_viewer(folder)
        try:
            request_answer(base, token, "/api/episodes?limit=50")
            pages = {
                f"table of {options.runs} runs": f"{base}/?view=runs",
                "finder": f"{base}/?view=replay",
                "replay": f"{base}/?view=replay&run=0&step=20&episode=1216",
                "curves": f"{base}/?view=curves&runs=0&metrics=loss,legal_rate,sampled_entropy",
            }
            return measure_pages(pages, token, options.visits)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="rows of the table of runs")
    parser.add_argument("--visits", type=int, default=5, help="of each page; the median is told")
    options = settings(parser, quick={"runs": 2, "visits": 1})
    record("view_paint", measure(options), options)
