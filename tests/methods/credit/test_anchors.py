import dataclasses
from difflib import SequenceMatcher

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.core.errors import ConfigError
from sparring.methods.credit.anchors import anchor_groups, mean_over_trajectories, node_groups
from sparring.methods.credit.base import turn_places
from sparring.ops.groups import group_ids


def seen(views, *, names=(), actions=None, **others):
    """Return a table whose trajectories see these views, turn by turn."""
    turns = table([[0.0] * len(own) for own in views], **others)
    flat = np.array([view for own in views for view in own], dtype=np.int64)
    acted = np.zeros(len(flat), dtype=np.int64) if actions is None else np.array(actions, dtype=np.int64)
    return dataclasses.replace(turns, view=flat, view_names=tuple(names), action=acted)


def same(ids):
    """Return which pairs of rows share an id."""
    return np.equal.outer(ids, ids).tolist()


def test_a_view_meets_itself_within_its_group_and_role_only():
    views = [[5, 5], [5], [5], [5]]
    ids, count = anchor_groups(seen(views, groups=[0, 0, 1, 0], roles=[0, 0, 0, 1]), "x", "view")
    assert (ids[0] == ids[1] == ids[2], count) == (True, 3)
    ids, count = anchor_groups(seen(views, groups=[0, 1, 0, 1], games=[0, 1, 0, 1]), "x", "view")
    assert (same(ids), count) == (same(np.array([0, 0, 1, 0, 1])), 2)


@pytest.mark.parametrize("similarity", [None, 0.9])
def test_notes_meet_notes_alone(similarity):
    turns = seen([[0, 0, 0], [0, 0]], names=["same"], groups=[0, 0])
    ids, count = anchor_groups(dataclasses.replace(turns, note=np.array([0, 1, 0, 0, 1], dtype=bool)), "x", "view", similarity)
    assert count == 2 and same(ids) == same(np.array([0, 1, 0, 0, 1]))


def test_turns_of_different_attempts_and_notes_stand_at_different_places():
    turns = seen([[0, 0, 0], [0, 0, 0]], groups=[0, 0])
    assert same(group_ids(*turn_places(turns))[0]) == same(np.array([0, 1, 2, 0, 1, 2]))
    attempts = dataclasses.replace(turns, attempt=np.array([0, 0, 1, 0, 1, 1]))
    assert same(group_ids(*turn_places(attempts))[0]) == same(np.array([0, 1, 2, 0, 3, 2]))
    notes = dataclasses.replace(turns, note=np.array([0, 0, 1, 0, 1, 1], dtype=bool))
    assert same(group_ids(*turn_places(notes))[0]) == same(np.array([0, 1, 2, 0, 3, 2]))


def test_information_states_are_anchors_too():
    turns = seen([[5, 6], [7, 7]], groups=[0, 0], keys=[1, 2, 1, 3])
    assert same(anchor_groups(turns, "x", "state_key")[0]) == same(np.array([1, 2, 1, 3]))


def test_similar_texts_share_an_id_within_their_group():
    names = ("a red door and a key", "a red door and a kex", "nothing here", "a red door and a kez")
    turns = seen([[0, 1], [2], [3, 1]], names=names, groups=[0, 0, 1])
    assert same(anchor_groups(turns, "x", "view", 0.9)[0]) == same(np.array([0, 0, 1, 2, 2]))
    assert same(anchor_groups(turns, "x", "view", 0.99)[0]) == same(np.arange(5))


def greedy(views, texts, groups, threshold):
    """The released clustering in plain Python, on the turns in the order of their texts."""
    cluster = {}
    for group in set(groups):
        leaders = []
        for row in sorted(np.flatnonzero(np.array(groups) == group), key=lambda row: texts[views[row]]):
            text = texts[views[row]]
            found = next((leader for leader in leaders if SequenceMatcher(None, text, texts[views[leader]]).ratio() >= threshold), None)
            leaders += [row] if found is None else []
            cluster[row] = row if found is None else found
    return np.array([cluster[row] for row in range(len(views))])


@settings(deadline=None)
@given(
    texts=st.lists(st.text("abc", max_size=6), min_size=1, max_size=6, unique=True),
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=1, max_size=14),
    threshold=st.floats(0.1, 1.0),
)
def test_similar_texts_are_put_together_as_in_the_released_loop(texts, rows, threshold):
    views, groups = [view % len(texts) for view, _ in rows], [group for _, group in rows]
    turns = seen([[view] for view in views], names=texts, groups=groups)
    assert same(anchor_groups(turns, "x", "view", threshold)[0]) == same(greedy(views, texts, groups, threshold))


@pytest.mark.parametrize("numbering", [[0, 1, 2], [1, 0, 2], [2, 1, 0]])
def test_clusters_depend_on_the_texts_and_not_on_the_order_of_the_batch(numbering):
    # the middle one is like both others, which differ: with the alphabet's first as leader the last stays alone
    texts = ["aaaa", "aabb", "bbbb"]
    turns = seen([[view] for view in numbering], names=texts, groups=[0] * 3)
    clusters = dict(zip(numbering, anchor_groups(turns, "x", "view", 0.5)[0], strict=True))
    assert clusters[0] == clusters[1] != clusters[2]
    renumbered = seen([[0], [1], [2]], names=[texts[view] for view in numbering], groups=[0] * 3)
    assert same(anchor_groups(renumbered, "x", "view", 0.5)[0]) == same(anchor_groups(turns, "x", "view", 0.5)[0])


def test_similarity_needs_texts():
    with pytest.raises(ConfigError, match="anchor: view"):
        anchor_groups(table([[1.0]]), "x", "state_key", 0.9)


def test_nodes_are_told_apart_by_state_and_action_and_turns_without_action_meet_nobody():
    turns = seen([[0], [0], [0], [1], [0], [0]], groups=[0] * 6, keys=[0, 0, 0, 1, 0, 0], actions=[2, 2, 1, 2, -1, -1])
    assert same(node_groups(turns, "x", turns.state_key)[0]) == same(np.array([0, 0, 1, 2, 3, 4]))


def test_a_trajectory_counts_once_however_often_it_comes_by():
    values, ids, trajectory = np.array([1.0, 1.0, 4.0, 7.0]), np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2])
    assert mean_over_trajectories(values, ids, 2, trajectory) == pytest.approx([2.5, 7.0])
    assert mean_over_trajectories(values[[0, 2, 1]], ids[:3], 1, np.array([0, 1, 2])) == pytest.approx([2.0])
    assert mean_over_trajectories(np.zeros(0), np.zeros(0, dtype=np.int64), 0, np.zeros(0, dtype=np.int64)).shape == (0,)


def test_an_empty_table():
    assert anchor_groups(seen([]), "x", "view")[1] == 0
    assert anchor_groups(seen([]), "x", "view", 0.9)[1] == 0
    assert node_groups(seen([]), "x", np.zeros(0, dtype=np.int64))[1] == 0
