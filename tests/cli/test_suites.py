"""Suites on the command line, with model endpoints as the measured player or as the opponent."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from sparring.core.errors import SparringError
from tests.cli.builders import assert_refused, call, succeed

ROW = {
    "name": "kuhn-random",
    "game": "kuhn_poker",
    "role": "trained",
    "kind": "match",
    "opponent": {"name": "random"},
    "games_per_seat": 4,
    "normalise": [-2, 2],
}
QUICK = ["steps=1", "rollout.games_per_step=16", "model.hidden_size=16", "model.layers=1", "threads=1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("suites") / "run"
    succeed("train", "kuhn-tiny", *QUICK, "--run", path, "--json")
    return path


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(
        yaml.safe_dump({"rows": [ROW, {**ROW, "name": "exact", "kind": "exact", "opponent": None, "normalise": None}]})
    )
    return path


@pytest.fixture
def endpoint(monkeypatch):
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            reply = requests[-1]["messages"][-1]["content"].rpartition("Legal actions: ")[2].split(",")[0].split(".")[0]
            choice = {"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
            body = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 1}}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", requests
    server.shutdown()
    server.server_close()


def test_a_suite_prints_a_table_or_json_and_reuses_its_results(run, suite):
    outcome = succeed("evaluate", run, "--suite", suite, "--workers", 1, "--json")
    report = json.loads(outcome.stdout)
    assert report["suite"] == "small" and report["player"] == {
        "run": str(run),
        "step": 1,
        "temperature": 1.0,
        "weights": "EMA weights",
    }
    assert {row["name"]: row["measured"] for row in report["rows"]} == {"kuhn-random": True, "exact": True}
    assert json.loads((run / "evaluation-small.json").read_text())["report"] == report
    assert "kuhn-random done; 8 of 8 games" in outcome.stderr
    second_outcome = call("evaluate", run, "--suite", suite)
    assert "nothing is played" in second_outcome.stderr
    for text in ("kuhn-random", "nash_conv", "trained by this run", "95 % intervals", "evaluation-small.json"):
        # joined, as the terminal wraps lines
        assert text in " ".join(second_outcome.stdout.split()), second_outcome.stdout


def test_options_reach_the_games(run, suite, tmp_path):
    options = ("--workers", 1, "--games", 3, "--temperature", 0.5)
    report = json.loads(
        call(
            "evaluate",
            run,
            "--suite",
            suite,
            *options,
            "--opponent",
            "cfr iterations=3",
            "--out",
            tmp_path / "other",
            "--json",
        ).stdout
    )
    assert report["player"]["temperature"] == 0.5
    rows = {row["name"]: row for row in report["rows"]}
    assert rows["kuhn-random"]["overall"]["games"] == rows["kuhn-cfr"]["overall"]["games"] == 6
    assert (
        rows["kuhn-cfr"]["opponent"] == {"name": "cfr", "options": {"iterations": 3}}
        and not rows["kuhn-cfr"]["in_totals"]
    )
    assert (tmp_path / "other" / "evaluation-small.json").is_file()


def test_moves_are_judged_by_the_oracle_of_the_row_or_of_the_command(tmp_path):
    rows = [ROW, {**ROW, "name": "nim-random", "game": "nim", "options": {"pile_sizes": "1;2"}, "normalise": [-1, 1]}]
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({"rows": rows}))
    command = ["evaluate", "--agent", "minimax", "--suite", tmp_path / "small.yaml", "--out", tmp_path, "--workers", 1]
    stdout = call(*command, "--oracle", "minimax").stdout
    for text in (
        "optimal moves",
        "regret per turn",
        "1.00 [",
        "0.000 [",
        "100.0%",
        "Moves not judged: something is hidden",
    ):
        assert text in " ".join(stdout.split()), stdout
    row = json.loads(call(*command, "--oracle", "minimax max_states=100", "--json").stdout)["rows"][1]
    assert row["oracle"] == {"name": "minimax", "options": {"max_states": 100}}
    assert (row["overall"]["regret"]["mean"], row["overall"]["optimal"]["mean"]) == (0.0, 1.0)
    rows[1]["oracle"] = {"name": "minimax"}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({"rows": rows}))
    assert "optimal moves" in call(*command).stdout
    assert "optimal moves" not in call(*command, "--oracle", "none").stdout


def test_two_opponents_of_one_bot_are_named_by_their_options(run):
    outcome = call(
        "evaluate", run, "--games", 2, "--opponent", "cfr iterations=3", "--opponent", "cfr iterations=4", "--json"
    )
    assert {row["opponent"] for row in json.loads(outcome.stdout)["matches"]} == {
        "cfr(iterations=3)",
        "cfr(iterations=4)",
    }


def test_an_endpoint_is_measured_without_a_run(suite, tmp_path, endpoint, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url, requests = endpoint
    command = ["evaluate", "--agent", f"endpoint model=m base_url={url} concurrency=2", "--suite", suite]
    outcome = succeed(*command, "--json")
    report = json.loads(outcome.stdout)
    assert report["player"] == {"agent": "endpoint", "options": {"model": "m", "base_url": url}}
    row = report["rows"][0]
    assert row["overall"]["illegal"]["mean"] == 0.0 and row["options"] == {"style": "full"}
    assert "We play Kuhn poker" in requests[0]["messages"][-1]["content"]
    num_requests = len(requests)
    assert call(*command, "--json").stdout == outcome.stdout
    assert len(requests) == num_requests and (tmp_path / "evaluation-small.json").is_file()


def test_games_before_a_spent_budget_are_stored_and_a_larger_budget_goes_on(tmp_path, endpoint):
    url, requests = endpoint
    rows = [{**ROW, "name": f"row{n}", "games_per_seat": 2} for n in range(4)]
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({"rows": rows}))
    command = ["evaluate", "--suite", tmp_path / "small.yaml", "--out", tmp_path, "--agent"]
    outcome = call(*command, f"endpoint model=m base_url={url} budget_tokens=1200 concurrency=1")
    assert isinstance(outcome.exception, SparringError) and "budget_tokens=1200 is spent" in str(outcome.exception)
    stored = json.loads((tmp_path / "evaluation-small.json").read_text())["measured"]
    assert stored
    num_requests = len(requests)
    report = json.loads(call(*command, f"endpoint model=m base_url={url} concurrency=4", "--json").stdout)
    num_further = len(requests) - num_requests
    stored_later = json.loads((tmp_path / "evaluation-small.json").read_text())["measured"]
    assert all(stored_later[key]["pieces"].items() >= entry["pieces"].items() for key, entry in stored.items())
    command[4] = tmp_path / "anew"
    assert json.loads(call(*command, f"endpoint model=m base_url={url}", "--json").stdout) == report
    # the episodes before the limit were not played again
    assert 0 < num_further < len(requests) - num_requests - num_further


def test_paid_answers_of_an_interrupted_piece_are_reused(suite, tmp_path, endpoint):
    url, requests = endpoint
    command = ["evaluate", "--suite", suite, "--out", tmp_path, "--agent"]
    assert call(*command, f"endpoint model=m base_url={url} budget_tokens=1 concurrency=1").exit_code
    num_paid = len(requests)
    assert num_paid
    succeed(*command, f"endpoint model=m base_url={url}")
    (answers,) = tmp_path.glob("*.answers.jsonl")
    assert len(requests) == len(answers.read_text().splitlines())


def test_an_endpoint_plays_against_a_run(run, suite, endpoint, tmp_path):
    url, requests = endpoint
    report = json.loads(
        call(
            "evaluate",
            run,
            "--suite",
            suite,
            "--workers",
            1,
            "--out",
            tmp_path,
            "--opponent",
            f"endpoint model=m base_url={url}",
            "--json",
        ).stdout
    )
    row = next(row for row in report["rows"] if row["name"] == "kuhn-endpoint")
    assert row["measured"] and "prompts of the tiny model" in row["notes"][0] and requests


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{run}", "--suite", "mras"], "Did you mean 'mars'"),
        (["{run}", "--suite", "{tmp}/none.yaml"], "cannot be read"),
        (["{run}", "--suite", "mars", "--temperature", "0"], "must be above 0"),
        (["{run}", "--suite", "mars", "--checkpoint", "9"], "Available steps: 1"),
        (["{run}", "--suite", "mars", "--league"], "cannot be used with --suite"),
        (["{run}", "--suite", "mars", "--oracle-turns", "5"], "cannot be used with --suite"),
        (["{run}", "--suite", "mars", "--oracle", "minmax"], "Did you mean 'minimax'"),
        (
            ["{run}", "--suite", "mars", "--oracle", "posterior"],
            "can judge none of the rows that have no oracle: tic_tac_toe: it has no solver",
        ),
        (["{run}", "--suite", "vpr", "--oracle", "minimax"], "already have an oracle; leave --oracle out"),
        (["{run}", "--suite", "mars", "--opponent", "mtcs"], "Did you mean 'mcts'"),
        (["{run}", "--suite", "mars", "--opponent", "mcts", "--opponent", "mcts"], "occurs twice"),
        (["{run}", "--suite", "mars", "--agent", "random"], "either a run folder or --agent"),
        (["{run}", "--workers", "2"], "--workers needs --suite"),
        (["{run}", "--temperature", "0.5"], "--temperature needs --suite"),
        (["{run}", "--out", "{tmp}"], "--out needs --suite"),
        ([], "either a run folder or --agent"),
        (["--agent", "random"], "--agent needs a suite or a game"),
        (["--agent", "randm", "--suite", "mars"], "Did you mean 'random'"),
        (["--agent", "endpoint", "--suite", "mars"], "option 'model'"),
        (["--agent", "random", "--suite", "mars", "--temperature", "0.5"], "need a run; for an agent"),
        (["--agent", "policy", "--suite", "mars"], "player"),
    ],
)
def test_bad_input_is_refused_with_one_line(run, tmp_path, arguments, message):
    assert_refused(
        call(
            "evaluate", *(argument.replace("{tmp}", str(tmp_path)).replace("{run}", str(run)) for argument in arguments)
        ),
        message,
    )


def running_processes(group):
    processes = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group_id = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group_id) == group and state != "Z":
            processes.append(path.parent.name)
    return processes


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="platform: reads /proc")
def test_an_interrupt_prints_how_to_go_on_and_leaves_no_process(run, tmp_path):
    rows = [{**ROW, "name": f"row{n}", "games_per_seat": 100_000} for n in range(2)]
    (tmp_path / "large.yaml").write_text(yaml.safe_dump({"rows": rows}))
    command = [
        sys.executable,
        "-c",
        "from sparring.cli import main; main()",
        "evaluate",
        str(run),
        "--suite",
        str(tmp_path / "large.yaml"),
    ]
    command += ["--workers", "2", "--out", str(tmp_path)]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True
    )
    results = tmp_path / "evaluation-large.json"
    for _ in range(3000):
        if results.is_file():
            break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl+C in a terminal
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 130 and "the same command continues from there" in stderr and "Traceback" not in stderr
    assert json.loads(results.read_text())["measured"]
    for _ in range(100):
        if not running_processes(process.pid):
            break
        time.sleep(0.1)
    assert running_processes(process.pid) == []
