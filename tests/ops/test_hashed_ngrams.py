"""Texts as vectors: alike by what they say, whoever says it of whom."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.ops.hashed_ngrams import embedded, masked

NAMES = ("player_0", "player_12", "Ann")


def test_vectors_have_length_one_and_texts_without_a_word_none():
    found = embedded(["I am the seer", "", "..."], size=64)
    assert found.shape == (3, 64)
    assert np.linalg.norm(found, axis=1) == pytest.approx([1.0, 0.0, 0.0])


def test_by_hand_one_word():
    """"ab" has the features w ab, ^ab and ab$: three counts of 1 or -1, unless two share a place."""
    found = embedded(["ab"], size=4096)[0]
    assert sorted(abs(found[found != 0])) == pytest.approx([3**-0.5] * 3)


def test_numbers_and_names_are_masked_and_case_does_not_count():
    one, other, third = embedded(["I saw player_0 is a wolf, Ann! 3 votes.", "i saw PLAYER_12 is a wolf player_0 17 votes", "I saw Bob is a wolf, Ann! 3 votes."], names=NAMES)
    assert one == pytest.approx(other)
    assert abs(one - third).max() > 0.01
    assert masked("Anna met 3.5 and 1,000") == "anna met # and #"


def test_what_is_said_counts_and_its_order():
    a, b, c = embedded(["vote for the seer", "vote for the seer", "the seer: for vote"])
    assert a == pytest.approx(b) and abs(a - c).max() > 0.01
    rock, spock, paper = embedded(["rock", "spock", "paper"])
    assert rock @ spock > rock @ paper + 0.2  # letters in common


def test_the_vectors_are_the_same_everywhere_and_another_salt_gives_others():
    found = embedded(["we play rock"], size=16)[0]
    assert np.array_equal(found, embedded(["we play rock"], size=16)[0])
    counts = (found / min(abs(found[found != 0]))).round(6)
    assert counts.tolist() == [-1, 0, -1, 0, 0, 1, 1, 2, 0, 0, 0, -1, 2, 0, 0, 0]
    assert not np.array_equal(found, embedded(["we play rock"], size=16, salt=1)[0])


@given(st.lists(st.text(max_size=40), max_size=6), st.integers(1, 64))
def test_any_text_can_be_embedded(texts, size):
    found = embedded(texts, size=size, names=NAMES)
    assert found.shape == (len(texts), size) and np.isfinite(found).all()
    lengths = np.linalg.norm(found, axis=1)
    assert ((abs(lengths - 1) < 1e-9) | (lengths == 0)).all()
