import pytest
import torch

from sparring.losses.value_loss import value_loss


def test_by_hand(make_batch):
    values = torch.tensor([1.0, 2.0], requires_grad=True)
    term = value_loss(make_batch([0.0], values=values, value_targets=torch.tensor([0.0, 4.0])))
    assert term.level == "turn"
    assert term.values.tolist() == [0.5, 2.0]
    term.values.sum().backward()
    assert values.grad.tolist() == [1.0, -2.0]
    assert term.metrics["error"].item() == 1.5


def test_explained_variance(make_batch):
    targets = torch.tensor([0.0, 2.0, 4.0])
    perfect = value_loss(make_batch([0.0], values=targets, value_targets=targets))
    assert perfect.metrics["explained_variance"].item() == pytest.approx(1.0)
    constant = value_loss(make_batch([0.0], values=torch.full((3,), 2.0), value_targets=targets))
    assert constant.metrics["explained_variance"].item() == pytest.approx(0.0)
    equal = value_loss(make_batch([0.0], values=torch.ones(3), value_targets=torch.ones(3)))
    assert torch.isfinite(equal.metrics["explained_variance"])
