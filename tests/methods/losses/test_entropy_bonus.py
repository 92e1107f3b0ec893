import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.methods.features.entropy import entropy
from sparring.methods.losses.entropy_bonus import entropy_bonus


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


LOGITS = st.integers(2, 6).flatmap(
    lambda width: st.lists(st.lists(st.floats(-20, 20), min_size=width, max_size=width), min_size=1, max_size=5)
)


@given(LOGITS, st.floats(-50, 50))
def test_it_lies_between_minus_the_entropy_of_uniform_and_zero_and_no_offset_changes_it(make_batch, rows, offset):
    logits = torch.tensor(rows, dtype=torch.float64)
    values = entropy_bonus(make_batch([0.0] * len(rows), entropy=entropy(logits))).values
    assert (values >= -math.log(logits.shape[1]) - 1e-9).all()
    assert (values <= 1e-12).all()
    assert torch.allclose(values, entropy_bonus(make_batch([0.0] * len(rows), entropy=entropy(logits + offset))).values, atol=1e-9)


@given(LOGITS, st.floats(0.001, 0.05))
def test_a_step_against_its_gradient_never_lowers_the_entropy(rows, size):
    logits = torch.tensor(rows[:1], dtype=torch.float64, requires_grad=True)
    (-entropy(logits)).sum().backward()
    assert entropy(logits - size * logits.grad).item() >= entropy(logits).item() - 1e-9


@given(LOGITS)
def test_the_entropy_is_the_sum_written_out(rows):
    for row, value in zip(rows, entropy(torch.tensor(rows, dtype=torch.float64)).tolist(), strict=True):
        top = max(row)
        weights = [math.exp(x - top) for x in row]
        shares = [w / sum(weights) for w in weights]
        assert value == pytest.approx(-sum(p * math.log(p) for p in shares if p > 0), abs=1e-9)


def test_no_tokens(make_batch):
    assert entropy_bonus(make_batch([], entropy=torch.zeros(0))).values.shape == (0,)
