import math
from dataclasses import replace

import pytest

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.playouts import with_playouts
from sparring.play.rollout import play, rollout, run_requests
from tests.play.plays import make_specs, tiny_learner
from tests.play.plays import random_episodes as random_games

RANDOM_AGENT = {"random": registry.bind("players", "random")()}


def add_playouts(game, episodes, agents=RANDOM_AGENT, **options):
    requests = with_playouts(episodes, {game.name: game}, **{"count": 4, "stream": Stream.from_seed(9), **options})
    return run_requests(requests, lambda specs: rollout(specs, agents))[0]


def continue_episode(game, episode, index, agents, number=0):
    fields = {
        "seats": episode.agents,
        "trained": episode.trained,
        "prefix": episode.turns[: index + 1],
        "redealt": True,
    }
    (spec,) = make_specs(game, 1, seed=77 + number, **fields)
    return play([replace(spec, deal=Stream(episode.seed))], agents)[0]


@pytest.mark.always
@pytest.mark.parametrize("rule", ["retry", "random"])
@pytest.mark.parametrize("name", ["tic_tac_toe", "leduc_poker"])
def test_a_continued_episode_has_the_recorded_turns_token_by_token(name, rule):
    game = make_game(name, illegal={"rule": rule})
    agent, _ = tiny_learner(game)
    num_illegal = 0
    for episode_index, episode in enumerate(play(make_specs(game, 6), {"learner": agent})):
        num_illegal += sum(turn.event != "ok" for turn in episode.turns)
        for index in range(episode_index % 3, len(episode.turns) - 1, 3):
            continued_episode = continue_episode(game, episode, index, {"learner": agent})
            for recorded_turn, continued_turn in zip(episode.turns[: index + 1], continued_episode.turns, strict=False):
                assert recorded_turn._replace(rewards={}) == continued_turn._replace(rewards={})
    assert num_illegal > 10


def test_later_turns_and_chance_differ_between_playouts():
    game = make_game("leduc_poker")
    for episode in random_games(game, 10):
        if len(episode.turns) < 4:
            continue
        episodes = [continue_episode(game, episode, 0, RANDOM_AGENT, number) for number in range(20)]
        assert {turn.agent for continuation in episodes for turn in continuation.turns} == {"random"}
        assert len({continuation.turns[1].reply for continuation in episodes}) > 1
        assert {continuation.turns[0].state_key for continuation in episodes} == {episode.turns[0].state_key}
    keys = {
        turn.state_key
        for number in range(60)
        for turn in continue_episode(game, random_games(game, 1)[0], 0, RANDOM_AGENT, number).turns
    }
    public_cards = {key.split("[Public: ")[1][:2] for key in keys if "[Round 2]" in key}
    assert len(public_cards) > 1  # the public card is drawn again


def uniform_value(state, seat):
    if state.done:
        return state.returns[seat]
    sum_of_values = 0.0
    for action in state.legal_actions():
        child = state.clone()
        child.apply(action)
        sum_of_values += uniform_value(child, seat)
    return sum_of_values / len(state.legal_actions())


def test_only_trained_turns_get_values_and_nothing_else_changes():
    game = make_game("tic_tac_toe")
    values = []
    for episode in random_games(game, 4):
        episode_with_one_trained_seat = replace(episode, trained=(True, False))
        [episode_with_values] = add_playouts(game, [episode_with_one_trained_seat])
        assert [turn._replace(playout=None) for turn in episode_with_values.turns] == list(
            episode_with_one_trained_seat.turns
        )
        assert [turn.playout is not None for turn in episode_with_values.turns] == [
            turn.seat == 0 for turn in episode_with_one_trained_seat.turns
        ]
        values += [turn.playout for turn in episode_with_values.turns if turn.playout is not None]
    assert len(set(values)) > 2 and all(-1 <= value <= 1 for value in values)
    assert add_playouts(game, []) == []


def test_the_same_streams_give_the_same_values():
    game = make_game("leduc_poker")
    episodes = random_games(game, 5)
    assert add_playouts(game, episodes) == add_playouts(game, episodes)
    assert add_playouts(game, episodes) != add_playouts(game, episodes, stream=Stream.from_seed(10))


