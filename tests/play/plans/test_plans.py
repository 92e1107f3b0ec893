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
from tests.play.plans.planned import episode_of_surprises, plan_of, play_by_plan, turns_of_episodes, walk_by_plan
from tests.play.plays import make_specs, tiny_learner

STREAM_OF_BRANCH = Stream.from_seed(3)
ALWAYS_BRANCH = {"threshold": 1.0}
UNIFORM_GRID = (np.arange(4000) + 0.5) / 4000


@given(rise=st.floats(-2, 2), threshold=st.floats(0.01, 0.99))
def test_the_branching_probability_is_the_threshold_plus_the_weighted_rise(rise, threshold):
    share_of_branches = np.mean([_is_chosen(draw, rise, threshold, 1.0) for draw in UNIFORM_GRID[::4]])
    assert share_of_branches == pytest.approx(min(max(threshold + rise, 0.0), 1.0), abs=2e-3)


@given(draw=st.floats(0, 1, exclude_max=True), rise=st.floats(-2, 2), branches_in_a_row=st.integers(0, 30))
def test_branching_with_a_penalty_equals_the_authors_code_of_aepo(draw, rise, branches_in_a_row):
    """The released code of AEPO branches if clip((u + w * dH) * max(0, 1 - 0.05 * l)) >= 0.5, with 1 - u for our draw u."""
    factor = max(0.0, 1.0 - 0.05 * branches_in_a_row)
    authors_value = ((1.0 - draw) + rise) * factor
    if abs(authors_value - 0.5) > 1e-9:
        assert _is_chosen(draw, rise, 0.5, factor) == (authors_value >= 0.5)


def test_the_branching_probability_of_a_plan_by_hand():
    """Mean surprise 1.5 at turn 1 and 1 at the first turn: with weight 0.4 the probability is 0.5 + 0.4 * 0.5 = 0.7."""
    game = episode_of_surprises([[1.0], [1.0, 2.0]])
    num_tries = 4000
    num_branches = sum(
        branch(1, (game,), STREAM_OF_BRANCH.child(index), initial=1, entropy_weight=0.4) == [Origin(0, 1)]
        for index in range(num_tries)
    )
    assert num_branches / num_tries == pytest.approx(0.7, abs=5 * (0.21 / num_tries) ** 0.5)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    weight=st.floats(0, 1),
    penalty=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_whole_groups_equal_a_plain_implementation(seed, lengths, weight, penalty):
    generator, stream = np.random.Generator(np.random.Philox(seed)), Stream.from_seed(seed)
    games = [episode_of_surprises([[float(generator.exponential())] for _ in range(length)]) for length in lengths]
    options = {"initial": len(games), "entropy_weight": weight, "penalty": penalty}
    first_mean = np.mean([first_surprise(game, 0) for game in games])
    branches_in_a_row = {}
    num_visited, budget = 0, 8
    while budget > 0:
        expected = []
        for index in range(num_visited, len(games)):
            game = games[index]
            num_in_a_row = branches_in_a_row[game.origin] if game.origin != FRESH else 0
            for turn_index in range(max(1, game.origin.turn + (game.origin != FRESH)), len(game.episode.turns)):
                uniform_draw = stream.child(index).uniform(turn_index)
                stay_probability = (
                    1 - (uniform_draw - weight * (first_surprise(game, turn_index) - first_mean))
                ) * max(0.0, 1 - penalty * num_in_a_row)
                num_in_a_row = num_in_a_row + 1 if min(max(1 - stay_probability, 0), 1) <= 0.5 else 0
                if num_in_a_row:
                    branches_in_a_row[Origin(index, turn_index)] = num_in_a_row
                    expected.append((turn_index, index))
        num_visited = len(games)
        expected = [Origin(index, turn_index) for turn_index, index in sorted(expected)]
        origins = branch(budget, tuple(games), stream, **options)
        assert origins == expected
        if not origins:
            break
        for origin in origins[:budget]:
            surprises = [[first_surprise(games[origin.parent], turn_index)] for turn_index in range(origin.turn)]
            surprises += [[float(generator.exponential())] for _ in range(int(generator.integers(1, 4)))]
            games.append(episode_of_surprises(surprises, origin=origin))
        budget -= len(origins[:budget])


