"""Master weights: updates in float32 of weights with 16 bits, against AdamW by hand, and what is kept of them."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.learn.master_weights import MasterAdamW, OptimizerRows, lanes, update
from sparring.learn.weight_files import load_optimizer, save_optimizer

OPTIONS = {"lr": 1e-4, "betas": (0.9, 0.95), "weight_decay": 0.1, "eps": 1e-8}
STEPS = 40


def weights(dtype=torch.bfloat16):
    draw = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(5, 7, generator=draw).to(dtype)), torch.nn.Parameter(torch.randn(3, generator=draw))]


def gradients(step):
    draw = torch.Generator().manual_seed(100 + step)
    return [torch.randn(5, 7, generator=draw).bfloat16(), torch.randn(3, generator=draw)]


def learn(own, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        for parameter, gradient in zip(own, gradients(step), strict=True):
            parameter.grad = gradient.to(parameter.dtype)
        optimizer.step()


def by_hand(begin, steps):
    """Return what AdamW makes of a number, in Python's floats, from its gradients."""
    weight, mean, square = begin, 0.0, 0.0
    beta, gamma = OPTIONS["betas"]
    for count, gradient in enumerate(steps, 1):
        weight *= 1 - OPTIONS["lr"] * OPTIONS["weight_decay"]
        mean, square = beta * mean + (1 - beta) * gradient, gamma * square + (1 - gamma) * gradient**2
        weight -= OPTIONS["lr"] * (mean / (1 - beta**count)) / (math.sqrt(square / (1 - gamma**count)) + OPTIONS["eps"])
    return weight


def test_weights_of_16_bits_are_updated_as_float32_would_be():
    own = weights()
    begin = [one.detach().clone() for one in own]
    optimizer = MasterAdamW(own, **OPTIONS, fused=True)
    learn(own, optimizer, range(STEPS))
    masters = [optimizer.state_dict()["state"][index].get("master") for index in (0, 1)]
    assert masters[0].dtype == torch.float32 and masters[1] is None, "what has 32 bits is its own master"
    for index, found in enumerate((masters[0], own[1].detach())):
        for place in range(found.numel()):
            steps = [float(gradients(step)[index].flatten()[place]) for step in range(STEPS)]
            assert float(found.flatten()[place]) == pytest.approx(by_hand(float(begin[index].flatten()[place]), steps), abs=5e-6)
    assert own[0].dtype == torch.bfloat16 and own[0].equal(masters[0].bfloat16())
    plain = weights()
    learn(plain, torch.optim.AdamW(plain, **OPTIONS, fused=True), range(STEPS))
    lost = (plain[0] == begin[0]).float().mean()
    assert lost > 0.8 > (own[0] == begin[0]).float().mean(), "without masters, updates are rounded away"
    assert plain[1].equal(own[1]), "and what has 32 bits is as it was"


def test_weights_of_32_bits_are_updated_as_without_masters():
    own, plain = weights(torch.float32), weights(torch.float32)
    optimizers = MasterAdamW(own, **OPTIONS, fused=True), torch.optim.AdamW(plain, **OPTIONS, fused=True)
    for some, optimizer in zip((own, plain), optimizers, strict=True):
        learn(some, optimizer, range(3))
    assert all(one.equal(other) for one, other in zip(own, plain, strict=True))
    assert [list(one) for one in optimizers[0].state.values()] == [list(one) for one in optimizers[1].state.values()]


def test_all_that_is_kept_is_in_the_file(tmp_path):
    """Also after moments were forgotten, with which the bits go that a weight has not."""
    own = weights()
    optimizer = MasterAdamW(own, **OPTIONS, fused=True)
    for number, steps in enumerate((range(3), range(3, 6))):
        learn(own, optimizer, steps)
        if number:
            optimizer.state.clear()
        save_optimizer(optimizer, tmp_path / "file")
        again = copy.deepcopy(own)
        other = MasterAdamW(again, **OPTIONS, fused=True)
        load_optimizer(other, tmp_path / "file")
        for some, one in ((own, optimizer), (again, other)):
            learn(some, one, range(6, 9))
        assert all(a.equal(b) for a, b in zip(own, again, strict=True))
        first, second = (one.state_dict()["state"] for one in (optimizer, other))
        assert all(first[index][key].equal(second[index][key]) for index in first for key in first[index])
        assert len(first[0]) == 4


