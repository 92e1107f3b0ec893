from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table
from tests.play import plays

from sparring.environments.catalogue import make_game
from sparring.methods.credit.bi_level_gae import bi_level_gae
from sparring.methods.credit.gae import gae
from sparring.methods.credit.hiper import hiper
from sparring.methods.credit.vtrace import vtrace
from sparring.play.players.random import random
from sparring.play.rollout import play
from sparring.play.turn_table import turn_table

CASES = [
    (gae, {"gamma": 0.9, "lam": 0.5}),
    (vtrace, {"gamma": 0.9, "lam": 0.5}),
    (hiper, {"gamma": 0.9, "segment_turns": 2, "lam_turn": 0.6, "lam_segment": 0.8, "normalise": False}),
    (bi_level_gae, {"gamma_turn": 0.9, "lam_turn": 0.5, "gamma_token": 0.8, "lam_token": 0.7}),
]


def cut_table(rewards, values, is_cut):
    """Return a table of one-token turns with every column that critics read; is_cut says which trajectories were truncated."""
    turns = table(rewards, values=values, tokens=[1] * sum(map(len, rewards)))
    ratio = np.linspace(-0.5, 0.5, len(turns.reward))
    return replace(
        turns,
        token_value=turns.value,
        logprob=np.zeros(len(ratio)),
        old_logprob=ratio,
        cut=turns.done & np.array(is_cut, dtype=bool)[turns.trajectory],
    )


def test_by_hand():
    turns = cut_table([[0.0, 0.0, 5.0], [1.0]], [0.1, 0.2, 0.3, 0.5], [True, False])
    delta = [0.9 * 0.2 - 0.1, 0.9 * 0.3 - 0.2]  # the third turn and its reward of 5 are not used
    credit = gae(turns, gamma=0.9, lam=0.5)
    assert credit.advantages == pytest.approx([delta[0] + 0.45 * delta[1], delta[1], 0.0, 0.5])
    assert credit.value_targets == pytest.approx([delta[0] + 0.45 * delta[1] + 0.1, 0.9 * 0.3, 0.3, 1.0])
    counted_as_ended = gae(turns, gamma=0.9, lam=0.5, cut="zero")
    assert counted_as_ended.advantages[2:] == pytest.approx([5.0 - 0.3, 0.5])


def test_by_hand_over_segments():
    # segments are turns (0, 1) and (2); the truncated turn begins the second
    turns = cut_table([[1.0, 2.0, 7.0]], [0.1, 0.2, 0.3], [True])
    options = {"segment_turns": 2, "lam_turn": 1.0, "lam_segment": 1.0, "normalise": False}
    low, high = (hiper(turns, high_share=share, **options).advantages for share in (0.0, 1.0))
    assert low == pytest.approx([1.0 + 2.0 + 0.3 - 0.1, 2.0 + 0.3 - 0.2, 0.0])
    assert high == pytest.approx([3.0 + 0.3 - 0.1, 2.0 + 0.3 - 0.2, 0.0])


@pytest.mark.parametrize(("estimate", "options"), CASES)
@given(st.integers(0, 500))
def test_a_truncated_game_ends_with_the_value_of_its_last_turn(estimate, options, seed):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(2, 6)).tolist() for _ in range(3)]
    values = generator.normal(size=sum(map(len, rewards)))
    truncated = cut_table(rewards, values, [True, False, True])
    ended_rewards, mask = [], np.ones(len(values), dtype=bool)
    last_rows = np.cumsum([len(turn_rewards) for turn_rewards in rewards]) - 1
    for turn_rewards, last_row, is_cut in zip(rewards, last_rows, [True, False, True], strict=True):
        ended_rewards.append(
            [*turn_rewards[:-2], turn_rewards[-2] + 0.9 * values[last_row]] if is_cut else turn_rewards
        )
        mask[last_row] = not is_cut
    shorter_games = cut_table(ended_rewards, values[mask], [False] * 3)
    shorter_games = replace(shorter_games, old_logprob=truncated.old_logprob[mask])
    credit, expected = estimate(truncated, **options), estimate(shorter_games, **options)
    assert credit.advantages[mask] == pytest.approx(expected.advantages, abs=1e-9)
    assert credit.value_targets[mask] == pytest.approx(expected.value_targets, abs=1e-9)
    assert credit.advantages[~mask].tolist() == [0.0, 0.0]
    assert credit.value_targets[~mask] == pytest.approx(values[~mask])


