import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.plugins.registry import bind
from sparring.core.errors import CheckpointError
from sparring.core.records import Episode, Segment, Turn
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.methods.selection.replay.base import (
    FILE,
    ReplayBuffer,
    ReplayEntry,
    ReplayRequest,
    mean_advantage_sizes,
)
from sparring.methods.selection.replay.prioritised_replay import prioritised_replay
from sparring.methods.selection.replay.r3 import r3
from sparring.methods.selection.replay.ssb import ssb
from sparring.play.store import from_bytes, to_bytes
from sparring.play.turn_table import turn_table
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round


def game(number, group, payoff, *, trained=(True, False)):
    """Return a two-seat episode: seat 0 earns the payoff in its second turn, seat 1 the negative."""

    def turn(seat, index, reward):
        segments = (
            Segment(kind="prompt", ids=(1, 2)),
            Segment(kind="sampled", ids=(3, number % 7), logprobs=(-0.1, -1.0 / 3)),
        )
        return Turn(seat, index, "learner", f"k{index}", ("a", "b"), "a", "a", "ok", {"payoff": reward}, segments)

    turns = (turn(0, 0, 0.0), turn(1, 0, -payoff), turn(0, 1, payoff))
    return Episode(
        episode_id=number, group_id=group, game="g", seed=group, roles=("x", "y"), agents=("learner", "learner"),
        trained=trained, turns=turns, returns=(payoff, -payoff),
    )  # fmt: skip


def games(first_number, *groups, step=0, **options):
    """Return groups of games with these payoffs, numbered from ``first``."""
    number, episodes = first_number, []
    for group, payoffs in enumerate(groups):
        for payoff in payoffs:
            episodes.append(game(number, first_number + group, payoff, **options))
            number += 1
    return tuple(episodes)


def request_of(new_games=(), buffer=(), *, num_episodes=4, step=1, seed=0, arms=None):
    arm_of = {episode.group_id: "g" for episode in new_games} if arms is None else arms
    return ReplayRequest(
        fresh_episodes=tuple(new_games),
        arm_of=arm_of,
        buffer=tuple(buffer),
        num_episodes=num_episodes,
        step=step,
        stream=Stream.from_seed(seed),
    )


def stored_entries(new_games, *, step=0, arm="g"):
    """Return the buffer's games after a step in which a rule stored them all."""
    sizes = mean_advantage_sizes(new_games)
    return tuple(ReplayEntry(episode, arm, step, sizes[episode.group_id]) for episode in new_games)


def joined_numbers(plan):
    return sorted(entry.episode.episode_id for entry, _ in plan.additions)


# -- every rule


@pytest.mark.parametrize("name", registry.names("selection.replay"))
@settings(max_examples=25, deadline=None)
@given(
    past_groups=st.lists(st.lists(st.integers(-1, 1), min_size=1, max_size=3), max_size=5),
    new_groups=st.lists(st.lists(st.integers(-1, 1), min_size=1, max_size=3), max_size=5),
    seed=st.integers(0, 999),
)
def test_joined_games_were_stored_and_join_once(name, past_groups, new_groups, seed):
    rule = bind("selection.replay", name)
    stored_games, new_games = games(0, *past_groups), games(1000, *new_groups)
    buffer = ReplayBuffer()
    batch_of_first_step, _ = buffer.join(
        rule,
        stored_games,
        {e.group_id: "g" for e in stored_games},
        num_episodes=4,
        step=0,
        stream=Stream.from_seed(seed),
        progress=0.0,
    )
    assert batch_of_first_step == list(stored_games)
    request = request_of(new_games, buffer.entries, seed=seed)
    plan, second_plan = rule(request, progress=0.5), rule(request, progress=0.5)
    assert plan == second_plan
    assert len(set(joined_numbers(plan))) == len(joined_numbers(plan))
    assert all(entry in buffer.entries for entry, _ in plan.additions)
    known_ids = {e.episode_id for e in (*stored_games, *new_games)}
    assert {entry.episode.episode_id for entry in plan.buffer} <= known_ids
    batch, metrics = buffer.join(
        rule, new_games, request.arm_of, num_episodes=4, step=1, stream=Stream.from_seed(seed), progress=0.5
    )
    assert batch[len(plan.additions) :] == list(new_games)
    assert len(turn_table(batch).reward) == 2 * len(batch)
    assert metrics.get("replayed_share", 0.0) == pytest.approx(len(plan.additions) / max(len(batch), 1))
    assert metrics.get("buffer_size", 0.0) == len(plan.buffer)


