import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.selection.curricula.requests import record, request

from sparring.methods.selection.curricula.vade import _belief, vade


def test_belief_by_hand():
    records = (record(1, 4, step=2), record(3, 4, step=8))
    a, b = _belief(records, 10, 1.0, 0.5, 0.9)
    assert a == pytest.approx(1 + 3 * 0.9**2 + 1 * 0.5 * 0.9**8)
    assert b == pytest.approx(1 + 1 * 0.9**2 + 3 * 0.5 * 0.9**8)
    assert _belief(records, 10, 2.0, 1.0, 1.0) == (6.0, 6.0)
    assert _belief((), 10, 0.5, 0.9, 0.9) == (0.5, 0.5)


def test_the_open_arms_are_played_and_each_once_while_there_are_enough():
    history = [[record(n, 400, step=9)] for n in (0, 40, 200, 360, 400, 180)]
    assert sorted(vade(request(*history, groups=2)).tolist()) == [2, 5]
    assert sorted(vade(request(*history, groups=6)).tolist()) == list(range(6))
    many = np.bincount(vade(request(*history, groups=300)), minlength=6)
    assert set(np.flatnonzero(many).tolist()) == {2, 5}
    assert many.min(initial=999, where=many > 0) > 50


def test_evidence_fades_with_visits_and_with_steps():
    solved = [record(40, 40, step=1)]
    fair = [record(20, 40, step=9)]

    def share(**options):
        return np.mean([vade(request(solved, fair, seed=seed), **options)[0] == 0 for seed in range(60)])

    assert share(visit_decay=1.0, step_decay=1.0) == 0.0
    assert share(step_decay=0.5) > 0.05  # the old record has all but gone: Beta(1.08, 1)
    was_solved = [record(40, 40), *[record(20, 40)] * 3]
    assert _belief(was_solved, 0, 1.0, 1.0, 1.0)[0] / sum(_belief(was_solved, 0, 1.0, 1.0, 1.0)) > 0.6
    assert _belief(was_solved, 0, 1.0, 0.1, 1.0)[0] / sum(_belief(was_solved, 0, 1.0, 0.1, 1.0)) < 0.51


def test_a_weak_prior_lets_few_games_speak():
    history = [[record(0, 4)], [record(50, 100)]]
    picks = {prior: np.mean([vade(request(*history, seed=s, step=0), prior=prior)[0] == 0 for s in range(80)]) for prior in (0.01, 100.0)}
    assert picks[0.01] == 0.0
    assert picks[100.0] > 0.2


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=2, max_size=5), st.integers(0, 99))
def test_success_and_failure_are_alike(successes, seed):
    """p * (1 - p) is symmetric; over many draws so are the arms chosen."""
    chosen = [
        vade(request(*[[record(own[i], 8)] for i in range(len(own))], groups=200, step=0, seed=seed))
        for own in (successes, [8 - s for s in successes])
    ]
    counts = [np.bincount(c, minlength=len(successes)) / 200 for c in chosen]
    assert np.abs(counts[0] - counts[1]).max() < 0.25
