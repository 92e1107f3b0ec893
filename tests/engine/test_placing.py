"""Which GPUs the workers and learners of a run get; the processes are replaced by objects in this process."""

import json
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import ConfigError
from sparring.core.process import gpu_variables
from sparring.engine.ranks import data_parallel
from sparring.engine.ranks.data_parallel import RankZero
from sparring.engine.ranks.sharded import ShardedRanks
from sparring.engine.run_processes import make_fleet
from sparring.engine.workers.fleet import processes as processes_fleet
from sparring.engine.workers.fleet.processes import ProcessFleet
from sparring.engine.workers.gpu_placement import (
    check_gpus_exist,
    learner_settings,
    worker_settings,
)
from sparring.run import config_checks
from sparring.run.config_checks import (
    FREE_IF_PRESENT,
    _may_change,
    _without_free_keys,
    fixed_settings,
)


def resolve_with(*overrides):
    return resolve(apply_overrides(load_recipe("mars/kuhn-smol"), ["model.lora=null", *overrides]))


class FakeProcess:
    started: ClassVar = []

    def __init__(self, number, settings, mailbox, *, module="", environment=None):
        self.number, self.settings, self.environment = number, json.loads(settings), environment
        self.started.append(self)

    def kill(self):
        return None

    wait_until_gone = kill


