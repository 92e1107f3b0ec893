import dataclasses
import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, EIGHTHS, table

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, CreditError
from sparring.methods.credit.adv_evo import adv_evo
from sparring.methods.credit.dr_mas import dr_mas
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.mars import mars
from sparring.methods.credit.marti import marti
from sparring.methods.credit.outcome import outcome
from sparring.methods.credit.rae import rae
from sparring.methods.credit.rebn import rebn
from sparring.methods.credit.reinforce_plus_plus import reinforce_plus_plus
from sparring.methods.credit.rloo import rloo
from sparring.methods.credit.shapley import shapley


def test_rae_golden():
    credit = rae(table([[1.0], [-1.0], [1.0], [1.0]]), {})
    assert credit.advantages == pytest.approx([1, -1.05, 1.0025, 0.952375])
    assert credit.state == {"game/first": pytest.approx(0.09524, abs=1e-5)}


def test_rae_roles_have_separate_baselines_by_hand():
    credit = rae(table(**BY_HAND), {})
    # first: after return 3 its baseline is 0.15, then -1 - 0.15; second: after -3 it is -0.15, then 1 + 0.15
    assert credit.advantages == pytest.approx([3, 3, -3, -1.15, 1.15, 1.15, 1.15])
    assert credit.state == {"game/first": pytest.approx(0.0925), "game/second": pytest.approx(-0.0925)}


def test_rae_games_have_separate_baselines():
    credit = rae(table([[1.0], [1.0]], games=[0, 1]), {})
    assert credit.advantages.tolist() == [1.0, 1.0]
    assert set(credit.state) == {"game/first", "other/first"}


def test_rae_as_released_games_share_the_baseline_of_a_player():
    turns = table([[1.0], [1.0], [-1.0]], games=[0, 1, 0], seats=[0, 0, 1], roles=[0, 0, 1])
    credit = bind("credit", "rae", preset="as_released")(turns, {})
    assert credit.advantages == pytest.approx([1.0, 0.95, -1.0])
    assert credit.state == {"player0": pytest.approx(0.0975), "player1": pytest.approx(-0.05)}


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8))
def test_rae_as_released_one_game_with_fixed_seats_is_as_published(returns):
    seats = [index % 2 for index in range(len(returns))]
    turns = table([[value] for value in returns], seats=seats, roles=seats)
    assert rae(turns, {}, baselines="player").advantages.tolist() == rae(turns, {}).advantages.tolist()


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8))
def test_with_a_constant_baseline_rae_equals_outcome(returns):
    turns = table([[value] for value in returns])
    assert rae(turns, {}, decay=1.0).advantages == pytest.approx(outcome(turns).advantages)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=10), st.data())
def test_rae_state_carries_over_batches_and_through_json(returns, data):
    split_index = data.draw(st.integers(1, len(returns) - 1))
    credit_of_all = rae(table([[value] for value in returns]), {})
    first_credit = rae(table([[value] for value in returns[:split_index]]), {})
    second_credit = rae(table([[value] for value in returns[split_index:]]), json.loads(json.dumps(first_credit.state)))
    assert [*first_credit.advantages, *second_credit.advantages] == pytest.approx(credit_of_all.advantages)
    assert second_credit.state == credit_of_all.state


def test_rae_gamma_weakens_early_turns():
    credit = rae(table([[0.0, 0.0, 1.0], [0.0, 1.0]]), {}, decay=1.0, gamma=0.5)
    assert credit.advantages == pytest.approx([0.25, 0.5, 1.0, 0.5, 1.0])


def test_rae_baselines_are_logged():
    assert rae(table([[1.0]]), {}, decay=0.5).metrics == {"baseline/game/first": 0.5}


def test_rae_baselines_belong_to_roles_and_not_to_seats():
    credit = rae(table([[1.0], [1.0]], seats=[0, 1], roles=[1, 1]), {}, decay=0.5)
    assert credit.advantages.tolist() == [1.0, 0.5]
    assert credit.state == {"game/second": 0.75}


def test_rae_empty_table_leaves_the_baselines():
    credit = rae(table([]), {"game/first": 0.5})
    assert credit.advantages.shape == (0,)
    assert credit.state == {"game/first": 0.5}


REWARDS_OF_REBN = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=2, max_size=6)


