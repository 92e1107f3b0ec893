"""A lead is paid for width: by hand in both environments, who is paid and when, annealed weights, and where nothing is counted."""

import math

import pytest

from sparring.config.plugins.registry import bind
from sparring.core.errors import RewardError
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.environments.catalogue import make_game
from sparring.methods.rewards.base import apply_rewards
from sparring.methods.rewards.components import WeightedReward
from sparring.methods.rewards.spawn import spawn
from sparring.methods.rewards.subtasks_finished import subtasks_finished
from sparring.play.players.scheduler import scheduler
from sparring.play.players.searcher import searcher
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec

WIDE = {"items": 4, "columns": 1, "workers": 4, "turns": 2, "waves": 2, "worlds": 50}
DAG = {"tasks": 4, "workers": 4, "worlds": 50}


def played(name, options, agent, trained=None, count=1):
    """Return the environment and plays of it by an agent in all seats."""
    game, root = make_game(name, options=options), Stream.from_seed(5)
    specs = [
        EpisodeSpec(
            game=game,
            episode_id=number,
            group_id=number,
            deal=root.child(number),
            stream=root.child("play").child(number),
            seats=("agent",) * game.num_seats,
            trained=trained or (True,) * game.num_seats,
        )
        for number in range(count)
    ]
    return game, play(specs, {"agent": agent})


@pytest.mark.parametrize(("width", "expected"), [(1, 0.0), (2, 1 / 3), (4, 1.0)])
@pytest.mark.parametrize("name", ["wide_search", "dag_search"])
def test_by_hand(name, width, expected):
    """Of at most four workers one, two or four in the widest wave; only the lead's last turn is paid."""
    agent = searcher(width=width) if name == "wide_search" else scheduler(width=width)
    game, (episode,) = played(name, WIDE if name == "wide_search" else DAG, agent)
    found = spawn(episode, game)
    paid = {number: value for number, value in enumerate(found) if value is not None}
    last = max(number for number, turn in enumerate(episode.turns) if turn.seat == 0)
    assert paid == {last: pytest.approx(expected)} and len(found) == len(episode.turns)


def test_a_seat_of_which_the_environment_says_nothing_is_paid_nothing(monkeypatch):
    game, (episode,) = played("wide_search", WIDE, searcher(width=2))
    assert any(value is not None for value in spawn(episode, game))
    seats = game.num_seats
    monkeypatch.setattr("sparring.methods.rewards.counts.figures_of", lambda *_: dict.fromkeys(game.figures, (math.nan,) * seats))
    assert spawn(episode, game) == (None,) * len(episode.turns)


def test_one_worker_is_no_choice_and_one_seat_no_lead():
    game, (episode,) = played("dag_search", {**DAG, "workers": 1}, scheduler())
    assert set(spawn(episode, game)) == {None, 0.0}
    alone, (single,) = played("wide_search", {**WIDE, "workers": 0, "turns": 8}, searcher())
    assert set(spawn(single, alone)) == set(subtasks_finished(single, alone)) == {None}


@pytest.mark.parametrize("combinator", ["trial", "repeated"])
def test_around_a_team_it_is_refused_and_not_left_out_in_silence(combinator):
    options = {"environment": {"name": "wide_search", "options": WIDE}}
    game, (episode,) = played(combinator, options, bind("players", "random")())
    for name, reward in (("spawn", spawn), ("subtasks_finished", subtasks_finished)):
        with pytest.raises(RewardError, match=f"'{name}': {combinator} is made of plays of wide_search.*without {combinator}"):
            reward(episode, game)
    alone = {"environment": {"name": "wide_search", "options": {**WIDE, "workers": 0, "turns": 8}}}
    for options in (alone, {"environment": {"name": "kuhn_poker"}}):  # nobody leads inside either
        game, (episode,) = played(combinator, options, bind("players", "random")())
        assert set(spawn(episode, game)) == set(subtasks_finished(episode, game)) == {None}


def test_where_nobody_leads_nothing_is_said():
    game, (episode,) = played("kuhn_poker", {}, bind("players", "random")())
    assert set(spawn(episode, game)) == {None}


@pytest.mark.parametrize(("progress", "share"), [(0.0, 1.0), (0.3, 0.5), (0.6, 0.0), (1.0, 0.0)])
def test_a_weight_that_falls_to_nothing(progress, share):
    """l1 = 0.5 to 0 and l2 = 0.2 to 0 at 60 % of the run."""
    game, episodes = played("dag_search", DAG, scheduler(width=4), trained=(True, False, False, False, False), count=3)
    weights = {"spawn": 0.5, "subtasks_finished": 0.2}
    rewards = [
        WeightedReward(bound=bind("rewards", name), weight=parse({"schedule": "linear", "start": weight, "end": 0.0, "until": 0.6}))
        for name, weight in weights.items()
    ]
    shaped, metrics = apply_rewards(episodes, rewards, progress, gaps={}, games={game.name: game}, reorder_outcomes=True)
    for before, after in zip(episodes, shaped, strict=True):
        added = [{name: turn.rewards[name] for name in weights if name in turn.rewards} for turn in after.turns]
        last = max(number for number, turn in enumerate(after.turns) if turn.seat == 0)
        assert added[last]["spawn"] == pytest.approx(0.5 * share)
        assert added[last]["subtasks_finished"] == pytest.approx(0.2 * share * subtasks_finished(before, game)[last])
        assert not any(parts for number, parts in enumerate(added) if number != last)
    assert metrics["reward/spawn"] == pytest.approx(0.5 * share)
