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


def trials(*courses, groups=None, views=None, fines=None, opponents=None, **options):
    """Return the table of trials; a trial is a list of attempts (lists of rewards), with NOTE for a note after an attempt.

    A note with a reward is a pair (NOTE, reward).
    """
    rewards, attempt, note = [], [], []
    for course in courses:
        rewards.append([])
        number = 0
        for part in course:
            if isinstance(part, list):
                rewards[-1] += part
                attempt += [number] * len(part)
                note += [False] * len(part)
                number += 1
            else:
                rewards[-1].append(float(part[1]) if isinstance(part, tuple) else 0.0)
                attempt.append(number - 1)
                note.append(True)
    turns = table(rewards, groups=groups or [0] * len(courses), **options)
    size = len(note)
    fine = np.zeros(size) if fines is None else np.array(fines, dtype=np.float64)
    return dataclasses.replace(
        turns,
        attempt=np.array(attempt, dtype=np.int64),
        note=np.array(note, dtype=bool),
        view=np.zeros(size, dtype=np.int64) if views is None else np.array(views, dtype=np.int64),
        reward=turns.reward + fine,
        components={"game": turns.reward, "illegal": fine},
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
    # G from the end: 20, 10; note 10; attempt 1: 0 + 5; note 5; attempt 0: -10 + 2.5, and its half
    steps = np.array([-3.75, -7.5, 5.0, 5.0, 10.0, 10.0, 20.0])
    anchor = np.array([4.75, 4.75, 7.5, 4.75, 7.5, 4.75, 4.75])  # attempts are compared with attempts, notes with notes
    outcome, plays_only = np.array([-10, -10, 0, 0, 0, 20, 20]) - 10 / 3, np.array([1, 1, 0, 1, 0, 1, 1])
    assert credit.advantages == pytest.approx(plays_only * outcome + steps - anchor)
    assert mage(turns, gamma=0.5, gamma_episode=0.5, step_weight=0.0).advantages == pytest.approx(plays_only * outcome)


def test_released_credit_of_two_losses_and_a_win_by_hand():
    """Means of the episode part run over seven steps, two of them notes of 0: (-10 - 10 + 0 + 20 + 20) / 7."""
    turns = trials([[0.0, -10.0], NOTE, [-10.0], NOTE, [0.0, 10.0]])
    estimate = registry.bind("credit", "mage", {"gamma": 0.5, "gamma_episode": 0.5}, preset="as_released")
    steps = np.array([-3.75, -7.5, 5.0, 5.0, 10.0, 10.0, 20.0]) - np.array([4.75, 4.75, 7.5, 4.75, 7.5, 4.75, 4.75])
    assert estimate(turns, {}).advantages == pytest.approx(np.array([-10, -10, 0, 0, 0, 20, 20]) - 20 / 7 + steps)


def advantages_as_released(turns, gamma_step, gamma_traj, differential):
    """Return MAGE's and LaMer's credit in loops: returns per trial, then both normalisations over all steps of a group."""
    size = len(turns.reward)
    episode_credit, return_to_go = np.zeros(size), np.zeros(size)
    for index in range(turns.trajectory.max() + 1):
        steps = np.flatnonzero(turns.trajectory == index).tolist()
        reward = {turn: turns.components["game"][turn] for turn in steps}
        for position, turn in enumerate(steps):  # a turn after a note belongs to the next attempt
            later_turns = [later for later in steps[position:] if not turns.note[later]]
            if turns.note[turn] and later_turns:
                reward[later_turns[0]] += reward[turn]
                reward[turn] = 0.0
        numbers = sorted({int(turns.attempt[turn]) for turn in steps if not turns.note[turn]})
        total = {
            attempt: sum(reward[turn] for turn in steps if turns.attempt[turn] == attempt and not turns.note[turn])
            for attempt in numbers
        }
        gain = {
            attempt: total[attempt] - (total[numbers[k - 1]] if k and differential else 0.0)
            for k, attempt in enumerate(numbers)
        }
        running_return, current_attempt = 0.0, None
        for turn in reversed(steps):
            attempt = int(turns.attempt[turn])
            if turns.note[turn]:
                return_to_go[turn] = running_return + reward[turn]
                continue
            is_last_turn = turn == max(s for s in steps if turns.attempt[s] == attempt and not turns.note[s])
            step_reward = (gain[attempt] if is_last_turn else 0.0) if differential else reward[turn]
            running_return = step_reward + (gamma_step if attempt == current_attempt else gamma_traj) * running_return
            current_attempt, return_to_go[turn], episode_credit[turn] = attempt, running_return, gain[attempt]
    score = episode_credit + turns.reward - turns.components["game"]
    result = np.zeros(size)
    for turn in range(size):
        group = [s for s in range(size) if (turns.group[s], turns.role[s]) == (turns.group[turn], turns.role[turn])]
        anchor = [s for s in group if (turns.note[s], turns.view[s]) == (turns.note[turn], turns.view[turn])]
        mean = np.mean([score[s] for s in group]) if len(group) > 1 else 0.0
        result[turn] = score[turn] - mean + return_to_go[turn] - np.mean([return_to_go[s] for s in anchor])
    return result


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.95, 1.0]), st.sampled_from([0.0, 0.6, 1.0]), st.booleans())
def test_the_released_variants_equal_plain_loops(seed, gamma, gamma_episode, differential):
    turns = random_trials(seed)
    preset = "as_released" if differential else "lamer_as_released"
    estimate = registry.bind("credit", "mage", {"gamma": gamma, "gamma_episode": gamma_episode}, preset=preset)
    assert estimate(turns, {}).advantages == pytest.approx(
        advantages_as_released(turns, gamma, gamma_episode, differential), abs=1e-9
    )


