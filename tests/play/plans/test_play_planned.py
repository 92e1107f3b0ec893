import math
from dataclasses import replace

import pytest

from sparring.core.errors import RolloutError
from sparring.environments.catalogue import make_game
from sparring.play.plans.base import FRESH, Origin, play_planned
from sparring.play.players.random import random
from sparring.play.rollout import Rollout, RolloutCounts, play, run_requests
from tests.play.plans.planned import ScriptedWalker, plan_of, play_by_plan, turns_of_episodes, walk_by_plan
from tests.play.plays import make_specs, tiny_learner

PLANS = [
    ("tree", {"branching": (2, 2, 2)}),
    ("tree", {"branching": (3, 1, 2), "turns_per_segment": 2}),
    ("branch", {"threshold": 0.9}),
]
GROUP_SIZES = [8, 6, 8]
SHORT_CHAIN = {"length": 2, "needle": 1}
CASES = list(zip(PLANS, GROUP_SIZES, strict=True))
IDS = [f"{name}-{size}" for (name, _), size in CASES]


def plan_with_waves(*waves):
    """Return a plan with these answers for the waves of every group, and the list of its calls."""
    calls = []

    def plan(budget, games, stream, progress):
        calls.append((budget, len(games), stream.key))
        index = sum(earlier_call[2] == stream.key for earlier_call in calls) - 1
        return waves[index] if index < len(waves) else []

    return plan, calls


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "tic_tac_toe"])
def test_without_a_plan_all_games_are_played_in_one_wave(name):
    game = make_game(name, illegal={"rule": "random"})
    specs = make_specs(game, 12, group_size=4)
    episodes, metrics, waves = play_by_plan(plan_of("none"), specs, {"learner": tiny_learner(game)[0]}, group_size=4)
    assert episodes == play(specs, {"learner": tiny_learner(game)[0]})
    assert (metrics, waves) == ({}, [specs])
    assert all(spec is spec_played for spec, spec_played in zip(waves[0], specs, strict=True))


def test_a_tree_by_hand():
    game = make_game("needle_chain", options={"length": 3})
    plan, calls = plan_with_waves([FRESH] * 2, [Origin(1, 1)], [Origin(2, 2), FRESH])
    colours = ["red", "green", "red", "red", "green", "red"]  # games 0 and 1, alternating turns: r r g and g r r
    colours += ["green", "green"]  # game 2 continues after g: g g g
    colours += ["green", "red", "red", "red"]  # game 3 continues after g g and game 4 begins at the start, alternating
    lines, metrics, waves = walk_by_plan(game, plan, [*colours, "red", "green", "red", "green"], group_size=6)
    assert lines[:3] == ["r r g", "g r r", "g g g"]
    assert lines[3].startswith("g g") and [len(wave) for wave in waves] == [2, 1, 2, 1]
    assert [(budget, games) for budget, games, _ in calls] == [(6, 0), (4, 2), (3, 3), (1, 5)]
    assert len({key for *_, key in calls}) == 1
    assert metrics == {"branches": 2.0, "shared_turns": 3 / 18}


def test_surplus_branches_are_dropped_and_missing_ones_begin_at_the_start():
    game = make_game("needle_chain", options=SHORT_CHAIN)
    plan, calls = plan_with_waves([FRESH], [Origin(0, 1)] * 9)
    lines, metrics, waves = walk_by_plan(game, plan, ["red"] * 9, group_size=3)
    assert (lines, [len(wave) for wave in waves], len(calls)) == (["r r"] * 3, [1, 2], 2)
    assert metrics == {"branches": 2.0, "shared_turns": 2 / 6}
    plan, _ = plan_with_waves([FRESH])
    _, metrics, waves = walk_by_plan(game, plan, ["red"] * 9, group_size=3)
    assert ([len(wave) for wave in waves], metrics) == ([1, 2], {"branches": 0.0, "shared_turns": 0.0})


@pytest.mark.parametrize(("plan", "size"), CASES, ids=IDS)
@pytest.mark.parametrize("name", ["kuhn_poker", "tic_tac_toe"])
def test_the_number_of_games_in_flight_changes_nothing(name, plan, size):
    game = make_game(name, illegal={"rule": "retry"})
    specs = make_specs(game, 2 * size, group_size=size)
    results = [
        play_by_plan(
            plan_of(plan[0], **plan[1]), specs, {"learner": tiny_learner(game)[0]}, group_size=size, in_flight=in_flight
        )
        for in_flight in (3, 1000)
    ]
    assert turns_of_episodes(results[0][0]) == turns_of_episodes(results[1][0])
    assert results[0][1] == results[1][1]
    assert [(episode.episode_id, episode.group_id) for episode in results[0][0]] == [
        (spec.episode_id, spec.group_id) for spec in specs
    ]
    assert results[0][1]["branches"] > 0


