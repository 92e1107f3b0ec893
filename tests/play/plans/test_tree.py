"""The tree of fixed shape: its leaves, its boundaries, lines that end early, seats that are not trained."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.plans.base import FRESH, Origin
from sparring.play.plans.tree import tree
from sparring.play.players.random import random
from tests.play.plans.planned import bound, planned, said, walks
from tests.play.plays import specs

STREAM = Stream.from_seed(0)


def test_by_hand():
    game = make_game("needle_chain", options={"length": 3, "needle": 2})
    moves = ["red", "green", "red", "red", "red", "red"]  # games 0 and 1: r r r, g r r
    found, figures, waves = walks(game, bound("tree", branching=(2, 2)), [*moves, *["green"] * 4], group_size=4)
    assert found == ["r r r", "g r r", "r g g", "g g g"]
    assert [len(wave) for wave in waves] == [2, 2]
    assert figures == {"branches": 2.0, "shared_turns": 2 / 12}


@settings(max_examples=30, deadline=None)
@given(branching=st.lists(st.integers(1, 3), min_size=1, max_size=4), segment=st.integers(1, 2), spare=st.integers(0, 2))
def test_every_node_has_as_many_ways_on_as_asked_where_games_are_long_enough(branching, segment, spare):
    """Continuations are told apart by when they were begun: each game has a number of its own as its only action."""
    length, size = (len(branching) - 1) * segment + 1 + spare, math.prod(branching)
    games = []
    while len(games) < size:
        wave = tree(size - len(games), tuple(games), STREAM, branching=tuple(branching), turns_per_segment=segment) or [None]
        assert None not in wave, "games are long enough, so nothing is left over"
        for origin in wave:
            path = games[origin.parent].episode.turns[: origin.turn] if origin != FRESH else ()
            own = said([[1.0]] * length, origin=origin)
            turns = tuple(turn._replace(action=str(len(games))) for turn in own.episode.turns[len(path) :])
            games.append(
                own._replace(
                    episode=type(own.episode)(**{n: getattr(own.episode, n) for n in own.episode.__slots__} | {"turns": path + turns})
                )
            )
    assert len(games) == size
    for boundary, ways in enumerate(branching):
        nodes = Counter()
        for path in {tuple(turn.action for turn in game.episode.turns[: boundary * segment + 1]) for game in games}:
            nodes[path[:-1]] += 1
        assert set(nodes.values()) == {ways}


def test_lines_that_end_early_leave_their_games_to_the_start():
    game = make_game("needle_chain", options={"length": 3, "stop": True})
    moves = ["stop", "red", "red", "red"]  # games 0 and 1: s, r r r
    moves += ["green", "green", "green"]  # games 2 and 3 go on from game 1: at turn 1 and at turn 2
    found, figures, waves = walks(game, bound("tree", branching=(2, 2, 2)), [*moves, *["stop"] * 9], group_size=8)
    assert [len(wave) for wave in waves] == [2, 2, 1, 3]
    assert found[:5] == ["s", "r r r", "r g g", "r r g", "r g s"] and found[5:] == ["s"] * 3
    assert figures["branches"] == 3.0


def test_boundaries_count_trained_turns_and_the_others_replies_are_taken_over():
    asked = specs(make_game("tic_tac_toe"), 4, name="bot", group_size=4)
    half = [type(spec)(**{n: getattr(spec, n) for n in spec.__slots__} | {"trained": (False, True)}) for spec in asked]
    _, _, waves = planned(bound("tree", branching=(2, 2), turns_per_segment=2), half, {"bot": random()}, group_size=4)
    assert [len(spec.prefix) for spec in waves[1]] == [5, 5]  # trained are turns 1, 3, 5, ...: the third is turn 5
    _, _, waves = planned(bound("tree", branching=(2, 2), turns_per_segment=2), asked, {"bot": random()}, group_size=4)
    assert [len(spec.prefix) for spec in waves[1]] == [2, 2]


def test_a_branch_of_a_branch_begins_at_a_later_boundary():
    games = (said([[1.0]] * 4), said([[1.0]] * 4), said([[1.0]] * 4, origin=Origin(0, 1)), said([[1.0]] * 4, origin=Origin(0, 2)))
    found = tree(4, games, STREAM, branching=(2, 2, 2))
    # game 0 has had its turn; game 1 has not (it was finished later, say); of the branches only the one at 1 is above boundary 2
    assert found == [Origin(1, 1), Origin(1, 2), Origin(2, 2)]


@pytest.mark.parametrize(
    ("size", "options", "message"),
    [
        (8, {"branching": [2, 2]}, r"2 \* 2 = 4 games, and rollout.group_size is 8; write rollout.group_size=4"),
        (1, {}, r"2 \* 2 \* 2 = 8 games, and rollout.group_size is 1"),
    ],
)
def test_leaves_must_be_the_games_of_a_group(size, options, message):
    with pytest.raises(ConfigError, match=message):
        registry.bind("rollout.plans", "tree", options)(size, (), STREAM)


@pytest.mark.parametrize("options", [{"branching": []}, {"branching": [2, 0]}, {"branching": [2.5]}, {"turns_per_segment": 0}])
def test_shapes_that_are_none_are_refused(options):
    with pytest.raises(ConfigError, match="tree"):
        registry.bind("rollout.plans", "tree", options)


def test_a_group_of_one_is_one_game():
    assert tree(1, (), STREAM, branching=(1, 1)) == [FRESH]
    assert tree(2, (), STREAM, branching=(2,)) == [FRESH] * 2
