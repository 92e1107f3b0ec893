"""What the lab makes on demand: values by playing on are those of histories, and still unbiased; a reward in place of the game."""

import numpy as np
import pytest

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.credit_lab import CreditLab, LabPlan, bind_estimator
from sparring.measure.info_states import enumerate_info_states, exact_values
from sparring.measure.lab_episodes import improved_table, random_table
from sparring.ops.returns import trajectory_starts
from sparring.play.turn_table import ordered_turns

KUHN = make_game("kuhn_poker")
STATES = enumerate_info_states(KUHN)


def lab_of(game=KUHN, states=STATES, seed=0, **plan):
    policy = random_table(states, Stream.from_seed(seed))
    return CreditLab(game, policy, LabPlan(**{"episodes": 2000, "timed": False, "seed": seed, **plan}))


@pytest.fixture(scope="module")
def kuhn():
    return lab_of(episodes=256)


def worth(lab, history, seat):
    """What a history is worth to a seat, by recursion over OpenSpiel's own states."""
    rows = {(query.seat, query.key): dict(zip(query.legal_actions, row, strict=True)) for query, row in zip(lab.policy.states.queries, lab.policy.rows, strict=True)}

    def value(spiel):
        if spiel.is_terminal():
            return spiel.returns()[seat]
        if spiel.is_chance_node():
            return sum(p * value(spiel.child(a)) for a, p in spiel.chance_outcomes())
        state = KUHN.state_of(spiel)
        row = rows[state.seat, state.observe(state.seat, 0).key]
        return sum(row[word] * value(spiel.child(index)) for word, index in zip(state.legal_actions(), spiel.legal_actions(), strict=True))

    return value(history)


@pytest.mark.slow
def test_values_by_playing_on_are_those_of_the_histories():
    """Of both cards, not of the seat's own: games from one history have one mean, whoever looks."""
    lab = lab_of(episodes=256, playouts=400)
    turns, errors, hidden = lab.continued.turns, [], []
    for row, (episode, turn) in enumerate(ordered_turns(lab.episodes)):
        begin = next(k for k, one in enumerate(episode.turns) if one is turn)
        state = KUHN.reset(Stream(episode.seed))
        for other in episode.turns[:begin]:
            state.apply(other.action)
        before = worth(lab, state.spiel, turn.seat)
        state.apply(turn.action)
        errors += [turns.playout_before[row] - before, turns.playout[row] - worth(lab, state.spiel, turn.seat)]
        hidden.append(before - turns.state_value[row])
    errors = np.array(errors)
    assert abs(errors.mean()) < 0.02
    assert errors.std() < 0.12  # a return deviates by at most 2, so the mean of 400 by 0.1
    assert np.std(hidden) > 0.3  # what an information state is worth is something else


def test_the_last_turn_is_worth_the_return_and_neighbours_share_their_games(kuhn):
    turns = kuhn.continued.turns
    whole = np.add.reduceat(turns.reward, trajectory_starts(turns.trajectory))
    for row, (episode, turn) in enumerate(ordered_turns(kuhn.episodes)):
        if turn is episode.turns[-1]:
            assert turns.playout[row] == whole[turns.trajectory[row]]
    second = [row for row, (episode, turn) in enumerate(ordered_turns(kuhn.episodes)) if turn is episode.turns[1]]
    first = [row for row, (episode, turn) in enumerate(ordered_turns(kuhn.episodes)) if turn is episode.turns[0]]
    assert np.array_equal(turns.playout_before[second], -turns.playout[first])  # the payoffs of kuhn poker sum to 0


@pytest.mark.slow
def test_differences_of_histories_are_unbiased_and_whitening_is_not():
    lab = lab_of(episodes=8000)
    plain, white = lab.row("vine_ppo:unbiased"), lab.row("vine_ppo")
    assert plain.refused is None and white.refused is None
    for found in (plain.gradient.bias, plain.gradient.bias_unpaired):
        assert found.low == 0.0 and found.high < 0.25
    assert white.gradient.bias.low > 0.01
    assert 0.6 < plain.right_sign < 0.95  # what is hidden is noise in the differences


