import math
from dataclasses import replace

import pytest

from sparring.core.errors import RolloutError
from sparring.environments.catalogue import make_game
from sparring.play.plans.base import FRESH, Origin
from sparring.play.players.random import random
from sparring.play.players.scripted import scripted
from sparring.play.rollout import play
from tests.play.plans.planned import Reader, bound, moves, planned, walks
from tests.play.plays import learner, specs

PLANS = [("tree", {"branching": (2, 2, 2)}), ("tree", {"branching": (3, 1, 2), "turns_per_segment": 2}), ("branch", {"threshold": 0.9})]
SIZES = [8, 6, 8]
SHORT = {"length": 2, "needle": 1}
CASES = list(zip(PLANS, SIZES, strict=True))
IDS = [f"{name}-{size}" for (name, _), size in CASES]


def waves_of(*answers):
    """Return a plan that answers the same to every group, wave by wave, and a list of what it was asked."""
    asked = []

    def plan(left, games, stream, progress):
        asked.append((left, len(games), stream.key))
        wave = sum(entry[2] == stream.key for entry in asked) - 1
        return answers[wave] if wave < len(answers) else []

    return plan, asked


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "tic_tac_toe"])
def test_without_a_plan_games_are_played_in_one_go_as_they_were(name):
    game = make_game(name, illegal={"rule": "random"})
    asked = specs(game, 12, group_size=4)
    episodes, figures, waves = planned(bound("none"), asked, {"learner": learner(game)[0]}, group_size=4)
    assert episodes == play(asked, {"learner": learner(game)[0]})
    assert (figures, waves) == ({}, [asked])
    assert all(spec is own for spec, own in zip(waves[0], asked, strict=True))


def test_a_tree_by_hand():
    game = make_game("needle_chain", options={"length": 3})
    plan, asked = waves_of([FRESH] * 2, [Origin(1, 1)], [Origin(2, 2), FRESH])
    said = ["red", "green", "red", "red", "green", "red"]  # games 0 and 1, turn by turn: r r g, g r r
    said += ["green", "green"]  # game 2 takes over g: g g g
    said += ["green", "red", "red", "red"]  # game 3 takes over g g, game 4 begins at the start: they go on in turns
    found, figures, waves = walks(game, plan, [*said, "red", "green", "red", "green"], group_size=6)
    assert found[:3] == ["r r g", "g r r", "g g g"]
    assert found[3].startswith("g g") and [len(wave) for wave in waves] == [2, 1, 2, 1]
    assert [(left, games) for left, games, _ in asked] == [(6, 0), (4, 2), (3, 3), (1, 5)]
    assert len({key for *_, key in asked}) == 1
    assert figures == {"branches": 2.0, "shared_turns": 3 / 18}


def test_more_than_is_left_is_cut_and_what_nobody_wants_begins_at_the_start():
    game = make_game("needle_chain", options=SHORT)
    plan, asked = waves_of([FRESH], [Origin(0, 1)] * 9)
    found, figures, waves = walks(game, plan, ["red"] * 9, group_size=3)
    assert (found, [len(wave) for wave in waves], len(asked)) == (["r r"] * 3, [1, 2], 2)
    assert figures == {"branches": 2.0, "shared_turns": 2 / 6}
    plan, _ = waves_of([FRESH])
    _, figures, waves = walks(game, plan, ["red"] * 9, group_size=3)
    assert ([len(wave) for wave in waves], figures) == ([1, 2], {"branches": 0.0, "shared_turns": 0.0})


@pytest.mark.parametrize(("plan", "size"), CASES, ids=IDS)
@pytest.mark.parametrize("name", ["kuhn_poker", "tic_tac_toe"])
def test_how_many_games_are_in_flight_changes_nothing(name, plan, size):
    game = make_game(name, illegal={"rule": "retry"})
    asked = specs(game, 2 * size, group_size=size)
    rounds = [planned(bound(plan[0], **plan[1]), asked, {"learner": learner(game)[0]}, group_size=size, in_flight=number) for number in (3, 1000)]
    assert moves(rounds[0][0]) == moves(rounds[1][0])
    assert rounds[0][1] == rounds[1][1]
    assert [(episode.episode_id, episode.group_id) for episode in rounds[0][0]] == [(spec.episode_id, spec.group_id) for spec in asked]
    assert rounds[0][1]["branches"] > 0


@pytest.mark.parametrize(("plan", "size"), CASES, ids=IDS)
@pytest.mark.parametrize("rule", ["retry", "random"])
def test_what_is_shared_is_the_same_token_by_token_and_chance_goes_on_as_dealt(rule, plan, size):
    """Wherever two games of a group have gone alike, the next thing that either sees is the same: chance included."""
    game = make_game("leduc_poker", illegal={"rule": rule})
    episodes, _, waves = planned(bound(plan[0], **plan[1]), specs(game, 6 * size, group_size=size), {"learner": learner(game)[0]}, group_size=size)
    by_id = {episode.episode_id: episode for episode in episodes}
    branches = [spec for wave in waves for spec in wave if spec.prefix]
    assert len(branches) > 6
    for spec in branches:
        own = by_id[spec.episode_id]
        for before, after in zip(spec.prefix, own.turns, strict=False):
            assert before._replace(rewards={}) == after._replace(rewards={})
        assert len(own.turns) > len(spec.prefix)
    dealt = {}
    for episode in episodes:
        dealt.setdefault(episode.group_id, set()).update(turn.state_key.split("[Public: ")[1][:2] for turn in episode.turns if "[Round 2]" in turn.state_key)
        assert {other.seed for other in episodes if other.group_id == episode.group_id} == {episode.seed}
    assert any(dealt.values()) and all(len(cards) <= 1 for cards in dealt.values())
    assert len({card for cards in dealt.values() for card in cards}) > 1


