import dataclasses
import itertools
import types

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cases import every_case

from sparring.config.plugins import registry
from sparring.core.errors import RewardError
from sparring.core.schedule import parse
from sparring.environments.catalogue import make_game
from sparring.methods.rewards.base import SHAPING_BOUND, apply_rewards, batch_gaps, outcome_gap
from sparring.methods.rewards.components import WeightedReward


def reward(function, name="made_up", weight=1.0):
    plugin = registry.Plugin(slot="rewards", name=name, function=function, module=types.ModuleType("made_up"))
    return WeightedReward(bound=registry.BoundPlugin(plugin=plugin, options={}, schedules={}), weight=parse(weight))


def constant_reward(*values, name="made_up", weight=1.0):
    return reward(lambda episode: values, name, weight)


def components(episodes, name="made_up"):
    return [turn.rewards.get(name) for episode in episodes for turn in episode.turns]


def totals(episode):
    return [
        sum(sum(turn.rewards.values()) for turn in episode.turns if turn.seat == seat)
        for seat in range(len(episode.trained))
    ]


WIN = [(0, "ok", 2, 0.0), (1, "ok", 2, -1.0), (0, "ok", 2, 1.0)]


def test_without_rewards_episodes_are_unchanged(make_episode):
    episodes = [make_episode(WIN)]
    shaped_episodes, metrics = apply_rewards(episodes, (), 0.0, gaps={})
    assert shaped_episodes[0] is episodes[0] and metrics == {}


def test_trained_seats_get_weighted_components(make_episode):
    episode = make_episode(WIN, trained=(True, False))
    bonus = constant_reward(0.1, 0.2, 0.3, weight={"schedule": "linear", "start": 1.0, "end": 0.0})
    shaped_episodes, metrics = apply_rewards([episode], [bonus], 0.5, gaps={})
    assert [dict(turn.rewards) for turn in shaped_episodes[0].turns] == [
        {"game": 0.0, "made_up": 0.05},
        {"game": -1.0},
        {"game": 1.0, "made_up": 0.15},
    ]
    assert metrics == {"reward/made_up": pytest.approx(0.1), "bounded_share": 0.0}
    assert [dict(turn.rewards) for turn in episode.turns] == [{"game": 0.0}, {"game": -1.0}, {"game": 1.0}]
    assert shaped_episodes[0].returns == episode.returns


def test_options_can_be_schedules(make_episode):
    reward = registry.bind("rewards", "format_bonus", {"bonus": {"schedule": "linear", "start": 0.1, "end": 0.0}})
    shaped_episodes, _ = apply_rewards(
        [make_episode(WIN)], [WeightedReward(bound=reward, weight=parse(2.0))], 0.5, gaps={}
    )
    assert components(shaped_episodes, "format_bonus") == [0.1, 0.1, 0.1]


def test_only_a_seat_with_too_much_shaping_is_scaled(make_episode):
    shaped_episodes, metrics = apply_rewards([make_episode(WIN)], [constant_reward(0.5, -0.25, 0.48)], 0.0, gaps={})
    assert components(shaped_episodes) == pytest.approx(
        [0.5 * SHAPING_BOUND / 0.98, -0.25, 0.48 * SHAPING_BOUND / 0.98]
    )
    assert metrics["bounded_share"] == 0.5
    assert metrics["reward/made_up"] == pytest.approx((SHAPING_BOUND - 0.25) / 3)


def test_reorder_outcomes_turns_the_bound_off(make_episode):
    shaped_episodes, metrics = apply_rewards(
        [make_episode(WIN)], [constant_reward(5.0, 5.0, 5.0)], 0.0, gaps={}, reorder_outcomes=True
    )
    assert components(shaped_episodes) == [5.0, 5.0, 5.0]
    assert metrics == {"reward/made_up": 5.0, "bounded_share": 0.0}


def test_all_shaping_is_bounded_jointly_except_the_forfeit_penalty(make_episode):
    episode = make_episode(WIN, forfeited_by=0)
    with_penalties = [turn._replace(rewards={**turn.rewards, "illegal": -7.0, "older": 0.3}) for turn in episode.turns]
    episode = type(episode)(
        **{name: getattr(episode, name) for name in episode.__slots__} | {"turns": tuple(with_penalties)}
    )
    shaped_episodes, metrics = apply_rewards(
        [episode], [constant_reward(0.1, 0.1, 0.1, name="a"), constant_reward(0.1, 0.1, 0.1, name="b")], 0.0, gaps={}
    )
    last_rewards = shaped_episodes[0].turns[2].rewards
    assert (last_rewards["game"], last_rewards["illegal"]) == (1.0, -7.0)
    assert (last_rewards["older"], last_rewards["a"], last_rewards["b"]) == pytest.approx(
        (0.3 * SHAPING_BOUND, 0.1 * SHAPING_BOUND, 0.1 * SHAPING_BOUND)
    )  # the seat had 1.0 in all
    assert metrics["bounded_share"] == 1.0
    assert sum(shaped_episodes[0].turns[1].rewards.values()) == pytest.approx(
        -1.0 - SHAPING_BOUND
    )  # the other seat did not forfeit


