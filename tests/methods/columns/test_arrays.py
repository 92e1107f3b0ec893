import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparring
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, SparringError

EPISODE, SEAT = [0, 0, 0, 1, 1], [0, 0, 1, 0, 1]
REWARD = [0.0, 1.0, -1.0, -1.0, 1.0]


def test_a_table_by_hand():
    turns = sparring.turn_table(reward=REWARD, episode=EPISODE, seat=SEAT)
    assert turns.trajectory.tolist() == [0, 0, 1, 2, 3]
    assert turns.turn_index.tolist() == [0, 1, 0, 0, 0]
    assert turns.done.tolist() == [False, True, True, True, True]
    assert turns.role_names == ("seat 0", "seat 1") and turns.role.tolist() == [0, 0, 1, 0, 1]
    assert turns.n_tokens.tolist() == [1] * 5 and turns.legal.all()
    assert len(set(turns.state_key.tolist())) == 5
    assert turns.value is None and turns.logprob is None


@pytest.mark.parametrize("name", ["grpo", "rloo", "mars", "rae", "outcome", "reinforce_plus_plus"])
def test_estimators_give_the_same_advantages_from_arrays_as_from_episodes(name):
    episodes = sparring.play_episodes(
        "kuhn_poker", ["random", "random"], plays=12, group_size=4, trained=[0, 1], seed=3
    )
    rows = sparring.turn_table(episodes)
    arrays = sparring.turn_table(
        reward=rows.reward,
        episode=rows.episode,
        seat=rows.seat,
        group=rows.group,
        n_tokens=rows.n_tokens,
        role=[rows.role_names[number] for number in rows.role],
        state_key=rows.state_key,
        legal=rows.legal,
        logprob=rows.logprob,
    )
    assert np.array_equal(sparring.advantages(name, arrays).advantages, sparring.advantages(name, rows).advantages)


def test_grpo_by_hand():
    """Two initial states of two episodes each; the group mean is 0, and the deviation is 1."""
    turns = sparring.turn_table(reward=[1, -1, 1, -1], episode=[0, 1, 2, 3], group=[0, 0, 1, 1])
    assert sparring.advantages("grpo:dr_grpo", turns).advantages.tolist() == [1, -1, 1, -1]


def test_an_estimator_with_a_critic_reads_the_given_values():
    turns = sparring.turn_table(reward=[0.0, 1.0], episode=[0, 0], value=[0.25, 0.5])
    credit = sparring.advantages("gae", turns, gamma=1.0, lam=0.0)
    assert credit.advantages == pytest.approx([0.25, 0.5])  # r + V(next) - V


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=20))
def test_a_trajectory_holds_the_turns_of_one_seat_in_one_episode(pairs):
    pairs = sorted(pairs)
    turns = sparring.turn_table(reward=[1.0] * len(pairs), episode=[e for e, _ in pairs], seat=[s for _, s in pairs])
    assert turns.done.sum() == len(set(pairs))
    assert (np.diff(turns.trajectory) >= 0).all()
    for index in range(len(set(pairs))):
        assert turns.turn_index[turns.trajectory == index].tolist() == list(range((turns.trajectory == index).sum()))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"reward": [1.0]}, "needs 'episode'"),
        ({"episode": [0]}, "needs 'reward'"),
        ({"reward": [1.0], "episode": [0, 1]}, r"episode has shape \(2,\) and must have \(1,\)"),
        ({"reward": [[1.0]], "episode": [0]}, r"reward has shape \(1, 1\) and must have \[N\]"),
        ({"reward": [float("nan")], "episode": [0]}, "reward is nan in row 0"),
        ({"reward": ["x"], "episode": [0]}, "reward contains a value that is not a number"),
        ({"reward": [1.0], "episode": [0.5]}, "episode is 0.5 in row 0; write integers"),
        ({"reward": [1.0] * 3, "episode": [0, 1, 0]}, "row 2 returns to episode 0, seat 0; sort"),
        ({"reward": [1.0], "episode": [0], "roll": ["a"]}, "'roll'.*'role'|'role'"),
        ({"reward": [1.0], "episode": [0], "role": ["a", "b"]}, "role has 2 entries and must have 1"),
        ({"reward": [1.0], "episode": [0], "legal": [2]}, "legal must be true or false"),
        (
            {"reward": [1.0], "episode": [0], "n_tokens": [2], "token_value": [0.0]},
            r"token_value has shape \(1,\) and must have \(2,\)",
        ),
        ({"reward": [1.0], "episode": [0], "components": {"a": [1, 2]}}, r"components\['a'\] has shape"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:20],
)
def test_columns_that_form_no_turn_table_are_refused(columns, words):
    with pytest.raises(SparringError, match=words):
        sparring.turn_table(**columns)


def test_episodes_and_arrays_cannot_be_mixed():
    with pytest.raises(ConfigError, match="takes a list of episodes"):
        sparring.turn_table([], reward=[1.0], episode=[0])


def test_an_empty_table_has_no_rows():
    turns = sparring.turn_table(reward=[], episode=[])
    assert len(turns.reward) == len(turns.done) == 0


@pytest.mark.parametrize("name", [name for name in registry.names("columns") if name != "token_value"])
def test_every_column_can_be_passed_as_an_array(name):
    values = (
        [3, 5] if name in ("state_group", "opponents") else [0.5, 0.25]
    )  # columns that only distinguish rows hold integers
    turns = sparring.turn_table(reward=[1.0, 2.0], episode=[0, 1], **{name: values})
    assert turns.column(name).tolist() == values and (turns.column(name).dtype == np.int64) == (values == [3, 5])


def test_arrays_can_describe_trials_of_several_attempts():
    turns = sparring.turn_table(
        reward=[-1, 0, -1, 0, 1, 1],
        episode=[0] * 5 + [1],
        attempt=[0, 0, 1, 1, 2, 0],
        note=[0, 1, 0, 1, 0, 0],
        view=["x"] * 6,
        opponents=[4, 4, 4, 4, 4, 9],
    )
    assert turns.attempt.tolist() == [0, 0, 1, 1, 2, 0] and turns.note.tolist() == [
        False,
        True,
        False,
        True,
        False,
        False,
    ]
    advantages = sparring.advantages("mage", turns, step_weight=0.0, per_opponent=True).advantages
    assert advantages == pytest.approx(np.array([-1, 0, 0, 0, 2, 1]) - np.array([1 / 3, 0, 1 / 3, 0, 1 / 3, 1]))
    with pytest.raises(ConfigError, match=r"attempt is 0\.5 in row 0; write integers"):
        sparring.turn_table(reward=[1.0], episode=[0], attempt=[0.5])
