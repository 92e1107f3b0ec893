import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.methods.features.centred_logit import centred_logit
from sparring.methods.features.entropy import entropy


def test_centred_logit_by_hand():
    logits = torch.tensor([[1.0, 2.0, 6.0], [4.0, 4.0, 4.0]])
    assert centred_logit(logits).tolist() == [[-2.0, -1.0, 3.0], [0.0, 0.0, 0.0]]


def test_impossible_tokens_do_not_count_and_gradients_stay_finite():
    logits = torch.tensor([[1.0, 3.0, -torch.inf], [5.0, -torch.inf, -torch.inf]], requires_grad=True)
    centred_logits = centred_logit(logits)
    assert centred_logits.tolist() == [[-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    centred_logits[0, 1].backward()
    assert logits.grad.tolist() == [[-0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=6), st.floats(-100, 100))
def test_features_ignore_a_shift_of_all_logits(values, shift):
    logits = torch.tensor([values], dtype=torch.float64)
    assert torch.allclose(centred_logit(logits), centred_logit(logits + shift))
    assert abs(centred_logit(logits).sum().item()) < 1e-9


def test_entropy_by_hand():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]]))
    assert torch.allclose(entropy(logits), torch.tensor([1.5 * math.log(2), math.log(3)]))


def test_impossible_tokens_count_as_probability_zero():
    logits = torch.tensor([[0.0, 0.0, -torch.inf], [3.0, -torch.inf, -torch.inf]], requires_grad=True)
    assert torch.allclose(entropy(logits), torch.tensor([math.log(2), 0.0]))
    entropy(logits).sum().backward()
    assert torch.isfinite(logits.grad[0, :2]).all()


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=6), st.floats(-1e3, 1e3))
def test_entropy_ignores_shifts_and_is_largest_for_uniform_logits(values, shift):
    logits = torch.tensor([values], dtype=torch.float64)
    entropies = entropy(logits)
    assert torch.allclose(entropy(logits + shift), entropies, atol=1e-9)
    assert -1e-12 <= entropies.item() <= math.log(len(values)) + 1e-12
