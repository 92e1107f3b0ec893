"""Figures of waves of workers: by hand, and without a division by zero."""

import pytest

from sparring.environments.wide_search.scoring import (
    FIGURES,
    count_critical_steps,
    count_total_steps,
    wave_figures,
)

WAVES = ((3, 1), (2,), (4, 4, 0))


def test_figures_by_hand():
    """Three waves of 2, 1 and 3 workers (at most 4); 4 of the 6 calls finished."""
    assert count_critical_steps(5, WAVES) == 5 + 3 + 2 + 4 and count_total_steps(5, WAVES) == 5 + 4 + 2 + 8
    figures = wave_figures(5, WAVES, 4, 4)
    assert tuple(figures) == FIGURES
    assert figures == {
        "waves": 3,
        "width": 3,
        "critical_steps": 14,
        "total_steps": 19,
        "called": 6,
        "finished": 4,
        "parallel": pytest.approx(2 / 3),
        "finished_share": pytest.approx(4 / 6),
    }


@pytest.mark.parametrize(("waves", "workers", "width"), [((), 4, 0), (((2,),), 1, 1), (((7,),), 0, 1), (((),), 4, 0)])
def test_figures_without_calls_or_workers(waves, workers, width):
    figures = wave_figures(1, waves, 0, workers)
    assert figures["width"] == width and figures["parallel"] == 0.0 and figures["finished_share"] == 0.0
