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
from sparring.league.seating import step_specs
from sparring.measure.agent_spec import parse_agent
from sparring.measure.matches import play_matches
from sparring.play.players.mixture import Mixture, mixture
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round, play_step
from sparring.testing import match_request

ROOT = Stream.from_seed(5)
MEMBERS = (snapshot(10), snapshot(20))
SMALL_CONFIG = {
    "name": "m", "steps": 2, "environments": [{"name": "kuhn_poker"}], "model": {"hidden_size": 32, "layers": 1},
    "rollout": {"games_per_step": 32, "group_size": 4}, "league": {"every": 1},
}  # fmt: skip
CROWD_AS_OPPONENT = {"matchmaker": {"name": "mixed", "past": 0.0, "bots": {"crowd": 1.0}}}


def config_of(players, **changes):
    return resolve(
        {**SMALL_CONFIG, **CROWD_AS_OPPONENT, "bots": {"crowd": {"name": "mixture", "players": players}}, **changes}
    )


def count_draws(mixture, num_draws, members=()):
    return Counter(mixture.draw(ROOT.child(number), 0, members) for number in range(num_draws))


def test_shares_by_hand():
    mixture = Mixture({"random": 1, "past": 1, "learner": 2, "past-000010": 0.5, "minimax": 0})
    assert mixture.shares(MEMBERS) == {bot("random"): 1, MEMBERS[0]: 1.0, MEMBERS[1]: 0.5, LEARNER: 2}
    assert mixture.shares() == {bot("random"): 1, LEARNER: 2}


def test_players_are_drawn_by_their_weights():
    counts = count_draws(Mixture({"random": 1, "past": 3, "policy": 4}), 4000, MEMBERS)
    expected = {bot("random"): 500, MEMBERS[0]: 750, MEMBERS[1]: 750, ref("policy"): 2000}
    assert set(counts) == set(expected)
    assert stats.chisquare([counts[player] for player in expected], [*expected.values()]).pvalue > 0.01


def test_without_snapshots_their_share_goes_to_the_learner():
    assert count_draws(Mixture({"random": 7.0}), 20) == {bot("random"): 20}
    assert count_draws(Mixture({"bot-random": 7.0}), 20) == {bot("random"): 20}
    assert count_draws(Mixture({"past": 1, "past-000030": 5}), 20) == {LEARNER: 20}
    assert count_draws(Mixture({"past": 1, "past-helper-000010": 1}), 4, MEMBERS[1:]) == {MEMBERS[1]: 4}


@given(
    st.dictionaries(
        st.sampled_from(["random", "past", "learner", "minimax"]), st.sampled_from([0, 1e-9, 1, 1e6]), min_size=1
    ),
    st.integers(0, 99),
)
def test_players_of_weight_0_are_not_drawn_and_the_scale_does_not_matter(weights, number):
    player = Mixture(weights).draw(ROOT.child(number), 0, MEMBERS)
    shares = Mixture(weights).shares(MEMBERS)
    assert shares[player] > 0
    assert (
        Mixture({name: 2.0 * weight for name, weight in weights.items()}).draw(ROOT.child(number), 0, MEMBERS) == player
    )
    assert math.fsum(shares.values()) == pytest.approx(math.fsum(weights.values()) or 1.0)


@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"random": 0},
        {"random": -1, "mcts": 2},
        {"random": math.inf},
        {"random": math.nan},
        {"random": 1e308, "biased": 1e308},
    ],
)
def test_invalid_weights_of_a_mixture_are_refused(weights):
    with pytest.raises(ConfigError, match="mixture: "):
        mixture(players=weights)


def test_each_episode_draws_a_player_and_stores_its_name():
    config = config_of({"random": 1, "cfr": 1, "past": 2})
    engine = LocalEngine(config)
    methods = Methods.of(config)
    engine.take_member(snapshot(1))
    step = play_step(config, engine, methods, RunState(step=1))
    other_players = [str(player) for episode in step.episodes for player in episode.players if player != LEARNER]
    assert len(other_players) == 32 and set(other_players) == {"bot-random", "bot-cfr", "past-000001"}
    players_of_groups = {
        group: {str(p) for episode_ in step.episodes if episode_.group_id == group for p in episode_.players}
        for group in range(8, 16)
    }
    # episodes of one group have one seating, but each draws its own player
    assert max(map(len, players_of_groups.values())) > 2


