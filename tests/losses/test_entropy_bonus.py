import math

import pytest
import torch

from sparring.features.entropy import entropy
from sparring.losses.entropy_bonus import entropy_bonus


def test_it_is_minus_the_entropy(make_batch):
    term = entropy_bonus(make_batch([0.0, 0.0], entropy=torch.tensor([1.0, 3.0])))
    assert term.values.tolist() == [-1.0, -3.0]
    assert term.metrics["entropy"].item() == 2.0
    assert not term.weighted


def test_entropy_of_uniform_and_of_certainty():
    values = entropy(torch.tensor([[0.0, 0.0, 0.0, 0.0], [100.0, 0.0, 0.0, 0.0]]))
    assert values.tolist() == pytest.approx([math.log(4), 0.0], abs=1e-6)


def test_truncated_entries_count_as_zero_and_keep_gradients_finite():
    logits = torch.tensor([[0.0, 0.0, -torch.inf]], requires_grad=True)
    value = entropy(logits)
    assert value.item() == pytest.approx(math.log(2))
    value.sum().backward()
    assert torch.isfinite(logits.grad[0, :2]).all()


def test_its_gradient_pulls_towards_uniform():
    logits = torch.tensor([[1.0, 0.0]], requires_grad=True)
    (-entropy(logits)).sum().backward()
    assert logits.grad[0, 0] > 0 > logits.grad[0, 1]