def naive(
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
    """Return the advantages of every option, turn by turn."""
    size = len(turns.reward)
    reward = (turns.reward if outcome is None else turns.components[outcome]).copy()
    other_rewards, rewards_without_next = turns.reward - reward, np.zeros(size)
    rows = {number: np.flatnonzero(turns.trajectory == number).tolist() for number in range(turns.trajectory.max() + 1)}
    for members in rows.values():
        for position, turn in enumerate(members):
            if turns.note[turn]:
                later_turns = [s for s in members[position:] if not turns.note[s]]
                if later_turns:
                    reward[later_turns[0]] += reward[turn]
                else:
                    rewards_without_next[turn] = reward[turn]
                reward[turn] = 0.0
    attempts, gain = defaultdict(list), {}
    for number, members in rows.items():
        for turn in members:
            if not turns.note[turn]:
                attempts[number, int(turns.attempt[turn])].append(turn)
        previous_total = 0.0
        for attempt_index in sorted(attempt_index for trial, attempt_index in attempts if trial == number):
            total = sum(reward[turn] for turn in attempts[number, attempt_index])
            gain[number, attempt_index] = total - (previous_total if pay == "differential" else 0.0)
            previous_total = total
    if pay == "differential":
        reward = np.zeros(size)
        for key, members in attempts.items():
            reward[members[-1]] = gain[key]
    own_returns = {
        key: sum(gamma**k * reward[turn] for k, turn in enumerate(members)) for key, members in attempts.items()
    }  # g_1
    step = np.zeros(size)
    for number, members in rows.items():
        numbers = sorted(attempt_index for trial, attempt_index in attempts if trial == number)
        first_returns = {}
        for position, attempt_index in reversed(list(enumerate(numbers))):
            turns_of = attempts[number, attempt_index]
            for k, turn in enumerate(turns_of):
                step[turn] = sum(gamma ** (m - k) * reward[turns_of[m]] for m in range(k, len(turns_of)))
                if later == "whole":
                    step[turn] += sum(
                        gamma_episode ** (distance + 1) * own_returns[number, m]
                        for distance, m in enumerate(numbers[position + 1 :])
                    )
                elif position + 1 < len(numbers):
                    step[turn] += (
                        gamma ** (len(turns_of) - 1 - k) * gamma_episode * first_returns[numbers[position + 1]]
                    )
            first_returns[attempt_index] = step[turns_of[0]]
        for position, turn in enumerate(members):
            if turns.note[turn]:
                later_turns = [s for s in members[position:] if not turns.note[s]]
                step[turn] = step[later_turns[0]] if later_turns else rewards_without_next[turn]
    key = [
        (
            turns.group[turn],
            turns.role[turn],
            turns.attempt[turn] if by_attempt else 0,
            turns.opponents[turn] if per_opponent else 0,
        )
        for turn in range(size)
    ]

    def mean_of(entries, t):
        same_key_values = [value for other_key, value in entries if other_key == key[t]]
        return 0.0 if keep_lone and len(same_key_values) == 1 else np.mean(same_key_values)

    if over == "attempts":
        entries = [(key[members[0]], gain[attempt]) for attempt, members in attempts.items()]
    else:
        entries = [(key[turn], gain[attempt]) for attempt, members in attempts.items() for turn in members]
    if note_zeros:
        entries += [(key[turn], 0.0) for turn in range(size) if turns.note[turn]]
    result = np.zeros(size)
    for attempt, members in attempts.items():
        for turn in members:
            result[turn] = gain[attempt] - mean_of(entries, turn)
    for turn in np.flatnonzero(turns.note):
        result[turn] = -mean_of(entries, turn) if note_zeros else 0.0
    for turn in range(size):
        if outcome is not None:
            result[turn] += other_rewards[turn] - mean_of([(key[s], other_rewards[s]) for s in range(size)], turn)
        same_view = [
            step[s]
            for s in range(size)
            if key[s] == key[turn] and (turns.note[s], turns.view[s]) == (turns.note[turn], turns.view[turn])
        ]
        result[turn] += step_weight * (step[turn] - np.mean(same_view))
    return result


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
    assert mage(turns, **options).advantages == pytest.approx(naive(turns, **options), abs=1e-9)


RELEASED = {"over": "turns", "note_zeros": True, "keep_lone": True, "outcome": "game"}
MEANT = {
    "as_released": RELEASED,
    "lamer": {**RELEASED, "pay": "cumulative", "later": "whole"},
    "lamer_as_released": {**RELEASED, "pay": "cumulative"},
}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["", *MEANT]))
def test_lamer_and_the_other_presets_equal_plain_loops(seed, preset):
    turns = random_trials(seed)
    estimate = registry.bind("credit", "mage", preset=preset or None)
    assert estimate(turns, {}).advantages == pytest.approx(naive(turns, **MEANT.get(preset, {})), abs=1e-9)
    assert set(PRESETS) == set(MEANT)


