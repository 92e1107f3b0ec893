import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.plans.base import FRESH, Origin
from sparring.play.plans.branch import _branches, branch
from sparring.play.plans.tree import tree
from sparring.play.players.random import random
from tests.play.plans.planned import bound, moves, planned, said, walks
from tests.play.plays import learner, specs

STREAM_OF_BRANCH = Stream.from_seed(3)
ALWAYS = {"threshold": 1.0}
GRID = (np.arange(4000) + 0.5) / 4000


# -- the rule


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
    game = said([[1.0], [1.0, 2.0]])
    count = 4000
    found = sum(branch(1, (game,), STREAM_OF_BRANCH.child(n), initial=1, entropy_weight=0.4) == [Origin(0, 1)] for n in range(count))
    assert found / count == pytest.approx(0.7, abs=5 * (0.21 / count) ** 0.5)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), lengths=st.lists(st.integers(1, 5), min_size=2, max_size=4), weight=st.floats(0, 1), penalty=st.sampled_from([0.0, 0.3, 1.0])
)
def test_whole_groups_against_a_plain_walk(seed, lengths, weight, penalty):
    """The published rule written out, wave by wave, on random surprises."""
    generator, stream = np.random.Generator(np.random.Philox(seed)), Stream.from_seed(seed)
    games = [said([[float(generator.exponential())] for _ in range(length)]) for length in lengths]
    options = {"initial": len(games), "entropy_weight": weight, "penalty": penalty}
    start = np.mean([surprise_of(game, 0) for game in games])
    row = {}
    walked, left = 0, 8
    while left > 0:
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
        found = branch(left, tuple(games), stream, **options)
        assert found == expected
        if not found:
            break
        for origin in found[:left]:
            new = [[surprise_of(games[origin.parent], place)] for place in range(origin.turn)]
            new += [[float(generator.exponential())] for _ in range(int(generator.integers(1, 4)))]
            games.append(said(new, origin=origin))
        left -= len(found[:left])


def surprise_of(game, place):
    return -game.episode.turns[place].segments[0].logprobs[0]


# -- what is looked at


def test_by_hand_deeper_turns_wait_and_first_turns_are_not_looked_at():
    games = (said([[1.0]] * 3), said([[1.0]] * 2))
    assert branch(6, games, STREAM_OF_BRANCH, initial=2, **ALWAYS) == [Origin(0, 1), Origin(1, 1), Origin(0, 2)]
    assert branch(6, games, STREAM_OF_BRANCH, initial=2, threshold=0.0) == []


def test_a_branch_is_asked_for_its_own_turns_alone():
    games = (said([[1.0]] * 3), said([[1.0]] * 4, origin=Origin(0, 1)), said([[1.0]] * 3, origin=Origin(0, 2)))
    assert branch(6, games, STREAM_OF_BRANCH, initial=1, **ALWAYS) == [Origin(1, 2), Origin(1, 3)]


def test_only_trained_seats_are_looked_at():
    game = said([[1.0]] * 5, trained=(False, True))  # seat 1 has turns 1 and 3
    assert branch(6, (game,), STREAM_OF_BRANCH, initial=1, **ALWAYS) == [Origin(0, 3)]


def test_surprise_is_the_mean_over_the_first_tokens():
    low_first = said([[1.0], [0.0, 9.0]])
    options = {"initial": 1, "threshold": 0.5, "entropy_weight": 10.0}
    assert branch(1, (low_first,), STREAM_OF_BRANCH, first_tokens=1, **options) == []
    assert branch(1, (low_first,), STREAM_OF_BRANCH, first_tokens=2, **options) == [Origin(0, 1)]


def test_the_start_is_the_mean_over_games_that_began_there():
    options = {"entropy_weight": 100.0, "threshold": 0.5, "initial": 2}
    games = (said([[0.0], [1.2]]), said([[2.0], [0.8]]))  # mean 1: the first rises, the second falls
    assert branch(2, games, STREAM_OF_BRANCH, **options) == [Origin(0, 1)]
    later = (*games, said([[50.0], [1.2], [1.2]], origin=Origin(0, 1)))  # a branch's first turn is not one of them
    assert branch(1, later, STREAM_OF_BRANCH, **options) == [Origin(2, 2)]


# -- options


def test_how_many_games_begin_at_the_start():
    assert [len(branch(size, (), STREAM_OF_BRANCH)) for size in (2, 3, 8, 9)] == [1, 2, 4, 5]
    assert [len(branch(8, (), STREAM_OF_BRANCH, initial=number)) for number in (1, 8)] == [1, 8]
    assert branch(6, (said([[1.0]]),) * 2, STREAM_OF_BRANCH, initial=4) == [FRESH] * 2


def test_extra_games_per_branching_turn():
    game = said([[1.0]] * 2)
    assert branch(7, (game,), STREAM_OF_BRANCH, initial=1, extra=3, **ALWAYS) == [Origin(0, 1)] * 3


