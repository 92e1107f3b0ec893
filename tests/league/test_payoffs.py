import dataclasses
import gc
import itertools
import json
import math
import weakref
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.core.errors import CheckpointError, GameError
from sparring.core.records import LEARNER, Episode, bot, refs, snapshot
from sparring.engine.local import LocalEngine
from sparring.environments.base import sides_of, teams_of
from sparring.environments.catalogue import make_game
from sparring.league.payoffs import IdentityKey, Payoffs, Results, Row
from sparring.ops.statistics import mean_interval, student_quantile, wilson_ends, wilson_interval
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

OLD, NEW, BOT = snapshot(10), snapshot(20), bot("random")


NEXT_GROUP = itertools.count(10**6)


def played(players, returns, *, game="kuhn_poker", forfeited_by=None, cut=False, group=None):
    """Return an episode; without ``group`` it is alone in its group."""
    return Episode(
        episode_id=0, group_id=next(NEXT_GROUP) if group is None else group, game=game, seed=0, roles=("r",) * len(returns), agents=tuple(map(str, players)), trained=(True,) * len(returns),
        turns=(), returns=returns, forfeited_by=forfeited_by, cut=cut, players=tuple(players),
    )  # fmt: skip


def row(seat, player, opponent, game="kuhn_poker"):
    return Row(game, seat, player, opponent)


def numbers(results):
    return results.games, results.wins, results.draws, results.losses, results.returns


def counted(book):
    return {row[1:]: numbers(results) for row, results in book.rows.items()}


def test_two_seats_by_hand():
    book = Payoffs().after(
        [played((LEARNER, OLD), (2.0, -2.0)), played((LEARNER, OLD), (-1.0, 1.0)), played((OLD, LEARNER), (0.0, 0.0))]
    )
    assert counted(book) == {
        (0, LEARNER, OLD): (2, 1, 0, 1, 1.0),
        (1, OLD, LEARNER): (2, 1, 0, 1, -1.0),
        (0, OLD, LEARNER): (1, 0, 1, 0, 0.0),
        (1, LEARNER, OLD): (1, 0, 1, 0, 0.0),
    }
    assert numbers(book.results(LEARNER, OLD)) == (3, 1, 1, 1, 1.0)
    assert numbers(book.results(LEARNER, OLD, seat=1)) == (1, 0, 1, 0, 0.0)
    assert book.results(LEARNER, NEW) == Results() == book.results(LEARNER, OLD, environment="nim")


def test_the_learner_against_itself_has_both_results():
    assert counted(Payoffs().after([played((LEARNER, LEARNER), (1.0, -1.0))])) == {
        (0, LEARNER, LEARNER): (1, 1, 0, 0, 1.0),
        (1, LEARNER, LEARNER): (1, 0, 0, 1, -1.0),
    }


def test_of_three_seats_every_pair_has_a_result():
    book = Payoffs().after([played((LEARNER, OLD, OLD), (1.0, 3.0, -4.0))])
    assert counted(book) == {
        (0, LEARNER, OLD): (2, 1, 0, 1, 2.0),  # lost to the one, won against the other
        (1, OLD, LEARNER): (1, 1, 0, 0, 3.0),
        (1, OLD, OLD): (1, 1, 0, 0, 3.0),
        (2, OLD, LEARNER): (1, 0, 0, 1, -4.0),
        (2, OLD, OLD): (1, 0, 0, 1, -4.0),
    }


def test_a_forfeit_is_a_loss_to_all_and_says_nothing_of_the_others():
    book = Payoffs().after([played((LEARNER, OLD, BOT), (0.0, 0.5, -0.5), forfeited_by=0)])
    assert counted(book) == {
        (0, LEARNER, OLD): (1, 0, 0, 1, 0.0),
        (0, LEARNER, BOT): (1, 0, 0, 1, 0.0),
        (1, OLD, LEARNER): (1, 1, 0, 0, 0.5),
        (2, BOT, LEARNER): (1, 1, 0, 0, -0.5),
    }


