"""Configurations that the random search found faulty, now fixed; and tests of the search itself."""

import pytest

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.config.run import _keys_at
from sparring.core.errors import ConfigError
from tests.fuzz import cases
from tests.fuzz import configurations as fuzz

REFUSED_OVERRIDES = {  # overrides of kuhn-tiny, and a part of the error
    "value_loss without a critic": (
        ["losses=[{name: ppo_clip}, {name: value_loss}]"],
        "fits a critic, but credit 'mars' does not use it",
    ),
    "a person as opponent": (["evaluation.opponents=[{name: human}]"], "needs a person at a terminal"),
    "a person as bot": (["bots.b={name: human}"], "needs a person at a terminal"),
    "a very long word as device": (["model.device=" + 5000 * "x"], "not on device="),
    "very many words as device": (["model.device=" + 2500 * "x "], "not on device="),
}


@pytest.mark.parametrize("name", REFUSED_OVERRIDES)
def test_an_earlier_failure_is_refused_with_one_line(name, tmp_path):
    overrides, message = REFUSED_OVERRIDES[name]
    with pytest.raises(ConfigError) as error:
        resolve(apply_overrides(load_recipe("kuhn-tiny"), [*fuzz.QUICK, *overrides]))
    assert message in str(error.value) and "\n" not in str(error.value)
    assert fuzz.run_case("kuhn-tiny", [*fuzz.QUICK, *overrides], tmp_path, train=True) == "refused"


@pytest.mark.parametrize("field", ["retries", "penalty", "rule", "payoff"])
@pytest.mark.parametrize("value", [5000 * "x", 2500 * "x "])
def test_a_very_long_value_is_quoted_in_short(field, value, tmp_path):
    assert (
        fuzz.run_case("kuhn-tiny", [*fuzz.QUICK, f"environments.0.illegal.{field}={value}"], tmp_path, train=True)
        == "refused"
    )


def test_cases_depend_only_on_seed_and_number():
    cases_now, cases_again = ([cases.random_case(5, number, fuzz.QUICK) for number in range(12)] for _ in range(2))
    assert cases_now == cases_again
    assert len(set(cases_now)) == 12 and cases_now != [cases.random_case(6, number, fuzz.QUICK) for number in range(12)]


def test_a_few_cases_end_without_failure():
    endings = [fuzz.try_case(cases.random_case(7, number, fuzz.QUICK)) for number in range(25)]
    assert not [error for _, error in endings if error]
    assert {"refused", "planned"} <= {ending for ending, _ in endings}


def test_a_small_case_trains_a_step(tmp_path):
    assert fuzz.run_case("kuhn-tiny", list(fuzz.QUICK), tmp_path, train=True) == "trained"
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_game_that_takes_minutes_to_solve_is_only_planned(tmp_path):
    """CFR+ on Leduc poker with three players is below the limit of histories, but takes minutes."""
    overrides = [
        *fuzz.QUICK,
        "environments=[{name: leduc_poker, options: {players: 3}}]",
        "evaluation.opponents=[{name: cfr}]",
    ]
    assert fuzz.run_case("kuhn-tiny", overrides, tmp_path, train=True) == "planned"
    overrides[-2:] = ["evaluation.opponents=[{name: cfr, iterations: 2, games_per_seat: 2}]"]
    assert fuzz.run_case("kuhn-tiny", overrides, tmp_path, train=True) == "trained"


@pytest.mark.parametrize("oracle_name", registry.names("oracles"))
def test_an_oracle_has_limits_of_its_search(oracle_name, tmp_path):
    """Without limits, the oracle noisy searches 200,000 positions of go for each turn."""
    limits = {"max_histories", "max_states", "simulations"}
    plugin = registry.load("oracles", "minimax" if oracle_name == "noisy" else oracle_name)
    assert all(f"{key}: " in cases.oracle_limits(oracle_name) for key in limits & set(plugin.options))
    overrides = [
        *fuzz.QUICK,
        f"environments=[{{name: tic_tac_toe, oracle: {{name: {oracle_name}{cases.oracle_limits(oracle_name)}}}}}]",
    ]
    # the solvers search all of tic-tac-toe, so the case is only planned
    endings = {"planned"} if oracle_name in fuzz.SOLVERS else {"trained", "refused"}
    assert fuzz.run_case("kuhn-tiny", overrides, tmp_path, train=True) in endings


class LongError(ConfigError):
    def __str__(self):
        return 9999 * "x"


@pytest.mark.parametrize(
    "error_to_raise",
    [ValueError("x"), KeyError("x"), RecursionError("x"), MemoryError("x"), ConfigError("two\nlines"), LongError()],
)
def test_an_unexpected_error_is_reported_as_failed(error_to_raise, monkeypatch):
    def fail(*_):
        raise error_to_raise

    monkeypatch.setattr("sparring.config.RunConfig.check_plugins", fail)
    ending, error = fuzz.try_case(cases.Case(recipe="kuhn-tiny", overrides=fuzz.QUICK, train=False))
    assert ending == "FAILED" and error


def test_a_case_that_takes_too_long_is_reported_as_failed(monkeypatch):
    def loop_forever(*_):
        while True:
            pass

    monkeypatch.setattr("sparring.config.RunConfig.check_plugins", loop_forever)
    monkeypatch.setattr(fuzz, "CASE_SECONDS", 0.2)
    ending, error = fuzz.try_case(cases.Case(recipe="kuhn-tiny", overrides=fuzz.QUICK, train=False))
    assert ending == "FAILED" and error.startswith("SlowError")


def test_a_case_is_printed_as_a_command_to_paste():
    case = cases.Case(recipe="kuhn-tiny", overrides=("seed=1", "name='a b'"), train=False)
    assert fuzz.format_command(case) == "sparring train kuhn-tiny seed=1 'name='\"'\"'a b'\"'\"'' --dry-run"


@pytest.mark.parametrize(
    "path", [("checkpoint", "every", "x"), ("rollout", "starts", "x", "y"), ("evaluation", "exact", "exact")]
)
def test_a_key_below_a_plain_value_has_no_fields_to_choose_from(path):
    """The error suggests no fields, because the type `bool` has no fields."""
    assert isinstance(_keys_at(path), list)
