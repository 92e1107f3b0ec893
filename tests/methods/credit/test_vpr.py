import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.config.plugins.registry import bind
from sparring.core.errors import CreditError
from sparring.methods.credit.at_grpo import at_grpo
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.outcome import outcome as outcome_credit
from sparring.methods.credit.rloo import rloo
from sparring.methods.credit.vpr import vpr
from sparring.play.turn_table import with_components

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)
REWARDS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8)


def judged(process, game=None, mask=None, **kwargs):
    """Return a table whose turns have the process rewards, and the game's at each trajectory's end."""
    turns = table(process, **{"groups": [0] * len(process), **kwargs})
    game = np.zeros(len(turns.reward)) if game is None else np.where(turns.done, 1.0, 0.0) * np.repeat(game, [len(p) for p in process])
    components = {"best_action": turns.reward, "game": game}
    return replace(turns, reward=turns.reward + game, components=components, judged=None if mask is None else np.array(mask, dtype=bool))


def test_by_hand():
    # turn 0: 1, 0, 1, 0: mean 1/2, deviation 3^-0.5; turn 1: 1, 0: mean 1/2, deviation 2^-0.5; turn 2: alone
    turns = judged([[1.0, 1.0, 1.0], [0.0], [1.0, 0.0], [0.0]], game=[1.0, 1.0, 0.0, 0.0])
    wide, narrow = 3**0.5 / 2, 2**0.5 / 2
    assert vpr(turns).advantages == pytest.approx([wide, narrow, 0, -wide, wide, -narrow, -wide], abs=1e-5)
    assert vpr(turns, divide_by_std=False).advantages == pytest.approx([0.5, 0.5, 0, -0.5, 0.5, -0.5, -0.5])
    assert vpr(turns, divide_by_std=False, leave_one_out=True).advantages == pytest.approx([2 / 3, 1, 0, -2 / 3, 2 / 3, -1, -2 / 3])
    assert bind("credit", "vpr", preset="unbiased")(turns, {}).advantages == pytest.approx([2 / 3, 1, 0, -2 / 3, 2 / 3, -1, -2 / 3])
    assert vpr(turns, baseline="none", divide_by_std=False).advantages.tolist() == turns.components["best_action"].tolist()


def test_by_hand_a_pair_without_its_own_reward_in_the_mean():
    # (1 - 0) / deviation of (1, 0) = 1 / 2^-0.5, and the negative of it
    found = vpr(judged([[1.0], [0.0]]), leave_one_out=True).advantages
    assert found == pytest.approx([2**0.5, -(2**0.5)], abs=1e-5)