def test_a_play_that_was_cut_counts_for_nobody():
    assert Payoffs().after([played((LEARNER, OLD), (2.0, -2.0), cut=True)]) == Payoffs()


TEAMS = {"bridge": (0, 1, 0, 1)}


def test_a_team_has_one_result():
    book = Payoffs().after([played((LEARNER, OLD, LEARNER, OLD), (1.0, -1.0, 3.0, -3.0), game="bridge")], TEAMS)
    assert counted(book) == {(0, LEARNER, OLD): (1, 1, 0, 0, 2.0), (1, OLD, LEARNER): (1, 0, 0, 1, -2.0)}


def test_each_player_of_a_team_has_its_result_and_team_mates_have_none_of_each_other():
    book = Payoffs().after(
        [played((LEARNER, OLD, NEW, OLD), (1.0, 0.0, 1.0, 0.0), game="bridge", forfeited_by=3)], TEAMS
    )
    assert counted(book) == {
        (0, LEARNER, OLD): (1, 1, 0, 0, 1.0),
        (0, NEW, OLD): (1, 1, 0, 0, 1.0),
        (1, OLD, LEARNER): (1, 0, 0, 1, 0.0),
        (1, OLD, NEW): (1, 0, 0, 1, 0.0),
    }


def test_where_all_are_one_team_nobody_wins():
    book = Payoffs().after([played((LEARNER, OLD), (5.0, 5.0), game="hanabi", forfeited_by=1)], {"hanabi": (0, 0)})
    assert counted(book) == {(0, LEARNER, OLD): (1, 0, 0, 0, 5.0), (1, OLD, LEARNER): (1, 0, 0, 0, 5.0)}
    assert book.results(LEARNER, OLD).win_rate() == book.results(LEARNER, OLD).win_rate(prior=3.0) == 0.5
    assert Payoffs().after([played((LEARNER,), (5.0,), game="sudoku")], {"sudoku": (0,)}) == Payoffs()


def test_returns_that_differ_in_their_last_bits_are_a_draw():
    assert numbers(Payoffs().after([played((LEARNER, OLD), (0.1 + 0.2, 0.3))]).results(LEARNER, OLD))[1:4] == (0, 1, 0)
    assert numbers(Payoffs().after([played((LEARNER, OLD), (0.301, 0.3))]).results(LEARNER, OLD))[1:4] == (1, 0, 0)


def test_the_rate_of_wins_by_hand():
    results = Results(games=4, wins=2, draws=1, losses=1)
    assert results.win_rate() == 2.5 / 4
    assert results.win_rate(prior=2.0) == 3.5 / 6
    assert Results().win_rate() == 0.5


@pytest.mark.parametrize("numbers", [(3, 1), (0, 5), (7, 0), (20, 20)])
def test_without_draws_the_interval_of_the_rate_is_wilsons(numbers):
    wins, losses = numbers
    known = wilson_interval(wins, wins + losses)
    assert Results(games=wins + losses, wins=wins, losses=losses).rate_interval() == (known.low, known.high)


def test_a_draw_is_half_a_win_in_the_interval_and_nothing_decided_says_nothing():
    assert Results(games=4, draws=4).rate_interval() == Results(games=4, wins=2, losses=2).rate_interval()
    assert Results().rate_interval() == Results(games=3, returns=2.0).rate_interval() == (0.0, 1.0)
    assert (Results().mean_return, Results(games=4, returns=2.0).mean_return) == (0.0, 0.5)


