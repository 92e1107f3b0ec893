"""Gradients summed over leaves: fixed order, equal bits for any number of learners, equal to the gradient of one pass."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.plugins.registry import built_in, load
from sparring.core.errors import ConfigError, DivergedError
from sparring.engine.local import LocalEngine
from sparring.learn import gradient_step
from sparring.learn.gradient_step import GradientTree, split_into_leaves
from sparring.learn.pack import pack
from sparring.play.turn_table import turn_table
from sparring.run import checkpoint
from tests.engine.builders import episodes_of
from tests.run.builders import train_in

BASE = {
    "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 1.0}}],
    "rollout": {"games_per_step": 48},
    "threads": 1,
}


def gradients_of(**changes):
    engine = LocalEngine(resolve({**BASE, **changes}))
    episodes = episodes_of(engine)
    data = pack(episodes)
    advantages = np.linspace(-1, 1, len(data.turn_of))
    return engine.learner.update(data, advantages, None, turns=turn_table(episodes), progress=0.0, stream=engine.root)


class StubBatch:
    def __init__(self, sequences, sequence_numbers):
        self.sequences, self.distinct = sequences, np.array(sequence_numbers)


class RankExchange:
    def __init__(self, rank, ranks, sums):
        self.rank, self.num_ranks, self._sums = rank, ranks, sums

    def sum_over_ranks(self, total):
        self._sums.append(total)
        return total


def tree_sum(gradients, ranks=1):
    count = len(gradients)
    data = StubBatch([(index,) for index in range(count)], range(count))
    sums = []
    for rank in range(ranks):
        parameter = torch.nn.Parameter(torch.zeros_like(gradients[0]))
        tree = GradientTree([parameter], count, RankExchange(rank, ranks, sums))
        for leaf in tree.leaves(data, np.arange(count)):
            parameter.grad = None if gradients[leaf[0]] is None else gradients[leaf[0]].clone()
            tree.add()
        tree.finish()
    while len(sums) > 1:  # each level of the exchange: partners add their sums
        sums = [left + right for left, right in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0][: gradients[0].numel()]


def test_leaves_are_summed_in_pairs_and_not_sequentially():
    total = tree_sum([torch.tensor([value]) for value in (1e8, 1.0, -1e8, 1.0)])
    assert total.item() == 0.0  # (1e8 + 1) + (-1e8 + 1) rounds to 0 in float32; a sequential sum gives 1


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=8, max_size=8))
def test_one_two_four_and_eight_learners_have_the_same_bits(values):
    gradients = [torch.tensor(row) for row in values]
    single_learner_sum = tree_sum(gradients)
    for ranks in (2, 4, 8):
        assert tree_sum(gradients, ranks).equal(single_learner_sum)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20, unique=True),
    st.sampled_from([1, 2, 4, 8]),
    st.data(),
)
def test_equal_sequences_are_in_one_leaf(sequences, count, data):
    sequence_numbers = data.draw(st.lists(st.integers(0, len(sequences) - 1), min_size=1, max_size=40))
    rows = np.sort(np.array(data.draw(st.lists(st.integers(0, len(sequence_numbers) - 1), min_size=1, unique=True))))
    leaf_indices = split_into_leaves(StubBatch(sequences, sequence_numbers), rows, count)
    assert len(leaf_indices) == count
    assert sorted(np.concatenate(leaf_indices).tolist()) == rows.tolist()
    leaf_of_sequence = {}
    for number, leaf in enumerate(leaf_indices):
        for row in leaf.tolist():
            assert leaf_of_sequence.setdefault(sequence_numbers[row], number) == number
    order = [
        sequences[index]
        for number in range(count)
        for index in sorted({sequence_numbers[row] for row in leaf_indices[number].tolist()}, key=sequences.__getitem__)
    ]
    assert order == sorted(order)


def test_leaves_have_similar_numbers_of_distinct_prefixes():
    sequences = [(0, index, *range(index % 5)) for index in range(400)]
    leaf_indices = split_into_leaves(StubBatch(sequences, range(400)), np.arange(400), 8)
    sizes = [sum(len(sequences[row]) - 1 for row in leaf) for leaf in leaf_indices]
    assert max(sizes) - min(sizes) <= 6


def test_a_parameter_used_in_no_leaf_has_no_gradient():
    used_in_all_leaves, used_in_no_leaf, used_in_last_leaf = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    tree = GradientTree([used_in_all_leaves, used_in_no_leaf, used_in_last_leaf], 2)
    data = StubBatch([(0,), (1,)], [0, 1])
    for index, _ in enumerate(tree.leaves(data, np.arange(2))):
        used_in_all_leaves.grad = torch.ones(2)
        used_in_last_leaf.grad = torch.full((2,), 3.0) if index else None
        tree.add()
    tree.finish()
    assert used_in_no_leaf.grad is None
    assert used_in_all_leaves.grad.tolist() == [2.0, 2.0] and used_in_last_leaf.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("terms", [["policy_gradient"], ["ppo_clip", "entropy_bonus"]])
@pytest.mark.parametrize("reduction", ["token_mean", "sequence_mean", "constant"])
def test_the_sum_over_leaves_is_the_gradient_of_one_pass(terms, reduction):
    losses = [{"name": name} for name in terms]
    updates = [
        gradients_of(learner={"leaves": count, "reduction": reduction, "micro_tokens": 64}, losses=losses)
        for count in (1, 4, 16)
    ]
    for name in ("gradient_norm", "loss", "ratio_p99", "logprob_difference_mean"):
        assert [metrics[name] for metrics in updates] == pytest.approx([updates[0][name]] * 3, rel=1e-5, abs=1e-7)


def test_a_minibatch_loss_sees_the_whole_minibatch_in_every_leaf():
    name = next(name for name in built_in("losses") if "whole" in load("losses", name).needs)
    one_leaf, four_leaves = (gradients_of(learner={"leaves": count}, losses=[{"name": name}]) for count in (1, 4))
    assert one_leaf["gradient_norm"] == pytest.approx(four_leaves["gradient_norm"], rel=1e-5)


def test_the_number_of_leaves_must_be_a_power_of_two():
    with pytest.raises(ConfigError, match=r"leaves=6 is not a power of 2; write 4 or 8"):
        resolve({"learner": {"leaves": 6}, "environments": [{"name": "kuhn_poker"}]})


# A run stops before it saves NaN or infinity; the error names the step, the cause and the last checkpoint.
CONFIG = {
    "steps": 6,
    "threads": 1,
    "environments": [{"name": "kuhn_poker"}],
    "rollout": {"games_per_step": 8, "group_size": 4},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "evaluation": {"exact": False},
    "checkpoint": {"every": 1},
    "store": {"every": 0},
}


def train_until_error(path, **keys):
    """Train until the run fails, check that saved weights are finite, and return the error text."""
    config = resolve({**CONFIG, **keys})
    with pytest.raises(DivergedError) as error_info:
        train_in(path, config)
    for file in path.rglob("*.safetensors"):
        assert all(np.isfinite(tensor).all() for tensor in safetensors.numpy.load_file(file).values())
    return str(error_info.value)


def schedule(first_value, second_value):
    return {"schedule": "staircase", "values": [first_value, second_value], "at": [0.5]}


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"learner": {"average": 0.9}, "matchmaker": {"name": "mixed", "past": 0.5}, "league": {"every": 1}},
        {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]},
        {
            "credit": {"name": "oprl", "beta": 0.5},
            "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
        },
    ],
    ids=["plain", "average and league", "critic", "reward model"],
)
def test_an_excessive_learning_rate_stops_the_run(tmp_path, keys):
    learner = {**keys.get("learner", {}), "learning_rate": schedule(0.001, 1e38)}
    message = train_until_error(tmp_path / "run", **{**keys, "learner": learner})
    assert "This happened in step 4 of 6, where learner.learning_rate is 1e+38." in message
    assert f"The checkpoint of step 3 is good: {tmp_path / 'run' / 'checkpoints' / 'step_000003'}." in message
    assert checkpoint.steps(tmp_path / "run") == [2, 3]


def test_a_warm_up_that_diverges_stops_the_run(tmp_path):
    message = train_until_error(tmp_path / "run", warmup={"updates": 3, "games": 4, "learning_rate": 1e38})
    assert "This happened in the warm-up. No checkpoint had been saved." in message


def test_an_overflowing_sum_of_finite_losses_is_reported(tmp_path):
    message = train_until_error(
        tmp_path / "run", losses=[{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": schedule(0.01, 3.3e38)}]
    )
    assert "their weighted sum is not" in message and "The checkpoint of step 3 is good" in message


@pytest.mark.parametrize(
    ("columns", "values", "message"),
    [
        ({}, math.nan, r"losses.1 \('mine'\) returns values that are not finite"),
        ({"logprobs": math.nan}, 1.0, "the model's own log-probabilities"),
        ({"sampler_logprobs": -math.inf}, 1.0, "of the sampler"),
        ({"advantages": math.inf}, 1.0, "advantages are too large"),
    ],
)
def test_the_cause_of_a_loss_that_is_not_finite_is_named(columns, values, message):
    columns_of_batch = {
        name: torch.full((3,), columns.get(name, 1.0)) for name in ("logprobs", "sampler_logprobs", "advantages")
    }
    batch = SimpleNamespace(**columns_of_batch)

    def loss(name, value):
        call = SimpleNamespace(plugin=SimpleNamespace(name=name))
        term = SimpleNamespace(values=torch.full((3,), value))
        return SimpleNamespace(
            bound=type("Bound", (), {"plugin": call.plugin, "__call__": lambda self, *a, **k: term})(),
            weight=lambda p: 1.0,
        )

    losses = [loss("ppo_clip", 1.0), loss("mine", values)]
    with pytest.raises(DivergedError, match=message):
        gradient_step.finite_loss(torch.tensor(math.nan), batch, losses, 0.0)
    assert gradient_step.finite_loss(torch.tensor(2.0), batch, losses, 0.0) == 2.0


def test_a_gradient_that_is_not_finite_changes_nothing(saved):
    engine = LocalEngine(resolve(CONFIG))
    model, optimizer = engine.model, engine.learner.optimizer
    saved_before = saved(engine)
    for value in (math.nan, math.inf):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, value)
        with pytest.raises(DivergedError, match="no weight was changed"):
            gradient_step.descend(model, optimizer, 1.0)
        assert saved(engine) == saved_before


@pytest.mark.parametrize("bad_value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_not_saved(bad_value, saved):
    engine = LocalEngine(resolve({**CONFIG, "learner": {"average": 0.9}}))
    saved(engine)
    with torch.no_grad():
        engine.learner.average.model.parameters()[0].view(-1)[-1] = bad_value
    with pytest.raises(DivergedError, match="is not saved"):
        saved(engine)


def test_finite_weights_with_non_finite_outputs_are_not_saved(saved):
    engine = LocalEngine(resolve(CONFIG))
    with torch.no_grad():
        for parameter in engine.model.parameters():
            parameter.mul_(1e30)
    with pytest.raises(DivergedError, match="gives no probabilities"):
        saved(engine)
