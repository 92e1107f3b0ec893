"""The exact gradient against finite differences of exact returns, and play against the table's probabilities."""

from collections import Counter

import numpy as np
import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.info_states import enumerate_info_states, exact_values
from sparring.measure.lab_episodes import TablePolicy, exact_gradient, play_table, random_table


def table_of(name, seed=0):
    game = make_game(name)
    return game, random_table(enumerate_info_states(game), Stream.from_seed(seed))


def softmax_table(states, logits):
    rows = np.split(logits, np.cumsum([len(query.legal_actions) for query in states.queries])[:-1])
    return TablePolicy.of(states, [np.exp(row) / np.exp(row).sum() for row in rows])


# two actions, zero-sum; three actions, cooperative; general-sum; of variable length; one seat
@pytest.mark.parametrize("name", ["kuhn_poker", "tiny_hanabi", "repeated_dilemma", "signalling", "needle_chain"])
def test_the_exact_gradient_is_that_of_finite_differences(name):
    _, policy = table_of(name)
    logits, step = np.log(policy.flat), 1e-5
    found = []
    for index, seat in enumerate(policy.seats):
        moved = []
        for sign in (1, -1):
            changed = logits.copy()
            changed[index] += sign * step
            table = softmax_table(policy.states, changed)
            moved.append(exact_values(table.states, table.rows).returns[seat])
        found.append((moved[0] - moved[1]) / (2 * step))
    gradient = exact_gradient(policy)
    assert gradient == pytest.approx(np.array(found), abs=1e-8)
    assert np.abs(gradient).max() > 0.01


def test_a_random_table_is_a_policy_far_from_uniform_that_a_seed_determines():
    _, policy = table_of("leduc_poker")
    assert [row.sum() for row in policy.rows] == pytest.approx([1.0] * len(policy.states))
    assert np.array_equal(policy.flat, table_of("leduc_poker")[1].flat)
    assert not np.array_equal(policy.flat, table_of("leduc_poker", seed=1)[1].flat)
    assert policy.flat.min() > 1e-3
    assert np.mean([row.max() - row.min() for row in policy.rows]) > 0.3


def test_the_agent_plays_what_the_table_says():
    game, policy = table_of("kuhn_poker")
    episodes = play_table(game, policy, batches=60, batch_size=64, group_size=8, stream=Stream.from_seed(3))
    seen = Counter((turn.seat, turn.state_key, turn.action) for episode in episodes for turn in episode.turns)
    for query, row in zip(policy.states.queries, policy.rows, strict=True):
        counts = np.array([seen[query.seat, query.key, action] for action in query.legal_actions])
        assert counts / counts.sum() == pytest.approx(row, abs=4 * np.sqrt(0.25 / counts.sum()))
    assert all(turn.event == "ok" for episode in episodes for turn in episode.turns)


def test_members_of_a_group_share_their_deal_and_play_on_their_own():
    game, policy = table_of("kuhn_poker")
    episodes = play_table(game, policy, batches=4, batch_size=64, group_size=8, stream=Stream.from_seed(3))
    groups = [episodes[begin : begin + 8] for begin in range(0, len(episodes), 8)]
    assert all(len({(e.seed, e.group_id, e.turns[0].state_key) for e in group}) == 1 for group in groups)
    assert len({group[0].seed for group in groups}) == len(groups)
    assert any(len({e.returns for e in group}) > 1 for group in groups)
