"""What a plan says about memory: of each kind of process, by hand and where parts are known."""

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe, recipe_names
from sparring.engine import plan
from sparring.engine.local import LocalEngine
from sparring.models.memory import GIB


def configured(recipe, *overrides):
    return resolve(apply_overrides(load_recipe(recipe), list(overrides)))


def memory_of(*overrides, recipe="kuhn-tiny"):
    return plan.process_memory(configured(recipe, *overrides))


@pytest.mark.parametrize("changes", [[], ["model.hidden_size=32", "model.layers=3", "model.context=77"]])
def test_the_tiny_model_is_counted_without_being_made(changes):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), [*changes, "threads=1"]))
    network = LocalEngine(config).model.network
    parameters, shape = plan.tiny_size(config)
    assert parameters == sum(p.numel() for p in network.parameters())
    assert (shape.layers, shape.hidden, shape.vocabulary) == (
        network.config.n_layer,
        network.config.n_embd,
        network.config.vocab_size,
    )


def test_the_tiny_model_has_a_plan_of_memory_too():
    needs = plan.describe(configured("kuhn-tiny"))["needs"]
    assert "No GPU is needed" in needs and "an estimate" in needs
    small, large = (memory_of(*more)["training process"].parts for more in ((), ("learner.micro_tokens=65536",)))
    assert set(small) == {"weights", "training", "keys_and_values_kept", "activations_and_logits", "program"}
    activations = [parts["activations_and_logits"] for parts in (small, large)]
    assert activations[1] == pytest.approx(2 * activations[0], rel=0.01) and activations[0] > 0


def test_the_figure_of_a_plan_is_that_of_all_processes():
    scale = ("scale.fleet=processes", "scale.workers=3", "learner.ranks=2", "learner.leaves=2")
    memory, description = memory_of(*scale), plan.describe(configured("kuhn-tiny", *scale))
    training, learner, worker = (sum(memory[name].parts.values()) for name in ("training process", "learner", "worker"))
    assert description["memory_gib"] == round((training + learner + 3 * worker) / GIB, 1)
    assert description["memory_gib_by_process"] == {
        "training process": round(training / GIB, 2), "learner": round(learner / GIB, 2), "worker, each of 3": round(worker / GIB, 2)
    }  # fmt: skip
    assert description["needs"].startswith(f"about {description['memory_gib']:.1f} GiB")


def test_a_further_learner_keeps_no_keys_and_values_and_a_worker_learns_nothing():
    memory = memory_of("scale.fleet=processes", "scale.workers=3", "learner.ranks=4", "learner.leaves=4")
    training = memory["training process"].parts
    assert memory["learner"] == (3, {name: size for name, size in training.items() if name != "keys_and_values_kept"})
    assert memory["worker"] == (3, {name: training[name] for name in ("weights", "keys_and_values_kept", "program")})


LAYERS = ("scale/8-gpus", "scale/ray-gpus")
PAPERS = [name for name in recipe_names() if name.endswith("-paper")]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("recipe", PAPERS)
def test_every_paper_recipe_fits_gpus_of_80_gb_with_both_layers(recipe, layer):
    config = configured(recipe, f"with={layer}")
    memory = plan.process_memory(config)
    assert memory["learner"].processes == 4
    assert memory["training process"].bytes_each + memory["learner"].bytes_each < 0.9 * 80 * GIB
    assert "one of 80 GB" in plan.describe(config)["needs"]
    drawing = memory["replica of vLLM" if layer == "scale/8-gpus" else "worker"]
    assert drawing.processes == (4 if layer == "scale/8-gpus" else 8) and 40 * GIB < drawing.bytes_each < 60 * GIB
    published = configured(recipe)
    same = {"environments", "rollout", "credit", "losses", "rewards", "steps", "renderer", "name", "summary", "seed"}
    assert all(getattr(config, key) == getattr(published, key) for key in same), "a layer changes machines alone"