class Breaking:
    """A game whose states break from the ``first``-th play on, or only in the plays listed."""

    def __init__(self, game, broken):
        self.game, self.broken, self.plays = game, broken, 0

    def __getattr__(self, name):
        return getattr(self.game, name)

    def reset(self, deal):
        state = self.game.reset(deal)
        self.plays += 1
        if self.broken(self.plays):
            state._position = None  # whatever is asked of it raises
        return state


def test_a_group_that_fails_in_a_later_wave_is_left_out_as_a_whole():
    whole = make_game("needle_chain", options=SHORT)
    game = Breaking(whole, lambda play: play == 5)  # wave 2: group 0's third game
    plan, _ = waves_of([FRESH] * 2, [FRESH])
    episodes, _, waves = planned(plan, specs(game, 6, name="r", group_size=3), {"r": random()}, group_size=3, retries=0)
    assert [episode.group_id for episode in episodes] == [1] * 3
    assert [len(wave) for wave in waves] == [4, 2]


def test_that_all_of_a_later_wave_fails_is_an_error_only_where_nothing_is_left():
    whole = make_game("needle_chain", options=SHORT)

    def plan(left, games, stream, progress):
        return [FRESH] * (left if stream.key == first else 2)

    game = Breaking(whole, lambda play: play > 5)  # the first group has played its three games by then
    asked = specs(game, 6, name="r", group_size=3)
    first = asked[0].stream.child("plan").key
    episodes, _, waves = planned(plan, asked, {"r": random()}, group_size=3, retries=0)
    assert ([episode.group_id for episode in episodes], [len(wave) for wave in waves]) == ([0] * 3, [5, 1])
    first = None
    game = Breaking(whole, lambda play: play > 4)
    with pytest.raises(RolloutError, match="failed beyond"):
        planned(plan, specs(game, 6, name="r", group_size=3), {"r": random()}, group_size=3, retries=0)


def test_a_player_that_gives_nothing_back_is_asked_once():
    from sparring.play.plans.base import play_planned
    from sparring.play.rollout import Rollout, RolloutCounts, run_requests

    asked = specs(make_game("kuhn_poker"), 4, group_size=4)
    calls = []
    nothing = Rollout([], RolloutCounts())
    asking = play_planned(bound("none"), asked, group_size=4)
    assert run_requests(asking, lambda due: calls.append(due) or nothing) == (nothing, {})
    assert len(calls) == 1


@pytest.mark.parametrize(("plan", "size"), CASES, ids=IDS)
def test_where_every_first_reply_ends_the_game_a_plan_changes_nothing(plan, size):
    game = make_game("kuhn_poker", illegal={"rule": "forfeit"})
    asked = specs(game, 2 * size, name="mute", group_size=size)
    mute = {"mute": scripted(moves=("nonsense",))}
    episodes, figures, _ = planned(bound(plan[0], **plan[1]), asked, mute, group_size=size)
    assert episodes == play(asked, mute)
    assert figures == {"branches": 0.0, "shared_turns": 0.0}


@pytest.mark.parametrize("plan", [bound("branch", threshold=0.0, entropy_weight=0.0), bound("tree", branching=(8,)), bound("tree", branching=(8, 1))])
def test_where_nothing_branches_the_games_are_those_without_a_plan(plan):
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    asked = specs(game, 16, group_size=8)
    episodes, figures, _ = planned(plan, asked, {"learner": learner(game)[0]}, group_size=8)
    assert moves(episodes) == moves(play(asked, {"learner": learner(game)[0]}))
    assert figures.get("branches", 0.0) == 0.0


def test_blocks_that_share_a_start_are_planned_each_for_itself():
    """Fixed starts make one group of several blocks; each has its own budget."""
    game = make_game("needle_chain", options=SHORT)
    asked = [replace(spec, group_id=0) for spec in specs(game, 8, name="reader", group_size=4)]
    episodes, figures, waves = planned(bound("tree", branching=(2, 2)), asked, {"reader": Reader(["red"] * 99)}, group_size=4)
    assert ([len(wave) for wave in waves], len(episodes), figures["branches"]) == ([4, 4], 8, 2.0)
    assert math.isclose(figures["shared_turns"], 4 / 16)


def test_a_block_that_fails_takes_those_of_its_start_with_it_though_they_were_finished():
    def plan(left, games, stream, progress):
        return [FRESH] * (left if stream.key == first else 1)

    game = Breaking(make_game("needle_chain", options=SHORT), lambda play: play == 5)  # the second block's second wave
    asked = [replace(spec, group_id=spec.group_id // 2) for spec in specs(game, 6, name="r", group_size=2)]
    first = asked[0].stream.child("plan").key
    episodes, _, waves = planned(plan, asked, {"r": random()}, group_size=2, retries=0)
    assert [len(wave) for wave in waves] == [4, 2] and [spec.group_id for spec in waves[0]] == [0, 0, 0, 1]
    assert [episode.group_id for episode in episodes] == [1] * 2


def test_every_branch_draws_on_streams_of_its_own():
    game = make_game("needle_chain", options={"length": 12})
    episodes, _, _ = planned(bound("tree", branching=(1, 16)), specs(game, 16, name="r", group_size=16), {"r": random()}, group_size=16)
    assert len({episode.turns[0].action for episode in episodes}) == 1
    assert len({tuple(turn.action for turn in episode.turns) for episode in episodes}) == 16
