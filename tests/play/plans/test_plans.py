import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.plans.base import FRESH, Origin
from sparring.play.plans.branch import _is_chosen, branch
from sparring.play.plans.tree import tree
from sparring.play.players.random import random
from tests.play.plans.planned import game_of_surprises, moves, plan_of, play_by_plan, walk_by_plan
from tests.play.plays import learner, specs

STREAM_OF_BRANCH = Stream.from_seed(3)
ALWAYS = {"threshold": 1.0}
GRID = (np.arange(4000) + 0.5) / 4000


@given(rise=st.floats(-2, 2), threshold=st.floats(0.01, 0.99))
def test_the_branching_probability_is_the_threshold_plus_the_weighted_rise(rise, threshold):
    share = np.mean([_is_chosen(draw, rise, threshold, 1.0) for draw in GRID[::4]])
    assert share == pytest.approx(min(max(threshold + rise, 0.0), 1.0), abs=2e-3)


@given(draw=st.floats(0, 1, exclude_max=True), rise=st.floats(-2, 2), run=st.integers(0, 30))
def test_branching_with_a_penalty_equals_the_released_code_of_aepo(draw, rise, run):
    """The released code of AEPO copies if clip((u + w * dH) * max(0, 1 - 0.05 * l)) >= 0.5; its draw u is our 1 - u."""
    factor = max(0.0, 1.0 - 0.05 * run)
    released_value = ((1.0 - draw) + rise) * factor
    if abs(released_value - 0.5) > 1e-9:
        assert _is_chosen(draw, rise, 0.5, factor) == (released_value >= 0.5)


def test_the_branching_probability_of_a_plan_by_hand():
    """Mean surprise 1.5 at turn 1 and 1 at the first turn: with weight 0.4 the probability is 0.5 + 0.4 * 0.5 = 0.7."""
    game = game_of_surprises([[1.0], [1.0, 2.0]])
    count = 4000
    branches = sum(
        branch(1, (game,), STREAM_OF_BRANCH.child(index), initial=1, entropy_weight=0.4) == [Origin(0, 1)]
        for index in range(count)
    )
    assert branches / count == pytest.approx(0.7, abs=5 * (0.21 / count) ** 0.5)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    weight=st.floats(0, 1),
    penalty=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_whole_groups_equal_a_plain_implementation(seed, lengths, weight, penalty):
    generator, stream = np.random.Generator(np.random.Philox(seed)), Stream.from_seed(seed)
    games = [game_of_surprises([[float(generator.exponential())] for _ in range(length)]) for length in lengths]
    options = {"initial": len(games), "entropy_weight": weight, "penalty": penalty}
    start = np.mean([first_surprise(game, 0) for game in games])
    branches_in_a_row = {}
    num_visited, budget = 0, 8
    while budget > 0:
        expected = []
        for number in range(num_visited, len(games)):
            game = games[number]
            run = branches_in_a_row[game.origin] if game.origin != FRESH else 0
            for turn_index in range(max(1, game.origin.turn + (game.origin != FRESH)), len(game.episode.turns)):
                uniform_draw = stream.child(number).uniform(turn_index)
                keep = (1 - (uniform_draw - weight * (first_surprise(game, turn_index) - start))) * max(
                    0.0, 1 - penalty * run
                )
                run = run + 1 if min(max(1 - keep, 0), 1) <= 0.5 else 0
                if run:
                    branches_in_a_row[Origin(number, turn_index)] = run
                    expected.append((turn_index, number))
        num_visited = len(games)
        expected = [Origin(number, turn_index) for turn_index, number in sorted(expected)]
        origins = branch(budget, tuple(games), stream, **options)
        assert origins == expected
        if not origins:
            break
        for origin in origins[:budget]:
            surprises = [[first_surprise(games[origin.parent], turn_index)] for turn_index in range(origin.turn)]
            surprises += [[float(generator.exponential())] for _ in range(int(generator.integers(1, 4)))]
            games.append(game_of_surprises(surprises, origin=origin))
        budget -= len(origins[:budget])


def first_surprise(game, turn_index):
    return -game.episode.turns[turn_index].segments[0].logprobs[0]


def test_branches_are_ordered_by_depth_and_exclude_first_turns():
    games = (game_of_surprises([[1.0]] * 3), game_of_surprises([[1.0]] * 2))
    assert branch(6, games, STREAM_OF_BRANCH, initial=2, **ALWAYS) == [Origin(0, 1), Origin(1, 1), Origin(0, 2)]
    assert branch(6, games, STREAM_OF_BRANCH, initial=2, threshold=0.0) == []


def test_a_branch_branches_only_at_its_own_turns():
    games = (
        game_of_surprises([[1.0]] * 3),
        game_of_surprises([[1.0]] * 4, origin=Origin(0, 1)),
        game_of_surprises([[1.0]] * 3, origin=Origin(0, 2)),
    )
    assert branch(6, games, STREAM_OF_BRANCH, initial=1, **ALWAYS) == [Origin(1, 2), Origin(1, 3)]