@pytest.mark.parametrize(("plan", "size"), CASES, ids=IDS)
@pytest.mark.parametrize("rule", ["retry", "random"])
def test_shared_turns_are_equal_token_by_token_and_chance_agrees(rule, plan, size):
    """Games of a group whose turns so far are equal see equal next observations, also after chance."""
    game = make_game("leduc_poker", illegal={"rule": rule})
    episodes, _, waves = play_by_plan(
        plan_of(plan[0], **plan[1]),
        make_specs(game, 6 * size, group_size=size),
        {"learner": tiny_learner(game)[0]},
        group_size=size,
    )
    by_id = {episode.episode_id: episode for episode in episodes}
    branches = [spec for wave in waves for spec in wave if spec.prefix]
    assert len(branches) > 6
    for spec in branches:
        episode_of_spec = by_id[spec.episode_id]
        for prefix_turn, episode_turn in zip(spec.prefix, episode_of_spec.turns, strict=False):
            assert prefix_turn._replace(rewards={}) == episode_turn._replace(rewards={})
        assert len(episode_of_spec.turns) > len(spec.prefix)
    public_cards = {}
    for episode in episodes:
        public_cards.setdefault(episode.group_id, set()).update(
            turn.state_key.split("[Public: ")[1][:2] for turn in episode.turns if "[Round 2]" in turn.state_key
        )
        assert {group_member.seed for group_member in episodes if group_member.group_id == episode.group_id} == {
            episode.seed
        }
    assert any(public_cards.values()) and all(len(cards) <= 1 for cards in public_cards.values())
    assert len({card for cards in public_cards.values() for card in cards}) > 1


class BreakingRules:
    def __init__(self, game, rule):
        self.game, self.broken, self.plays = game, rule, 0

    def __getattr__(self, name):
        return getattr(self.game, name)

    def reset(self, deal):
        state = self.game.reset(deal)
        self.plays += 1
        if self.broken(self.plays):
            state._position = None  # every call of this state raises
        return state


def test_a_failed_wave_is_an_error_only_if_no_episode_is_left():
    rules = make_game("needle_chain", options=SHORT_CHAIN)

    def plan(budget, games, stream, progress):
        return [FRESH] * (budget if stream.key == first_stream else 2)

    game = BreakingRules(rules, lambda number: number > 5)  # the first group has completed its three games before
    specs = make_specs(game, 6, name="r", group_size=3)
    first_stream = specs[0].stream.child("plan").key
    episodes, _, waves = play_by_plan(plan, specs, {"r": random()}, group_size=3, retries=0)
    assert ([episode.group_id for episode in episodes], [len(wave) for wave in waves]) == ([0] * 3, [5, 1])
    first_stream = None
    game = BreakingRules(rules, lambda number: number > 4)
    with pytest.raises(RolloutError, match="failed beyond"):
        play_by_plan(plan, make_specs(game, 6, name="r", group_size=3), {"r": random()}, group_size=3, retries=0)


def test_a_plan_ends_after_a_wave_without_episodes():
    specs = make_specs(make_game("kuhn_poker"), 4, group_size=4)
    calls = []
    empty_rollout = Rollout([], RolloutCounts())
    requests = play_planned(plan_of("none"), specs, group_size=4)
    assert run_requests(requests, lambda due: calls.append(due) or empty_rollout) == (empty_rollout, {})
    assert len(calls) == 1


@pytest.mark.parametrize(
    "plan",
    [
        plan_of("branch", threshold=0.0, entropy_weight=0.0),
        plan_of("tree", branching=(8,)),
        plan_of("tree", branching=(8, 1)),
    ],
)
def test_a_plan_without_branches_gives_the_games_without_a_plan(plan):
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    specs = make_specs(game, 16, group_size=8)
    episodes, metrics, _ = play_by_plan(plan, specs, {"learner": tiny_learner(game)[0]}, group_size=8)
    assert turns_of_episodes(episodes) == turns_of_episodes(play(specs, {"learner": tiny_learner(game)[0]}))
    assert metrics.get("branches", 0.0) == 0.0


def test_blocks_with_one_initial_state_are_planned_separately():
    """With rollout.starts a group has several blocks. Each block has a budget of games."""
    game = make_game("needle_chain", options=SHORT_CHAIN)
    specs = [replace(spec, group_id=0) for spec in make_specs(game, 8, name="reader", group_size=4)]
    episodes, metrics, waves = play_by_plan(
        plan_of("tree", branching=(2, 2)), specs, {"reader": ScriptedWalker(["red"] * 99)}, group_size=4
    )
    assert ([len(wave) for wave in waves], len(episodes), metrics["branches"]) == ([4, 4], 8, 2.0)
    assert math.isclose(metrics["shared_turns"], 4 / 16)


def test_a_failed_block_drops_all_blocks_of_its_group():
    def plan(budget, games, stream, progress):
        return [FRESH] * (budget if stream.key == first_stream else 1)

    # play 5 is in the second wave of the second block
    game = BreakingRules(make_game("needle_chain", options=SHORT_CHAIN), lambda play: play == 5)
    specs = [replace(spec, group_id=spec.group_id // 2) for spec in make_specs(game, 6, name="r", group_size=2)]
    first_stream = specs[0].stream.child("plan").key
    episodes, _, waves = play_by_plan(plan, specs, {"r": random()}, group_size=2, retries=0)
    assert [len(wave) for wave in waves] == [4, 2] and [spec.group_id for spec in waves[0]] == [0, 0, 0, 1]
    assert [episode.group_id for episode in episodes] == [1] * 2


def test_every_branch_has_its_own_random_streams():
    game = make_game("needle_chain", options={"length": 12})
    episodes, _, _ = play_by_plan(
        plan_of("tree", branching=(1, 16)),
        make_specs(game, 16, name="r", group_size=16),
        {"r": random()},
        group_size=16,
    )
    assert len({episode.turns[0].action for episode in episodes}) == 1
    assert len({tuple(turn.action for turn in episode.turns) for episode in episodes}) == 16