@pytest.mark.parametrize("name", registry.names("selection.replay"))
def test_buffers_are_bounded_and_drop_old_games(name):
    rule, buffer = (
        bind("selection.replay", name, {} if name == "none" else {"capacity": 6, "max_age": 3}),
        ReplayBuffer(),
    )
    sizes = []
    for step in range(9):
        new_games = games(100 * step, [1, -1], [1, -1], [0, 1]) if step < 5 else games(100 * step, [])
        buffer.join(
            rule,
            new_games,
            {e.group_id: "g" for e in new_games},
            num_episodes=6,
            step=step,
            stream=Stream.from_seed(step),
            progress=0.0,
        )
        sizes.append(len(buffer.entries))
    assert max(sizes) <= 12  # r3 keeps six of each outcome
    assert sizes[-1] == 0
    if name != "none":
        assert sizes[0] == sizes[4] == 6 or name == "r3"


def test_a_saved_buffer_is_restored_exactly(tmp_path):
    buffer = ReplayBuffer(
        stored_entries(games(0, [1, -1], [0.1, 0.7, 1 / 3])) + stored_entries(games(50, [1, -1]), step=1, arm="g#1")
    )
    buffer.save(tmp_path)
    restored_buffer = ReplayBuffer.restored(tmp_path)
    assert restored_buffer.entries == buffer.entries
    for folder in (second_folder := tmp_path / "second", empty_folder := tmp_path / "empty"):
        folder.mkdir()
    restored_buffer.save(second_folder)
    assert all((second_folder / name).read_bytes() == (tmp_path / name).read_bytes() for name in (FILE, "replay.json"))
    ReplayBuffer().save(empty_folder)
    assert list(empty_folder.iterdir()) == []
    assert ReplayBuffer.restored(tmp_path / "no").entries == ()
    (tmp_path / "replay.json").write_bytes(json.dumps({"arms": [], "priorities": []}).encode())
    with pytest.raises(CheckpointError, match="replay buffer"):
        ReplayBuffer.restored(tmp_path)
    (tmp_path / FILE).write_bytes(b"PAR1")
    with pytest.raises(CheckpointError, match="replay buffer"):
        ReplayBuffer.restored(tmp_path)
    assert from_bytes(to_bytes([])) == []


def test_priorities_by_hand():
    new_games = games(0, [1.0, -1.0], [1.0, 1.0], [2.0, 0.0, 1.0], [5.0])
    assert mean_advantage_sizes(new_games) == pytest.approx({0: 1.0, 1: 0.0, 2: 2 / 3, 3: 0.0})
    assert mean_advantage_sizes(()) == {}


# -- ssb


def test_ssb_fills_the_batch_with_whole_groups():
    buffer = stored_entries(games(0, [1, -1], [2, -2], [3, -3]))
    assert joined_numbers(ssb(request_of(games(100, [1, -1], [0, 1]), buffer))) == []
    assert len(joined_numbers(ssb(request_of(games(100, [1, -1], [1, 1]), buffer)))) == 2
    assert len(joined_numbers(ssb(request_of(games(100, [0, 0], [1, 1]), buffer)))) == 4
    assert len(joined_numbers(ssb(request_of(games(100, [0, 0], [1, 1]), buffer), fill=0.5))) == 2
    assert joined_numbers(ssb(request_of((), buffer, num_episodes=99))) == [0, 1, 2, 3, 4, 5]
    assert joined_numbers(ssb(request_of((), buffer, step=11))) == []
    assert len(joined_numbers(ssb(request_of((), buffer, step=10)))) == 4
    for entry, group in ssb(request_of((), buffer, num_episodes=99)).additions:
        assert group == entry.episode.group_id


# -- prioritised replay


