"""Width of a lead's calls compared with the best width: scripted leads, correlations by hand, and refusals."""

import pytest

from sparring.core.errors import ConfigError
from sparring.environments.catalogue import make_game
from sparring.play.players.scheduler import scheduler
from studies.common.significance import rank_correlation
from studies.swarm.widths import ALL, figures_of_lead


def games(*shapes):
    environments = []
    for shape in shapes:
        game = make_game("dag_search", options={"tasks": 5, "workers": 4, "shape": shape, "worlds": 100})
        game.name = shape
        environments.append(game)
    return environments


def test_the_best_schedule_has_no_regret_and_the_best_width():
    figures = figures_of_lead(games("independent", "chain", "random"), scheduler(), 12)
    for name in ("independent", "chain", "random"):
        row = figures[name]
        assert row["return"] == row["success"] == row["best_calls"] == row["legal"] == 1.0 and row["regret"] == 0.0
        assert row["critical_steps"] == row["optimal_critical_steps"]
    assert (
        figures["chain"]["width"] == figures["chain"]["width_right"] == 1.0
        and figures["chain"]["rank_correlation"] is None
    )
    assert figures[ALL]["rank_correlation"] > 0.9


def test_a_fixed_width_has_no_correlation():
    figures = figures_of_lead(games("chain", "random"), scheduler(width=4), 12)
    assert (
        figures["chain"]["width"] == 4.0 and figures["chain"]["width_right"] == 0.0 and figures["chain"]["return"] < 0.9
    )
    assert figures["chain"]["finished_share"] < 0.3 and figures["chain"]["regret"] > 0.0
    assert figures[ALL]["rank_correlation"] is None


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [([(1, 1), (2, 2), (3, 3)], 1.0), ([(1, 3), (2, 2), (3, 1)], -1.0), ([(1, 1), (1, 2)], None), ([], None)],
)
def test_rank_correlation_by_hand(pairs, expected):
    assert rank_correlation(pairs) == (expected if expected is None else pytest.approx(expected))


def test_another_environment_is_refused():
    with pytest.raises(ConfigError, match="has no figure optimal_width"):
        figures_of_lead([make_game("wide_search")], scheduler(), 2)