def test_old_results_count_less_by_hand():
    """A win, then a step with a loss, then one with nothing: weights 0.5 * 0.5 and 0.5."""
    pair = (LEARNER, OLD)
    book = (
        Payoffs()
        .after([played(pair, (1.0, -1.0))], decay=0.5)
        .after([played(pair, (-1.0, 1.0))], decay=0.5)
        .after([], decay=0.5)
    )
    assert book.results(*pair) == Results(games=0.75, wins=0.25, losses=0.5, returns=-0.25, squares=0.75)
    assert book.results(OLD, LEARNER) == Results(games=0.75, wins=0.5, losses=0.25, returns=0.25, squares=0.75)
    assert Payoffs.from_json(json.loads(json.dumps(book.to_json()))) == book


def test_exact_results_stay_as_plays_come_and_as_time_goes():
    exact = {Row("kuhn_poker", 0, OLD, NEW): Results(games=1, wins=0.25, losses=0.75, returns=-0.5, exact=True)}
    plays = [played((OLD, NEW), (1.0, -1.0)), played((LEARNER, OLD), (1.0, -1.0))]
    book = Payoffs().after(plays).with_exact(exact).after(plays, decay=0.5)
    assert counted(book) == {
        (0, OLD, NEW): (1, 0.25, 0, 0.75, -0.5),
        (1, NEW, OLD): (1.5, 0, 0, 1.5, -1.5),
        (0, LEARNER, OLD): (1.5, 1.5, 0, 0, 1.5),
        (1, OLD, LEARNER): (1.5, 0, 0, 1.5, -1.5),
    }
    assert book.results(OLD, NEW).exact and book.results(OLD, NEW).rate_interval() == (0.25, 0.25)
    assert Payoffs.from_json(json.loads(json.dumps(book.to_json()))) == book


def test_the_interval_of_the_mean_return_is_students_by_hand():
    """Returns 2, -1, 0, 1: their mean is 0.5, their variance 5/3; t with 3 degrees of freedom is 3.1824."""
    plays = [played((LEARNER, OLD), (pay, -pay)) for pay in (2.0, -1.0, 0.0, 1.0)]
    for split in range(4):
        book = Payoffs.from_json(json.loads(json.dumps(Payoffs().after(plays[:split]).to_json()))).after(plays[split:])
        results = book.results(LEARNER, OLD)
        assert results.squares == 6.0 and results.deviation == pytest.approx((5 / 3) ** 0.5)
        assert results.return_interval() == pytest.approx(
            (0.5 - 3.18245 * (5 / 12) ** 0.5, 0.5 + 3.18245 * (5 / 12) ** 0.5), rel=1e-5
        )
        low, high = book.results(OLD, LEARNER).return_interval()
        assert (-high, -low) == pytest.approx(results.return_interval())
    known = mean_interval([2.0, -1.0, 0.0, 1.0])
    assert results.return_interval() == pytest.approx((known.low, known.high))
    assert Payoffs().after(plays[:1]).results(LEARNER, OLD).return_interval() is Results().return_interval() is None


def test_a_book_of_before_squares_were_summed_is_read_and_has_no_such_interval():
    old = {
        "kuhn_poker": [
            {
                "seat": 0,
                "player": LEARNER.to_json(),
                "opponent": OLD.to_json(),
                "games": 2,
                "wins": 1,
                "draws": 0,
                "losses": 1,
                "returns": 0.0,
            }
        ]
    }
    book = Payoffs.from_json(old)
    assert book.to_json() == old and book.results(LEARNER, OLD).return_interval() is None
    more = book.after([played((LEARNER, OLD), (1.0, -1.0))], decay=0.5)
    assert more.results(LEARNER, OLD).return_interval() is None and more.results(LEARNER, OLD).games == 2
    assert more.results(OLD, LEARNER).squares == 1.0 and Payoffs.from_json(more.to_json()) == more


GROUPED = [((LEARNER, OLD), (pay, -pay), group) for pay, group in ((2.0, 7), (1.0, 7), (-1.0, 8), (-2.0, 8), (3.0, 9))]


