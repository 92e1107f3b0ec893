"""One round: what selection leaves out, what the estimator is given, and what happens when nothing is left."""

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
    _mean_metrics,
    _whole_groups,
    environment_metrics,
    group_metrics,
    play_round,
    rollout_metrics,
)
from tests.cases import every_case
from tests.estimators import asked_of

LOSSES = [{"name": "ppo_clip"}, {"name": "value_loss"}]


def setting(**changes):
    base = {
        "environments": [{"name": "kuhn_poker"}],
        "steps": 4,
        "threads": 1,
        "rollout": {"games_per_step": 16, "group_size": 4},
    }
    return resolve({**base, "model": {"hidden_size": 8, "layers": 1, "heads": 1}, **changes})


def methods(config, **changes):
    usual = Methods.of(config)
    names = ("matchmaker", "curriculum", "selection", "credit")
    return Methods(**{name: changes.get(name, getattr(usual, name)) for name in names})


def weights(engine):
    return {name: tensor.clone() for name, tensor in engine.model.tensors().items()}


@every_case("name", registry.names("credit"), parts=2)
def test_a_step_of_which_selection_leaves_nothing_changes_no_weights(name):
    critic = "critic" in registry.required_services(registry.bind("credit", name))
    parts = getattr(registry.load("credit", name).module, "REQUIRES", {}).get("components", ())
    credit = {"name": name, **dict.fromkeys(parts, "game")}
    rollout = {"games_per_step": 16, "group_size": 4, **asked_of(name)}
    rewards = [{"name": "format_bonus"}] if "candidates" in rollout else []
    config = setting(credit=credit, losses=LOSSES if critic else LOSSES[:1], rollout=rollout, rewards=rewards)
    engine = LocalEngine(config)
    before = weights(engine)
    outcome = play_round(
        config,
        engine,
        methods(config, selection=lambda turns, stream, progress: np.zeros(len(turns.reward), dtype=bool)),
        RunState(),
    )
    assert all((tensor == before[key]).all() for key, tensor in weights(engine).items())
    assert (outcome.metrics["kept_share"], outcome.metrics["advantage_std"], len(outcome.episodes)) == (0.0, 0.0, 16)


def test_the_estimator_sees_what_selection_leaves_and_the_figures_see_all():
    config, seen = setting(), []
    engine, usual = LocalEngine(config), Methods.of(config)

    def selection(turns, stream, progress):
        return turns.episode < 6

    def credit(turns, state, progress):
        seen.append((set(turns.episode.tolist()), dict(state), progress))
        return usual.credit["main"](turns, {"count": state.get("count", 0) + 1}, progress=progress)

    state = RunState()
    for _ in range(2):
        outcome = play_round(config, engine, methods(config, selection=selection, credit={"main": credit}), state)
        state = outcome.state
    assert seen[0] == (set(range(6)), {}, 0.0)
    assert seen[1] == (set(), {"count": 1}, 0.25)  # the episodes of step 1 are numbered from 16
    assert (state.step, state.owners["credit"]) == (2, {"count": 2})
    assert [episode.episode_id for episode in outcome.episodes] == list(range(16, 32))


def test_where_no_game_can_be_played_it_is_an_error(monkeypatch):
    config = setting()
    engine = LocalEngine(config)
    monkeypatch.setattr(engine, "play", lambda specs, judging: Rollout([], RolloutCounts()))
    with pytest.raises(RolloutError, match="the log says why"):
        play_round(config, engine, Methods.of(config), RunState())


def test_games_that_fail_are_counted_and_their_groups_left_out(monkeypatch):
    config = setting(rollout={"games_per_step": 16, "group_size": 4, "retries": 1})
    engine = LocalEngine(config)
    game, _ = engine.environments[0]
    usual, calls = game.reset, [0]

    def sometimes(*args, **kwargs):
        state = usual(*args, **kwargs)
        calls[0] += 1
        if calls[0] == 3 or calls[0] > 16:  # the third game, and whatever begins anew after that
            state._position = None
        return state

    monkeypatch.setattr(type(game), "reset", lambda self, *args, **kwargs: sometimes(*args, **kwargs))
    outcome = play_round(config, engine, Methods.of(config), RunState())
    assert (outcome.metrics["retried_games"], outcome.metrics["dropped_groups"]) == (1.0, 1.0)
    assert [episode.group_id for episode in outcome.episodes] == [1] * 4 + [2] * 4 + [3] * 4


