import pytest

from sparring.losses.policy_gradient import policy_gradient


def test_value_and_gradient_by_hand(make_batch):
    batch = make_batch([-1.0, -2.0], advantages=[3.0, -1.0])
    term = policy_gradient(batch)
    assert term.values.tolist() == [3.0, -2.0]
    term.values.sum().backward()
    assert batch.logprobs.grad.tolist() == [-3.0, 1.0]
    assert term.weighted and term.level == "token"


def test_empty(make_batch):
    assert policy_gradient(make_batch([])).values.sum().item() == pytest.approx(0)
