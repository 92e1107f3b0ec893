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
from sparring.environments.base import seats_by_team, teams_of
from sparring.environments.catalogue import make_game
from sparring.league.payoffs import IdentityKey, Payoffs, Results, RowKey
from sparring.ops.statistics import mean_interval, student_quantile, wilson_ends, wilson_interval
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

SNAPSHOT, NEWER_SNAPSHOT, BOT = snapshot(10), snapshot(20), bot("random")


NEXT_GROUP = itertools.count(10**6)


def episode_of(players, returns, *, game="kuhn_poker", forfeited_by=None, cut=False, group=None):
    """Return an episode; without ``group`` it is the only one of its group."""
    return Episode(
        episode_id=0, group_id=next(NEXT_GROUP) if group is None else group, game=game, seed=0, roles=("r",) * len(returns), agents=tuple(map(str, players)), trained=(True,) * len(returns),
        turns=(), returns=returns, forfeited_by=forfeited_by, cut=cut, players=tuple(players),
    )  # fmt: skip


def book_row(seat, player, opponent, game="kuhn_poker"):
    return RowKey(game, seat, player, opponent)


def counts_of(results):
    return results.games, results.wins, results.draws, results.losses, results.returns


def counts_by_row(book):
    return {row[1:]: counts_of(results) for row, results in book.rows.items()}


def test_results_of_two_seats_by_hand():
    book = Payoffs().with_episodes(
        [
            episode_of((LEARNER, SNAPSHOT), (2.0, -2.0)),
            episode_of((LEARNER, SNAPSHOT), (-1.0, 1.0)),
            episode_of((SNAPSHOT, LEARNER), (0.0, 0.0)),
        ]
    )
    assert counts_by_row(book) == {
        (0, LEARNER, SNAPSHOT): (2, 1, 0, 1, 1.0),
        (1, SNAPSHOT, LEARNER): (2, 1, 0, 1, -1.0),
        (0, SNAPSHOT, LEARNER): (1, 0, 1, 0, 0.0),
        (1, LEARNER, SNAPSHOT): (1, 0, 1, 0, 0.0),
    }
    assert counts_of(book.results(LEARNER, SNAPSHOT)) == (3, 1, 1, 1, 1.0)
    assert counts_of(book.results(LEARNER, SNAPSHOT, seat=1)) == (1, 0, 1, 0, 0.0)
    assert book.results(LEARNER, NEWER_SNAPSHOT) == Results() == book.results(LEARNER, SNAPSHOT, environment="nim")


def test_self_play_counts_a_win_and_a_loss():
    assert counts_by_row(Payoffs().with_episodes([episode_of((LEARNER, LEARNER), (1.0, -1.0))])) == {
        (0, LEARNER, LEARNER): (1, 1, 0, 0, 1.0),
        (1, LEARNER, LEARNER): (1, 0, 0, 1, -1.0),
    }


def test_every_pair_of_three_seats_has_a_result():
    book = Payoffs().with_episodes([episode_of((LEARNER, SNAPSHOT, SNAPSHOT), (1.0, 3.0, -4.0))])
    assert counts_by_row(book) == {
        (0, LEARNER, SNAPSHOT): (2, 1, 0, 1, 2.0),  # lost to seat 1, won against seat 2
        (1, SNAPSHOT, LEARNER): (1, 1, 0, 0, 3.0),
        (1, SNAPSHOT, SNAPSHOT): (1, 1, 0, 0, 3.0),
        (2, SNAPSHOT, LEARNER): (1, 0, 0, 1, -4.0),
        (2, SNAPSHOT, SNAPSHOT): (1, 0, 0, 1, -4.0),
    }


def test_a_forfeit_is_a_loss_to_all_opponents_who_have_no_results_among_each_other():
    book = Payoffs().with_episodes([episode_of((LEARNER, SNAPSHOT, BOT), (0.0, 0.5, -0.5), forfeited_by=0)])
    assert counts_by_row(book) == {
        (0, LEARNER, SNAPSHOT): (1, 0, 0, 1, 0.0),
        (0, LEARNER, BOT): (1, 0, 0, 1, 0.0),
        (1, SNAPSHOT, LEARNER): (1, 1, 0, 0, 0.5),
        (2, BOT, LEARNER): (1, 1, 0, 0, -0.5),
    }


