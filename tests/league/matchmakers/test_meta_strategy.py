import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.records import LEARNER, snapshot
from sparring.league.matchmakers.meta_strategy import meta_strategy
from sparring.league.meta_game import member_payoffs, side_payoffs
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.testing import match_request

MEMBERS = [snapshot(step) for step in (0, 10, 20, 30)]
# rock, paper, scissors, and a fourth member that loses to all of them
PAYOFFS = np.array([[0, -1, 1, 1], [1, 0, -1, 1], [-1, 1, 0, 1], [-1, -1, -1, 0]], dtype=float)


def book_of_payoffs(payoffs, games=10, seats=(0, 1)):
    rows = {}
    for row, player in enumerate(MEMBERS[: len(payoffs)]):
        for column, opponent in enumerate(MEMBERS[: len(payoffs)]):
            for seat in seats if row != column else ():
                payoff = payoffs[row][column]
                rows[RowKey("kuhn_poker", seat, player, opponent)] = Results(
                    games=games,
                    wins=games * (payoff > 0),
                    draws=games * (payoff == 0),
                    losses=games * (payoff < 0),
                    returns=games * payoff,
                )
    return Payoffs(rows)


RESULTS = book_of_payoffs(PAYOFFS)


def request(number, **options):
    return match_request(2, number=number, members=MEMBERS, payoffs=RESULTS, **options)


def shares(count=3000, **options):
    matchmaker = bind("league.matchmakers", "meta_strategy", options)
    seatings = [matchmaker(request(number)) for number in range(count)]
    opponents = [next((seat for seat in seating.seats if seat != LEARNER), LEARNER) for seating in seatings]
    assert all(
        sum(seating.trained) == (1 if player != LEARNER else 2)
        for seating, player in zip(seatings, opponents, strict=True)
    )
    return [opponents.count(member) / count for member in (*MEMBERS, LEARNER)]


def test_members_are_opponents_with_the_weights_of_the_equilibrium():
    assert shares() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0], abs=0.03)


def test_option_own_is_the_share_of_self_play():
    assert shares(own=0.4) == pytest.approx([0.2, 0.2, 0.2, 0, 0.4], abs=0.03)
    assert shares(own=1.0, count=50) == [0, 0, 0, 0, 1]


def test_uniform_draws_all_members_equally_and_last_only_the_newest():
    assert shares(solver="uniform") == pytest.approx([0.25] * 4 + [0], abs=0.03)
    assert shares(solver={"name": "last"}, count=50) == [0, 0, 0, 1, 0]


def test_the_learner_changes_seats_and_plays_itself_without_members():
    seats = [meta_strategy(request(number)).trained.index(True) for number in range(100)]
    assert seats.count(0) == 50
    seating = meta_strategy(match_request(2, number=0, members=[]))
    assert seating.seats == (LEARNER, LEARNER) and seating.trained == (True, True)


def test_a_wrong_solver_is_refused_when_it_is_bound():
    with pytest.raises(ConfigError, match="nash"):
        bind("league.matchmakers", "meta_strategy", {"solver": "nahs"})
    with pytest.raises((UnknownNameError, ConfigError), match="delta"):
        bind("league.matchmakers", "meta_strategy", {"solver": {"name": "delta_uniform", "alpha": 1}})
    with pytest.raises(ConfigError):
        bind("league.matchmakers", "meta_strategy", {"own": 1.5})


@given(
    st.integers(1, 4).flatmap(
        lambda size: st.lists(
            st.lists(st.floats(-1e6, 1e6), min_size=size, max_size=size), min_size=size, max_size=size
        )
    )
)
def test_the_meta_game_is_antisymmetric_and_equals_antisymmetric_returns(values):
    matrix = np.array(values)
    payoffs = member_payoffs(book_of_payoffs(matrix), MEMBERS[: len(matrix)], {"kuhn_poker": 1.0}).payoffs[0]
    assert np.array_equal(payoffs, -payoffs.T)
    antisymmetric = (matrix - matrix.T) / 2
    game = member_payoffs(book_of_payoffs(antisymmetric), MEMBERS[: len(antisymmetric)], {"kuhn_poker": 2.0})
    assert np.allclose(game.payoffs[0], antisymmetric, rtol=1e-9) and np.array_equal(game.payoffs[1], game.payoffs[0].T)