def test_rebn_by_hand():
    # turn returns 3, 2, -3, -1, 1, 0.5, 0.5: mean 3/7, squared deviations sum to 165/7, sample deviation sqrt(165/42)
    returns = np.array([3, 2, -3, -1, 1, 0.5, 0.5])
    expected = (returns - 3 / 7) / np.sqrt((9 + 4 + 9 + 1 + 1 + 0.25 + 0.25 - 9 / 7) / 6)
    assert rebn(table(**BY_HAND)).advantages == pytest.approx(expected)


def test_rebn_by_hand_discounted():
    # returns 1 + 0.5 * 2, 2, 0: mean 4/3, sample deviation sqrt(4/3)
    advantages = rebn(table([[1.0, 2.0], [0.0]]), gamma=0.5).advantages
    assert advantages == pytest.approx(np.array([2 / 3, 2 / 3, -4 / 3]) / np.sqrt(4 / 3))


@given(REWARDS_OF_REBN, st.sampled_from([1.0, 0.9]))
def test_rebn_by_role_is_mars_with_a_scale(rewards, gamma):
    turns = table(rewards, seats=[index % 2 for index in range(len(rewards))])
    expected = mars(turns, gamma=gamma, scale="std").advantages
    assert rebn(turns, gamma=gamma, by_role=True, epsilon=1e-6).advantages == pytest.approx(expected, abs=1e-6)


def test_by_default_rebn_has_one_mean_for_all_roles_and_by_role_one_for_each():
    turns = table([[1.0], [3.0], [10.0], [30.0]], seats=[0, 0, 1, 1], games=[0, 0, 0, 1])
    assert rebn(turns).advantages == pytest.approx((np.array([1, 3, 10, 30]) - 11) / np.std([1, 3, 10, 30], ddof=1))
    assert rebn(turns, by_role=True).advantages == pytest.approx([-(2**-0.5), 2**-0.5, 0, 0])


def test_rebn_epsilon_is_added_to_the_deviation():
    assert rebn(table([[1.0], [-1.0]]), epsilon=2**0.5).advantages == pytest.approx([8**-0.5, -(8**-0.5)])


REWARDS_OF_REINFORCE_PLUS_PLUS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=6)


def test_reinforce_plus_plus_by_hand():
    # returns 3, 2 and 1 of two trajectories: mean 2, sample variance 1
    assert reinforce_plus_plus(table([[1.0, 2.0], [1.0]])).advantages == pytest.approx([1, 0, -1], abs=1e-6)


def test_reinforce_plus_plus_by_hand_with_a_groups_mean():
    # (group, role) means 1 and -1: centred 2, 2, -2, -2, 2, 2, 2; mean 6/7, sample variance (28 - 36/7) / 6 = 80/21
    expected = (np.array([2, 2, -2, -2, 2, 2, 2]) - 6 / 7) / np.sqrt(80 / 21)
    advantages = bind("credit", "reinforce_plus_plus", preset="baseline")(table(**BY_HAND), {}).advantages
    assert advantages == pytest.approx(expected)


@given(REWARDS_OF_REINFORCE_PLUS_PLUS, st.sampled_from([1.0, 0.5]))
def test_reinforce_plus_plus_without_a_baseline_is_rebn(rewards, gamma):
    turns = table(rewards)
    expected = rebn(turns, gamma=gamma).advantages
    assert reinforce_plus_plus(turns, gamma=gamma).advantages == pytest.approx(
        expected, abs=1e-2
    )  # 1e-8 under the root


@given(REWARDS_OF_REINFORCE_PLUS_PLUS, st.integers(0, 1000), st.sampled_from(["none", "group"]))
def test_reinforce_plus_plus_over_tokens_equals_whitening_of_the_tokens_in_loops(rewards, seed, baseline):
    size = sum(map(len, rewards))
    tokens = np.random.Generator(np.random.Philox(seed)).integers(0, 4, size).tolist()
    groups = [index // 2 for index in range(len(rewards))]
    turns = table(rewards, tokens=tokens, groups=groups)
    returns = [sum(values) for values in rewards]
    turn_values = []
    for values, episode_return, group in zip(rewards, returns, groups, strict=True):
        peers = [peer for peer, peer_group in zip(returns, groups, strict=True) if peer_group == group]
        for turn in range(len(values)):
            turn_values.append(episode_return - sum(peers) / len(peers) if baseline == "group" else sum(values[turn:]))
    token_values = np.repeat(turn_values, tokens)
    advantages = reinforce_plus_plus(turns, baseline=baseline, over="tokens").advantages
    if len(token_values) < 2 or token_values.std() < 1e-6:
        assert np.isfinite(advantages).all()
        return
    assert advantages == pytest.approx(
        (np.array(turn_values) - token_values.mean()) / np.sqrt(token_values.var(ddof=1) + 1e-8), abs=1e-6
    )


@pytest.mark.parametrize("over", ["turns", "tokens"])
def test_reinforce_plus_plus_of_one_turn_or_without_tokens(over):
    assert reinforce_plus_plus(table([[5.0]]), over=over).advantages.tolist() == [0.0]
    without_tokens = table([[5.0], [6.0]], tokens=[0, 0], groups=[0, 0])
    assert reinforce_plus_plus(without_tokens, baseline="group", over=over).advantages.shape == (2,)


REWARDS_OF_DR_MAS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8)


