import dataclasses
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit.tables import table
from tests.play import plays

from sparring.config.plugins import registry
from sparring.core.errors import CreditError
from sparring.environments.catalogue import make_game
from sparring.methods.credit.gigpo import gigpo
from sparring.methods.credit.mage import PRESETS, mage
from sparring.play.players.random import random as random_player
from sparring.play.rollout import play
from sparring.play.turn_table import turn_table

NOTE = "note"


def trials(*parts_of_trials, groups=None, views=None, fines=None, opponents=None, **options):
    """Return the turn table of trials; a trial is a list of attempts (lists of rewards) and notes.

    A note is NOTE, or a pair (NOTE, reward) if it has a reward.
    """
    rewards, attempt, note = [], [], []
    for trial_parts in parts_of_trials:
        rewards.append([])
        attempt_index = 0
        for part in trial_parts:
            if isinstance(part, list):
                rewards[-1] += part
                attempt += [attempt_index] * len(part)
                note += [False] * len(part)
                attempt_index += 1
            else:
                rewards[-1].append(float(part[1]) if isinstance(part, tuple) else 0.0)
                attempt.append(attempt_index - 1)
                note.append(True)
    turns = table(rewards, groups=groups or [0] * len(parts_of_trials), **options)
    size = len(note)
    fine_per_turn = np.zeros(size) if fines is None else np.array(fines, dtype=np.float64)
    return dataclasses.replace(
        turns,
        attempt=np.array(attempt, dtype=np.int64),
        note=np.array(note, dtype=bool),
        view=np.zeros(size, dtype=np.int64) if views is None else np.array(views, dtype=np.int64),
        reward=turns.reward + fine_per_turn,
        components={"game": turns.reward, "illegal": fine_per_turn},
        opponents=None if opponents is None else np.repeat(opponents, [len(turn_rewards) for turn_rewards in rewards]),
    )


def random_trials(seed, *, notes=True, scale=1.0, offset=0.0):
    """Return a table of random trials: up to four attempts, two groups, two roles, fines, and notes that may earn rewards."""
    generator = np.random.Generator(np.random.Philox(seed))
    trial_list = []
    for _ in range(int(generator.integers(1, 9))):
        parts, count = [], int(generator.integers(1, 5))
        for index in range(count):
            parts.append((offset + scale * generator.normal(size=int(generator.integers(1, 4)))).tolist())
            if notes and (index + 1 < count or generator.random() < 0.2):
                parts += [(NOTE, generator.normal() if generator.random() < 0.2 else 0.0)] * int(
                    generator.integers(1, 3) if generator.random() < 0.3 else 1
                )
        trial_list.append(parts)
    count, size = (
        len(trial_list),
        sum(len(part) if isinstance(part, list) else 1 for parts in trial_list for part in parts),
    )
    return trials(
        *trial_list,
        groups=generator.integers(0, 2, count).tolist(),
        seats=generator.integers(0, 2, count).tolist(),
        views=generator.integers(0, 3, size),
        fines=-0.5 * (generator.random(size) < 0.3),
        opponents=generator.integers(0, 2, count),
    )


def test_credit_of_two_losses_and_a_win_by_hand():
    """Each attempt stakes ten chips and pays -10, 0 or +20. Both discounts are 0.5."""
    turns = trials([[0.0, -10.0], NOTE, [-10.0], NOTE, [0.0, 10.0]])
    credit = mage(turns, gamma=0.5, gamma_episode=0.5)
    # step returns from the end: 20 and 10; note: 10; attempt 1: 0 + 5; note: 5; attempt 0: -10 + 2.5, and half of it
    step_returns = np.array([-3.75, -7.5, 5.0, 5.0, 10.0, 10.0, 20.0])
    # plays are compared with plays, and notes with notes
    anchor_means = np.array([4.75, 4.75, 7.5, 4.75, 7.5, 4.75, 4.75])
    is_play = np.array([1, 1, 0, 1, 0, 1, 1])  # the other turns are notes
    episode_advantages = is_play * (np.array([-10, -10, 0, 0, 0, 20, 20]) - 10 / 3)
    assert credit.advantages == pytest.approx(episode_advantages + step_returns - anchor_means)
    without_steps = mage(turns, gamma=0.5, gamma_episode=0.5, step_weight=0.0)
    assert without_steps.advantages == pytest.approx(episode_advantages)


