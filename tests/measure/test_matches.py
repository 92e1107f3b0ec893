from statistics import NormalDist

import numpy as np
import pytest

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.initial_states import all_starts
from sparring.measure.matches import illegal_share, outcome, play_matches, self_plays
from sparring.ops.statistics import (
    clustered_share_interval,
    mean_interval,
    wilson_ends,
    wilson_interval,
)
from sparring.play.players.base import TextAgent
from sparring.play.players.random import RandomAgent, random
from sparring.play.players.searcher import searcher


class FirstLegalPlayer(TextAgent):
    def __init__(self, name="first"):
        super().__init__(name)
        self.observed = []

    def choose(self, state, seat, stream):
        self.observed.append((seat, tuple(state.spiel.history())))
        return state.legal_actions()[0]


class UniformPlayer(TextAgent):
    def choose(self, state, seat, stream):
        legal = state.legal_actions()
        return legal[stream.integer(0, len(legal))]


class NonsensePlayer(TextAgent):
    def choose(self, state, seat, stream):
        return "zzz"


def match(name, agent, opponent, games=5, options=None, seed=0, **options_of_match):
    game = make_game(name, options=options or {})
    return play_matches(game, agent, opponent, games_per_seat=games, stream=Stream.from_seed(seed), **options_of_match)


def test_tic_tac_toe_without_chance_is_won_by_the_first_seat():
    report = match("tic_tac_toe", FirstLegalPlayer("a"), FirstLegalPlayer("b"))  # X takes a diagonal: cells 3, 5 and 7
    assert (report.game, report.agent, report.opponent, report.roles) == ("tic_tac_toe", "a", "b", ("X", "O"))
    first_seat, second_seat = report.seats
    assert (first_seat.wins, first_seat.draws, first_seat.losses, first_seat.games) == (5, 0, 0, 5)
    assert (second_seat.wins, second_seat.draws, second_seat.losses, second_seat.games) == (0, 0, 5, 5)
    assert first_seat.mean_return == mean_interval([1.0] * 5)
    assert (report.overall.wins, report.overall.losses, report.overall.mean_return.mean) == (5, 5, 0.0)
    assert report.overall.win == wilson_interval(5, 10)
    assert report.opponent_return == 0.0
    games = [4] * 5 + [3] * 5  # turns of the agent as X and as O
    assert report.overall.illegal == clustered_share_interval(np.zeros(10), np.array(games, dtype=float))


def test_replies_that_are_not_actions_are_counted_and_lose():
    report = match("tic_tac_toe", NonsensePlayer("mute"), FirstLegalPlayer())
    assert report.overall.losses == 10
    assert (report.overall.illegal.mean, report.overall.illegal.count) == (1.0, 10)
    assert report.overall.mean_return.mean == -1.0
    assert report.opponent_return == 1.0


def test_the_opponents_illegal_replies_are_not_the_agents():
    report = match("tic_tac_toe", FirstLegalPlayer(), NonsensePlayer("mute"))
    assert report.overall.wins == 10
    assert (report.overall.illegal.mean, report.overall.illegal.count) == (0.0, 5)


def test_replies_of_one_game_form_one_cluster():
    # one game with 5 illegal replies and three games with 5 legal replies; the effective number of the 20 replies is 3
    # share 1/4; error^2 = 4/3 ((5 - 5/4)^2 + 3 (5/4)^2) / 20^2 = 1/16; 1/4 * 3/4 / (1/16) = 3
    interval = illegal_share([(5, 5), (0, 5), (0, 5), (0, 5)])
    effective_count = 3 * (NormalDist().inv_cdf(0.975) / 3.1824463) ** 2  # Student's t of 3 degrees
    assert (interval.mean, interval.count) == (0.25, 20)
    assert (interval.low, interval.high) == pytest.approx(wilson_ends(0.25, effective_count, 0.95), abs=1e-6)
    assert (
        illegal_share([(0, 0), (5, 5), (0, 5), (0, 0), (0, 5), (0, 5)]) == interval
    )  # games without a reply do not count
    assert illegal_share([]).count == 0 and (illegal_share([]).low, illegal_share([]).high) == (0.0, 1.0)


