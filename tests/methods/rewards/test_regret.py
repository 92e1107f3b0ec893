"""The regret reward: by hand, each scale, and in a run, where it is what the run reports as regret."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.methods.rewards.regret import regret
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

TIC, KUHN = make_game("tic_tac_toe"), make_game("kuhn_poker")
TURNS = [
    (0, "ok", (1.0, 0.5, -1.0), 1),
    (1, "illegal", (1.0, 0.0), 0),
    (0, "ok", (0.0, 0.0), 1),
    (1, "ok", None, 0),
    (0, "ok", (0.0, 1.0), 1),
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (-0.5, -1.0, 0.0, None, 0.0)),
        ({"scale": "state"}, (-0.25, -1.0, 0.0, None, 0.0)),
        ({"scale": "game"}, (-0.25, -0.5, 0.0, None, 0.0)),
        ({"positive": True}, (0.5, 0.0, 1.0, None, 1.0)),
        ({"positive": True, "scale": "state"}, (0.75, 0.0, 1.0, None, 1.0)),
        ({"positive": True, "scale": "game"}, (0.75, 0.5, 1.0, None, 1.0)),
    ],
    ids=["units", "state", "game", "positive", "positive-state", "positive-game"],
)
def test_by_hand(judged, options, expected):
    assert regret(judged(TURNS), TIC, **options) == expected


def test_the_game_s_range_is_the_game_s(judged):
    assert regret(judged([(0, "ok", (2.0, 0.0), 1)]), KUHN, scale="game") == (-0.5,)  # Kuhn poker pays from -2 to 2


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), data=st.data())
def test_within_its_range_and_free_of_scale(judged, values, data):
    chosen = data.draw(st.integers(0, len(values) - 1))

    def paid(scaled, **options):
        return regret(judged([(0, "ok", tuple(scaled), chosen)]), TIC, **options)[0]

    assert paid(values) == values[chosen] - max(values)
    share = paid(values, scale="state", positive=True)
    assert 0 <= share <= 1
    assert (share == 1) or values[chosen] < max(values)
    assert paid([4 * value for value in values], scale="state", positive=True) == pytest.approx(share, abs=1e-12)


def test_a_run_pays_what_it_reports():
    config = resolve(
        {
            "steps": 1,
            "threads": 1,
            "environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}, "oracle": {"name": "minimax"}}],
            "rollout": {"games_per_step": 8},
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "rewards": [{"name": "regret", "scale": "game"}],
            "reorder_outcomes": True,
        }
    )
    engine = LocalEngine(config)
    metrics = play_round(config, engine, Methods.of(config, [game for game, _ in engine.environments]), RunState()).metrics
    assert metrics["reward/regret"] == pytest.approx(-metrics["regret/tic_tac_toe"] / 2)
    assert metrics["reward/regret"] < 0


def test_options_are_checked():
    with pytest.raises(ConfigError, match="option 'scale'"):
        registry.bind("rewards", "regret", {"scale": "range"})