@given(st.integers(0, 500))
def test_with_one_attempt_per_trial_mage_is_gigpo(seed):
    turns = random_trials(seed)
    without_attempts = dataclasses.replace(turns, attempt=None, note=None, components={"game": turns.reward})
    one_attempt = dataclasses.replace(without_attempts, attempt=np.zeros(len(turns.reward), dtype=np.int64))
    for table_of_one in (without_attempts, one_attempt):
        credit = mage(table_of_one, attempts=1, pay="cumulative").advantages
        assert credit == pytest.approx(gigpo(table_of_one).advantages, abs=1e-9)
        lamer = registry.bind("credit", "mage", {"keep_lone": False}, preset="lamer")(table_of_one, {}).advantages
        assert lamer == pytest.approx(gigpo(table_of_one, over="turns").advantages, abs=1e-9)


def test_if_the_table_has_attempts_episodes_are_not_taken_for_attempts():
    """Two trials of one group with equal returns have advantage 0 for any length of guessed trials."""
    turns = trials([[3.0], [3.0]], [[3.0], [3.0]])
    for attempts in (1, 2, 3):
        assert mage(turns, attempts=attempts, step_weight=0.0).advantages == pytest.approx([1.5, -1.5, 1.5, -1.5])
    guessed = dataclasses.replace(turns, attempt=None, note=None)
    assert mage(guessed, attempts=2, step_weight=0.0).advantages != pytest.approx([1.5, -1.5, 1.5, -1.5])