def first_surprise(game, turn_index):
    return -game.episode.turns[turn_index].segments[0].logprobs[0]


def test_branches_are_ordered_by_depth_and_exclude_first_turns():
    games = (episode_of_surprises([[1.0]] * 3), episode_of_surprises([[1.0]] * 2))
    assert branch(6, games, STREAM_OF_BRANCH, initial=2, **ALWAYS_BRANCH) == [Origin(0, 1), Origin(1, 1), Origin(0, 2)]
    assert branch(6, games, STREAM_OF_BRANCH, initial=2, threshold=0.0) == []


def test_a_branch_branches_only_at_its_own_turns():
    games = (
        episode_of_surprises([[1.0]] * 3),
        episode_of_surprises([[1.0]] * 4, origin=Origin(0, 1)),
        episode_of_surprises([[1.0]] * 3, origin=Origin(0, 2)),
    )
    assert branch(6, games, STREAM_OF_BRANCH, initial=1, **ALWAYS_BRANCH) == [Origin(1, 2), Origin(1, 3)]


def test_only_turns_of_trained_seats_branch():
    game = episode_of_surprises([[1.0]] * 5, trained=(False, True))  # seat 1 has turns 1 and 3
    assert branch(6, (game,), STREAM_OF_BRANCH, initial=1, **ALWAYS_BRANCH) == [Origin(0, 3)]


def test_surprise_is_the_mean_over_the_first_tokens():
    low_first = episode_of_surprises([[1.0], [0.0, 9.0]])
    options = {"initial": 1, "threshold": 0.5, "entropy_weight": 10.0}
    assert branch(1, (low_first,), STREAM_OF_BRANCH, first_tokens=1, **options) == []
    assert branch(1, (low_first,), STREAM_OF_BRANCH, first_tokens=2, **options) == [Origin(0, 1)]


def test_the_first_surprise_is_the_mean_over_games_from_the_start():
    options = {"entropy_weight": 100.0, "threshold": 0.5, "initial": 2}
    # mean first surprise 1: game 0 rises to 1.2, game 1 falls to 0.8
    games = (
        episode_of_surprises([[0.0], [1.2]]),
        episode_of_surprises([[2.0], [0.8]]),
    )
    assert branch(2, games, STREAM_OF_BRANCH, **options) == [Origin(0, 1)]
    # the mean excludes the first turn of a branch
    games_with_branch = (
        *games,
        episode_of_surprises([[50.0], [1.2], [1.2]], origin=Origin(0, 1)),
    )
    assert branch(1, games_with_branch, STREAM_OF_BRANCH, **options) == [Origin(2, 2)]


def test_the_number_of_games_from_the_start():
    assert [len(branch(size, (), STREAM_OF_BRANCH)) for size in (2, 3, 8, 9)] == [1, 2, 4, 5]
    assert [len(branch(8, (), STREAM_OF_BRANCH, initial=number)) for number in (1, 8)] == [1, 8]
    assert branch(6, (episode_of_surprises([[1.0]]),) * 2, STREAM_OF_BRANCH, initial=4) == [FRESH] * 2


def test_extra_games_per_branching_turn():
    game = episode_of_surprises([[1.0]] * 2)
    assert branch(7, (game,), STREAM_OF_BRANCH, initial=1, extra=3, **ALWAYS_BRANCH) == [Origin(0, 1)] * 3