@pytest.mark.parametrize("players", [2, 3])
def test_the_agent_plays_every_seat_equally_often(players):
    agent = UniformPlayer("u")
    report = match("kuhn_poker", agent, UniformPlayer("v"), games=7, options={"players": players})
    assert [record.games for record in report.seats] == [7] * players
    assert report.overall.games == 7 * players
    total = report.overall.mean_return.mean + (players - 1) * report.opponent_return
    assert total == pytest.approx(0.0, abs=1e-12)


def test_an_agent_can_play_itself():
    agent = FirstLegalPlayer()
    report = match("tic_tac_toe", agent, agent)
    assert (report.overall.wins, report.overall.losses) == (5, 5)


def test_games_depend_on_the_seed_and_a_longer_match_begins_with_the_same_games():
    def deals(games, seed=0):
        agent = FirstLegalPlayer()
        match("kuhn_poker", agent, FirstLegalPlayer("other"), games=games, seed=seed)
        return [history for seat, history in agent.observed if seat == 0 and len(history) == 2]

    assert deals(40) == deals(40)
    assert deals(40)[:10] == deals(10)
    assert deals(40) != deals(40, seed=1)
    assert len(set(deals(40))) == 6  # every deal of two cards of three


def test_deals_differ_between_the_seats():
    agent = FirstLegalPlayer()
    match("kuhn_poker", agent, FirstLegalPlayer("other"), games=40)
    by_seat = [
        [history[:2] for seat, history in agent.observed if seat == number and len(history) == 2 + number]
        for number in (0, 1)
    ]
    assert len(by_seat[0]) == len(by_seat[1]) == 40
    assert by_seat[0] != by_seat[1]


def test_the_level_applies_to_every_interval():
    report = match("kuhn_poker", UniformPlayer("u"), UniformPlayer("v"), level=0.8)
    for record in (*report.seats, report.overall):
        assert {record.mean_return.level, record.win.level, record.win_or_draw.level, record.illegal.level} == {0.8}


def test_uniform_play_of_kuhn_earns_its_exact_value():
    report = match("kuhn_poker", UniformPlayer("u"), UniformPlayer("v"), games=2000)
    for record, value in zip(report.seats, (1 / 8, -1 / 8), strict=True):
        half_width = record.mean_return.high - record.mean_return.mean
        assert abs(record.mean_return.mean - value) < 2 * half_width  # about four standard errors


def test_progress_is_reported():
    counts = []
    match("kuhn_poker", FirstLegalPlayer(), FirstLegalPlayer("b"), games=3, on_finished=counts.append)
    assert counts[-1] == 6
    assert counts == sorted(counts)


@pytest.mark.parametrize("games", [1, 0, -3])
def test_too_few_games_are_refused(games):
    with pytest.raises(ConfigError, match=rf"2 or more games from each seat, got games_per_seat={games}"):
        match("kuhn_poker", FirstLegalPlayer(), FirstLegalPlayer("b"), games=games)


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ((1.0, -1.0), (1, -1)),
        ((0.0, 0.0), (0, 0)),
        ((2.0, 2.0, -4.0), (0, 0, -1)),
        ((5.0, 1.0, 1.0), (1, -1, -1)),
        ((-1.0, -2.0), (1, -1)),
    ],
)
def test_winners_by_returns(returns, expected):
    assert tuple(outcome(returns, seat) for seat in range(len(returns))) == expected


@pytest.mark.parametrize(
    ("returns", "teams", "expected"),
    [
        ((-1.0, 1.0, 1.0, 1.0), (0, 1, 1, 1), (-1, 1, 1, 1)),  # team-mates win together
        ((1.0, -1.0, -1.0, -1.0), (0, 1, 1, 1), (1, -1, -1, -1)),
        ((0.0, 0.0, 0.0), (0, 1, 1), (0, 0, 0)),
        (
            (1.0, -2.0, 0.0),
            (0, 0, 1),
            (1, -1, -1),
        ),  # seat 1 forfeited, and each seat is compared with the best opponent
        ((2.0, 2.0), (0, 0), (0, 0)),  # all are one team
        ((0.5,), (0,), (1,)),
    ],
)
def test_a_seat_wins_against_other_teams(returns, teams, expected):
    assert tuple(outcome(returns, seat, teams) for seat in range(len(returns))) == expected


