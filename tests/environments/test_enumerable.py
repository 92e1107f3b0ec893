"""The interface that solvers need: OpenSpiel games offer it, and other environments may."""

from dataclasses import dataclass

import numpy as np
import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.load import load, registered_names
from sparring.environments.openspiel.solvers import (
    average_policy,
    best_response_value,
    policy_table,
    tree_search,
)
from sparring.environments.tree_arrays import walk
from sparring.ops.game_tree import policy_values
from sparring.play.players.cfr import has_at_most_histories

KUHN_GAME, TIC_TAC_TOE_GAME = make_game("kuhn_poker"), make_game("tic_tac_toe")


def test_rules_keys_and_kinds_of_information():
    assert KUHN_GAME.rules_key == "kuhn_poker(players=2)" != make_game("kuhn_poker", options={"players": 3}).rules_key
    assert KUHN_GAME.rules_name == make_game("kuhn_poker", options={"players": 3}).rules_name == "kuhn_poker"
    assert (KUHN_GAME.perfect_information, TIC_TAC_TOE_GAME.perfect_information) == (False, True)
    assert KUHN_GAME.has_info_states and not make_game("hanabi").has_info_states


def test_nodes_follow_a_state_and_never_change():
    state = KUHN_GAME.reset(Stream.from_seed(0))
    node = KUHN_GAME.first_node()
    assert node.is_chance_node() and len(node.chance_outcomes()) == 3
    for event in state.trail:
        node = node.child(event.action)
    assert str(state.node) == str(node) and node.information_state_string(0) == state.observe(0).key
    earlier_node = state.node
    state.apply("bet")
    assert str(state.node) == str(earlier_node.child(1)) != str(earlier_node)  # the earlier node is unchanged


def test_only_games_with_a_table_offer_it():
    game = make_game("needle_chain")
    state = game.reset(Stream.from_seed(0))
    assert state.table is game.first_table
    with pytest.raises(AttributeError):
        _ = TIC_TAC_TOE_GAME.reset(Stream.from_seed(0)).table


def test_registered_games_are_loaded_by_name_and_options():
    make_game("needle_chain")  # registers its rules
    assert str(load("nim", {"pile_sizes": "1;2"})) == str(load("nim(pile_sizes=1;2)"))
    assert {"kuhn_poker", "needle_chain"} <= set(registered_names())


def test_values_of_average_policies_and_best_responses():
    table = average_policy(KUHN_GAME, "cfr_plus", 200)
    values = [best_response_value(KUHN_GAME, seat, table) for seat in (0, 1)]
    assert sum(values) == pytest.approx(0, abs=2e-3) and values[0] == pytest.approx(-1 / 18, abs=2e-3)
    never_bets = policy_table({key: [(0, 1.0), (1, 0.0)] for _, key in walk(KUHN_GAME).index_of})
    assert best_response_value(KUHN_GAME, 0, never_bets) == pytest.approx(1.0)  # each bet wins the pot


def test_tree_search_finds_the_winning_move():
    state = make_game("tic_tac_toe", options={"start": "a1 a2 b1 b2"}).reset(Stream.from_seed(0))
    root = tree_search(state, simulations=200, rollouts=1, uct_c=2.0, solve=True, seeds=(1, 2))
    best = root.best_child()
    assert state.game.words[best.action] == "c1" and best.outcome == [1.0, -1.0]


def test_a_tree_outside_openspiel_can_be_walked():
    assert (has_at_most_histories(Coin(), 7), has_at_most_histories(Coin(), 6)) == (True, False)
    arrays = walk(Coin())
    assert list(arrays.index_of) == [(0, "guess")] and arrays.legal == ((0, 1),)
    guess_values = policy_values(arrays.tree, arrays.seats, [np.array([0.5, 0.5])])
    assert guess_values.returns.tolist() == [0.5] and guess_values.action[0].tolist() == [0.25, 0.75]


@dataclass(frozen=True)
class Toss:
    """A hidden coin toss that one seat guesses; OpenSpiel has no such game."""

    faces: tuple[int, ...] = ()

    def is_terminal(self):
        return len(self.faces) == 2

    def is_chance_node(self):
        return not self.faces

    def current_player(self):
        return -1 if self.is_chance_node() else -4 if self.is_terminal() else 0

    def legal_actions(self):
        return [] if self.is_terminal() else [0, 1]

    def chance_outcomes(self):
        return [(0, 0.25), (1, 0.75)]

    def child(self, index):
        return Toss((*self.faces, index))

    def returns(self):
        return [float(self.faces[0] == self.faces[1])]

    def information_state_string(self, seat):
        return "guess"


class Coin:
    name, num_seats, rules_key, perfect_information, has_info_states = "coin", 1, "coin", False, True

    def first_node(self):
        return Toss()
