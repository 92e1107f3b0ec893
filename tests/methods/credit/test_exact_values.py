import dataclasses
import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.config.plugins.registry import bind
from sparring.core.errors import CreditError
from sparring.core.records import Episode, Turn
from sparring.methods.columns.standard import candidate_judged as judged_column
from sparring.methods.columns.standard import candidate_value as value_column
from sparring.methods.credit.base import component
from sparring.methods.credit.candidate_value import candidate_value
from sparring.methods.credit.coma import coma
from sparring.methods.credit.difference_rewards import difference_rewards
from sparring.methods.credit.exact_advantage import exact_advantage
from sparring.methods.credit.gae import gae
from sparring.play.turn_table import turn_table


def test_exact_advantage_by_hand():
    turns = dataclasses.replace(
        table([[0.0, 1.0]]), action_value=np.array([0.5, 1.0]), state_value=np.array([0.25, -1.0])
    )
    assert exact_advantage(turns).tolist() == [0.25, 2.0]
    credit = bind("credit", "exact_advantage")(turns, {"kept": 1})  # as the loop calls it
    assert credit.advantages.tolist() == [0.25, 2.0] and credit.state == {"kept": 1}


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=1, max_size=5))
def test_in_deterministic_games_the_exact_advantage_is_gae_with_an_exact_critic(rewards):
    """Q is then the return itself, and with lambda 1 the advantage is the return minus the value."""
    size = sum(map(len, rewards))
    values = np.linspace(-1, 1, size)
    turns = table(rewards, values=values)
    returns = np.concatenate([np.cumsum(turn_rewards[::-1])[::-1] for turn_rewards in rewards])
    exact = exact_advantage(dataclasses.replace(turns, action_value=returns, state_value=values))
    assert exact == pytest.approx(gae(turns, lam=1.0).advantages, abs=1e-9)


def table_of_values(action, state, default):
    columns = {"action_value": np.array(action), "state_value": np.array(state), "default_value": np.array(default)}
    return dataclasses.replace(table([[0.0]] * len(action)), **columns)


def test_difference_rewards_by_hand():
    """Actions worth 0, 1 and 5 where the policy plays the last: 5 - 2."""
    credit = difference_rewards(table_of_values([5.0], [5.0], [2.0]))
    assert credit.advantages.tolist() == [3.0]


@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 3), max_size=10))
def test_difference_rewards_with_the_policy_as_default_are_exact_advantages(rows):
    turns = table_of_values(*([row[i] for row in rows] for i in range(3)))
    assert np.array_equal(difference_rewards(turns, default="policy").advantages, exact_advantage(turns))


VIEWS, ACTIONS = ("here", "there", "[0]"), ("stay", "go")


def table_of_views(rewards, views, actions, **options):
    columns = {"view": np.array(views, dtype=np.int64), "action": np.array(actions, dtype=np.int64)}
    return dataclasses.replace(table(rewards, **options), **columns, view_names=VIEWS, action_names=ACTIONS)


def random_turns(seed, count=12):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 4)).tolist() for _ in range(count)]
    size = sum(map(len, rewards))
    roles = generator.integers(0, 2, count).tolist()
    return table_of_views(rewards, generator.integers(0, 3, size), generator.integers(-1, 2, size), roles=roles)


def coma_by_loops(turns, state, gamma, decay):
    """Return the advantages of COMA; the baseline weighs the values of actions by their frequencies in the batch."""
    names = [
        (turns.game_names[g], turns.role_names[r], turns.view_names[v], turns.action_names[a] if a >= 0 else None)
        for g, r, v, a in zip(turns.game, turns.role, turns.view, turns.action, strict=True)
    ]
    returns = np.zeros(len(names))
    for row in reversed(range(len(names))):
        next_return = 0.0 if turns.done[row] else returns[row + 1]
        returns[row] = turns.reward[row] + gamma * next_return
    weights, totals, actions_played = defaultdict(float), defaultdict(float), defaultdict(list)
    for key, (count, total) in state.items():
        weights[tuple(json.loads(key))], totals[tuple(json.loads(key))] = decay * count, decay * total
    for name, value in zip(names, returns, strict=True):
        weights[name] += 1
        totals[name] += value
        actions_played[name[:3]].append(name)
    action_values = {name: totals[name] / weights[name] for name in weights if weights[name]}
    return np.array(
        [
            action_values[name] - np.mean([action_values[played_name] for played_name in actions_played[name[:3]]])
            for name in names
        ]
    )


def test_coma_by_hand():
    """In one state, stay earned 1 and 3 and go earned 8. Q 2 and 8, the policy stays two times in three: baseline 4."""
    credit = coma(table_of_views([[1.0], [3.0], [8.0]], [0, 0, 0], [0, 0, 1]), {})
    assert credit.advantages == pytest.approx([-2, -2, 4])
    assert credit.state == {
        '["game", "first", "here", "stay"]': [2.0, 4.0],
        '["game", "first", "here", "go"]': [1.0, 8.0],
    }
    assert credit.metrics == {"table_size": 2.0}


