"""The fleet ray: run by `make scale-test`, as it needs Ray."""

import builtins
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
import ray

from sparring.config import resolve
from sparring.engine.fleet import ray as room
from sparring.engine.local import LocalEngine
from sparring.engine.workers import playing
from sparring.errors import ConfigError
from sparring.recipe import to_yaml
from sparring.run import checkpoint
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train

BASE = {
    "name": "rays",
    "steps": 6,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}],
    "rollout": {"games_per_step": 32},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "league": {"every": 2, "keep": 2},
    "matchmaker": {"name": "pfsp", "past": 0.5},
    "warmup": {"updates": 1, "games": 8},
    "evaluation": {"every": 9, "exact": False},
}
RAY = {"fleet": "ray", "workers": 2, "unit_games": 4, "lag": 1}


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory):
    """Ray writes a token into the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


def run(path, scale, watch=None, steps=6):
    config = resolve({**BASE, "steps": steps, "scale": scale})
    engine = LocalEngine(config)
    folder = RunFolder.create(path, to_yaml(config))
    with folder, playing(engine, path):
        train(config, engine, folder, watch=watch)
    last = checkpoint.load_latest(path).path
    weights = {file.name: file.read_bytes() for file in last.glob("*.safetensors")}
    return weights, (path / "metrics.jsonl").read_bytes()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return the bytes of the run without workers."""
    return run(tmp_path_factory.mktemp("alone") / "run", {"lag": 1})


def family():
    """Return the processes of Ray on this machine."""
    marks = ("ray/core/src/ray", "ray/_private", "ray/dashboard")
    every = psutil.process_iter(["cmdline"])
    return [one for one in every if any(mark in word for word in one.info["cmdline"] or [] for mark in marks) or (one.info["cmdline"] or [""])[0].startswith("ray::")]


def listening(processes):
    """Return the addresses that processes listen on."""
    found = set()
    for process in processes:
        try:
            found |= {one.laddr.ip for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("weights", [None, "file", "pipe"])
def test_actors_give_the_bytes_of_a_run_without_workers(tmp_path, alone, weights):
    assert run(tmp_path / "run", {**RAY, "weights": weights}) == alone


def test_a_killed_actor_changes_no_byte_and_is_counted_and_nothing_listens_to_strangers(tmp_path):
    without = run(tmp_path / "alone", {})  # without a lag, each step asks the workers
    addresses, killed = set(), []

    def watch(report):
        workers = [one for one in family() if "_Actor" in " ".join(one.info["cmdline"])]
        addresses.update(listening(family()))
        if report.step in (2, 4) and workers:
            killed.append(workers[0].pid)
            os.kill(workers[0].pid, signal.SIGKILL)

    assert run(tmp_path / "run", {**RAY, "lag": 0}, watch) == without
    lost = sum(line["lost_workers"] for line in read_lines(tmp_path / "run" / "timing.jsonl"))
    assert killed and 1 <= lost <= len(killed)
    assert addresses and addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    end = time.monotonic() + 10
    while family() and time.monotonic() < end:
        time.sleep(0.2)
    assert not family()


def test_a_head_that_dies_is_an_error_and_no_end_without_a_word(tmp_path):
    """In a process of its own: Ray ends one whose head has been gone for a minute."""
    path = tmp_path / "run"
    words = ["train", "kuhn-tiny", "steps=100000", "threads=1", "warmup.updates=1", "rollout.games_per_step=32", "model.hidden_size=16", "evaluation.exact=false", "scale.fleet=ray", "scale.workers=1", "--run", str(path)]
    code = "import sys; from sparring.cli import main; sys.argv[0] = 'sparring'; main()"
    run = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while len(read_lines(path / "timing.jsonl") if (path / "timing.jsonl").exists() else []) < 3:
            assert time.monotonic() < end and run.poll() is None
            time.sleep(0.2)
        for one in family():
            if any("gcs_server" in word for word in one.info["cmdline"]):
                one.kill()
        _, said = run.communicate(timeout=90)
    finally:
        run.kill()
    assert run.returncode == 2
    assert "its head is gone" in said and "--resume" in said and "Traceback" not in said


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    usual = builtins.__import__

    def missing(name, *rest):
        if name.split(".")[0] == "ray":
            raise ImportError(name)
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match=r"sparring\[scale\].*make scale"):
        room._ray()


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:6379", "localhost:6379", "ray://127.0.0.1:10001"])
def test_a_cluster_on_this_machine_may_be_joined(address):
    room.check_address(address)


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "ray://head:10001", "127.0.0.1.evil.org:1", "evil"])
def test_a_cluster_that_a_recipe_names_is_joined_only_if_the_user_names_it(monkeypatch, address):
    with pytest.raises(ConfigError, match="any code"):
        room.check_address(address)
    monkeypatch.setenv("SPARRING_RAY_ADDRESS", f"x,{address}")
    room.check_address(address)


def test_nodes_come_and_go(tmp_path, alone):
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 100 << 20, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=100 << 20) for _ in range(2)]
    came = []

    def watch(report):
        if report.step == 2:
            cluster.remove_node(nodes[0], allow_graceful=False)
        if report.step == 3:
            came.append(cluster.add_node(num_cpus=1, object_store_memory=100 << 20))

    try:
        os.environ["SPARRING_RAY_ADDRESS"] = cluster.address
        assert run(tmp_path / "run", {**RAY, "address": cluster.address}, watch) == alone
        assert came
    finally:
        os.environ.pop("SPARRING_RAY_ADDRESS", None)
        cluster.shutdown()
        ray.shutdown()
    assert threading.active_count() < 50
