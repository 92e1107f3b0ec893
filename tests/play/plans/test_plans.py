import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.plans.base import FRESH, Origin
from sparring.play.plans.branch import _branches, branch
from sparring.play.plans.tree import tree
from sparring.play.players.random import random
from tests.play.plans.planned import bound, game_of, moves, planned, walks
from tests.play.plays import learner, specs

STREAM_OF_BRANCH = Stream.from_seed(3)
ALWAYS = {"threshold": 1.0}
GRID = (np.arange(4000) + 0.5) / 4000


@given(rise=st.floats(-2, 2), threshold=st.floats(0.01, 0.99))
def test_the_chance_to_branch_is_the_threshold_and_the_weighted_rise(rise, threshold):
    share = np.mean([_branches(draw, rise, threshold, 1.0) for draw in GRID[::4]])
    assert share == pytest.approx(min(max(threshold + rise, 0.0), 1.0), abs=2e-3)


@given(draw=st.floats(0, 1, exclude_max=True), rise=st.floats(-2, 2), run=st.integers(0, 30))
def test_with_the_penalty_it_is_the_form_of_the_release_on_the_mirrored_draw(draw, rise, run):
    """AEPO's release: copy if clip((u + w * dH) * max(0, 1 - 0.05 * l)) >= 0.5; the draw u there is 1 - u here."""
    factor = max(0.0, 1.0 - 0.05 * run)
    released = ((1.0 - draw) + rise) * factor
    if abs(released - 0.5) > 1e-9:
        assert _branches(draw, rise, 0.5, factor) == (released >= 0.5)


def test_the_chance_in_whole_calls():
    """The turn looked at has a surprise of 1.5 nats, the first one of 1: with weight 0.4 the chance is 0.5 + 0.4 * 0.5."""
    game = game_of([[1.0], [1.0, 2.0]])
    count = 4000
    branches = sum(
        branch(1, (game,), STREAM_OF_BRANCH.child(n), initial=1, entropy_weight=0.4) == [Origin(0, 1)]
        for n in range(count)
    )
    assert branches / count == pytest.approx(0.7, abs=5 * (0.21 / count) ** 0.5)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    weight=st.floats(0, 1),
    penalty=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_whole_groups_against_a_plain_walk(seed, lengths, weight, penalty):
    generator, stream = np.random.Generator(np.random.Philox(seed)), Stream.from_seed(seed)
    games = [game_of([[float(generator.exponential())] for _ in range(length)]) for length in lengths]
    options = {"initial": len(games), "entropy_weight": weight, "penalty": penalty}
    start = np.mean([surprise_of(game, 0) for game in games])
    row = {}
    walked, budget = 0, 8
    while budget > 0:
        expected = []
        for number in range(walked, len(games)):
            game = games[number]
            run = row[game.origin] if game.origin != FRESH else 0
            for place in range(max(1, game.origin.turn + (game.origin != FRESH)), len(game.episode.turns)):
                u = stream.child(number).uniform(place)
                keep = (1 - (u - weight * (surprise_of(game, place) - start))) * max(0.0, 1 - penalty * run)
                run = run + 1 if min(max(1 - keep, 0), 1) <= 0.5 else 0
                if run:
                    row[Origin(number, place)] = run
                    expected.append((place, number))
        walked = len(games)
        expected = [Origin(number, place) for place, number in sorted(expected)]
        origins = branch(budget, tuple(games), stream, **options)
        assert origins == expected
        if not origins:
            break
        for origin in origins[:budget]:
            new = [[surprise_of(games[origin.parent], place)] for place in range(origin.turn)]
            new += [[float(generator.exponential())] for _ in range(int(generator.integers(1, 4)))]
            games.append(game_of(new, origin=origin))
        budget -= len(origins[:budget])


def surprise_of(game, place):
    return -game.episode.turns[place].segments[0].logprobs[0]


def test_by_hand_deeper_turns_wait_and_first_turns_are_not_looked_at():
    games = (game_of([[1.0]] * 3), game_of([[1.0]] * 2))
    assert branch(6, games, STREAM_OF_BRANCH, initial=2, **ALWAYS) == [Origin(0, 1), Origin(1, 1), Origin(0, 2)]
    assert branch(6, games, STREAM_OF_BRANCH, initial=2, threshold=0.0) == []


def test_a_branch_is_asked_for_its_own_turns_alone():
    games = (game_of([[1.0]] * 3), game_of([[1.0]] * 4, origin=Origin(0, 1)), game_of([[1.0]] * 3, origin=Origin(0, 2)))
    assert branch(6, games, STREAM_OF_BRANCH, initial=1, **ALWAYS) == [Origin(1, 2), Origin(1, 3)]