def test_games_that_selection_drops_are_replaced():
    config = setting(
        rollout={"games_per_step": 16, "group_size": 4, "refills": 3},
        selection={"name": "equal_groups", "policy": "drop"},
    )
    engine, keys = LocalEngine(config), []

    def half(turns, stream, progress):
        keys.append(stream.key)
        return (turns.group % 4 < 2) if len(keys) < 3 else np.ones(len(turns.group), dtype=bool)

    outcome = play_round(config, engine, methods(config, selection=half), RunState(step=1))
    assert (outcome.metrics["refills"], outcome.metrics["kept_share"], len(outcome.episodes)) == (1.0, 0.5, 32)
    assert len({episode.episode_id for episode in outcome.episodes}) == 32
    assert len(set(keys)) == 2
    outcome = play_round(config, engine, methods(config, selection=half), RunState(step=2))
    assert (outcome.metrics["refills"], outcome.metrics["kept_share"]) == (0.0, 1.0)
    nothing = methods(config, selection=lambda turns, stream, progress: np.zeros(len(turns.group), dtype=bool))
    assert play_round(config, engine, nothing, RunState(step=3)).metrics["refills"] == 3.0


@pytest.mark.parametrize(
    ("selection", "plays"),
    [
        (lambda turns, stream, progress: turns.group % 4 < 3, [4] * 4),  # of the six groups that are left
        (
            lambda turns, stream, progress: turns.episode % 4 < 3,
            [3] * 6,
        ),  # the sixteenth play is the first of the sixth group of three
    ],
)
def test_a_step_is_never_much_larger_than_asked_and_no_group_is_cut(selection, plays):
    games = [{"name": "kuhn_poker", "illegal": {"rule": "random"}}]
    config = setting(environments=games, rollout={"games_per_step": 16, "group_size": 4, "refills": 3})
    engine, seen = LocalEngine(config), []

    def credit(turns, state, progress):
        seen.append([len(np.unique(turns.episode[turns.group == group])) for group in np.unique(turns.group)])
        return Methods.of(config).credit["main"](turns, state, progress=progress)

    play_round(config, engine, methods(config, selection=selection, credit={"main": credit}), RunState())
    assert seen == [plays]


def test_a_batch_is_the_fewest_whole_groups_that_are_enough():
    played = [
        SimpleNamespace(group_id=group, number=number) for number, group in enumerate([0, 0, 0, 1, 1, 1, 2, 2, 2])
    ]

    def numbers(size):
        return [episode.number for episode in _whole_groups(played, size)]

    assert numbers(3) == [0, 1, 2]
    assert numbers(4) == numbers(6) == [0, 1, 2, 3, 4, 5]  # the fourth game is the first of its group
    assert numbers(7) == numbers(9) == numbers(20) == list(range(9))
    mixed = [played[index] for index in (0, 3, 1, 6, 2, 4)]  # the group of the second game ends with the batch
    assert [episode.number for episode in _whole_groups(mixed, 2)] == [0, 3, 1, 2, 4]


def test_figures_of_several_parts_are_weighed_by_their_games():
    parts = [(3, {"a": 1.0, "b": 4.0}), (1, {"a": 5.0, "c": 7.0}), (4, {"a": 0.0, "c": 2.0})]
    metrics = _mean_metrics(parts)
    assert metrics == {"a": pytest.approx(8 / 8), "b": pytest.approx(4.0), "c": pytest.approx((7 + 8) / 5)}


def test_a_step_s_figures_weigh_its_batches_by_the_games_that_were_played(monkeypatch):
    config = setting(rollout={"games_per_step": 16, "group_size": 4, "refills": 1})
    engine, sizes = LocalEngine(config), iter([4, 12])
    usual = engine.play
    monkeypatch.setattr(
        engine, "play", lambda specs, judging: Rollout(usual(specs).episodes[: next(sizes)], RolloutCounts())
    )

    def all_of_the_first_batch(turns, stream, progress):
        return turns.episode < 16

    outcome = play_round(config, engine, methods(config, selection=all_of_the_first_batch), RunState())
    assert len(outcome.episodes) == 16
    assert outcome.metrics["kept_share"] == pytest.approx((4 * 1.0 + 12 * 0.0) / 16)


