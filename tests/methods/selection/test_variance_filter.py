import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit import tables

from sparring.core.errors import CreditError
from sparring.core.rng import Stream
from sparring.methods.selection.base import trajectories
from sparring.methods.selection.equal_groups import equal_groups
from sparring.methods.selection.variance_filter import variance_filter

STREAM = Stream.from_seed(0)
# deviations of the groups: 0, 1/sqrt 2, 2/sqrt 2, 3/sqrt 2
FOUR = {"rewards": [[1.0], [1.0], [0.0], [0.5, 0.5], [2.0], [0.0], [3.0], [0.0]], "groups": [0, 0, 1, 1, 2, 2, 3, 3]}


def kept_groups(turns, mask):
    return sorted(set(turns.group[mask].tolist()))


@pytest.mark.parametrize(
    ("keep", "groups"), [(0.25, [3]), (0.1, [3]), (0.5, [2, 3]), (0.74, [2, 3]), (0.75, [1, 2, 3]), (1.0, [0, 1, 2, 3])]
)
def test_by_hand(keep, groups):
    turns = tables.table(**FOUR)
    assert kept_groups(turns, variance_filter(turns, STREAM, keep=keep)) == groups


def test_with_the_right_share_it_is_the_filter_of_equal_groups():
    turns = tables.table(**FOUR)
    assert variance_filter(turns, STREAM, keep=0.75).tolist() == equal_groups(turns, STREAM, policy="drop").tolist()


def test_roles_are_judged_apart():
    turns = tables.table([[1.0], [1.0], [0.0], [1.0]], seats=[0, 0, 1, 1], groups=[0] * 4)
    assert variance_filter(turns, STREAM, keep=0.5).tolist() == [False, False, True, True]


def test_every_group_and_role_has_a_draw_of_its_own():
    turns = tables.table([[0.0], [1.0]] * 4, seats=[0, 0, 1, 1] * 2, groups=[0] * 4 + [1] * 4)
    first = {variance_filter(turns, Stream.from_seed(seed), keep=0.25).argmax() // 2 for seed in range(60)}
    assert first == {0, 1, 2, 3}
    draws = trajectories(turns, "test").group_draws(STREAM)
    assert len(set(draws.tolist())) == 4
    assert len(set(trajectories(turns, "test").draws(STREAM).tolist())) == 8


def test_the_stream_decides_among_equals_and_not_the_order():
    rewards, groups = [[0.0], [1.0]] * 8, np.repeat(np.arange(8), 2)
    turns = tables.table(rewards, groups=groups)
    chosen = {tuple(kept_groups(turns, variance_filter(turns, Stream.from_seed(seed), keep=0.5))) for seed in range(20)}
    assert len(chosen) > 10
    assert {len(groups) for groups in chosen} == {4}
    turned = tables.table(rewards, groups=groups[::-1])
    assert kept_groups(turned, variance_filter(turned, STREAM, keep=0.5)) == kept_groups(turns, variance_filter(turns, STREAM, keep=0.5))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4), min_size=1, max_size=8), st.floats(0.01, 1.0))
def test_no_group_that_goes_varies_more_than_one_that_stays(groups, keep):
    turns = tables.table([[r] for own in groups for r in own], groups=[g for g, own in enumerate(groups) for _ in own])
    mask = variance_filter(turns, STREAM, keep=keep)
    stays = kept_groups(turns, mask)
    assert len(stays) == max(1, int(keep * len(groups) + 1e-9))
    deviation = [np.std(own) * np.sqrt(len(own) / max(len(own) - 1, 1)) for own in groups]
    gone = [d for g, d in enumerate(deviation) if g not in stays]
    assert max(gone, default=0.0) <= min(deviation[g] for g in stays) + 1e-6


def test_hard_tables():
    assert variance_filter(tables.table([]), STREAM).shape == (0,)
    assert variance_filter(tables.table([[1.0]]), STREAM).all()
    assert variance_filter(tables.table([[1e6 + 0.1], [1e6 + 0.1]], groups=[0, 0]), STREAM).all()  # the only group
    with pytest.raises(CreditError, match=r"variance_filter.*row 1"):
        variance_filter(tables.table([[0.0, np.nan]]), STREAM)