def test_a_learner_holds_its_share_and_the_training_process_the_whole():
    """Qwen3-4B in bfloat16 with master weights: 2 bytes of weights and 2 of the reference, 4 of gradients and 12 of moments."""
    parameters = 4022468096
    memory = memory_of("with=scale/8-gpus", recipe="mars/kuhn-paper")
    training = memory["training process"].parts
    assert (training["weights"], training["training"]) == (2 * parameters, 2 * parameters)  # and the reference
    assert training["activations_and_logits"] == 0
    assert memory["learner"].parts["split"] == parameters * (2 + 2 + 4 + 12) // 4
    two = memory_of("with=scale/8-gpus", "learner.ranks=2", "learner.gpus=[0,1]", recipe="mars/kuhn-paper")
    assert two["learner"].parts["split"] == 2 * memory["learner"].parts["split"]


def test_replicas_of_vllm_hold_the_keys_and_values_and_on_a_cpu_the_weights_twice():
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
    assert worker.parts["replica of vLLM"] == 2 * replica.bytes_each, "each worker has its own"
    placed = memory_of(
        "model.device=cuda",
        "sampler={name: vllm, device: cuda, replicas: 2, gpus: [4]}",
        *workers,
        "scale.gpus=[1,2,3]",
        recipe="mars/kuhn-smol",
    )["worker"]
    assert placed.parts["replica of vLLM"] == on_gpu.bytes_each, "one for its GPU"


def test_workers_of_a_cluster_take_nothing_of_this_machine():
    ray = ("scale.fleet=ray", "scale.workers=500")
    here, there = (
        plan.describe(configured("kuhn-tiny", *ray, *more)) for more in ((), ("scale.address=127.0.0.1:6379",))
    )
    assert here["memory_gib"] == there["memory_gib"] > 100
    assert here["needs"].startswith(f"about {here['memory_gib']:.1f} GiB") and there["needs"].startswith(
        f"about {there['memory_gib_by_process']['training process']:.1f} GiB"
    )


def test_a_process_model_is_counted():
    """Its weights, their gradient and two moments; a reference that the estimator reads is a copy of the weights, as one of a loss is."""
    credit = ("{name: rloo}", "{name: oprl}", "{name: oprl, preset: policy}")
    configs = [resolve(apply_overrides(load_recipe("kuhn-tiny"), [f"credit={text}"])) for text in credit]
    plain, trained, reference = (plan.memory_to_train(config, 1000) for config in configs)
    assert (trained - plain, reference - plain) == (4 * 4000, 4000)
    plans = [plan.describe(config) for config in configs]
    assert [description.get("updates_of_process_model") for description in plans] == [None, 450, None]


def test_master_weights_are_counted_where_weights_have_16_bits():
    """A copy, its gradient and two moments in float32, where there were a gradient and two moments of 16 bits. The tiny model has 32."""
    bits = ("model.name=smollm2-135m", "model.dtype=bfloat16", "model.lora=null")
    each = {}
    for master in ("false", "true"):
        changes = [f"learner.master_weights={master}", "learner.average=0", "league.every=0"]
        small, tiny = (
            resolve(apply_overrides(load_recipe("kuhn-tiny"), [*changes, *more])) for more in (bits, bits[1:])
        )
        each[master] = (
            plan.memory_to_train(small, 1000) - plan.planned_copies(small) * 2000,
            plan.memory_to_train(tiny, 1000),
        )
    assert [each["true"][0], each["false"][0]] == [16000, 6000]
    assert each["true"][1] == each["false"][1] >= 12000


def test_a_large_model_needs_a_gpu_and_the_plan_says_which():
    needs = plan.describe(configured("mars/multi-game-paper"))["needs"]
    assert "A GPU is needed" in needs and "one of 141 GB" in needs
    assert "one of 24 GB" in plan._gpu(9 * GIB, 8 * GIB)
    assert "several, 200 GiB in all" in plan._gpu(200 * GIB, 60 * GIB)


def test_longer_replies_have_more_logits():
    configs = [
        resolve(apply_overrides(load_recipe("kuhn-tiny"), [f"rollout.max_new_tokens={number}"])) for number in (2, 64)
    ]
    short, long = (plan.activations(config, plan.tiny_size(config)[1], 4) for config in configs)
    assert short < long
    assert plan.activations(configs[0], None, 4) is None