def test_selection_draws_anew_at_every_step_and_refill():
    config = setting(rollout={"games_per_step": 16, "group_size": 4, "refills": 1})
    engine, streams = LocalEngine(config), []

    def nothing(turns, stream, progress):
        streams.append(stream.key)
        return np.zeros(len(turns.group), dtype=bool)

    for step in (0, 1):
        play_round(config, engine, methods(config, selection=nothing), RunState(step=step))
    root = engine.root.child("selection")
    assert streams == [root.child(step).child(refill).key for step in (0, 1) for refill in (0, 1)]
    assert len(set(streams)) == 4


@pytest.mark.parametrize("refills", [0, 2])
def test_the_oracle_s_seconds_are_those_of_judging_alone(monkeypatch, refills):
    config = setting(
        environments=[{"name": "tic_tac_toe", "oracle": {"name": "minimax"}}],
        rollout={"games_per_step": 4, "group_size": 4, "refills": refills},
    )
    engine, clock = LocalEngine(config), itertools.count(1e6, 0.25)  # a machine that has been up for a while
    usual = Methods.of(config, [game for game, _ in engine.environments])
    others = {name: getattr(usual, name) for name in ("matchmaker", "curriculum", "credit", "oracles")}
    nothing = Methods(**others, selection=lambda turns, stream, progress: np.zeros(len(turns.group), dtype=bool))
    for module in (step_module, protocol):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    timing = play_round(config, engine, nothing, RunState()).timing
    # it is looked at before and after each batch
    assert timing["seconds/oracle"] == pytest.approx(0.25 * (refills + 1))
    assert timing["seconds/play"] == pytest.approx(0.25 * (2 * (refills + 1) + 1))


def test_games_are_cut_at_the_turns_allowed():
    limit = {"schedule": "staircase", "values": [2, 5], "at": [0.5]}
    config = setting(
        environments=[{"name": "tic_tac_toe", "illegal": {"rule": "random"}}],
        rollout={"games_per_step": 4, "max_turns": limit},
    )
    engine = LocalEngine(config)
    for step, turns in ((0, 2), (2, 5)):
        episodes = play_round(config, engine, Methods.of(config), RunState(step=step)).episodes
        assert {len(episode.turns) for episode in episodes} == {turns}
        if turns == 2:
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


def test_games_are_kept_apart_and_seats_of_one_role_together():
    batch = [
        episode(0, [turn(0, 0)], (1.0, 3.0), game="a", roles=("player", "player")),
        episode(1, [turn(0, 0), turn(1, 0, "illegal")], (7.0, 0.0), game="b"),
    ]
    metrics = rollout_metrics(batch)
    assert (metrics["legal_rate"], metrics["legal_rate/a"], metrics["legal_rate/b"]) == (2 / 3, 1.0, 1 / 2)
    assert (metrics["return/a/player"], metrics["seat_asymmetry/a"]) == (2.0, 0.0)
    assert (metrics["return/b/first"], metrics["return/b/second"], metrics["seat_asymmetry/b"]) == (7.0, 0.0, 7.0)


def test_where_any_text_is_legal_nothing_is_said_of_legal_replies():
    free = turn(0, 0)._replace(legal_actions=())
    alone = rollout_metrics([episode(0, [free, free], (1.0, 0.0), game="talk")])
    assert not any(name.startswith("legal_rate") for name in alone) and alone["unparsable_rate"] == 0.0
    mixed = rollout_metrics(
        [
            episode(0, [free, turn(1, 0), turn(0, 1, "illegal"), turn(1, 1, "unparsable")], (1.0, 0.0)),
            episode(1, [free], (1.0, 0.0), game="talk"),
        ]
    )
    assert mixed["legal_rate"] == mixed["legal_rate/g"] == 1 / 3 and "legal_rate/talk" not in mixed
    assert mixed["unparsable_rate"] == 1 / 5  # of all replies
    unread = rollout_metrics([episode(0, [free._replace(event="unparsable"), free], (1.0, 0.0))])
    assert unread["unparsable_rate"] == 0.5 and "legal_rate" not in unread


def test_a_batch_in_which_nobody_is_trained_has_figures_too():
    metrics = rollout_metrics([episode(0, [turn(0, 0)], (1.0, -1.0), trained=(False, False))])
    assert (metrics["legal_rate"], metrics["turns_per_game"]) == (0.0, 1.0)
    assert not any(name.startswith("return/") for name in metrics)
    assert pytest.approx(0.0) == metrics["forfeit_rate"]


