"""The pretended GPU refuses what a GPU refuses, and has the values of the CPU."""

import numpy as np
import pytest
import torch

from tests.device.pretended import CPU, GPU, SECOND, pretended_gpu


@pytest.fixture
def gpu(monkeypatch):
    with pretended_gpu(monkeypatch) as checked:
        yield checked


def test_tensors_are_where_they_are_asked_for_and_what_comes_of_them_too(gpu):
    with torch.device("cuda"):
        there = torch.zeros(3)
    assert there.device == GPU and (there + 1).device == GPU and torch.ones_like(there).device == GPU
    assert there[1:].device == there.new_zeros(2).device == torch.arange(3, device=there.device).device == GPU
    assert (
        torch.zeros(3).device
        == torch.from_numpy(np.ones(3)).device
        == torch.ones_like(there, device="cpu").device
        == CPU
    )
    assert there.to("cpu").device == there.cpu().device == CPU
    assert (
        torch.ones(3).to(there).device
        == torch.ones(3).to(torch.device("cuda"), torch.float64).device
        == torch.ones(3).to(device="cuda").device
        == GPU
    )
    assert there.to(torch.float64).device == GPU and there.to("cuda") is there
    assert torch.tensor([1.0], device="cuda").device == GPU and torch.tensor([1.0]).device == CPU
    assert there.cpu().untyped_storage().data_ptr() != there.untyped_storage().data_ptr()
    assert there.nonzero().device == GPU


def test_devices_that_do_not_go_together_are_refused(gpu):
    there, here = torch.ones(3, device="cuda"), torch.ones(3)
    for mixed in (
        lambda: there + here,
        lambda: torch.cat([there, here]),
        lambda: there.index_select(0, torch.tensor([0])),
        lambda: there.add_(here),
        lambda: torch.where(there > 0, there, here),
    ):
        with pytest.raises(RuntimeError, match="device"):
            mixed()
    assert (there + torch.tensor(2.0)).tolist() == [3.0] * 3  # a number may be anywhere
    assert there[torch.tensor([0, 1])].device == GPU  # so may places, which torch brings over
    there.copy_(here)
    for read in (lambda: there.numpy(), lambda: np.asarray(there)):
        with pytest.raises(TypeError, match=r"Use Tensor\.cpu"):
            read()
    with pytest.raises(RuntimeError, match="generator"):
        there.normal_(generator=torch.Generator())
    with pytest.raises(RuntimeError, match="grad has data located on a different device"):
        there.grad = here
    with pytest.raises(RuntimeError, match="no device cuda:2"):
        torch.zeros(1, device="cuda:2")


def test_two_gpus_do_not_go_together_and_what_comes_of_each_is_there(gpu):
    first, second = torch.ones(3, device="cuda"), torch.nn.Parameter(torch.ones(3, device="cuda:1"))
    assert (second * 2).device == torch.zeros_like(second).device == second.to("cuda:1").device == SECOND
    assert second.to("cuda").device == GPU and first.to(second).device == SECOND
    (second * second).sum().backward()
    assert second.grad.device == SECOND
    with pytest.raises(RuntimeError, match="different devices"):
        first + second


def test_gradients_are_those_of_the_cpu_and_are_where_the_weights_are(gpu):
    weight = torch.nn.Parameter(torch.arange(3.0, device="cuda"))
    again = torch.utils.checkpoint.checkpoint(lambda x: (x * x).exp(), weight, use_reentrant=False)
    loss = (again.to("cpu").cumsum(0)).to("cuda").sum() + weight[torch.tensor([0, 0], device="cuda")].sum()
    loss.backward()
    assert weight.grad.device == GPU and float(loss.detach()) > 0
    alone = torch.nn.Parameter(torch.arange(3.0))
    ((alone * alone).exp().cumsum(0).sum() + alone[torch.tensor([0, 0])].sum()).backward()
    assert weight.grad.cpu().equal(alone.grad)
    for fused in (True, False):
        optimizer = torch.optim.AdamW([weight], lr=0.1, fused=fused)
        optimizer.step()
        assert optimizer.state[weight]["exp_avg"].device == weight.device == GPU
    assert gpu.operations