def test_the_share_and_the_importance_weight_can_be_turned_off():
    buffer = stored_entries(games(0, [1, -1], [3, -3]))
    assert prioritised_replay(request_of((), buffer, num_episodes=8), beta=0.0).metrics["replay_weight"] == 1.0
    assert prioritised_replay(request_of((), buffer, num_episodes=8), share=0.0).additions == ()
    assert len(prioritised_replay(request_of((), buffer, num_episodes=8), share=0.5).additions) == 4


# -- r3


def test_r3_adds_the_missing_outcome_to_each_group():
    buffer = stored_entries(games(0, [1, -1], [1, -1]))
    new_games = games(100, [-1, -1], [1, 1], [1, -1], [-1])
    plan = r3(request_of(new_games, buffer))
    joined_payoffs = {}
    for entry, group in plan.additions:
        joined_payoffs.setdefault(group, []).append(entry.episode.returns[0])
    assert joined_payoffs == {100: [1], 101: [-1], 103: [1]}  # none for the group with both outcomes
    assert len(joined_numbers(r3(request_of(new_games, buffer), number=2))) == 4  # two successes and two failures
    assert len({joined_numbers(r3(request_of(games(100, [-1, -1]), buffer, seed=seed)))[0] for seed in range(20)}) == 2


def test_r3_adds_only_recent_games_of_the_same_arm_and_seats():
    new_games = games(100, [-1, -1])
    stored_wins = games(0, [1, -1])
    assert len(r3(request_of(new_games, stored_entries(stored_wins))).additions) == 1
    assert r3(request_of(new_games, stored_entries(stored_wins, arm="other"))).additions == ()
    assert r3(request_of(new_games, stored_entries(games(0, [1, -1], trained=(False, True))))).additions == ()
    assert r3(request_of(new_games, stored_entries(stored_wins), step=11)).additions == ()
    assert r3(request_of(new_games, ())).additions == ()


# -- in a step


def make_config(**changes):
    sections = {
        "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
        "steps": 6,
        "threads": 1,
        "rollout": {"games_per_step": 16, "group_size": 4},
    }
    return resolve({**sections, "model": {"hidden_size": 8, "layers": 1, "heads": 1}, **changes})


def test_a_step_trains_on_joined_games_and_reports_them():
    config, turn_tables = make_config(replay={"name": "prioritised_replay", "share": 0.5}), []
    engine, run_methods, state, outcomes = LocalEngine(config), Methods.of(config), RunState(), []

    def credit(turns, state, progress):
        turn_tables.append(turns)
        return run_methods.credit["main"](turns, state, progress=progress)

    methods = Methods(
        matchmaker=run_methods.matchmaker,
        curriculum=run_methods.curriculum,
        selection=run_methods.selection,
        credit={"main": credit},
        replay=run_methods.replay,
    )
    for _ in range(3):
        outcomes.append(play_round(config, engine, methods, state))
        state = outcomes[-1].state
    assert "replayed_share" in outcomes[0].metrics
    assert outcomes[0].metrics["replayed_share"] == 0.0
    assert outcomes[1].metrics["replay_age"] == 1.0
    assert outcomes[1].metrics["replayed_share"] == pytest.approx(8 / 24)
    assert (turn_tables[1].episode < 16).sum() > 0
    assert len(outcomes[1].episodes) == 16
    assert (np.diff(turn_tables[1].episode) >= 0).all()
    metrics = outcomes[1].metrics
    assert metrics["buffer_size"] == len(
        [e for o in outcomes[:2] for e in o.episodes if mean_advantage_sizes(o.episodes)[e.group_id] > 0]
    )


def test_a_stored_game_keeps_the_probabilities_of_its_policy():
    """After large updates, the first update of a step is off-policy only if games are replayed."""
    tails = {}
    for name in ("none", "prioritised_replay"):
        config = make_config(replay={"name": name}, learner={"learning_rate": 0.1})
        engine, state = LocalEngine(config), RunState()
        for _ in range(3):
            outcome = play_round(config, engine, Methods.of(config), state)
            state = outcome.state
        tails[name] = outcome.metrics["ppo_clip/ratio_max"]
    assert tails["none"] == pytest.approx(1.0, abs=1e-4)
    assert tails["prioritised_replay"] > 1.01