def test_all_seats_of_a_team_get_one_drawn_player():
    config = resolve(SMALL_CONFIG)
    game = _FourSeats()
    mixture = Mixture({"random": 1, "minimax": 1, "mcts": 1})

    def seat_mixtures(request, **_):
        return Seating(seats=(mixture, LEARNER, mixture, mixture), trained=(False, True, False, False))

    specs = step_specs(
        0, games=[(game, 1.0)], rollout=config.rollout, matchmaker=seat_mixtures, members=(), root=ROOT, progress=0.0
    )
    assert all(spec.seats[0] == spec.seats[2] and spec.seats[1] == LEARNER for spec in specs)
    assert any(spec.seats[0] != spec.seats[3] for spec in specs)
    specs_again = step_specs(
        0, games=[(game, 1.0)], rollout=config.rollout, matchmaker=seat_mixtures, members=(), root=ROOT, progress=0.0
    )
    assert [spec.seats for spec in specs] == [spec.seats for spec in specs_again]


class _FourSeats(Environment):
    name, label, roles, num_seats, teams = "four", None, ("a", "b", "c", "d"), 4, (0, 1, 0, 1)


def test_a_mixture_of_only_the_learner_is_self_play_with_one_trained_side():
    episodes_by_mixture = []
    for players in ({"learner": 1.0}, {"learner": 3.0, "random": 0.0}):
        config = config_of(players)
        engine = LocalEngine(config)
        step = play_step(config, engine, Methods.of(config), RunState())
        episodes_by_mixture.append(step.episodes)
        assert all(set(episode.players) == {LEARNER} and sum(episode.trained) == 1 for episode in step.episodes)
    assert episodes_by_mixture[0] == episodes_by_mixture[1]


def test_a_matchmaker_may_seat_a_mixture_of_known_players():
    request = match_request(2, members=MEMBERS)
    matchmaker = bind("league.matchmakers", "mirror")
    valid_seating = Seating(seats=(LEARNER, Mixture({"past": 1, "random": 1, "policy": 0})), trained=(True, False))
    check_output(matchmaker, valid_seating, request)
    with pytest.raises(PluginError, match="'bot-rndom' into seat 1"):
        check_output(matchmaker, Seating(seats=(LEARNER, Mixture({"rndom": 1})), trained=(True, False)), request)
    with pytest.raises(PluginError, match="trains 'mixture of past' in seat 1"):
        check_output(matchmaker, Seating(seats=(LEARNER, Mixture({"past": 1})), trained=(True, True)), request)


@pytest.mark.parametrize(
    ("players", "error", "message"),
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
def test_unknown_players_of_a_mixture_are_refused(players, error, message):
    with pytest.raises(error, match=message):
        config_of(players)


def test_a_mixture_may_name_bots_of_the_run():
    bots = {
        "deep": {"name": "mcts", "simulations": 7},
        "crowd": {"name": "mixture", "players": {"deep": 1, "mcts simulations=9": 1}},
    }
    config = resolve({**SMALL_CONFIG, **CROWD_AS_OPPONENT, "environments": [{"name": "tic_tac_toe"}], "bots": bots})
    engine = LocalEngine(config)
    assert {engine.agent(bot(name)).simulations for name in ("deep", "mcts simulations=9")} == {7, 9}
    names = {
        str(player)
        for episode in play_round(config, engine, Methods.of(config), RunState()).episodes
        for player in episode.players
    }
    assert names == {"learner", "bot-deep", "bot-mcts simulations=9"}


def test_a_mixture_of_one_player_equals_that_player():
    game = make_game("kuhn_poker")
    agent = registry.bind("players", "cfr")()
    match_alone, match_of_mixture = (
        play_matches(game, agent, parse_agent(text).make(), games_per_seat=50, stream=ROOT)
        for text in ("random", "mixture 'players={random: 1}'")
    )
    assert match_of_mixture.seats == match_alone.seats and match_of_mixture.opponent == "mixture"


def test_a_mixture_with_players_of_a_run_is_refused_in_a_match():
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
        resolve({**SMALL_CONFIG, "evaluation": {"opponents": [{"name": "mixture", "players": {"past": 1}}]}})
    with pytest.raises(GameError, match="play_teams"):
        Mixture({"random": 1}).act([])
