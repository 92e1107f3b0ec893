"""The viewer of the installed wheel with the extra `view`, in an environment without the checkout.

`make wheel` installs the extra, runs this file, and removes the extra's packages before check_wheel.py.
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
# links to files in index.html, in imports and in stylesheets
LINK_PATTERN = re.compile(r"""(?:href|src)="(/[^"]*)"|(?:from|import)\s*\(?\s*"(\.{1,2}/[^"]+)"|url\("?([^")]+)"?\)""")


@pytest.fixture(scope="module")
def viewer(tmp_path_factory):
    home_folder = tmp_path_factory.mktemp("home")
    inherited = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "SPARRING_CACHE")}
    environment_changes = {
        "HOME": str(home_folder),
        "XDG_CACHE_HOME": str(home_folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    environment = {**inherited, **environment_changes, "PYTHONUNBUFFERED": "1"}
    train = [BIN / "sparring", "train", "demo", "steps=1", "store.every=1"]
    subprocess.run(train, cwd=home_folder, env=environment, check=True, capture_output=True, timeout=300)
    command = [BIN / "sparring", "view", "runs", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=home_folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
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


def fetch(address, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=30) as response:
        assert response.status == 200, address
        return response.read(), response.headers.get_content_type()


def test_every_file_that_the_page_requests_is_served(viewer):
    base_url, _ = viewer
    open_addresses, types_by_address = [base_url], {}
    while open_addresses:
        address = open_addresses.pop()
        if address in types_by_address:
            continue
        body, types_by_address[address] = fetch(address)
        for groups in LINK_PATTERN.findall(body.decode()):
            target = next(filter(None, groups))
            if not target.startswith(("data:", "#")):
                open_addresses.append(urljoin(address, target))
    names = {Path(address).name for address in types_by_address}
    static_folder = ROOT / "src" / "sparring" / "view" / "static"
    modules = {path.name for path in static_folder.glob("*.js")} - {"export.js"}  # only for exported pages
    assert modules <= names and {"uPlot.esm.js", "base.css", "play.css"} <= names
    for address, content_type in types_by_address.items():
        assert content_type == KINDS.get(Path(address).suffix, "text/html"), address


def test_runs_are_served_only_with_the_token(viewer):
    base_url, token = viewer
    rows = json.loads(fetch(f"{base_url}api/runs", token)[0])["runs"]
    assert [row["name"] for row in rows] == ["demo-seed0"]
    with pytest.raises(urllib.error.HTTPError) as error_info:
        fetch(f"{base_url}api/runs")
    assert error_info.value.code == 401


def test_a_person_can_play(viewer):
    base_url, token = viewer
    reply = json.loads(fetch(f"{base_url}play?run=0", token)[0])
    assert reply["environments"]