def test_a_truncated_episode_is_not_counted():
    assert Payoffs().with_episodes([episode_of((LEARNER, SNAPSHOT), (2.0, -2.0), cut=True)]) == Payoffs()


TEAMS = {"bridge": (0, 1, 0, 1)}


def test_a_team_has_one_result():
    book = Payoffs().with_episodes(
        [episode_of((LEARNER, SNAPSHOT, LEARNER, SNAPSHOT), (1.0, -1.0, 3.0, -3.0), game="bridge")], TEAMS
    )
    assert counts_by_row(book) == {
        (0, LEARNER, SNAPSHOT): (1, 1, 0, 0, 2.0),
        (1, SNAPSHOT, LEARNER): (1, 0, 0, 1, -2.0),
    }


def test_each_player_of_a_team_has_results_only_against_the_other_team():
    book = Payoffs().with_episodes(
        [
            episode_of(
                (LEARNER, SNAPSHOT, NEWER_SNAPSHOT, SNAPSHOT), (1.0, 0.0, 1.0, 0.0), game="bridge", forfeited_by=3
            )
        ],
        TEAMS,
    )
    assert counts_by_row(book) == {
        (0, LEARNER, SNAPSHOT): (1, 1, 0, 0, 1.0),
        (0, NEWER_SNAPSHOT, SNAPSHOT): (1, 1, 0, 0, 1.0),
        (1, SNAPSHOT, LEARNER): (1, 0, 0, 1, 0.0),
        (1, SNAPSHOT, NEWER_SNAPSHOT): (1, 0, 0, 1, 0.0),
    }


def test_members_of_one_team_have_returns_but_no_wins():
    book = Payoffs().with_episodes(
        [episode_of((LEARNER, SNAPSHOT), (5.0, 5.0), game="hanabi", forfeited_by=1)], {"hanabi": (0, 0)}
    )
    assert counts_by_row(book) == {(0, LEARNER, SNAPSHOT): (1, 0, 0, 0, 5.0), (1, SNAPSHOT, LEARNER): (1, 0, 0, 0, 5.0)}
    assert book.results(LEARNER, SNAPSHOT).win_rate() == book.results(LEARNER, SNAPSHOT).win_rate(prior=3.0) == 0.5
    assert Payoffs().with_episodes([episode_of((LEARNER,), (5.0,), game="sudoku")], {"sudoku": (0,)}) == Payoffs()


def test_returns_that_differ_in_their_last_bits_are_a_draw():
    assert counts_of(
        Payoffs().with_episodes([episode_of((LEARNER, SNAPSHOT), (0.1 + 0.2, 0.3))]).results(LEARNER, SNAPSHOT)
    )[1:4] == (0, 1, 0)
    assert counts_of(
        Payoffs().with_episodes([episode_of((LEARNER, SNAPSHOT), (0.301, 0.3))]).results(LEARNER, SNAPSHOT)
    )[1:4] == (1, 0, 0)


def test_the_rate_of_wins_by_hand():
    results = Results(games=4, wins=2, draws=1, losses=1)
    assert results.win_rate() == 2.5 / 4
    assert results.win_rate(prior=2.0) == 3.5 / 6
    assert Results().win_rate() == 0.5


@pytest.mark.parametrize("wins_and_losses", [(3, 1), (0, 5), (7, 0), (20, 20)])
def test_without_draws_the_interval_of_the_rate_is_wilsons(wins_and_losses):
    wins, losses = wins_and_losses
    expected = wilson_interval(wins, wins + losses)
    assert Results(games=wins + losses, wins=wins, losses=losses).rate_interval() == (expected.low, expected.high)


def test_the_interval_counts_draws_as_half_wins_and_is_wide_without_games():
    assert Results(games=4, draws=4).rate_interval() == Results(games=4, wins=2, losses=2).rate_interval()
    assert Results().rate_interval() == Results(games=3, returns=2.0).rate_interval() == (0.0, 1.0)
    assert (Results().mean_return, Results(games=4, returns=2.0).mean_return) == (0.0, 0.5)


