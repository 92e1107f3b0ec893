import pytest

from sparring.environments.catalogue import make_game
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from sparring.measure.references import compare_nash_conv, reference_values, references, references_of


@pytest.mark.parametrize(
    ("name", "options", "uniform", "best", "values"),
    [
        ("kuhn_poker", {}, 11 / 12, "equilibrium", (-1 / 18, 1 / 18)),
        ("kuhn_poker", {"players": 3}, 33 / 16, "equilibrium", None),
        ("leduc_poker", {}, 4.7472, "equilibrium", (-0.085606, 0.085606)),
        ("tiny_hanabi", {}, None, "best team", (10.0, 10.0)),
        ("needle_chain", {"length": 3}, 0.5, "best play", (1.0,)),
        ("repeated_dilemma", {}, None, "equilibrium", None),
    ],
)
def test_known_reference_values(name, options, uniform, best, values):
    game = make_game(name, options=options)
    reference = references(game, enumerate_info_states(game))
    assert reference.best == best
    assert reference.values == (None if values is None else pytest.approx(values, abs=1e-5))
    if uniform is not None:
        assert reference.uniform.nash_conv == pytest.approx(uniform, abs=1e-4)


def test_references_are_reported_beside_every_figure():
    game = make_game("kuhn_poker")
    game.name = "mine"
    values = reference_values(game, references(game, enumerate_info_states(game)))
    assert values["nash_conv/mine"] == (pytest.approx(11 / 12), 0.0)
    assert values["value/mine/first"] == (pytest.approx(0.125), pytest.approx(-1 / 18))
    assert sum(values[f"exploitability/mine/{role}"][0] for role in game.roles) == pytest.approx(11 / 12)


def test_large_games_have_no_references_and_small_ones_are_cached():
    assert references_of(make_game("connect_four")) is None
    assert references_of(make_game("kuhn_poker")) is references_of(make_game("kuhn_poker", options={"style": "full"}))


def test_the_sentence_states_the_distance_to_the_reference():
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    reference = references(game, states)
    assert compare_nash_conv("NashConv", 0.05, reference) == (
        "NashConv 0.050: uniform play has 0.917, an equilibrium 0; this is 5% of uniform play's."
    )
    report = evaluate_exploitability(game, states, UniformScorer())
    assert "100%" in compare_nash_conv("NashConv", report.nash_conv, reference)
