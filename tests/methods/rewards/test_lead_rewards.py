import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.play import plays

from sparring.config.plugins import registry
from sparring.config.plugins.registry import bind
from sparring.core.errors import RewardError
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.environments.base import HasCounterfactual
from sparring.environments.catalogue import make_game
from sparring.environments.wide_search.scoring import score_table
from sparring.methods.rewards.base import apply_rewards
from sparring.methods.rewards.components import WeightedReward
from sparring.methods.rewards.contribution import contribution
from sparring.methods.rewards.spawn import spawn
from sparring.methods.rewards.subtasks_finished import subtasks_finished
from sparring.ops.normal_form import shapley_values
from sparring.play.players.scheduler import scheduler
from sparring.play.players.searcher import searcher
from sparring.play.replay import replay
from sparring.play.rollout import play

WIDE_SEARCH_FOR_SPAWN = {"items": 4, "columns": 1, "workers": 4, "turns": 2, "waves": 2, "worlds": 50}
DAG = {"tasks": 4, "workers": 4, "worlds": 50}


def play_of(name, options, player, trained=None, count=1):
    """Return a game and the episodes in which this player has all seats."""
    game = make_game(name, options=options)
    specs = plays.make_specs(game, count, seed=5, name="it")
    return game, play([replace(spec, trained=trained or spec.trained) for spec in specs], {"it": player})


@pytest.mark.parametrize(("width", "expected"), [(1, 0.0), (2, 1 / 3), (4, 1.0)])
@pytest.mark.parametrize("name", ["wide_search", "dag_search"])
def test_spawn_rewards_by_hand(name, width, expected):
    """The widest wave has one, two or four of four workers; only the lead's last turn is rewarded."""
    agent = searcher(width=width) if name == "wide_search" else scheduler(width=width)
    game, (episode,) = play_of(name, WIDE_SEARCH_FOR_SPAWN if name == "wide_search" else DAG, agent)
    rewards = spawn(episode, game)
    last_turn = max(index for index, turn in enumerate(episode.turns) if turn.seat == 0)
    assert {index: value for index, value in enumerate(rewards) if value is not None} == {
        last_turn: pytest.approx(expected)
    }
    assert len(rewards) == len(episode.turns)


def test_a_seat_without_a_lead_summary_gets_no_reward(monkeypatch):
    game, (episode,) = play_of("wide_search", WIDE_SEARCH_FOR_SPAWN, searcher(width=2))
    assert any(value is not None for value in spawn(episode, game))
    seats = game.num_seats
    monkeypatch.setattr(
        "sparring.methods.rewards.counts.figures_of", lambda *_: dict.fromkeys(game.figures, (math.nan,) * seats)
    )
    assert spawn(episode, game) == (None,) * len(episode.turns)


def test_with_one_worker_or_one_seat_spawn_pays_nothing():
    game, (episode,) = play_of("dag_search", {**DAG, "workers": 1}, scheduler())
    assert set(spawn(episode, game)) == {None, 0.0}
    game_without_workers, (single_seat_episode,) = play_of(
        "wide_search", {**WIDE_SEARCH_FOR_SPAWN, "workers": 0, "turns": 8}, searcher()
    )
    assert (
        set(spawn(single_seat_episode, game_without_workers))
        == set(subtasks_finished(single_seat_episode, game_without_workers))
        == {None}
    )


@pytest.mark.parametrize("combinator", ["trial", "repeated"])
def test_spawn_is_refused_for_a_combinator_around_a_team(combinator):
    options = {"environment": {"name": "wide_search", "options": WIDE_SEARCH_FOR_SPAWN}}
    game, (episode,) = play_of(combinator, options, bind("players", "random")())
    for name, reward in (("spawn", spawn), ("subtasks_finished", subtasks_finished)):
        with pytest.raises(
            RewardError, match=f"'{name}': {combinator} combines episodes of wide_search.*without {combinator}"
        ):
            reward(episode, game)
    config_without_workers = {
        "environment": {"name": "wide_search", "options": {**WIDE_SEARCH_FOR_SPAWN, "workers": 0, "turns": 8}}
    }
    for options in (config_without_workers, {"environment": {"name": "kuhn_poker"}}):  # neither environment has a lead
        game, (episode,) = play_of(combinator, options, bind("players", "random")())
        assert set(spawn(episode, game)) == set(subtasks_finished(episode, game)) == {None}