@pytest.mark.parametrize(
    ("first_surprise_value", "later_surprises", "num_initial"),
    [
        (1.0, [1.0, 1.0], 8),
        (3.0, [1.0, 3.0], round(16 / (1 + math.exp(-0.5)))),
        (0.0, [100.0], 1),
        (100.0, [0.0], 16),
        (1.0, [], 8),
    ],
)
def test_a_balanced_budget_by_hand(first_surprise_value, later_surprises, num_initial):
    """m = k * sigmoid(beta * (first H - mean later H)) games begin at the start, with beta 0.5, k 16; the first is included."""
    assert branch(16, (), STREAM_OF_BRANCH, balance=0.5) == [FRESH]
    game = episode_of_surprises([[first_surprise_value], *([surprise] for surprise in later_surprises)])
    origins = branch(15, (game,), STREAM_OF_BRANCH, balance=0.5, threshold=0.0, entropy_weight=0.0)
    assert origins == [FRESH] * (num_initial - 1)


def test_a_penalty_of_1_never_branches_at_two_successive_turns():
    game = episode_of_surprises([[1.0]] * 6)
    options = {"initial": 1, "penalty": 1.0, "threshold": 0.99, "entropy_weight": 0.0}
    assert branch(9, (game,), STREAM_OF_BRANCH, **options) == [Origin(0, 1), Origin(0, 3), Origin(0, 5)]
    child = episode_of_surprises([[1.0]] * 6, origin=Origin(0, 1))  # its branch at turn 1 counts as one in a row
    assert [origin for origin in branch(9, (game, child), STREAM_OF_BRANCH, **options) if origin.parent == 1] == [
        Origin(1, 3),
        Origin(1, 5),
    ]


def test_games_without_later_trained_tokens_do_not_branch():
    for game in (
        episode_of_surprises([[1.0]]),
        episode_of_surprises([]),
        episode_of_surprises([[], []]),
        episode_of_surprises([[1.0]] * 2, trained=(False, False)),
    ):
        assert branch(3, (game,), STREAM_OF_BRANCH, initial=1, **ALWAYS_BRANCH) == []
    # the second turn has no reply, as its conversation exceeded the context
    episode_without_reply = episode_of_surprises([[1.0], [], [1.0]])
    assert branch(3, (episode_without_reply,), STREAM_OF_BRANCH, initial=1, **ALWAYS_BRANCH) == [Origin(0, 2)]


def test_a_plan_fills_the_group_and_is_deterministic():
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    specs = make_specs(game, 24, group_size=8)
    episodes, metrics, waves = play_by_plan(plan_of("branch"), specs, {"learner": tiny_learner(game)[0]}, group_size=8)
    assert len(episodes) == 24 and len(waves[0]) == 12 and 2.0 < metrics["branches"] <= 4.0
    episodes_again, _, _ = play_by_plan(plan_of("branch"), specs, {"learner": tiny_learner(game)[0]}, group_size=8)
    assert episodes_again == episodes
    episodes_without_plan, _, _ = play_by_plan(plan_of("none"), specs, {"learner": tiny_learner(game)[0]}, group_size=8)
    assert turns_of_episodes(episode for episode in episodes if episode.episode_id % 8 < 4) == turns_of_episodes(
        episode for episode in episodes_without_plan if episode.episode_id % 8 < 4
    )


STREAM_OF_TREE = Stream.from_seed(0)


def test_a_tree_of_two_by_two_by_hand():
    game = make_game("needle_chain", options={"length": 3, "needle": 2})
    moves = ["red", "green", "red", "red", "red", "red"]  # games 0 and 1 are r r r and g r r
    lines, metrics, waves = walk_by_plan(
        game, plan_of("tree", branching=(2, 2)), [*moves, *["green"] * 4], group_size=4
    )
    assert lines == ["r r r", "g r r", "r g g", "g g g"]
    assert [len(wave) for wave in waves] == [2, 2]
    assert metrics == {"branches": 2.0, "shared_turns": 2 / 12}


