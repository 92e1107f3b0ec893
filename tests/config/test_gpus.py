"""GPUs of learners, workers and vLLM: what is refused, with what to write."""

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import ConfigError
from tests.cases import every_case

CUDA, TWO = "model.device=cuda", ("learner.ranks=2", "learner.leaves=2")
PROCESSES, RAY = ("scale.fleet=processes", "scale.workers=4"), ("scale.fleet=ray", "scale.workers=4")
CLUSTER = (*RAY, "scale.address=localhost:6379")


def configured(*overrides, recipe="mars/kuhn-smol"):
    return resolve(apply_overrides(load_recipe(recipe), overrides))


REFUSED = {
    "fewer GPUs than learners": ((CUDA, *TWO, "learner.gpus=[0]"), r"gpus=\[0\] and ranks=2: each learner takes one GPU; write 2 numbers, or leave gpus out"),
    "more": ((CUDA, "learner.gpus=[0,1]"), r"gpus=\[0, 1\] and ranks=1"),
    "a learner's twice": ((CUDA, *TWO, "learner.gpus=[1,1]"), r"learner.gpus: GPU 1 is listed twice; name each once"),
    "a worker's twice": ((CUDA, *PROCESSES, "scale.gpus=[2,1,2]"), r"scale.gpus: GPU 2 is listed twice"),
    "below 0": ((CUDA, *TWO, "learner.gpus=[-1,1]"), r"learner.gpus.0: .*greater than or equal to 0"),
    "no list": ((CUDA, "learner.gpus=3"), r"learner.gpus"),
    "learners on the CPU": (("model.device=cpu", "learner.gpus=[1]"), r"learner.gpus=\[1\] and model.device=cpu; write model.device: cuda"),
    "wherever": (("learner.gpus=[1]",), r"learner.gpus=\[1\] and model.device=auto; write model.device: cuda"),
    "one GPU for two": (("model.device=cuda:3", *TWO), r"model.device=cuda:3 is one GPU, and learner.ranks=2.*write model.device: cuda and learner.gpus: \[3, 4\]"),
    "two ways": (("model.device=cuda:3", "learner.gpus=[1]"), r"write model.device: cuda and learner.gpus: \[1\]"),
    "workers on the CPU": (("model.device=cpu", *PROCESSES, "scale.gpus=[1]"), r"scale.gpus gives workers GPUs, and nothing of theirs is on one \(model.device=cpu\); write model.device: cuda.*, or leave scale.gpus out"),
    "actors on the CPU": ((*CLUSTER, "scale.gpus_per_worker=1"), r"scale.gpus_per_worker gives workers GPUs"),
    "no workers": ((CUDA, "scale.gpus=[1]"), r"gpus=\[1\] are for workers, and fleet=here; write fleet: processes"),
    "shares of processes": ((CUDA, *PROCESSES, "scale.gpus_per_worker=1"), r"gpus_per_worker=1 is what an actor of Ray reserves, and fleet=processes; write gpus: \[1, 2\]"),
    "nothing": ((CUDA, *CLUSTER, "scale.gpus_per_worker=0"), r"gpus_per_worker=0 is no number of GPUs; write 1, 2 ..., a share of one such as 0.5, or null"),
    "less": ((CUDA, *CLUSTER, "scale.gpus_per_worker=-1"), r"gpus_per_worker=-1 is no number of GPUs"),
    "one and a half": ((CUDA, *CLUSTER, "scale.gpus_per_worker=1.5"), r"gpus_per_worker=1.5 is no number of GPUs"),
    "too many": ((CUDA, *CLUSTER, "scale.gpus_per_worker=65"), r"scale.gpus_per_worker: .*less than or equal to 64"),
    "no reservation": ((CUDA, *CLUSTER), r"model.device=cuda, and Ray gives its workers no GPU; write scale.gpus_per_worker: 1 \(or a share such as 0.5\), or leave"),
    "a Ray of ours": ((CUDA, *RAY), r"write scale.gpus_per_worker: 1 .* and scale.gpus: \[1, 2\]"),
    "half of it": ((CUDA, *RAY, "scale.gpus_per_worker=1"), r"fleet=ray, gpus=\[\] and gpus_per_worker=1.0: a Ray that is started here is told which GPUs it has"),
    "the other half": ((CUDA, *RAY, "scale.gpus=[1]"), r"gpus=\[1\] and gpus_per_worker=None.*write both"),
    "a cluster's": ((CUDA, *CLUSTER, "scale.gpus=[1]"), r"gpus=\[1\] are of this machine, and address=localhost:6379 is of a cluster.*write gpus_per_worker: 1"),
    "workers beside the learner": ((CUDA, *PROCESSES), r"GPU 0 is given twice, to learners \(learner.gpus\) and to workers \(scale.gpus\); give each their own, such as scale.gpus=\[1\], or write scale.share_gpus: true"),
    "workers on a learner's": ((CUDA, *TWO, *PROCESSES, "scale.gpus=[1,2]"), r"GPU 1 is given twice, to learners .* and to workers .* such as scale.gpus=\[2,3\]"),
    "vLLM beside the learner": ((CUDA, "sampler={name: vllm, device: cuda}"), r"GPU 0 is given twice, to learners \(learner.gpus\) and to replicas of vLLM \(sampler.gpus\).*sampler.gpus=\[1\]"),
    "vLLM on a learner's": (("model.device=cuda:2", "sampler={name: vllm, device: cuda, gpus: [1, 2]}"), r"GPU 2 is given twice"),
    "vLLM on a worker's": ((CUDA, *PROCESSES, "scale.gpus=[1]", "sampler={name: vllm, device: cuda, gpus: [1]}"), r"GPU 1 is given twice, to replicas of vLLM \(sampler.gpus\) and to workers"),
    "vLLM without Ray's": ((*CLUSTER, "sampler={name: vllm, device: cuda}"), r"sampler.device=cuda, and Ray gives its workers no GPU"),
}  # fmt: skip


