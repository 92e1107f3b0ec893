"""Cost of the viewer: its index, a filter compared with pandas, and its CPU share during training.

    python benchmarks/view.py                      200,000 episodes; training with an open page
    python benchmarks/view.py --quick              takes a moment

The store has random episodes of Kuhn poker with every column filled (view_store.py). The filter
combines environment, seat, illegal reply and advantage, with facets, sorted, 50 results per page.
pandas reads the same columns of the same files into memory once (`read`), then filters them. The
share is the CPU seconds of the server divided by those of the training process (the demo, with
every step stored). The open page asks once a second for changes, then for its data. The first load
of each page is not counted. On a busy machine the share is larger: the page asks at fixed times,
while the training gets less processor time.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pandas as pd
import view_store
from published import record, settings

from sparring.view.episode_index import EpisodeIndex
from sparring.view.episode_search import find

MAX_MILLISECONDS, MAX_CPU_SHARE = 300.0, 0.02
INDEXING_SECONDS = 5.0  # seconds after the first page until a server has indexed all episodes
FILTER_QUERY = {
    "game": "kuhn_long",
    "seat": "first",
    "illegal": "1",
    "advantage": "1-",
    "sort": "advantage",
}
KEY_COLUMNS = ["step", "episode_id", "seat", "turn_index", "candidate"]
READ_COLUMNS = [*KEY_COLUMNS, "game", "role", "event", "committed"]
PAGE_REQUESTS = {  # requests of an open page after a change
    "curves": ("/api/runs/0/series?names=loss,legal_rate,nash_conv/kuhn_poker&since=",),
    "replays": ("/api/episodes?limit=50",),
}


def median_milliseconds(work, repeats):
    """Return the median time of a call in milliseconds."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def read_with_pandas(folder):
    """Return the turns joined with their credit, as a pandas table."""
    turns = pd.concat(
        pd.read_parquet(path, columns=READ_COLUMNS)
        for path in sorted((folder / "episodes").iterdir())
    )
    columns = [*KEY_COLUMNS, "advantage"]
    credit = pd.concat(
        pd.read_parquet(path, columns=columns) for path in sorted((folder / "credit").iterdir())
    )
    return turns.merge(credit, on=KEY_COLUMNS, how="left")


def filter_with_pandas(table):
    """Return the episodes that match the query, filtered by pandas."""
    turns = table[
        table.committed
        & (table.game == FILTER_QUERY["game"])
        & (table.role == FILTER_QUERY["seat"])
    ]
    bad, size = turns.event.isin(["illegal", "unparsable"]), turns.advantage.abs()
    seats = turns.assign(bad=bad, size=size).groupby(["step", "episode_id"])[["bad", "size"]].max()
    return seats[seats.bad & (seats["size"] >= 1)].sort_values("size", ascending=False)


def search_rows(options):
    """Return the rows about the index and the filter."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        view_store.write(folder, options.episodes, options.each)
        index, began = EpisodeIndex(), time.perf_counter()
        index.update({0: folder}, lambda runs: None)
        built = 1000 * (time.perf_counter() - began)
        answer = find(index, FILTER_QUERY, {0: folder})
        indexed = median_milliseconds(
            lambda: find(index, FILTER_QUERY, {0: folder}), options.repeats
        )
        first = median_milliseconds(lambda: find(index, {}, {0: folder}), options.repeats)
        words = median_milliseconds(lambda: find(index, {"text": "nowhere"}, {0: folder}), 3)
        began = time.perf_counter()
        table = read_with_pandas(folder)
        read = 1000 * (time.perf_counter() - began)
        theirs = median_milliseconds(lambda: filter_with_pandas(table), options.repeats)
        if len(filter_with_pandas(table)) != answer["total"]:
            sys.exit(
                f"pandas finds {len(filter_with_pandas(table))} episodes, "
                f"the index {answer['total']}."
            )
        index.close()
    size = {"episodes": str(options.episodes)}
    return [
        {"what": "build the index", **size, "value": built, "unit": "ms"},
        {"what": "filter, index", **size, "value": indexed, "unit": "ms", "aim": MAX_MILLISECONDS},
        {"what": "filter, pandas", **size, "value": theirs, "unit": "ms"},
        {"what": "read, pandas", **size, "value": read, "unit": "ms"},
        {"what": "first page, index", **size, "value": first, "unit": "ms"},
        {"what": "words in all texts", **size, "value": words, "unit": "ms"},
    ]


def cpu_seconds(process):
    """Return the CPU seconds of a running process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_viewer(folder):
    """Start the viewer; return its process, address and token."""
    command = [sys.executable, "-c", "import sparring.cli; sparring.cli.main()", "view"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, str(folder), "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    address, _, token = process.stdout.readline().split()[-1].partition("#token=")
    return process, address.rstrip("/"), token


def request_answer(address, token, path):
    """Return the response of an address; empty if nothing has changed."""
    request = urllib.request.Request(address + path, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        if error.code != 304:
            raise
        return ""


def version_of(text):
    """Return the version in a response."""
    return int(text.partition('"version":')[2].partition(",")[0])


def watch_page(page, server, address, token, training):
    """Return the CPU seconds of the server and of the training process while a page is open."""
    version = max(
        version_of(request_answer(address, token, path)) for path in page
    )  # the page opens
    time.sleep(INDEXING_SECONDS)
    before, first = cpu_seconds(server.pid), cpu_seconds(training.pid)
    last, cursor = first, ""
    while training.poll() is None:
        time.sleep(1)
        change = request_answer(address, token, f"/api/changes?since={version}")
        if change:
            version = version_of(change)
            for path in page:
                answer = json.loads(request_answer(address, token, path + cursor))
                cursor = answer.get("cursor", "")
        last = cpu_seconds(training.pid) if training.poll() is None else last
    return cpu_seconds(server.pid) - before, last - first


def share_row(name, options):
    """Return the row with the server's CPU share during a training run of the demo, with an open
    page.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        folder.mkdir()
        command = [
            sys.executable,
            "-c",
            "import sparring.cli; sparring.cli.main()",
            "train",
            "demo",
        ]
        command += [
            f"steps={options.steps}",
            "threads=1",
            "store.every=1",
            "--run",
            str(folder / "demo"),
        ]
        training = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        while not (folder / "demo" / "metrics.jsonl").is_file() and training.poll() is None:
            time.sleep(0.1)
        server, address, token = start_viewer(folder)
        try:
            spent, trained = watch_page(PAGE_REQUESTS[name], server, address, token, training)
        finally:
            server.send_signal(signal.SIGINT)
            training.kill()
            server.wait(20)
            training.wait(20)
    return {
        "what": f"server beside a training, page of {name}",
        "steps": str(options.steps),
        "value": spent / max(trained, 1e-9),
        "unit": "share",
        "aim": MAX_CPU_SHARE,
        "seconds": spent,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=200_000, help="of the store")
    parser.add_argument("--each", type=int, default=200, help="episodes of a part")
    parser.add_argument("--repeats", type=int, default=15, help="of each call that is timed")
    parser.add_argument("--steps", type=int, default=130, help="of the training; 0: none")
    small = {"episodes": 400, "each": 100, "repeats": 1, "steps": 12}
    options = settings(parser, quick=small)
    search = search_rows(options)
    shares = [share_row(name, options) for name in PAGE_REQUESTS] if options.steps else []
    record("view", [*search, *shares], options)
