"""Episodes of ordinal 2x2 games: prompts, hidden choices, returns, and the suites."""

import itertools
from collections import Counter

import pytest

from sparring.core.errors import ConfigError
from sparring.environments.ordinal_2x2.games import CELLS, FAMILIES, select_games
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from sparring.measure.suite import load_suite
from tests.environments.worlds import make_game_factory, state_after

DILEMMA = {"game": "prisoners_dilemma", "drawn": False}  # cooperation is the second choice there
game = make_game_factory("ordinal_2x2")


@pytest.mark.parametrize(
    ("pay", "returns"),
    [
        ("own", [(2, 2), (4, 1), (1, 4), (3, 3)]),
        ("response", [(1, 1), (1, 0), (0, 1), (0, 0)]),
        ("equilibrium", [(1, 1), (0, 0), (0, 0), (0, 0)]),
        ("joint", [(0, 0), (0, 0), (0, 0), (1, 1)]),
    ],
)
def test_returns_by_hand(pay, returns):
    rules = game(**DILEMMA, pay=pay)
    assert [state_after(rules, *words).returns for words in itertools.product(("one", "two"), repeat=2)] == returns
    assert rules.cooperative == (pay in ("equilibrium", "joint"))
    assert (rules.min_utility, rules.max_utility) == ((1.0, 4.0) if pay == "own" else (0.0, 1.0))
    assert state_after(rules, "one").returns == (0.0, 0.0)


def test_prompts_and_solutions_by_hand():
    rules = game(game="2", drawn=False)  # seat 0: 1 2 3 4; seat 1: 1 3 2 4
    assert state_after(rules).observe(0).text == "ordinal row 1 2 3 4 1 2 3 4"
    assert state_after(rules, "one").observe(1).text == "ordinal column 1 3 2 4 1 3 2 4"
    assert (
        state_after(rules, "one", "two").observe(0, 1).text == "two"
        and state_after(rules, "one", "two").observe(1, 2).text == "one"
    )
    for payoff_rule in ("response", "equilibrium", "joint"):
        for style in ("brief", "full"):
            other_pay_rules, own_pay_rules = (
                game(game="2", drawn=False, style=style, pay=option) for option in (payoff_rule, "own")
            )
            assert state_after(other_pay_rules).observe(0) == state_after(own_pay_rules).observe(0)
    full_style_state = state_after(game(**DILEMMA, style="full"), "one")
    assert (
        "If you choose one and the other player chooses two: 4 for you, 1 for the other player."
        in full_style_state.observe(1).text
    )
    assert game().spiel.max_chance_outcomes() == 4 * 144 and game(drawn=False).spiel.max_chance_outcomes() == 144
    rules = game(game="prisoners_dilemma")
    counts = Counter(state_after(rules, seed=seed).observe(0).key for seed in range(200))
    assert len(counts) == 4 and min(counts.values()) > 30
    assert rules.illegal.forfeit_returns(rules, state_after(rules), 0)[0] == 1.0
    rules = game(**DILEMMA)
    report = evaluate_exploitability(rules, enumerate_info_states(rules), UniformScorer())
    assert report.values == pytest.approx((2.5, 2.5)) and report.gains == pytest.approx(
        (0.5, 0.5)
    )  # against uniform play, defecting earns (4 + 2) / 2 = 3
    info_states = enumerate_info_states(game(game="cyclic"))
    assert len(info_states) == 2 * 4 * 18
    with pytest.raises(
        ConfigError,
        match=r"game='dilema' is none of all, win_win, .* numbers from 1 to 144; write game=prisoners_dilemma",
    ):
        game(game="dilema")
    assert game(game=7).spiel.max_chance_outcomes() == 4


@pytest.mark.parametrize("style", ["brief", "full"])
def test_a_choice_is_hidden_until_both_have_chosen(style):
    rules = game(style=style)
    for seed in range(20):
        state, other_state = (state_after(rules, word, seed=seed) for word in ("one", "two"))
        assert (
            state.observe(1) == other_state.observe(1)
            and state.described(1) == other_state.described(1)
            and state.draw(1) == other_state.draw(1)
        )
        assert state.observe(0).key != other_state.observe(0).key
        final_keys = [state_after(rules, word, "one", seed=seed).observe(1).key for word in ("one", "two")]
        assert final_keys[0] != final_keys[1]


@pytest.mark.parametrize("seat", [0, 1])
def test_a_seat_remembers_its_own_choice_first_then_the_others(seat):
    words = ("one", "two")
    keys = [state_after(game(**DILEMMA), *words[:count]).observe(seat).key for count in (0, seat + 1, 2)]
    assert keys[1] == f"{keys[0]} {words[seat]}" if seat == 0 else keys[1] == keys[2]
    assert keys[2] == f"{keys[0]} {words[seat]} {words[1 - seat]}"


def test_suites_hold_every_family_and_game_with_every_payoff():
    _, suite = load_suite("ordinal-2x2")
    rows = {(row.options["game"], row.options.get("pay", "own")): row for row in suite.rows}
    pays = ("own", "response", "equilibrium", "joint")
    assert set(rows) == set(itertools.product(FAMILIES, pays)) - {("cyclic", "equilibrium")} and len(rows) == len(
        suite.rows
    )
    assert sum(len(select_games(name)) for name in FAMILIES) == 144
    for (_, pay), row in rows.items():
        assert (row.kind, row.in_totals) == ("match" if pay in ("own", "response") else "coplay", pay == "own")
        assert row.normalise == ((1, 4) if pay == "own" else (0, 1))
    assert len(CELLS) == 4
    _, suite = load_suite("ordinal-2x2-games")
    rows = {(row.options["game"], row.options.get("pay", "own")): row for row in suite.rows}
    pays = ("own", "response", "equilibrium", "joint")
    assert set(rows) == set(itertools.product(range(1, 145), pays)) and len(rows) == len(suite.rows) == 576