@every_case("name", REFUSED)
def test_gpus_that_do_not_fit_are_refused_with_what_to_write(name):
    overrides, said = REFUSED[name]
    with pytest.raises(ConfigError, match=said):
        configured(*overrides)


ACCEPTED = {
    "learners": (CUDA, *TWO),
    "by number": (CUDA, *TWO, "learner.gpus=[3,1]"),
    "one by number": ("model.device=cuda:3",),
    "workers": (CUDA, *PROCESSES, "scale.gpus=[1,2]"),
    "shared": (CUDA, *PROCESSES, "scale.share_gpus=true"),
    "vLLM shared": (CUDA, "sampler={name: vllm, device: cuda}", "scale.share_gpus=true"),
    "vLLM": (CUDA, "sampler={name: vllm, device: cuda, replicas: 3, gpus: [1, 2]}"),
    "vLLM alone": ("model.device=cpu", "sampler={name: vllm, device: cuda}"),
    "a share": (CUDA, *CLUSTER, "scale.gpus_per_worker=0.25"),
    "two each": (CUDA, *CLUSTER, "scale.gpus_per_worker=2"),
    "a Ray of ours": (CUDA, *RAY, "scale.gpus_per_worker=0.5", "scale.gpus=[1,2]"),
    "Ray on the CPU": (*RAY,),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_gpus_that_fit_are_taken_and_read_back(name):
    found = configured(*ACCEPTED[name])
    assert resolve(found.model_dump(mode="json")) == found


def test_a_policy_on_a_gpu_is_written_as_given():
    """So that the bytes of configurations of before stay as they were."""
    said = configured().model_dump(mode="json")
    assert "gpus" not in said["learner"] and not {"gpus", "gpus_per_worker", "share_gpus"} & said["scale"].keys()
    policies = ["policies.a={}", "policies.b={model: {device: 'cuda:1'}}", "roles={first: a, second: b}"]
    with pytest.raises(ConfigError, match=r"GPU 1 is given twice"):
        configured(*policies, "sampler={name: vllm, device: cuda, gpus: [1]}", "scale.share_gpus=false")
    with pytest.raises(ConfigError, match=r"policies.a.model.device=auto; write policies.a.model.device: cuda"):
        configured(*policies, "learner.gpus=[1]")