@pytest.mark.parametrize(
    ("first", "rest", "initial"),
    [(1.0, [1.0, 1.0], 8), (3.0, [1.0, 3.0], round(16 / (1 + math.exp(-0.5)))), (0.0, [100.0], 1), (100.0, [0.0], 16), (1.0, [], 8)],
)
def test_a_balanced_budget_by_hand(first, rest, initial):
    """m = k * sigmoid(beta * (H at the start - mean H after it)), beta 0.5, k 16; the first game counts among them."""
    assert branch(16, (), STREAM_OF_BRANCH, balance=0.5) == [FRESH]
    game = said([[first], *([surprise] for surprise in rest)])
    found = branch(15, (game,), STREAM_OF_BRANCH, balance=0.5, threshold=0.0, entropy_weight=0.0)
    assert found == [FRESH] * (initial - 1)


def test_the_preset_sets_the_releases_numbers():
    assert registry.bind("rollout.plans", "branch", preset="aepo").options | {} == {
        **registry.bind("rollout.plans", "branch").options,
        "penalty": 0.05,
        "balance": 0.5,
    }


def test_a_penalty_of_one_never_branches_twice_in_a_row_along_a_line():
    game = said([[1.0]] * 6)
    options = {"initial": 1, "penalty": 1.0, "threshold": 0.99, "entropy_weight": 0.0}
    assert branch(9, (game,), STREAM_OF_BRANCH, **options) == [Origin(0, 1), Origin(0, 3), Origin(0, 5)]
    child = said([[1.0]] * 6, origin=Origin(0, 1))  # which begins with one branch behind it
    assert [origin for origin in branch(9, (game, child), STREAM_OF_BRANCH, **options) if origin.parent == 1] == [Origin(1, 3), Origin(1, 5)]


# -- hard inputs


@pytest.mark.parametrize(
    ("size", "options", "message"),
    [
        (1, {}, "rollout.group_size=1 leaves no games to branch; write rollout.group_size=8"),
        (4, {"initial": 5}, "initial=5 games from the start are more than rollout.group_size=4"),
        (4, {"initial": 2, "balance": 0.5}, "leave one out"),
    ],
)
def test_what_does_not_fit_the_group_is_refused(size, options, message):
    with pytest.raises(ConfigError, match=message):
        branch(size, (), STREAM_OF_BRANCH, **options)


@pytest.mark.parametrize("options", [{"threshold": 1.1}, {"entropy_weight": -1}, {"penalty": 2}, {"initial": 0}, {"extra": 0}, {"first_tokens": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        bound("branch", **options)


def test_games_of_one_turn_without_turns_and_without_tokens_do_not_branch():
    for game in (said([[1.0]]), said([]), said([[], []]), said([[1.0]] * 2, trained=(False, False))):
        assert branch(3, (game,), STREAM_OF_BRANCH, initial=1, **ALWAYS) == []
    halting = said([[1.0], [], [1.0]])  # the second turn got no reply: its conversation had outgrown the model
    assert branch(3, (halting,), STREAM_OF_BRANCH, initial=1, **ALWAYS) == [Origin(0, 2)]


def test_in_play_the_group_is_filled_and_every_game_begins_where_it_was_asked_to():
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    asked = specs(game, 24, group_size=8)
    episodes, figures, waves = planned(bound("branch"), asked, {"learner": learner(game)[0]}, group_size=8)
    assert len(episodes) == 24 and len(waves[0]) == 12 and 2.0 < figures["branches"] <= 4.0
    again, _, _ = planned(bound("branch"), asked, {"learner": learner(game)[0]}, group_size=8)
    assert again == episodes
    plain, _, _ = planned(bound("none"), asked, {"learner": learner(game)[0]}, group_size=8)
    assert moves(e for e in episodes if e.episode_id % 8 < 4) == moves(e for e in plain if e.episode_id % 8 < 4)


STREAM_OF_TREE = Stream.from_seed(0)


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
        wave = tree(size - len(games), tuple(games), STREAM_OF_TREE, branching=tuple(branching), turns_per_segment=segment) or [None]
        assert None not in wave, "games are long enough, so nothing is left over"
        for origin in wave:
            path = games[origin.parent].episode.turns[: origin.turn] if origin != FRESH else ()
            own = said([[1.0]] * length, origin=origin)
            turns = tuple(turn._replace(action=str(len(games))) for turn in own.episode.turns[len(path) :])
            games.append(own._replace(episode=type(own.episode)(**{n: getattr(own.episode, n) for n in own.episode.__slots__} | {"turns": path + turns})))
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
    found = tree(4, games, STREAM_OF_TREE, branching=(2, 2, 2))
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
        registry.bind("rollout.plans", "tree", options)(size, (), STREAM_OF_TREE)


@pytest.mark.parametrize("options", [{"branching": []}, {"branching": [2, 0]}, {"branching": [2.5]}, {"turns_per_segment": 0}])
def test_shapes_that_are_none_are_refused(options):
    with pytest.raises(ConfigError, match="tree"):
        registry.bind("rollout.plans", "tree", options)


def test_a_group_of_one_is_one_game():
    assert tree(1, (), STREAM_OF_TREE, branching=(1, 1)) == [FRESH]
    assert tree(2, (), STREAM_OF_TREE, branching=(2,)) == [FRESH] * 2
