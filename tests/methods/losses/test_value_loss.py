import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.methods.losses.value_loss import value_loss


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


ROWS = st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=6)


def term_of(make_batch, rows, shift=0.0):
    """Return the loss for pairs of value and target, both moved by ``shift``."""
    values, targets = (torch.tensor([row[place] + shift for row in rows], dtype=torch.float64) for place in (0, 1))
    return value_loss(make_batch([0.0], values=values.requires_grad_(True), value_targets=targets)), values


@given(ROWS)
def test_it_is_half_the_square_and_its_gradient_the_difference(make_batch, rows):
    term, values = term_of(make_batch, rows)
    assert term.values.tolist() == pytest.approx([(value - target) ** 2 / 2 for value, target in rows])
    assert (term.values >= 0).all()
    term.values.sum().backward()
    assert values.grad.tolist() == pytest.approx([value - target for value, target in rows])


@given(ROWS, st.floats(-100, 100))
def test_only_the_difference_counts(make_batch, rows, shift):
    assert term_of(make_batch, rows, shift)[0].values.tolist() == pytest.approx(term_of(make_batch, rows)[0].values.tolist(), abs=1e-6)


@given(ROWS)
def test_a_full_step_against_the_gradient_reaches_the_target(make_batch, rows):
    term, values = term_of(make_batch, rows)
    (gradient,) = torch.autograd.grad(term.values.sum(), values)
    assert (values - gradient).tolist() == pytest.approx([row[1] for row in rows], abs=1e-9)


@given(ROWS)
def test_the_explained_variance_never_exceeds_one_and_no_gradient_reaches_the_figures(make_batch, rows):
    term, _ = term_of(make_batch, rows)
    assert term.metrics["explained_variance"].item() <= 1.0 + 1e-9
    assert not any(figure.requires_grad for figure in term.metrics.values())