def test_released_credit_of_two_losses_and_a_win_by_hand():
    """The mean of the episode part is over seven turns; the two notes count as 0: (-10 - 10 + 0 + 20 + 20) / 7."""
    turns = trials([[0.0, -10.0], NOTE, [-10.0], NOTE, [0.0, 10.0]])
    estimate = registry.bind("credit", "mage", {"gamma": 0.5, "gamma_episode": 0.5}, preset="as_released")
    step_returns = np.array([-3.75, -7.5, 5.0, 5.0, 10.0, 10.0, 20.0])
    anchor_means = np.array([4.75, 4.75, 7.5, 4.75, 7.5, 4.75, 4.75])
    episode_advantages = np.array([-10, -10, 0, 0, 0, 20, 20]) - 20 / 7
    assert estimate(turns, {}).advantages == pytest.approx(episode_advantages + step_returns - anchor_means)


def advantages_as_released(turns, gamma_step, gamma_traj, differential):
    """Return the advantages of MAGE's and LaMer's released code, in plain loops."""
    size = len(turns.reward)
    episode_credit, return_to_go = np.zeros(size), np.zeros(size)
    for index in range(turns.trajectory.max() + 1):
        trial_turns = np.flatnonzero(turns.trajectory == index).tolist()
        rewards = {turn: turns.components["game"][turn] for turn in trial_turns}
        for position, turn in enumerate(trial_turns):  # a turn after a note belongs to the next attempt
            later_turns = [t for t in trial_turns[position:] if not turns.note[t]]
            if turns.note[turn] and later_turns:
                rewards[later_turns[0]] += rewards[turn]
                rewards[turn] = 0.0
        attempt_indices = sorted({int(turns.attempt[turn]) for turn in trial_turns if not turns.note[turn]})
        attempt_returns = {
            attempt: sum(
                rewards[turn] for turn in trial_turns if turns.attempt[turn] == attempt and not turns.note[turn]
            )
            for attempt in attempt_indices
        }
        attempt_credit = {
            attempt: attempt_returns[attempt] - (attempt_returns[attempt_indices[k - 1]] if k and differential else 0.0)
            for k, attempt in enumerate(attempt_indices)
        }
        running_return, current_attempt = 0.0, None
        for turn in reversed(trial_turns):
            attempt = int(turns.attempt[turn])
            if turns.note[turn]:
                return_to_go[turn] = running_return + rewards[turn]
                continue
            is_last_turn = turn == max(s for s in trial_turns if turns.attempt[s] == attempt and not turns.note[s])
            step_reward = (attempt_credit[attempt] if is_last_turn else 0.0) if differential else rewards[turn]
            running_return = step_reward + (gamma_step if attempt == current_attempt else gamma_traj) * running_return
            current_attempt, return_to_go[turn], episode_credit[turn] = attempt, running_return, attempt_credit[attempt]
    episode_scores = episode_credit + turns.reward - turns.components["game"]
    advantages = np.zeros(size)
    for turn in range(size):
        group = [s for s in range(size) if (turns.group[s], turns.role[s]) == (turns.group[turn], turns.role[turn])]
        same_view = [s for s in group if (turns.note[s], turns.view[s]) == (turns.note[turn], turns.view[turn])]
        mean = np.mean([episode_scores[s] for s in group]) if len(group) > 1 else 0.0
        advantages[turn] = (
            episode_scores[turn] - mean + return_to_go[turn] - np.mean([return_to_go[s] for s in same_view])
        )
    return advantages


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.95, 1.0]), st.sampled_from([0.0, 0.6, 1.0]), st.booleans())
def test_the_released_variants_equal_plain_loops(seed, gamma, gamma_episode, differential):
    turns = random_trials(seed)
    preset = "as_released" if differential else "lamer_as_released"
    estimate = registry.bind("credit", "mage", {"gamma": gamma, "gamma_episode": gamma_episode}, preset=preset)
    assert estimate(turns, {}).advantages == pytest.approx(
        advantages_as_released(turns, gamma, gamma_episode, differential), abs=1e-9
    )