def test_old_results_decay_by_hand():
    """After a win, a loss one step later and an empty step, the win has weight 0.5 * 0.5 and the loss 0.5."""
    pair = (LEARNER, SNAPSHOT)
    book = (
        Payoffs()
        .with_episodes([episode_of(pair, (1.0, -1.0))], decay=0.5)
        .with_episodes([episode_of(pair, (-1.0, 1.0))], decay=0.5)
        .with_episodes([], decay=0.5)
    )
    assert book.results(*pair) == Results(games=0.75, wins=0.25, losses=0.5, returns=-0.25, squares=0.75)
    assert book.results(SNAPSHOT, LEARNER) == Results(games=0.75, wins=0.5, losses=0.25, returns=0.25, squares=0.75)
    assert Payoffs.from_json(json.loads(json.dumps(book.to_json()))) == book


def test_exact_results_do_not_change_with_episodes_or_decay():
    exact_results = {
        RowKey("kuhn_poker", 0, SNAPSHOT, NEWER_SNAPSHOT): Results(
            games=1, wins=0.25, losses=0.75, returns=-0.5, exact=True
        )
    }
    episodes = [episode_of((SNAPSHOT, NEWER_SNAPSHOT), (1.0, -1.0)), episode_of((LEARNER, SNAPSHOT), (1.0, -1.0))]
    book = Payoffs().with_episodes(episodes).with_exact(exact_results).with_episodes(episodes, decay=0.5)
    assert counts_by_row(book) == {
        (0, SNAPSHOT, NEWER_SNAPSHOT): (1, 0.25, 0, 0.75, -0.5),
        (1, NEWER_SNAPSHOT, SNAPSHOT): (1.5, 0, 0, 1.5, -1.5),
        (0, LEARNER, SNAPSHOT): (1.5, 1.5, 0, 0, 1.5),
        (1, SNAPSHOT, LEARNER): (1.5, 0, 0, 1.5, -1.5),
    }
    assert book.results(SNAPSHOT, NEWER_SNAPSHOT).exact and book.results(SNAPSHOT, NEWER_SNAPSHOT).rate_interval() == (
        0.25,
        0.25,
    )
    assert Payoffs.from_json(json.loads(json.dumps(book.to_json()))) == book


def test_the_interval_of_the_mean_return_is_student_s_by_hand():
    """Returns 2, -1, 0, 1 have mean 0.5 and variance 5/3; the t quantile with 3 degrees of freedom is 3.1824."""
    episodes = [episode_of((LEARNER, SNAPSHOT), (payoff, -payoff)) for payoff in (2.0, -1.0, 0.0, 1.0)]
    for split_index in range(4):
        book = Payoffs.from_json(
            json.loads(json.dumps(Payoffs().with_episodes(episodes[:split_index]).to_json()))
        ).with_episodes(episodes[split_index:])
        results = book.results(LEARNER, SNAPSHOT)
        assert results.squares == 6.0 and results.deviation == pytest.approx((5 / 3) ** 0.5)
        assert results.return_interval() == pytest.approx(
            (0.5 - 3.18245 * (5 / 12) ** 0.5, 0.5 + 3.18245 * (5 / 12) ** 0.5), rel=1e-5
        )
        low, high = book.results(SNAPSHOT, LEARNER).return_interval()
        assert (-high, -low) == pytest.approx(results.return_interval())
    expected = mean_interval([2.0, -1.0, 0.0, 1.0])
    assert results.return_interval() == pytest.approx((expected.low, expected.high))
    assert (
        Payoffs().with_episodes(episodes[:1]).results(LEARNER, SNAPSHOT).return_interval()
        is Results().return_interval()
        is None
    )


def test_an_old_book_without_squares_is_read_and_has_no_return_interval():
    old_json = {
        "kuhn_poker": [
            {
                "seat": 0,
                "player": LEARNER.to_json(),
                "opponent": SNAPSHOT.to_json(),
                "games": 2,
                "wins": 1,
                "draws": 0,
                "losses": 1,
                "returns": 0.0,
            }
        ]
    }
    book = Payoffs.from_json(old_json)
    assert book.to_json() == old_json and book.results(LEARNER, SNAPSHOT).return_interval() is None
    next_book = book.with_episodes([episode_of((LEARNER, SNAPSHOT), (1.0, -1.0))], decay=0.5)
    assert (
        next_book.results(LEARNER, SNAPSHOT).return_interval() is None
        and next_book.results(LEARNER, SNAPSHOT).games == 2
    )
    assert next_book.results(SNAPSHOT, LEARNER).squares == 1.0 and Payoffs.from_json(next_book.to_json()) == next_book


