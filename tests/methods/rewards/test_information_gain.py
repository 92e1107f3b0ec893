"""The information reward: by hand, sums that telescope, and what a test of a coin or a search tells, by Bayes' rule."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.methods.rewards.information_gain import information_gain
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

AB = (0.0, 1.0)


def test_by_hand_over_the_seat_s_own_turns(judged):
    turns = [(0, "ok", AB, 0, 2.0), (1, "ok", AB, 0, 0.5), (0, "ok", AB, 1, 0.75), (1, "ok", AB, 0, 0.75), (0, "ok", AB, 1, 0.0)]
    assert information_gain(judged(turns)) == (1.25, -0.25, 0.75, None, None)  # the second seat came to know less


def test_none_where_the_entropy_is_unknown_and_0_for_illegal_replies(judged):
    unknown = [(0, "ok", AB, 0, 2.0), (0, "ok", AB, 0), (0, "ok", AB, 0, 1.0), (0, "ok", None, 0), (0, "ok", AB, 0, 0.5)]
    assert information_gain(judged(unknown)) == (None, None, None, None, None)
    illegal = [(0, "illegal", AB, 0, 2.0), (0, "unparsable", AB, 0, 1.0), (0, "ok", AB, 0, 1.0), (0, "illegal", AB, 0, 0.25)]
    assert information_gain(judged(illegal)) == (0.0, 0.0, 0.75, 0.0)  # the rules may have played a random action for it
    assert information_gain(judged([(0, "illegal", AB, 0)])) == (None,)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entropies=st.lists(st.floats(0, 20), min_size=1, max_size=12))
def test_gains_sum_to_what_was_found_out(judged, entropies):
    gains = information_gain(judged([(0, "ok", AB, 0, entropy) for entropy in entropies]))
    assert gains[-1] is None
    assert sum(gains[:-1]) == pytest.approx(entropies[0] - entropies[-1], abs=1e-9)


CONFIG = {
    "steps": 1,
    "threads": 1,
    "environments": [
        {
            "name": "minesweeper",
            "options": {"rows": 3, "columns": 3, "mines": 1},
            "illegal": {"rule": "random"},
            "oracle": {"name": "posterior"},
        }
    ],
    "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "rewards": [{"name": "information_gain"}],
    "reorder_outcomes": True,
}


def test_a_run_pays_it_and_counts_the_last_turns_as_abstentions():
    config = resolve(CONFIG)
    engine = LocalEngine(config)
    played = play_round(config, engine, Methods.of(config, [game for game, _ in engine.environments]), RunState())
    paid, last = [], 0
    for episode in played.episodes:
        assert episode.turns[0].verdict.entropy <= math.log(9) + 1e-9
        for turn, later in zip(episode.turns, (*episode.turns[1:], None), strict=True):
            gain = turn.rewards.get("information_gain")
            if turn.event == "ok" and later is not None:
                assert gain == pytest.approx(turn.verdict.entropy - later.verdict.entropy)
                paid.append(gain)
            last += gain is None
    assert paid and max(paid) > 0
    turns = sum(len(episode.turns) for episode in played.episodes)
    assert last > 0
    assert played.metrics["abstained/information_gain"] == pytest.approx(last / turns)
