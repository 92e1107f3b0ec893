"""Team matrix games: payoffs by hand, properties of all three games, prompts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.base import seats_by_player, teams_of
from sparring.environments.team_matrix import team_matrix
from sparring.testing import check_environment
from tests.environments.worlds import make_refusal_test

GAMES = ("example", "rock_paper_scissors", "seek_attack_defend")


def payoff_of_first_team(words, other_words, **options):
    rules = team_matrix(members=len(words.split()), **options)
    episode = rules.reset(Stream.from_seed(0))
    assert episode.due() == tuple(range(rules.num_seats)) and episode.returns == (0.0,) * rules.num_seats
    episode.step(dict(enumerate([*words.split(), *other_words.split()])))
    value = episode.returns[0]
    assert episode.done and episode.returns == (value,) * rules.payoffs.members + (-value,) * rules.payoffs.members
    return value


@pytest.mark.parametrize("style", ["brief", "full"])
@pytest.mark.parametrize("game", GAMES)
def test_environment_contract(game, style):
    check_environment(team_matrix, game=game, style=style, plays=5, members=2)


@pytest.mark.parametrize(
    ("words", "other_words", "payoff"),
    [
        ("zero zero zero", "zero zero zero", 0.0),
        ("one one one", "one one one", 0.0),
        ("one one one", "one zero zero", 2.0),
        ("zero one zero", "one zero one", -1.0),
        ("zero zero zero", "one zero one", 0.2),
        ("zero zero zero", "one one one", 1.5),
        ("one zero zero", "zero zero zero", -0.1),
        ("one one one", "zero zero zero", -1.5),
    ],
)
def test_payoffs_of_the_example_match_the_paper(words, other_words, payoff):
    assert payoff_of_first_team(words, other_words) == pytest.approx(payoff)


@pytest.mark.parametrize(
    ("words", "other_words", "payoff"),
    [
        ("rock rock", "scissors scissors", 1.0),
        ("rock scissors", "rock rock", 1.0),
        ("scissors scissors", "scissors rock", 1.0),
        ("rock scissors", "scissors rock", 0.0),
        ("scissors scissors", "rock rock", -1.0),
        ("rock rock rock", "rock rock scissors", -1.0),
    ],
)
def test_payoffs_of_rock_paper_scissors_by_hand(words, other_words, payoff):
    assert payoff_of_first_team(words, other_words, game="rock_paper_scissors") == payoff


@pytest.mark.parametrize(
    ("words", "other_words", "options", "payoff"),
    [
        ("10 10 10 10", "0 0 0 0", {}, 8.0),
        ("10 9 10 9", "0 0 0 0", {}, 2 * 2 + 2 * 1.81),
        ("10 8 10 8", "0 0 0 0", {}, 0.0),
        ("1 3 1 3", "0 0 0 0", {}, 2 * 1.01),
        ("0 1 0 1", "0 0 0 0", {}, 2 * 1.01),
        ("10 attack attack 10", "10 10 10 10", {}, 4.0),
        ("10 attack attack 10", "10 10 10 defend", {}, 4.0 - 6.0),
        ("10 attack 10 10", "10 10 10 10", {}, 6.0 - 8.0),
        ("10 attack attack 10", "attack attack 10 10", {}, 0.0),
        ("10 attack attack 10", "10 10 10 10", {"cost": 0.5}, 4.0 - 1.0),
        ("10 attack attack 10", "10 10 10 10", {"force": 3}, 4.0 - 8.0),
        ("attack attack attack attack", "defend defend defend defend", {}, 0.0),
        ("2 2 2 2", "0 0 0 0", {"levels": 2}, 8.0),
    ],
)
def test_payoffs_of_seek_attack_defend_by_hand(words, other_words, options, payoff):
    assert payoff_of_first_team(words, other_words, game="seek_attack_defend", **options) == pytest.approx(payoff)


@given(data=st.data(), game=st.sampled_from(GAMES), members=st.integers(2, 5), cost=st.sampled_from([0.0, 0.3]))
def test_payoffs_are_zero_sum_and_ignore_the_order_of_members(data, game, members, cost):
    payoffs = team_matrix(game=game, members=members, cost=cost, levels=4).payoffs
    choice = st.lists(st.integers(0, len(payoffs.words) - 1), min_size=members, max_size=members)
    choices, other_choices = (tuple(data.draw(choice)) for _ in range(2))
    shuffled = tuple(data.draw(st.permutations(choices)))
    summary, other_summary = payoffs.summary_of(choices), payoffs.summary_of(other_choices)
    assert payoffs.payoff(summary, other_summary) == -payoffs.payoff(other_summary, summary)
    assert payoffs.summary_of(shuffled) == summary and payoffs.payoff(summary, summary) == 0.0
    assert abs(payoffs.payoff(summary, other_summary)) <= payoffs.max_payoff


def test_teams_and_prompts_by_hand():
    assert teams_of(team_matrix(members=2)) == (0, 0, 1, 1)
    assert seats_by_player(teams_of(team_matrix(members=3))) == ((0, 1, 2), (3, 4, 5))
    episode = team_matrix(members=2, style="full").reset(Stream.from_seed(0))
    observation = episode.observe(1)
    assert "You are a2. You play with a1, against b1 and b2." in observation.text
    assert "a1 and a2 against b1 and b2." in observation.text and "exactly one of: zero, one." in observation.ask
    episode.step({0: "zero", 1: "one", 2: "one", 3: "one"})
    assert episode.ending(2) == "b1 chose one, b2 chose one, a1 chose zero, a2 chose one. Your team got 1."
    assert (
        episode.described(None)
        == "The play is over. Team a chose zero and one and got -1. Team b chose one and one and got 1."
    )


test_options_out_of_range_are_refused = make_refusal_test("team_matrix", {"force": 4}, {"force": 0}, by_option=True)