def mage_by_loops(
    turns,
    *,
    gamma=0.95,
    gamma_episode=0.6,
    step_weight=1.0,
    by_attempt=False,
    pay="differential",
    later="discounted",
    over="attempts",
    note_zeros=False,
    keep_lone=False,
    outcome=None,
    per_opponent=False,
):
    """Compute the advantages in plain loops, with the options of `mage`."""
    size = len(turns.reward)
    rewards = (turns.reward if outcome is None else turns.components[outcome]).copy()
    other_rewards, rewards_without_next = turns.reward - rewards, np.zeros(size)
    rows = {
        trial_index: np.flatnonzero(turns.trajectory == trial_index).tolist()
        for trial_index in range(turns.trajectory.max() + 1)
    }
    for members in rows.values():
        for position, turn in enumerate(members):
            if turns.note[turn]:
                later_turns = [s for s in members[position:] if not turns.note[s]]
                if later_turns:
                    rewards[later_turns[0]] += rewards[turn]
                else:
                    rewards_without_next[turn] = rewards[turn]
                rewards[turn] = 0.0
    attempts, attempt_credit = defaultdict(list), {}
    for trial_index, members in rows.items():
        for turn in members:
            if not turns.note[turn]:
                attempts[trial_index, int(turns.attempt[turn])].append(turn)
        previous_total = 0.0
        for attempt_index in sorted(attempt_index for trial, attempt_index in attempts if trial == trial_index):
            total = sum(rewards[turn] for turn in attempts[trial_index, attempt_index])
            attempt_credit[trial_index, attempt_index] = total - (previous_total if pay == "differential" else 0.0)
            previous_total = total
    if pay == "differential":
        rewards = np.zeros(size)
        for key, members in attempts.items():
            rewards[members[-1]] = attempt_credit[key]
    attempt_returns = {
        key: sum(gamma**k * rewards[turn] for k, turn in enumerate(members)) for key, members in attempts.items()
    }
    step_returns = np.zeros(size)
    for trial_index, members in rows.items():
        attempt_indices = sorted(attempt_index for trial, attempt_index in attempts if trial == trial_index)
        first_returns = {}
        for position, attempt_index in reversed(list(enumerate(attempt_indices))):
            attempt_turns = attempts[trial_index, attempt_index]
            for k, turn in enumerate(attempt_turns):
                step_returns[turn] = sum(
                    gamma ** (m - k) * rewards[attempt_turns[m]] for m in range(k, len(attempt_turns))
                )
                if later == "whole":
                    step_returns[turn] += sum(
                        gamma_episode ** (distance + 1) * attempt_returns[trial_index, m]
                        for distance, m in enumerate(attempt_indices[position + 1 :])
                    )
                elif position + 1 < len(attempt_indices):
                    step_returns[turn] += (
                        gamma ** (len(attempt_turns) - 1 - k)
                        * gamma_episode
                        * first_returns[attempt_indices[position + 1]]
                    )
            first_returns[attempt_index] = step_returns[attempt_turns[0]]
        for position, turn in enumerate(members):
            if turns.note[turn]:
                later_turns = [s for s in members[position:] if not turns.note[s]]
                step_returns[turn] = step_returns[later_turns[0]] if later_turns else rewards_without_next[turn]
    keys = [
        (
            turns.group[turn],
            turns.role[turn],
            turns.attempt[turn] if by_attempt else 0,
            turns.opponents[turn] if per_opponent else 0,
        )
        for turn in range(size)
    ]

    def mean_of_group(entries, turn):
        same_key_values = [value for other_key, value in entries if other_key == keys[turn]]
        return 0.0 if keep_lone and len(same_key_values) == 1 else np.mean(same_key_values)

    if over == "attempts":
        entries = [(keys[members[0]], attempt_credit[attempt]) for attempt, members in attempts.items()]
    else:
        entries = [(keys[turn], attempt_credit[attempt]) for attempt, members in attempts.items() for turn in members]
    if note_zeros:
        entries += [(keys[turn], 0.0) for turn in range(size) if turns.note[turn]]
    advantages = np.zeros(size)
    for attempt, members in attempts.items():
        for turn in members:
            advantages[turn] = attempt_credit[attempt] - mean_of_group(entries, turn)
    for turn in np.flatnonzero(turns.note):
        advantages[turn] = -mean_of_group(entries, turn) if note_zeros else 0.0
    for turn in range(size):
        if outcome is not None:
            advantages[turn] += other_rewards[turn] - mean_of_group(
                [(keys[s], other_rewards[s]) for s in range(size)], turn
            )
        same_view = [
            step_returns[s]
            for s in range(size)
            if keys[s] == keys[turn] and (turns.note[s], turns.view[s]) == (turns.note[turn], turns.view[turn])
        ]
        advantages[turn] += step_weight * (step_returns[turn] - np.mean(same_view))
    return advantages


