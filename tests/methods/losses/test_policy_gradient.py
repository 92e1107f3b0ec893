import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.ppo_clip import ppo_clip


def test_value_and_gradient_by_hand(make_batch):
    batch = make_batch([-1.0, -2.0], advantages=[3.0, -1.0])
    term = policy_gradient(batch)
    assert term.values.tolist() == [3.0, -2.0]
    term.values.sum().backward()
    assert batch.logprobs.grad.tolist() == [-3.0, 1.0]
    assert term.weighted and term.level == "token"


def test_empty(make_batch):
    assert policy_gradient(make_batch([])).values.sum().item() == pytest.approx(0)


ROWS = st.lists(st.tuples(st.floats(-20, 0), st.floats(-1e6, 1e6, allow_subnormal=False)), min_size=1, max_size=6)


@given(ROWS)
def test_its_gradient_is_minus_the_advantage_wherever_the_policy_stands(make_batch, rows):
    batch = make_batch([row[0] for row in rows], advantages=[row[1] for row in rows])
    (gradient,) = torch.autograd.grad(policy_gradient(batch).values.sum(), batch.logprobs)
    assert gradient.tolist() == [-row[1] for row in rows]


@given(ROWS)
def test_at_ratio_one_it_is_the_gradient_of_ppo(make_batch, rows):
    batch = make_batch([row[0] for row in rows], advantages=[row[1] for row in rows])
    plain, held = (torch.autograd.grad(loss(batch).values.sum(), batch.logprobs)[0] for loss in (policy_gradient, ppo_clip))
    assert torch.equal(plain, held)


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=5), st.floats(-5, 5))
def test_a_constant_advantage_pushes_nowhere_on_average(make_batch, logits, constant):
    """Summed over all actions by their probability the gradient in the logits is 0: why baselines do not bias."""
    free = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    log_p = free.log_softmax(-1)
    batch = make_batch(log_p.tolist(), advantages=[constant] * len(logits))
    (log_p.detach().exp() * policy_gradient(batch).values).sum().backward()
    (through,) = torch.autograd.grad(log_p, free, batch.logprobs.grad)
    assert through.abs().max().item() < 1e-9
