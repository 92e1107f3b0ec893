import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.ops.clusters import _draw_centres, embed_texts, k_means, mask_text, match_to_earlier, nearest

MASKED_NAMES = ("player_0", "player_12", "Ann")


def test_the_embedding_of_one_word_by_hand():
    """ "ab" has the features w ab, ^ab and ab$. Each has the value 1 or -1 at its index of the vector."""
    vector = embed_texts(["ab"], size=4096)[0]
    assert sorted(abs(vector[vector != 0])) == pytest.approx([3**-0.5] * 3)
    assert not embed_texts(["", "..."]).any()


def test_numbers_and_names_are_masked_and_case_is_ignored():
    vector, equal_vector, other_vector = embed_texts(
        [
            "I saw player_0 is a wolf, Ann! 3 votes.",
            "i saw PLAYER_12 is a wolf player_0 17 votes",
            "I saw Bob is a wolf, Ann! 3 votes.",
        ],
        names=MASKED_NAMES,
    )
    assert vector == pytest.approx(equal_vector)
    assert abs(vector - other_vector).max() > 0.01
    assert mask_text("Anna met 3.5 and 1,000") == "anna met # and #"


def test_words_and_their_order_change_the_embedding():
    vector, equal_vector, other_vector = embed_texts(["vote for the seer", "vote for the seer", "the seer: for vote"])
    assert vector == pytest.approx(equal_vector) and abs(vector - other_vector).max() > 0.01
    rock, spock, paper = embed_texts(["rock", "spock", "paper"])
    assert rock @ spock > rock @ paper + 0.2  # letters in common


def test_vectors_depend_only_on_text_and_salt():
    vector = embed_texts(["we play rock"], size=16)[0]
    assert np.array_equal(vector, embed_texts(["we play rock"], size=16)[0])
    counts = (vector / min(abs(vector[vector != 0]))).round(6)
    assert counts.tolist() == [-1, 0, -1, 0, 0, 1, 1, 2, 0, 0, 0, -1, 2, 0, 0, 0]
    assert not np.array_equal(vector, embed_texts(["we play rock"], size=16, salt=1)[0])


@given(st.lists(st.text(max_size=40), max_size=6), st.integers(1, 64))
def test_any_text_can_be_embedded(texts, size):
    vectors = embed_texts(texts, size=size, names=MASKED_NAMES)
    assert vectors.shape == (len(texts), size) and np.isfinite(vectors).all()
    lengths = np.linalg.norm(vectors, axis=1)
    assert ((abs(lengths - 1) < 1e-9) | (lengths == 0)).all()


STREAM = Stream.from_seed(3)
POINTS = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4), st.integers(1, 5)), min_size=1, max_size=7)


def arrays(rows):
    return np.array([row[:2] for row in rows], dtype=float), np.array([row[2] for row in rows], dtype=float)


def inertia(points, weights, assignment):
    total = 0.0
    for cluster in set(assignment):
        is_member = np.array([number == cluster for number in assignment])
        centre = weights[is_member] @ points[is_member] / weights[is_member].sum()
        total += float(weights[is_member] @ ((points[is_member] - centre) ** 2).sum(axis=1))
    return total


@given(POINTS, st.integers(1, 4))
def test_no_point_and_no_centre_can_improve_the_inertia(rows, count):
    points, weights = arrays(rows)
    clusters = k_means(points, weights, count, STREAM, starts=4)
    assert len(clusters.centres) == min(count, len(np.unique(points, axis=0)))
    assert np.array_equal(nearest(points, clusters.centres)[0], clusters.cluster_of)
    for index, centre in enumerate(clusters.centres):
        is_member = clusters.cluster_of == index
        assert centre == pytest.approx(weights[is_member] @ points[is_member] / weights[is_member].sum())
    assert clusters.inertia == pytest.approx(inertia(points, weights, clusters.cluster_of.tolist()), abs=1e-9)
    best_inertia = min(
        inertia(points, weights, assignment) for assignment in itertools.product(range(count), repeat=len(points))
    )
    assert clusters.inertia >= best_inertia - 1e-9


def test_heavy_points_share_no_cluster():
    points = np.eye(3)
    for light in range(3):
        weights = np.where(np.arange(3) == light, 1.0, [5.0, 6.0, 7.0])
        assignment = k_means(points, weights, 2, STREAM).cluster_of
        heavy_points = sorted(set(range(3)) - {light}, key=weights.__getitem__)
        assert assignment[light] == assignment[heavy_points[0]] != assignment[heavy_points[1]]


def test_clusters_are_ordered_by_weight_and_deterministic():
    points, weights = arrays([(0, 0, 1), (9, 9, 5), (0, 9, 3), (0, 0, 1)])
    clusters = k_means(points, weights, 3, STREAM)
    assert clusters.cluster_of.tolist() == [2, 0, 1, 2]
    equal_clusters = k_means(points, weights, 3, STREAM)
    assert (
        np.array_equal(clusters.centres, equal_clusters.centres) and clusters.inertia == equal_clusters.inertia == 0.0
    )


def test_a_point_at_equal_distances_gets_the_first_centre():
    assert nearest(np.array([[0.0]]), np.array([[1.0], [-1.0]]))[0].tolist() == [0]


def test_clusters_keep_their_numbers_and_new_ones_come_last():
    old_centres = np.array([[0.0, 0.0], [5.0, 5.0], [9.0, 0.0]])
    new_centres = np.array([[9.0, 1.0], [3.0, 9.0], [0.0, 1.0], [5.0, 4.0]])
    assert match_to_earlier(new_centres, old_centres).tolist() == [2, 3, 0, 1]
    assert match_to_earlier(new_centres[:2], old_centres).tolist() == [
        1,
        0,
    ]  # the two new centres take the numbers 1 and 0
    assert match_to_earlier(new_centres, np.zeros((0, 2))).tolist() == [0, 1, 2, 3]


def test_initial_centres_are_distinct_and_likely_far_apart():
    points, weights = np.array([[0.0], [1.0], [10.0]]), np.array([1.0, 5.0, 1.0])
    pairs = [tuple(_draw_centres(points, weights, 2, Stream.from_seed(seed)).reshape(-1)) for seed in range(400)]
    assert all(first != second for first, second in pairs)
    after_zero = [second for first, second in pairs if first == 0.0]
    assert len(after_zero) > 30 and np.mean(np.array(after_zero) == 10.0) == pytest.approx(100 / 105, abs=0.1)