@pytest.mark.slow
def test_more_games_make_less_noise():
    one, many = (lab_of(playouts=count).row("vine_ppo:unbiased").gradient.variance for count in (1, 16))
    assert one.mean > many.high and many.mean < one.low


def test_only_who_reads_them_is_given_values_by_playing_on(kuhn):
    assert kuhn.shown_to(bind_estimator("vine_ppo")).turns.playout is not None
    assert kuhn.shown_to(bind_estimator("rloo")) is kuhn.shown
    assert kuhn.shown.turns.playout is None
    assert lab_of(episodes=640, timed=True, burn_in=0.2).row("vine_ppo").seconds > 0


@pytest.mark.always
def test_the_same_seed_plays_on_the_same_and_a_batch_by_itself():
    first, again, other = (lab_of(seed=seed, episodes=320).continued.turns for seed in (0, 0, 1))
    assert np.array_equal(first.playout, again.playout) and np.array_equal(first.playout_before, again.playout_before)
    assert not np.array_equal(first.playout[:300], other.playout[:300])
    fewer = lab_of(episodes=256).continued.turns.playout
    assert np.array_equal(first.playout[: len(fewer)], fewer)


def test_no_games_to_play_on_are_refused():
    with pytest.raises(ConfigError, match="--playouts 0 must be at least 1"):
        lab_of(playouts=0)


# -- a reward in place of the game

SMALL = {"items": 2, "columns": 1, "workers": 2, "turns": 2, "waves": 1, "worlds": 2}
TEAM = make_game("wide_search", options=SMALL)
TEAMS = enumerate_info_states(TEAM)


@pytest.fixture(scope="module")
def team():
    return {by: lab_of(TEAM, TEAMS, reward=by and f"contribution by={by}", episodes=3200) for by in ("", "difference", "own")}


def test_what_a_worker_changed_has_the_gradient_of_the_teams_return_and_less_noise(team):
    shared, parts, own = (team[by].row("outcome").gradient for by in ("", "difference", "own"))
    for found in (parts.bias, parts.bias_unpaired):
        assert found.low == 0.0 and found.high < 0.2
    assert parts.variance.high < shared.variance.mean and parts.variance.mean < shared.variance.low
    assert own.bias.low > 0.1 and own.cosine.high < 0.995


def test_the_truth_is_the_games_return_whatever_is_paid(team):
    assert np.array_equal(team[""].exact, team["own"].exact)
    assert np.array_equal(team[""].controls, team["own"].controls)
    assert np.array_equal(team[""].whole.turns.reward, team["own"].whole.turns.reward)
    shown = team["own"].shown.turns
    assert np.array_equal(shown.reward, shown.components["contribution"]) and not shown.components["game"].any()
    assert not np.array_equal(shown.reward, team[""].shown.turns.reward)
    assert team["own"].row("exact_advantage").gradient.bias.high < 1e-6  # exact values stay those of the game


def test_a_reward_that_asks_an_oracle_is_refused():
    with pytest.raises(ConfigError, match=r"--reward 'best_action' reads verdicts, which the lab does not make"):
        lab_of(reward="best_action")


def test_an_improved_table_earns_more_and_begins_with_the_random_one():
    table = random_table(TEAMS, Stream.from_seed(0))
    same, better = improved_table(table, steps=0), improved_table(table)
    earned = [exact_values(TEAMS, one.rows).returns[0] for one in (table, better)]
    assert same is table and earned[1] > earned[0] + 0.3
    assert all(row.sum() == pytest.approx(1.0) and (row > 0).all() for row in better.rows)
    one = improved_table(table, steps=1, rate=2.0)
    q = exact_values(TEAMS, table.rows).action[0]
    wanted = table.rows[0] * np.exp(2.0 * q)  # returns of wide_search range from 0 to 1
    assert one.rows[0] == pytest.approx(wanted / wanted.sum())