GROUPED_EPISODES = [
    ((LEARNER, SNAPSHOT), (pay, -pay), group) for pay, group in ((2.0, 7), (1.0, 7), (-1.0, 8), (-2.0, 8), (3.0, 9))
]


def test_intervals_treat_a_group_as_one_independent_sample_by_hand():
    """Groups of n = 2, 2, 1 episodes have return sums S = 3, -3, 3; the mean r is 3/5, so S - r n is 9/5, -21/5, 12/5.

    The t quantile with 2 degrees of freedom is 4.30265. Wins W = 2, 0, 1 give p = 3/5, and W - p n is 4/5, -6/5, 2/5 with
    squares that sum to 56/25; for single episodes the sum is 6/5. The design effect is (3/2 * 56/25) / (5/4 * 6/5) = 2.24.
    """
    episodes = [episode_of(players, returns, group=group) for players, returns, group in GROUPED_EPISODES]
    results = Payoffs().with_episodes(episodes).results(LEARNER, SNAPSHOT)
    half_width = 4.30265 * math.sqrt(1.5 * (1.8**2 + 4.2**2 + 2.4**2)) / 5
    assert results.return_interval() == pytest.approx((0.6 - half_width, 0.6 + half_width), rel=1e-5)
    assert results.rate_interval() == pytest.approx(
        wilson_ends(0.6, 5 / 2.24 * (2.77645 / 4.30265) ** 2, 0.95), rel=1e-5
    )
    assert results.deviation == pytest.approx(np.std([2, 1, -1, -2, 3], ddof=1))


def test_single_and_grouped_episodes_can_be_added_in_any_order():
    single_episodes = [episode_of((LEARNER, SNAPSHOT), (payoff, -payoff)) for payoff in (1.0, 2.0, -2.0)]
    grouped_episodes = [episode_of(players, returns, group=100 + group) for players, returns, group in GROUPED_EPISODES]
    book = Payoffs().with_episodes(single_episodes).with_episodes(grouped_episodes)
    restored_book = Payoffs.from_json(json.loads(json.dumps(book.to_json())))
    assert restored_book == book and restored_book.results(LEARNER, SNAPSHOT) == Payoffs().with_episodes(
        grouped_episodes + single_episodes
    ).results(LEARNER, SNAPSHOT)
    sum_of_results = Payoffs().with_episodes(single_episodes).results(LEARNER, SNAPSHOT) + Payoffs().with_episodes(
        grouped_episodes
    ).results(LEARNER, SNAPSHOT)
    assert sum_of_results == book.results(LEARNER, SNAPSHOT)
    decayed = (
        Payoffs().with_episodes(grouped_episodes).with_episodes([], decay=0.5).results(LEARNER, SNAPSHOT).return_groups
    )
    assert (decayed.count, decayed.sizes, decayed.products, decayed.squares) == (1.5, 4.5, 1.5, 13.5)


def test_groups_of_one_episode_equal_independent_episodes():
    returns = (2.0, -1.0, 0.0, 1.0, -2.0, 1.0)
    results = (
        Payoffs()
        .with_episodes([episode_of((LEARNER, SNAPSHOT), (pay, -pay)) for pay in returns])
        .results(LEARNER, SNAPSHOT)
    )
    assert results.return_groups is results.win_groups is None and "groups" not in json.dumps(results.to_json())
    as_groups = dataclasses.replace(results, return_groups=results.sums_of_returns(), win_groups=results.sums_of_wins())
    assert as_groups.return_interval() == pytest.approx(results.return_interval())
    assert as_groups.rate_interval() == pytest.approx(results.rate_interval())


