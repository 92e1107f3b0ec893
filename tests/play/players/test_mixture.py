import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, GameError, PluginError, UnknownNameError
from sparring.core.records import LEARNER, bot, ref, snapshot
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.base import Environment
from sparring.environments.catalogue import make_game
from sparring.league.matchmakers.base import Seating, check_output
from sparring.league.seating import starts
from sparring.measure.agent_spec import parse_agent
from sparring.measure.matches import play_matches
from sparring.play.players.mixture import Mixture, mixture
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round, play_step
from sparring.testing import match_request

ROOT = Stream.from_seed(5)
MEMBERS = (snapshot(10), snapshot(20))
TINY = {
    "name": "m", "steps": 2, "environments": [{"name": "kuhn_poker"}], "model": {"hidden_size": 32, "layers": 1},
    "rollout": {"games_per_step": 32, "group_size": 4}, "league": {"every": 1},
}  # fmt: skip
CROWD = {"matchmaker": {"name": "mixed", "past": 0.0, "bots": {"crowd": 1.0}}}


def run(players, **changes):
    return resolve({**TINY, **CROWD, "bots": {"crowd": {"name": "mixture", "players": players}}, **changes})


def draws(mixture, count, members=()):
    return Counter(mixture.draw(ROOT.child(number), 0, members) for number in range(count))


def test_shares_by_hand():
    mixture = Mixture({"random": 1, "past": 1, "learner": 2, "past-000010": 0.5, "minimax": 0})
    assert mixture.shares(MEMBERS) == {bot("random"): 1, MEMBERS[0]: 1.0, MEMBERS[1]: 0.5, LEARNER: 2}
    assert mixture.shares() == {bot("random"): 1, LEARNER: 2}


def test_players_are_drawn_by_their_weights():
    counts = draws(Mixture({"random": 1, "past": 3, "policy": 4}), 4000, MEMBERS)
    expected = {bot("random"): 500, MEMBERS[0]: 750, MEMBERS[1]: 750, ref("policy"): 2000}
    assert set(counts) == set(expected)
    assert stats.chisquare([counts[player] for player in expected], [*expected.values()]).pvalue > 0.01


def test_one_player_is_always_drawn_and_a_league_without_snapshots_gives_the_learner():
    assert draws(Mixture({"random": 7.0}), 20) == {bot("random"): 20}
    assert draws(Mixture({"bot-random": 7.0}), 20) == {bot("random"): 20}
    assert draws(Mixture({"past": 1, "past-000030": 5}), 20) == {LEARNER: 20}
    assert draws(Mixture({"past": 1, "past-helper-000010": 1}), 4, MEMBERS[1:]) == {MEMBERS[1]: 4}


@given(
    st.dictionaries(
        st.sampled_from(["random", "past", "learner", "minimax"]), st.sampled_from([0, 1e-9, 1, 1e6]), min_size=1
    ),
    st.integers(0, 99),
)
def test_nobody_without_a_weight_is_drawn_and_the_scale_does_not_matter(weights, number):
    who = Mixture(weights).draw(ROOT.child(number), 0, MEMBERS)
    shares = Mixture(weights).shares(MEMBERS)
    assert shares[who] > 0
    assert Mixture({name: 2.0 * weight for name, weight in weights.items()}).draw(ROOT.child(number), 0, MEMBERS) == who
    assert math.fsum(shares.values()) == pytest.approx(math.fsum(weights.values()) or 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"random": 0},
        {"random": -1, "mcts": 2},
        {"random": math.inf},
        {"random": math.nan},
        {"random": 1e308, "biased": 1e308},
    ],
)
def test_weights_that_draw_nobody_are_refused(wrong):
    with pytest.raises(ConfigError, match="mixture: "):
        mixture(players=wrong)


def test_each_play_draws_anew_and_records_name_who_was_drawn():
    config = run({"random": 1, "cfr": 1, "past": 2})
    engine = LocalEngine(config)
    methods = Methods.of(config)
    engine.take_member(snapshot(1))
    played = play_step(config, engine, methods, RunState(step=1))
    others = [str(player) for episode in played.episodes for player in episode.players if player != LEARNER]
    assert len(others) == 32 and set(others) == {"bot-random", "bot-cfr", "past-000001"}
    of_groups = {
        group: {str(p) for e in played.episodes if e.group_id == group for p in e.players} for group in range(8, 16)
    }
    # plays of one group, which share their seating, draw each for themselves
    assert max(map(len, of_groups.values())) > 2


