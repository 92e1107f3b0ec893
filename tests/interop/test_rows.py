"""The part that both bridges (TRL and verl) share, without either trainer."""

import importlib
import itertools
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, CreditError
from sparring.interop.rows import TRL_HINTS, VERL_HINTS, TrainerRows, estimate, turn_table
from sparring.interop.spans import spans
from sparring.interop.terms import Terms
from tests.cases import every_case


@pytest.mark.parametrize("name", ["verl", "trl"])
def test_without_the_package_the_error_says_how_to_install_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"sparring.interop.{name}", raising=False)
    with pytest.raises(ConfigError, match=f"pip install {name}=="):
        importlib.import_module(f"sparring.interop.{name}")


@given(rows=st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=5))
def test_spans_are_the_runs_of_the_mask(rows):
    mask, lengths, totals, sampled_sums, first_values = np.array(rows), [], [], [], []
    values = np.arange(mask.size, dtype=np.float64).reshape(mask.shape) + 1.0
    for row, line in enumerate(rows):
        run_starts = [index for index, is_on in enumerate(line) if is_on and (index == 0 or not line[index - 1])]
        edges = [0, *run_starts[1:], 7]
        for begin, end in itertools.pairwise(edges):
            masked_values = values[row, begin:end][mask[row, begin:end]]
            lengths.append(len(masked_values))
            totals.append(values[row, begin:end].sum())
            sampled_sums.append(masked_values.sum())
            first_values.append(masked_values[0] if len(masked_values) else 0.0)
    index = spans(mask)
    assert index.n_tokens.tolist() == lengths
    assert index.sum_by_turn(values).tolist() == totals
    assert index.sum_over_sampled(values).tolist() == sampled_sums
    assert index.at_first_token(values).tolist() == first_values


def two_games(**columns):
    """Return four rows: both players of two games; the first row has two turns."""
    return TrainerRows(
        num_turns=np.array([2, 1, 1, 1]),
        n_tokens=np.array([1, 2, 3, 1, 2]),
        reward=np.array([0.5, 0.5, -1.0, -2.0, 2.0]),
        group=["deal"] * 4,
        columns={"episode": ["b", "b", "a", "a"], "role": ["white", "black", "white", "black"], **columns},
    )


def test_seats_of_one_game_share_an_episode_and_initial_states():
    turns, order = turn_table(two_games())
    assert order.tolist() == [4, 3, 2, 0, 1]  # episode a: black, white; episode b: black, white
    assert turns.episode.tolist() == [0, 0, 1, 1, 1]
    assert turns.trajectory.tolist() == [0, 1, 2, 3, 3]
    assert turns.done.tolist() == [True, True, True, False, True]
    assert turns.role_names == ("black", "white")
    assert turns.state_key[0] == turns.state_key[2] != turns.state_key[1] == turns.state_key[3]
    assert turns.state_key[4] not in turns.state_key[:4]
    turns, order = turn_table(two_games(cut=[True, False, False, True]))
    assert order.tolist() == [4, 3, 2, 0, 1]
    assert turns.cut.tolist() == [True, False, False, False, True]
    assert turn_table(two_games())[0].cut is None


def test_columns_follow_their_rows_and_a_missing_one_gives_a_hint():
    credit = estimate(registry.bind("credit", "rloo"), two_games(), {}, {})
    assert credit.advantages.tolist() == [3.0] * 3 + [-3.0] * 3 + [-3.0] + [3.0] * 2
    rows = two_games(
        view=[["x", "y"], "x", "x", "y"],
        action=[["up", None], "up", "down", "up"],
        component_process=[[0.5, 0.0], 0.0, -1.0, 2.0],
    )
    turns, _ = turn_table(rows)
    assert [turns.view_names[i] for i in turns.view] == ["y", "x", "x", "x", "y"]
    assert [turns.action_names[i] if i >= 0 else None for i in turns.action] == ["up", "down", "up", "up", None]
    assert turns.components["process"].tolist() == [2.0, -1.0, 0.0, 0.5, 0.0]
    assert turns.components["game"].tolist() == [0.0, -1.0, -1.0, 0.0, 0.5]
    with pytest.raises(CreditError, match="row 0: 1 values for 2 turns"):
        turn_table(two_games(view=["x", "x", "x", "y"]))
    with pytest.raises(CreditError, match="look here"):
        estimate(registry.bind("credit", "gigpo"), two_games(), {}, {"view": "look here", "action": "not here"})


def test_losses_that_need_unavailable_columns_are_refused():
    terms = Terms({"etr": {}}, trainer="T", available=frozenset({"whole"}))
    mask = torch.tensor([[True, True, False]])
    numbers = torch.zeros(1, 3)
    batch = terms.batch(mask, {"logprobs": numbers, "old_logprobs": numbers, "advantages": numbers})
    assert batch.whole.turn_index.tolist() == [0, 0]
    with pytest.raises(ConfigError, match="which T does not pass"):
        terms(batch)
    with pytest.raises(ConfigError, match="'values'"):
        Terms({"value_loss": {}}, trainer="T", available=frozenset()).check()


CREDITS = [
    (name, preset) for name in registry.names("credit") for preset in (None, *registry.load("credit", name).presets)
]


@every_case(("name", "preset"), CREDITS)
@every_case("hints", [VERL_HINTS, TRL_HINTS], ids=["verl", "trl"])
def test_columns_that_a_batch_lacks_are_explained(name, preset, hints):
    estimator = registry.bind("credit", name, preset=preset)
    assert estimator.needs <= hints.keys()
    if estimator.needs:
        with pytest.raises(CreditError) as error:
            estimate(estimator, two_games(), {}, hints)
        assert any(hints[column] in str(error.value) for column in estimator.needs), error.value


def test_rows_can_be_trials_and_masked_turns_are_refused():
    rows = two_games(
        attempt=[[0, 1], 0, 0, 0], note=[[True, False], False, False, False], view=[["x", "x"], "x", "x", "x"]
    )
    turns, order = turn_table(rows)
    assert order.tolist() == [4, 3, 2, 0, 1]
    assert turns.attempt.tolist() == [0, 0, 0, 0, 1] and turns.attempt.dtype == np.int64
    assert turns.note.tolist() == [False, False, False, True, False]
    without_trials, _ = turn_table(two_games())
    assert without_trials.attempt is None and without_trials.note is None
    assert len(estimate(registry.bind("credit", "mage"), rows, {}, {}).advantages) == 9
    for hints in (VERL_HINTS, TRL_HINTS):
        with pytest.raises(CreditError, match="other seats are known in Sparring's own runs only"):
            estimate(registry.bind("credit", "mage", {"per_opponent": True}), rows, {}, hints)
    rows = two_games(component_best_action=[[0.5, 0.5], [-1.0], [-2.0], [2.0]])
    estimator = registry.bind("credit", "vpr", {"equal": "mask"})
    with pytest.raises(CreditError, match="leaves turns out of the losses"):
        estimate(estimator, rows, {}, VERL_HINTS)
    assert len(estimate(registry.bind("credit", "vpr"), rows, {}, VERL_HINTS).advantages) == 9