def test_coma_table_keeps_values_of_earlier_batches():
    """stay has count 0.5 * 2 + 1 and sum 0.5 * 4 + 3, so its value is 2.5; go has count 1 and sum 5."""
    state = {'["game", "first", "here", "stay"]': [2.0, 4.0]}
    credit = coma(table_of_views([[3.0], [5.0]], [0, 0], [0, 1]), state, decay=0.5)
    assert credit.advantages == pytest.approx([-1.25, 1.25])
    assert state == {'["game", "first", "here", "stay"]': [2.0, 4.0]}


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.9, 1.0]))
def test_coma_equals_plain_loops_over_two_batches(seed, decay, gamma):
    first_credit = coma(random_turns(seed), {}, decay=decay, gamma=gamma)
    state, turns = json.loads(json.dumps(first_credit.state)), random_turns(seed + 1)
    assert first_credit.advantages == pytest.approx(coma_by_loops(random_turns(seed), {}, gamma, decay), abs=1e-9)
    assert coma(turns, state, decay=decay, gamma=gamma).advantages == pytest.approx(
        coma_by_loops(turns, state, gamma, decay), abs=1e-9
    )


def test_coma_with_exact_values_is_the_exact_advantage_and_keeps_its_state():
    turns = dataclasses.replace(
        random_turns(0), action_value=random_turns(0).reward, state_value=random_turns(0).reward[::-1]
    )
    credit = coma(turns, {"kept": 1}, values="exact")
    assert np.array_equal(credit.advantages, exact_advantage(turns))
    assert credit.state == {"kept": 1}


@given(st.integers(0, 1000))
def test_coma_advantages_in_one_state_sum_to_zero(seed):
    turns = random_turns(seed)
    advantages = coma(turns, {}).advantages
    for role_and_view in {(role, view) for role, view in zip(turns.role, turns.view, strict=True)}:
        assert advantages[(turns.role == role_and_view[0]) & (turns.view == role_and_view[1])].sum() == pytest.approx(
            0.0, abs=1e-9
        )


def test_coma_bounded_table_keeps_the_most_visited_states(monkeypatch):
    monkeypatch.setattr("sparring.methods.credit.coma.MAX_ENTRIES", 1)
    credit = coma(table_of_views([[1.0], [3.0], [8.0]], [0, 0, 1], [0, 0, 1]), {})
    assert list(credit.state) == ['["game", "first", "here", "stay"]']


def test_coma_without_turns_the_counts_decay():
    assert coma(table_of_views([], [], []), {"[]": [1.0, 1.0]}, decay=0.5).state == {"[]": [0.5, 0.5]}


def test_coma_missing_columns_are_named():
    with pytest.raises(CreditError, match="action_value"):
        coma(table([[1.0]]), {}, values="exact")


def table_of_scores(values, mask):
    turns = table(**BY_HAND)
    return replace(turns, candidate_value=np.array(values, dtype=float), candidate_judged=np.array(mask))


def test_candidate_value_reply_scores_by_hand_do_not_depend_on_rewards():
    turns = table_of_scores([1, 2, 3, 4, 5, 6, 7], [True, True, False, True, True, True, False])
    credit = candidate_value(turns)
    assert credit.advantages.tolist() == [1.0, 2.0, 0.0, 4.0, 5.0, 6.0, 0.0]
    assert credit.trained.tolist() == [True, True, False, True, True, True, False]
    assert credit.metrics == {"judged": pytest.approx(5 / 7)}
    without_rewards = replace(turns, reward=np.zeros(7))
    assert np.array_equal(candidate_value(without_rewards).advantages, credit.advantages)


class ColumnSource:
    def __init__(self, episodes):
        self.episodes, self.turns = episodes, turn_table(episodes, candidates=True)


def test_the_columns_are_the_scores_of_all_replies_in_the_order_of_the_table():
    def reply(number, score, seat=0, index=0, candidates=()):
        return Turn(
            seat,
            index,
            "learner",
            "k",
            ("a",),
            "a",
            "a",
            "ok",
            {},
            candidate=number,
            score=score,
            candidates=candidates,
        )

    turns = (reply(1, 0.5, candidates=(reply(0, -1.0), reply(2, None))), reply(0, 0.0, seat=1), reply(0, None, index=1))
    episode = Episode(
        episode_id=0,
        group_id=0,
        game="g",
        seed=0,
        roles=("x", "y"),
        agents=("learner", "learner"),
        trained=(True, True),
        turns=turns,
        returns=(0.0, 0.0),
    )
    source = ColumnSource([episode])
    # seat 0's turns in order, then its other candidates, then seat 1
    assert value_column(source).tolist() == [0.5, 0.0, -1.0, 0.0, 0.0]
    assert judged_column(source).tolist() == [True, False, True, False, True]
    assert source.turns.committed.tolist() == [True, True, False, False, True]


def test_a_reward_component_is_chosen_by_name_and_unknown_names_are_refused():
    turns = dataclasses.replace(
        table([[1.0, 2.0]]), components={"game": np.array([1.0, 1.0]), "odd": np.array([0.0, np.nan])}
    )
    assert component(turns, "x", "game").tolist() == [1.0, 1.0] and len(component(table([]), "x", "game")) == 0
    with pytest.raises(CreditError, match=r"'x': no reward component 'gain' \(available: game, odd\)"):
        component(turns, "x", "gain")
    with pytest.raises(CreditError, match="'odd' is nan in row 1"):
        component(turns, "x", "odd")
