"""What is done to Python's cycle collector is undone, whatever happens in between."""

import gc

import pytest

from sparring.core.process import paused_collector, settled_heap


@pytest.fixture(autouse=True)
def nothing_set_aside():
    """Give back what tests/conftest.py set aside, and set it aside again."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_what_is_there_is_set_aside_and_given_back():
    assert gc.get_freeze_count() == 0
    with settled_heap():
        assert gc.get_freeze_count() > 1000
        with settled_heap():
            assert gc.get_freeze_count() > 1000
        assert gc.get_freeze_count() > 1000  # the inner one leaves it to the outer one
    assert gc.get_freeze_count() == 0
    with pytest.raises(ValueError), settled_heap():
        raise ValueError
    assert gc.get_freeze_count() == 0


def test_cycles_that_are_made_meanwhile_are_collected():
    class Node:
        pass

    with settled_heap():
        node = Node()
        node.itself = node
        del node
        assert gc.collect() > 0


@pytest.mark.parametrize("on", [True, False])
def test_a_pause_leaves_the_collector_as_it_was(on):
    (gc.enable if on else gc.disable)()
    try:
        with paused_collector():
            assert not gc.isenabled()
        assert gc.isenabled() is on
    finally:
        gc.enable()
