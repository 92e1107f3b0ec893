import math
from dataclasses import replace

import pytest

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.playouts import with_playouts
from sparring.play.rollout import play, rollout, run_requests
from tests.play.plays import learner, specs
from tests.play.plays import random_episodes as random_games

RANDOM = {"random": registry.bind("players", "random")()}


def play_out(game, episodes, agents=RANDOM, **options):
    asking = with_playouts(episodes, {game.name: game}, **{"count": 4, "stream": Stream.from_seed(9), **options})
    return run_requests(asking, lambda due: rollout(due, agents))[0]


def continue_episode(game, episode, index, agents, number=0):
    fields = {
        "seats": episode.agents,
        "trained": episode.trained,
        "prefix": episode.turns[: index + 1],
        "redealt": True,
    }
    (spec,) = specs(game, 1, seed=77 + number, **fields)
    return play([replace(spec, deal=Stream(episode.seed))], agents)[0]


@pytest.mark.always
@pytest.mark.parametrize("rule", ["retry", "random"])
@pytest.mark.parametrize("name", ["tic_tac_toe", "leduc_poker"])
def test_a_continued_episode_has_the_recorded_turns_token_by_token(name, rule):
    game = make_game(name, illegal={"rule": rule})
    agent, _ = learner(game)
    illegal = 0
    for number, episode in enumerate(play(specs(game, 6), {"learner": agent})):
        illegal += sum(turn.event != "ok" for turn in episode.turns)
        for index in range(number % 3, len(episode.turns) - 1, 3):
            continued = continue_episode(game, episode, index, {"learner": agent})
            for recorded_turn, continued_turn in zip(episode.turns[: index + 1], continued.turns, strict=False):
                assert recorded_turn._replace(rewards={}) == continued_turn._replace(rewards={})
    assert illegal > 10


def test_later_turns_and_chance_differ_between_playouts():
    game = make_game("leduc_poker")
    for episode in random_games(game, 10):
        if len(episode.turns) < 4:
            continue
        continued = [continue_episode(game, episode, 0, RANDOM, number) for number in range(20)]
        assert {turn.agent for continuation in continued for turn in continuation.turns} == {"random"}
        assert len({continuation.turns[1].reply for continuation in continued}) > 1
        assert {continuation.turns[0].state_key for continuation in continued} == {episode.turns[0].state_key}
    keys = {
        turn.state_key
        for number in range(60)
        for turn in continue_episode(game, random_games(game, 1)[0], 0, RANDOM, number).turns
    }
    public = {key.split("[Public: ")[1][:2] for key in keys if "[Round 2]" in key}
    assert len(public) > 1  # the public card is drawn again


def uniform_value(state, seat):
    if state.done:
        return state.returns[seat]
    total = 0.0
    for action in state.legal_actions():
        child = state.clone()
        child.apply(action)
        total += uniform_value(child, seat)
    return total / len(state.legal_actions())


def test_only_trained_turns_get_values_and_nothing_else_changes():
    game = make_game("tic_tac_toe")
    values = []
    for episode in random_games(game, 4):
        half_trained = replace(episode, trained=(True, False))
        [valued] = play_out(game, [half_trained])
        assert [turn._replace(playout=None) for turn in valued.turns] == list(half_trained.turns)
        assert [turn.playout is not None for turn in valued.turns] == [turn.seat == 0 for turn in half_trained.turns]
        values += [turn.playout for turn in valued.turns if turn.playout is not None]
    assert len(set(values)) > 2 and all(-1 <= value <= 1 for value in values)
    assert play_out(game, []) == []


def test_the_same_streams_give_the_same_values():
    game = make_game("leduc_poker")
    episodes = random_games(game, 5)
    assert play_out(game, episodes) == play_out(game, episodes)
    assert play_out(game, episodes) != play_out(game, episodes, stream=Stream.from_seed(10))


@pytest.mark.always
def test_playout_values_approach_the_exact_values():
    game, num_playouts = make_game("kuhn_poker"), 400
    tolerance = {"abs": 5 * 2 / math.sqrt(num_playouts)}
    for episode in play_out(game, random_games(game, 6), count=num_playouts, before=True):
        state = game.reset(Stream(episode.seed))
        for turn in episode.turns:
            assert turn.playout_before == pytest.approx(uniform_value(state, turn.seat), **tolerance)
            state.apply(turn.action)
            assert turn.playout == pytest.approx(uniform_value(state, turn.seat), **tolerance)
        assert episode.turns[-1].playout == episode.returns[episode.turns[-1].seat]


def test_a_position_between_two_turns_has_one_set_of_playouts():
    game = make_game("sudoku", options={"blanks": 4, "wrong": "continues", "pay": "share"})
    due = []

    def count_tokens(specs):
        due.extend(specs)
        return rollout(specs, RANDOM)

    for with_values_before in (False, True):
        due.clear()
        episodes = random_games(game, 3)
        asking = with_playouts(
            episodes, {game.name: game}, count=2, stream=Stream.from_seed(9), before=with_values_before
        )
        valued, tokens = run_requests(asking, count_tokens)
        assert len(due) == sum(2 * (len(episode.turns) - 1 + with_values_before) for episode in episodes)
        assert tokens == {"playouts/tokens": 0.0, "playouts/failed": 0.0}  # no player of these episodes samples tokens
        unmerged, _ = run_requests(
            with_playouts(episodes, {game.name: game}, count=2, stream=Stream.from_seed(9)), count_tokens
        )
        for merged_episode, unmerged_episode in zip(valued, unmerged, strict=True):
            assert [turn.playout for turn in merged_episode.turns] == [turn.playout for turn in unmerged_episode.turns]
            for earlier, next_turn in zip(merged_episode.turns, merged_episode.turns[1:], strict=False):
                assert next_turn.playout_before == (earlier.playout if with_values_before else None)


def test_tokens_sampled_in_playouts_are_counted():
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    agent, _ = learner(game)
    episodes, sampled_segments = play(specs(game, 3), {"learner": agent}), []

    def play_all(due):
        rollouts = rollout(due, {"learner": agent})
        for spec, episode in zip(due, rollouts.episodes, strict=True):
            sampled_segments.extend(
                segment
                for turn in episode.turns[len(spec.prefix) :]
                for segment in turn.segments
                if segment.kind == "sampled"
            )
        return rollouts

    _, figures = run_requests(with_playouts(episodes, {game.name: game}, count=2, stream=Stream.from_seed(9)), play_all)
    assert figures["playouts/tokens"] == sum(len(segment.ids) for segment in sampled_segments) > 0


def test_playouts_before_the_first_turn_keep_the_deal():
    game = make_game("leduc_poker")
    [episode] = random_games(game, 1)
    full_playouts = []

    def rollout_and_watch(specs):
        episodes_played = rollout(specs, RANDOM)
        ids_without_prefix = {spec.episode_id for spec in specs if not spec.prefix}
        full_playouts.extend(
            play for play in episodes_played.require_any().episodes if play.episode_id in ids_without_prefix
        )
        return episodes_played

    run_requests(
        with_playouts([episode], {game.name: game}, count=60, stream=Stream.from_seed(9), before=True),
        rollout_and_watch,
    )
    assert len(full_playouts) == 60 and {play.turns[0].state_key for play in full_playouts} == {
        episode.turns[0].state_key
    }
    keys = [turn.state_key for play in full_playouts for turn in play.turns]
    assert len({key.split("[Public: ")[1][:2] for key in keys if "[Round 2]" in key}) > 1
