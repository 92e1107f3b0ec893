import dataclasses

import numpy as np
import pytest

from sparring.environments.catalogue import make_game
from sparring.methods.columns.standard import opponents
from sparring.play.episode import Candidates
from sparring.play.players.random import random
from sparring.play.rollout import play
from sparring.play.store import from_bytes, to_bytes
from sparring.play.turn_table import ordered_turns, turn_table
from tests.cases import every_case
from tests.play.plays import make_specs, random_episodes, tiny_learner

INNER = ["kuhn_poker", "rock_paper_scissors", "sealed_auction", "leduc_poker"]
OPTIONS = [{}, {"reflect": False}, {"memory": "notes"}, {"stop_on_win": True}, {"redeal": "same", "attempts": 2}]


def trial_of(name, **options):
    roles = make_game(name).roles
    return make_game("trial", options={"environment": {"name": name}, "carry": roles, **options})


def attempt_returns(game, episode, deal):
    """Replay a trial; return the return of each seat in each attempt, and the moments at which notes were written."""
    trial, returns_at_end, notes = game.reset(deal), {}, set()
    moments = sorted({turn.moment for turn in episode.turns})
    for moment in moments:
        turns_of_moment = [turn for turn in episode.turns if turn.moment == moment]
        attempt = trial.attempt
        if trial.is_reflecting:
            notes.add(moment)
        trial.step({turn.seat: turn.action for turn in turns_of_moment})
        if moment not in notes:
            returns_at_end[attempt] = np.array(trial.returns)
    assert trial.done
    return {
        attempt_: returns_at_end[attempt_] - (returns_at_end[attempt_ - 1] if attempt_ else 0.0)
        for attempt_ in returns_at_end
    }, notes


@every_case("options", OPTIONS, ids=str)
@every_case("name", INNER)
def test_the_return_of_an_attempt_is_on_the_last_turn_of_each_seat(name, options):
    game = trial_of(name, **options)
    for spec in make_specs(game, 12, seed=5, name="random"):
        (episode,) = play([spec], {"random": random()})
        returns_of_attempts, notes = attempt_returns(game, episode, spec.deal)
        assert [turn.moment in notes for turn in episode.turns] == [turn.note for turn in episode.turns]
        assert bool(notes) == (options.get("reflect", True) and len(returns_of_attempts) > 1)
        for seat in range(game.num_seats):
            turns = [turn for turn in episode.turns if turn.seat == seat]
            for attempt, returns in returns_of_attempts.items():
                rewards = [turn.rewards["game"] for turn in turns if turn.attempt == attempt and not turn.note]
                assert rewards[-1] == returns[seat] and not any(rewards[:-1])
            assert not any(turn.rewards["game"] for turn in turns if turn.note)
            attempts_and_notes = [(turn.attempt, turn.note) for turn in turns]
            assert attempts_and_notes == sorted(attempts_and_notes), "a note belongs to the attempt before it"


@pytest.mark.parametrize("name", ["kuhn_poker", "rock_paper_scissors"])
def test_the_turn_table_has_columns_of_attempts_and_notes_only_if_any(name):
    episodes = play(make_specs(trial_of(name), 6, name="random"), {"random": random()})
    turns, rows = turn_table(episodes), list(ordered_turns(episodes))
    assert turns.attempt.tolist() == [turn.attempt for _, turn in rows] and turns.attempt.max() == 2
    assert (
        turns.note.tolist() == [turn.note for _, turn in rows]
        and turns.note.dtype == bool
        and turns.note.sum() == 6 * 2 * 2
    )
    table_without_trials = turn_table(random_episodes(make_game(name), 3))
    assert table_without_trials.attempt is None and table_without_trials.note is None
    table_without_notes = turn_table(
        play(make_specs(trial_of(name, reflect=False), 2, name="random"), {"random": random()})
    )
    assert table_without_notes.note is None and table_without_notes.attempt.max() == 2


def test_notes_and_all_their_candidates_are_marked_and_stored():
    game = make_game(
        "trial",
        options={"environment": {"name": "rock_paper_scissors"}, "carry": ("left", "right")},
        illegal={"rule": "random"},
    )
    agent, _ = tiny_learner(game)
    candidates = Candidates(
        count=3,
        commit="random",
        explore=0.0,
        grade=lambda episodes: [[None] * len(episode.turns) for episode in episodes],
    )
    episodes = play(make_specs(game, 2), {"learner": agent}, candidates=candidates)
    assert [episode for _, episode in from_bytes(to_bytes([(1, episode) for episode in episodes]))] == list(episodes)
    turns = turn_table(episodes, candidates=True)
    assert turns.note.sum() == 3 * 2 * 2 * 2  # candidates x episodes x seats x notes
    for group in np.unique(turns.state_group):
        rows_of_group = turns.state_group == group
        assert len(set(turns.note[rows_of_group])) == len(set(turns.attempt[rows_of_group])) == 1


@dataclasses.dataclass
class Source:
    turns: object
    episodes: object


def test_equal_players_in_the_other_seats_have_one_opponent_number():
    game = make_game("kuhn_poker")
    pairs = [("a", "b"), ("a", "c"), ("a", "b"), ("c", "a")]
    agents = {name: random() for name in "abc"}
    specs = [dataclasses.replace(spec, seats=pair) for spec, pair in zip(make_specs(game, 4), pairs, strict=True)]
    episodes = play(specs, agents)
    turns = turn_table(episodes)
    opponent_numbers = opponents(Source(turns, episodes))
    assert opponent_numbers.dtype == np.int64 and opponent_numbers.shape == turns.reward.shape
    other_players = [pairs[episode][1 - seat] for episode, seat in zip(turns.episode, turns.seat, strict=True)]
    players_by_number = {
        number: {opponent for opponent, value in zip(other_players, opponent_numbers, strict=True) if value == number}
        for number in set(opponent_numbers)
    }
    assert (
        all(len(players) == 1 for players in players_by_number.values())
        and len(players_by_number) == len(set(other_players)) == 3
    )
