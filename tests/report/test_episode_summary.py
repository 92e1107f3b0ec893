"""The summary of a finished episode for its human player."""

import math

import numpy as np
import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.base import Reply
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.report.episode_summary import ending_text, move_lines, result_text


class ScriptedAgent:
    """An agent with scripted replies; ``shares`` are its probabilities of the legal actions."""

    renderer = None

    def __init__(self, *replies, shares=None):
        self.name, self.replies, self.shares, self.asked = "says", list(replies), shares, []

    def act(self, turns):
        return [Reply(text=self.replies.pop(0)) for _ in turns]

    def action_logprobs(self, queries):
        self.asked += queries
        return [np.log(self.shares[: len(query.legal_actions)]) for query in queries]


def episode_of(game, first, second):
    stream = Stream.from_seed(0)
    spec = EpisodeSpec(
        game=game,
        episode_id=0,
        group_id=0,
        deal=stream.child("deal"),
        stream=stream,
        seats=("you", "policy"),
        trained=(False, False),
    )
    (episode,) = play([spec], {"you": first, "policy": second})
    return episode


def test_the_summary_has_moves_result_and_the_policys_probabilities():
    game = make_game("kuhn_poker", illegal={"rule": "retry", "retries": 2})
    policy = ScriptedAgent("nonsense", "bet", shares=[0.2, 0.7])
    episode = episode_of(game, ScriptedAgent("pass", "bet"), policy)
    names = {"you": "you"}
    assert move_lines(game, episode, policy, name="policy", display_names=names) == [
        "   1  first (you)      pass",
        "   2  second (policy)  bet, after an illegal reply, such as 'nonsense'    [bet 0.70, pass 0.20, illegal 0.10]",
        "   3  first (you)      bet",
    ]
    (query,) = policy.asked
    assert query.observations == (game.reset(Stream(episode.seed)).observe(1).text + " pass",) and query.actions == ()
    game = make_game("kuhn_poker")
    episode = episode_of(game, ScriptedAgent("pass"), ScriptedAgent("pass"))
    assert move_lines(game, episode, object(), name="policy", display_names={})[1] == "   2  second (policy)  pass"
    text = ending_text(game, episode_of(game, ScriptedAgent("pass"), ScriptedAgent("pass")), 0)
    assert "The player 'second' chose pass." in text and "The cards: first" in text


@pytest.mark.parametrize(
    ("name", "returns", "text"),
    [
        ("kuhn_poker", (1.0, -1.0), "You won: +1. Payoffs: first +1, second -1."),
        ("kuhn_poker", (-2.0, 2.0), "You lost: -2."),
        ("tic_tac_toe", (0.0, 0.0), "A draw. Payoffs: X +0, O +0."),
        ("tiny_hanabi", (8.0, 8.0), "Together you got 8 of at most 10."),
        ("sudoku", (1.0,), "You made it: 1 of at most 1."),
        ("sudoku", (0.0,), "You did not make it: 0 of at most 1."),
        ("repeated_dilemma", (3.0, 8.0), "You got 3. Payoffs: row +3, column +8."),
    ],
)
def test_the_winner_is_named_in_the_words_of_the_game(name, returns, text):
    assert result_text(make_game(name), returns, 0).startswith(text)


@pytest.mark.parametrize(("name", "text"), [("sudoku", "You got 0.5."), ("tiny_hanabi", "Together you got 0.5.")])
def test_an_unknown_highest_payoff_is_not_named(name, text):
    game = make_game(name)
    game.max_utility = math.inf
    assert result_text(game, (0.5, 0.5), 0) == text
