"""A play that is judged where it stands has the verdicts that replaying it gives."""

from dataclasses import replace
from functools import partial

import pytest

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.base import verdicts
from sparring.methods.oracles.judge import judge_episodes
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

CASES = [
    ("kuhn_poker", "cfr", {"iterations": 50}),
    ("tic_tac_toe", "minimax", {}),
    ("tic_tac_toe", "mcts", {"simulations": 8}),
    ("mastermind", "posterior", {}),
    ("dag_search", "planning", {}),
]


def specs(game, count=6, trained=None):
    root = Stream.from_seed(3)
    return [
        EpisodeSpec(
            game=game,
            episode_id=number,
            group_id=number // 2,
            deal=root.child("deal").child(number // 2),
            stream=root.child(number),
            seats=("random",) * game.num_seats,
            trained=trained or (True,) * game.num_seats,
        )
        for number in range(count)
    ]


def both(name, oracle, options, rule="random", **changes):
    """Return episodes judged in play, and the same ones judged by replaying."""
    game = make_game(name, illegal={"rule": rule})
    judge, agents = bind("oracles", oracle, options)(), {"random": bind("players", "random")()}
    asked = specs(game, **changes)
    judges = {game.name: partial(verdicts, judge)}
    return play(asked, agents, judges=judges, in_flight=4), judge_episodes(play(asked, agents), {game.name: game}, {game.name: judge})


@pytest.mark.parametrize(("name", "oracle", "options"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_the_verdicts_are_those_of_replaying(name, oracle, options):
    judged, replayed = both(name, oracle, options)
    assert judged == replayed
    assert any(turn.verdict is not None for episode in judged for turn in episode.turns)


def test_an_oracle_that_errs_by_chance_draws_the_same():
    judged, replayed = both("tic_tac_toe", "noisy", {"flip": 0.5, "per": "turn"})
    assert judged == replayed


def test_only_trained_seats_are_judged():
    judged, _ = both("kuhn_poker", "cfr", {"iterations": 50}, trained=(True, False))
    assert {(turn.seat, turn.verdict is not None) for episode in judged for turn in episode.turns} == {(0, True), (1, False)}


def test_without_a_judge_nothing_is_judged_and_a_game_without_one_is_left_alone():
    game = make_game("kuhn_poker")
    agents = {"random": bind("players", "random")()}
    for judges in (None, {}, {"another": None}):
        assert all(turn.verdict is None for episode in play(specs(game), agents, judges=judges) for turn in episode.turns)


def test_an_oracle_that_refuses_stops_the_play():
    def refuses(states, streams):
        raise OracleError("no")

    game = make_game("kuhn_poker")
    with pytest.raises(OracleError, match="no"):
        play(specs(game), {"random": bind("players", "random")()}, judges={"kuhn_poker": refuses})


def test_an_oracle_that_plays_with_the_state_changes_no_play():
    def careless(states, streams):
        for state in states:
            state.apply(state.legal_actions()[0])
        return [None] * len(states)

    game, agents = make_game("tic_tac_toe"), {"random": bind("players", "random")()}
    assert play(specs(game), agents, judges={"tic_tac_toe": careless}) == play(specs(game), agents)


@pytest.mark.parametrize("plan", [{"name": "none"}, {"name": "tree"}, {"name": "branch"}], ids=lambda plan: plan["name"])
def test_a_training_step_judges_every_trained_turn_as_replaying_does(plan):
    config = resolve(
        {
            "environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}, "oracle": {"name": "minimax"}}],
            "steps": 1,
            "threads": 1,
            "rollout": {"games_per_step": 16, "group_size": 8, "plan": plan},
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
        }
    )
    engine = LocalEngine(config)
    games = [game for game, _ in engine.environments]
    methods = Methods.of(config, games)
    found = play_round(config, engine, methods, RunState()).episodes
    bare = [replace(e, turns=tuple(t._replace(verdict=None) for t in e.turns)) for e in found]
    assert judge_episodes(bare, {game.name: game for game in games}, methods.oracles) == found
    assert all(turn.verdict is not None for e in found for turn in e.turns if e.trained[turn.seat])
