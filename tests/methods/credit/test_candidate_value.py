"""Every reply to a prompt gets what it was judged by, and those that nothing judged carry no loss."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.core.records import Episode, Turn
from sparring.methods.columns.standard import candidate_judged as judged_column
from sparring.methods.columns.standard import candidate_value as value_column
from sparring.methods.credit.candidate_value import candidate_value
from sparring.play.turn_table import turn_table


def judged(values, mask):
    turns = table(**BY_HAND)
    return replace(turns, candidate_value=np.array(values, dtype=float), candidate_judged=np.array(mask))


def test_by_hand_whatever_the_turns_are_paid():
    found = candidate_value(judged([1, 2, 3, 4, 5, 6, 7], [True, True, False, True, True, True, False]))
    assert found.advantages.tolist() == [1.0, 2.0, 0.0, 4.0, 5.0, 6.0, 0.0]
    assert found.trained.tolist() == [True, True, False, True, True, True, False]
    assert found.metrics == {"judged": pytest.approx(5 / 7)}


@given(st.lists(st.floats(-5, 5), min_size=7, max_size=7), st.lists(st.booleans(), min_size=7, max_size=7))
def test_it_reads_nothing_but_the_values(values, mask):
    one, other = judged(values, mask), replace(judged(values, mask), reward=np.zeros(7))
    assert candidate_value(one).advantages.tolist() == candidate_value(other).advantages.tolist()


class Given:
    """A source of columns."""

    def __init__(self, episodes):
        self.episodes, self.turns = episodes, turn_table(episodes, candidates=True)


def test_the_columns_are_the_scores_of_all_replies_in_the_order_of_the_table():
    def reply(number, score, seat=0, index=0, others=()):
        return Turn(seat, index, "learner", "k", ("a",), "a", "a", "ok", {}, candidate=number, score=score, candidates=others)

    turns = (reply(1, 0.5, others=(reply(0, -1.0), reply(2, None))), reply(0, 0.0, seat=1), reply(0, None, index=1))
    episode = Episode(episode_id=0, group_id=0, game="g", seed=0, roles=("x", "y"), agents=("learner", "learner"), trained=(True, True), turns=turns, returns=(0.0, 0.0))
    source = Given([episode])
    # seat 0's turns as they were played, then the other replies, then seat 1
    assert value_column(source).tolist() == [0.5, 0.0, -1.0, 0.0, 0.0]
    assert judged_column(source).tolist() == [True, False, True, False, True]
    assert source.turns.committed.tolist() == [True, True, False, False, True]