def test_what_an_environment_counts_is_a_mean_over_trained_seats_of_plays_that_ended():
    """By hand, from the replies and the deal of each play; team b is not trained."""
    game = make_game("code_words", options={"words": 2}, illegal={"rule": "forfeit"})
    root, trained = Stream.from_seed(1), (True, True, False, False)
    seats = (bot("random"),) * 4
    specs = [
        EpisodeSpec(
            game=game,
            episode_id=n,
            group_id=n,
            deal=root.child(n),
            stream=root.child("play").child(n),
            seats=seats,
            trained=trained,
        )
        for n in range(40)
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
    lost = dataclasses.replace(batch[0], forfeited_by=0, turns=batch[0].turns[:1])
    assert environment_metrics([lost, batch[1]], [game]) == environment_metrics([batch[1]], [game])
    unseen = [dataclasses.replace(episode, trained=(False,) * 4) for episode in batch]
    assert environment_metrics(unseen, [game]) == {} == environment_metrics(batch, [make_game("kuhn_poker")])


def test_entropy_is_estimated_from_the_sampled_tokens():
    """Tokens of probability 1/2 and 1/8, three of the one and one of the other: (3 log 2 + log 8) / 4."""
    segments = [
        Segment(kind="sampled", ids=(5,) * n, logprobs=(logprob,) * n)
        for n, logprob in ((3, -math.log(2)), (1, -math.log(8)))
    ]
    turns = [
        turn(0, 0)._replace(segments=(Segment(kind="prompt", ids=(1,)), segments[0])),
        turn(1, 0)._replace(segments=(segments[1],)),
    ]
    assert rollout_metrics([episode(0, turns, (0.0, 0.0))])["sampled_entropy"] == pytest.approx(6 * math.log(2) / 4)
    assert "sampled_entropy" not in rollout_metrics([episode(0, [turn(0, 0)._replace(segments=())], (0.0, 0.0))])


def rewarded(number, group, first, second):
    turns = [
        turn(0, 0)._replace(rewards={"outcome": first}),
        turn(1, 0)._replace(rewards={"outcome": second - 1.0, "bonus": 1.0}),
    ]
    return dataclasses.replace(episode(number, turns, (9.0, 9.0)), group_id=group)


def test_the_spread_of_rewards_is_within_groups_of_one_start_and_role():
    """Group 0: first seat (1, -1), second (2, 2); group 1: first (3, 3), second (0, 4)."""
    table = turn_table([rewarded(0, 0, 1, 2), rewarded(1, 0, -1, 2), rewarded(2, 1, 3, 0), rewarded(3, 1, 3, 4)])
    assert group_metrics(table) == {"group_deviation": pytest.approx((1 + 0 + 0 + 2) / 4), "group_equal_share": 1 / 2}


def test_groups_of_one_and_an_empty_table_have_no_spread():
    assert group_metrics(turn_table([rewarded(0, 0, 1, 2), rewarded(1, 1, -1, 2)])) == {}
    assert group_metrics(turn_table([])) == {}
    with_single = turn_table([rewarded(0, 0, 1, 2), rewarded(1, 1, -1, 2), rewarded(2, 1, 1, 2)])
    assert group_metrics(with_single) == {"group_deviation": pytest.approx(0.5), "group_equal_share": 1 / 2}


def test_what_attempts_paid_is_over_the_seats_that_had_them():
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
def test_kuhn_poker_from_random_weights():
    changes = ["steps=180", "rollout.games_per_step=512", "learner.average=0.98", "threads=1"]
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), changes))
    engine, methods, state = LocalEngine(config), Methods.of(config), RunState()
    evaluator = Evaluator([game for game, _ in engine.environments], config.evaluation)
    first = evaluator.measure(engine.agent("policy"), engine.root)
    difference = 0.0
    while state.step < config.steps:
        outcome = play_round(config, engine, methods, state)
        state = outcome.state
        difference = max(difference, outcome.metrics["logprob_difference_max"])
    last = evaluator.measure(engine.agent("policy"), engine.root)
    assert outcome.metrics["legal_rate"] > 0.98
    assert first["illegal_mass/kuhn_poker"] > 0.5 > 0.05 > last["illegal_mass/kuhn_poker"]
    assert last["nash_conv/kuhn_poker"] < 0.35 < first["nash_conv/kuhn_poker"]
    assert difference < 1e-4
