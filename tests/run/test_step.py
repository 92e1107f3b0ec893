"""One training step: selection, refills, the turns that credit receives, failures, and the rollout metrics."""

import dataclasses
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import RolloutError
from sparring.core.records import Episode, Segment, Turn, bot
from sparring.core.rng import Stream
from sparring.engine import protocol
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.play.players.random import RandomAgent
from sparring.play.rollout import Rollout, RolloutCounts, play
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import turn_table
from sparring.run import step as step_module
from sparring.run.evaluation import Evaluator
from sparring.run.state import RunState
from sparring.run.step import (
    Methods,
    _first_groups,
    _mean_metrics,
    environment_metrics,
    group_metrics,
    play_round,
    rollout_metrics,
)
from tests.cases import every_case
from tests.estimators import required_rollout

LOSSES = [{"name": "ppo_clip"}, {"name": "value_loss"}]


def step_config(**changes):
    defaults = {
        "environments": [{"name": "kuhn_poker"}],
        "steps": 4,
        "threads": 1,
        "rollout": {"games_per_step": 16, "group_size": 4},
    }
    return resolve({**defaults, "model": {"hidden_size": 8, "layers": 1, "heads": 1}, **changes})


def methods_with(config, **changes):
    original = Methods.of(config)
    names = ("matchmaker", "curriculum", "selection", "credit")
    return Methods(**{name: changes.get(name, getattr(original, name)) for name in names})


def copy_weights(engine):
    return {name: tensor.clone() for name, tensor in engine.model.tensors().items()}


@every_case("name", registry.names("credit"), parts=2)
def test_a_step_with_no_selected_turns_changes_no_weights(name):
    critic = "critic" in registry.required_services(registry.bind("credit", name))
    parts = getattr(registry.load("credit", name).module, "REQUIRES", {}).get("components", ())
    credit = {"name": name, **dict.fromkeys(parts, "game")}
    rollout = {"games_per_step": 16, "group_size": 4, **required_rollout(name)}
    rewards = [{"name": "format_bonus"}] if "candidates" in rollout else []
    config = step_config(credit=credit, losses=LOSSES if critic else LOSSES[:1], rollout=rollout, rewards=rewards)
    engine = LocalEngine(config)
    weights_before = copy_weights(engine)
    outcome = play_round(
        config,
        engine,
        methods_with(config, selection=lambda turns, stream, progress: np.zeros(len(turns.reward), dtype=bool)),
        RunState(),
    )
    assert all((tensor == weights_before[key]).all() for key, tensor in copy_weights(engine).items())
    assert (outcome.metrics["kept_share"], outcome.metrics["advantage_std"], len(outcome.episodes)) == (0.0, 0.0, 16)


def test_the_estimator_gets_selected_turns_and_metrics_use_all():
    config, turns_seen = step_config(), []
    engine, original_methods = LocalEngine(config), Methods.of(config)

    def selection(turns, stream, progress):
        return turns.episode < 6

    def credit(turns, state, progress):
        turns_seen.append((set(turns.episode.tolist()), dict(state), progress))
        return original_methods.credit["main"](turns, {"count": state.get("count", 0) + 1}, progress=progress)

    state = RunState()
    for _ in range(2):
        outcome = play_round(config, engine, methods_with(config, selection=selection, credit={"main": credit}), state)
        state = outcome.state
    assert turns_seen[0] == (set(range(6)), {}, 0.0)
    assert turns_seen[1] == (set(), {"count": 1}, 0.25)  # the episodes of step 1 are numbered from 16
    assert (state.step, state.owners["credit"]) == (2, {"count": 2})
    assert [episode.episode_id for episode in outcome.episodes] == list(range(16, 32))


def test_a_step_in_which_every_game_fails_is_an_error(monkeypatch):
    config = step_config()
    engine = LocalEngine(config)
    monkeypatch.setattr(engine, "play", lambda specs, judging: Rollout([], RolloutCounts()))
    with pytest.raises(RolloutError, match="the log says why"):
        play_round(config, engine, Methods.of(config), RunState())


def test_failed_games_are_counted_and_their_groups_dropped(monkeypatch):
    config = step_config(rollout={"games_per_step": 16, "group_size": 4, "retries": 1})
    engine = LocalEngine(config)
    game, _ = engine.environments[0]
    original_reset, calls = game.reset, [0]

    def reset_or_fail(*args, **kwargs):
        state = original_reset(*args, **kwargs)
        calls[0] += 1
        if calls[0] == 3 or calls[0] > 16:  # game 3 fails once; every start after the first 16 also fails
            state._position = None
        return state

    monkeypatch.setattr(type(game), "reset", lambda self, *args, **kwargs: reset_or_fail(*args, **kwargs))
    outcome = play_round(config, engine, Methods.of(config), RunState())
    assert (outcome.metrics["retried_games"], outcome.metrics["dropped_groups"]) == (1.0, 1.0)
    assert [episode.group_id for episode in outcome.episodes] == [1] * 4 + [2] * 4 + [3] * 4


