"""The viewer of the wheel, with the extra view, in an environment that has nothing of the checkout.

`make wheel` installs the extra, runs this, and removes what the extra has brought before it runs check_wheel.py.
"""

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

import pytest

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv-wheel" / "bin"
KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
# what a page or a module asks for: of index.html, of imports, of a stylesheet
ASKED = re.compile(r"""(?:href|src)="(/[^"]*)"|(?:from|import)\s*\(?\s*"(\.{1,2}/[^"]+)"|url\("?([^")]+)"?\)""")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    inherited = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "SPARRING_CACHE")}
    more = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "OMP_NUM_THREADS": "1"}
    environment = {**inherited, **more, "PYTHONUNBUFFERED": "1"}
    train = [BIN / "sparring", "train", "demo", "steps=1", "store.every=1"]
    subprocess.run(train, cwd=home, env=environment, check=True, capture_output=True, timeout=300)
    command = [BIN / "sparring", "view", "runs", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        for line in process.stdout:
            match = re.search(r"(http://[^#\s]+/)#token=(\S+)", line)
            if match:
                yield match[1], match[2]
                break
        else:
            pytest.fail(f"The viewer has ended with status {process.wait(10)}.")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def fetched(address, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=30) as got:
        assert got.status == 200, address
        return got.read(), got.headers.get_content_type()


def test_every_file_that_the_page_asks_for_is_served(served):
    base, _ = served
    waiting, seen = [base], {}
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        body, seen[address] = fetched(address)
        for groups in ASKED.findall(body.decode()):
            target = next(filter(None, groups))
            if not target.startswith(("data:", "#")):
                waiting.append(urljoin(address, target))
    names = {Path(address).name for address in seen}
    there = ROOT / "src" / "sparring" / "view" / "static"
    modules = {path.name for path in there.glob("*.js")} - {"export.js"}  # of the mailed page alone
    assert modules <= names and {"uPlot.esm.js", "base.css", "play.css"} <= names
    for address, kind in seen.items():
        assert kind == KINDS.get(Path(address).suffix, "text/html"), address


def test_the_runs_are_told_to_who_has_the_token(served):
    base, token = served
    rows = json.loads(fetched(f"{base}api/runs", token)[0])["runs"]
    assert [row["name"] for row in rows] == ["demo-seed0"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(f"{base}api/runs")
    assert refused.value.code == 401


def test_a_person_may_play(served):
    base, token = served
    reply = json.loads(fetched(f"{base}play?run=0", token)[0])
    assert reply["environments"]
