"""The simulated GPU raises the errors of a GPU and computes the values of the CPU."""

import numpy as np
import pytest
import torch

from tests.device.pretended import CPU, GPU, SECOND, pretended_gpu


@pytest.fixture
def gpu(monkeypatch):
    with pretended_gpu(monkeypatch) as operations:
        yield operations


def test_tensors_and_results_are_on_the_requested_device(gpu):
    with torch.device("cuda"):
        gpu_tensor = torch.zeros(3)
    assert gpu_tensor.device == GPU and (gpu_tensor + 1).device == GPU and torch.ones_like(gpu_tensor).device == GPU
    assert (
        gpu_tensor[1:].device
        == gpu_tensor.new_zeros(2).device
        == torch.arange(3, device=gpu_tensor.device).device
        == GPU
    )
    assert (
        torch.zeros(3).device
        == torch.from_numpy(np.ones(3)).device
        == torch.ones_like(gpu_tensor, device="cpu").device
        == CPU
    )
    assert gpu_tensor.to("cpu").device == gpu_tensor.cpu().device == CPU
    assert (
        torch.ones(3).to(gpu_tensor).device
        == torch.ones(3).to(torch.device("cuda"), torch.float64).device
        == torch.ones(3).to(device="cuda").device
        == GPU
    )
    assert gpu_tensor.to(torch.float64).device == GPU and gpu_tensor.to("cuda") is gpu_tensor
    assert torch.tensor([1.0], device="cuda").device == GPU and torch.tensor([1.0]).device == CPU
    assert gpu_tensor.cpu().untyped_storage().data_ptr() != gpu_tensor.untyped_storage().data_ptr()
    assert gpu_tensor.nonzero().device == GPU


def test_mixed_devices_are_refused(gpu):
    gpu_tensor, cpu_tensor = torch.ones(3, device="cuda"), torch.ones(3)
    for operation in (
        lambda: gpu_tensor + cpu_tensor,
        lambda: torch.cat([gpu_tensor, cpu_tensor]),
        lambda: gpu_tensor.index_select(0, torch.tensor([0])),
        lambda: gpu_tensor.add_(cpu_tensor),
        lambda: torch.where(gpu_tensor > 0, gpu_tensor, cpu_tensor),
    ):
        with pytest.raises(RuntimeError, match="device"):
            operation()
    assert (gpu_tensor + torch.tensor(2.0)).tolist() == [3.0] * 3  # a scalar may be on any device
    assert gpu_tensor[torch.tensor([0, 1])].device == GPU  # indices may also be on the CPU, because torch copies them
    gpu_tensor.copy_(cpu_tensor)
    for read_memory in (lambda: gpu_tensor.numpy(), lambda: np.asarray(gpu_tensor)):
        with pytest.raises(TypeError, match=r"Use Tensor\.cpu"):
            read_memory()
    with pytest.raises(RuntimeError, match="generator"):
        gpu_tensor.normal_(generator=torch.Generator())
    with pytest.raises(RuntimeError, match="grad has data located on a different device"):
        gpu_tensor.grad = cpu_tensor
    with pytest.raises(RuntimeError, match="no device cuda:2"):
        torch.zeros(1, device="cuda:2")


def test_two_gpus_are_not_mixed_and_results_stay_on_their_gpu(gpu):
    tensor_0, tensor_1 = torch.ones(3, device="cuda"), torch.nn.Parameter(torch.ones(3, device="cuda:1"))
    assert (tensor_1 * 2).device == torch.zeros_like(tensor_1).device == tensor_1.to("cuda:1").device == SECOND
    assert tensor_1.to("cuda").device == GPU and tensor_0.to(tensor_1).device == SECOND
    (tensor_1 * tensor_1).sum().backward()
    assert tensor_1.grad.device == SECOND
    with pytest.raises(RuntimeError, match="different devices"):
        tensor_0 + tensor_1


def test_gradients_equal_those_of_the_cpu_on_the_weights_device(gpu):
    weight = torch.nn.Parameter(torch.arange(3.0, device="cuda"))
    recomputed = torch.utils.checkpoint.checkpoint(lambda x: (x * x).exp(), weight, use_reentrant=False)
    loss = (recomputed.to("cpu").cumsum(0)).to("cuda").sum() + weight[torch.tensor([0, 0], device="cuda")].sum()
    loss.backward()
    assert weight.grad.device == GPU and float(loss.detach()) > 0
    cpu_weight = torch.nn.Parameter(torch.arange(3.0))
    ((cpu_weight * cpu_weight).exp().cumsum(0).sum() + cpu_weight[torch.tensor([0, 0])].sum()).backward()
    assert weight.grad.cpu().equal(cpu_weight.grad)
    for fused in (True, False):
        optimizer = torch.optim.AdamW([weight], lr=0.1, fused=fused)
        optimizer.step()
        assert optimizer.state[weight]["exp_avg"].device == weight.device == GPU
    assert gpu.operations