def test_games_that_selection_drops_are_replaced():
    config = step_config(
        rollout={"games_per_step": 16, "group_size": 4, "refills": 3},
        selection={"name": "equal_groups", "policy": "drop"},
    )
    engine, stream_keys = LocalEngine(config), []

    def drop_half(turns, stream, progress):
        stream_keys.append(stream.key)
        return (turns.group % 4 < 2) if len(stream_keys) < 3 else np.ones(len(turns.group), dtype=bool)

    outcome = play_round(config, engine, methods_with(config, selection=drop_half), RunState(step=1))
    assert (outcome.metrics["refills"], outcome.metrics["kept_share"], len(outcome.episodes)) == (1.0, 0.5, 32)
    assert len({episode.episode_id for episode in outcome.episodes}) == 32
    assert len(set(stream_keys)) == 2
    outcome = play_round(config, engine, methods_with(config, selection=drop_half), RunState(step=2))
    assert (outcome.metrics["refills"], outcome.metrics["kept_share"]) == (0.0, 1.0)
    without_turns = methods_with(
        config, selection=lambda turns, stream, progress: np.zeros(len(turns.group), dtype=bool)
    )
    assert play_round(config, engine, without_turns, RunState(step=3)).metrics["refills"] == 3.0


@pytest.mark.parametrize(
    ("selection", "group_sizes"),
    [
        (lambda turns, stream, progress: turns.group % 4 < 3, [4] * 4),  # the step takes 4 of the 6 groups
        (
            lambda turns, stream, progress: turns.episode % 4 < 3,
            [3] * 6,
        ),  # game 16 is the first of the sixth group of three
    ],
)
def test_refills_keep_whole_groups_and_nearly_the_size_of_a_step(selection, group_sizes):
    games = [{"name": "kuhn_poker", "illegal": {"rule": "random"}}]
    config = step_config(environments=games, rollout={"games_per_step": 16, "group_size": 4, "refills": 3})
    engine, turns_seen = LocalEngine(config), []

    def credit(turns, state, progress):
        turns_seen.append([len(np.unique(turns.episode[turns.group == group])) for group in np.unique(turns.group)])
        return Methods.of(config).credit["main"](turns, state, progress=progress)

    play_round(config, engine, methods_with(config, selection=selection, credit={"main": credit}), RunState())
    assert turns_seen == [group_sizes]


def test_a_batch_has_the_fewest_sufficient_first_groups():
    episodes = [
        SimpleNamespace(group_id=group, number=number) for number, group in enumerate([0, 0, 0, 1, 1, 1, 2, 2, 2])
    ]

    def first_numbers(num_games):
        return [episode.number for episode in _first_groups(episodes, num_games)]

    assert first_numbers(3) == [0, 1, 2]
    assert first_numbers(4) == first_numbers(6) == [0, 1, 2, 3, 4, 5]  # game 4 is the first of its group
    assert first_numbers(7) == first_numbers(9) == first_numbers(20) == list(range(9))
    mixed_order = [episodes[index] for index in (0, 3, 1, 6, 2, 4)]  # the group of the second game ends with the batch
    assert [episode.number for episode in _first_groups(mixed_order, 2)] == [0, 3, 1, 2, 4]


def test_metrics_of_several_batches_are_weighted_by_games():
    batches = [(3, {"a": 1.0, "b": 4.0}), (1, {"a": 5.0, "c": 7.0}), (4, {"a": 0.0, "c": 2.0})]
    metrics = _mean_metrics(batches)
    assert metrics == {
        "a": pytest.approx((3 * 1 + 1 * 5 + 4 * 0) / 8),
        "b": pytest.approx(4.0),
        "c": pytest.approx((1 * 7 + 4 * 2) / 5),
    }


def test_metrics_of_a_step_weight_its_batches_by_games(monkeypatch):
    config = step_config(rollout={"games_per_step": 16, "group_size": 4, "refills": 1})
    engine, batch_sizes = LocalEngine(config), iter([4, 12])
    original_play = engine.play
    monkeypatch.setattr(
        engine,
        "play",
        lambda specs, judging: Rollout(original_play(specs).episodes[: next(batch_sizes)], RolloutCounts()),
    )

    def select_first_batch(turns, stream, progress):
        return turns.episode < 16

    outcome = play_round(config, engine, methods_with(config, selection=select_first_batch), RunState())
    assert len(outcome.episodes) == 16
    assert outcome.metrics["kept_share"] == pytest.approx((4 * 1.0 + 12 * 0.0) / 16)