@given(REWARDS, st.booleans(), st.booleans())
def test_by_definition(rewards, leave_one_out, divide_by_std):
    groups = [index // 4 for index in range(len(rewards))]
    turns = judged(rewards, groups=groups)
    found = vpr(turns, leave_one_out=leave_one_out, divide_by_std=divide_by_std, epsilon=0.5)
    alike = list(zip(turns.group.tolist(), turns.turn_index.tolist(), strict=True))
    for row, reward in enumerate(turns.reward):
        members = [other for other in range(len(alike)) if alike[other] == alike[row]]
        others = [other for other in members if other != row] if leave_one_out else members
        expected = reward - turns.reward[others].mean() if others else 0.0
        if divide_by_std and len(members) > 1:
            expected /= turns.reward[members].std(ddof=1) + 0.5
        assert found.advantages[row] == pytest.approx(expected, abs=1e-9)


def test_by_hand_what_follows_and_the_outcome():
    turns = judged([[1.0, 0.0], [0.0, 1.0], [0.0], [1.0]], game=[1.0, 0.0, 0.0, 1.0])
    plain = {"divide_by_std": False}
    # discounted by one half: 1, 0; 1/2, 1; 0; 1
    assert vpr(turns, gamma=0.5, **plain).advantages == pytest.approx([0.375, -0.5, -0.125, 0.5, -0.625, 0.375])
    mixed = vpr(turns, outcome=2.0, **plain).advantages
    assert mixed == pytest.approx([0.5 + 1, -0.5 + 1, -0.5 - 1, 0.5 - 1, -0.5 - 1, 0.5 + 1])
    alone = vpr(turns, outcome=2.0, leave_one_out=True, **plain).advantages - vpr(turns, leave_one_out=True, **plain).advantages
    assert alone == pytest.approx([4 / 3, 4 / 3, -4 / 3, -4 / 3, -4 / 3, 4 / 3])


def test_by_hand_other_groups():
    turns = judged([[1.0, 0.0], [0.0, 1.0]], keys=[0, 1, 0, 0])
    plain = {"divide_by_std": False}
    assert vpr(turns, baseline="state", **plain).advantages == pytest.approx([1 / 3, 0, -2 / 3, 1 / 3])
    assert vpr(turns, baseline="role", **plain).advantages == pytest.approx([0.5, -0.5, -0.5, 0.5])
    seats = judged([[1.0], [10.0], [3.0], [30.0]], seats=[0, 1, 0, 1])
    assert vpr(seats, **plain).advantages == pytest.approx([-1, -10, 1, 10])


def test_turns_the_oracle_abstained_on_are_no_part_of_the_group():
    turns = judged([[1.0], [0.0], [0.0], [1.0]], mask=[True, True, False, True], game=[0.0, 0.0, 1.0, 1.0])
    assert vpr(turns, divide_by_std=False).advantages == pytest.approx([1 / 3, -2 / 3, 0, 1 / 3])
    assert vpr(turns).metrics == {"judged_share": 0.75}
    assert vpr(turns, divide_by_std=False, outcome=1.0).advantages == pytest.approx([1 / 3 - 0.5, -2 / 3 - 0.5, 0.5, 1 / 3 + 0.5])


@given(REWARDS, st.booleans())
def test_it_is_at_grpo_on_the_process_reward(rewards, divide):
    groups, seats = [index // 4 for index in range(len(rewards))], [index % 2 for index in range(len(rewards))]
    turns = judged(rewards, groups=groups, seats=seats)
    scale = "std" if divide else "none"
    assert vpr(turns, divide_by_std=divide).advantages == pytest.approx(at_grpo(turns, scale=scale).advantages, abs=1e-9)


@given(REWARDS)
def test_without_process_reward_the_outcome_part_is_grpo_or_rloo(rewards):
    turns = judged([[0.0] * len(values) for values in rewards], game=[sum(values) for values in rewards])
    assert vpr(turns, outcome=1.0).advantages == pytest.approx(grpo(turns).advantages, abs=1e-9)
    assert bind("credit", "vpr", {"outcome": 1.0}, preset="unbiased")(turns, {}).advantages == pytest.approx(
        rloo(turns).advantages, abs=1e-9
    )


@given(REWARDS)
def test_undiscounted_and_without_a_baseline_it_is_the_return(rewards):
    turns = judged(rewards)
    found = vpr(turns, baseline="none", gamma=1.0, divide_by_std=False).advantages
    assert found[turns.turn_index == 0] == pytest.approx(outcome_credit(turns).advantages[turns.turn_index == 0], abs=1e-9)


@given(REWARDS, EIGHTHS, st.sampled_from(["turn_index", "state", "role"]), st.booleans(), st.booleans())
def test_a_constant_added_to_every_reward_changes_nothing(rewards, constant, baseline, leave_one_out, divide):
    options = {"baseline": baseline, "leave_one_out": leave_one_out, "divide_by_std": divide}
    moved = judged([[value + constant for value in values] for values in rewards])
    assert vpr(moved, **options).advantages == pytest.approx(vpr(judged(rewards), **options).advantages, abs=1e-6)


# A policy that decides when to stop: "stop" ends at once and is wrong; "go" is right, and then one more turn is right or wrong.
P, Q = 0.4, 0.3
STOP, RIGHT, WRONG = (P, [0.0], [1 - P]), ((1 - P) * Q, [1.0, 1.0], [-P, 1 - Q]), ((1 - P) * (1 - Q), [1.0, 0.0], [-P, -Q])


def expected_gradient(members, **options):
    """Return the exact expected gradient in the logits of stopping and of the second turn's right action, per member."""
    total = np.zeros(2)
    for chosen in itertools.product((STOP, RIGHT, WRONG), repeat=members):
        turns = judged([rewards for _, rewards, _ in chosen])
        score = np.array([value for _, _, scores in chosen for value in scores])
        weighted = vpr(turns, divide_by_std=False, **options).advantages * score
        second = turns.turn_index == 1
        total += np.prod([probability for probability, _, _ in chosen]) * np.array([weighted[~second].sum(), weighted[second].sum()])
    return total / members


def test_its_expected_gradient_is_that_of_each_turns_own_reward():
    own = np.array([P * (1 - P) * (0.0 - 1.0), (1 - P) * Q * (1 - Q) * (1.0 - 0.0)])
    assert expected_gradient(3, baseline="none") == pytest.approx(own)
    alone = P**2 * (1 - P)  # one of three reaches turn 1, and has no one to be compared with
    reached = own * [1, 1 - alone / (1 - P)]
    assert expected_gradient(3, leave_one_out=True) == pytest.approx(reached)
    # the own reward in the mean takes 1/m off, m the members alive: 3 at turn 0, 2 or 3 at turn 1
    pairs, all_three = 2 * P * (1 - P), (1 - P) ** 2
    assert expected_gradient(3) == pytest.approx(own * [2 / 3, pairs / 2 + all_three * 2 / 3])


@pytest.mark.parametrize("baseline", ["turn_index", "state", "role", "none"])
@pytest.mark.parametrize("size", [1.0, 1e6])
def test_hard_inputs(baseline, size):
    for leave_one_out, divide in itertools.product((False, True), repeat=2):
        options = {"baseline": baseline, "leave_one_out": leave_one_out, "divide_by_std": divide}
        equal = vpr(judged([[size], [size, size], [size]]), **options).advantages
        assert np.isfinite(equal).all() and (baseline == "none" or np.abs(equal).max() < 1e-9)
        alone = vpr(judged([[size]]), **options).advantages
        assert alone == pytest.approx([size if baseline == "none" and not divide else 0.0])
        assert len(vpr(judged([]), **options).advantages) == 0
        nobody = judged([[1.0], [0.0]], mask=[False, False])
        assert vpr(nobody, **options).advantages.tolist() == [0, 0]


def test_what_is_missing_or_no_number_is_refused():
    with pytest.raises(CreditError, match=r"no reward component 'regret' \(there are: best_action, game\)"):
        vpr(judged([[1.0]]), process="regret")


def replies(process, committed=None, **changes):
    """Return a table of candidates: one prompt per list, the reply at ``committed`` played."""
    played = committed or [0] * len(process)
    turns = judged([[value] for own in process for value in own], **changes)
    prompts = [prompt for prompt, own in enumerate(process) for _ in own]
    first = [place == played[prompt] for prompt, own in enumerate(process) for place in range(len(own))]
    return replace(turns, state_group=np.array(prompts), committed=np.array(first))


def test_candidates_by_hand():
    # prompt 0: 1, 0, 0: mean 1/3, deviation 3^-0.5; prompt 1: all equal; prompt 2: alone
    turns = replies([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0]])
    found = vpr(turns, baseline="candidates").advantages
    high, low = 2 / 3 * 3**0.5, -1 / 3 * 3**0.5
    assert found == pytest.approx([high, low, low, 0, 0, 0, 0], abs=1e-5)
    assert vpr(turns, baseline="candidates", divide_by_std=False, leave_one_out=True).advantages == pytest.approx(
        [1.0, -0.5, -0.5, 0, 0, 0, 0]
    )


@given(st.lists(st.lists(EIGHTHS, min_size=2, max_size=5), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_candidates_of_one_prompt_are_a_group_of_one_turn(rewards, leave_one_out, divide_by_std):
    """Each prompt's replies are what a group of plays of one turn would be."""
    options = {"leave_one_out": leave_one_out, "divide_by_std": divide_by_std}
    turns = replies(rewards)
    as_groups = replace(turns, group=turns.state_group, turn_index=np.zeros_like(turns.turn_index), state_group=None, committed=None)
    found = vpr(turns, baseline="candidates", **options).advantages
    assert found == pytest.approx(vpr(as_groups, **options).advantages)


@given(st.lists(EIGHTHS, min_size=3, max_size=3), st.lists(st.floats(0.05, 1), min_size=3, max_size=3))
def test_candidates_give_the_exact_gradient_of_the_turn_s_reward(rewards, weights):
    """Over all pairs of replies: each carries the whole gradient of E[r], the other's reward being no bias."""
    policy = np.array(weights) / sum(weights)
    gradient = np.zeros(3)
    for first, second in itertools.product(range(3), repeat=2):
        turns = replies([[rewards[first], rewards[second]]])
        credit = vpr(turns, baseline="candidates", leave_one_out=True, divide_by_std=False).advantages
        for action, advantage in zip((first, second), credit, strict=True):
            gradient += policy[first] * policy[second] * advantage * (np.eye(3)[action] - policy) / 2
    exact = policy * (np.array(rewards) - policy @ np.array(rewards))
    assert gradient == pytest.approx(exact, abs=1e-9)


def test_the_outcome_goes_to_the_replies_that_were_played():
    turns = replies([[0.0, 0.0], [0.0, 0.0]], committed=[1, 0])
    turns = replace(turns, reward=np.array([0.0, 1.0, -1.0, 0.0]), role=np.zeros(4, dtype=int))
    found = vpr(turns, baseline="candidates", outcome=1.0, divide_by_std=False).advantages
    assert found.tolist() == [0.0, 1.0, -1.0, 0.0]


def test_candidates_that_nothing_judged_have_no_advantage():
    turns = replies([[1.0, 0.0], [1.0, 0.0]], mask=[True, True, False, False])
    assert vpr(turns, baseline="candidates", divide_by_std=False).advantages.tolist() == [0.5, -0.5, 0.0, 0.0]


RELEASED = {"baseline": "candidates", "divide_by_std": False, "whiten": True, "equal": "mask", "epsilon": 1e-8}


def test_as_released_by_hand():
    # three prompts; centred: 1, -1; equal, so no part of anything; 2, -1, -1. Deviation of (1, -1, 2, -1, -1): (8/5)^0.5
    turns = replies([[2.0, 0.0], [0.5, 0.5, 0.5], [2.0, -1.0, -1.0]])
    found = vpr(turns, **RELEASED)
    scale = (8 / 5) ** 0.5
    assert found.advantages == pytest.approx([1 / scale, -1 / scale, 0, 0, 0, 2 / scale, -1 / scale, -1 / scale], abs=1e-6)
    assert found.trained.tolist() == [True] * 2 + [False] * 3 + [True] * 3
    assert found.metrics == pytest.approx({"judged_share": 1.0, "equal_share": 1 / 3, "skipped_update": 0.0})
    assert bind("credit", "vpr", preset="as_released")(turns, {}).advantages == pytest.approx(found.advantages, abs=1e-9)


@given(st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8))
def test_as_released_by_definition(rewards):
    turns = replies(rewards)
    found = vpr(turns, **RELEASED)
    centred = np.concatenate([np.array(own) - np.mean(own) for own in rewards])
    train = np.concatenate([[len(set(own)) > 1] * len(own) for own in rewards])
    assert found.trained.tolist() == train.tolist()
    wanted = np.zeros(len(centred))
    if train.any():
        wanted[train] = (centred[train] - centred[train].mean()) / (centred[train].std() + 1e-8)
    assert found.advantages == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(("most", "trains"), [(1.0, True), (0.7, True), (2 / 3, True), (0.66, False), (0.0, False)])
def test_a_step_is_skipped_above_a_share_of_equal_groups(most, trains):
    turns = replies([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    found = vpr(turns, **RELEASED, skip_above=most)
    assert found.trained.tolist() == [trains, trains, False, False, False, False]
    assert found.metrics["skipped_update"] == float(not trains)


def test_whitened_without_masks_counts_the_equal_ones():
    turns = replies([[2.0, 0.0], [1.0, 1.0]])
    found = vpr(turns, baseline="candidates", divide_by_std=False, whiten=True)
    assert found.advantages == pytest.approx([2**0.5, -(2**0.5), 0, 0], abs=1e-5) and found.trained is None


def test_what_nothing_judged_does_not_train():
    turns = replace(replies([[1.0, 0.0], [5.0, 2.0]]), judged=np.array([True, True, False, False]))
    found = vpr(turns, **RELEASED)
    assert found.trained.tolist() == [True, True, False, False] and found.advantages[2:].tolist() == [0, 0]
    assert found.metrics["equal_share"] == 0.0 and found.metrics["judged_share"] == 0.5
    nothing = replace(turns, judged=None, components={"game": turns.reward})
    for options in (RELEASED, {"baseline": "candidates"}):
        with pytest.raises(CreditError, match="abstained on every turn"):
            vpr(nothing, **options)
        found = vpr(with_components(nothing, ["best_action"]), **options)
        assert found.metrics["judged_share"] == 0.0 and not found.advantages.any()
    assert not vpr(with_components(nothing, ["best_action"]), **RELEASED).trained.any()


def test_the_older_form_has_a_name_and_is_the_default():
    turns = judged([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    older = bind("credit", "vpr", preset="by_turn")(turns, {})
    assert older.advantages.tolist() == vpr(turns).advantages.tolist() and older.trained is None


def test_masked_turns_are_not_to_be_trained_by_the_outcome():
    with pytest.raises(CreditError, match="equal: keep"):
        vpr(replies([[1.0, 0.0]]), **RELEASED, outcome=1.0)


def test_candidates_have_no_later_turns_and_need_a_table_of_all_replies():
    with pytest.raises(CreditError, match="gamma: 0"):
        vpr(replies([[1.0, 0.0]]), baseline="candidates", gamma=0.5)
    with pytest.raises(CreditError, match="candidates=True"):
        bind("credit", "vpr", {"baseline": "candidates"})(judged([[1.0], [0.0]]), {})