def test_only_turns_of_trained_seats_branch():
    game = game_of_surprises([[1.0]] * 5, trained=(False, True))  # seat 1 has turns 1 and 3
    assert branch(6, (game,), STREAM_OF_BRANCH, initial=1, **ALWAYS) == [Origin(0, 3)]


def test_surprise_is_the_mean_over_the_first_tokens():
    low_first = game_of_surprises([[1.0], [0.0, 9.0]])
    options = {"initial": 1, "threshold": 0.5, "entropy_weight": 10.0}
    assert branch(1, (low_first,), STREAM_OF_BRANCH, first_tokens=1, **options) == []
    assert branch(1, (low_first,), STREAM_OF_BRANCH, first_tokens=2, **options) == [Origin(0, 1)]


def test_the_first_surprise_is_the_mean_over_games_from_the_start():
    options = {"entropy_weight": 100.0, "threshold": 0.5, "initial": 2}
    # mean first surprise 1: game 0 rises to 1.2, game 1 falls to 0.8
    games = (
        game_of_surprises([[0.0], [1.2]]),
        game_of_surprises([[2.0], [0.8]]),
    )
    assert branch(2, games, STREAM_OF_BRANCH, **options) == [Origin(0, 1)]
    # the first turn of a branch does not count in the mean
    games_with_branch = (
        *games,
        game_of_surprises([[50.0], [1.2], [1.2]], origin=Origin(0, 1)),
    )
    assert branch(1, games_with_branch, STREAM_OF_BRANCH, **options) == [Origin(2, 2)]


def test_the_number_of_games_from_the_start():
    assert [len(branch(size, (), STREAM_OF_BRANCH)) for size in (2, 3, 8, 9)] == [1, 2, 4, 5]
    assert [len(branch(8, (), STREAM_OF_BRANCH, initial=number)) for number in (1, 8)] == [1, 8]
    assert branch(6, (game_of_surprises([[1.0]]),) * 2, STREAM_OF_BRANCH, initial=4) == [FRESH] * 2


def test_extra_games_per_branching_turn():
    game = game_of_surprises([[1.0]] * 2)
    assert branch(7, (game,), STREAM_OF_BRANCH, initial=1, extra=3, **ALWAYS) == [Origin(0, 1)] * 3


@pytest.mark.parametrize(
    ("first_surprise_value", "later_surprises", "initial"),
    [
        (1.0, [1.0, 1.0], 8),
        (3.0, [1.0, 3.0], round(16 / (1 + math.exp(-0.5)))),
        (0.0, [100.0], 1),
        (100.0, [0.0], 16),
        (1.0, [], 8),
    ],
)
def test_a_balanced_budget_by_hand(first_surprise_value, later_surprises, initial):
    """m = k * sigmoid(beta * (first H - mean later H)) games begin at the start, with beta 0.5, k 16; the first is included."""
    assert branch(16, (), STREAM_OF_BRANCH, balance=0.5) == [FRESH]
    game = game_of_surprises([[first_surprise_value], *([surprise] for surprise in later_surprises)])
    origins = branch(15, (game,), STREAM_OF_BRANCH, balance=0.5, threshold=0.0, entropy_weight=0.0)
    assert origins == [FRESH] * (initial - 1)


def test_a_penalty_of_1_never_branches_at_two_successive_turns():
    game = game_of_surprises([[1.0]] * 6)
    options = {"initial": 1, "penalty": 1.0, "threshold": 0.99, "entropy_weight": 0.0}
    assert branch(9, (game,), STREAM_OF_BRANCH, **options) == [Origin(0, 1), Origin(0, 3), Origin(0, 5)]
    child = game_of_surprises([[1.0]] * 6, origin=Origin(0, 1))  # its branch at turn 1 counts as one in a row
    assert [origin for origin in branch(9, (game, child), STREAM_OF_BRANCH, **options) if origin.parent == 1] == [
        Origin(1, 3),
        Origin(1, 5),
    ]


def test_games_without_later_trained_tokens_do_not_branch():
    for game in (
        game_of_surprises([[1.0]]),
        game_of_surprises([]),
        game_of_surprises([[], []]),
        game_of_surprises([[1.0]] * 2, trained=(False, False)),
    ):
        assert branch(3, (game,), STREAM_OF_BRANCH, initial=1, **ALWAYS) == []
    # the second turn has no reply, as its conversation exceeded the context
    halting = game_of_surprises([[1.0], [], [1.0]])
    assert branch(3, (halting,), STREAM_OF_BRANCH, initial=1, **ALWAYS) == [Origin(0, 2)]


def test_a_plan_fills_the_group_and_is_deterministic():
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    due = specs(game, 24, group_size=8)
    episodes, figures, waves = play_by_plan(plan_of("branch"), due, {"learner": learner(game)[0]}, group_size=8)
    assert len(episodes) == 24 and len(waves[0]) == 12 and 2.0 < figures["branches"] <= 4.0
    episodes_again, _, _ = play_by_plan(plan_of("branch"), due, {"learner": learner(game)[0]}, group_size=8)
    assert episodes_again == episodes
    episodes_without_plan, _, _ = play_by_plan(plan_of("none"), due, {"learner": learner(game)[0]}, group_size=8)
    assert moves(episode for episode in episodes if episode.episode_id % 8 < 4) == moves(
        episode for episode in episodes_without_plan if episode.episode_id % 8 < 4
    )


