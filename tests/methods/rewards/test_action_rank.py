"""The rank reward: by hand, against counting, and properties of both rules for ties."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.methods.rewards.action_rank import action_rank

VALUES = (1.0, 0.0, 0.0, -1.0, 0.5)


@pytest.mark.parametrize(
    ("ties", "grades"), [("level", (1.0, 1 / 3, 1 / 3, 0.0, 2 / 3)), ("mean", (1.0, 0.375, 0.375, 0.0, 0.75))], ids=["level", "mean"]
)
def test_by_hand(judged, ties, grades):
    assert action_rank(judged([(0, "ok", VALUES, chosen) for chosen in range(5)]), ties=ties) == pytest.approx(grades)


@pytest.mark.parametrize(("ties", "alike"), [("level", 1.0), ("mean", 0.5)])
def test_all_alike_one_action_illegal_and_abstained(judged, ties, alike):
    turns = [(0, "ok", (0.5, 0.5, 0.5 + 1e-12), 0), (1, "ok", (3.0,), 0), (0, "illegal", (0.0, 0.0), 0), (1, "ok", None, 0)]
    assert action_rank(judged(turns), ties=ties) == (alike, alike, 0.0, None)
    assert action_rank(judged([(0, "unparsable", VALUES, 0)]), ties=ties) == (0.0,)


LISTS = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=9)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=LISTS)
def test_both_rules_against_counting(judged, values):
    def grades(ties, given_values):
        return action_rank(judged([(0, "ok", tuple(given_values), chosen) for chosen in range(len(values))]), ties=ties)

    levels = sorted(set(values))
    assert grades("level", values) == pytest.approx([levels.index(v) / (len(levels) - 1) if len(levels) > 1 else 1.0 for v in values])
    others = [[o for n, o in enumerate(values) if n != own] for own in range(len(values))]
    wins = [[(v > o) + 0.5 * (v == o) for o in rest] for v, rest in zip(values, others, strict=True)]
    expected = [sum(won) / len(won) if won else 0.5 for won in wins]
    assert grades("mean", values) == pytest.approx(expected)
    assert sum(grades("mean", values)) == pytest.approx(len(values) / 2)
    for ties in ("level", "mean"):
        assert grades(ties, [v**3 + 7 for v in values]) == grades(ties, values)  # only the order counts


def test_options_are_checked():
    with pytest.raises(ConfigError, match="option 'ties'"):
        registry.bind("rewards", "action_rank", {"ties": "share"})
