import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.records import LEARNER, snapshot
from sparring.league.matchmakers.meta_strategy import meta_strategy
from sparring.league.meta_game import member_payoffs, side_payoffs
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.testing import match_request

MEMBERS = [snapshot(step) for step in (0, 10, 20, 30)]
# rock, paper, scissors, and one that all of them beat
LOSSES = np.array([[0, -1, 1, 1], [1, 0, -1, 1], [-1, 1, 0, 1], [-1, -1, -1, 0]], dtype=float)


def book(payoffs, games=10, seats=(0, 1)):
    rows = {}
    for i, player in enumerate(MEMBERS[: len(payoffs)]):
        for j, opponent in enumerate(MEMBERS[: len(payoffs)]):
            for seat in seats if i != j else ():
                u = payoffs[i][j]
                rows[Row("kuhn_poker", seat, player, opponent)] = Results(
                    games=games, wins=games * (u > 0), draws=games * (u == 0), losses=games * (u < 0), returns=games * u
                )
    return Payoffs(rows)


BOOK = book(LOSSES)


def request(number, **more):
    return match_request(2, number=number, members=MEMBERS, payoffs=BOOK, **more)


def shares(count=3000, **options):
    matchmaker = bind("league.matchmakers", "meta_strategy", options)
    seatings = [matchmaker(request(number)) for number in range(count)]
    opponents = [next((seat for seat in seating.seats if seat != LEARNER), LEARNER) for seating in seatings]
    assert all(
        sum(seating.trained) == (1 if who != LEARNER else 2) for seating, who in zip(seatings, opponents, strict=True)
    )
    return [opponents.count(member) / count for member in (*MEMBERS, LEARNER)]


def test_members_are_met_as_the_equilibrium_has_them():
    assert shares() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0], abs=0.03)


def test_own_is_the_share_of_self_play():
    assert shares(own=0.4) == pytest.approx([0.2, 0.2, 0.2, 0, 0.4], abs=0.03)
    assert shares(own=1.0, count=50) == [0, 0, 0, 0, 1]


def test_uniform_meets_all_alike_and_last_the_newest():
    assert shares(solver="uniform") == pytest.approx([0.25] * 4 + [0], abs=0.03)
    assert shares(solver={"name": "last"}, count=50) == [0, 0, 0, 1, 0]


def test_the_learner_sits_in_either_seat_and_plays_itself_without_members():
    seats = [meta_strategy(request(number)).trained.index(True) for number in range(100)]
    assert seats.count(0) == 50
    alone = meta_strategy(match_request(2, number=0, members=[]))
    assert alone.seats == (LEARNER, LEARNER) and alone.trained == (True, True)


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
def test_the_meta_game_is_zero_sum_and_that_of_the_returns_where_these_are(values):
    matrix = np.array(values)
    payoffs = member_payoffs(book(matrix), MEMBERS[: len(matrix)], {"kuhn_poker": 1.0}).payoffs[0]
    assert np.array_equal(payoffs, -payoffs.T)
    odd = (matrix - matrix.T) / 2
    again = member_payoffs(book(odd), MEMBERS[: len(odd)], {"kuhn_poker": 2.0})
    assert np.allclose(again.payoffs[0], odd, rtol=1e-9) and np.array_equal(again.payoffs[1], again.payoffs[0].T)


def test_sides_count_alike_however_often_they_were_played():
    first, second = MEMBERS[:2]
    rows = {
        Row("kuhn_poker", 0, first, second): Results(games=90, losses=90, returns=-90.0),
        Row("kuhn_poker", 1, second, first): Results(games=90, wins=90, returns=90.0),
        Row("kuhn_poker", 1, first, second): Results(games=10, wins=10, returns=20.0),
        Row("kuhn_poker", 0, second, first): Results(games=10, losses=10, returns=-20.0),
        Row("other", 0, first, second): Results(games=10, wins=10, returns=100.0),
        Row("kuhn_poker", 0, LEARNER, second): Results(games=10, wins=10, returns=100.0),
    }
    game = member_payoffs(Payoffs(rows), MEMBERS[:3], {"kuhn_poker": 1.0})
    assert game.payoffs[0].tolist() == [[0, 0.5, 0], [-0.5, 0, 0], [0, 0, 0]]
    assert (
        game.counts[0, 1] == game.counts[1, 0] == 100
        and game.wins[0, 1] == pytest.approx(0.1)
        and game.wins[0, 2] == 0.5
    )


