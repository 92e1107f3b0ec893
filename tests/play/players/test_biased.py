"""Draws by weights: the chances by hand, a name that is no action, and weights that are none."""

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game

ROOT = Stream.from_seed(2)


def made(weights=None):
    return registry.bind("players", "biased", {} if weights is None else {"weights": weights})()


def course(name="rock_paper_scissors", **options):
    return make_game(name, options=options).reset(ROOT)


def test_chances_are_the_weights_and_one_for_those_that_are_not_named():
    assert made({"rock": 3, "paper": 1}).chances(course(), 0) == pytest.approx({"rock": 0.6, "paper": 0.2, "scissors": 0.2})
    assert made({"paper": 0, "scissors": 0.5}).chances(course(), 1) == pytest.approx({"rock": 2 / 3, "paper": 0, "scissors": 1 / 3})
    assert made().chances(course("kuhn_poker"), 0) == {"pass": 0.5, "bet": 0.5}
    assert made({"pass": 0, "bet": 0}).chances(course("kuhn_poker"), 0) == {"pass": 0.5, "bet": 0.5}


def test_it_draws_as_it_says_and_never_what_has_no_weight():
    bot = made({"rock": 3, "paper": 0})
    drawn = [bot.choose(course(), 0, ROOT.child(number)) for number in range(2000)]
    assert drawn.count("paper") == 0 and abs(drawn.count("rock") / 2000 - 0.75) < 0.04


def test_among_fewer_legal_actions_the_weights_are_of_those():
    board = course("tic_tac_toe")
    board.apply("b2")
    found = made({"b2": 100, "a1": 3}).chances(board, 1)
    assert "b2" not in found and found["a1"] == pytest.approx(0.3) and found["c3"] == pytest.approx(0.1)


@pytest.mark.parametrize("combinator", ["trial", "repeated"])
@pytest.mark.parametrize(("name", "wrong", "right"), [("rock_paper_scissors", "rok", "rock"), ("kuhn_poker", "bett", "bet"), ("tic_tac_toe", "a4", "a1")])
def test_a_name_that_is_no_action_is_an_error_inside_combinators_too(combinator, name, wrong, right):
    for play in (course(name), course(combinator, environment={"name": name})):
        with pytest.raises(UnknownNameError, match=f"action '{wrong}'"):
            made({wrong: 2}).choose(play, 0, ROOT)
        assert made({right: 2}).choose(play, 0, ROOT) in play.legal(0)


def test_a_word_of_the_combinator_is_no_action():
    with pytest.raises(UnknownNameError, match="action 'note'"):
        made({"note": 2}).chances(course("trial", environment={"name": "rock_paper_scissors"}), 0)


@pytest.mark.parametrize("weight", [-1, float("inf"), float("nan")])
def test_weights_that_are_none_are_refused(weight):
    with pytest.raises(ConfigError, match=r"biased: the weight of 'rock' is -1|'weights.rock': Input should be a finite number"):
        made({"rock": weight})


def test_weights_whose_sum_is_no_number_are_refused():
    with pytest.raises(ConfigError, match=r"biased: .* sum to more than a number holds"):
        registry.bind("players", "biased", {"weights": {"rock": 1e308, "paper": 1e308}})()