def team_table(rewards):
    count = len(rewards)
    return table(rewards, seats=[index % 2 for index in range(count)], groups=[index // 4 for index in range(count)])


def test_dr_mas_by_hand_per_agent():
    # seat 0: samples 3, 3, -1: mean 5/3, sample deviation 4/sqrt(3); seat 1: -3, 1, 1, 1: mean 0, sample deviation 2
    expected = [1 / 3**0.5, 1 / 3**0.5, -1.5, -2 / 3**0.5, 0.5, 0.5, 0.5]
    assert dr_mas(table(**BY_HAND)).advantages == pytest.approx(expected, abs=1e-5)


def test_dr_mas_each_statistic_has_its_own_scope():
    samples = np.array([3, 3, -3, -1, 1, 1, 1])
    agent_means, agent_stds = np.array([5, 5, 0, 5, 0, 0, 0]) / 3, np.where([1, 1, 0, 1, 0, 0, 0], 4 / 3**0.5, 2)
    global_std = dr_mas(table(**BY_HAND), std="global").advantages
    assert global_std == pytest.approx((samples - agent_means) / samples.std(ddof=1), abs=1e-5)
    global_mean = dr_mas(table(**BY_HAND), mean="global").advantages
    assert global_mean == pytest.approx((samples - 5 / 7) / agent_stds, abs=1e-5)


@given(REWARDS_OF_DR_MAS, st.sampled_from(["turns", "episodes"]))
def test_dr_mas_per_role_is_grpo(rewards, over):
    turns = team_table(rewards)
    assert dr_mas(turns, over=over).advantages == pytest.approx(grpo(turns, over=over).advantages, abs=1e-4)


@given(REWARDS_OF_DR_MAS, st.sampled_from(["turns", "episodes"]))
def test_dr_mas_with_global_statistics_is_grpo_of_a_team_without_roles(rewards, over):
    turns = team_table(rewards)
    without_roles = dataclasses.replace(turns, role=np.zeros_like(turns.role))
    estimate = dr_mas(turns, mean="global", std="global", over=over).advantages
    assert estimate == pytest.approx(grpo(without_roles, over=over).advantages, abs=1e-4)


def test_dr_mas_agents_can_be_distinguished_by_name():
    turns = team_table([[1.0], [1.0], [2.0], [4.0]])
    with_agent_names = dataclasses.replace(turns, agent=np.array([0, 0, 1, 1]), agent_names=("one", "two"))
    assert dr_mas(with_agent_names, agent_is="agent").advantages == pytest.approx([0, 0, -(2**-0.5), 2**-0.5], abs=1e-5)
    assert dr_mas(with_agent_names).advantages == pytest.approx(np.array([-1, -1, 1, 1]) / 2**0.5, abs=1e-5)


def test_dr_mas_epsilon_is_added_to_the_deviation():
    turns = team_table([[1.0], [0.0], [-1.0], [0.0]])
    assert dr_mas(turns, epsilon=2**0.5).advantages == pytest.approx([8**-0.5, 0, -(8**-0.5), 0])


REWARDS_OF_OUTCOME = st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=1, max_size=6)


def test_outcome_gives_every_turn_the_return_of_its_trajectory():
    assert outcome(table(**BY_HAND)).advantages.tolist() == [3.0, 3.0, -3.0, -1.0, 1.0, 1.0, 1.0]


def test_outcome_offset_is_kept_exactly():
    assert np.array_equal(outcome(table([[1e6, 1.0]])).advantages, [1e6 + 1, 1e6 + 1])


@given(REWARDS_OF_OUTCOME)
def test_a_trajectorys_outcome_does_not_depend_on_the_batch(rewards):
    separate_advantages = np.concatenate([outcome(table([turns])).advantages for turns in rewards])
    assert np.array_equal(outcome(table(rewards)).advantages, separate_advantages)


TEAMS = {"first": "attackers", "second": "defenders", "third": "defenders"}
RETURNS_OF_ADV_EVO = st.lists(
    st.tuples(st.floats(-10, 10), st.integers(0, 2), st.integers(0, 1), st.integers(0, 1)), max_size=10
)


def test_adv_evo_by_hand():
    """Attackers earned 4 and 0; defenders 1, 2 and 6."""
    turns = table([[1.0, 3.0], [1.0], [2.0], [0.0], [6.0]], roles=[0, 1, 2, 0, 1])
    credit = adv_evo(turns, teams=TEAMS)
    assert credit.advantages == pytest.approx([2, 2, -2, -1, -2, 3])
    assert adv_evo(turns).advantages == pytest.approx([2, 2, -2.5, 0, -2, 2.5])


@given(RETURNS_OF_ADV_EVO, st.booleans(), st.booleans())
def test_adv_evo_equals_plain_loops(rows, with_teams, by_group):
    roles, games, groups = [row[1] for row in rows], [row[3] for row in rows], [2 * row[2] + row[3] for row in rows]
    turns = table([[row[0]] for row in rows], roles=roles, groups=groups, games=games)

    def key(row):
        role = turns.role_names[row[1]]
        return (TEAMS[role] if with_teams else role, row[3], row[2] if by_group else 0)

    expected = [row[0] - np.mean([other_row[0] for other_row in rows if key(other_row) == key(row)]) for row in rows]
    credit = adv_evo(turns, teams=TEAMS if with_teams else None, over="group" if by_group else "batch")
    assert credit.advantages == pytest.approx(expected, abs=1e-9)


@given(RETURNS_OF_ADV_EVO)
def test_adv_evo_over_groups_without_teams_is_grpo_without_deviations(rows):
    groups = [2 * row[2] + row[3] for row in rows]
    turns = table(
        [[row[0]] for row in rows], roles=[row[1] for row in rows], groups=groups, games=[row[3] for row in rows]
    )
    assert adv_evo(turns, over="group").advantages == pytest.approx(
        grpo(turns, divide_by_std=False).advantages, abs=1e-9
    )


def test_adv_evo_whitening():
    turns = table(**BY_HAND)
    unwhitened, whitened = adv_evo(turns).advantages, adv_evo(turns, whiten=True).advantages
    assert whitened == pytest.approx((unwhitened - unwhitened.mean()) / unwhitened.std(ddof=1))


def test_adv_evo_role_without_a_team_is_named():
    with pytest.raises(CreditError, match="'second' has no team"):
        adv_evo(table([[1.0], [1.0]], roles=[0, 1]), teams={"first": "attackers"})


STATE = {"game/first": [4.0, 1.0], "game/second": [2.0, 2.0]}  # Q = 0.25 and 1
RETURNS_OF_MARTI = st.lists(st.floats(-10, 10), min_size=1, max_size=8)


def test_marti_by_hand():
    """R = 1 and 0.5. Margin .75 and -.5; quality .25 - 0 and .5 - 0."""
    turns = table([[0.5, 0.5], [0.5]], roles=[0, 1])
    margin = marti(turns, STATE, shaping="margin", baseline="none")
    assert margin.advantages == pytest.approx([1.375, 1.375, 0.25])
    quality = marti(turns, STATE, alpha=1.0, baseline="none")
    assert quality.advantages == pytest.approx([1.25, 1.25, 1.0])
    assert quality.state == {"game/first": [5.0, 2.0], "game/second": [3.0, 2.5]}
    assert quality.metrics == {"record/game/first": pytest.approx(0.4), "record/game/second": pytest.approx(2.5 / 3)}
    assert STATE == {"game/first": [4.0, 1.0], "game/second": [2.0, 2.0]}


@given(
    RETURNS_OF_MARTI,
    st.sampled_from(["margin", "quality"]),
    st.floats(0, 2),
    st.sampled_from([(0.0, 1.0), (-1.0, 1.0)]),
)
def test_marti_equals_the_formula_trajectory_by_trajectory(returns, shaping, alpha, payoff_range):
    low, high = payoff_range
    turns = table([[value] for value in returns], roles=[i % 3 for i in range(len(returns))])
    credit = marti(turns, STATE, shaping=shaping, alpha=alpha, low=low, high=high, baseline="none")
    for index, value in enumerate(returns):
        name = f"game/{turns.role_names[index % 3]}"
        scaled_return, change = (value - low) / (high - low), 0.0
        if name in STATE:
            success_rate = (STATE[name][1] / STATE[name][0] - low) / (high - low)
            change = (
                scaled_return - success_rate
                if shaping == "margin"
                else success_rate * scaled_return - (1 - success_rate) * (1 - scaled_return)
            )
        assert credit.advantages[index] == pytest.approx(value + alpha * (high - low) * change, abs=1e-9)


@given(RETURNS_OF_MARTI)
def test_without_history_or_without_shaping_marti_is_rloo(returns):
    turns = table([[value] for value in returns], groups=[0] * len(returns))
    expected = rloo(turns).advantages
    assert marti(turns, {}, baseline="group").advantages == pytest.approx(expected, abs=1e-9)
    assert marti(turns, STATE, shaping="none", baseline="group").advantages == pytest.approx(expected, abs=1e-9)


def test_marti_roles_of_a_team_have_separate_records():
    turns = table([[1.0], [1.0]], roles=[0, 1], groups=[0, 0])
    assert marti(turns, STATE, alpha=1.0).advantages == pytest.approx([-0.75, 0.75])
    assert marti(turns, STATE, alpha=1.0, shaping="margin").advantages == pytest.approx([0.75, -0.75])
    assert marti(turns, STATE, alpha=1.0, baseline="group").advantages.tolist() == [0.0, 0.0]


@given(RETURNS_OF_MARTI, st.data())
def test_marti_records_accumulate_over_batches_and_survive_json(returns, data):
    split_index = data.draw(st.integers(0, len(returns)))
    state_of_all = marti(table([[value] for value in returns]), {}).state
    first_state = marti(table([[value] for value in returns[:split_index]]), {}).state
    second_state = marti(table([[value] for value in returns[split_index:]]), json.loads(json.dumps(first_state))).state
    assert second_state["game/first"] == pytest.approx(state_of_all["game/first"])


def test_marti_with_equal_returns_one_member_offsets_and_no_turns():
    for turns in (table([[1e6], [1e6]], groups=[0, 0]), table([[3.0]])):
        assert not marti(turns, STATE).advantages.any()
    assert marti(table([]), STATE).state == STATE


def test_marti_refuses_a_range_without_width():
    with pytest.raises(ConfigError, match="high"):
        marti(table([[1.0]]), {}, low=1.0, high=1.0)


def table_of_coalitions(coalitions, worths, payoffs=None):
    """Return one episode per coalition, with one turn per trained seat; every seat is paid the coalition's value."""
    rewards = [[worth] for coalition, worth in zip(coalitions, worths, strict=True) for _ in coalition]
    seats = [seat for coalition in coalitions for seat in coalition]
    turns = table(rewards if payoffs is None else payoffs, seats=seats, roles=[0] * len(seats))
    episodes = [index for index, coalition in enumerate(coalitions) for _ in coalition]
    return dataclasses.replace(turns, episode=np.array(episodes, dtype=np.int64))


KNOWN = {"game": {"0": [2.0, 2.0], "1": [1.0, 4.0]}}


def test_shapley_shares_of_two_seats_by_hand():
    """v(0) = 1, v(1) = 4, v(0, 1) = 7: seat 0 adds 1 as the first or 3 as the last seat, seat 1 adds 4 or 6."""
    credit = shapley(table_of_coalitions([(0, 1)], [7.0]), KNOWN)
    assert credit.advantages == pytest.approx([2.0, 5.0])
    assert shapley(table_of_coalitions([(0, 1)], [7.0]), KNOWN, empty=2.0).advantages == pytest.approx([1.0, 4.0])


def test_shapley_state_holds_sums_per_coalition_and_metrics_the_values():
    credit = shapley(table_of_coalitions([(0, 1), (1,), (1,)], [7.0, 3.0, 5.0]), KNOWN, decay=0.5)
    assert credit.state == {"game": {"0": [1.0, 1.0], "1": [2.5, 10.0], "0,1": [1.0, 7.0]}}
    assert credit.metrics == {"value/game/0": pytest.approx(2.0), "value/game/1": pytest.approx(5.0)}
    assert KNOWN == {"game": {"0": [2.0, 2.0], "1": [1.0, 4.0]}}


def test_shapley_glove_game_of_the_textbook():
    state = {
        "game": {name: [1.0, worth] for name, worth in {"0": 0, "3": 0, "5": 0, "0,3": 1, "0,5": 1, "3,5": 0}.items()}
    }
    assert shapley(table_of_coalitions([(0, 3, 5)], [1.0]), state).advantages == pytest.approx([2 / 3, 1 / 6, 1 / 6])


def test_shapley_unseen_coalitions_are_estimated_by_size():
    """Without records, values rise linearly from 0 to 6. With the record of the pair 0,1, all pairs have its value."""
    assert shapley(table_of_coalitions([(0, 1, 2)], [6.0]), {}).advantages == pytest.approx([2, 2, 2])
    state = {"game": {"0": [1.0, 3.0], "0,1": [1.0, 4.0]}}
    # v(0) = 3 is also used for 1 and 2, and v(0,1) = 4 for all pairs
    assert shapley(table_of_coalitions([(0, 1, 2)], [6.0]), state).advantages == pytest.approx([2, 2, 2])
    state = {"game": {"0": [1.0, 3.0], "1": [1.0, 0.0]}}
    # v(2) = 1.5, and pairs lie half-way from the mean of singles 1.5 to 6
    assert shapley(table_of_coalitions([(0, 1, 2)], [6.0]), state).advantages == pytest.approx(
        shapley_over_all_orders({1: 3, 2: 0, 4: 1.5, 3: 3.75, 5: 3.75, 6: 3.75, 7: 6})
    )


def shapley_over_all_orders(value_of_coalition):
    orders = list(permutations(range(3)))
    shares = [0.0] * 3
    for order in orders:
        coalition = 0  # bit mask of the seats that joined
        for seat in order:
            added_value = value_of_coalition[coalition | 1 << seat] - value_of_coalition.get(coalition, 0.0)
            shares[seat] += added_value / len(orders)
            coalition |= 1 << seat
    return shares


@given(st.lists(st.floats(-100, 100), min_size=6, max_size=6), st.floats(-100, 100), st.floats(-5, 5))
def test_shapley_shares_of_an_episode_sum_to_its_value(means, episode_value, empty):
    state = {
        "game": {name: [2.0, 2 * mean] for name, mean in zip(["0", "1", "2", "0,1", "0,2", "1,2"], means, strict=True)}
    }
    credit = shapley(table_of_coalitions([(0, 1, 2)], [episode_value]), state, empty=empty)
    assert credit.advantages.sum() == pytest.approx(episode_value - empty, abs=1e-8)
    masks = dict(zip([1, 2, 4, 3, 5, 6], means, strict=True))
    assert credit.advantages == pytest.approx(shapley_over_all_orders({0: empty, **masks, 7: episode_value}), abs=1e-8)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=3), max_size=6))
