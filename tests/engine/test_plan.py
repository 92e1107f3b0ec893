"""What a plan says about memory."""

import pytest

from sparring.config import resolve
from sparring.engine import plan
from sparring.engine.local import LocalEngine
from sparring.models.memory import GIB
from sparring.recipe import apply_overrides, load_recipe


def model_of(*overrides, recipe="kuhn-tiny"):
    return plan.describe(resolve(apply_overrides(load_recipe(recipe), list(overrides))))["model"]


@pytest.mark.parametrize("changes", [[], ["model.hidden_size=32", "model.layers=3", "model.context=77"]])
def test_the_tiny_model_is_counted_without_being_made(changes):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), [*changes, "threads=1"]))
    network = LocalEngine(config).model.network
    parameters, shape = plan.tiny_size(config)
    assert parameters == sum(p.numel() for p in network.parameters())
    assert (shape.layers, shape.hidden, shape.vocabulary) == (network.config.n_layer, network.config.n_embd, network.config.vocab_size)


def test_the_tiny_model_has_a_plan_of_memory_too():
    small, large = model_of(), model_of("learner.micro_tokens=65536")
    assert "No GPU is needed" in small["needs"] and "an estimate" in small["needs"]
    assert set(small["memory_parts_gib"]) == {"weights", "training", "keys_and_values_kept", "activations_and_logits", "program"}
    activations = [found["memory_parts_gib"]["activations_and_logits"] for found in (small, large)]
    assert activations[1] == pytest.approx(2 * activations[0], abs=0.02) and activations[0] > 0


def test_a_process_model_is_counted():
    """Its weights, their gradient and two moments; a reference that the estimator reads is a copy of the weights, as one of a loss is."""
    credit = ("{name: rloo}", "{name: oprl}", "{name: oprl, preset: policy}")
    configs = [resolve(apply_overrides(load_recipe("kuhn-tiny"), [f"credit={text}"])) for text in credit]
    plain, trained, reference = (plan.memory_to_train(config, 1000) for config in configs)
    assert (trained - plain, reference - plain) == (4 * 4000, 4000)
    plans = [plan.describe(config) for config in configs]
    assert [found.get("updates_of_process_model") for found in plans] == [None, 450, None]


def test_master_weights_are_counted_where_weights_have_16_bits():
    """A copy, its gradient and two moments in float32, where there were a gradient and two moments of 16 bits. The tiny model has 32."""
    bits = ("model.name=smollm2-135m", "model.dtype=bfloat16", "model.lora=null")
    each = {}
    for master in ("false", "true"):
        changes = [f"learner.master_weights={master}", "learner.average=0", "league.every=0"]
        small, tiny = (resolve(apply_overrides(load_recipe("kuhn-tiny"), [*changes, *more])) for more in (bits, bits[1:]))
        each[master] = plan.memory_to_train(small, 1000) - plan.planned_copies(small) * 2000, plan.memory_to_train(tiny, 1000)
    assert [each["true"][0], each["false"][0]] == [16000, 6000]
    assert each["true"][1] == each["false"][1] >= 12000


def test_a_large_model_needs_a_gpu_and_the_plan_says_which():
    needs = model_of(recipe="mars/multi-game-paper")["needs"]
    assert "A GPU is needed" in needs and "one of 141 GB" in needs
    assert "one of 24 GB" in plan._gpu(9 * GIB, 8 * GIB)
    assert "several, 200 GiB in all" in plan._gpu(200 * GIB, 60 * GIB)


def test_longer_replies_have_more_logits():
    configs = [resolve(apply_overrides(load_recipe("kuhn-tiny"), [f"rollout.max_new_tokens={number}"])) for number in (2, 64)]
    short, long = (plan.activations(config, plan.tiny_size(config)[1], 4) for config in configs)
    assert short < long
    assert plan.activations(configs[0], None, 4) is None
