import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.methods.losses.reduction import agent_weights, reduce

VALUES, SEQUENCE = torch.tensor([1.0, 2.0, 3.0, 10.0]), torch.tensor([0, 0, 0, 1])


def test_by_hand_on_uneven_lengths():
    assert reduce(VALUES, SEQUENCE, 2, "token_mean").item() == pytest.approx(4.0)
    assert reduce(VALUES, SEQUENCE, 2, "sequence_mean").item() == pytest.approx((2 + 10) / 2)
    assert reduce(VALUES, SEQUENCE, 2, "constant", 8.0).item() == pytest.approx(16 / 16)


def test_a_sequence_without_tokens_counts_as_zero():
    assert reduce(VALUES, SEQUENCE, 3, "sequence_mean").item() == pytest.approx(4.0)


@pytest.mark.parametrize("how", ["token_mean", "sequence_mean", "agent_mean", "constant"])
def test_no_tokens_give_zero(how):
    assert reduce(torch.zeros(0), torch.zeros(0, dtype=torch.int64), 2, how).item() == 0.0


def test_a_play_of_one_agent_weighs_as_much_as_one_of_three():
    """Two plays, of one agent that said 2 tokens, and of three that said 1, 4 and 5."""
    sequence = torch.repeat_interleave(torch.arange(4), torch.tensor([2, 1, 4, 5]))
    weight = torch.from_numpy(agent_weights(np.array([7, 3, 3, 3])))
    losses = torch.ones(12, dtype=torch.float64, requires_grad=True)
    total = reduce(losses, sequence, 4, "agent_mean", weight=weight)
    total.backward()
    assert total.item() == pytest.approx(1.0) and weight.mean().item() == pytest.approx(1.0)
    assert losses.grad.tolist() == pytest.approx([1 / 4] * 2 + [1 / 6] + [1 / 24] * 4 + [1 / 30] * 5)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 1000))
def test_the_agent_mean_is_the_mean_over_plays_of_the_mean_over_their_conversations(plays, seed):
    generator = np.random.Generator(np.random.Philox(seed))
    lengths = generator.integers(1, 5, len(plays))
    values = [torch.from_numpy(generator.normal(size=length)) for length in lengths]
    sequence = torch.repeat_interleave(torch.arange(len(plays)), torch.from_numpy(lengths))
    found = reduce(torch.cat(values), sequence, len(plays), "agent_mean", weight=torch.from_numpy(agent_weights(np.array(plays))))
    means = {play: [own.mean() for own, which in zip(values, plays, strict=True) if which == play] for play in plays}
    assert found.item() == pytest.approx(np.mean([np.mean(own) for own in means.values()]))
    if len(set(plays)) == len(plays):  # one agent in each play
        assert found.item() == pytest.approx(reduce(torch.cat(values), sequence, len(plays), "sequence_mean").item())


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=10))
def test_equal_lengths_make_means_agree(values):
    tokens, sequence = torch.tensor(values), torch.arange(len(values))
    assert reduce(tokens, sequence, len(values), "token_mean").item() == pytest.approx(
        reduce(tokens, sequence, len(values), "sequence_mean").item(), abs=1e-5
    )