def with_penalties(episode, *penalties):
    turns = [
        turn._replace(rewards={**turn.rewards, "illegal": -penalty}) if penalty else turn
        for turn, penalty in zip(episode.turns, penalties, strict=True)
    ]
    return dataclasses.replace(episode, turns=tuple(turns))


def test_penalties_are_bounded_if_the_game_continued(make_episode):
    """Penalties of three illegal replies are bounded, so that a win stays better than a loss."""
    win, clean = with_penalties(make_episode(WIN), 1.0, 0.0, 2.0), make_episode(WIN, number=1)
    shaped_episodes, metrics = apply_rewards([win, clean], [], 0.0, gaps={})
    assert components(shaped_episodes, "illegal") == [
        pytest.approx(-SHAPING_BOUND / 3),
        None,
        pytest.approx(-2 * SHAPING_BOUND / 3),
        None,
        None,
        None,
    ]
    assert metrics == {"bounded_share": 1 / 4}
    assert totals(shaped_episodes[0])[0] > totals(shaped_episodes[0])[1] + 1
    small_penalties = with_penalties(make_episode(WIN), 0.1, 0.0, 0.3)
    assert apply_rewards([small_penalties], [], 0.0, gaps={})[0] == [small_penalties]
    unbounded, metrics = apply_rewards([win], [], 0.0, gaps={}, reorder_outcomes=True)
    assert (unbounded, metrics) == ([win], {"bounded_share": 0.0})
    forfeit = with_penalties(make_episode(WIN, forfeited_by=0), 0.0, 0.0, 5.0)
    assert apply_rewards([forfeit], [], 0.0, gaps={}) == ([forfeit], {})
    untrained_winner = with_penalties(make_episode(WIN, trained=(False, True)), 5.0, 0.0, 0.0)
    assert apply_rewards([untrained_winner], [], 0.0, gaps={}) == ([untrained_winner], {})


def test_a_games_scale_multiplies_its_payoffs_and_the_bound(make_episode):
    episodes = [
        make_episode(WIN, game="a", returns=(1.0, -1.0)),
        make_episode(WIN, game="b", returns=(1.0, -1.0), number=1),
    ]
    shaped_episodes, _ = apply_rewards(
        episodes, [constant_reward(0.0, 0.0, 9.0)], 0.0, gaps={"a": 1.0, "b": 1.0}, scales={"a": 4.0}
    )
    assert components(shaped_episodes, "game") == [0.0, -4.0, 4.0, 0.0, -1.0, 1.0]
    assert [episode.returns for episode in shaped_episodes] == [(1.0, -1.0)] * 2
    assert components(shaped_episodes)[2::3] == pytest.approx([4 * SHAPING_BOUND, SHAPING_BOUND])
    assert apply_rewards(episodes, [], 0.0, gaps={}, scales={"a": 1.0}) == (episodes, {})


def test_the_smallest_payoff_gap_of_the_game_sets_the_bound(make_episode):
    episodes = [make_episode(WIN, game="a"), make_episode(WIN, game="b"), make_episode(WIN, game="c")]
    shaped_episodes, _ = apply_rewards(episodes, [constant_reward(9.0, 0.0, 0.0)], 0.0, gaps={"a": 0.5, "b": 4.0})
    assert components(shaped_episodes)[::3] == pytest.approx(
        [0.5 * SHAPING_BOUND, 2.0 * SHAPING_BOUND, SHAPING_BOUND]
    )  # -1 and 1 are 2 apart


def test_closer_outcomes_in_the_batch_lower_the_bound(make_episode):
    half_outcomes = [(0, "ok", 2, 0.25), (0, "ok", 2, 0.5 + 1e-12)]
    episodes = [make_episode(WIN), make_episode(half_outcomes), make_episode([(0, "ok", 2, 0.75)])]
    assert batch_gaps(episodes, {"tic_tac_toe": 2.0}) == {"tic_tac_toe": pytest.approx(0.25)}
    assert batch_gaps(episodes[:1], {"tic_tac_toe": 1.5}) == {"tic_tac_toe": 1.5}
    assert batch_gaps([make_episode(WIN, trained=(False, True))], {}) == {"tic_tac_toe": 1.0}


