"""Branching by entropy: the rule against its published form, its options, its budget, and hard inputs."""

import math

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
from tests.play.plans.planned import bound, moves, planned, said
from tests.play.plays import learner, specs

STREAM = Stream.from_seed(3)
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
    found = sum(branch(1, (game,), STREAM.child(n), initial=1, entropy_weight=0.4) == [Origin(0, 1)] for n in range(count))
    assert found / count == pytest.approx(0.7, abs=5 * (0.21 / count) ** 0.5)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    weight=st.floats(0, 1),
    penalty=st.sampled_from([0.0, 0.3, 1.0]),
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
    assert branch(6, games, STREAM, initial=2, **ALWAYS) == [Origin(0, 1), Origin(1, 1), Origin(0, 2)]
    assert branch(6, games, STREAM, initial=2, threshold=0.0) == []


def test_a_branch_is_asked_for_its_own_turns_alone():
    games = (said([[1.0]] * 3), said([[1.0]] * 4, origin=Origin(0, 1)), said([[1.0]] * 3, origin=Origin(0, 2)))
    assert branch(6, games, STREAM, initial=1, **ALWAYS) == [Origin(1, 2), Origin(1, 3)]


def test_only_trained_seats_are_looked_at():
    game = said([[1.0]] * 5, trained=(False, True))  # seat 1 has turns 1 and 3
    assert branch(6, (game,), STREAM, initial=1, **ALWAYS) == [Origin(0, 3)]


def test_surprise_is_the_mean_over_the_first_tokens():
    low_first = said([[1.0], [0.0, 9.0]])
    options = {"initial": 1, "threshold": 0.5, "entropy_weight": 10.0}
    assert branch(1, (low_first,), STREAM, first_tokens=1, **options) == []
    assert branch(1, (low_first,), STREAM, first_tokens=2, **options) == [Origin(0, 1)]


def test_the_start_is_the_mean_over_games_that_began_there():
    options = {"entropy_weight": 100.0, "threshold": 0.5, "initial": 2}
    games = (said([[0.0], [1.2]]), said([[2.0], [0.8]]))  # mean 1: the first rises, the second falls
    assert branch(2, games, STREAM, **options) == [Origin(0, 1)]
    later = (*games, said([[50.0], [1.2], [1.2]], origin=Origin(0, 1)))  # a branch's first turn is not one of them
    assert branch(1, later, STREAM, **options) == [Origin(2, 2)]


# -- options


def test_how_many_games_begin_at_the_start():
    assert [len(branch(size, (), STREAM)) for size in (2, 3, 8, 9)] == [1, 2, 4, 5]
    assert [len(branch(8, (), STREAM, initial=number)) for number in (1, 8)] == [1, 8]
    assert branch(6, (said([[1.0]]),) * 2, STREAM, initial=4) == [FRESH] * 2


def test_extra_games_per_branching_turn():
    game = said([[1.0]] * 2)
    assert branch(7, (game,), STREAM, initial=1, extra=3, **ALWAYS) == [Origin(0, 1)] * 3


@pytest.mark.parametrize(
    ("first", "rest", "initial"),
    [(1.0, [1.0, 1.0], 8), (3.0, [1.0, 3.0], round(16 / (1 + math.exp(-0.5)))), (0.0, [100.0], 1), (100.0, [0.0], 16), (1.0, [], 8)],
)
def test_a_balanced_budget_by_hand(first, rest, initial):
    """m = k * sigmoid(beta * (H at the start - mean H after it)), beta 0.5, k 16; the first game counts among them."""
    assert branch(16, (), STREAM, balance=0.5) == [FRESH]
    game = said([[first], *([surprise] for surprise in rest)])
    found = branch(15, (game,), STREAM, balance=0.5, threshold=0.0, entropy_weight=0.0)
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
    assert branch(9, (game,), STREAM, **options) == [Origin(0, 1), Origin(0, 3), Origin(0, 5)]
    child = said([[1.0]] * 6, origin=Origin(0, 1))  # which begins with one branch behind it
    assert [origin for origin in branch(9, (game, child), STREAM, **options) if origin.parent == 1] == [Origin(1, 3), Origin(1, 5)]


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
        branch(size, (), STREAM, **options)


@pytest.mark.parametrize(
    "options", [{"threshold": 1.1}, {"entropy_weight": -1}, {"penalty": 2}, {"initial": 0}, {"extra": 0}, {"first_tokens": 0}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        bound("branch", **options)


def test_games_of_one_turn_without_turns_and_without_tokens_do_not_branch():
    for game in (said([[1.0]]), said([]), said([[], []]), said([[1.0]] * 2, trained=(False, False))):
        assert branch(3, (game,), STREAM, initial=1, **ALWAYS) == []
    halting = said([[1.0], [], [1.0]])  # the second turn got no reply: its conversation had outgrown the model
    assert branch(3, (halting,), STREAM, initial=1, **ALWAYS) == [Origin(0, 2)]


def test_in_play_the_group_is_filled_and_every_game_begins_where_it_was_asked_to():
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    asked = specs(game, 24, group_size=8)
    episodes, figures, waves = planned(bound("branch"), asked, {"learner": learner(game)[0]}, group_size=8)
    assert len(episodes) == 24 and len(waves[0]) == 12 and 2.0 < figures["branches"] <= 4.0
    again, _, _ = planned(bound("branch"), asked, {"learner": learner(game)[0]}, group_size=8)
    assert again == episodes
    plain, _, _ = planned(bound("none"), asked, {"learner": learner(game)[0]}, group_size=8)
    assert moves(e for e in episodes if e.episode_id % 8 < 4) == moves(e for e in plain if e.episode_id % 8 < 4)