def test_what_has_changed_a_weight_otherwise_wins():
    own = weights()
    optimizer = MasterAdamW(own, **OPTIONS, fused=True)
    learn(own, optimizer, range(3))
    master = optimizer.state_dict()["state"][0]["master"].clone()
    with torch.no_grad():
        own[0][2] = 3.0
    optimizer.param_groups[0]["lr"] = 0.0
    learn(own, optimizer, range(1))
    found = optimizer.state_dict()["state"][0]["master"]
    changed = torch.zeros(5, 7, dtype=torch.bool)
    changed[2] = True
    assert found[changed].equal(torch.full((7,), 3.0)) and found[~changed].equal(master[~changed])


def test_gradients_are_forgotten_and_one_that_has_none_stays():
    own = weights()
    optimizer = MasterAdamW(own, **OPTIONS, fused=True)
    begin = own[0].detach().clone()
    own[0].grad, own[1].grad = torch.ones(5, 7).bfloat16(), torch.ones(3)
    optimizer.zero_grad()
    assert own[0].grad is None and own[1].grad is None
    own[1].grad = torch.ones(3)
    optimizer.step()
    assert own[0].equal(begin) and 0 not in optimizer.state_dict()["state"]


# -- adamW over rows of weights: the bits of AdamW over whole ones, wherever they are cut --

OPTIONS_SPLIT = {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-8}
BETAS = (0.9, 0.95)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@given(shapes=st.lists(st.tuples(st.integers(1, 13), st.integers(1, 21)), min_size=1, max_size=3), ranks=st.sampled_from([2, 4]), seed=st.integers(0, 99))
def test_parts_have_the_bits_of_the_whole(shapes, ranks, seed):
    draw = torch.Generator().manual_seed(seed)
    whole = [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in shapes]
    usual = torch.optim.AdamW(whole, **OPTIONS_SPLIT, betas=BETAS, fused=True)
    cut = [[*one.detach().clone().chunk(ranks), *[torch.zeros(0)] * ranks][:ranks] for one in whole]  # as fully_shard cuts them
    parts = [[(rows.reshape(-1).clone(), torch.zeros(rows.numel()), torch.zeros(rows.numel())) for rows in one] for one in cut]
    for step in range(3):
        gradients = [torch.randn(shape, generator=draw) for shape in shapes]
        for parameter, gradient in zip(whole, gradients, strict=True):
            parameter.grad = gradient.clone()
        usual.step()
        for rank in range(ranks):
            rows = []
            for own, gradient in zip(parts, gradients, strict=True):
                begin = sum(len(weight) for weight, *_ in own[:rank])
                weight, mean, square = own[rank]
                rows.append(OptimizerRows((weight, gradient.reshape(-1)[begin : begin + len(weight)], mean, square), begin, gradient.numel(), torch.tensor(float(step))))
            update(rows, **OPTIONS_SPLIT, beta1=BETAS[0], beta2=BETAS[1])
            assert all(float(one.step) == step for one in rows)
    for parameter, own in zip(whole, parts, strict=True):
        weight, mean, square = (torch.cat(found).view_as(parameter) for found in zip(*own, strict=True))
        state = usual.state[parameter]
        assert weight.equal(parameter.detach()) and mean.equal(state["exp_avg"]) and square.equal(state["exp_avg_sq"])


def test_the_kernel_takes_a_power_of_2_at_once():
    assert lanes() in (1, 2, 4, 8, 16, 32)


def test_a_learner_that_has_no_rows_updates_nothing():
    none = torch.zeros(0)
    update([OptimizerRows((none, none, none, none), 8, 8, torch.zeros(()))], **OPTIONS_SPLIT, beta1=BETAS[0], beta2=BETAS[1])
