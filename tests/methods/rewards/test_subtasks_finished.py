"""A lead is paid for calls that ended well: by hand in both environments, and for nothing that came to nothing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.rewards.spawn import spawn
from sparring.methods.rewards.subtasks_finished import subtasks_finished
from sparring.play.players.scheduler import scheduler
from sparring.play.players.searcher import searcher
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec

WIDE = {"items": 4, "columns": 1, "workers": 4, "turns": 2, "waves": 1, "worlds": 50}


def played(name, options, agent, number=0):
    game, root = make_game(name, options=options), Stream.from_seed(5)
    seats, trained = ("agent",) * game.num_seats, (True,) * game.num_seats
    spec = EpisodeSpec(
        game=game, episode_id=0, group_id=0, deal=root.child(number), stream=root.child("play").child(number), seats=seats, trained=trained
    )
    (episode,) = play([spec], {"agent": agent})
    return game, episode


def paid(name, options, agent, number=0):
    game, episode = played(name, options, agent, number)
    (value,) = [one for one in subtasks_finished(episode, game) if one is not None]
    return value


def test_by_hand_in_a_chain():
    """Three sub-tasks one after the other, with steps enough: of two workers in each wave one has nothing to do."""
    chain = {"tasks": 3, "workers": 4, "shape": "chain", "slack": 10.0, "worlds": 50}
    assert paid("dag_search", chain, scheduler()) == 1.0
    assert paid("dag_search", chain, scheduler(width=2)) == pytest.approx(1 / 2)
    assert paid("dag_search", chain, scheduler(width=4)) == pytest.approx(1 / 4)
    assert paid("dag_search", chain, scheduler(slips=1.0)) == 0.0


def test_by_hand_in_a_table():
    """Each of the workers that are called has turns for one of four rows; a wrong cell, or none, is nothing."""
    assert paid("wide_search", WIDE, searcher(width=2)) == paid("wide_search", WIDE, searcher(width=4)) == 1.0
    assert paid("wide_search", WIDE, searcher(slips=1.0)) == paid("wide_search", WIDE, searcher(quits=1.0)) == 0.0


@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 1000), width=st.integers(0, 4), slips=st.sampled_from([0.0, 0.3, 1.0]), name=st.sampled_from(["wide_search", "dag_search"]))
def test_a_share_and_all_of_it_only_without_faults(number, width, slips, name):
    options = WIDE if name == "wide_search" else {"tasks": 5, "workers": 4, "worlds": 50}
    made = searcher if name == "wide_search" else scheduler
    game, episode = played(name, options, made(width=width, slips=slips), number)
    for reward in (spawn, subtasks_finished):
        (value,) = [one for one in reward(episode, game) if one is not None]
        assert 0.0 <= value <= 1.0
    if slips == 1.0:
        assert value == 0.0


def test_a_play_that_was_cut_is_not_paid():
    game, episode = played("dag_search", {"tasks": 3, "workers": 2, "worlds": 50}, scheduler())
    cut = replace(episode, turns=episode.turns[:2], cut=True)
    assert set(subtasks_finished(cut, game)) == set(spawn(cut, game)) == {None}
