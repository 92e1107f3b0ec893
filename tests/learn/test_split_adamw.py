"""AdamW over rows of weights: the bits of AdamW over whole ones, wherever they are cut."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.learn.masters import Rows, lanes, update

OPTIONS = {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-8}
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
    usual = torch.optim.AdamW(whole, **OPTIONS, betas=BETAS, fused=True)
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
                rows.append(Rows((weight, gradient.reshape(-1)[begin : begin + len(weight)], mean, square), begin, gradient.numel(), torch.tensor(float(step))))
            update(rows, **OPTIONS, beta1=BETAS[0], beta2=BETAS[1])
            assert all(float(one.step) == step for one in rows)
    for parameter, own in zip(whole, parts, strict=True):
        weight, mean, square = (torch.cat(found).view_as(parameter) for found in zip(*own, strict=True))
        state = usual.state[parameter]
        assert weight.equal(parameter.detach()) and mean.equal(state["exp_avg"]) and square.equal(state["exp_avg_sq"])


def test_the_kernel_takes_a_power_of_2_at_once():
    assert lanes() in (1, 2, 4, 8, 16, 32)


def test_a_learner_that_has_no_rows_updates_nothing():
    none = torch.zeros(0)
    update([Rows((none, none, none, none), 8, 8, torch.zeros(()))], **OPTIONS, beta1=BETAS[0], beta2=BETAS[1])