def test_all_seats_of_a_team_are_drawn_at_once_and_other_teams_for_themselves():
    config = resolve(TINY)
    game = _FourSeats()
    mixture = Mixture({"random": 1, "minimax": 1, "mcts": 1})

    def seated(request, **_):
        return Seating(seats=(mixture, LEARNER, mixture, mixture), trained=(False, True, False, False))

    specs = starts(
        0, games=[(game, 1.0)], rollout=config.rollout, matchmaker=seated, members=(), root=ROOT, progress=0.0
    )
    assert all(spec.seats[0] == spec.seats[2] and spec.seats[1] == LEARNER for spec in specs)
    assert any(spec.seats[0] != spec.seats[3] for spec in specs)
    again = starts(
        0, games=[(game, 1.0)], rollout=config.rollout, matchmaker=seated, members=(), root=ROOT, progress=0.0
    )
    assert [spec.seats for spec in specs] == [spec.seats for spec in again]


class _FourSeats(Environment):
    name, label, roles, num_seats, teams = "four", None, ("a", "b", "c", "d"), 4, (0, 1, 0, 1)


def test_a_mixture_of_the_learner_alone_is_self_play_in_which_one_side_learns():
    plays = []
    for players in ({"learner": 1.0}, {"learner": 3.0, "random": 0.0}):
        config = run(players)
        engine = LocalEngine(config)
        played = play_step(config, engine, Methods.of(config), RunState())
        plays.append(played.episodes)
        assert all(set(episode.players) == {LEARNER} and sum(episode.trained) == 1 for episode in played.episodes)
    assert plays[0] == plays[1]


def test_a_matchmaker_may_seat_a_mixture_of_its_own_and_only_of_players_that_there_are():
    ask = match_request(2, members=MEMBERS)
    bound = bind("league.matchmakers", "mirror")
    good = Seating(seats=(LEARNER, Mixture({"past": 1, "random": 1, "policy": 0})), trained=(True, False))
    check_output(bound, good, ask)
    with pytest.raises(PluginError, match="'bot-rndom' into seat 1"):
        check_output(bound, Seating(seats=(LEARNER, Mixture({"rndom": 1})), trained=(True, False)), ask)
    with pytest.raises(PluginError, match="trains 'mixture of past' in seat 1"):
        check_output(bound, Seating(seats=(LEARNER, Mixture({"past": 1})), trained=(True, True)), ask)


@pytest.mark.parametrize(
    ("players", "error", "says"),
    [
        ({"rndom": 1}, UnknownNameError, "rndom"),
        ({"crowd": 1}, ConfigError, "'crowd' is itself a mixture"),
        ({"mixture 'players={random: 1}'": 1}, ConfigError, "is itself a mixture"),
        ({"demonstrator": 1}, ConfigError, "write random"),
        ({"past-helper-000010": 1}, UnknownNameError, "helper"),
        ({"human": 1}, ConfigError, "terminal"),
        ({"mcts simulations=many": 1}, ConfigError, "simulations"),
        ({"random": -1}, ConfigError, "at least 0"),
    ],
)
def test_players_that_there_are_not_are_refused_before_anything_is_played(players, error, says):
    with pytest.raises(error, match=says):
        run(players)


def test_members_may_be_bots_of_the_run_with_their_options():
    bots = {
        "deep": {"name": "mcts", "simulations": 7},
        "crowd": {"name": "mixture", "players": {"deep": 1, "mcts simulations=9": 1}},
    }
    config = resolve({**TINY, **CROWD, "environments": [{"name": "tic_tac_toe"}], "bots": bots})
    engine = LocalEngine(config)
    assert {engine.agent(bot(name)).simulations for name in ("deep", "mcts simulations=9")} == {7, 9}
    names = {
        str(player)
        for episode in play_round(config, engine, Methods.of(config), RunState()).episodes
        for player in episode.players
    }
    assert names == {"learner", "bot-deep", "bot-mcts simulations=9"}


def test_a_mixture_of_one_plays_as_that_one():
    game = make_game("kuhn_poker")
    agent = registry.bind("players", "cfr")()
    alone, mixed = (
        play_matches(game, agent, parse_agent(text).make(), games_per_seat=50, stream=ROOT)
        for text in ("random", "mixture 'players={random: 1}'")
    )
    assert mixed.seats == alone.seats and mixed.opponent == "mixture"


def test_players_of_a_run_are_refused_in_a_match_and_a_mixture_does_not_act():
    game = make_game("kuhn_poker")
    with pytest.raises(ConfigError, match="'learner' is a player of a run"):
        play_matches(
            game,
            registry.bind("players", "random")(),
            Mixture({"random": 1, "learner": 1}),
            games_per_seat=2,
            stream=ROOT,
        )
    with pytest.raises(ConfigError, match=r"evaluation\.opponents\.0: 'past' is a player of the run"):
        resolve({**TINY, "evaluation": {"opponents": [{"name": "mixture", "players": {"past": 1}}]}})
    with pytest.raises(GameError, match="play_teams"):
        Mixture({"random": 1}).act([])