def test_only_trained_seats_are_looked_at():
    game = game_of([[1.0]] * 5, trained=(False, True))  # seat 1 has turns 1 and 3
    assert branch(6, (game,), STREAM_OF_BRANCH, initial=1, **ALWAYS) == [Origin(0, 3)]


def test_surprise_is_the_mean_over_the_first_tokens():
    low_first = game_of([[1.0], [0.0, 9.0]])
    options = {"initial": 1, "threshold": 0.5, "entropy_weight": 10.0}
    assert branch(1, (low_first,), STREAM_OF_BRANCH, first_tokens=1, **options) == []
    assert branch(1, (low_first,), STREAM_OF_BRANCH, first_tokens=2, **options) == [Origin(0, 1)]


def test_the_start_is_the_mean_over_games_that_began_there():
    options = {"entropy_weight": 100.0, "threshold": 0.5, "initial": 2}
    games = (game_of([[0.0], [1.2]]), game_of([[2.0], [0.8]]))  # mean 1: the first rises, the second falls
    assert branch(2, games, STREAM_OF_BRANCH, **options) == [Origin(0, 1)]
    later = (*games, game_of([[50.0], [1.2], [1.2]], origin=Origin(0, 1)))  # a branch's first turn is not one of them
    assert branch(1, later, STREAM_OF_BRANCH, **options) == [Origin(2, 2)]


def test_how_many_games_begin_at_the_start():
    assert [len(branch(size, (), STREAM_OF_BRANCH)) for size in (2, 3, 8, 9)] == [1, 2, 4, 5]
    assert [len(branch(8, (), STREAM_OF_BRANCH, initial=number)) for number in (1, 8)] == [1, 8]
    assert branch(6, (game_of([[1.0]]),) * 2, STREAM_OF_BRANCH, initial=4) == [FRESH] * 2


def test_extra_games_per_branching_turn():
    game = game_of([[1.0]] * 2)
    assert branch(7, (game,), STREAM_OF_BRANCH, initial=1, extra=3, **ALWAYS) == [Origin(0, 1)] * 3


@pytest.mark.parametrize(
    ("first", "rest", "initial"),
    [
        (1.0, [1.0, 1.0], 8),
        (3.0, [1.0, 3.0], round(16 / (1 + math.exp(-0.5)))),
        (0.0, [100.0], 1),
        (100.0, [0.0], 16),
        (1.0, [], 8),
    ],
)
def test_a_balanced_budget_by_hand(first, rest, initial):
    """m = k * sigmoid(beta * (H at the start - mean H after it)), beta 0.5, k 16; the first game counts among them."""
    assert branch(16, (), STREAM_OF_BRANCH, balance=0.5) == [FRESH]
    game = game_of([[first], *([surprise] for surprise in rest)])
    origins = branch(15, (game,), STREAM_OF_BRANCH, balance=0.5, threshold=0.0, entropy_weight=0.0)
    assert origins == [FRESH] * (initial - 1)


def test_a_penalty_of_one_never_branches_twice_in_a_row_along_a_line():
    game = game_of([[1.0]] * 6)
    options = {"initial": 1, "penalty": 1.0, "threshold": 0.99, "entropy_weight": 0.0}
    assert branch(9, (game,), STREAM_OF_BRANCH, **options) == [Origin(0, 1), Origin(0, 3), Origin(0, 5)]
    child = game_of([[1.0]] * 6, origin=Origin(0, 1))  # which begins with one branch behind it
    assert [origin for origin in branch(9, (game, child), STREAM_OF_BRANCH, **options) if origin.parent == 1] == [
        Origin(1, 3),
        Origin(1, 5),
    ]


def test_games_of_one_turn_without_turns_and_without_tokens_do_not_branch():
    for game in (game_of([[1.0]]), game_of([]), game_of([[], []]), game_of([[1.0]] * 2, trained=(False, False))):
        assert branch(3, (game,), STREAM_OF_BRANCH, initial=1, **ALWAYS) == []
    halting = game_of([[1.0], [], [1.0]])  # the second turn got no reply: its conversation had outgrown the model
    assert branch(3, (halting,), STREAM_OF_BRANCH, initial=1, **ALWAYS) == [Origin(0, 2)]


