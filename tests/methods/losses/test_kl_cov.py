import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.kl_cov import kl_cov

ROWS = st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=10)


def naive(free, old, advantages, share, coefficient):
    size = len(advantages)
    middle_a, middle_p = sum(advantages) / size, sum(free.tolist()) / size
    scores = [(advantages[i] - middle_a) * (free[i].item() - middle_p) for i in range(size)]
    top = sorted(range(size), key=lambda i: -scores[i])[: max(1, int(share * size))]
    total = 0.0
    for i in range(size):
        difference = free[i] - old[i]
        total = total - difference.exp() * advantages[i] + (coefficient * difference.abs() if i in top and scores[i] > 0 else 0.0)
    return total


def test_by_hand(make_whole):
    """Both means are 0: covariances 4, 1, -1, 0."""
    (batch,), _ = make_whole([2.0, -1.0, 1.0, -2.0], old=[1.5, -1.0, 1.0, -1.0], advantages=[2.0, -1.0, -1.0, 0.0])
    first = torch.tensor(0.5).exp().item() * -2.0
    assert kl_cov(batch).values.tolist() == pytest.approx([first + 0.5, 1.0, 1.0, 0.0])
    assert kl_cov(batch, coefficient=0.1).values[0].item() == pytest.approx(first + 0.05)
    assert kl_cov(batch).metrics["chosen_fraction"].item() == 0.25
    assert kl_cov(batch, share=1.0).metrics["chosen_fraction"].item() == 0.5  # covariances of 0 and less are left alone
    assert kl_cov(batch).metrics["covariance_max"].item() == pytest.approx(4.0)


@given(ROWS, st.floats(0.01, 1), st.floats(0, 2))
def test_value_and_gradient_are_those_of_a_loop_however_it_is_cut(make_whole, gradient_of, rows, share, coefficient):
    logprobs, old, advantages = ([row[k] for row in rows] for k in range(3))
    cut = (len(rows) // 2,) if len(rows) > 1 else ()
    batches, free = make_whole(logprobs, old=old, advantages=advantages, cut=cut)

    def loss(batch):
        return kl_cov(batch, share=share, coefficient=coefficient)

    direct = naive(free, old, advantages, share, coefficient)
    scores = (batches[0].whole.advantages - sum(advantages) / len(rows)) * (free.detach() - sum(logprobs) / len(rows))
    if len(scores.round(decimals=9).unique()) < len(scores):
        return  # which of equal ones are taken depends on rounding
    assert sum(loss(batch).values.sum() for batch in batches).item() == pytest.approx(direct.item(), rel=1e-5, abs=1e-5)
    assert torch.allclose(gradient_of(loss, batches, free), torch.autograd.grad(direct, free)[0])


@pytest.mark.parametrize("options", [{"share": 0.0}, {"coefficient": 0.0}])
def test_without_share_or_coefficient_it_is_the_plain_surrogate(make_whole, options):
    (batch,), _ = make_whole([2.0, -2.0], old=[1.0, -1.0], advantages=[1.0, -1.0])
    assert torch.equal(kl_cov(batch, **options).values, -(batch.logprobs - batch.old_logprobs).exp() * batch.advantages)


def test_equal_advantages_choose_nothing(make_whole):
    (batch,), _ = make_whole([2.0, -2.0, 0.0], old=[0.0] * 3, advantages=[3.0] * 3)
    assert kl_cov(batch, share=1.0).metrics["chosen_fraction"].item() == 0.0


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="coefficient"):
        bind("losses", "kl_cov", {"coefficient": -1.0})