@pytest.mark.parametrize(("progress", "factor"), [(0.0, 1.0), (0.3, 0.5), (0.6, 0.0), (1.0, 0.0)])
def test_a_weight_schedule_that_falls_to_zero(progress, factor):
    """l1 = 0.5 to 0 and l2 = 0.2 to 0 at 60 % of the run."""
    game, episodes = play_of("dag_search", DAG, scheduler(width=4), trained=(True, False, False, False, False), count=3)
    weights = {"spawn": 0.5, "subtasks_finished": 0.2}
    rewards = [
        WeightedReward(
            bound=bind("rewards", name), weight=parse({"schedule": "linear", "start": weight, "end": 0.0, "until": 0.6})
        )
        for name, weight in weights.items()
    ]
    shaped_episodes, metrics = apply_rewards(
        episodes, rewards, progress, gaps={}, games={game.name: game}, reorder_outcomes=True
    )
    for episode, shaped_episode in zip(episodes, shaped_episodes, strict=True):
        rewards_of_turns = [
            {name: turn.rewards[name] for name in weights if name in turn.rewards} for turn in shaped_episode.turns
        ]
        last_turn = max(index for index, turn in enumerate(shaped_episode.turns) if turn.seat == 0)
        assert rewards_of_turns[last_turn]["spawn"] == pytest.approx(0.5 * factor)
        assert rewards_of_turns[last_turn]["subtasks_finished"] == pytest.approx(
            0.2 * factor * subtasks_finished(episode, game)[last_turn]
        )
        assert not any(turn_rewards for index, turn_rewards in enumerate(rewards_of_turns) if index != last_turn)
    assert metrics["reward/spawn"] == pytest.approx(0.5 * factor)


WIDE_SEARCH_FOR_SUBTASKS = {"items": 4, "columns": 1, "workers": 4, "turns": 2, "waves": 1, "worlds": 50}


def reward_of(name, options, player):
    game, (episode,) = play_of(name, options, player)
    (value,) = [reward for reward in subtasks_finished(episode, game) if reward is not None]
    return value


def test_subtasks_finished_by_hand_in_a_chain():
    """Three sub-tasks one after the other, with enough steps; in each wave one of two workers has no task."""
    chain = {"tasks": 3, "workers": 4, "shape": "chain", "slack": 10.0, "worlds": 50}
    assert reward_of("dag_search", chain, scheduler()) == 1.0
    assert reward_of("dag_search", chain, scheduler(width=2)) == pytest.approx(1 / 2)
    assert reward_of("dag_search", chain, scheduler(width=4)) == pytest.approx(1 / 4)
    assert reward_of("dag_search", chain, scheduler(slips=1.0)) == 0.0


def test_subtasks_finished_by_hand_in_a_table():
    """Each worker has enough turns for one of four rows; wrong or empty cells earn 0."""
    assert (
        reward_of("wide_search", WIDE_SEARCH_FOR_SUBTASKS, searcher(width=2))
        == reward_of("wide_search", WIDE_SEARCH_FOR_SUBTASKS, searcher(width=4))
        == 1.0
    )
    assert (
        reward_of("wide_search", WIDE_SEARCH_FOR_SUBTASKS, searcher(slips=1.0))
        == reward_of("wide_search", WIDE_SEARCH_FOR_SUBTASKS, searcher(quits=1.0))
        == 0.0
    )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    width=st.integers(0, 4),
    error_rate=st.sampled_from([0.0, 0.3, 1.0]),
    name=st.sampled_from(["wide_search", "dag_search"]),
)
def test_the_reward_is_a_share_and_1_only_without_errors(seed, width, error_rate, name):
    options = WIDE_SEARCH_FOR_SUBTASKS if name == "wide_search" else {"tasks": 5, "workers": 4, "worlds": 50}
    player = (searcher if name == "wide_search" else scheduler)(width=width, slips=error_rate)
    game = make_game(name, options=options)
    (episode,) = play(plays.make_specs(game, 1, seed, "it"), {"it": player})
    for reward in (spawn, subtasks_finished):
        (value,) = [value for value in reward(episode, game) if value is not None]
        assert 0.0 <= value <= 1.0
    if error_rate == 1.0:
        assert value == 0.0