def test_selection_has_a_new_stream_for_every_step_and_refill():
    config = step_config(rollout={"games_per_step": 16, "group_size": 4, "refills": 1})
    engine, stream_keys = LocalEngine(config), []

    def select_nothing(turns, stream, progress):
        stream_keys.append(stream.key)
        return np.zeros(len(turns.group), dtype=bool)

    for step in (0, 1):
        play_round(config, engine, methods_with(config, selection=select_nothing), RunState(step=step))
    root = engine.root.child("selection")
    assert stream_keys == [root.child(step).child(refill).key for step in (0, 1) for refill in (0, 1)]
    assert len(set(stream_keys)) == 4


@pytest.mark.parametrize("refills", [0, 2])
def test_the_seconds_of_the_oracle_include_only_judging(monkeypatch, refills):
    config = step_config(
        environments=[{"name": "tic_tac_toe", "oracle": {"name": "minimax"}}],
        rollout={"games_per_step": 4, "group_size": 4, "refills": refills},
    )
    engine, clock = LocalEngine(config), itertools.count(1e6, 0.25)  # the clock starts above 0, as on a running machine
    original_methods = Methods.of(config, [game for game, _ in engine.environments])
    other_methods = {
        name: getattr(original_methods, name) for name in ("matchmaker", "curriculum", "credit", "oracles")
    }
    without_turns = Methods(
        **other_methods, selection=lambda turns, stream, progress: np.zeros(len(turns.group), dtype=bool)
    )
    for module in (step_module, protocol):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    timing = play_round(config, engine, without_turns, RunState()).timing
    # the clock is read before and after each batch
    assert timing["seconds/oracle"] == pytest.approx(0.25 * (refills + 1))
    assert timing["seconds/play"] == pytest.approx(0.25 * (2 * (refills + 1) + 1))


def test_games_are_truncated_at_max_turns():
    limit = {"schedule": "staircase", "values": [2, 5], "at": [0.5]}
    config = step_config(
        environments=[{"name": "tic_tac_toe", "illegal": {"rule": "random"}}],
        rollout={"games_per_step": 4, "max_turns": limit},
    )
    engine = LocalEngine(config)
    for step, num_turns in ((0, 2), (2, 5)):
        episodes = play_round(config, engine, Methods.of(config), RunState(step=step)).episodes
        assert {len(episode.turns) for episode in episodes} == {num_turns}
        if num_turns == 2:
            assert {episode.returns for episode in episodes} == {(0.0, 0.0)}


def turn(seat, index, event="ok", tokens=1, truncated=False):
    segments = (
        Segment(kind="prompt", ids=(1, 2, 3)),
        Segment(kind="sampled", ids=(5,) * tokens, logprobs=(-0.5,) * tokens),
    )
    action = "bet" if event == "ok" else None
    return Turn(
        seat=seat,
        turn_index=index,
        agent="learner",
        state_key="k",
        legal_actions=("bet",),
        reply="bet",
        action=action,
        event=event,
        rewards={},
        segments=segments,
        truncated=truncated,
    )


def episode(number, turns, returns, *, trained=(True, True), game="g", roles=("first", "second"), forfeited_by=None):
    return Episode(
        episode_id=number,
        group_id=number,
        game=game,
        seed=0,
        roles=roles,
        agents=("learner", "learner"),
        trained=trained,
        turns=tuple(turns),
        returns=returns,
        forfeited_by=forfeited_by,
    )


def test_shares_are_over_trained_turns_and_returns_over_trained_seats():
    batch = [
        episode(
            0,
            [turn(0, 0, tokens=2), turn(1, 0, "illegal"), turn(0, 1, "unparsable", 3, True)],
            (2.0, -2.0),
            forfeited_by=0,
        ),
        episode(1, [turn(0, 0, "illegal", 9, True), turn(1, 0)], (-1.0, 1.0), trained=(False, True)),
    ]
    assert rollout_metrics(batch) == {
        "legal_rate": 2 / 4,
        "legal_rate/g": 2 / 4,
        "unparsable_rate": 1 / 4,
        "truncated_rate": 1 / 4,
        "overlong_rate": 0.0,
        "reply_tokens": (2 + 1 + 3 + 1) / 4,
        "sampled_entropy": 0.5,
        "turns_per_game": 5 / 2,
        "forfeit_rate": 1 / 2,
        "return/g/first": 2.0,
        "return/g/second": -0.5,
        "seat_asymmetry/g": 2.5,
    }


