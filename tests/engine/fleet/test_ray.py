"""The fleet `ray`; these tests need Ray and are run by `make scale-test`."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core.errors import ConfigError, RunError
from sparring.engine.local import LocalEngine
from sparring.engine.run_processes import run_workers
from sparring.engine.workers.fleet import ray as ray_fleet
from sparring.run import checkpoint
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train

BASE_CONFIG = {
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
RAY_SCALE = {"fleet": "ray", "workers": 2, "unit_games": 4, "lag": 1}
NODE_OPTIONS = {"num_cpus": 1, "object_store_memory": 100 << 20}
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.fixture(scope="module", autouse=True)
def own_ray_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "of these tests")
        patch.setenv("TMPDIR", tempfile.mkdtemp(prefix="r-", dir="/tmp"))  # a short path, as Ray creates sockets there
        patch.setattr(tempfile, "tempdir", None)
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        yield


def ray_config(scale, steps=6):
    return resolve({**BASE_CONFIG, "steps": steps, "scale": scale})


def train_run(path, scale, watch=None, steps=6):
    config = ray_config(scale, steps)
    engine = LocalEngine(config)
    folder = RunFolder.create(path, to_yaml(config))
    with folder, run_workers(engine, path):
        train(config, engine, folder, watch=watch)
    newest = checkpoint.load_latest(path).path
    weights = {file.name: file.read_bytes() for file in newest.glob("*.safetensors")}
    return weights, (path / "metrics.jsonl").read_bytes()


def num_lost_workers(path):
    return sum(line["lost_workers"] for line in read_lines(path / "timing.jsonl"))


def process_tree(pid=None):
    return psutil.Process(pid).children(recursive=True)


def processes_named(processes, name):
    matches = []
    for process in processes:
        try:
            if name in "".join(process.cmdline()[:1]):
                matches.append(process)
        except psutil.Error:
            continue
    return matches


def running_processes(processes):
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def listening_addresses(processes):
    addresses = set()
    for process in processes:
        try:
            addresses |= {
                connection.laddr.ip
                for connection in process.net_connections("tcp")
                if connection.status == psutil.CONN_LISTEN
            }
        except psutil.Error:
            continue
    return addresses


def ray_folders():
    return set(Path(os.environ["TMPDIR"]).glob("sparring-ray-*"))


@pytest.fixture(scope="module")
def run_without_workers(tmp_path_factory):
    return train_run(tmp_path_factory.mktemp("alone") / "run", {"lag": 1})


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    ray_cluster = Cluster(
        initialize_head=True, head_node_args={**NODE_OPTIONS, "num_cpus": 0, "include_dashboard": False}
    )
    for _ in range(2):
        ray_cluster.add_node(**NODE_OPTIONS)
    yield ray_cluster
    ray_cluster.shutdown()


def test_a_killed_actor_is_counted_and_changes_no_byte(tmp_path, run_without_workers):
    addresses, processes_seen, folders_before = set(), set(), ray_folders()

    def kill_actor_after_step_2(report):
        addresses.update(listening_addresses(process_tree()))
        processes_seen.update(process_tree())
        if report.step == 2:
            os.kill(processes_named(process_tree(), "ray::Sparring")[0].pid, signal.SIGKILL)

    assert train_run(tmp_path / "run", RAY_SCALE, kill_actor_after_step_2) == run_without_workers
    assert num_lost_workers(tmp_path / "run") == 1
    assert addresses and addresses <= LOOPBACK
    assert len(
        processes_named(processes_seen, "gcs_server") + processes_named(processes_seen, "ray::")
    ) == 0 and not running_processes(processes_seen)  # all processes have ended
    assert ray_folders() == folders_before
    assert not (Path.home() / ".ray").exists()


@pytest.mark.parametrize("process_name", ["gcs_server", "raylet"])
def test_a_dead_head_node_is_an_error_with_advice(tmp_path, monkeypatch, process_name):
    monkeypatch.setattr(ray_fleet, "HEAD_TIMEOUT", 5)
    kill_times, processes_seen = [], set()

    def kill_process_after_step_2(report):
        if report.step == 2:
            processes_seen.update(process_tree())
            kill_times.append(time.monotonic())
            processes_named(process_tree(), process_name)[0].kill()

    with pytest.raises(RunError, match=r"Ray on this machine has ended.*--resume"):
        train_run(tmp_path / "run", RAY_SCALE, kill_process_after_step_2, steps=5000)
    assert time.monotonic() - kill_times[0] < 45
    psutil.wait_procs(processes_seen, timeout=10)
    assert not running_processes(processes_seen)


def test_a_signal_saves_the_run_and_ends_all_processes(tmp_path):
    command = [
        sys.executable,
        "-c",
        "from sparring.cli import main; main()",
        "train",
        "kuhn-tiny",
        "threads=1",
        "steps=100000",
        "rollout.games_per_step=16",
    ]
    options = ["scale.fleet=ray", "scale.workers=1", "--run", str(tmp_path / "run")]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        line = ""
        while not line.startswith("step 20/"):
            line = process.stdout.readline()
            assert line, "the training process has ended"
        processes_seen = process_tree(process.pid)
        process.send_signal(signal.SIGTERM)
        stdout = process.communicate(timeout=60)[0]
    assert "--resume" in stdout and "Traceback" not in stdout and "SIGTERM" not in stdout
    assert checkpoint.load_latest(tmp_path / "run").step >= 20
    assert len(processes_seen) > 5 and not running_processes(processes_seen)


@pytest.mark.parametrize("weights", ["file", "pipe"])
def test_weights_can_be_sent_in_other_ways(tmp_path, run_without_workers, cluster, weights):
    assert (
        train_run(tmp_path / "run", {**RAY_SCALE, "weights": weights, "address": cluster.address})
        == run_without_workers
    )


def wait_for_messages(fleet):
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        messages = fleet.poll(1.0)
        if messages:
            return messages
    raise AssertionError("no message arrived within 180 seconds")


def test_actors_are_ended_and_a_message_they_cannot_answer_is_an_error(cluster):
    fleet = ray_fleet.RayFleet(
        ray_config({**RAY_SCALE, "workers": -1, "address": cluster.address}).model_dump(mode="json")
    )
    try:
        assert fleet.workers == 2
        fleet.start(0)
        assert "ready" in json.loads(wait_for_messages(fleet)[0].message)
        fleet.start(1)
        fleet.end(1)  # no message of it arrives, not even that it is ready
        fleet.send(1, b"", {})
        start_time = time.monotonic()
        fleet.send(0, b"no task", {})
        assert wait_for_messages(fleet)[0][0] == 0 and time.monotonic() - start_time < 5
        assert fleet.poll(3.0) == []
        fleet.start(1)
        assert [message.worker for message in wait_for_messages(fleet)] == [1]
    finally:
        fleet.close()


def test_a_missing_file_or_gpu_of_a_machine_is_an_error(cluster, monkeypatch):
    config = ray_config({**RAY_SCALE, "address": cluster.address}).model_dump(mode="json")
    fleet = ray_fleet.RayFleet({**config, "steps": -1})
    try:
        fleet.start(0)
        assert json.loads(wait_for_messages(fleet)[0].message)["error"][0] == "ConfigError"
        fleet.send(0, b"", {})  # no worker has a GPU
        error_class, text = json.loads(wait_for_messages(fleet)[0].message)["error"]
        assert (
            error_class == "RunError" and "AttributeError" in text and "the same Python, sparring and plug-ins" in text
        )
    finally:
        fleet.close()


def test_another_token_is_refused(cluster, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of others")
    monkeypatch.setattr(ray_fleet, "START_TIMEOUT", 90)
    with pytest.raises(RunError, match=r"Ray cannot be reached at 127.0.0.1.*RAY_AUTH_TOKEN"):
        ray_fleet.RayFleet(ray_config({**RAY_SCALE, "address": cluster.address}).model_dump(mode="json"))


def test_an_unreachable_address_is_an_error_at_once():
    start_time = time.monotonic()
    with pytest.raises(RunError, match=r"Nothing listens at 127.0.0.1:9.*ray start --head"):
        ray_fleet.RayFleet(ray_config({**RAY_SCALE, "address": "127.0.0.1:9"}).model_dump(mode="json"))
    assert time.monotonic() - start_time < 15


def test_weight_files_are_shared_once_and_damaged_ones_never(tmp_path, monkeypatch):
    from sparring.engine.workers.fleet import ray_driver

    shared_contents = []
    monkeypatch.setattr(ray_driver.ray, "put", lambda content: shared_contents.append(content) or ("shared", content))
    driver = ray_driver.RayDriver({"config": {}, "weights": "ray", "gpus_per_worker": 0}, lambda head, data: None)
    contents = [b"weights %d" % number for number in range(ray_driver.MAX_SHARED + 1)]
    files = {sha256(content).hexdigest(): str(tmp_path / f"{number}") for number, content in enumerate(contents)}
    first_digest = next(iter(files))
    for path, content in zip(files.values(), contents, strict=True):
        Path(path).write_bytes(content)
    Path(files[first_digest]).write_bytes(b"torn")
    request = {first_digest: files[first_digest]}
    assert driver._read_contents(request) == {first_digest: b"torn"} and not shared_contents
    Path(files[first_digest]).write_bytes(contents[0])
    assert (
        driver._read_contents(request) == driver._contents(request) == {first_digest: ("shared", contents[0])}
        and shared_contents == contents[:1]
    )
    for digest in list(files)[1:]:
        driver._read_contents({digest: files[digest]})
    assert shared_contents == contents
    driver._read_contents(request)
    assert shared_contents == [*contents, contents[0]]  # the oldest was dropped and is shared again


def test_without_ray_the_error_states_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"sparring\[scale\].*make scale"):
        ray_fleet.RayFleet(ray_config(RAY_SCALE).model_dump(mode="json"))


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:6379", "localhost:6379", "ray://127.0.0.1:10001"])
def test_a_local_cluster_may_be_joined(address):
    ray_fleet.check_address(address)


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "ray://head:10001", "127.0.0.1.evil.org:1", "evil"])
def test_a_cluster_named_in_a_recipe_needs_permission(monkeypatch, address):
    with pytest.raises(ConfigError, match="any code"):
        ray_fleet.check_address(address)
    monkeypatch.setenv("SPARRING_RAY_ADDRESS", f"x,{address}")
    ray_fleet.check_address(address)


def test_nodes_may_join_and_leave_during_a_run(tmp_path, run_without_workers, cluster):
    nodes = sorted(cluster.worker_nodes, key=lambda node: node.unique_id)

    def change_nodes(report):
        if report.step == 2:
            cluster.remove_node(nodes[0], allow_graceful=False)
        if report.step == 4:
            cluster.add_node(**NODE_OPTIONS)

    assert (
        train_run(tmp_path / "run", {**RAY_SCALE, "workers": -1, "address": cluster.address}, change_nodes)
        == run_without_workers
    )
    assert num_lost_workers(tmp_path / "run") == 1


def ready_workers(fleet, seconds):
    workers, deadline = set(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        for worker, message in fleet.poll(0.2):
            assert message is not None and b"ready" in message, message
            workers.add(worker)
    return workers


def gpu_config_data(monkeypatch, gpus_per_worker, gpus=(0,), workers=3):
    monkeypatch.setenv("SPARRING_VLLM_PYTHON", sys.executable)
    scale = {
        "fleet": "ray",
        "workers": workers,
        "unit_games": 4,
        "gpus": list(gpus),
        "gpus_per_worker": gpus_per_worker,
    }
    config = resolve(
        {
            **BASE_CONFIG,
            "scale": scale,
            "model": {"hidden_size": 32, "layers": 1, "heads": 1},
            "sampler": {"name": "vllm", "device": "cuda", "gpus": [7]},
        }
    )
    return config.model_dump(mode="json")


def test_workers_reserve_gpus_and_wait_for_a_free_one(monkeypatch):
    fleet = ray_fleet.RayFleet(gpu_config_data(monkeypatch, 0.5))
    try:
        for worker in range(3):
            fleet.start(worker)
        deadline, workers = time.monotonic() + 120, set()
        while len(workers) < 2 and time.monotonic() < deadline:
            workers |= ready_workers(fleet, 1)
        assert len(workers) == 2 and not ready_workers(fleet, 8), "the third waits, as each worker reserves half a GPU"
        fleet.end(min(workers))
        while len(workers) < 3 and time.monotonic() < deadline:
            workers |= ready_workers(fleet, 1)
        assert workers == {0, 1, 2}
    finally:
        fleet.close()


def test_a_cluster_without_enough_gpus_for_a_worker_is_refused(monkeypatch):
    with pytest.raises(RunError, match=r"a worker reserves 2 GPUs, and it has 1"):
        ray_fleet.RayFleet(gpu_config_data(monkeypatch, 2))


def test_as_many_workers_start_as_fit_on_the_gpus(monkeypatch):
    fleet = ray_fleet.RayFleet(gpu_config_data(monkeypatch, 0.5, workers=-1))
    try:
        assert fleet.workers == min(2, os.cpu_count())
    finally:
        fleet.close()
