"""The memory estimate of a plan for each kind of process, by hand and against known parts."""

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe, recipe_names
from sparring.engine import plan
from sparring.engine.local import LocalEngine
from sparring.models.memory import GIB


def resolve_recipe(recipe, *overrides):
    return resolve(apply_overrides(load_recipe(recipe), list(overrides)))


def memory_of(*overrides, recipe="kuhn-tiny"):
    return plan.process_memory(resolve_recipe(recipe, *overrides))


@pytest.mark.parametrize("changes", [[], ["model.hidden_size=32", "model.layers=3", "model.context=77"]])
def test_the_size_of_the_tiny_model_is_known_without_making_it(changes):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), [*changes, "threads=1"]))
    network = LocalEngine(config).model.network
    parameters, shape = plan.tiny_size(config)
    assert parameters == sum(parameter.numel() for parameter in network.parameters())
    assert (shape.layers, shape.hidden, shape.vocabulary) == (
        network.config.n_layer,
        network.config.n_embd,
        network.config.vocab_size,
    )


def test_the_plan_estimates_the_memory_of_the_tiny_model():
    memory_note = plan.describe(resolve_recipe("kuhn-tiny"))["needs"]
    assert "No GPU is needed" in memory_note and "an estimate" in memory_note
    small_parts, large_parts = (
        memory_of(*overrides)["training process"].parts for overrides in ((), ("learner.micro_tokens=65536",))
    )
    assert set(small_parts) == {"weights", "training", "keys_and_values_kept", "activations_and_logits", "program"}
    activations = [parts["activations_and_logits"] for parts in (small_parts, large_parts)]
    assert activations[1] == pytest.approx(2 * activations[0], rel=0.01) and activations[0] > 0


def test_the_memory_of_a_plan_is_the_sum_over_processes():
    scale = ("scale.fleet=processes", "scale.workers=3", "learner.ranks=2", "learner.leaves=2")
    memory, description = memory_of(*scale), plan.describe(resolve_recipe("kuhn-tiny", *scale))
    training, learner, worker = (sum(memory[name].parts.values()) for name in ("training process", "learner", "worker"))
    assert description["memory_gib"] == round((training + learner + 3 * worker) / GIB, 1)
    assert description["memory_gib_by_process"] == {
        "training process": round(training / GIB, 2), "learner": round(learner / GIB, 2), "worker, each of 3": round(worker / GIB, 2)
    }  # fmt: skip
    assert description["needs"].startswith(f"about {description['memory_gib']:.1f} GiB")


def test_other_learners_have_no_cache_and_workers_no_training_memory():
    memory = memory_of("scale.fleet=processes", "scale.workers=3", "learner.ranks=4", "learner.leaves=4")
    training = memory["training process"].parts
    assert memory["learner"] == (3, {name: size for name, size in training.items() if name != "keys_and_values_kept"})
    assert memory["worker"] == (3, {name: training[name] for name in ("weights", "keys_and_values_kept", "program")})


LAYERS = ("scale/8-gpus", "scale/ray-gpus")
PAPERS = [name for name in recipe_names() if name.endswith("-paper")]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("recipe", PAPERS)
def test_every_paper_recipe_fits_gpus_of_80_gb_with_both_layers(recipe, layer):
    config = resolve_recipe(recipe, f"with={layer}")
    memory = plan.process_memory(config)
    assert memory["learner"].processes == 4
    assert memory["training process"].bytes_each + memory["learner"].bytes_each < 0.9 * 80 * GIB
    assert "one of 80 GB" in plan.describe(config)["needs"]
    sampling_process = memory["replica of vLLM" if layer == "scale/8-gpus" else "worker"]
    assert (
        sampling_process.processes == (4 if layer == "scale/8-gpus" else 8)
        and 40 * GIB < sampling_process.bytes_each < 60 * GIB
    )
    paper_config = resolve_recipe(recipe)
    unchanged_sections = {
        "environments",
        "rollout",
        "credit",
        "losses",
        "rewards",
        "steps",
        "renderer",
        "name",
        "summary",
        "seed",
    }
    assert all(getattr(config, key) == getattr(paper_config, key) for key in unchanged_sections), (
        "a layer changes only where processes run"
    )


def test_with_sharding_a_learner_has_its_share_of_the_weights():
    """Qwen3-4B in bfloat16 with master weights has per weight 2 bytes, 2 of the reference, 4 of gradients and 12 of moments."""
    parameters = 4022468096
    memory = memory_of("with=scale/8-gpus", recipe="mars/kuhn-paper")
    training = memory["training process"].parts
    assert (training["weights"], training["training"]) == (
        2 * parameters,
        2 * parameters,
    )  # 2 bytes per weight of the policy, 2 per weight of the reference
    assert training["activations_and_logits"] == 0
    assert memory["learner"].parts["split"] == parameters * (2 + 2 + 4 + 12) // 4
    memory_of_two = memory_of("with=scale/8-gpus", "learner.ranks=2", "learner.gpus=[0,1]", recipe="mars/kuhn-paper")
    assert memory_of_two["learner"].parts["split"] == 2 * memory["learner"].parts["split"]