def test_a_win_of_the_village_counts_for_every_villager():
    options = {"players": 3, "seer": False, "speech": "none", "abstain": False, "tie": "none", "rounds": 1}
    report = play_matches(
        make_game("werewolf", options=options), random(), random(), games_per_seat=200, stream=Stream.from_seed(0)
    )
    assert report.overall.draws == 0
    for seat in report.seats[1:]:  # the village wins if both villagers vote for the wolf, with probability 1/4
        assert seat.win.low < 0.25 < seat.win.high
    assert report.seats[0].win.low < 0.75 < report.seats[0].win.high


class FunctionPlayer(TextAgent):
    def __init__(self, choose_reply):
        super().__init__("plays")
        self.choose_reply = choose_reply

    def choose(self, state, seat, stream):
        return self.choose_reply(state.legal_actions(), stream)


def tic_tac_toe_plays(choose_reply, plays=6, seed=0):
    initial_states = all_starts(make_game("tic_tac_toe"))
    return self_plays(initial_states, FunctionPlayer(choose_reply), plays=plays, stream=Stream.from_seed(seed))


def first_legal_action(legal, stream):
    return legal[0]


def any_legal(legal, stream):
    return legal[stream.integer(0, len(legal))]


def test_always_the_first_action_gives_one_distinct_play():
    report = tic_tac_toe_plays(first_legal_action)  # X takes a diagonal with its fourth mark
    assert (report.game, report.starts, report.plays) == ("tic_tac_toe", "all", 6)
    assert (report.distinct, report.commonest, report.turns) == (1, 6, 7.0)
    assert report.illegal.mean == 0.0 and report.illegal.high < 1.0


def test_random_plays_differ_and_a_longer_series_has_no_fewer_distinct_plays():
    assert tic_tac_toe_plays(any_legal, plays=20).distinct == 20
    reports = [tic_tac_toe_plays(lambda legal, stream: any_legal(legal[:2], stream), plays=n) for n in (4, 8, 64)]
    assert [report.distinct for report in reports] == sorted(report.distinct for report in reports)
    assert reports[-1].distinct < 64 and reports[-1].commonest > 1
    assert tic_tac_toe_plays(any_legal, seed=1) == tic_tac_toe_plays(any_legal, seed=1)


def test_illegal_words_do_not_make_plays_distinct():
    report = tic_tac_toe_plays(lambda legal, stream: f"zzz{stream.integer(0, 10**6)}")
    assert (report.distinct, report.commonest, report.illegal.mean) == (1, 6, 1.0)


def test_simultaneous_moves_are_distinguished_by_seat():
    initial_states = all_starts(make_game("rock_paper_scissors"))
    report = self_plays(initial_states, RandomAgent("random"), plays=200, stream=Stream.from_seed(0))
    assert report.distinct == 9 and report.turns == 2.0


def test_one_play_has_no_diversity_figure():
    with pytest.raises(ConfigError, match="2 or more, got 1; write for example 64"):
        tic_tac_toe_plays(first_legal_action, plays=1)


def test_returns_by_role_and_counts_of_the_environment():
    report = tic_tac_toe_plays(first_legal_action)
    assert {role: interval.mean for role, interval in report.returns.items()} == {
        "X": 1.0,
        "O": -1.0,
    } and report.figures == {}
    initial_states = all_starts(make_game("wide_search", options={"items": 4, "workers": 2, "turns": 6, "waves": 1}))
    team = self_plays(initial_states, searcher(), plays=3, stream=Stream.from_seed(0))
    assert {interval.mean for interval in team.returns.values()} == {1.0} and [*team.returns] == [
        "lead",
        "worker 1",
        "worker 2",
    ]
    means = {name: interval.mean for name, interval in team.figures.items()}
    assert means["item_f1"] == 1.0 and means["width"] == 2.0 and means["critical_steps"] == 7.0
    assert (
        means["found"] == pytest.approx(8 / 3) and team.figures["item_f1"].count == 3
    )  # cells per seat, without the lead


def test_forfeited_plays_have_no_environment_counts():
    initial_states = all_starts(
        make_game("wide_search", options={"items": 4, "workers": 2}, illegal={"rule": "forfeit"})
    )
    forfeited = self_plays(initial_states, NonsensePlayer("nonsense"), plays=2, stream=Stream.from_seed(0))
    assert forfeited.figures == {} and forfeited.illegal.mean == 1.0
