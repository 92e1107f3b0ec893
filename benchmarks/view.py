"""Cost of the viewer: its index, a filter compared with pandas, its CPU share beside a training.

    python benchmarks/view.py                      200,000 episodes, and a training beside a page
    python benchmarks/view.py --quick              for a moment

The store is made of random plays of Kuhn poker with every column filled (view_store.py). The filter
is by environment, seat, illegal reply and advantage together, with facets, sorted, a page of 50.
pandas reads the same columns of the same parts into memory once (`read`), then filters them. The
share is that of the server's CPU seconds in the training process's (the demo, every step stored),
while a page asks once a second what has changed, and then for what it shows. The first page of each
server comes before the count. A machine that does other work makes the share larger: a page asks by
the clock, and the training gets less of it.
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

AIM_MS, AIM_SHARE = 300.0, 0.02
SETTLED = 5.0  # seconds after the first page in which a server has indexed what was there
QUERY = {
    "game": "kuhn_long",
    "seat": "first",
    "illegal": "1",
    "advantage": "1-",
    "sort": "advantage",
}
KEYS = ["step", "episode_id", "seat", "turn_index", "candidate"]
READ = [*KEYS, "game", "role", "event", "committed"]
PAGES = {  # what an open page asks for when something has changed
    "curves": ("/api/runs/0/series?names=loss,legal_rate,nash_conv/kuhn_poker&since=",),
    "replays": ("/api/episodes?limit=50",),
}


def milliseconds(work, repeats):
    """Return the median time of a call in ms."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def by_pandas(folder):
    """Return turns joined with credit, as a table of pandas."""
    turns = pd.concat(
        pd.read_parquet(path, columns=READ) for path in sorted((folder / "episodes").iterdir())
    )
    columns = [*KEYS, "advantage"]
    credit = pd.concat(
        pd.read_parquet(path, columns=columns) for path in sorted((folder / "credit").iterdir())
    )
    return turns.merge(credit, on=KEYS, how="left")


def filtered(table):
    """Return the episodes that QUERY asks for, by pandas."""
    turns = table[table.committed & (table.game == QUERY["game"]) & (table.role == QUERY["seat"])]
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
        answer = find(index, QUERY, {0: folder})
        indexed = milliseconds(lambda: find(index, QUERY, {0: folder}), options.repeats)
        first = milliseconds(lambda: find(index, {}, {0: folder}), options.repeats)
        words = milliseconds(lambda: find(index, {"text": "nowhere"}, {0: folder}), 3)
        began = time.perf_counter()
        table = by_pandas(folder)
        read = 1000 * (time.perf_counter() - began)
        theirs = milliseconds(lambda: filtered(table), options.repeats)
        if len(filtered(table)) != answer["total"]:
            sys.exit(f"pandas finds {len(filtered(table))} episodes, the index {answer['total']}.")
        index.close()
    size = {"episodes": str(options.episodes)}
    return [
        {"what": "build the index", **size, "value": built, "unit": "ms"},
        {"what": "filter, index", **size, "value": indexed, "unit": "ms", "aim": AIM_MS},
        {"what": "filter, pandas", **size, "value": theirs, "unit": "ms"},
        {"what": "read, pandas", **size, "value": read, "unit": "ms"},
        {"what": "first page, index", **size, "value": first, "unit": "ms"},
        {"what": "words in all texts", **size, "value": words, "unit": "ms"},
    ]


def seconds_of(process):
    """Return the CPU seconds of a process that is going on."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def served(folder):
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
    """Return the answer of an address, empty if nothing is new."""
    request = urllib.request.Request(address + path, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        if error.code != 304:
            raise
        return ""


def version_of(text):
    """Return the version of an answer."""
    return int(text.partition('"version":')[2].partition(",")[0])


def watched(page, server, address, token, training):
    """Return the CPU seconds of the server and of the training while a page watches it."""
    version = max(
        version_of(request_answer(address, token, path)) for path in page
    )  # the page opens
    time.sleep(SETTLED)
    before, first = seconds_of(server.pid), seconds_of(training.pid)
    last, cursor = first, ""
    while training.poll() is None:
        time.sleep(1)
        change = request_answer(address, token, f"/api/changes?since={version}")
        if change:
            version = version_of(change)
            for path in page:
                answer = json.loads(request_answer(address, token, path + cursor))
                cursor = answer.get("cursor", "")
        last = seconds_of(training.pid) if training.poll() is None else last
    return seconds_of(server.pid) - before, last - first


def share_row(name, options):
    """Return the row about the server's CPU beside a training of the demo, with a page open."""
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
        server, address, token = served(folder)
        try:
            spent, trained = watched(PAGES[name], server, address, token, training)
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
        "aim": AIM_SHARE,
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
    shares = [share_row(name, options) for name in PAGES] if options.steps else []
    record("view", [*search, *shares], options)