def test_metrics_are_per_game_and_role():
    batch = [
        episode(0, [turn(0, 0)], (1.0, 3.0), game="a", roles=("player", "player")),
        episode(1, [turn(0, 0), turn(1, 0, "illegal")], (7.0, 0.0), game="b"),
    ]
    metrics = rollout_metrics(batch)
    assert (metrics["legal_rate"], metrics["legal_rate/a"], metrics["legal_rate/b"]) == (2 / 3, 1.0, 1 / 2)
    assert (metrics["return/a/player"], metrics["seat_asymmetry/a"]) == (2.0, 0.0)
    assert (metrics["return/b/first"], metrics["return/b/second"], metrics["seat_asymmetry/b"]) == (7.0, 0.0, 7.0)


def test_without_a_list_of_legal_actions_there_is_no_legal_rate():
    free_turn = turn(0, 0)._replace(legal_actions=())
    metrics_of_talk = rollout_metrics([episode(0, [free_turn, free_turn], (1.0, 0.0), game="talk")])
    assert (
        not any(name.startswith("legal_rate") for name in metrics_of_talk) and metrics_of_talk["unparsable_rate"] == 0.0
    )
    metrics_of_both = rollout_metrics(
        [
            episode(0, [free_turn, turn(1, 0), turn(0, 1, "illegal"), turn(1, 1, "unparsable")], (1.0, 0.0)),
            episode(1, [free_turn], (1.0, 0.0), game="talk"),
        ]
    )
    assert (
        metrics_of_both["legal_rate"] == metrics_of_both["legal_rate/g"] == 1 / 3
        and "legal_rate/talk" not in metrics_of_both
    )
    assert metrics_of_both["unparsable_rate"] == 1 / 5  # as a share of all replies
    metrics_of_unparsable = rollout_metrics(
        [episode(0, [free_turn._replace(event="unparsable"), free_turn], (1.0, 0.0))]
    )
    assert metrics_of_unparsable["unparsable_rate"] == 0.5 and "legal_rate" not in metrics_of_unparsable


def test_a_batch_without_trained_seats_has_metrics():
    metrics = rollout_metrics([episode(0, [turn(0, 0)], (1.0, -1.0), trained=(False, False))])
    assert (metrics["legal_rate"], metrics["turns_per_game"]) == (0.0, 1.0)
    assert not any(name.startswith("return/") for name in metrics)
    assert pytest.approx(0.0) == metrics["forfeit_rate"]


def test_environment_metrics_are_means_over_trained_seats_by_hand():
    """Computed by hand from the replies and deal of each episode; team b is not trained."""
    game = make_game("code_words", options={"words": 2}, illegal={"rule": "forfeit"})
    root, trained = Stream.from_seed(1), (True, True, False, False)
    seats = (bot("random"),) * 4
    specs = [
        EpisodeSpec(
            game=game,
            episode_id=number,
            group_id=number,
            deal=root.child(number),
            stream=root.child("play").child(number),
            seats=seats,
            trained=trained,
        )
        for number in range(40)
    ]
    batch = play(specs, {str(seats[0]): RandomAgent("random")})
    understood, clear = [], []
    for episode in batch:
        secret = game.reset(Stream(episode.seed)).position.deal.secret[0]
        words = {turn.seat: turn.action.split() for turn in episode.turns}
        understood.append(words[1][0] == game.words[secret])
        clear.append(words[0][0] == game.words[secret])
    metrics = environment_metrics(batch, [game, make_game("kuhn_poker")])
    assert set(metrics) == {f"figure/code_words/{name}" for name in ("understood", "leaked", "clear", "by_key")}
    assert metrics["figure/code_words/understood"] == pytest.approx(sum(understood) / 40) and 0 < sum(understood) < 40
    assert metrics["figure/code_words/clear"] == pytest.approx(sum(clear) / 40)
    forfeited = dataclasses.replace(batch[0], forfeited_by=0, turns=batch[0].turns[:1])
    assert environment_metrics([forfeited, batch[1]], [game]) == environment_metrics([batch[1]], [game])
    untrained_batch = [dataclasses.replace(episode, trained=(False,) * 4) for episode in batch]
    assert environment_metrics(untrained_batch, [game]) == {} == environment_metrics(batch, [make_game("kuhn_poker")])


