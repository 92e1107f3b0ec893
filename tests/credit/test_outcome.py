import numpy as np
from tables import BY_HAND, table

from sparring.credit.outcome import outcome


def test_every_turn_gets_the_whole_return():
    assert outcome(table(**BY_HAND), {}).advantages.tolist() == [3.0, 3.0, -3.0, -1.0, 1.0, 1.0, 1.0]


def test_state_passes_through():
    state = {"a": 1}
    assert outcome(table([[1.0]]), state).state == state


def test_empty_table():
    assert outcome(table([]), {}).advantages.shape == (0,)


def test_offset_is_kept_exactly():
    assert np.array_equal(outcome(table([[1e6, 1.0]]), {}).advantages, [1e6 + 1, 1e6 + 1])
