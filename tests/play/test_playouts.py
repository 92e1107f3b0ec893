import math
from dataclasses import replace

import pytest

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.playouts import with_playouts
from sparring.play.rollout import play, rollout, run_requests
from tests.play.plays import learner, specs
from tests.play.plays import played as random_games

RANDOM = {"random": registry.bind("players", "random")()}


def played_on(game, episodes, agents=RANDOM, **options):
    asking = with_playouts(episodes, {game.name: game}, **{"count": 4, "stream": Stream.from_seed(9), **options})
    return run_requests(asking, lambda due: rollout(due, agents))[0]


def continued(game, episode, index, agents, number=0):
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
def test_the_first_turns_are_the_recorded_ones_token_by_token(name, rule):
    game = make_game(name, illegal={"rule": rule})
    agent, _ = learner(game)
    illegal = 0
    for number, episode in enumerate(play(specs(game, 6), {"learner": agent})):
        illegal += sum(turn.event != "ok" for turn in episode.turns)
        for index in range(number % 3, len(episode.turns) - 1, 3):
            again = continued(game, episode, index, {"learner": agent})
            for before, after in zip(episode.turns[: index + 1], again.turns, strict=False):
                assert before._replace(rewards={}) == after._replace(rewards={})
    assert illegal > 10


def test_the_turns_after_differ_and_so_does_chance():
    game = make_game("leduc_poker")
    for episode in random_games(game, 10):
        if len(episode.turns) < 4:
            continue
        again = [continued(game, episode, 0, RANDOM, number) for number in range(20)]
        assert {turn.agent for other in again for turn in other.turns} == {"random"}
        assert len({other.turns[1].reply for other in again}) > 1
        assert {other.turns[0].state_key for other in again} == {episode.turns[0].state_key}
    keys = {
        turn.state_key
        for number in range(60)
        for turn in continued(game, random_games(game, 1)[0], 0, RANDOM, number).turns
    }
    public = {key.split("[Public: ")[1][:2] for key in keys if "[Round 2]" in key}
    assert len(public) > 1  # the public card is dealt anew


def uniform_value(state, seat):
    if state.done:
        return state.returns[seat]
    total = 0.0
    for action in state.legal_actions():
        child = state.clone()
        child.apply(action)
        total += uniform_value(child, seat)
    return total / len(state.legal_actions())


def test_only_trained_turns_are_valued_and_everything_else_stays():
    game = make_game("tic_tac_toe")
    values = []
    for episode in random_games(game, 4):
        half = replace(episode, trained=(True, False))
        [valued] = played_on(game, [half])
        assert [turn._replace(playout=None) for turn in valued.turns] == list(half.turns)
        assert [turn.playout is not None for turn in valued.turns] == [turn.seat == 0 for turn in half.turns]
        values += [turn.playout for turn in valued.turns if turn.playout is not None]
    assert len(set(values)) > 2 and all(-1 <= value <= 1 for value in values)
    assert played_on(game, []) == []


def test_the_same_streams_give_the_same_values():
    game = make_game("leduc_poker")
    episodes = random_games(game, 5)
    assert played_on(game, episodes) == played_on(game, episodes)
    assert played_on(game, episodes) != played_on(game, episodes, stream=Stream.from_seed(10))


@pytest.mark.always
def test_values_before_and_after_turns_approach_the_exact_ones():
    game, many = make_game("kuhn_poker"), 400
    near = {"abs": 5 * 2 / math.sqrt(many)}
    for episode in played_on(game, random_games(game, 6), count=many, before=True):
        state = game.reset(Stream(episode.seed))
        for turn in episode.turns:
            assert turn.playout_before == pytest.approx(uniform_value(state, turn.seat), **near)
            state.apply(turn.action)
            assert turn.playout == pytest.approx(uniform_value(state, turn.seat), **near)
        assert episode.turns[-1].playout == episode.returns[episode.turns[-1].seat]


def test_a_position_between_two_turns_is_played_on_from_once():
    game = make_game("sudoku", options={"blanks": 4, "wrong": "continues", "pay": "share"})
    due = []

    def counted(specs):
        due.extend(specs)
        return rollout(specs, RANDOM)

    for before in (False, True):
        due.clear()
        episodes = random_games(game, 3)
        asking = with_playouts(episodes, {game.name: game}, count=2, stream=Stream.from_seed(9), before=before)
        valued, tokens = run_requests(asking, counted)
        assert len(due) == sum(2 * (len(episode.turns) - 1 + before) for episode in episodes)
        assert tokens == {"playouts/tokens": 0.0, "playouts/failed": 0.0}  # nobody speaks in tokens
        plain, _ = run_requests(
            with_playouts(episodes, {game.name: game}, count=2, stream=Stream.from_seed(9)), counted
        )
        for new, old in zip(valued, plain, strict=True):
            assert [turn.playout for turn in new.turns] == [turn.playout for turn in old.turns]
            for earlier, later in zip(new.turns, new.turns[1:], strict=False):
                assert later.playout_before == (earlier.playout if before else None)


def test_what_was_sampled_in_games_played_on_is_counted():
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    agent, _ = learner(game)
    episodes, sampled = play(specs(game, 3), {"learner": agent}), []

    def play_all(due):
        done = rollout(due, {"learner": agent})
        for spec, episode in zip(due, done.episodes, strict=True):
            sampled.extend(
                part for turn in episode.turns[len(spec.prefix) :] for part in turn.segments if part.kind == "sampled"
            )
        return done

    _, figures = run_requests(with_playouts(episodes, {game.name: game}, count=2, stream=Stream.from_seed(9)), play_all)
    assert figures["playouts/tokens"] == sum(len(part.ids) for part in sampled) > 0


def test_before_the_first_turn_the_deal_stays_and_later_chance_is_drawn_anew():
    game = make_game("leduc_poker")
    [episode] = random_games(game, 1)
    whole = []

    def watched(specs):
        played = rollout(specs, RANDOM)
        first = {spec.episode_id for spec in specs if not spec.prefix}
        whole.extend(play for play in played.require_any().episodes if play.episode_id in first)
        return played

    run_requests(
        with_playouts([episode], {game.name: game}, count=60, stream=Stream.from_seed(9), before=True), watched
    )
    assert len(whole) == 60 and {play.turns[0].state_key for play in whole} == {episode.turns[0].state_key}
    keys = [turn.state_key for play in whole for turn in play.turns]
    assert len({key.split("[Public: ")[1][:2] for key in keys if "[Round 2]" in key}) > 1
