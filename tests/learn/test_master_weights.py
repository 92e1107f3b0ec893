"""Master weights: float32 updates of 16-bit weights, compared with AdamW by hand, and their saved state."""

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
    draw = torch.Generator().manual_seed(1)
    return [
        torch.nn.Parameter(torch.randn(5, 7, generator=draw).to(dtype)),
        torch.nn.Parameter(torch.randn(3, generator=draw)),
    ]


def gradients(step):
    draw = torch.Generator().manual_seed(100 + step)
    return [torch.randn(5, 7, generator=draw).bfloat16(), torch.randn(3, generator=draw)]


def learn(parameters, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        for parameter, gradient in zip(parameters, gradients(step), strict=True):
            parameter.grad = gradient.to(parameter.dtype)
        optimizer.step()


def by_hand(begin, steps):
    """Return AdamW's result for one number in Python's floats."""
    weight, mean, square = begin, 0.0, 0.0
    beta, gamma = OPTIONS["betas"]
    for count, gradient in enumerate(steps, 1):
        weight *= 1 - OPTIONS["lr"] * OPTIONS["weight_decay"]
        mean, square = beta * mean + (1 - beta) * gradient, gamma * square + (1 - gamma) * gradient**2
        weight -= OPTIONS["lr"] * (mean / (1 - beta**count)) / (math.sqrt(square / (1 - gamma**count)) + OPTIONS["eps"])
    return weight


def test_16_bit_weights_are_updated_as_in_float32():
    parameters = weights()
    begin = [weight.detach().clone() for weight in parameters]
    optimizer = MasterAdamW(parameters, **OPTIONS, fused=True)
    learn(parameters, optimizer, range(STEPS))
    masters = [optimizer.state_dict()["state"][index].get("master") for index in (0, 1)]
    assert masters[0].dtype == torch.float32 and masters[1] is None, "what has 32 bits is its own master"
    for index, values in enumerate((masters[0], parameters[1].detach())):
        for position in range(values.numel()):
            steps = [float(gradients(step)[index].flatten()[position]) for step in range(STEPS)]
            assert float(values.flatten()[position]) == pytest.approx(
                by_hand(float(begin[index].flatten()[position]), steps), abs=5e-6
            )
    assert parameters[0].dtype == torch.bfloat16 and parameters[0].equal(masters[0].bfloat16())
    without_masters = weights()
    learn(without_masters, torch.optim.AdamW(without_masters, **OPTIONS, fused=True), range(STEPS))
    share_unchanged = (without_masters[0] == begin[0]).float().mean()
    assert share_unchanged > 0.8 > (parameters[0] == begin[0]).float().mean(), (
        "without masters, updates are rounded away"
    )
    assert without_masters[1].equal(parameters[1]), "and what has 32 bits is as it was"


def test_the_saved_state_is_complete(tmp_path):
    parameters = weights()
    optimizer = MasterAdamW(parameters, **OPTIONS, fused=True)
    for number, steps in enumerate((range(3), range(3, 6))):
        learn(parameters, optimizer, steps)
        if number:
            optimizer.state.clear()
        save_optimizer(optimizer, tmp_path / "file")
        restored_parameters = copy.deepcopy(parameters)
        restored_optimizer = MasterAdamW(restored_parameters, **OPTIONS, fused=True)
        load_optimizer(restored_optimizer, tmp_path / "file")
        for parameter_list, optimizer_ in ((parameters, optimizer), (restored_parameters, restored_optimizer)):
            learn(parameter_list, optimizer_, range(6, 9))
        assert all(a.equal(b) for a, b in zip(parameters, restored_parameters, strict=True))
        first, second = (optimizer_.state_dict()["state"] for optimizer_ in (optimizer, restored_optimizer))
        assert all(first[index][key].equal(second[index][key]) for index in first for key in first[index])
        assert len(first[0]) == 4


def test_a_weight_changed_from_outside_replaces_its_master():
    parameters = weights()
    optimizer = MasterAdamW(parameters, **OPTIONS, fused=True)
    learn(parameters, optimizer, range(3))
    master = optimizer.state_dict()["state"][0]["master"].clone()
    with torch.no_grad():
        parameters[0][2] = 3.0
    optimizer.param_groups[0]["lr"] = 0.0
    learn(parameters, optimizer, range(1))
    after = optimizer.state_dict()["state"][0]["master"]
    is_changed = torch.zeros(5, 7, dtype=torch.bool)
    is_changed[2] = True
    assert after[is_changed].equal(torch.full((7,), 3.0)) and after[~is_changed].equal(master[~is_changed])


def test_zero_grad_clears_gradients_and_parameters_without_one_stay():
    parameters = weights()
    optimizer = MasterAdamW(parameters, **OPTIONS, fused=True)
    begin = parameters[0].detach().clone()
    parameters[0].grad, parameters[1].grad = torch.ones(5, 7).bfloat16(), torch.ones(3)
    optimizer.zero_grad()
    assert parameters[0].grad is None and parameters[1].grad is None
    parameters[1].grad = torch.ones(3)
    optimizer.step()
    assert parameters[0].equal(begin) and 0 not in optimizer.state_dict()["state"]


# AdamW on row blocks gives the bits of AdamW on complete weights for any split
OPTIONS_SPLIT = {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-8}
BETAS = (0.9, 0.95)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@given(
    shapes=st.lists(st.tuples(st.integers(1, 13), st.integers(1, 21)), min_size=1, max_size=3),
    ranks=st.sampled_from([2, 4]),
    seed=st.integers(0, 99),
)
def test_row_blocks_have_the_bits_of_full_weights(shapes, ranks, seed):
    draw = torch.Generator().manual_seed(seed)
    full_weights = [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in shapes]
    full_optimizer = torch.optim.AdamW(full_weights, **OPTIONS_SPLIT, betas=BETAS, fused=True)
    row_blocks = [
        [*tensors.detach().clone().chunk(ranks), *[torch.zeros(0)] * ranks][:ranks] for tensors in full_weights
    ]  # as fully_shard cuts them
    block_weights = [
        [(rows.reshape(-1).clone(), torch.zeros(rows.numel()), torch.zeros(rows.numel())) for rows in tensors]
        for tensors in row_blocks
    ]
    for step in range(3):
        gradients = [torch.randn(shape, generator=draw) for shape in shapes]
        for parameter, gradient in zip(full_weights, gradients, strict=True):
            parameter.grad = gradient.clone()
        full_optimizer.step()
        for rank in range(ranks):
            rows = []
            for shares, gradient in zip(block_weights, gradients, strict=True):
                begin = sum(len(weight) for weight, *_ in shares[:rank])
                weight, mean, square = shares[rank]
                rows.append(
                    OptimizerRows(
                        (weight, gradient.reshape(-1)[begin : begin + len(weight)], mean, square),
                        begin,
                        gradient.numel(),
                        torch.tensor(float(step)),
                    )
                )
            update(rows, **OPTIONS_SPLIT, beta1=BETAS[0], beta2=BETAS[1])
            assert all(float(tensors.step) == step for tensors in rows)
    for parameter, shares in zip(full_weights, block_weights, strict=True):
        weight, mean, square = (torch.cat(blocks).view_as(parameter) for blocks in zip(*shares, strict=True))
        state = full_optimizer.state[parameter]
        assert weight.equal(parameter.detach()) and mean.equal(state["exp_avg"]) and square.equal(state["exp_avg_sq"])