@pytest.fixture
def fake_processes(monkeypatch):
    monkeypatch.setattr(FakeProcess, "started", [])
    for module in (data_parallel, processes_fleet):
        monkeypatch.setattr(module, "PythonProcess", FakeProcess)
    monkeypatch.setattr(RankZero, "_read_message", lambda *_: None)
    monkeypatch.setattr(RankZero, "_connect", lambda _: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return FakeProcess.started


def policies_on(device):
    return [SimpleNamespace(name="main", moments=None, model=SimpleNamespace(device=torch.device(device)))]


@pytest.mark.parametrize(
    ("sharding_kind", "gpus", "expected_gpus"),
    [
        (RankZero, [], ["1", "2", "3"]),
        (RankZero, [4, 2, 7, 1], ["2", "7", "1"]),
        (ShardedRanks, [4, 2, 7, 1], ["4", "2", "7", "1"]),
    ],
)
def test_each_learner_sees_only_its_gpu(sharding_kind, gpus, expected_gpus, fake_processes, tmp_path):
    sharding = "none" if sharding_kind is RankZero else "fsdp2"
    config = resolve_with(
        "model.device=cuda",
        "learner.ranks=4",
        "learner.leaves=4",
        f"learner.gpus={gpus}",
        f"learner.sharding={sharding}",
    )
    ranks = sharding_kind(config, tmp_path / "learners")
    ranks.serve(iter(policies_on("cuda")))
    ranks._start()
    assert [process.environment["CUDA_VISIBLE_DEVICES"] for process in fake_processes] == expected_gpus
    for process in fake_processes:
        child_config = resolve(process.settings["config"])
        assert (
            child_config.model.device == "cuda" and child_config.learner.gpus == () and child_config.learner.ranks == 4
        )
    if sharding_kind is ShardedRanks:
        assert {process.environment["NCCL_SOCKET_IFNAME"] for process in fake_processes} == {
            process.environment["GLOO_SOCKET_IFNAME"] for process in fake_processes
        }
        assert fake_processes[0].environment["GLOO_SOCKET_IFNAME"].startswith("lo")


def test_learners_on_the_cpu_get_no_gpu_settings(fake_processes, tmp_path):
    config = resolve_with("learner.ranks=2", "learner.leaves=2")
    ranks = RankZero(config, tmp_path / "learners")
    ranks.serve(policies_on("cpu"))
    ranks._start()
    assert "CUDA_VISIBLE_DEVICES" not in fake_processes[0].environment and fake_processes[0].settings[
        "config"
    ] == config.model_dump(mode="json")


def test_missing_gpus_are_refused_before_a_process_starts(fake_processes, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    config = resolve_with("model.device=cuda", "learner.ranks=4", "learner.leaves=4")
    with pytest.raises(
        ConfigError,
        match=r"learner.ranks=4 needs GPU 2, but torch sees 2 GPUs on this machine, numbered 0 to 1",
    ):
        RankZero(config, tmp_path / "learners").serve(policies_on("cuda"))
    with pytest.raises(ConfigError, match=r"scale.gpus=\[1, 5\] needs GPU 5"):
        make_fleet(resolve_with("model.device=cuda", "scale.fleet=processes", "scale.workers=2", "scale.gpus=[1,5]"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ConfigError, match=r"needs GPU 0, but torch sees 0 GPUs on this machine. Write"):
        check_gpus_exist([0], "scale.gpus")
    assert not fake_processes


def test_gpus_are_assigned_to_workers_in_order_and_each_sees_one(fake_processes):
    config = resolve_with("model.device=cuda", "scale.fleet=processes", "scale.workers=5", "scale.gpus=[3,1]")
    fleet = make_fleet(config)
    for worker in (0, 1, 2, 3, 4, 1):  # a restarted worker keeps its GPU
        fleet.start(worker)
    assert [process.environment["CUDA_VISIBLE_DEVICES"] for process in fake_processes] == ["3", "1", "3", "1", "3", "1"]
    child_config = resolve({**fake_processes[0].settings, "threads": 1})
    assert child_config.model.device == "cuda" and child_config.scale.share_gpus
    ProcessFleet({}, 1).start(0)
    assert fake_processes[-1].environment is None, "without scale.gpus a worker sees the GPUs of this process"


def test_a_process_passes_on_only_gpus_that_it_sees(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6,7")
    assert gpu_variables([2, 0], "scale.gpus") == {"CUDA_VISIBLE_DEVICES": "7,4"}
    with pytest.raises(ConfigError, match=r"scale.gpus names GPU 3, but CUDA_VISIBLE_DEVICES=4, 6,7 has only 3"):
        gpu_variables([3], "scale.gpus")


def test_with_vllm_the_models_of_workers_are_on_the_cpu():
    vllm = "sampler={name: vllm, device: cuda, replicas: 4, gpus: [4, 5]}"
    config = resolve_with(
        "model.device=cuda", vllm, "scale.fleet=ray", "scale.workers=2", "scale.address=auto", "scale.gpus_per_worker=2"
    )
    run_data = config.model_dump(mode="json")
    worker_config = resolve({**worker_settings(run_data, 2), "threads": 1})
    assert (
        resolve(
            worker_settings(
                resolve_with(
                    "model.device=cuda",
                    "scale.fleet=ray",
                    "scale.workers=2",
                    "scale.gpus=[1]",
                    "scale.gpus_per_worker=0.5",
                ).model_dump(mode="json"),
                0.5,
            )
        ).model.device
        == "cuda"
    )
    assert worker_config.model.device == "cpu" and worker_config.sampler.options == {
        "device": "cuda",
        "replicas": 2,
        "gpus": [0, 1],
    }
    assert worker_settings(run_data, 0.25)["sampler"]["replicas"] == 1 and worker_settings(run_data, 0) == run_data
    assert config.model_dump(mode="json") == run_data and run_data["sampler"]["replicas"] == 4, (
        "the configuration of the run is not changed"
    )
    config = resolve_with(
        "sampler={name: vllm, device: cuda, gpus: [0]}", "scale.fleet=processes", "scale.workers=2", "scale.gpus=[1,2]"
    )
    # a worker places its model on a visible GPU
    assert (
        config.model.device == "auto" and worker_settings(config.model_dump(mode="json"), 1)["model"]["device"] == "cpu"
    )
    assert worker_settings(config.model_dump(mode="json"), 0)["model"]["device"] == "auto"


def test_all_policies_of_a_learner_are_on_its_gpu():
    config = resolve_with(
        "policies={a: {}, b: {model: {device: cuda}}}",
        "roles={first: a, second: b}",
        "learner.ranks=2",
        "learner.leaves=2",
        "policies.a.model.device=cpu",
    )
    child_config = resolve(learner_settings(config.model_dump(mode="json")))
    assert [policy.model.device for policy in child_config.by_policy.values()] == ["cpu", "cuda"]


def test_a_run_may_resume_on_other_gpus():
    assert all(_may_change(key) for key in (*FREE_IF_PRESENT, "scale.gpus", "scale.gpus_per_worker", "learner.ranks"))
    with_gpus, without_gpus = resolve_with("model.device=cuda", "learner.gpus=[3]"), resolve_with("model.device=cuda")
    assert fixed_settings(with_gpus) == fixed_settings(without_gpus) and _without_free_keys(
        with_gpus.model_dump(mode="json")
    )["learner"]["gpus"] == [3]
    assert "gpus" not in _without_free_keys(without_gpus.model_dump(mode="json"))["learner"]


def test_removed_gpus_are_noted_as_one_change_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(config_checks, "describe_edits", lambda *_: "")
    folder = SimpleNamespace(path=tmp_path, config=dict)
    without_gpus, processes = resolve_with("model.device=cuda"), ("scale.fleet=processes", "scale.workers=2")
    with_gpus = resolve_with(
        "model.device=cuda", "learner.gpus=[3]", *processes, "scale.gpus=[1]", "scale.share_gpus=true"
    )
    configs = [with_gpus, without_gpus, without_gpus, with_gpus, with_gpus, without_gpus, without_gpus]
    num_lines = []
    for step, config in enumerate(configs):
        config_checks.write_configuration(folder, config, SimpleNamespace(step=step) if step else None)
        num_lines.append(len((tmp_path / "changes.jsonl").read_text().splitlines()))
    assert [num_lines[1] - num_lines[0], num_lines[3] - num_lines[2], num_lines[5] - num_lines[4]] == [5, 5, 5]
    assert (num_lines[2], num_lines[4], num_lines[6]) == (num_lines[1], num_lines[3], num_lines[5])
