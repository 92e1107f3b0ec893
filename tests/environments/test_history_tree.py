"""Game trees of environments outside OpenSpiel: openings are chance, simultaneous choices are hidden."""

import pytest

from sparring.core.errors import GameError
from sparring.core.records import Observation
from sparring.environments.base import Environment
from sparring.environments.catalogue import make_game
from sparring.environments.history_tree import HistoryTree, rules_key, tree_of
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import TabularScorer, enumerate_info_states


class Guess(Environment):
    """One seat sees the coin and the other does not; both guess at once and get the number of correct guesses."""

    name, roles, num_seats, max_turns, cooperative = "guess", ("told", "blind"), 2, 2, True

    def openings(self):
        return ((0.75, GuessPlay("heads")), (0.25, GuessPlay("tails")))


class GuessPlay:
    def __init__(self, coin, guesses=()):
        self.coin, self.guesses = coin, guesses
        self.done = bool(guesses)
        self.returns = (float(guesses.count(coin)),) * 2

    def due(self):
        return () if self.done else (0, 1)

    def legal(self, seat):
        return ("heads", "tails")

    def observe(self, seat):
        shown_coin = self.coin if seat == 0 else "?"
        return Observation(prompt=shown_coin, key=f"{seat} {shown_coin}")

    def step(self, replies):
        self.__init__(self.coin, (replies[0], replies[1]))

    def clone(self):
        return GuessPlay(self.coin, self.guesses)


def test_exact_figures_of_a_tree_of_openings():
    states = enumerate_info_states(Guess())
    assert [query.key for query in states.queries] == ["0 heads", "1 ?", "0 tails"]
    assert len(states.tree.parent) == 1 + 2 * (1 + 2 + 4) and len(states.tree.terminal) == 8
    table = {(0, "0 heads"): {"heads": 1.0}, (0, "0 tails"): {"tails": 1.0}, (1, "1 ?"): {"tails": 1.0}}
    report = evaluate_exploitability(Guess(), states, TabularScorer(table))
    assert report.values == pytest.approx((1.25, 1.25)) and report.gains == pytest.approx((0, 0.5))
    assert report.best_joint_value == pytest.approx(1.75) and report.teams is None
    game = make_game("kuhn_poker")
    assert tree_of(game) is game and rules_key(game) == game.rules_key
    game, other_game = (make_game("team_matrix", options={"members": members}) for members in (2, 3))
    assert rules_key(game) != rules_key(other_game) == HistoryTree(other_game).rules_key
    with pytest.raises(GameError, match="cannot evaluate"):
        evaluate_exploitability(other_game, enumerate_info_states(game), TabularScorer({}))


def test_no_tree_without_openings_and_no_exact_figures_for_free_text(monkeypatch):
    assert tree_of(make_game("sealed_auction")) is None
    with pytest.raises(GameError, match="no method openings"):
        enumerate_info_states(make_game("sealed_auction"))
    monkeypatch.setattr(GuessPlay, "legal", lambda self, seat: None)
    with pytest.raises(GameError, match="guess: no exact figures, as a seat may reply with any text"):
        enumerate_info_states(Guess())
