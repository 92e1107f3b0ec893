"""Master weights: float32 updates of 16-bit weights equal AdamW by hand; saved states are complete."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.learn.master_weights import MasterAdamW, OptimizerRows, update
from sparring.learn.weight_files import load_optimizer, save_optimizer

OPTIONS = {"lr": 1e-4, "betas": (0.9, 0.95), "weight_decay": 0.1, "eps": 1e-8}
STEPS = 40


def weights(dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(1)
    return [
        torch.nn.Parameter(torch.randn(5, 7, generator=generator).to(dtype)),
        torch.nn.Parameter(torch.randn(3, generator=generator)),
    ]


def make_gradients(step):
    generator = torch.Generator().manual_seed(100 + step)
    return [torch.randn(5, 7, generator=generator).bfloat16(), torch.randn(3, generator=generator)]


def learn(parameters, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        for parameter, gradient in zip(parameters, make_gradients(step), strict=True):
            parameter.grad = gradient.to(parameter.dtype)
        optimizer.step()


def adamw_by_hand(weight, gradients):
    """Return the value of one weight after AdamW with these gradients, computed in Python floats."""
    mean, square = 0.0, 0.0
    beta1, beta2 = OPTIONS["betas"]
    for count, gradient in enumerate(gradients, 1):
        weight *= 1 - OPTIONS["lr"] * OPTIONS["weight_decay"]
        mean, square = beta1 * mean + (1 - beta1) * gradient, beta2 * square + (1 - beta2) * gradient**2
        weight -= (
            OPTIONS["lr"] * (mean / (1 - beta1**count)) / (math.sqrt(square / (1 - beta2**count)) + OPTIONS["eps"])
        )
    return weight


def test_16_bit_weights_are_updated_as_in_float32():
    parameters = weights()
    initial_weights = [weight.detach().clone() for weight in parameters]
    optimizer = MasterAdamW(parameters, **OPTIONS, fused=True)
    learn(parameters, optimizer, range(STEPS))
    masters = [optimizer.state_dict()["state"][index].get("master") for index in (0, 1)]
    assert masters[0].dtype == torch.float32 and masters[1] is None, "float32 weights need no master"
    for index, values in enumerate((masters[0], parameters[1].detach())):
        for position in range(values.numel()):
            gradients_of_weight = [float(make_gradients(step)[index].flatten()[position]) for step in range(STEPS)]
            assert float(values.flatten()[position]) == pytest.approx(
                adamw_by_hand(float(initial_weights[index].flatten()[position]), gradients_of_weight), abs=5e-6
            )
    assert parameters[0].dtype == torch.bfloat16 and parameters[0].equal(masters[0].bfloat16())
    parameters_without_masters = weights()
    learn(
        parameters_without_masters, torch.optim.AdamW(parameters_without_masters, **OPTIONS, fused=True), range(STEPS)
    )
    share_unchanged = (parameters_without_masters[0] == initial_weights[0]).float().mean()
    assert share_unchanged > 0.8 > (parameters[0] == initial_weights[0]).float().mean(), (
        "without masters, updates are rounded away"
    )
    assert parameters_without_masters[1].equal(parameters[1]), "float32 weights get the same update without masters"


def test_the_saved_state_is_complete(tmp_path):
    parameters = weights()
    optimizer = MasterAdamW(parameters, **OPTIONS, fused=True)
    for steps, clear_state in ((range(3), False), (range(3, 6), True)):
        learn(parameters, optimizer, steps)
        if clear_state:  # a state that is not yet created is also saved
            optimizer.state.clear()
        save_optimizer(optimizer, tmp_path / "file")
        restored_parameters = copy.deepcopy(parameters)
        restored_optimizer = MasterAdamW(restored_parameters, **OPTIONS, fused=True)
        load_optimizer(restored_optimizer, tmp_path / "file")
        learn(parameters, optimizer, range(6, 9))
        learn(restored_parameters, restored_optimizer, range(6, 9))
        assert all(a.equal(b) for a, b in zip(parameters, restored_parameters, strict=True))
        state, restored_state = (either.state_dict()["state"] for either in (optimizer, restored_optimizer))
        assert all(state[index][key].equal(restored_state[index][key]) for index in state for key in state[index])
        assert len(state[0]) == 4


def test_a_weight_changed_from_outside_replaces_its_master():
    parameters = weights()
    optimizer = MasterAdamW(parameters, **OPTIONS, fused=True)
    learn(parameters, optimizer, range(3))
    master = optimizer.state_dict()["state"][0]["master"].clone()
    with torch.no_grad():
        parameters[0][2] = 3.0
    optimizer.param_groups[0]["lr"] = 0.0
    learn(parameters, optimizer, range(1))
    new_master = optimizer.state_dict()["state"][0]["master"]
    is_changed = torch.zeros(5, 7, dtype=torch.bool)
    is_changed[2] = True
    assert new_master[is_changed].equal(torch.full((7,), 3.0)) and new_master[~is_changed].equal(master[~is_changed])


def test_zero_grad_clears_gradients_and_parameters_without_gradient_do_not_change():
    parameters = weights()
    optimizer = MasterAdamW(parameters, **OPTIONS, fused=True)
    initial_weights = parameters[0].detach().clone()
    parameters[0].grad, parameters[1].grad = torch.ones(5, 7).bfloat16(), torch.ones(3)
    optimizer.zero_grad()
    assert parameters[0].grad is None and parameters[1].grad is None
    parameters[1].grad = torch.ones(3)
    optimizer.step()
    assert parameters[0].equal(initial_weights) and 0 not in optimizer.state_dict()["state"]


# AdamW on row blocks gives the same bits as AdamW on complete weights, for any split
BLOCK_OPTIONS = {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-8}
BETAS = (0.9, 0.95)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@given(
    shapes=st.lists(st.tuples(st.integers(1, 13), st.integers(1, 21)), min_size=1, max_size=3),
    num_ranks=st.sampled_from([2, 4]),
    seed=st.integers(0, 99),
)
def test_updates_of_row_blocks_are_bit_equal_to_those_of_full_weights(shapes, num_ranks, seed):
    generator = torch.Generator().manual_seed(seed)
    full_weights = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    full_optimizer = torch.optim.AdamW(full_weights, **BLOCK_OPTIONS, betas=BETAS, fused=True)
    row_blocks = [
        [*weight.detach().clone().chunk(num_ranks), *[torch.zeros(0)] * num_ranks][:num_ranks]
        for weight in full_weights
    ]  # as fully_shard splits the rows
    block_states = [
        [(rows.reshape(-1).clone(), torch.zeros(rows.numel()), torch.zeros(rows.numel())) for rows in tensor_blocks]
        for tensor_blocks in row_blocks
    ]
    for step in range(3):
        gradients = [torch.randn(shape, generator=generator) for shape in shapes]
        for parameter, gradient in zip(full_weights, gradients, strict=True):
            parameter.grad = gradient.clone()
        full_optimizer.step()
        for rank in range(num_ranks):
            rows = []
            for tensor_blocks, gradient in zip(block_states, gradients, strict=True):
                offset = sum(len(weight) for weight, *_ in tensor_blocks[:rank])
                weight, mean, square = tensor_blocks[rank]
                rows.append(
                    OptimizerRows(
                        (weight, gradient.reshape(-1)[offset : offset + len(weight)], mean, square),
                        offset,
                        gradient.numel(),
                        torch.tensor(float(step)),
                    )
                )
            update(rows, **BLOCK_OPTIONS, beta1=BETAS[0], beta2=BETAS[1])
            assert all(float(block.step) == step for block in rows)
    for parameter, tensor_blocks in zip(full_weights, block_states, strict=True):
        weight, mean, square = (torch.cat(blocks).view_as(parameter) for blocks in zip(*tensor_blocks, strict=True))
        state = full_optimizer.state[parameter]
        assert weight.equal(parameter.detach()) and mean.equal(state["exp_avg"]) and square.equal(state["exp_avg_sq"])