def test_plays_of_one_group_count_as_one_of_what_is_independent_by_hand():
    """Sums 3, -3, 3 of groups of 2, 2 and 1 plays; mean 3/5, so that S - r n is 9/5, -21/5, 12/5; t with 2 degrees is 4.30265.

    Wins 2, 0, 1 of 5: p = 3/5 and W - p n is 4/5, -6/5, 2/5, whose squares sum to 56/25; of plays the sum is 6/5. The design effect
    is then (3/2 * 56/25) / (5/4 * 6/5) = 2.24.
    """
    plays = [played(players, returns, group=group) for players, returns, group in GROUPED]
    results = Payoffs().after(plays).results(LEARNER, OLD)
    half = 4.30265 * math.sqrt(1.5 * (1.8**2 + 4.2**2 + 2.4**2)) / 5
    assert results.return_interval() == pytest.approx((0.6 - half, 0.6 + half), rel=1e-5)
    assert results.rate_interval() == pytest.approx(
        wilson_ends(0.6, 5 / 2.24 * (2.77645 / 4.30265) ** 2, 0.95), rel=1e-5
    )
    assert results.deviation == pytest.approx(np.std([2, 1, -1, -2, 3], ddof=1))


def test_a_step_of_groups_after_one_of_single_plays_is_as_both_together():
    single = [played((LEARNER, OLD), (pay, -pay)) for pay in (1.0, 2.0, -2.0)]
    plays = [played(players, returns, group=100 + group) for players, returns, group in GROUPED]
    both = Payoffs().after(single).after(plays)
    again = Payoffs.from_json(json.loads(json.dumps(both.to_json())))
    assert again == both and again.results(LEARNER, OLD) == Payoffs().after(plays + single).results(LEARNER, OLD)
    apart = Payoffs().after(single).results(LEARNER, OLD) + Payoffs().after(plays).results(LEARNER, OLD)
    assert apart == both.results(LEARNER, OLD)
    faded = Payoffs().after(plays).after([], decay=0.5).results(LEARNER, OLD).return_groups
    assert (faded.count, faded.sizes, faded.products, faded.squares) == (1.5, 4.5, 1.5, 13.5)


def test_groups_of_one_play_have_the_intervals_and_the_record_of_independent_plays():
    returns = (2.0, -1.0, 0.0, 1.0, -2.0, 1.0)
    plain = Payoffs().after([played((LEARNER, OLD), (pay, -pay)) for pay in returns]).results(LEARNER, OLD)
    assert plain.return_groups is plain.win_groups is None and "groups" not in json.dumps(plain.to_json())
    as_groups = dataclasses.replace(plain, return_groups=plain.sums_of_returns(), win_groups=plain.sums_of_wins())
    assert as_groups.return_interval() == pytest.approx(plain.return_interval())
    assert as_groups.rate_interval() == pytest.approx(plain.rate_interval())