NUMBERS = st.floats(-1e6, 1e6)
OUTCOMES = st.sampled_from([-2.0, -1.5, -1.0, -0.3, 0.0, 0.1, 0.5, 1.0, 2.0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_order_of_outcomes_holds_for_any_components(make_episode, data):
    games = data.draw(st.lists(st.tuples(OUTCOMES, OUTCOMES, st.integers(1, 4)), min_size=1, max_size=5))
    episodes, values = [], {"a": {}, "b": {}}
    for number, (first_return, second_return, moves) in enumerate(games):
        turns = [(seat, "ok", 1, 0.0) for _ in range(moves) for seat in (0, 1)]
        turns[-2:] = [(0, "ok", 1, first_return), (1, "ok", 1, second_return)]
        fines = data.draw(st.lists(st.sampled_from([0.0, 0.2, 3.0]), min_size=2 * moves, max_size=2 * moves))
        episodes.append(
            with_penalties(make_episode(turns, returns=(first_return, second_return), number=number), *fines)
        )
        for name in values:
            values[name][number] = data.draw(st.lists(NUMBERS, min_size=2 * moves, max_size=2 * moves))
    rewards = [reward(lambda episode, name=name: values[name][episode.episode_id], name) for name in values]
    shaped_episodes, _ = apply_rewards(
        episodes, rewards, 0.0, gaps={"tic_tac_toe": data.draw(st.sampled_from([0.2, 1.0, 7.0]))}
    )
    for lower, higher in itertools.product(zip(episodes, shaped_episodes, strict=True), repeat=2):
        for seat, other_seat in itertools.product((0, 1), repeat=2):
            if lower[0].returns[seat] < higher[0].returns[other_seat]:
                assert totals(lower[1])[seat] < totals(higher[1])[other_seat]
    tails = [
        [sum(turn.rewards.values()) for turn in episode.turns if turn.seat == seat]
        for episode in shaped_episodes
        for seat in (0, 1)
    ]
    outcomes = [episode.returns[seat] for episode in episodes for seat in (0, 1)]
    pairs = [
        (outcome, sum(tail[begin:]))
        for outcome, tail in zip(outcomes, tails, strict=True)
        for begin in range(len(tail))
    ]
    for (low_outcome, low_tail), (high_outcome, high_tail) in itertools.product(pairs, repeat=2):
        assert low_outcome >= high_outcome or low_tail < high_tail


@pytest.mark.parametrize("values", [(1.0, 1.0), (1.0, 1.0, 1.0, 1.0), ()])
def test_a_reward_without_one_number_per_turn_is_an_error(make_episode, values):
    with pytest.raises(RewardError, match=rf"'made_up' returned {len(values)} numbers for 3 turns of tic_tac_toe"):
        apply_rewards([make_episode(WIN)], [constant_reward(*values)], 0.0, gaps={})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e7])
def test_rewards_that_are_not_finite_are_an_error(make_episode, value):
    with pytest.raises(RewardError, match=r"'made_up'.*at turn 1 of episode 4"):
        apply_rewards(
            [make_episode(WIN, number=4)], [constant_reward(0.0, value, 0.0)], 0.0, gaps={}, reorder_outcomes=True
        )


@pytest.mark.parametrize(
    ("name", "options", "illegal", "gap"),
    [
        ("kuhn_poker", {}, {}, 1.0),
        ("tic_tac_toe", {}, {}, 1.0),
        ("tic_tac_toe", {}, {"payoff": "mars"}, 1.0),
        ("tic_tac_toe", {}, {"payoff": "spiral"}, 0.5),
        ("tic_tac_toe", {}, {"payoff": "spiral", "rule": "random"}, 1.0),
        ("leduc_poker", {"players": 3}, {}, 0.5),  # two seats share the 13 chips of the third
    ],
)
def test_the_smallest_payoff_gap_of_a_game(name, options, illegal, gap):
    assert outcome_gap(make_game(name, options=options, illegal=illegal)) == gap


@every_case("name", registry.names("environments"))
@every_case("payoff", ["zero_sum", "offender_only", "spiral", "mars"])
def test_every_game_has_a_gap(name, payoff):
    assert 0.0 < outcome_gap(make_game(name, illegal={"payoff": payoff})) <= 1.0