OPTIONS = st.fixed_dictionaries(
    {
        "gamma": st.sampled_from([0.0, 0.5, 0.95, 1.0]),
        "gamma_episode": st.sampled_from([0.0, 0.6, 1.0]),
        "step_weight": st.sampled_from([0.0, 0.5, 1.0]),
        "pay": st.sampled_from(["differential", "cumulative"]),
        "later": st.sampled_from(["discounted", "whole"]),
        "over": st.sampled_from(["attempts", "turns"]),
        "outcome": st.sampled_from([None, "game"]),
        **{name: st.booleans() for name in ("by_attempt", "note_zeros", "keep_lone", "per_opponent")},
    }
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), OPTIONS)
def test_every_option_equals_plain_loops(seed, options):
    turns = random_trials(seed)
    assert mage(turns, **options).advantages == pytest.approx(mage_by_loops(turns, **options), abs=1e-9)


RELEASED_OPTIONS = {"over": "turns", "note_zeros": True, "keep_lone": True, "outcome": "game"}
OPTIONS_OF_PRESETS = {
    "as_released": RELEASED_OPTIONS,
    "lamer": {**RELEASED_OPTIONS, "pay": "cumulative", "later": "whole"},
    "lamer_as_released": {**RELEASED_OPTIONS, "pay": "cumulative"},
}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["", *OPTIONS_OF_PRESETS]))
def test_lamer_and_the_other_presets_equal_plain_loops(seed, preset):
    turns = random_trials(seed)
    estimate = registry.bind("credit", "mage", preset=preset or None)
    assert estimate(turns, {}).advantages == pytest.approx(
        mage_by_loops(turns, **OPTIONS_OF_PRESETS.get(preset, {})), abs=1e-9
    )
    assert set(PRESETS) == set(OPTIONS_OF_PRESETS)


@given(st.integers(0, 500))
def test_with_one_attempt_per_trial_mage_equals_gigpo(seed):
    turns = random_trials(seed)
    without_attempts = dataclasses.replace(turns, attempt=None, note=None, components={"game": turns.reward})
    one_attempt = dataclasses.replace(without_attempts, attempt=np.zeros(len(turns.reward), dtype=np.int64))
    for one_attempt_table in (without_attempts, one_attempt):
        credit = mage(one_attempt_table, attempts=1, pay="cumulative").advantages
        assert credit == pytest.approx(gigpo(one_attempt_table).advantages, abs=1e-9)
        lamer = registry.bind("credit", "mage", {"keep_lone": False}, preset="lamer")(one_attempt_table, {}).advantages
        assert lamer == pytest.approx(gigpo(one_attempt_table, over="turns").advantages, abs=1e-9)


def test_if_the_table_has_attempts_episodes_do_not_count_as_attempts():
    """The option ``attempts`` then has no effect; without the column, it splits the group into trials."""
    turns = trials([[3.0], [3.0]], [[3.0], [3.0]])
    for attempts in (1, 2, 3):
        assert mage(turns, attempts=attempts, step_weight=0.0).advantages == pytest.approx([1.5, -1.5, 1.5, -1.5])
    without_attempts = dataclasses.replace(turns, attempt=None, note=None)
    assert mage(without_attempts, attempts=2, step_weight=0.0).advantages != pytest.approx([1.5, -1.5, 1.5, -1.5])


def test_a_note_marks_an_episode_as_a_trial():
    """All trials were truncated after the note, so no trial has a second attempt."""
    turns = trials([[1.0], NOTE], [[2.0], NOTE])
    without_attempts = dataclasses.replace(turns, attempt=None)
    assert np.array_equal(mage(without_attempts).advantages, mage(turns).advantages)
    assert mage(without_attempts, step_weight=0.0).advantages == pytest.approx([-0.5, 0.0, 0.5, 0.0])


