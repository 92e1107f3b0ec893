"""What random configurations found, and whether what tries them would notice a fault."""

import pytest

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.config.run import _keys_at
from sparring.core.errors import ConfigError
from tests.fuzz import cases
from tests.fuzz import configurations as fuzz

REFUSED = {  # the changes to kuhn-tiny -> a part of the one line that refuses them
    "value_loss without a critic": (
        ["losses=[{name: ppo_clip}, {name: value_loss}]"],
        "fits a critic, but credit 'mars' does not use it",
    ),
    "a person as opponent": (["evaluation.opponents=[{name: human}]"], "needs a person at a terminal"),
    "a person as bot": (["bots.b={name: human}"], "needs a person at a terminal"),
    "a very long word as device": (["model.device=" + 5000 * "x"], "not on device="),
    "very many words as device": (["model.device=" + 2500 * "x "], "not on device="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_was_found_is_refused_with_one_line(name, tmp_path):
    overrides, message = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        resolve(apply_overrides(load_recipe("kuhn-tiny"), [*fuzz.QUICK, *overrides]))
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert fuzz.outcome("kuhn-tiny", [*fuzz.QUICK, *overrides], tmp_path, train=True) == "refused"


@pytest.mark.parametrize("field", ["retries", "penalty", "rule", "payoff"])
@pytest.mark.parametrize("value", [5000 * "x", 2500 * "x "])
def test_a_very_long_value_is_quoted_shortly(field, value, tmp_path):
    assert (
        fuzz.outcome("kuhn-tiny", [*fuzz.QUICK, f"environments.0.illegal.{field}={value}"], tmp_path, train=True)
        == "refused"
    )


def test_cases_depend_on_seed_and_number_alone():
    first, again = ([cases.random_case(5, number, fuzz.QUICK) for number in range(12)] for _ in range(2))
    assert first == again
    assert len(set(first)) == 12 and first != [cases.random_case(6, number, fuzz.QUICK) for number in range(12)]


def test_a_few_cases_end_well():
    ended = [fuzz.attempt(cases.random_case(7, number, fuzz.QUICK)) for number in range(25)]
    assert not [wrong for _, wrong in ended if wrong]
    assert {"refused", "planned"} <= {how for how, _ in ended}


def test_a_small_case_trains_a_step(tmp_path):
    assert fuzz.outcome("kuhn-tiny", list(fuzz.QUICK), tmp_path, train=True) == "trained"
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_game_that_is_solved_for_minutes_is_planned_only(tmp_path):
    """CFR+ on Leduc poker with three players: within its limit of histories, and minutes of work that was asked for."""
    changes = [
        *fuzz.QUICK,
        "environments=[{name: leduc_poker, options: {players: 3}}]",
        "evaluation.opponents=[{name: cfr}]",
    ]
    assert fuzz.outcome("kuhn-tiny", changes, tmp_path, train=True) == "planned"
    changes[-2:] = ["evaluation.opponents=[{name: cfr, iterations: 2, games_per_seat: 2}]"]
    assert fuzz.outcome("kuhn-tiny", changes, tmp_path, train=True) == "trained"


@pytest.mark.parametrize("judge", registry.names("oracles"))
def test_an_oracle_has_a_budget(judge, tmp_path):
    """The oracle noisy judged go with 200,000 positions to look at for each turn: minutes that were asked for."""
    limits = {"max_histories", "max_states", "simulations"}
    spoilt = registry.load("oracles", "minimax" if judge == "noisy" else judge)
    assert all(f"{key}: " in cases.budget(judge) for key in limits & set(spoilt.options))
    changes = [*fuzz.QUICK, f"environments=[{{name: tic_tac_toe, oracle: {{name: {judge}{cases.budget(judge)}}}}}]"]
    ways = {"planned"} if judge in fuzz.SOLVERS else {"trained", "refused"}  # these solve the whole of tic-tac-toe
    assert fuzz.outcome("kuhn-tiny", changes, tmp_path, train=True) in ways


class LongError(ConfigError):
    def __str__(self):
        return 9999 * "x"


@pytest.mark.parametrize(
    "fault",
    [ValueError("x"), KeyError("x"), RecursionError("x"), MemoryError("x"), ConfigError("two\nlines"), LongError()],
)
def test_a_fault_is_noticed(fault, monkeypatch):
    def fail(*_):
        raise fault

    monkeypatch.setattr("sparring.config.RunConfig.check_plugins", fail)
    how, wrong = fuzz.attempt(cases.Case(recipe="kuhn-tiny", overrides=fuzz.QUICK, train=False))
    assert how == "FAILED" and wrong


def test_what_takes_too_long_is_noticed(monkeypatch):
    def spin(*_):
        while True:
            pass

    monkeypatch.setattr("sparring.config.RunConfig.check_plugins", spin)
    monkeypatch.setattr(fuzz, "SECONDS", 0.2)
    how, wrong = fuzz.attempt(cases.Case(recipe="kuhn-tiny", overrides=fuzz.QUICK, train=False))
    assert how == "FAILED" and wrong.startswith("SlowError")


def test_a_case_is_printed_as_a_command_to_paste():
    case = cases.Case(recipe="kuhn-tiny", overrides=("seed=1", "name='a b'"), train=False)
    assert fuzz.command(case) == "sparring train kuhn-tiny seed=1 'name='\"'\"'a b'\"'\"'' --dry-run"


@pytest.mark.parametrize(
    "path", [("checkpoint", "every", "x"), ("rollout", "starts", "x", "y"), ("evaluation", "exact", "exact")]
)
def test_a_key_below_a_plain_value_has_no_fields_to_choose_from(path):
    """What is wrong there is told without a suggestion; `bool` was asked for its fields."""
    assert isinstance(_keys_at(path), list)
