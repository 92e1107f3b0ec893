import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.ops.tournaments import ranks_by, seed_positions, tournament_ranks

# In the comments of this file a number is a player: "0 beats 2" says that player 0 beats player 2.
SCHEMES = ["anchor", "round_robin", "swiss", "single_elimination", "double_elimination"]
# rock, paper, scissors: each player beats the previous one
CYCLE = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def scores_of_strengths(values):
    return np.repeat(np.array(values, dtype=float)[:, None], len(values), axis=1)


def test_ties_share_the_mean_rank():
    assert ranks_by([(1.0,), (3.0,), (1.0,), (2.0,)]).tolist() == [2.5, 0.0, 2.5, 1.0]


def test_seeds_are_placed_as_in_a_standard_bracket():
    assert seed_positions(1) == [0]
    assert seed_positions(8) == [0, 7, 3, 4, 1, 6, 2, 5]


def test_a_cycle_is_a_tie_in_round_robin_but_not_in_other_schemes():
    assert tournament_ranks("round_robin", CYCLE).tolist() == [1.0, 1.0, 1.0]
    # all play against 0: 1 beats 0 (score 1), 2 loses (score 0), and 0 has its mean score, 1/2
    assert tournament_ranks("anchor", CYCLE).tolist() == [1.0, 0.0, 2.0]
    # the seeding is 1, 0, 2: 1 has a bye, 0 beats 2, then 1 beats 0
    assert tournament_ranks("single_elimination", CYCLE).tolist() == [1.0, 0.0, 2.0]
    # 1 has a bye and 0 beats 2; 1 beats 0; 0 beats 2 in the losers' bracket; 1 beats 0 in the final
    assert tournament_ranks("double_elimination", CYCLE).tolist() == [1.0, 0.0, 2.0]


def test_a_second_defeat_is_needed_to_leave_double_elimination():
    scores = scores_of_strengths([9, 8, 7, 1])
    scores[3, 1], scores[1, 3] = 10.0, 0.0
    scores[1, 0], scores[2, 0], scores[3, 0] = 8.0, 7.0, 1.0
    assert tournament_ranks("double_elimination", scores)[0] == 0.0
    # the seeding is 0, 1, 2, 3: 0 beats 3, 1 beats 2; 0 beats 1, 2 eliminates 3; 1 eliminates 2; 0 beats 1
    assert tournament_ranks("double_elimination", scores).tolist() == [0.0, 1.0, 2.0, 3.0]
    scores[2, 1], scores[1, 2] = 10.0, 0.0  # now player 2 always beats player 1
    # 0 beats 3, 2 beats 1; 0 beats 2, 3 eliminates 1; 2 eliminates 3; 0 beats 2
    assert tournament_ranks("double_elimination", scores).tolist() == [0.0, 3.0, 1.0, 2.0]


def test_in_a_knock_out_the_better_seed_wins_a_tie():
    scores = np.array([[0.0, 5.0, 5.0], [5.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
    # the seeding is by total score, 5, 5 and 4: 0 has a bye, 1 ties with 2 and advances; 0 and 1 tie in the final
    assert tournament_ranks("single_elimination", scores).tolist() == [0.0, 1.0, 2.0]


def test_losers_of_one_round_are_ordered_by_their_mean_score():
    # the seeding is 0, 1, 2, 3; in the first round 3 loses to 0 and 2 to 1; 3 has a higher mean score than 2
    scores = np.array([[0, 9, 9, 9], [8, 0, 9, 9], [7, 0, 0, 0], [6, 5, 5, 0]], dtype=float)
    assert tournament_ranks("single_elimination", scores).tolist() == [0.0, 1.0, 3.0, 2.0]


def test_swiss_avoids_a_second_match_and_breaks_ties_by_the_opponents_points():
    # 0 beats 2, 1 beats 3; 0 beats 1, 2 beats 3. The points are 2, 1, 1, 0; 1 and 2 are tied, as both played against 0 and 3
    assert tournament_ranks("swiss", scores_of_strengths([4, 3, 2, 1])).tolist() == [0.0, 1.5, 1.5, 3.0]
    # eight players; round 1: 0, 1, 2, 3 beat 4, 5, 6, 7; round 2: 0 beats 1, 2 beats 3, 4 beats 5, 6 beats 7
    # round 3: 0 beats 2, 1 beats 3, 4 beats 6, 5 beats 7; the points are 3, 2, 2, 1, 2, 1, 1, 0
    # the Buchholz score is the sum of the opponents' points: 5 for 1, 2 and 4 (1+3+1, 1+1+3, 3+1+1);
    # 4 for 3, 5 and 6 (0+2+2, 2+2+0, 2+0+2)
    assert tournament_ranks("swiss", scores_of_strengths(range(8, 0, -1))).tolist() == [0, 2, 2, 5, 2, 5, 5, 7]


def test_swiss_ties_give_half_a_point():
    assert tournament_ranks("swiss", scores_of_strengths([1, 1])).tolist() == [0.5, 0.5]


@given(st.integers(2, 12), st.integers(0, 10**6), st.sampled_from(SCHEMES))
def test_ranks_of_any_matrix_are_valid(count, seed, scheme):
    scores = np.random.Generator(np.random.Philox(seed)).integers(0, 3, (count, count)).astype(float)
    ranks = tournament_ranks(scheme, scores)
    assert ranks.sum() == pytest.approx(count * (count - 1) / 2)
    assert ranks.min() >= 0
    assert ranks.max() <= count - 1


@given(
    st.integers(1, 12),
    st.integers(0, 10**6),
    st.sampled_from(["anchor", "round_robin", "single_elimination", "double_elimination"]),
)
def test_a_consistent_order_is_found_for_any_seeding(count, seed, scheme):
    order = np.random.Generator(np.random.Philox(seed)).permutation(count)
    assert np.array_equal(tournament_ranks(scheme, scores_of_strengths(-order)), order)


def test_swiss_by_hand_with_five_players():
    # round 1: 4 has a bye, 0 meets 2, 1 meets 3; round 2: 3 has a bye, 0 meets 1, 4 meets 2
    # round 3: 2 has a bye, 0 meets 3 (it has already met 1), 1 meets 4
    # the points are 3, 2, 2, 1, 1, and the Buchholz scores 4, 5, 4, 5, 4
    assert tournament_ranks("swiss", scores_of_strengths([5, 4, 3, 2, 1])).tolist() == [0, 1, 2, 3, 4]


def test_a_bye_is_worth_a_point():
    # round 1: 2 has a bye, 0 beats 1; round 2: 1 has a bye, 2 beats 0
    # the points are 1, 1, 2, and the Buchholz scores of 0 and 1 are 1 + 2 and 1
    scores = scores_of_strengths([3, 2, 1])
    scores[2, 0] = 9.0
    assert tournament_ranks("swiss", scores).tolist() == [1, 2, 0]
