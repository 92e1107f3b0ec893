"""The contract of selection rules and curricula, for every file in their slots."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.methods.selection.curricula.base import Arm, ArmBook
from sparring.testing import random_table
from tests.cases import every_case


def with_presets(slot, name):
    return [registry.bind(slot, name, preset=preset) for preset in (None, *registry.load(slot, name).presets)]


def arm_book(arms, records, seed):
    """Return a book of this many arms with random records, at most ``records`` each."""
    generator = np.random.Generator(np.random.Philox(seed))
    state = {}
    for arm in range(arms):
        rows = []
        for step in range(int(generator.integers(0, records + 1))):
            size = int(generator.integers(1, 9))
            mean, deviation = float(generator.normal()), float(generator.choice([0.0, 1.0]) * generator.random())
            rows.append([step, size, int(generator.integers(0, size + 1)), mean, deviation])
        state[f"game#{arm}"] = rows
    return ArmBook([Arm("game", arm, 1.0) for arm in range(arms)], state)


@every_case("name", registry.names("selection.curricula"))
@settings(max_examples=20, deadline=None)
@given(arms=st.integers(1, 6), records=st.integers(0, 5), groups=st.integers(1, 20), seed=st.integers(0, 10**6))
def test_a_curriculum_chooses_existing_arms_and_uses_only_its_stream(name, arms, records, groups, seed):
    for choose in with_presets("selection.curricula", name):
        book = arm_book(arms, records, seed)
        state_before = json.dumps(book.state)
        arms_chosen = choose(book.request(groups, 6, Stream.from_seed(seed)), progress=0.5)
        assert arms_chosen.shape == (groups,)
        assert arms_chosen.dtype == np.int64
        assert ((arms_chosen >= 0) & (arms_chosen < arms)).all()
        chosen_again = choose(arm_book(arms, records, seed).request(groups, 6, Stream.from_seed(seed)), progress=0.5)
        assert arms_chosen.tolist() == chosen_again.tolist()
        assert json.dumps(book.state) == state_before


@every_case("name", registry.names("selection"))
@every_case("lengths", [[], [1], [3, 1, 2, 1, 1, 4], [2] * 12])
def test_a_rule_returns_a_mask_and_keeps_trajectories_whole(name, lengths):
    for select in with_presets("selection", name):
        turns = random_table(lengths, 1)
        mask = select(turns, Stream.from_seed(3), progress=0.5)
        assert mask.dtype == bool
        assert mask.shape == turns.reward.shape
        assert mask.tolist() == select(random_table(lengths, 1), Stream.from_seed(3), progress=0.5).tolist()
        for trajectory in range(len(lengths)):
            assert len(set(mask[turns.trajectory == trajectory].tolist())) == 1
