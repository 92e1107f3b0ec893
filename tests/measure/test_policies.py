"""Scorers of known policies, and renormalising over legal actions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import GameError, SparringError
from sparring.measure.info_states import Query, TabularScorer, UniformScorer, renormalise

QUERY = Query(game="kuhn_poker", seat=0, key="0", observations=("kuhn first J",), actions=(), legal_actions=("pass", "bet"))
DISTRIBUTIONS = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=6).map(lambda w: np.array(w) / sum(w))


def test_uniform_gives_every_legal_action_the_same_probability():
    (row,) = UniformScorer().action_logprobs([QUERY])
    np.testing.assert_allclose(np.exp(row), [0.5, 0.5], rtol=1e-15)


def test_a_table_is_read_by_seat_and_key_and_left_out_actions_have_probability_zero():
    scorer = TabularScorer({(0, "0"): {"bet": 0.25}, (1, "0"): {"bet": 1.0}})
    (row,) = scorer.action_logprobs([QUERY])
    np.testing.assert_array_equal(row, [-np.inf, np.log(0.25)])


def test_a_table_without_the_information_state_says_which_row_to_add():
    with pytest.raises(GameError, match=r"seat 0 of kuhn_poker in information state '0'.*\(0, '0'\): \{'pass': 1.0\}"):
        TabularScorer({(1, "0"): {"pass": 1.0}}).action_logprobs([QUERY])


@given(DISTRIBUTIONS, st.floats(1e-3, 1.0))
def test_renormalising_a_scaled_policy_gives_the_policy_and_the_missing_mass(policy, scale):
    found, illegal = renormalise(np.log(policy * scale))
    np.testing.assert_allclose(found, policy, rtol=1e-12)
    assert illegal == pytest.approx(1.0 - scale, abs=1e-12)


@pytest.mark.parametrize(
    ("logprobs", "policy", "illegal"),
    [
        ([0.0], [1.0], 0.0),
        ([-np.inf, -np.inf], [0.5, 0.5], 1.0),
        ([-1000.0, -1000.0 + np.log(3.0)], [0.25, 0.75], 1.0),  # both round to probability 0
        ([-np.inf, 0.0], [0.0, 1.0], 0.0),
        ([np.log(0.5) + 1e-7, np.log(0.5) + 1e-7], [0.5, 0.5], 0.0),  # float32 noise is no negative mass
    ],
)
def test_hard_rows(logprobs, policy, illegal):
    found, missing = renormalise(np.array(logprobs))
    np.testing.assert_allclose(found, policy, rtol=1e-12)
    assert missing == pytest.approx(illegal, abs=1e-12)
    assert 0.0 <= missing <= 1.0


@pytest.mark.parametrize("logprobs", [[np.nan, 0.0], [np.inf, 0.0], [0.0, np.log(0.1)], [5000.0, 0.0]])
def test_what_is_no_log_probability_is_refused(logprobs):
    with pytest.raises(SparringError, match="og-probabilities"):
        renormalise(np.array(logprobs))