def test_replicas_of_vllm_have_the_cache_and_on_a_cpu_the_weights_twice():
    memory = memory_of("sampler={name: vllm, replicas: 2}", recipe="mars/kuhn-smol")
    training, replica = memory["training process"].parts, memory["replica of vLLM"]
    assert training["keys_and_values_kept"] == 0
    assert replica == (
        2,
        {"weights": 2 * training["weights"], "keys_and_values_kept": GIB, "program": round(0.9 * GIB)},
    )
    on_gpu = memory_of("sampler={name: vllm, device: cuda}", recipe="mars/kuhn-smol")["replica of vLLM"]
    assert on_gpu.processes == 1 and on_gpu.parts["weights"] == training["weights"]
    workers = ("scale.fleet=processes", "scale.workers=3")
    worker = memory_of("sampler={name: vllm, replicas: 2}", *workers, recipe="mars/kuhn-smol")["worker"]
    assert worker.parts["replica of vLLM"] == 2 * replica.bytes_each, "each worker has its own replicas"
    worker_on_gpu = memory_of(
        "model.device=cuda",
        "sampler={name: vllm, device: cuda, replicas: 2, gpus: [4]}",
        *workers,
        "scale.gpus=[1,2,3]",
        recipe="mars/kuhn-smol",
    )["worker"]
    assert worker_on_gpu.parts["replica of vLLM"] == on_gpu.bytes_each, "a worker with one GPU has one replica"


def test_workers_of_a_cluster_use_no_memory_of_this_machine():
    ray = ("scale.fleet=ray", "scale.workers=500")
    local_plan, cluster_plan = (
        plan.describe(resolve_recipe("kuhn-tiny", *ray, *overrides))
        for overrides in ((), ("scale.address=127.0.0.1:6379",))
    )
    assert local_plan["memory_gib"] == cluster_plan["memory_gib"] > 100
    assert local_plan["needs"].startswith(f"about {local_plan['memory_gib']:.1f} GiB") and cluster_plan[
        "needs"
    ].startswith(f"about {cluster_plan['memory_gib_by_process']['training process']:.1f} GiB")


def test_a_process_model_is_counted():
    """A process model adds weights, gradient and two moments; a reference model adds one copy of the weights."""
    estimators = ("{name: rloo}", "{name: oprl}", "{name: oprl, preset: policy}")
    configs = [resolve(apply_overrides(load_recipe("kuhn-tiny"), [f"credit={text}"])) for text in estimators]
    bytes_without, bytes_trained, bytes_with_reference = (plan.memory_to_train(config, 1000) for config in configs)
    assert (bytes_trained - bytes_without, bytes_with_reference - bytes_without) == (4 * 4000, 4000)
    plans = [plan.describe(config) for config in configs]
    assert [description.get("updates_of_process_model") for description in plans] == [None, 450, None]


def test_master_weights_are_counted_for_weights_of_16_bits():
    """Master weights are a copy, gradient and two moments in float32 instead of a gradient and two moments of 16 bits."""
    smollm2 = ("model.name=smollm2-135m", "model.dtype=bfloat16", "model.lora=null")
    bytes_by_option = {}
    for has_master_weights in ("false", "true"):
        changes = [f"learner.master_weights={has_master_weights}", "learner.average=0", "league.every=0"]
        smollm2_config, tiny_config = (
            resolve(apply_overrides(load_recipe("kuhn-tiny"), [*changes, *overrides]))
            for overrides in (smollm2, smollm2[1:])
        )
        bytes_by_option[has_master_weights] = (
            plan.memory_to_train(smollm2_config, 1000) - plan.planned_copies(smollm2_config) * 2000,
            plan.memory_to_train(tiny_config, 1000),
        )
    assert [bytes_by_option["true"][0], bytes_by_option["false"][0]] == [16000, 6000]
    assert bytes_by_option["true"][1] == bytes_by_option["false"][1] >= 12000


def test_the_plan_of_a_large_model_names_a_gpu():
    memory_note = plan.describe(resolve_recipe("mars/multi-game-paper"))["needs"]
    assert "A GPU is needed" in memory_note and "one of 141 GB" in memory_note
    assert "one of 24 GB" in plan._gpu_advice(9 * GIB, 8 * GIB)
    assert "several, 200 GiB in all" in plan._gpu_advice(200 * GIB, 60 * GIB)


def test_longer_replies_need_more_memory_for_logits():
    configs = [
        resolve(apply_overrides(load_recipe("kuhn-tiny"), [f"rollout.max_new_tokens={max_new_tokens}"]))
        for max_new_tokens in (2, 64)
    ]
    short_reply_bytes, long_reply_bytes = (plan.activations(config, plan.tiny_size(config)[1], 4) for config in configs)
    assert short_reply_bytes < long_reply_bytes
    assert plan.activations(configs[0], None, 4) is None