@pytest.mark.always
def test_playout_values_approach_the_exact_values():
    game, num_playouts = make_game("kuhn_poker"), 400
    tolerance = {"abs": 5 * 2 / math.sqrt(num_playouts)}
    for episode in add_playouts(game, random_games(game, 6), count=num_playouts, estimate_before=True):
        state = game.reset(Stream(episode.seed))
        for turn in episode.turns:
            assert turn.playout_before == pytest.approx(uniform_value(state, turn.seat), **tolerance)
            state.apply(turn.action)
            assert turn.playout == pytest.approx(uniform_value(state, turn.seat), **tolerance)
        assert episode.turns[-1].playout == episode.returns[episode.turns[-1].seat]


def test_a_position_between_two_turns_has_one_set_of_playouts():
    game = make_game("sudoku", options={"blanks": 4, "wrong": "continues", "pay": "share"})
    specs_played = []

    def rollout_and_record(make_specs):
        specs_played.extend(make_specs)
        return rollout(make_specs, RANDOM_AGENT)

    for with_values_before in (False, True):
        specs_played.clear()
        episodes = random_games(game, 3)
        requests = with_playouts(
            episodes, {game.name: game}, count=2, stream=Stream.from_seed(9), estimate_before=with_values_before
        )
        results, metrics = run_requests(requests, rollout_and_record)
        assert len(specs_played) == sum(2 * (len(episode.turns) - 1 + with_values_before) for episode in episodes)
        assert metrics == {"playouts/tokens": 0.0, "playouts/failed": 0.0}  # no player of these episodes samples tokens
        unmerged_episodes, _ = run_requests(
            with_playouts(episodes, {game.name: game}, count=2, stream=Stream.from_seed(9)), rollout_and_record
        )
        for merged_episode, unmerged_episode in zip(results, unmerged_episodes, strict=True):
            assert [turn.playout for turn in merged_episode.turns] == [turn.playout for turn in unmerged_episode.turns]
            for earlier, next_turn in zip(merged_episode.turns, merged_episode.turns[1:], strict=False):
                assert next_turn.playout_before == (earlier.playout if with_values_before else None)


def test_tokens_sampled_in_playouts_are_counted():
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    agent, _ = tiny_learner(game)
    episodes, sampled_segments = play(make_specs(game, 3), {"learner": agent}), []

    def rollout_and_record(specs):
        rollouts = rollout(specs, {"learner": agent})
        for spec, episode in zip(specs, rollouts.episodes, strict=True):
            sampled_segments.extend(
                segment
                for turn in episode.turns[len(spec.prefix) :]
                for segment in turn.segments
                if segment.kind == "sampled"
            )
        return rollouts

    _, metrics = run_requests(
        with_playouts(episodes, {game.name: game}, count=2, stream=Stream.from_seed(9)), rollout_and_record
    )
    assert metrics["playouts/tokens"] == sum(len(segment.ids) for segment in sampled_segments) > 0


def test_playouts_before_the_first_turn_keep_the_deal():
    game = make_game("leduc_poker")
    [episode] = random_games(game, 1)
    full_playouts = []

    def rollout_and_record(make_specs):
        rollouts = rollout(make_specs, RANDOM_AGENT)
        ids_without_prefix = {spec.episode_id for spec in make_specs if not spec.prefix}
        full_playouts.extend(
            playout for playout in rollouts.require_any().episodes if playout.episode_id in ids_without_prefix
        )
        return rollouts

    run_requests(
        with_playouts([episode], {game.name: game}, count=60, stream=Stream.from_seed(9), estimate_before=True),
        rollout_and_record,
    )
    assert len(full_playouts) == 60 and {playout.turns[0].state_key for playout in full_playouts} == {
        episode.turns[0].state_key
    }
    keys = [turn.state_key for playout in full_playouts for turn in playout.turns]
    assert len({key.split("[Public: ")[1][:2] for key in keys if "[Round 2]" in key}) > 1