def test_one_group_says_nothing_and_groups_that_all_ended_alike_count_as_one_play_each():
    alone = Payoffs().after([played((LEARNER, OLD), (1.0, -1.0), group=1) for _ in range(32)]).results(LEARNER, OLD)
    assert (alone.return_interval(), alone.rate_interval()) == (None, (0.0, 1.0))
    won = (
        Payoffs()
        .after([played((LEARNER, OLD), (1.0, -1.0), group=place // 4) for place in range(16)])
        .results(LEARNER, OLD)
    )
    fewer = (student_quantile(15) / student_quantile(3)) ** 2
    assert won.rate_interval() == pytest.approx(wilson_ends(1.0, 4 * fewer, 0.95))
    barely = dataclasses.replace(won, draws=1, win_groups=dataclasses.replace(won.sums_of_wins(), count=1.001))
    assert barely.rate_interval() == (0.0, 1.0)  # a thousandth of a degree of freedom
    both = (
        Payoffs()
        .after([played((LEARNER, OLD), (5.0, 5.0), game="hanabi", group=1)] * 3, {"hanabi": (0, 0)})
        .results(LEARNER, OLD)
    )
    assert both.rate_interval() == (0.0, 1.0)


def test_a_player_in_two_seats_of_a_play_has_one_independent_result():
    plays = [played((LEARNER, OLD, OLD), (pay, -pay / 2, -pay / 2)) for pay in (1.0, -1.0, 2.0)]
    results = Payoffs().after(plays).results(LEARNER, OLD)
    known = mean_interval([1.0, -1.0, 2.0])
    assert results.games == 6 and results.return_interval() == pytest.approx((known.low, known.high))


def test_rows_of_snapshots_that_left_leave_with_them():
    book = Payoffs().after(
        [played((LEARNER, OLD), (1.0, -1.0)), played((OLD, NEW), (1.0, -1.0)), played((LEARNER, BOT), (1.0, -1.0))]
    )
    assert {player for row in book.restricted_to([NEW]).rows for player in row[2:]} == {LEARNER, BOT}
    assert book.restricted_to([OLD, NEW]) == book
    assert len(book.rows) == 6  # as it was


PLAYERS = st.sampled_from((LEARNER, OLD, NEW, BOT))
PLAYS = st.lists(
    st.builds(
        lambda players, returns, forfeited_by, cut, game: played(
            players[: len(returns)],
            returns,
            forfeited_by=forfeited_by if forfeited_by in range(len(returns)) else None,
            cut=cut,
            game=game,
        ),
        st.tuples(PLAYERS, PLAYERS, PLAYERS, PLAYERS),
        st.lists(st.sampled_from((-1.0, 0.0, 0.5)), min_size=1, max_size=4).map(tuple),
        st.none() | st.integers(0, 3),
        st.booleans(),
        st.sampled_from(("kuhn_poker", "nim")),
    ),
    max_size=12,
)


@given(plays=PLAYS, split=st.integers(0, 12))
def test_wins_are_losses_of_others_and_nothing_depends_on_where_it_was_saved(plays, split):
    book = Payoffs().after(plays)
    for game in ("kuhn_poker", "nim"):
        for pair in itertools.product((LEARNER, OLD, NEW, BOT), repeat=2):
            ours, theirs = (book.results(*players, environment=game) for players in (pair, pair[::-1]))
            assert ours.games == ours.wins + ours.draws + ours.losses == theirs.games
            assert (ours.wins, ours.draws, ours.losses) == (theirs.losses, theirs.draws, theirs.wins)
    half = Payoffs.from_json(json.loads(json.dumps(Payoffs().after(plays[:split]).to_json())))
    assert half == Payoffs().after(plays[:split])
    assert json.dumps(half.after(plays[split:]).to_json()) == json.dumps(book.to_json())


@given(steps=st.lists(PLAYS, max_size=4), decay=st.floats(0.01, 0.99))
def test_a_book_that_forgets_is_the_weighted_sum_of_its_steps(steps, decay):
    plain = forgetting = Payoffs()
    for plays in steps:
        plain, forgetting = plain.after(plays, decay=0.0), forgetting.after(plays, decay=decay)
    assert json.dumps(plain.to_json()) == json.dumps(
        Payoffs().after([play for plays in steps for play in plays]).to_json()
    )
    for row, results in forgetting.rows.items():
        parts = [Payoffs().after(plays).rows.get(row, Results()) for plays in steps]
        weights = [(1 - decay) ** age for age in range(len(steps))][::-1]
        for name in ("games", "wins", "draws", "losses", "returns", "squares"):
            assert getattr(results, name) == pytest.approx(
                sum(w * getattr(part, name) for w, part in zip(weights, parts, strict=True))
            )
        low, high = results.rate_interval()
        assert 0 <= low <= results.win_rate() <= high <= 1
    assert set(forgetting.rows) == set(plain.rows)


ROW = {
    "seat": 0,
    "player": {"kind": "learner"},
    "opponent": {"kind": "learner"},
    "games": 1,
    "wins": 1,
    "draws": 0,
    "losses": 0,
    "returns": 1.0,
}
DAMAGED = [
    {"games": -1},
    {"wins": -1},
    {"draws": 0.5},
    {"losses": True},
    {"games": float("inf")},
    {"returns": float("nan")},
    {"returns": "1"},
    {"squares": -1.0},
    {"squares": "1"},
    {"player": "learner"},
    {"opponent": {"kind": "king"}},
    {"x": 1},
    {"exact": 1},
]


@pytest.mark.parametrize(
    "book", [{"kuhn_poker": [{**ROW, **change}]} for change in DAMAGED] + [{"kuhn_poker": 3}, {"kuhn_poker": [{}]}]
)
def test_a_book_that_cannot_be_read_is_refused(book):
    assert Payoffs.from_json({"kuhn_poker": [ROW]}).results(LEARNER, LEARNER).wins == 1
    with pytest.raises(CheckpointError, match="payoff book cannot be read"):
        Payoffs.from_json(book)


RUN = {
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "steps": 4,
    "threads": 1,
    "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"random": 0.5}},
}


def test_a_run_with_decay_forgets_and_one_without_does_not():
    """Two steps of 16 plays with itself: each play counts for both seats."""
    games = {}
    for decay in (0.0, 0.25):
        config = resolve({**RUN, "matchmaker": {"name": "mirror"}, "league": {"payoff_decay": decay}})
        engine, methods, state = LocalEngine(config), Methods.of(config), RunState()
        for _ in range(2):
            state = play_round(config, engine, methods, state).state
        games[decay] = state.payoffs.results(LEARNER, LEARNER).games
    assert games == {0.0: 64, 0.25: 32 * 0.75 + 32}


def test_a_run_fills_its_book_with_every_play_of_every_step():
    config = resolve(RUN)
    engine, methods, state, book = LocalEngine(config), Methods.of(config), RunState(), Payoffs()
    for _ in range(2):
        result = play_round(config, engine, methods, state)
        state, book = result.state, book.after(result.episodes)
        assert state.payoffs == book
    games = book.results(LEARNER, BOT).games
    assert 0 < games < 32 and games + book.results(LEARNER, LEARNER).games / 2 == 32


def test_teams_are_the_environments_own_or_all_of_a_cooperative_one():
    assert teams_of(make_game("kuhn_poker", options={"players": 3})) == (0, 1, 2)
    assert teams_of(make_game("tiny_hanabi")) == (0, 0)

    class Bridge:
        name, num_seats, cooperative, teams = "bridge", 4, False, ("we", "they", "we", "they")

    assert teams_of(Bridge()) == (0, 1, 0, 1)
    assert sides_of((0, 1, 0, 1)) == ((0, 2), (1, 3))
    Bridge.teams = ("we", "they")
    with pytest.raises(GameError, match="must name a team for each of its 4 seats"):
        teams_of(Bridge())


def test_players_of_old_records_count_by_their_names():
    episode = Episode(
        episode_id=0, group_id=0, game="nim", seed=0, roles=("a", "b"), agents=("learner", "past-000010"), trained=(True, False), turns=(),
        returns=(1.0, -1.0),
    )  # fmt: skip
    assert episode.players == refs(("learner", "past-000010"))
    assert Payoffs().after([episode]).results(LEARNER, OLD).wins == 1


def test_the_same_object_is_one_key_and_an_equal_one_is_another():
    first, equal, calls = [1], [1], []
    cached = lru_cache(lambda key: calls.append(key.value) or len(calls))
    assert [cached(IdentityKey(first)), cached(IdentityKey(first)), cached(IdentityKey(equal))] == [1, 1, 2]
    assert IdentityKey(first) != first


def test_what_is_held_is_kept_so_that_no_other_object_gets_its_place():
    class Thing:
        pass

    thing = Thing()
    seen, key = weakref.ref(thing), IdentityKey(thing)
    del thing
    gc.collect()
    assert seen() is key.value
