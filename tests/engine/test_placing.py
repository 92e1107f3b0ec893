"""Which GPUs processes beside a run are given, by stand-ins for the processes."""

import json
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import ConfigError
from sparring.core.process import visible_gpus
from sparring.engine.ranks import data_parallel
from sparring.engine.ranks.data_parallel import Ranks
from sparring.engine.ranks.sharded import Shards
from sparring.engine.run_processes import fleet_of
from sparring.engine.workers.fleet import processes as processes_fleet
from sparring.engine.workers.fleet.processes import ProcessFleet
from sparring.engine.workers.gpu_placement import (
    check_gpus_exist,
    learner_settings,
    worker_settings,
)
from sparring.run import config_checks as changes
from sparring.run.config_checks import (
    FREE_IF_PRESENT,
    _may_change,
    _without_free_keys,
    binding_settings,
)


def configured(*overrides):
    return resolve(apply_overrides(load_recipe("mars/kuhn-smol"), ["model.lora=null", *overrides]))


class StandInProcess:
    started: ClassVar = []

    def __init__(self, number, settings, mailbox, *, module="", environment=None):
        self.number, self.settings, self.environment = number, json.loads(settings), environment
        self.started.append(self)

    def kill(self):
        return None

    wait_until_gone = kill


@pytest.fixture
def children(monkeypatch):
    monkeypatch.setattr(StandInProcess, "started", [])
    for module in (data_parallel, processes_fleet):
        monkeypatch.setattr(module, "PythonProcess", StandInProcess)
    monkeypatch.setattr(Ranks, "_answer", lambda *_: None)
    monkeypatch.setattr(Ranks, "_connect", lambda _: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return StandInProcess.started


def policies(device):
    return [SimpleNamespace(name="main", moments=None, model=SimpleNamespace(device=torch.device(device)))]


@pytest.mark.parametrize(
    ("kind", "gpus", "seen"),
    [
        (Ranks, [], ["1", "2", "3"]),
        (Ranks, [4, 2, 7, 1], ["2", "7", "1"]),
        (Shards, [4, 2, 7, 1], ["4", "2", "7", "1"]),
    ],
)
def test_each_learner_sees_its_own_gpu_alone(kind, gpus, seen, children, tmp_path):
    sharding = "none" if kind is Ranks else "fsdp2"
    config = configured(
        "model.device=cuda",
        "learner.ranks=4",
        "learner.leaves=4",
        f"learner.gpus={gpus}",
        f"learner.sharding={sharding}",
    )
    ranks = kind(config, tmp_path / "learners")
    ranks.serve(iter(policies("cuda")))
    ranks._start()
    assert [child.environment["CUDA_VISIBLE_DEVICES"] for child in children] == seen
    for child in children:
        theirs = resolve(child.settings["config"])
        assert theirs.model.device == "cuda" and theirs.learner.gpus == () and theirs.learner.ranks == 4
    if kind is Shards:
        assert {child.environment["NCCL_SOCKET_IFNAME"] for child in children} == {
            child.environment["GLOO_SOCKET_IFNAME"] for child in children
        }
        assert children[0].environment["GLOO_SOCKET_IFNAME"].startswith("lo")


def test_learners_on_the_cpu_are_told_nothing_of_gpus(children, tmp_path):
    config = configured("learner.ranks=2", "learner.leaves=2")
    ranks = Ranks(config, tmp_path / "learners")
    ranks.serve(policies("cpu"))
    ranks._start()
    assert "CUDA_VISIBLE_DEVICES" not in children[0].environment and children[0].settings[
        "config"
    ] == config.model_dump(mode="json")


def test_gpus_that_are_not_there_are_refused_before_anything_starts(children, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    config = configured("model.device=cuda", "learner.ranks=4", "learner.leaves=4")
    with pytest.raises(
        ConfigError,
        match=r"learner.ranks=4 takes GPU 2, and torch sees 2 on this machine, counted from 0, the last is 1",
    ):
        Ranks(config, tmp_path / "learners").serve(policies("cuda"))
    with pytest.raises(ConfigError, match=r"scale.gpus=\[1, 5\] takes GPU 5"):
        fleet_of(configured("model.device=cuda", "scale.fleet=processes", "scale.workers=2", "scale.gpus=[1,5]"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ConfigError, match=r"takes GPU 0, and torch sees 0 on this machine, counted from 0. Write"):
        check_gpus_exist([0], "scale.gpus")
    assert not children


def test_gpus_are_shared_out_among_workers_in_order_and_each_sees_one(children):
    config = configured("model.device=cuda", "scale.fleet=processes", "scale.workers=5", "scale.gpus=[3,1]")
    fleet = fleet_of(config)
    for worker in (0, 1, 2, 3, 4, 1):  # one that is started again has the same
        fleet.start(worker)
    assert [child.environment["CUDA_VISIBLE_DEVICES"] for child in children] == ["3", "1", "3", "1", "3", "1"]
    theirs = resolve({**children[0].settings, "threads": 1})
    assert theirs.model.device == "cuda" and theirs.scale.share_gpus
    ProcessFleet({}, 1).start(0)
    assert children[-1].environment is None, "without GPUs it sees what this process sees"


def test_a_process_that_sees_some_gpus_gives_those_on(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6,7")
    assert visible_gpus([2, 0], "scale.gpus") == {"CUDA_VISIBLE_DEVICES": "7,4"}
    with pytest.raises(ConfigError, match=r"scale.gpus names GPU 3, and CUDA_VISIBLE_DEVICES=4, 6,7 leaves 3"):
        visible_gpus([3], "scale.gpus")


def test_models_of_workers_whose_replies_vllm_draws_are_in_the_machines_memory():
    vllm = "sampler={name: vllm, device: cuda, replicas: 4, gpus: [4, 5]}"
    config = configured(
        "model.device=cuda", vllm, "scale.fleet=ray", "scale.workers=2", "scale.address=auto", "scale.gpus_per_worker=2"
    )
    written = config.model_dump(mode="json")
    theirs = resolve({**worker_settings(written, 2), "threads": 1})
    assert (
        resolve(
            worker_settings(
                configured(
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
    assert theirs.model.device == "cpu" and theirs.sampler.options == {"device": "cuda", "replicas": 2, "gpus": [0, 1]}
    assert worker_settings(written, 0.25)["sampler"]["replicas"] == 1 and worker_settings(written, 0) == written
    assert config.model_dump(mode="json") == written and written["sampler"]["replicas"] == 4, (
        "nothing of the run's own is changed"
    )
    config = configured(
        "sampler={name: vllm, device: cuda, gpus: [0]}", "scale.fleet=processes", "scale.workers=2", "scale.gpus=[1,2]"
    )
    # a worker that sees a GPU would put a model there
    assert (
        config.model.device == "auto" and worker_settings(config.model_dump(mode="json"), 1)["model"]["device"] == "cpu"
    )
    assert worker_settings(config.model_dump(mode="json"), 0)["model"]["device"] == "auto"


def test_every_policy_of_a_learner_is_on_its_gpu():
    config = configured(
        "policies={a: {}, b: {model: {device: cuda}}}",
        "roles={first: a, second: b}",
        "learner.ranks=2",
        "learner.leaves=2",
        "policies.a.model.device=cpu",
    )
    theirs = resolve(learner_settings(config.model_dump(mode="json")))
    assert [policy.model.device for policy in theirs.by_policy.values()] == ["cpu", "cuda"]


def test_a_run_goes_on_with_other_gpus():
    assert all(_may_change(key) for key in (*FREE_IF_PRESENT, "scale.gpus", "scale.gpus_per_worker", "learner.ranks"))
    placed, plain = configured("model.device=cuda", "learner.gpus=[3]"), configured("model.device=cuda")
    assert binding_settings(placed) == binding_settings(plain) and _without_free_keys(placed.model_dump(mode="json"))[
        "learner"
    ]["gpus"] == [3]
    assert "gpus" not in _without_free_keys(plain.model_dump(mode="json"))["learner"]


def test_gpus_that_are_left_out_again_are_one_change_however_often_a_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "describe_edits", lambda *_: "")
    folder = SimpleNamespace(path=tmp_path, config=dict)
    plain, processes = configured("model.device=cuda"), ("scale.fleet=processes", "scale.workers=2")
    placed = configured("model.device=cuda", "learner.gpus=[3]", *processes, "scale.gpus=[1]", "scale.share_gpus=true")
    adopted = [placed, plain, plain, placed, placed, plain, plain]
    noted = []
    for step, config in enumerate(adopted):
        changes.write_configuration(folder, config, SimpleNamespace(step=step) if step else None)
        noted.append(len((tmp_path / "changes.jsonl").read_text().splitlines()))
    assert [noted[1] - noted[0], noted[3] - noted[2], noted[5] - noted[4]] == [5, 5, 5]
    assert (noted[2], noted[4], noted[6]) == (noted[1], noted[3], noted[5])