STREAM_OF_TREE = Stream.from_seed(0)


def test_a_tree_of_two_by_two_by_hand():
    game = make_game("needle_chain", options={"length": 3, "needle": 2})
    moves = ["red", "green", "red", "red", "red", "red"]  # games 0 and 1 are r r r and g r r
    lines, figures, waves = walk_by_plan(
        game, plan_of("tree", branching=(2, 2)), [*moves, *["green"] * 4], group_size=4
    )
    assert lines == ["r r r", "g r r", "r g g", "g g g"]
    assert [len(wave) for wave in waves] == [2, 2]
    assert figures == {"branches": 2.0, "shared_turns": 2 / 12}


@settings(max_examples=30, deadline=None)
@given(
    branching=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    segment=st.integers(1, 2),
    num_extra_turns=st.integers(0, 2),
)
def test_every_node_of_the_tree_has_its_number_of_children(branching, segment, num_extra_turns):
    """Each game has its own number as its only action, so that continuations can be distinguished."""
    length, size = (len(branching) - 1) * segment + 1 + num_extra_turns, math.prod(branching)
    games = []
    while len(games) < size:
        wave = tree(
            size - len(games), tuple(games), STREAM_OF_TREE, branching=tuple(branching), turns_per_segment=segment
        ) or [None]
        assert None not in wave, "games are long enough, so nothing is left over"
        for origin in wave:
            path = games[origin.parent].episode.turns[: origin.turn] if origin != FRESH else ()
            play = game_of_surprises([[1.0]] * length, origin=origin)
            turns = tuple(turn._replace(action=str(len(games))) for turn in play.episode.turns[len(path) :])
            games.append(
                play._replace(
                    episode=type(play.episode)(
                        **{name: getattr(play.episode, name) for name in play.episode.__slots__}
                        | {"turns": path + turns}
                    )
                )
            )
    assert len(games) == size
    for boundary, num_children in enumerate(branching):
        nodes = Counter()
        for path in {tuple(turn.action for turn in game.episode.turns[: boundary * segment + 1]) for game in games}:
            nodes[path[:-1]] += 1
        assert set(nodes.values()) == {num_children}


def test_games_that_end_early_are_replaced_by_games_from_the_start():
    game = make_game("needle_chain", options={"length": 3, "stop": True})
    moves = ["stop", "red", "red", "red"]  # games 0 and 1 are s and r r r
    moves += ["green", "green", "green"]  # games 2 and 3 continue game 1 from turn 1 and from turn 2
    walks, figures, waves = walk_by_plan(
        game, plan_of("tree", branching=(2, 2, 2)), [*moves, *["stop"] * 9], group_size=8
    )
    assert [len(wave) for wave in waves] == [2, 2, 1, 3]
    assert walks[:5] == ["s", "r r r", "r g g", "r r g", "r g s"] and walks[5:] == ["s"] * 3
    assert figures["branches"] == 3.0


def test_boundaries_count_only_trained_turns():
    due = specs(make_game("tic_tac_toe"), 4, name="bot", group_size=4)
    second_seat_trained = [
        type(spec)(**{name: getattr(spec, name) for name in spec.__slots__} | {"trained": (False, True)})
        for spec in due
    ]
    _, _, waves = play_by_plan(
        plan_of("tree", branching=(2, 2), turns_per_segment=2), second_seat_trained, {"bot": random()}, group_size=4
    )
    assert [len(spec.prefix) for spec in waves[1]] == [5, 5]  # trained turns are 1, 3, 5; the third is turn 5
    _, _, waves = play_by_plan(
        plan_of("tree", branching=(2, 2), turns_per_segment=2), due, {"bot": random()}, group_size=4
    )
    assert [len(spec.prefix) for spec in waves[1]] == [2, 2]


def test_a_branch_may_branch_again_at_a_later_boundary():
    games = (
        game_of_surprises([[1.0]] * 4),
        game_of_surprises([[1.0]] * 4),
        game_of_surprises([[1.0]] * 4, origin=Origin(0, 1)),
        game_of_surprises([[1.0]] * 4, origin=Origin(0, 2)),
    )
    origins = tree(4, games, STREAM_OF_TREE, branching=(2, 2, 2))
    # game 0 already has branches and game 1 has none; of the branches only the one at turn 1 may branch again, at turn 2
    assert origins == [Origin(1, 1), Origin(1, 2), Origin(2, 2)]


def test_a_group_of_one_is_one_game():
    assert tree(1, (), STREAM_OF_TREE, branching=(1, 1)) == [FRESH]
    assert tree(2, (), STREAM_OF_TREE, branching=(2,)) == [FRESH] * 2
