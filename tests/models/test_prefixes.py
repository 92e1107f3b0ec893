import hypothesis.strategies as st
import torch
from hypothesis import given
from pytest import MonkeyPatch

from sparring.models import attention
from sparring.models.attention import prefix_tree, shared_lengths

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=12)


def test_two_sequences_by_hand():
    tree = prefix_tree([(5, 7, 9), (5, 7), (5, 8, 9)])
    assert tree.ids.tolist() == [5, 7, 9, 8, 9]  # sorted sequences: 5 7, 5 7 9 (adds 9), 5 8 9 (adds 8 and 9)
    assert tree.position.tolist() == [0, 1, 2, 1, 2]
    assert tree.node[0].tolist() == [0, 1, 2]
    assert tree.node[1].tolist()[:2] == [0, 1]
    assert tree.node[2].tolist() == [0, 3, 4]


@given(SEQUENCES)
def test_each_distinct_prefix_is_one_node(sequences):
    tree = prefix_tree(sequences)
    prefixes = {}
    for row, ids in enumerate(sequences):
        for position, token in enumerate(ids):
            node = int(tree.node[row, position])
            assert (int(tree.ids[node]), int(tree.position[node])) == (token, position)
            assert prefixes.setdefault(ids[: position + 1], node) == node
    assert sorted(prefixes.values()) == list(range(len(tree.ids)))
    assert tree.node.flatten()[tree.flat_index].tolist() == list(range(len(tree.ids)))
    width = tree.node.shape[1]
    assert all(index % width < len(sequences[index // width]) for index in tree.flat_index.tolist())


@given(SEQUENCES)
def test_the_queries_of_all_parts_contain_every_prefix_at_its_position(sequences):
    with MonkeyPatch.context() as patch:
        patch.setattr(attention, "MAX_WHOLE_PAIRS", 0)
        tree = prefix_tree(sequences)
    if not tree.parts:
        assert tree.query_index.tolist() == tree.flat_index.tolist()
        return
    queries = torch.cat([nodes for _, _, nodes in tree.queries_of_parts()])
    assert queries[tree.query_index].tolist() == list(range(len(tree.ids)))
    assert 2 * len(queries) <= tree.node.numel()
    for part, position, nodes in tree.queries_of_parts():
        assert position.shape == (len(part.rows), part.queries)
        assert int(position.max()) < part.positions <= tree.node.shape[1]
        assert all(len(sequences[row]) <= part.positions for row in part.rows.tolist())
        assert nodes.tolist() == tree.node[part.rows[:, None], position].flatten().tolist()


def test_tree_parts_by_hand(monkeypatch):
    monkeypatch.setattr(attention, "MAX_WHOLE_PAIRS", 0)
    ones = (1,) * 8
    tree = prefix_tree([(*ones[:6], 2, 2), ones, (*ones[:7], 3), ones, (*ones[:6], 2, 4)])
    # sorted: all ones (8 new nodes), all ones (no new node), a 3 at the end (1), two 2s (2), a 4 at the end (1)
    parts = [(part.rows.tolist(), part.begin.tolist(), part.queries, part.positions) for part in tree.parts]
    assert parts == [([2, 4], [7, 7], 1, 8), ([0], [6], 2, 8), ([1], [0], 8, 8)]
    assert tree.query_index.tolist() == [*range(4, 12), 0, 2, 3, 1]


def test_short_or_distinct_sequences_have_no_parts(monkeypatch):
    distinct_sequences = [(token,) * 8 for token in range(4)]
    sequences_with_prefix = [(1,) * 7 + (token,) for token in range(4)]
    assert prefix_tree(sequences_with_prefix).parts == ()
    monkeypatch.setattr(attention, "MAX_WHOLE_PAIRS", 0)
    assert prefix_tree(distinct_sequences).parts == ()
    assert len(prefix_tree(sequences_with_prefix).parts) == 2


@given(SEQUENCES)
def test_shared_lengths_count_reused_nodes(sequences):
    sorted_sequences = sorted(sequences)
    lengths = shared_lengths(sorted_sequences)
    for sequence, next_sequence, count in zip(sorted_sequences, sorted_sequences[1:], lengths[1:], strict=False):
        assert sequence[:count] == next_sequence[:count]
        assert sequence[: count + 1] != next_sequence[: count + 1] or count == min(len(sequence), len(next_sequence))
    assert sum(map(len, sorted_sequences)) - lengths.sum() == len(prefix_tree(sequences).ids)