def test_both_sides_have_equal_weight_in_the_meta_game():
    member, opponent = MEMBERS[:2]
    rows = {
        RowKey("kuhn_poker", 0, member, opponent): Results(games=90, losses=90, returns=-90.0),
        RowKey("kuhn_poker", 1, opponent, member): Results(games=90, wins=90, returns=90.0),
        RowKey("kuhn_poker", 1, member, opponent): Results(games=10, wins=10, returns=20.0),
        RowKey("kuhn_poker", 0, opponent, member): Results(games=10, losses=10, returns=-20.0),
        RowKey("other", 0, member, opponent): Results(games=10, wins=10, returns=100.0),
        RowKey("kuhn_poker", 0, LEARNER, opponent): Results(games=10, wins=10, returns=100.0),
    }
    game = member_payoffs(Payoffs(rows), MEMBERS[:3], {"kuhn_poker": 1.0})
    assert game.payoffs[0].tolist() == [[0, 0.5, 0], [-0.5, 0, 0], [0, 0, 0]]
    assert (
        game.counts[0, 1] == game.counts[1, 0] == 100
        and game.win_rates[0, 1] == pytest.approx(0.1)
        and game.win_rates[0, 2] == 0.5
    )


def book_of_sides(first_payoffs, games=10, noise=0.0):
    rows = {}
    for row, player in enumerate(MEMBERS[: len(first_payoffs)]):
        for column, opponent in enumerate(MEMBERS[: len(first_payoffs)]):
            rows[RowKey("kuhn_poker", 0, player, opponent)] = Results(
                games=games, draws=games, returns=games * first_payoffs[row][column]
            )
            rows[RowKey("kuhn_poker", 1, opponent, player)] = Results(
                games=games, draws=games, returns=-games * (first_payoffs[row][column] - noise)
            )
    return Payoffs(rows)


def shares_by_side(payoffs, count=3000, **options):
    by_side = {0: [], 1: []}
    for number in range(count):
        seats = meta_strategy(match_request(2, number=number, members=MEMBERS[:2], payoffs=payoffs), **options).seats
        side = next(seat for seat, player in enumerate(seats) if player != LEARNER)
        by_side[side].append(seats[side])
    return [[by_side[side].count(member) / len(by_side[side]) for member in MEMBERS[:2]] for side in (0, 1)]


def test_separate_sides_have_separate_distributions():
    """Side 0 earns [[3, 0], [1, 2]]: side 1 is indifferent if 3p + 1(1 - p) = 2(1 - p), side 0 if 3q = q + 2(1 - q)."""
    first_shares, second_shares = shares_by_side(book_of_sides([[3, 0], [1, 2]]), sides="apart")
    assert first_shares == pytest.approx([1 / 4, 3 / 4], abs=0.04) and second_shares == pytest.approx(
        [1 / 2, 1 / 2], abs=0.04
    )
    joint_shares = shares_by_side(book_of_sides([[3, 0], [1, 2]]))
    # averaged over both sides the second member earns (1 - 0) / 2 from the first
    assert joint_shares[0] == joint_shares[1] == [0, 1]


def test_payoffs_of_opposed_sides_are_averaged_and_others_are_used_unchanged():
    """After a forfeit the returns do not sum to 0, because the other side gets 0."""
    assert shares_by_side(book_of_sides([[3, 0], [1, 2]], noise=0.5), sides="apart")[0] == pytest.approx(
        [1 / 4, 3 / 4], abs=0.04
    )
    rows = book_of_sides([[2, 0], [0, 1]]).rows
    common_interest_rows = {
        row: Results(games=10, returns=results.returns * (1 if row.seat == 0 else -1)) for row, results in rows.items()
    }
    game = side_payoffs(Payoffs(common_interest_rows), MEMBERS[:2], "kuhn_poker", (0, 1), opposed=False)
    assert (
        (game.payoffs[0] == [[2, 0], [0, 1]]).all()
        and (game.payoffs[1] == game.payoffs[0]).all()
        and not game.symmetric
    )


def test_with_equal_sides_the_options_apart_and_together_agree():
    game = side_payoffs(book_of_payoffs(PAYOFFS), MEMBERS, "kuhn_poker", (0, 1), opposed=True)
    assert game.payoffs[0] == pytest.approx(
        member_payoffs(book_of_payoffs(PAYOFFS), MEMBERS, {"kuhn_poker": 1.0}).payoffs[0]
    )
    joint_shares, side_shares = (
        shares(solver="max_entropy_nash", count=300, sides=sides) for sides in ("together", "apart")
    )
    assert joint_shares == side_shares


def test_apart_is_refused_for_three_sides_and_with_by():
    with pytest.raises(ConfigError, match="two sides, without by; 'kuhn_poker' has 3"):
        meta_strategy(match_request(3, number=0, members=MEMBERS), solver="uniform", sides="apart")
    with pytest.raises(ConfigError, match="by is"):
        meta_strategy(request(0), by=["main"], sides="apart")