def test_one_group_has_no_interval_and_equal_groups_count_once_each():
    one_group = (
        Payoffs()
        .with_episodes([episode_of((LEARNER, SNAPSHOT), (1.0, -1.0), group=1) for _ in range(32)])
        .results(LEARNER, SNAPSHOT)
    )
    assert (one_group.return_interval(), one_group.rate_interval()) == (None, (0.0, 1.0))
    all_won = (
        Payoffs()
        .with_episodes([episode_of((LEARNER, SNAPSHOT), (1.0, -1.0), group=index // 4) for index in range(16)])
        .results(LEARNER, SNAPSHOT)
    )
    effective_share = (student_quantile(15) / student_quantile(3)) ** 2
    assert all_won.rate_interval() == pytest.approx(wilson_ends(1.0, 4 * effective_share, 0.95))
    nearly_one_group = dataclasses.replace(
        all_won, draws=1, win_groups=dataclasses.replace(all_won.sums_of_wins(), count=1.001)
    )
    assert nearly_one_group.rate_interval() == (0.0, 1.0)  # 0.001 degrees of freedom
    cooperative_results = (
        Payoffs()
        .with_episodes([episode_of((LEARNER, SNAPSHOT), (5.0, 5.0), game="hanabi", group=1)] * 3, {"hanabi": (0, 0)})
        .results(LEARNER, SNAPSHOT)
    )
    assert cooperative_results.rate_interval() == (0.0, 1.0)


def test_a_player_in_two_seats_has_one_independent_result():
    episodes = [
        episode_of((LEARNER, SNAPSHOT, SNAPSHOT), (payoff, -payoff / 2, -payoff / 2)) for payoff in (1.0, -1.0, 2.0)
    ]
    results = Payoffs().with_episodes(episodes).results(LEARNER, SNAPSHOT)
    expected = mean_interval([1.0, -1.0, 2.0])
    assert results.games == 6 and results.return_interval() == pytest.approx((expected.low, expected.high))


def test_rows_of_dropped_snapshots_are_dropped():
    book = Payoffs().with_episodes(
        [
            episode_of((LEARNER, SNAPSHOT), (1.0, -1.0)),
            episode_of((SNAPSHOT, NEWER_SNAPSHOT), (1.0, -1.0)),
            episode_of((LEARNER, BOT), (1.0, -1.0)),
        ]
    )
    assert {player for row in book.restricted_to([NEWER_SNAPSHOT]).rows for player in row[2:]} == {LEARNER, BOT}
    assert book.restricted_to([SNAPSHOT, NEWER_SNAPSHOT]) == book
    assert len(book.rows) == 6  # `restricted_to` returned a new book


PLAYERS = st.sampled_from((LEARNER, SNAPSHOT, NEWER_SNAPSHOT, BOT))
EPISODES = st.lists(
    st.builds(
        lambda players, returns, forfeited_by, cut, game: episode_of(
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


@given(episodes=EPISODES, split_index=st.integers(0, 12))
def test_wins_equal_losses_of_the_opponent_and_books_can_be_saved_anywhere(episodes, split_index):
    book = Payoffs().with_episodes(episodes)
    for game in ("kuhn_poker", "nim"):
        for pair in itertools.product((LEARNER, SNAPSHOT, NEWER_SNAPSHOT, BOT), repeat=2):
            results, opponent_results = (book.results(*players, environment=game) for players in (pair, pair[::-1]))
            assert results.games == results.wins + results.draws + results.losses == opponent_results.games
            assert (results.wins, results.draws, results.losses) == (
                opponent_results.losses,
                opponent_results.draws,
                opponent_results.wins,
            )
    first_half = Payoffs.from_json(json.loads(json.dumps(Payoffs().with_episodes(episodes[:split_index]).to_json())))
    assert first_half == Payoffs().with_episodes(episodes[:split_index])
    assert json.dumps(first_half.with_episodes(episodes[split_index:]).to_json()) == json.dumps(book.to_json())


@given(steps=st.lists(EPISODES, max_size=4), decay=st.floats(0.01, 0.99))
def test_a_decayed_book_is_the_weighted_sum_of_its_steps(steps, decay):
    undecayed = decayed = Payoffs()
    for episodes in steps:
        undecayed, decayed = undecayed.with_episodes(episodes, decay=0.0), decayed.with_episodes(episodes, decay=decay)
    assert json.dumps(undecayed.to_json()) == json.dumps(
        Payoffs().with_episodes([episode for episodes in steps for episode in episodes]).to_json()
    )
    for row, results in decayed.rows.items():
        results_of_steps = [Payoffs().with_episodes(episodes).rows.get(row, Results()) for episodes in steps]
        weights = [(1 - decay) ** age for age in range(len(steps))][::-1]
        for name in ("games", "wins", "draws", "losses", "returns", "squares"):
            assert getattr(results, name) == pytest.approx(
                sum(
                    weight * getattr(step_results, name)
                    for weight, step_results in zip(weights, results_of_steps, strict=True)
                )
            )
        low, high = results.rate_interval()
        assert 0 <= low <= results.win_rate() <= high <= 1
    assert set(decayed.rows) == set(undecayed.rows)


ROW_JSON = {
    "seat": 0,
    "player": {"kind": "learner"},
    "opponent": {"kind": "learner"},
    "games": 1,
    "wins": 1,
    "draws": 0,
    "losses": 0,
    "returns": 1.0,
}
DAMAGED_FIELDS = [
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
    "book",
    [{"kuhn_poker": [{**ROW_JSON, **change}]} for change in DAMAGED_FIELDS] + [{"kuhn_poker": 3}, {"kuhn_poker": [{}]}],
)
def test_a_book_that_cannot_be_read_is_refused(book):
    assert Payoffs.from_json({"kuhn_poker": [ROW_JSON]}).results(LEARNER, LEARNER).wins == 1
    with pytest.raises(CheckpointError, match="payoff book cannot be read"):
        Payoffs.from_json(book)


RUN_CONFIG = {
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "steps": 4,
    "threads": 1,
    "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"random": 0.5}},
}


def test_a_run_with_decay_counts_old_games_less():
    """Two steps of 16 self-play episodes, each of which counts for both seats."""
    num_games = {}
    for decay in (0.0, 0.25):
        config = resolve({**RUN_CONFIG, "matchmaker": {"name": "mirror"}, "league": {"payoff_decay": decay}})
        engine, methods, state = LocalEngine(config), Methods.of(config), RunState()
        for _ in range(2):
            state = play_round(config, engine, methods, state).state
        num_games[decay] = state.payoffs.results(LEARNER, LEARNER).games
    assert num_games == {0.0: 64, 0.25: 32 * 0.75 + 32}


def test_a_run_counts_every_episode_of_every_step():
    config = resolve(RUN_CONFIG)
    engine, methods, state, book = LocalEngine(config), Methods.of(config), RunState(), Payoffs()
    for _ in range(2):
        result = play_round(config, engine, methods, state)
        state, book = result.state, book.with_episodes(result.episodes)
        assert state.payoffs == book
    num_games = book.results(LEARNER, BOT).games
    assert 0 < num_games < 32 and num_games + book.results(LEARNER, LEARNER).games / 2 == 32


def test_a_cooperative_environment_is_one_team_unless_it_names_teams():
    assert teams_of(make_game("kuhn_poker", options={"players": 3})) == (0, 1, 2)
    assert teams_of(make_game("tiny_hanabi")) == (0, 0)

    class Bridge:
        name, num_seats, cooperative, teams = "bridge", 4, False, ("we", "they", "we", "they")

    assert teams_of(Bridge()) == (0, 1, 0, 1)
    assert seats_by_team((0, 1, 0, 1)) == ((0, 2), (1, 3))
    Bridge.teams = ("we", "they")
    with pytest.raises(GameError, match="must name a team for each of its 4 seats"):
        teams_of(Bridge())


def test_players_of_old_records_are_read_from_their_names():
    episode = Episode(
        episode_id=0, group_id=0, game="nim", seed=0, roles=("a", "b"), agents=("learner", "past-000010"), trained=(True, False), turns=(),
        returns=(1.0, -1.0),
    )  # fmt: skip
    assert episode.players == refs(("learner", "past-000010"))
    assert Payoffs().with_episodes([episode]).results(LEARNER, SNAPSHOT).wins == 1


def test_an_identity_key_distinguishes_equal_objects():
    key_object, equal_object, calls = [1], [1], []
    count_calls = lru_cache(lambda key: calls.append(key.value) or len(calls))
    assert [
        count_calls(IdentityKey(key_object)),
        count_calls(IdentityKey(key_object)),
        count_calls(IdentityKey(equal_object)),
    ] == [1, 1, 2]
    assert IdentityKey(key_object) != key_object


def test_an_identity_key_keeps_its_object_alive():
    class Referenced:
        pass

    instance = Referenced()
    reference, key = weakref.ref(instance), IdentityKey(instance)
    del instance
    gc.collect()
    assert reference() is key.value
