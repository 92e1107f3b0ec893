"""The two ends of a team's gain: by hand in the smallest Werewolf, and around the best joint plan."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from sparring.core.errors import GameError
from sparring.environments.catalogue import make_game
from sparring.measure.exact_figures import as_beneath, beneath, exact_figures_of
from sparring.measure.exploitability import (
    ask,
    figures_of,
    nash_conv,
    team_ends,
    team_exploitability,
)
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from sparring.measure.references import References, beside

ROOT = Path(__file__).parents[2]
SMALLEST = {"players": 3, "seer": False, "speech": "none", "tie": "none", "rounds": 1, "abstain": False}


def uniform(states):
    return [np.full(width, 1 / width) for width in states.widths]


def ends_of(options, name="werewolf"):
    game = make_game(name, options=options)
    states = enumerate_info_states(game)
    return game, states, team_ends(game, states, game.teams, uniform(states))


def test_two_villagers_and_a_wolf_by_hand():
    """Both villagers hit the wolf with probability 1/4; who sees both knows the wolf."""
    game, states, ends = ends_of(SMALLEST)
    assert len(states) == 9 and ends.values == pytest.approx((1 / 2, -1 / 2))
    assert ends.alone == pytest.approx((0, 0)) and ends.as_one == pytest.approx((0, 3 / 2))
    joint = team_exploitability(states, game.teams, [uniform(states)])
    assert joint.joint == pytest.approx((0, 1 / 2))  # votes that depend on a villager's own number hit the wolf in 3 of 6 deals


def test_what_the_page_says_of_plans_of_two_villagers():
    """Of six deals of numbers to two villagers and a wolf a plan wins those in which both vote for the wolf's."""
    deals = list(itertools.permutations(range(3)))

    def gain(first, second):
        return sum(first(one) == second(other) == wolf for one, other, wolf in deals) / len(deals) * 2 - 1 + 1 / 2

    plans = [dict(enumerate(votes)).__getitem__ for votes in itertools.product(range(3), repeat=3)]
    assert max(gain(*pair) for pair in itertools.product(plans, plans)) == pytest.approx(1 / 2)
    assert gain(lambda number: (number + 1) % 3, lambda number: (number - 1) % 3) == pytest.approx(1 / 2)
    assert [gain(plan, plan) for plan in plans if plan(0) == plan(1) == plan(2)] == pytest.approx([1 / 6] * 3)
    text = (ROOT / "docs" / "werewolf.md").read_text(encoding="utf-8")
    assert "best joint plan gains 1/2" in text and "vote for one fixed number gains 1/6" in text


def test_a_seer_alone_wins_half_of_the_plays_and_may_not_tell():
    ends = ends_of({**SMALLEST, "seer": True})[2]
    assert ends.values == pytest.approx((1 / 2, -1 / 2))
    assert ends.alone == pytest.approx((0, 1 / 2)) and ends.as_one == pytest.approx((0, 3 / 2))
    assert ends.one_seat_exploitability == pytest.approx(1 / 4) and ends.as_one_exploitability == pytest.approx(3 / 4)


@pytest.mark.always
@pytest.mark.parametrize("options", [{}, {"game": "seek_attack_defend", "members": 2}])
def test_seats_that_know_the_same_gain_as_much_as_one_player(options):
    game, states, ends = ends_of(options, "team_matrix")
    joint = team_exploitability(states, game.teams, [uniform(states)])
    assert ends.as_one == pytest.approx(joint.joint) and ends.alone == pytest.approx(joint.alone)
    assert max(ends.as_one) > max(ends.alone)


def test_the_best_joint_plan_lies_between():
    game, states, ends = ends_of({"words": 2, "leak": 0.4}, "code_words")
    joint = team_exploitability(states, game.teams, [uniform(states)])
    assert ends.alone == pytest.approx(joint.alone)
    assert all(low <= found <= high + 1e-9 for low, found, high in zip(ends.alone, joint.joint, ends.as_one, strict=True))
    # one player who holds the secret word names it whatever is said
    assert ends.as_one == pytest.approx((1 / 2, 1 / 2)) and ends.values == pytest.approx((0, 0))


def test_where_plans_are_too_many_both_ends_are_figures(monkeypatch):
    monkeypatch.setattr("sparring.measure.exploitability.MOST", 1)
    game = make_game("werewolf", options={**SMALLEST, "seer": True})
    report = nash_conv(game, enumerate_info_states(game), UniformScorer())
    found = figures_of(game, report)
    assert report.teams is None and found["one_seat_exploitability/werewolf"] == pytest.approx(1 / 4)
    assert found["as_one_exploitability/werewolf"] == pytest.approx(3 / 4)
    assert "team_exploitability/werewolf" not in found
    known = beside(game, References(uniform=report, best="equilibrium", values=None))
    of_best = {figure: best for figure, (_, best) in known.items() if figure.startswith("as_one_")}
    assert known["as_one_exploitability/werewolf"][0] == pytest.approx(3 / 4)
    assert len(of_best) == 3 and set(of_best.values()) == {None}  # an equilibrium's is not 0
    assert known["one_seat_exploitability/werewolf"] == (pytest.approx(1 / 4), 0.0)


def chooser_of(options, **given):
    return make_game("choose", options={"environment": {"name": "werewolf", "options": options}, **given})


def test_the_ends_of_a_chooser_are_those_of_what_it_plays_in_the_game_beneath(monkeypatch):
    """Who can vote for p1 does: the village wins where p1 is the wolf, and loses p1 where it is not."""
    game = chooser_of(SMALLEST, count=1, proposals={"p1": 1.0})
    states = enumerate_info_states(beneath(game))
    rows, _ = ask(as_beneath(game, UniformScorer()), states)
    ends = team_ends(beneath(game), states, game.teams, rows)
    assert ends.values == pytest.approx((1 / 3, -1 / 3))
    assert ends.alone == pytest.approx((0, 0)) and ends.as_one == pytest.approx((0, 4 / 3))
    monkeypatch.setattr("sparring.measure.exploitability.MOST", 1)
    found = exact_figures_of(game, states, UniformScorer()).figures
    assert found["as_one_exploitability/choose"] == pytest.approx(2 / 3)
    assert found["one_seat_exploitability/choose"] == pytest.approx(0)


def test_of_an_even_chooser_with_an_even_proposer_they_are_those_of_uniform_play(monkeypatch):
    monkeypatch.setattr("sparring.measure.exploitability.MOST", 1)
    game = chooser_of({**SMALLEST, "seer": True}, count=2)
    found = exact_figures_of(game, enumerate_info_states(beneath(game)), UniformScorer())
    assert found.values == pytest.approx((1 / 2, -1 / 2, -1 / 2))
    assert found.figures["one_seat_exploitability/choose"] == pytest.approx(1 / 4)
    assert found.figures["as_one_exploitability/choose"] == pytest.approx(3 / 4)


@pytest.mark.parametrize("options", [{"tie": "random"}, {"speech": "text", "style": "full"}, {"deduce": True}])
def test_a_chooser_whose_game_cannot_be_walked_is_refused(options):
    game = chooser_of({**SMALLEST, **options})
    with pytest.raises(GameError, match="werewolf: no exact figures"):
        enumerate_info_states(beneath(game))