def test_entropy_is_estimated_from_the_sampled_tokens():
    """Three tokens of probability 1/2 and one of 1/8: (3 log 2 + log 8) / 4."""
    segments = [
        Segment(kind="sampled", ids=(5,) * count, logprobs=(logprob,) * count)
        for count, logprob in ((3, -math.log(2)), (1, -math.log(8)))
    ]
    turns = [
        turn(0, 0)._replace(segments=(Segment(kind="prompt", ids=(1,)), segments[0])),
        turn(1, 0)._replace(segments=(segments[1],)),
    ]
    assert rollout_metrics([episode(0, turns, (0.0, 0.0))])["sampled_entropy"] == pytest.approx(6 * math.log(2) / 4)
    assert "sampled_entropy" not in rollout_metrics([episode(0, [turn(0, 0)._replace(segments=())], (0.0, 0.0))])


def episode_with_rewards(number, group, first_rewards, second_rewards):
    turns = [
        turn(0, 0)._replace(rewards={"outcome": first_rewards}),
        turn(1, 0)._replace(rewards={"outcome": second_rewards - 1.0, "bonus": 1.0}),
    ]
    return dataclasses.replace(episode(number, turns, (9.0, 9.0)), group_id=group)


def test_the_reward_spread_is_within_groups_and_roles():
    """Group 0: first seat (1, -1), second (2, 2); group 1: first (3, 3), second (0, 4)."""
    table = turn_table(
        [
            episode_with_rewards(0, 0, 1, 2),
            episode_with_rewards(1, 0, -1, 2),
            episode_with_rewards(2, 1, 3, 0),
            episode_with_rewards(3, 1, 3, 4),
        ]
    )
    assert group_metrics(table) == {"group_deviation": pytest.approx((1 + 0 + 0 + 2) / 4), "group_equal_share": 1 / 2}


def test_groups_of_one_and_an_empty_table_have_no_spread():
    assert group_metrics(turn_table([episode_with_rewards(0, 0, 1, 2), episode_with_rewards(1, 1, -1, 2)])) == {}
    assert group_metrics(turn_table([])) == {}
    table_with_a_group_of_one = turn_table(
        [episode_with_rewards(0, 0, 1, 2), episode_with_rewards(1, 1, -1, 2), episode_with_rewards(2, 1, 1, 2)]
    )
    assert group_metrics(table_with_a_group_of_one) == {
        "group_deviation": pytest.approx(0.5),
        "group_equal_share": 1 / 2,
    }


def test_rewards_of_attempts_are_means_over_seats_with_attempts():
    def turn_of(seat, attempt, **rewards):
        return turn(seat, 0)._replace(attempt=attempt, rewards=rewards)

    batch = [
        episode(
            0,
            [
                turn_of(0, 0, game=1.0),
                turn_of(0, 0, game=2.0, illegal=-9.0),
                turn_of(1, 0, game=5.0),
                turn_of(0, 2, game=-1.0),
            ],
            (2.0, 5.0),
        ),
        episode(1, [turn_of(0, 0, game=4.0), turn_of(1, 1, game=7.0)], (4.0, 7.0), trained=(True, False)),
        episode(2, [turn_of(0, 0, game=8.0)], (8.0, 0.0), game="no trial"),
    ]
    metrics = {name: value for name, value in rollout_metrics(batch).items() if name.startswith("attempt/")}
    assert metrics == {"attempt/g/1": (3.0 + 5.0 + 4.0) / 3, "attempt/g/3": -1.0}


@pytest.mark.slow
def test_kuhn_poker_improves_from_random_weights():
    changes = ["steps=180", "rollout.games_per_step=512", "learner.average=0.98", "threads=1"]
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), changes))
    engine, methods, state = LocalEngine(config), Methods.of(config), RunState()
    evaluator = Evaluator([game for game, _ in engine.environments], config.evaluation)
    first_metrics = evaluator.measure(engine.agent("policy"), engine.root)
    max_difference = 0.0
    while state.step < config.steps:
        outcome = play_round(config, engine, methods, state)
        state = outcome.state
        max_difference = max(max_difference, outcome.metrics["logprob_difference_max"])
    last_metrics = evaluator.measure(engine.agent("policy"), engine.root)
    assert outcome.metrics["legal_rate"] > 0.98
    assert first_metrics["illegal_mass/kuhn_poker"] > 0.5 > 0.05 > last_metrics["illegal_mass/kuhn_poker"]
    assert last_metrics["nash_conv/kuhn_poker"] < 0.35 < first_metrics["nash_conv/kuhn_poker"]
    assert max_difference < 1e-4