def test_a_truncated_episode_earns_nothing():
    game, (episode,) = play_of("dag_search", {"tasks": 3, "workers": 2, "worlds": 50}, scheduler())
    truncated = replace(episode, turns=episode.turns[:2], cut=True)
    assert set(subtasks_finished(truncated, game)) == set(spawn(truncated, game)) == {None}


TEAM = make_game("wide_search", options={"items": 5, "columns": 2, "workers": 3, "turns": 4, "waves": 2, "worlds": 3})


def played_episodes(game=TEAM, count=12, player="random"):
    return play(plays.make_specs(game, count, seed=5, name="it"), {"it": registry.bind("players", player)()})


def noted_cells(episode):
    """Return the cells that each seat noted and the final state, read from the record."""
    cells, state = {}, None
    for turn, state in zip(episode.turns, replay(TEAM, episode), strict=True):
        if turn.action.startswith("note"):
            _, column, value = turn.action.split()
            cells[state.start.names[state.calls[turn.seat].open_page], column] = turn.seat, value
    return cells, state.start


def f1_of_seats(cells, state, seats):
    """Return the item F1 of the table that only these seats filled."""
    table = {}
    for (name, column), (seat, value) in cells.items():
        if seat in seats:
            table.setdefault(name, {})[column] = value
    return score_table(state.rows(), table, len(state.columns)).item_f1


def reward_by_seat(episode, rewards):
    """Return the total reward of each seat; only its last turn may have one."""
    last_turn = {turn.seat: number for number, turn in enumerate(episode.turns)}
    assert all(value == 0.0 for number, value in enumerate(rewards) if number not in last_turn.values())
    return {seat: rewards[number] for seat, number in last_turn.items()}


@pytest.fixture(scope="module")
def episodes():
    episodes = played_episodes()
    assert any(len({turn.seat for turn in episode.turns}) == 4 for episode in episodes) and any(
        episode.returns[0] for episode in episodes
    )
    return episodes


def test_difference_is_the_loss_of_f1_without_the_seat(episodes):
    for episode in episodes:
        rewards = reward_by_seat(episode, contribution(episode, TEAM, by="difference"))
        cells, state = noted_cells(episode)
        workers = {seat for seat in rewards if seat}
        full_f1 = f1_of_seats(cells, state, workers)
        assert rewards[0] == episode.returns[0] == pytest.approx(full_f1)  # the lead has no part
        for seat in workers:
            assert rewards[seat] == pytest.approx(full_f1 - f1_of_seats(cells, state, workers - {seat}))


def test_shapley_values_equal_enumerated_coalitions(episodes):
    for episode in episodes:
        rewards = reward_by_seat(episode, contribution(episode, TEAM, by="shapley"))
        cells, state = noted_cells(episode)
        workers = sorted(seat for seat in rewards if seat)
        f1_of_coalitions = [
            f1_of_seats(cells, state, [seat for bit, seat in enumerate(workers) if mask >> bit & 1])
            for mask in range(1 << len(workers))
        ]
        assert [rewards[seat] for seat in workers] == pytest.approx(shapley_values(np.array(f1_of_coalitions)).tolist())
        if workers:
            assert sum(rewards[seat] for seat in workers) == pytest.approx(episode.returns[0])