@settings(max_examples=30, deadline=None)
@given(
    branching=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    segment=st.integers(1, 2),
    num_extra_turns=st.integers(0, 2),
)
def test_every_node_of_the_tree_has_its_number_of_children(branching, segment, num_extra_turns):
    """The only action of a game is its number, so that continuations can be distinguished."""
    length, group_size = (len(branching) - 1) * segment + 1 + num_extra_turns, math.prod(branching)
    games = []
    while len(games) < group_size:
        wave = tree(
            group_size - len(games), tuple(games), STREAM_OF_TREE, branching=tuple(branching), turns_per_segment=segment
        ) or [None]
        assert None not in wave, "games are long enough, so nothing is left over"
        for origin in wave:
            path = games[origin.parent].episode.turns[: origin.turn] if origin != FRESH else ()
            planned = episode_of_surprises([[1.0]] * length, origin=origin)
            turns = tuple(turn._replace(action=str(len(games))) for turn in planned.episode.turns[len(path) :])
            games.append(
                planned._replace(
                    episode=type(planned.episode)(
                        **{name: getattr(planned.episode, name) for name in planned.episode.__slots__}
                        | {"turns": path + turns}
                    )
                )
            )
    assert len(games) == group_size
    for boundary, num_children in enumerate(branching):
        nodes = Counter()
        for path in {tuple(turn.action for turn in game.episode.turns[: boundary * segment + 1]) for game in games}:
            nodes[path[:-1]] += 1
        assert set(nodes.values()) == {num_children}


def test_games_that_end_early_are_replaced_by_games_from_the_start():
    game = make_game("needle_chain", options={"length": 3, "stop": True})
    moves = ["stop", "red", "red", "red"]  # games 0 and 1 are s and r r r
    moves += ["green", "green", "green"]  # games 2 and 3 continue game 1 from turn 1 and from turn 2
    walks, metrics, waves = walk_by_plan(
        game, plan_of("tree", branching=(2, 2, 2)), [*moves, *["stop"] * 9], group_size=8
    )
    assert [len(wave) for wave in waves] == [2, 2, 1, 3]
    assert walks[:5] == ["s", "r r r", "r g g", "r r g", "r g s"] and walks[5:] == ["s"] * 3
    assert metrics["branches"] == 3.0


def test_boundaries_count_only_trained_turns():
    specs = make_specs(make_game("tic_tac_toe"), 4, name="bot", group_size=4)
    second_seat_trained = [
        type(spec)(**{name: getattr(spec, name) for name in spec.__slots__} | {"trained": (False, True)})
        for spec in specs
    ]
    _, _, waves = play_by_plan(
        plan_of("tree", branching=(2, 2), turns_per_segment=2), second_seat_trained, {"bot": random()}, group_size=4
    )
    assert [len(spec.prefix) for spec in waves[1]] == [5, 5]  # trained turns are 1, 3, 5; the third is turn 5
    _, _, waves = play_by_plan(
        plan_of("tree", branching=(2, 2), turns_per_segment=2), specs, {"bot": random()}, group_size=4
    )
    assert [len(spec.prefix) for spec in waves[1]] == [2, 2]


def test_a_branch_may_branch_again_at_a_later_boundary():
    games = (
        episode_of_surprises([[1.0]] * 4),
        episode_of_surprises([[1.0]] * 4),
        episode_of_surprises([[1.0]] * 4, origin=Origin(0, 1)),
        episode_of_surprises([[1.0]] * 4, origin=Origin(0, 2)),
    )
    origins = tree(4, games, STREAM_OF_TREE, branching=(2, 2, 2))
    # game 0 already has branches and game 1 has none; of the branches only the one at turn 1 may branch again, at turn 2
    assert origins == [Origin(1, 1), Origin(1, 2), Origin(2, 2)]


def test_a_group_of_one_is_one_game():
    assert tree(1, (), STREAM_OF_TREE, branching=(1, 1)) == [FRESH]
    assert tree(2, (), STREAM_OF_TREE, branching=(2,)) == [FRESH] * 2
