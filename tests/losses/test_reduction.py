import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.losses.reduction import reduce

VALUES, SEQUENCE = torch.tensor([1.0, 2.0, 3.0, 10.0]), torch.tensor([0, 0, 0, 1])


def test_by_hand_on_uneven_lengths():
    assert reduce(VALUES, SEQUENCE, 2, "token_mean").item() == pytest.approx(4.0)
    assert reduce(VALUES, SEQUENCE, 2, "sequence_mean").item() == pytest.approx((2 + 10) / 2)
    assert reduce(VALUES, SEQUENCE, 2, "constant", 8.0).item() == pytest.approx(16 / 16)


def test_a_sequence_without_tokens_counts_as_zero():
    assert reduce(VALUES, SEQUENCE, 3, "sequence_mean").item() == pytest.approx(4.0)


@pytest.mark.parametrize("how", ["token_mean", "sequence_mean", "constant"])
def test_no_tokens_give_zero(how):
    assert reduce(torch.zeros(0), torch.zeros(0, dtype=torch.int64), 2, how).item() == 0.0


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=10))
def test_equal_lengths_make_means_agree(values):
    tokens, sequence = torch.tensor(values), torch.arange(len(values))
    assert reduce(tokens, sequence, len(values), "token_mean").item() == pytest.approx(
        reduce(tokens, sequence, len(values), "sequence_mean").item(), abs=1e-5
    )