def test_for_a_single_seat_the_share_is_the_outcome(rewards):
    turns = table(rewards)
    assert shapley(turns, {}).advantages == pytest.approx(outcome(turns).advantages)


def test_shapley_coalitions_value_is_the_team_payoff_or_the_sum_of_payoffs():
    turns = table_of_coalitions([(0, 1)], [0.0], payoffs=[[2.0], [4.0]])
    assert shapley(turns, {}).advantages == pytest.approx([1.5, 1.5])
    assert shapley(turns, {}, worth="sum").advantages == pytest.approx([3.0, 3.0])


def test_shapley_with_a_baseline_seats_share_the_surplus_over_the_expectation():
    state = {"game": {**KNOWN["game"], "0,1": [2.0, 12.0]}}
    assert shapley(table_of_coalitions([(0, 1)], [7.0]), state, baseline=True).advantages == pytest.approx([0.5, 0.5])
    assert shapley(table_of_coalitions([(0, 1)], [7.0]), KNOWN, baseline=True).advantages == pytest.approx(
        [3.5, 3.5]
    )  # never seen: 0
    without_baseline, with_baseline = (
        shapley(table_of_coalitions([(0, 1)] * 2, [7.0, 9.0]), state, baseline=flag).advantages
        for flag in (False, True)
    )
    assert without_baseline[:2] - with_baseline[:2] == pytest.approx(
        without_baseline[2:] - with_baseline[2:]
    )  # the baseline is equal in all episodes, so it adds no bias


def test_shapley_games_have_separate_records():
    turns = dataclasses.replace(table_of_coalitions([(0, 1)], [7.0]), game=np.array([1, 1]))
    assert shapley(turns, KNOWN).advantages == pytest.approx([3.5, 3.5])


def test_shapley_without_turns_the_values_stay():
    assert shapley(table([]), KNOWN, decay=1.0).state == KNOWN


def test_shapley_more_than_eight_learning_seats_are_refused():
    with pytest.raises(CreditError, match="9 seats"):
        shapley(table_of_coalitions([tuple(range(9))], [1.0]), {})
