"""The tree of prefixes."""

import hypothesis.strategies as st
from hypothesis import given

from sparring.models.prefixes import prefix_tree, shared_lengths

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=12)


def test_two_sequences_by_hand():
    tree = prefix_tree([(5, 7, 9), (5, 7), (5, 8, 9)])
    assert tree.ids.tolist() == [5, 7, 9, 8, 9]  # sorted: 5 7, then 9 on top of it, then 8 9
    assert tree.position.tolist() == [0, 1, 2, 1, 2]
    assert tree.node[0].tolist() == [0, 1, 2]
    assert tree.node[1].tolist()[:2] == [0, 1]
    assert tree.node[2].tolist() == [0, 3, 4]


@given(SEQUENCES)
def test_every_prefix_is_one_node(sequences):
    tree = prefix_tree(sequences)
    prefixes = {}
    for row, ids in enumerate(sequences):
        for position, token in enumerate(ids):
            node = int(tree.node[row, position])
            assert (int(tree.ids[node]), int(tree.position[node])) == (token, position)
            assert prefixes.setdefault(ids[: position + 1], node) == node
    assert sorted(prefixes.values()) == list(range(len(tree.ids)))
    assert tree.node.flatten()[tree.first].tolist() == list(range(len(tree.ids)))
    width = tree.node.shape[1]
    assert all(index % width < len(sequences[index // width]) for index in tree.first.tolist())


@given(SEQUENCES)
def test_shared_lengths_count_the_nodes_that_are_not_new(sequences):
    ordered = sorted(sequences)
    shared = shared_lengths(ordered)
    for before, after, count in zip(ordered, ordered[1:], shared[1:], strict=False):
        assert before[:count] == after[:count]
        assert before[: count + 1] != after[: count + 1] or count == min(len(before), len(after))
    assert sum(map(len, ordered)) - shared.sum() == len(prefix_tree(sequences).ids)