def test_contribution_own_is_correct_cells_over_requested_cells(episodes):
    num_requested = 0
    for episode in episodes:
        rewards = reward_by_seat(episode, contribution(episode, TEAM, by="own"))
        notes, start = noted_cells(episode)
        requested = dict.fromkeys(rewards, 0)
        new_cells, noted = {}, set()
        for state in replay(TEAM, episode):
            for seat, call in state.calls.items():
                if not call.log and (len(state.waves), seat) not in noted:
                    noted.add((len(state.waves), seat))
                    new_cells[len(state.waves), seat] = sum(
                        (item, column) not in state.notes for item in call.rows for column in range(2)
                    )
        for (_, seat), cells in new_cells.items():
            requested[seat] += cells
            num_requested += cells
        true_rows = start.rows()
        for seat in rewards:
            num_correct = sum(
                true_rows[name][column] == value for (name, column), (author, value) in notes.items() if author == seat
            )
            assert rewards[seat] == pytest.approx(num_correct / requested[seat] if seat else episode.returns[0])
    assert num_requested > 20


def test_a_single_seat_gets_the_whole_result():
    game = make_game("wide_search", options={"items": 3, "columns": 1, "workers": 0, "turns": 9, "worlds": 3})
    for episode in played_episodes(game, 6):
        (reward,) = reward_by_seat(episode, contribution(episode, game, by="difference")).values()
        assert reward == pytest.approx(episode.returns[0])


def test_if_the_lead_writes_the_answer_all_seats_get_the_return():
    game = make_game(
        "wide_search",
        options={"items": 3, "columns": 1, "workers": 2, "turns": 4, "waves": 1, "worlds": 3, "answer": "written"},
    )
    episodes = played_episodes(game, 6, "searcher") + played_episodes(game, 6)
    assert any(episode.returns[0] for episode in episodes)
    for episode in episodes:
        for rule in ("difference", "shapley", "own"):
            assert set(reward_by_seat(episode, contribution(episode, game, by=rule)).values()) == {episode.returns[0]}


def test_episodes_that_did_not_end_by_their_rules_get_no_contribution(episodes):
    for unfinished in (replace(episodes[0], cut=True), replace(episodes[0], forfeited_by=1)):
        assert contribution(unfinished, TEAM) == (None,) * len(unfinished.turns)


def test_environments_without_parts_get_no_contribution():
    kuhn = make_game("kuhn_poker")
    assert not isinstance(kuhn.reset(Stream.from_seed(0)), HasCounterfactual)
    episode = played_episodes(kuhn, 1)[0]
    assert contribution(episode, kuhn) == (None,) * len(episode.turns)


@pytest.mark.parametrize(
    "options", [{"name": "trial", "attempts": 2}, {"name": "repeated", "rounds": 2}, {"name": "talk"}]
)
def test_contribution_is_refused_for_a_combinator_around_a_team(options):
    """An episode of a combinator has no parts per seat, so a run with this reward would train no seat."""
    name = options.pop("name")
    team_game = {
        "name": "wide_search",
        "options": {"items": 2, "columns": 1, "workers": 2, "turns": 2, "waves": 1, "worlds": 3},
    }
    game = make_game(name, options={"environment": team_game, **options})
    (episode,) = played_episodes(game, 1)
    with pytest.raises(RewardError, match=f"'contribution': {name} combines episodes of wide_search.*without {name}"):
        contribution(episode, game)
    kuhn = make_game("repeated", options={"environment": {"name": "kuhn_poker"}})
    (episode,) = played_episodes(kuhn, 1)
    assert contribution(episode, kuhn) == (None,) * len(episode.turns)  # no parts inside either


def test_shapley_with_too_many_parts_is_refused():
    game = make_game(
        "wide_search", options={"items": 9, "columns": 1, "workers": 9, "turns": 2, "waves": 1, "worlds": 1}
    )
    episode = next(candidate for candidate in played_episodes(game, 40) if candidate.turns[0].action == "call 9")
    with pytest.raises(RewardError, match="9 seats have a part, and by: shapley is for at most 8"):
        contribution(episode, game, by="shapley")
    assert len(contribution(episode, game)) == len(episode.turns)