def test_in_play_the_group_is_filled_and_every_game_begins_where_it_was_asked_to():
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    due = specs(game, 24, group_size=8)
    episodes, figures, waves = planned(bound("branch"), due, {"learner": learner(game)[0]}, group_size=8)
    assert len(episodes) == 24 and len(waves[0]) == 12 and 2.0 < figures["branches"] <= 4.0
    again, _, _ = planned(bound("branch"), due, {"learner": learner(game)[0]}, group_size=8)
    assert again == episodes
    plain, _, _ = planned(bound("none"), due, {"learner": learner(game)[0]}, group_size=8)
    assert moves(e for e in episodes if e.episode_id % 8 < 4) == moves(e for e in plain if e.episode_id % 8 < 4)


STREAM_OF_TREE = Stream.from_seed(0)


def test_by_hand():
    game = make_game("needle_chain", options={"length": 3, "needle": 2})
    moves = ["red", "green", "red", "red", "red", "red"]  # games 0 and 1: r r r, g r r
    lines, figures, waves = walks(game, bound("tree", branching=(2, 2)), [*moves, *["green"] * 4], group_size=4)
    assert lines == ["r r r", "g r r", "r g g", "g g g"]
    assert [len(wave) for wave in waves] == [2, 2]
    assert figures == {"branches": 2.0, "shared_turns": 2 / 12}


@settings(max_examples=30, deadline=None)
@given(
    branching=st.lists(st.integers(1, 3), min_size=1, max_size=4), segment=st.integers(1, 2), spare=st.integers(0, 2)
)
def test_every_node_has_as_many_ways_on_as_asked_where_games_are_long_enough(branching, segment, spare):
    """Continuations are told apart by when they were begun: each game has a number of its own as its only action."""
    length, size = (len(branching) - 1) * segment + 1 + spare, math.prod(branching)
    games = []
    while len(games) < size:
        wave = tree(
            size - len(games), tuple(games), STREAM_OF_TREE, branching=tuple(branching), turns_per_segment=segment
        ) or [None]
        assert None not in wave, "games are long enough, so nothing is left over"
        for origin in wave:
            path = games[origin.parent].episode.turns[: origin.turn] if origin != FRESH else ()
            play = game_of([[1.0]] * length, origin=origin)
            turns = tuple(turn._replace(action=str(len(games))) for turn in play.episode.turns[len(path) :])
            games.append(
                play._replace(
                    episode=type(play.episode)(
                        **{n: getattr(play.episode, n) for n in play.episode.__slots__} | {"turns": path + turns}
                    )
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
    lines, figures, waves = walks(game, bound("tree", branching=(2, 2, 2)), [*moves, *["stop"] * 9], group_size=8)
    assert [len(wave) for wave in waves] == [2, 2, 1, 3]
    assert lines[:5] == ["s", "r r r", "r g g", "r r g", "r g s"] and lines[5:] == ["s"] * 3
    assert figures["branches"] == 3.0


def test_boundaries_count_trained_turns_and_the_others_replies_are_taken_over():
    due = specs(make_game("tic_tac_toe"), 4, name="bot", group_size=4)
    half = [type(spec)(**{n: getattr(spec, n) for n in spec.__slots__} | {"trained": (False, True)}) for spec in due]
    _, _, waves = planned(bound("tree", branching=(2, 2), turns_per_segment=2), half, {"bot": random()}, group_size=4)
    assert [len(spec.prefix) for spec in waves[1]] == [5, 5]  # trained are turns 1, 3, 5, ...: the third is turn 5
    _, _, waves = planned(bound("tree", branching=(2, 2), turns_per_segment=2), due, {"bot": random()}, group_size=4)
    assert [len(spec.prefix) for spec in waves[1]] == [2, 2]


def test_a_branch_of_a_branch_begins_at_a_later_boundary():
    games = (
        game_of([[1.0]] * 4),
        game_of([[1.0]] * 4),
        game_of([[1.0]] * 4, origin=Origin(0, 1)),
        game_of([[1.0]] * 4, origin=Origin(0, 2)),
    )
    origins = tree(4, games, STREAM_OF_TREE, branching=(2, 2, 2))
    # game 0 has had its turn; game 1 has not (it was finished later, say); of the branches only the one at 1 is above boundary 2
    assert origins == [Origin(1, 1), Origin(1, 2), Origin(2, 2)]


def test_a_group_of_one_is_one_game():
    assert tree(1, (), STREAM_OF_TREE, branching=(1, 1)) == [FRESH]
    assert tree(2, (), STREAM_OF_TREE, branching=(2,)) == [FRESH] * 2