def test_a_note_marks_an_episode_as_a_trial():
    """All trials were truncated after the note, so no later attempt exists or is guessed."""
    turns = trials([[1.0], NOTE], [[2.0], NOTE])
    without_attempts = dataclasses.replace(turns, attempt=None)
    assert np.array_equal(mage(without_attempts).advantages, mage(turns).advantages)
    assert mage(without_attempts, step_weight=0.0).advantages == pytest.approx([-0.5, 0.0, 0.5, 0.0])


def test_a_reward_after_a_note_counts_for_the_next_attempt():
    turns = trials([[1.0], (NOTE, 2.0), [3.0]])
    # attempts of 1 and 5: paid 1 and 4
    assert mage(turns, step_weight=0.0).advantages == pytest.approx([-1.5, 0.0, 1.5])
    single_attempts = trials([[1.0], (NOTE, 2.0)], [[1.0], NOTE])
    assert mage(single_attempts).advantages == pytest.approx([0.0, 1.0, 0.0, -1.0])


def test_an_attempt_in_which_the_seat_has_no_turn_is_skipped():
    turns = trials([[1.0], [2.0], [4.0]])
    gap = dataclasses.replace(turns, attempt=np.array([0, 2, 3]))
    assert np.array_equal(mage(gap).advantages, mage(turns).advantages)


def test_as_released_a_group_of_one_keeps_its_return():
    single_trial = trials([[7.0]])
    assert mage(single_trial).advantages.tolist() == [0.0]
    assert registry.bind("credit", "mage", preset="as_released")(single_trial, {}).advantages.tolist() == [7.0]
    three = trials([[7.0], NOTE, [7.0], NOTE, [7.0]], views=range(5))
    assert mage(three, by_attempt=True).advantages.tolist() == [0.0] * 5
    assert mage(three).advantages == pytest.approx([14 / 3, 0.0, -7 / 3, 0.0, -7 / 3])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 500), OPTIONS)
def test_values_near_a_million(seed, options):
    turns = random_trials(seed, offset=1e6)
    advantages = mage(turns, **options).advantages
    assert np.isfinite(advantages).all()
    assert advantages == pytest.approx(naive(turns, **options), abs=1e-7)


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


def test_with_a_named_outcome_a_fine_stays_with_its_turn():
    turns = trials([[0.0, 1.0], NOTE, [1.0]], fines=[-0.5, 0.0, 0.0, 0.0], views=range(4))
    # paid back in the next attempt: returns .5 and 1, so .5 and .5
    assert mage(turns).advantages == pytest.approx([0.0] * 4)
    # paid 1 and 0, and the fine less its mean over the four turns
    assert mage(turns, outcome="game").advantages == pytest.approx([0.5 - 0.375, 0.5 + 0.125, 0.125, -0.5 + 0.125])
    with pytest.raises(CreditError, match="no reward component 'score'"):
        mage(turns, outcome="score")


@pytest.mark.parametrize("environment", ["kuhn_poker", "rock_paper_scissors"])
@pytest.mark.parametrize("options", [{}, {"stop_on_win": True}, {"reflect": False}], ids=str)
def test_real_trials(environment, options):
    game = make_game("trial", options={"environment": {"name": environment}, "attempts": 4, **options})
    turns = turn_table(play(plays.make_specs(game, 12, name="random", group_size=4), {"random": random_player()}))
    assert turns.attempt.max() == 3
    without_notes = (
        dataclasses.replace(turns, note=np.zeros(len(turns.reward), dtype=bool)) if turns.note is None else turns
    )
    assert mage(turns).advantages == pytest.approx(naive(without_notes), abs=1e-9)
    assert registry.bind("credit", "mage", preset="as_released")(turns, {}).advantages == pytest.approx(
        advantages_as_released(without_notes, 0.95, 0.6, True), abs=1e-9
    )
