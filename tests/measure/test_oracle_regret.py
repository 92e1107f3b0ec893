from functools import lru_cache

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.matches import play_matches
from sparring.measure.oracle_regret import BUDGET, Judge, measured_regret, without_faults
from sparring.play.players.base import TextAgent


class FixedWords(TextAgent):
    def __init__(self, *words):
        super().__init__("scripted")
        self.words = words

    def choose(self, state, seat, stream):
        return self.words[state.plies // state.game.num_seats % len(self.words)]


def bound(slot, name, **options):
    return registry.bind(slot, name, options)()


def nim(*sizes, **illegal):
    return make_game("nim", options={"pile_sizes": ";".join(map(str, sizes)), "is_misere": False}, illegal=illegal)


def measured(game, agent, opponent=None, *, oracle=None, games=5, budget=BUDGET, seed=0, level=0.95):
    judge = Judge(oracle=oracle or bound("oracles", "minimax"), budget=budget)
    opponent = opponent or bound("players", "random")
    stream = Stream.from_seed(seed)
    return play_matches(game, agent, opponent, games_per_seat=games, stream=stream, level=level, judge=judge).seats


class AbstainingOracle:
    name = "abstaining"

    def __init__(self, oracle):
        self.oracle, self.seats = oracle, []

    def covers(self, game):
        return self.oracle.covers(game)

    def judge(self, states, streams=None):
        self.seats += [state.seat for state in states]
        return [v if v is not None and len(v.actions) > 1 else None for v in self.oracle.judge(states, streams)]


def test_a_game_worked_out_by_hand():
    # piles 1 and 2: only b1 wins, so a1 loses 2; the answer b1 leaves one stone, and taking it is all there is
    first, second = (seat.regret for seat in measured(nim(1, 2), FixedWords("a1", "b1"), FixedWords("b1", "b1")))
    assert (first.oracle, first.turns, first.submitted, first.judged, first.judged_share, first.bound) == (
        "minimax",
        10,
        10,
        10,
        1.0,
        0.0,
    )
    assert (first.regret.mean, first.regret.low, first.regret.high, first.regret.count) == (
        1.0,
        1.0,
        1.0,
        10,
    )  # 2 and 0 in every game
    assert (first.optimal.mean, first.optimal.count) == (0.5, 10)
    # as second seat: the opponent's b1 leaves piles 1 and 1, where a1 is as good as anything; then the opponent has the last stone
    assert (second.turns, second.judged, second.regret.mean, second.optimal.mean) == (5, 5, 0.0, 1.0)
    assert (second.optimal.low, second.optimal.high) == (
        pytest.approx(1 / (1 + 2.7764451**2 / 5)),
        1.0,
    )  # t of 4 degrees of freedom


def test_a_perfect_player_loses_nothing_and_the_share_keeps_an_interval():
    for seat in measured(nim(2, 3), bound("players", "minimax"), games=20):
        assert (seat.regret.regret.mean, seat.regret.optimal.mean) == (0.0, 1.0)
        assert seat.regret.optimal.low < 0.9


@lru_cache
def value(piles):
    """Return what the seat to act gets under best play; who takes the last stone wins."""
    return max((-value(rest) for rest in moves(piles)), default=-1)


def moves(piles):
    return [(*piles[:i], rest, *piles[i + 1 :]) for i, size in enumerate(piles) for rest in range(size)]


@lru_cache
def uniform(piles, mine):
    """Return the expected regret, optimal moves and turns of one seat if both play at random, by enumeration."""
    options = moves(piles)
    now = [(value(piles) + value(rest), value(rest) == -value(piles), 1) if mine else (0, 0, 0) for rest in options]
    after = [uniform(rest, not mine) for rest in options]
    return tuple(
        sum(a[k] + b[k] for a, b in zip(now, after, strict=True)) / len(options) if options else 0.0 for k in range(3)
    )


@pytest.mark.parametrize("seat", [0, 1])
def test_uniform_play_has_the_regret_that_enumeration_says(seat):
    lost, best, turns = uniform((2, 3), seat == 0)
    player, oracle = bound("players", "random"), bound("oracles", "minimax")
    inside = 0
    for seed in range(12):
        seat_regret = measured(nim(2, 3), player, oracle=oracle, games=150, seed=seed)[seat].regret
        inside += seat_regret.regret.low <= lost / turns <= seat_regret.regret.high
        inside += seat_regret.optimal.low <= best / turns <= seat_regret.optimal.high
    assert inside >= 20  # of 24; 22.8 expected, and below 20 once in 40
    assert seat_regret.regret.high - seat_regret.regret.low < 0.4
    assert seat_regret.regret.mean == pytest.approx(lost / turns, abs=0.2)


def test_illegal_replies_are_judged_as_the_worst_legal_action():
    game = nim(1, 2, rule="retry", retries=1)
    seats = measured(game, FixedWords("zzz"), FixedWords("b1", "b1"))
    assert seats[0].regret.turns == seats[0].regret.judged
    assert seats[0].regret.optimal.mean == 0.0
    assert seats[0].regret.regret.mean > 0
    (lost,) = {measured(nim(1, 2), FixedWords("zzz"), games=2)[0].regret.regret.mean}
    assert lost == 2.0


def test_abstentions_are_counted_and_left_out():
    oracle = AbstainingOracle(bound("oracles", "minimax"))
    first, second = (
        seat.regret for seat in measured(nim(1, 2), FixedWords("a1", "b1"), FixedWords("b1", "b1"), oracle=oracle)
    )
    assert (first.turns, first.submitted, first.judged, first.judged_share) == (10, 10, 5, 0.5)
    assert (first.regret.mean, first.optimal.mean) == (2.0, 0.0)
    assert second.judged == 5
    assert sorted(oracle.seats) == [0] * 10 + [1] * 5  # nothing about the opponent's turns


def test_nothing_judged_is_nothing_known_and_not_0():
    oracle = bound("oracles", "minimax", max_states=1)
    partly = measured(nim(3, 4), bound("players", "random"), oracle=oracle, games=2)[0].regret
    assert partly.judged < partly.turns
    blind = measured(nim(1, 2), FixedWords("a1", "b1"), FixedWords("b1"), oracle=BlindOracle())[0].regret
    assert (blind.judged, blind.judged_share, blind.regret, blind.optimal) == (0, 0.0, None, None)


class BlindOracle(AbstainingOracle):
    def __init__(self):
        super().__init__(bound("oracles", "minimax"))

    def judge(self, states, streams=None):
        return [None] * len(states)


@pytest.mark.parametrize(("budget", "count"), [(1, 2), (2, 2), (5, 4), (100, 10)])
def test_the_budget_bounds_what_is_asked_by_whole_games(budget, count):
    result = measured(nim(1, 2), FixedWords("a1", "b1"), FixedWords("b1", "b1"), budget=budget)[0].regret
    assert (result.turns, result.submitted, result.judged) == (10, count, count)
    assert result.judged_share == count / 10
    assert result.regret.mean == 1.0


def test_seeds_bind_and_a_longer_match_judges_the_same_games_first():
    player = bound("players", "random")
    first, again, other = (measured(nim(2, 3), player, games=30, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    short = measured(nim(2, 3), player, games=30, seed=1, budget=20)[0].regret
    long = measured(nim(2, 3), player, games=60, seed=1, budget=20)[0].regret
    assert (short.regret, short.optimal) == (long.regret, long.optimal)


def test_no_interval_of_regret_reaches_below_0():
    intervals = [
        measured(nim(2, 3), bound("players", "random"), games=3, seed=seed)[0].regret.regret for seed in range(10)
    ]
    assert min(interval.low for interval in intervals) == 0.0
    assert any(interval.low == 0.0 < interval.mean for interval in intervals)


def test_games_of_one_seat_say_whether_they_succeeded():
    game = make_game("sudoku", options={"size": 4})
    oracle = bound("oracles", "constraint")
    (random,) = measured(game, bound("players", "random"), oracle=oracle, games=20)
    assert random.success.mean < 1 and random.success.count == 20
    (right,) = measured(game, OracleFollower(oracle), oracle=oracle, games=4)
    assert (right.success.mean, right.regret.optimal.mean, right.regret.regret.mean) == (1.0, 1.0, 0.0)
    assert measured(nim(1, 2), FixedWords("a1"))[0].success is None


class OracleFollower(TextAgent):
    def __init__(self, oracle):
        super().__init__("solving")
        self.oracle = oracle

    def choose(self, state, seat, stream):
        (verdict,) = self.oracle.judge([state])
        return min(verdict.best)


def test_what_measures_has_no_faults():
    noisy = bound("oracles", "noisy", oracle="minimax", flip=0.5)
    assert without_faults(noisy).name == "minimax"
    assert without_faults(noisy.oracle) is noisy.oracle


def test_an_oracle_that_does_not_cover_the_game_is_refused():
    with pytest.raises(OracleError, match="cannot judge"):
        measured(make_game("kuhn_poker"), bound("players", "random"), games=2)


def test_no_games_have_no_regret():
    result = measured_regret(nim(1, 2), [], "agent", Judge(oracle=bound("oracles", "minimax")))
    assert (result.turns, result.judged, result.judged_share, result.regret) == (0, 0, 0.0, None)