def test_a_reward_after_a_note_counts_for_the_next_attempt():
    turns = trials([[1.0], (NOTE, 2.0), [3.0]])
    # the attempts have returns 1 and 5, so their differences are 1 and 4
    assert mage(turns, step_weight=0.0).advantages == pytest.approx([-1.5, 0.0, 1.5])
    single_attempts = trials([[1.0], (NOTE, 2.0)], [[1.0], NOTE])
    assert mage(single_attempts).advantages == pytest.approx([0.0, 1.0, 0.0, -1.0])


def test_an_attempt_in_which_the_seat_has_no_turn_is_skipped():
    turns = trials([[1.0], [2.0], [4.0]])
    with_skipped_attempt = dataclasses.replace(turns, attempt=np.array([0, 2, 3]))
    assert np.array_equal(mage(with_skipped_attempt).advantages, mage(turns).advantages)


def test_in_the_released_code_a_group_of_one_keeps_its_return():
    single_trial = trials([[7.0]])
    assert mage(single_trial).advantages.tolist() == [0.0]
    assert registry.bind("credit", "mage", preset="as_released")(single_trial, {}).advantages.tolist() == [7.0]
    three_attempts = trials([[7.0], NOTE, [7.0], NOTE, [7.0]], views=range(5))
    assert mage(three_attempts, by_attempt=True).advantages.tolist() == [0.0] * 5
    assert mage(three_attempts).advantages == pytest.approx([14 / 3, 0.0, -7 / 3, 0.0, -7 / 3])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 500), OPTIONS)
def test_rewards_near_a_million_give_the_advantages_of_plain_loops(seed, options):
    turns = random_trials(seed, offset=1e6)
    advantages = mage(turns, **options).advantages
    assert np.isfinite(advantages).all()
    assert advantages == pytest.approx(mage_by_loops(turns, **options), abs=1e-7)


def test_only_trials_against_the_same_players_are_compared():
    turns = trials([[1.0]], [[3.0]], [[10.0]], [[20.0]], opponents=[0, 0, 1, 1])
    assert mage(turns, per_opponent=True).advantages == pytest.approx([-2.0, 2.0, -10.0, 10.0])
    assert mage(turns).advantages == pytest.approx([-15.0, -11.0, 3.0, 23.0])
    assert (
        registry.bind("credit", "mage", {"per_opponent": True}).needs == {"opponents"}
        and not registry.bind("credit", "mage").needs
    )


def test_attempts_out_of_order_are_refused():
    turns = dataclasses.replace(trials([[1.0], [2.0]], [[3.0], [4.0]]), attempt=np.array([0, 1, 1, 0]))
    with pytest.raises(CreditError, match=r"'mage': row 3 is of attempt 0, after attempt 1 of the same seat"):
        mage(turns)


def test_with_the_option_outcome_a_fine_counts_only_for_its_turn():
    turns = trials([[0.0, 1.0], NOTE, [1.0]], fines=[-0.5, 0.0, 0.0, 0.0], views=range(4))
    # without it, the attempts have returns .5 and 1, so both differences are .5
    assert mage(turns).advantages == pytest.approx([0.0] * 4)
    # with it, the differences are 1 and 0; each turn also gets its fine minus the mean fine of the four turns
    assert mage(turns, outcome="game").advantages == pytest.approx([0.5 - 0.375, 0.5 + 0.125, 0.125, -0.5 + 0.125])
    with pytest.raises(CreditError, match="no reward component 'score'"):
        mage(turns, outcome="score")


@pytest.mark.parametrize("environment", ["kuhn_poker", "rock_paper_scissors"])
@pytest.mark.parametrize("options", [{}, {"stop_on_win": True}, {"reflect": False}], ids=str)
def test_trials_of_played_episodes_equal_plain_loops(environment, options):
    game = make_game("trial", options={"environment": {"name": environment}, "attempts": 4, **options})
    turns = turn_table(play(plays.make_specs(game, 12, name="random", group_size=4), {"random": random_player()}))
    assert turns.attempt.max() == 3
    without_notes = (
        dataclasses.replace(turns, note=np.zeros(len(turns.reward), dtype=bool)) if turns.note is None else turns
    )
    assert mage(turns).advantages == pytest.approx(mage_by_loops(without_notes), abs=1e-9)
    assert registry.bind("credit", "mage", preset="as_released")(turns, {}).advantages == pytest.approx(
        advantages_as_released(without_notes, 0.95, 0.6, True), abs=1e-9
    )
