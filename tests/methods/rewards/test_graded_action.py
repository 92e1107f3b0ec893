"""The grade of an action as a reward, by hand."""

import pytest

from sparring.core.records import Episode, Turn, Verdict
from sparring.methods.rewards.graded_action import graded_action

GRADES = Verdict(actions=("a", "b", "c"), values=(2.0, 0.5, -1.0), best=frozenset("a"))


def episode(*replies):
    turns = tuple(
        Turn(0, index, "learner", "k", ("a", "b", "c"), str(action), action, event, {"game": 0.0}, verdict=verdict)
        for index, (action, event, verdict) in enumerate(replies)
    )
    return Episode(
        episode_id=0, group_id=0, game="sudoku", seed=0, roles=("solver",), agents=("learner",), trained=(True,), turns=turns, returns=(0.0,)
    )


@pytest.mark.parametrize(
    ("options", "wanted"), [({}, (2.0, 0.5, -1.0, -2.0, -2.0, None)), ({"illegal": -3.0, "unparsable": -4.0}, (2.0, 0.5, -1.0, -3.0, -4.0, None))]
)
def test_by_hand(options, wanted):
    played = episode(
        ("a", "ok", GRADES), ("b", "ok", GRADES), ("c", "ok", GRADES), (None, "illegal", GRADES), (None, "unparsable", GRADES), ("a", "ok", None)
    )
    assert graded_action(played, **options) == wanted
