import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.base import LossBatch
from sparring.methods.losses.magnetic_mirror_descent import magnetic_mirror_descent

LOGITS = st.lists(st.floats(-2, 2), min_size=3, max_size=3)


def test_by_hand(make_batch):
    """rho = 2, pi / pi_ref = 4, pi_ref / pi_old = 1/2."""
    batch = make_batch([math.log(0.8)], old=[math.log(0.4)], advantages=[3.0], reference_logprobs=torch.tensor([math.log(0.2)]).double())
    magnet, old = 2 * math.log(4) - 2 + 0.5, 2 * math.log(2) - 2 + 1
    term = magnetic_mirror_descent(batch, magnet=0.5, proximity=0.25)
    assert term.values.item() == pytest.approx(-6.0 + 0.5 * magnet + 0.25 * old)
    assert term.metrics["magnet_kl"].item() == pytest.approx(magnet)
    assert term.metrics["old_kl"].item() == pytest.approx(old)
    assert magnetic_mirror_descent(batch, magnet=0.0, proximity=0.0).values.item() == pytest.approx(-6.0)


@given(LOGITS, LOGITS, LOGITS, LOGITS, st.floats(0, 2), st.floats(0, 2))
def test_expectation_over_samples_is_the_objective_in_value_and_gradient(make_batch, new, old, reference, gains, magnet, proximity):
    """Weighing every action by its old probability gives the exact objective of the whole distribution."""
    free = torch.tensor(new, dtype=torch.float64, requires_grad=True)
    log_p, log_old, log_ref = (torch.as_tensor(x, dtype=torch.float64).log_softmax(0) for x in (free, old, reference))
    batch = make_batch([0.0] * 3, old=log_old.tolist(), advantages=gains, reference_logprobs=log_ref)
    object.__setattr__(batch, "logprobs", log_p)
    mean = (log_old.exp() * magnetic_mirror_descent(batch, magnet=magnet, proximity=proximity).values).sum()
    p = log_p.exp()
    exact = -(p * torch.tensor(gains, dtype=torch.float64)).sum()
    exact = exact + magnet * (p * (log_p - log_ref)).sum() + proximity * (p * (log_p - log_old)).sum()
    assert mean.item() == pytest.approx(exact.item(), abs=1e-9)
    expected = torch.autograd.grad(exact, free, retain_graph=True)[0]
    assert torch.allclose(torch.autograd.grad(mean, free)[0], expected, atol=1e-9)


@given(st.lists(st.tuples(st.floats(-9, 0), st.floats(-9, 0), st.floats(-9, 0)), min_size=1, max_size=5))
def test_divergences_are_never_negative(make_batch, rows):
    batch = make_batch([r[0] for r in rows], old=[r[1] for r in rows], advantages=[0.0] * len(rows),
                       reference_logprobs=torch.tensor([r[2] for r in rows], dtype=torch.float64))  # fmt: skip
    assert (magnetic_mirror_descent(batch).values >= -1e-9).all()


def test_the_magnet_attracts_from_the_first_update_and_the_old_policy_from_the_second(make_batch):
    for options, slope in (({"magnet": 1.0, "proximity": 0.0}, math.log(2.0)), ({"magnet": 0.0, "proximity": 1.0}, 0.0)):
        batch = make_batch([math.log(0.4)], advantages=[0.0], reference_logprobs=torch.tensor([math.log(0.2)]).double())
        magnetic_mirror_descent(batch, **options).values.sum().backward()
        assert batch.logprobs.grad.item() == pytest.approx(slope, abs=1e-7)


def test_it_stands_still_where_exact_steps_of_the_published_rule_end():
    """Self-play of a biased rock-paper-scissors: new logits are (old + step (gains + magnet log uniform)) / (1 + step magnet)."""
    payoff = torch.tensor([[0.0, -1.0, 2.0], [1.0, 0.0, -1.0], [-2.0, 1.0, 0.0]], dtype=torch.float64)
    magnet, step = 0.2, 0.1
    x = y = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64).log()
    uniform = torch.full((3,), 1 / 3, dtype=torch.float64).log()

    def improved(policy, gains):
        return ((policy + step * (gains + magnet * uniform)) / (1 + step * magnet)).log_softmax(0)

    for _ in range(2000):
        x, y = improved(x, payoff @ y.exp()), improved(y, -payoff.T @ x.exp())
    free = x.clone().requires_grad_(True)
    p = free.log_softmax(0)
    index = torch.arange(3)
    batch = LossBatch(logprobs=p, old_logprobs=x, sampler_logprobs=x, advantages=payoff @ y.exp(), sequence=index, turn=index,
                      num_sequences=3, reference_logprobs=uniform)  # fmt: skip
    loss = (x.exp() * magnetic_mirror_descent(batch, magnet=magnet, proximity=1 / step).values).sum()
    assert torch.autograd.grad(loss, free)[0].abs().max().item() < 1e-6


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="magnet"):
        bind("losses", "magnetic_mirror_descent", {"magnet": -1.0})
