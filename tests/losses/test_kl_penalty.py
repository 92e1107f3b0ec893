import math

import pytest
import torch

from sparring.losses.kl_penalty import kl_penalty


@pytest.mark.parametrize(("estimator", "value"), [("k1", 0.5), ("k2", 0.125), ("k3", math.exp(-0.5) + 0.5 - 1)])
def test_values_by_hand(make_batch, estimator, value):
    batch = make_batch([-1.0], reference_logprobs=torch.tensor([-1.5], dtype=torch.float64))
    assert kl_penalty(batch, estimator=estimator).values.item() == pytest.approx(value)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_zero_at_the_reference(make_batch, estimator):
    batch = make_batch([-1.0, -2.0], reference_logprobs=torch.tensor([-1.0, -2.0], dtype=torch.float64))
    assert kl_penalty(batch, estimator=estimator).values.abs().max().item() == pytest.approx(0)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_the_mean_over_samples_is_the_divergence(make_batch, estimator):
    policy, reference = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.3, 0.3, 0.4])
    batch = make_batch(policy.log().tolist(), reference_logprobs=reference.log().double())
    mean = (policy * kl_penalty(batch, estimator=estimator).values).sum()
    assert mean.item() == pytest.approx((policy * (policy / reference).log()).sum().item(), abs=1e-6)


def test_wild_differences_stay_finite(make_batch):
    term = kl_penalty(make_batch([-1000.0, 0.0], reference_logprobs=torch.tensor([0.0, -1000.0], dtype=torch.float64)))
    assert term.values.abs().max().item() <= 20.0


def test_gradient_of_k1_has_mean_zero_and_that_of_k3_does_not():
    logits, reference = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64), torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    for estimator, vanishes in (("k1", True), ("k3", False)):
        free = logits.clone().requires_grad_(True)
        log_p = free.log_softmax(-1)
        difference = reference.log() - log_p
        values = -difference if estimator == "k1" else difference.exp() - difference - 1
        (log_p.detach().exp() * values).sum().backward()
        assert (free.grad.abs().max().item() < 1e-12) == vanishes