def sided(first, games=10, noise=0.0):
    rows = {}
    for i, player in enumerate(MEMBERS[: len(first)]):
        for j, opponent in enumerate(MEMBERS[: len(first)]):
            rows[Row("kuhn_poker", 0, player, opponent)] = Results(
                games=games, draws=games, returns=games * first[i][j]
            )
            rows[Row("kuhn_poker", 1, opponent, player)] = Results(
                games=games, draws=games, returns=-games * (first[i][j] - noise)
            )
    return Payoffs(rows)


def shares_by_side(payoffs, count=3000, **options):
    by_side = {0: [], 1: []}
    for number in range(count):
        seats = meta_strategy(match_request(2, number=number, members=MEMBERS[:2], payoffs=payoffs), **options).seats
        side = next(seat for seat, who in enumerate(seats) if who != LEARNER)
        by_side[side].append(seats[side])
    return [[by_side[side].count(member) / len(by_side[side]) for member in MEMBERS[:2]] for side in (0, 1)]


def test_sides_that_are_apart_have_a_distribution_each():
    """Side 0 earns 3, 0 / 1, 2: it is even for side 1 where 3p + 1(1 - p) = 2(1 - p), and for side 0 where 3q = q + 2(1 - q)."""
    first, second = shares_by_side(sided([[3, 0], [1, 2]]), sides="apart")
    assert first == pytest.approx([1 / 4, 3 / 4], abs=0.04) and second == pytest.approx([1 / 2, 1 / 2], abs=0.04)
    together = shares_by_side(sided([[3, 0], [1, 2]]))
    assert together[0] == together[1] == [0, 1]  # as whole players the second earns (1 - 0) / 2 from the first


def test_what_two_opposed_sides_earn_is_taken_as_opposed_and_else_as_it_is():
    """A forfeit pays the other side nothing: the sum is not 0."""
    assert shares_by_side(sided([[3, 0], [1, 2]], noise=0.5), sides="apart")[0] == pytest.approx(
        [1 / 4, 3 / 4], abs=0.04
    )
    rows = sided([[2, 0], [0, 1]]).rows
    common = {
        row: Results(games=10, returns=results.returns * (1 if row.seat == 0 else -1)) for row, results in rows.items()
    }
    game = side_payoffs(Payoffs(common), MEMBERS[:2], "kuhn_poker", (0, 1), opposed=False)
    assert (
        (game.payoffs[0] == [[2, 0], [0, 1]]).all()
        and (game.payoffs[1] == game.payoffs[0]).all()
        and not game.symmetric
    )


def test_where_the_sides_are_alike_apart_is_together():
    game = side_payoffs(book(LOSSES), MEMBERS, "kuhn_poker", (0, 1), opposed=True)
    assert game.payoffs[0] == pytest.approx(member_payoffs(book(LOSSES), MEMBERS, {"kuhn_poker": 1.0}).payoffs[0])
    plain, apart = (shares(solver="max_entropy_nash", count=300, sides=sides) for sides in ("together", "apart"))
    assert plain == apart


def test_apart_is_for_two_sides_without_by():
    with pytest.raises(ConfigError, match="two sides, without by; 'kuhn_poker' has 3"):
        meta_strategy(match_request(3, number=0, members=MEMBERS), solver="uniform", sides="apart")
    with pytest.raises(ConfigError, match="by is"):
        meta_strategy(request(0), by=["main"], sides="apart")
