"""What every advantage estimator must hold, for every file found in the slot."""

import copy
import dataclasses
import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring import registry
from sparring.errors import CreditError
from sparring.types import TurnTable

NAMES = registry.names("credit")
HEADINGS = ("What:", "When to use:", "Mathematics:", "Shapes:", "Pitfalls:", "Reference:", "Verified by:")
ROOT = Path(__file__).parents[2]


def random_table(lengths, seed):
    generator = np.random.Generator(np.random.Philox(seed))
    size, count = sum(lengths), len(lengths)

    def column(per_trajectory):
        return np.repeat(np.asarray(per_trajectory, dtype=np.int64), lengths)

    ends = np.zeros(size, dtype=bool)
    if size:
        ends[np.cumsum(lengths) - 1] = True
    reward, n_tokens = generator.normal(size=size), generator.integers(1, 4, size)
    return TurnTable(
        episode=column(np.arange(count) // 2),
        group=column(np.arange(count) // 4),
        trajectory=column(np.arange(count)),
        game=column(generator.integers(0, 2, count)[np.arange(count) // 4]),
        role=column(np.arange(count) % 2),
        seat=column(np.arange(count) % 2),
        agent=column(np.zeros(count)),
        turn_index=np.concatenate([np.arange(n) for n in lengths]).astype(np.int64) if size else np.zeros(0, dtype=np.int64),
        reward=reward,
        components={"game": 0.75 * reward, "process": 0.125 * reward, "best_action": 0.125 * reward},
        done=ends,
        state_key=generator.integers(0, 5, size),
        legal=np.ones(size, dtype=bool),
        n_tokens=n_tokens,
        action=generator.integers(-1, 3, size),
        view=generator.integers(0, 4, size),
        logprob=-generator.random(size),
        value=generator.normal(size=size),
        value_after=generator.normal(size=size),
        old_logprob=-generator.random(size),
        reference_logprob=-generator.random(size),
        process_logprob=-generator.random(size),
        action_value=generator.normal(size=size),
        state_value=generator.normal(size=size),
        default_value=generator.normal(size=size),
        token_value=generator.normal(size=int(n_tokens.sum())),
        cut=ends & (column(np.arange(count) % 3) == 1),
        action_names=("up", "down", "left"),
        view_names=("near", "far", "here", "there"),
        game_names=("a", "b"),
        role_names=("x", "y"),
        agent_names=("learner",),
    )


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 4), max_size=12), seed=st.integers(0, 10**6))
def test_shapes_finite_deterministic_and_nothing_changed(name, lengths, seed):
    plugin = registry.load("credit", name)
    for preset in (None, *plugin.presets):
        turns, state = random_table(lengths, seed), {}
        before = copy.deepcopy(turns)
        estimate = registry.bind("credit", name, preset=preset)
        credit = estimate(turns, state)
        rows = len(turns.reward) if credit.level == "turn" else int(turns.n_tokens.sum())
        assert credit.advantages.shape == (rows,)
        assert np.isfinite(credit.advantages).all()
        assert state == {}
        for field in dataclasses.fields(turns):
            np.testing.assert_equal(getattr(turns, field.name), getattr(before, field.name), field.name)
        again = estimate(turns, json.loads(json.dumps(state)))
        assert np.array_equal(credit.advantages, again.advantages)
        json.dumps(credit.state)
        if "values" in plugin.needs:
            assert credit.value_targets is not None
            assert credit.value_targets.shape == turns.reward.shape
        elif "token_values" in plugin.needs:
            assert credit.value_targets is not None
            assert credit.value_targets.shape == (int(turns.n_tokens.sum()),)


def estimates(name):
    return [registry.bind("credit", name, preset=preset) for preset in (None, *registry.load("credit", name).presets)]


@pytest.mark.parametrize("name", NAMES)
def test_running_state_survives_json_and_is_never_changed_in_place(name):
    for estimate in estimates(name):
        state = estimate(random_table([2, 1, 3, 1], 0), {}).state
        saved = json.dumps(state)
        following = estimate(random_table([1, 2, 1, 2], 1), state)
        assert json.dumps(state) == saved
        resumed = estimate(random_table([1, 2, 1, 2], 1), json.loads(saved))
        assert np.array_equal(following.advantages, resumed.advantages)
        assert following.state == resumed.state
        json.dumps(following.state)
        assert all(np.isfinite(value) for value in following.metrics.values())


def tokens_of(turns, rows):
    """Return the indices of these rows' tokens."""
    begin = np.cumsum(turns.n_tokens) - turns.n_tokens
    return [token for row in rows for token in range(begin[row], begin[row] + turns.n_tokens[row])]


def permuted(turns, order):
    """Return the table with its trajectories in another order."""
    rows = np.concatenate([np.flatnonzero(turns.trajectory == old) for old in order])
    columns = {field.name: getattr(turns, field.name) for field in dataclasses.fields(turns)}
    tokens = tokens_of(turns, rows)
    arrays = {name: column for name, column in columns.items() if isinstance(column, np.ndarray)}
    moved = {name: column[tokens if name == "token_value" else rows] for name, column in arrays.items()}
    moved["components"] = {name: column[rows] for name, column in turns.components.items()}
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return dataclasses.replace(turns, **{**moved, "trajectory": number[moved["trajectory"]]}), rows


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=10), seed=st.integers(0, 10**6), data=st.data())
def test_the_order_of_trajectories_is_irrelevant_unless_there_is_a_running_state(name, lengths, seed, data):
    order = np.array(data.draw(st.permutations(range(len(lengths)))))
    turns = random_table(lengths, seed)
    moved, rows = permuted(turns, order)
    for estimate in estimates(name):
        credit, again = estimate(turns, {}), estimate(moved, {})
        if credit.state:
            continue
        moved_to = rows if credit.level == "turn" else tokens_of(turns, rows)
        assert again.advantages == pytest.approx(credit.advantages[moved_to], abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_hard_tables_stay_finite(name):
    plain = random_table([3, 1, 2, 1, 1, 4], 0)
    for reward in (np.zeros(12), np.full(12, 0.1), plain.reward + 1e6, plain.reward * 1e-9):
        for estimate in estimates(name):
            credit = estimate(dataclasses.replace(plain, reward=reward), {})
            assert np.isfinite(credit.advantages).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rewards_that_are_no_numbers_are_refused(name, bad):
    turns = random_table([2, 1], 0)
    turns.reward[1] = bad
    with pytest.raises(CreditError, match="row 1"):
        registry.bind("credit", name)(turns, {})


@pytest.mark.parametrize("slot", ["credit", "losses", "selection", "selection.curricula"])
def test_docstrings_have_the_headings_and_their_tests_exist(slot):
    for name in registry.names(slot):
        text = inspect.getdoc(registry.load(slot, name).function)
        wanted = HEADINGS[:2] + HEADINGS[4:] if slot.startswith("selection") else HEADINGS
        missing = [heading for heading in wanted if heading not in text]
        assert not missing, (name, missing)
        for path in text.partition("Verified by:")[2].split("\n\n")[0].replace("\n", " ").rstrip(". ").split(","):
            assert (ROOT / path.strip().rstrip(".")).is_file(), path
