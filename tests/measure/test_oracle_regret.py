from functools import lru_cache

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.matches import play_matches
from sparring.measure.oracle_regret import BUDGET, Judge, measure_regret, without_faults
from sparring.play.players.base import TextAgent


class FixedWords(TextAgent):
    def __init__(self, *words):
        super().__init__("scripted")
        self.words = words

    def choose(self, state, seat, stream):
        return self.words[state.plies // state.game.num_seats % len(self.words)]


def bind_plugin(slot, name, **options):
    return registry.bind(slot, name, options)()


def nim_game(*sizes, **illegal):
    return make_game("nim", options={"pile_sizes": ";".join(map(str, sizes)), "is_misere": False}, illegal=illegal)


def measure_match(game, agent, opponent=None, *, oracle=None, games=5, budget=BUDGET, seed=0, level=0.95):
    judge = Judge(oracle=oracle or bind_plugin("oracles", "minimax"), budget=budget)
    opponent = opponent or bind_plugin("players", "random")
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
        return [
            verdict if verdict is not None and len(verdict.actions) > 1 else None
            for verdict in self.oracle.judge(states, streams)
        ]


def test_regret_of_a_game_by_hand():
    # piles 1 and 2: only b1 wins, so a1 has regret 2; the reply b1 leaves one stone and one legal move
    first_seat, second_seat = (
        seat.regret for seat in measure_match(nim_game(1, 2), FixedWords("a1", "b1"), FixedWords("b1", "b1"))
    )
    assert (
        first_seat.oracle,
        first_seat.turns,
        first_seat.submitted,
        first_seat.judged,
        first_seat.judged_share,
        first_seat.bound,
    ) == (
        "minimax",
        10,
        10,
        10,
        1.0,
        0.0,
    )
    assert (first_seat.regret.mean, first_seat.regret.low, first_seat.regret.high, first_seat.regret.count) == (
        1.0,
        1.0,
        1.0,
        10,
    )  # 2 and 0 in every game
    assert (first_seat.optimal.mean, first_seat.optimal.count) == (0.5, 10)
    # as second seat: after the opponent's b1, piles 1 and 1 remain, where all moves are equal; the opponent takes the last stone
    assert (second_seat.turns, second_seat.judged, second_seat.regret.mean, second_seat.optimal.mean) == (
        5,
        5,
        0.0,
        1.0,
    )
    assert (second_seat.optimal.low, second_seat.optimal.high) == (
        pytest.approx(1 / (1 + 2.7764451**2 / 5)),
        1.0,
    )  # t of 4 degrees of freedom


def test_a_perfect_player_has_no_regret_and_its_share_has_an_interval():
    for seat in measure_match(nim_game(2, 3), bind_plugin("players", "minimax"), games=20):
        assert (seat.regret.regret.mean, seat.regret.optimal.mean) == (0.0, 1.0)
        assert seat.regret.optimal.low < 0.9


@lru_cache
def value_of(piles):
    """Return the value under best play for the seat that acts; the player who takes the last stone wins."""
    return max((-value_of(next_piles) for next_piles in piles_after_moves(piles)), default=-1)


def piles_after_moves(piles):
    return [(*piles[:i], remaining, *piles[i + 1 :]) for i, size in enumerate(piles) for remaining in range(size)]


@lru_cache
def figures_of_uniform_play(piles, is_own_turn):
    """Return the expected regret, optimal moves and turns of one seat if both play at random, by enumeration."""
    options = piles_after_moves(piles)
    own_figures = [
        (value_of(piles) + value_of(next_piles), value_of(next_piles) == -value_of(piles), 1)
        if is_own_turn
        else (0, 0, 0)
        for next_piles in options
    ]
    later_figures = [figures_of_uniform_play(next_piles, not is_own_turn) for next_piles in options]
    return tuple(
        sum(now[column] + later[column] for now, later in zip(own_figures, later_figures, strict=True)) / len(options)
        if options
        else 0.0
        for column in range(3)
    )


@pytest.mark.parametrize("seat", [0, 1])
def test_the_regret_of_uniform_play_equals_enumeration(seat):
    regret, best_share, turns = figures_of_uniform_play((2, 3), seat == 0)
    player, oracle = bind_plugin("players", "random"), bind_plugin("oracles", "minimax")
    num_covered = 0
    for seed in range(12):
        seat_regret = measure_match(nim_game(2, 3), player, oracle=oracle, games=150, seed=seed)[seat].regret
        num_covered += seat_regret.regret.low <= regret / turns <= seat_regret.regret.high
        num_covered += seat_regret.optimal.low <= best_share / turns <= seat_regret.optimal.high
    assert (
        num_covered >= 20
    )  # of 24 intervals, 22.8 are expected to contain the value; fewer than 20 has probability 1/40
    assert seat_regret.regret.high - seat_regret.regret.low < 0.4
    assert seat_regret.regret.mean == pytest.approx(regret / turns, abs=0.2)


def test_illegal_replies_have_the_regret_of_the_worst_legal_action():
    game = nim_game(1, 2, rule="retry", retries=1)
    seats = measure_match(game, FixedWords("zzz"), FixedWords("b1", "b1"))
    assert seats[0].regret.turns == seats[0].regret.judged
    assert seats[0].regret.optimal.mean == 0.0
    assert seats[0].regret.regret.mean > 0
    (regret,) = {measure_match(nim_game(1, 2), FixedWords("zzz"), games=2)[0].regret.regret.mean}
    assert regret == 2.0


def test_abstentions_are_counted_but_not_averaged():
    oracle = AbstainingOracle(bind_plugin("oracles", "minimax"))
    first_seat, second_seat = (
        seat.regret
        for seat in measure_match(nim_game(1, 2), FixedWords("a1", "b1"), FixedWords("b1", "b1"), oracle=oracle)
    )
    assert (first_seat.turns, first_seat.submitted, first_seat.judged, first_seat.judged_share) == (10, 10, 5, 0.5)
    assert (first_seat.regret.mean, first_seat.optimal.mean) == (2.0, 0.0)
    assert second_seat.judged == 5
    assert sorted(oracle.seats) == [0] * 10 + [1] * 5  # the opponent's turns are not judged


def test_without_judged_turns_regret_is_unknown_and_not_0():
    oracle = bind_plugin("oracles", "minimax", max_states=1)
    partly_judged = measure_match(nim_game(3, 4), bind_plugin("players", "random"), oracle=oracle, games=2)[0].regret
    assert partly_judged.judged < partly_judged.turns
    unjudged = measure_match(nim_game(1, 2), FixedWords("a1", "b1"), FixedWords("b1"), oracle=BlindOracle())[0].regret
    assert (unjudged.judged, unjudged.judged_share, unjudged.regret, unjudged.optimal) == (0, 0.0, None, None)


class BlindOracle(AbstainingOracle):
    def __init__(self):
        super().__init__(bind_plugin("oracles", "minimax"))

    def judge(self, states, streams=None):
        return [None] * len(states)


@pytest.mark.parametrize(("budget", "count"), [(1, 2), (2, 2), (5, 4), (100, 10)])
def test_the_budget_limits_the_number_of_judged_games(budget, count):
    result = measure_match(nim_game(1, 2), FixedWords("a1", "b1"), FixedWords("b1", "b1"), budget=budget)[0].regret
    assert (result.turns, result.submitted, result.judged) == (10, count, count)
    assert result.judged_share == count / 10
    assert result.regret.mean == 1.0


def test_games_depend_on_the_seed_and_a_longer_match_judges_the_same_games_first():
    player = bind_plugin("players", "random")
    report, repeated_report, report_of_other_seed = (
        measure_match(nim_game(2, 3), player, games=30, seed=seed) for seed in (1, 1, 2)
    )
    assert report == repeated_report != report_of_other_seed
    short_match = measure_match(nim_game(2, 3), player, games=30, seed=1, budget=20)[0].regret
    long_match = measure_match(nim_game(2, 3), player, games=60, seed=1, budget=20)[0].regret
    assert (short_match.regret, short_match.optimal) == (long_match.regret, long_match.optimal)


def test_no_interval_of_regret_reaches_below_0():
    intervals = [
        measure_match(nim_game(2, 3), bind_plugin("players", "random"), games=3, seed=seed)[0].regret.regret
        for seed in range(10)
    ]
    assert min(interval.low for interval in intervals) == 0.0
    assert any(interval.low == 0.0 < interval.mean for interval in intervals)


def test_one_seat_games_report_success():
    game = make_game("sudoku", options={"size": 4})
    oracle = bind_plugin("oracles", "constraint")
    (record,) = measure_match(game, bind_plugin("players", "random"), oracle=oracle, games=20)
    assert record.success.mean < 1 and record.success.count == 20
    (oracle_follower,) = measure_match(game, OracleFollower(oracle), oracle=oracle, games=4)
    assert (oracle_follower.success.mean, oracle_follower.regret.optimal.mean, oracle_follower.regret.regret.mean) == (
        1.0,
        1.0,
        0.0,
    )
    assert measure_match(nim_game(1, 2), FixedWords("a1"))[0].success is None


class OracleFollower(TextAgent):
    def __init__(self, oracle):
        super().__init__("solving")
        self.oracle = oracle

    def choose(self, state, seat, stream):
        (verdict,) = self.oracle.judge([state])
        return min(verdict.best)


def test_measurement_uses_the_oracle_without_noise():
    noisy_oracle = bind_plugin("oracles", "noisy", oracle="minimax", flip=0.5)
    assert without_faults(noisy_oracle).name == "minimax"
    assert without_faults(noisy_oracle.oracle) is noisy_oracle.oracle


def test_an_oracle_that_does_not_cover_the_game_is_refused():
    with pytest.raises(OracleError, match="cannot judge"):
        measure_match(make_game("kuhn_poker"), bind_plugin("players", "random"), games=2)


def test_no_games_have_no_regret():
    result = measure_regret(nim_game(1, 2), [], "agent", Judge(oracle=bind_plugin("oracles", "minimax")))
    assert (result.turns, result.judged, result.judged_share, result.regret) == (0, 0, 0.0, None)