@pytest.mark.parametrize(("estimate", "options"), CASES)
def test_cut_zero_gives_the_advantages_of_games_that_are_not_truncated(estimate, options):
    turns = cut_table([[1.0, 2.0], [3.0, -1.0, 0.5]], [0.1, 0.2, 0.3, 0.4, 0.5], [True, False])
    unaware = replace(turns, cut=None)
    none_cut = replace(turns, cut=np.zeros(5, dtype=bool))
    without_truncation = estimate(unaware, **options).advantages
    assert np.array_equal(estimate(turns, cut="zero", **options).advantages, without_truncation)
    assert np.array_equal(estimate(none_cut, **options).advantages, without_truncation)
    bootstrapped = estimate(turns, **options).advantages
    assert np.array_equal(bootstrapped[2:], without_truncation[2:]) and not np.allclose(
        bootstrapped[:2], without_truncation[:2]
    )


@pytest.mark.parametrize(("estimate", "options"), CASES)
def test_with_zero_rewards_and_equal_values_truncation_gives_zero(estimate, options):
    undiscounted = {name: 1.0 if "gamma" in name else value for name, value in options.items()}
    turns = cut_table([[0.0] * 3, [0.0]], [0.7] * 4, [True, True])
    credit = estimate(turns, **undiscounted)
    assert credit.advantages == pytest.approx(np.zeros(4), abs=1e-12)
    assert credit.value_targets == pytest.approx([0.7] * 4)
    assert estimate(turns, cut="zero", **undiscounted).advantages[-1] == pytest.approx(-0.7)


@pytest.mark.parametrize(
    ("estimate", "options"), [(gae, {"whiten": True}), (bi_level_gae, {"whiten": True}), (hiper, {"high_share": 0.0})]
)
def test_unknown_advantages_stay_zero_under_normalisation(estimate, options):
    turns = cut_table([[1.0, 2.0], [3.0, -1.0, 0.5]], [0.1, 0.2, 0.3, 0.4, 0.5], [True, False])
    advantages = estimate(turns, **options).advantages
    known_advantages = advantages[[0, 2, 3, 4]]
    assert advantages[1] == 0.0
    assert (known_advantages.mean(), known_advantages.std(ddof=1)) == (
        pytest.approx(0.0, abs=1e-9),
        pytest.approx(1.0, abs=1e-5),
    )


def test_if_the_last_turn_has_no_tokens_the_previous_turn_is_marked_cut():
    turns = table([[1.0, 2.0, 4.0]], tokens=[1, 2, 0])
    turns = replace(turns, token_value=np.array([0.5, 0.25, 0.75]), cut=turns.done)
    credit = bi_level_gae(turns, gamma_turn=1.0)
    assert credit.advantages == pytest.approx([1.0 + 0.75 - 0.5, 0.75 - 0.25, 0.0])


def games(max_turns):
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    specs = [replace(spec, max_turns=max_turns) for spec in plays.make_specs(game, 20, name="bot")]
    return play(specs, {"bot": random()})


def test_a_game_that_reaches_the_turn_limit_is_cut_for_all_seats():
    episodes = games(3)
    assert all(episode.cut for episode in episodes)
    turns = turn_table(episodes)
    assert turns.cut.tolist() == turns.done.tolist() == [False, True, True] * 20  # two turns of X, one of O
    with_critic = replace(turns, value=np.full(len(turns.reward), 0.7))
    assert gae(with_critic).value_targets == pytest.approx(np.full(60, 0.7))


def test_a_game_that_ends_by_its_rules_at_the_limit_is_not_cut():
    unlimited = games(None)
    assert not any(episode.cut for episode in unlimited) and turn_table(unlimited).cut is None
    longest_games = games(9)  # a full board needs nine turns
    assert max(len(episode.turns) for episode in longest_games) == 9
    assert not any(episode.cut for episode in longest_games)
    limited_to_six = games(6)
    assert {episode.cut for episode in limited_to_six} == {True, False}
    assert all(episode.cut == (len(episode.turns) == 6 and not any(episode.returns)) for episode in limited_to_six)


def test_a_forfeit_is_no_truncation():
    class MutePlayer:
        name, renderer = "mute", None

        def act(self, turns):
            return [type(random().act([turn])[0])(text="?") for turn in turns]

    (spec,) = plays.make_specs(make_game("tic_tac_toe", illegal={"rule": "forfeit"}), 1, name="bot")
    (episode,) = play([replace(spec, max_turns=1)], {"bot": MutePlayer()})
    assert episode.forfeited_by == 0 and not episode.cut
