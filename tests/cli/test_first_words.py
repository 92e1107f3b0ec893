"""What somebody types first, and what is answered."""

import shlex

import pytest
from typer.testing import CliRunner

from sparring import cli
from sparring.config import resolve
from sparring.config.plugins.registry import FIELD_NAMES
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import ConfigError, SparringError, nearest
from sparring.report.catalogue import entries, explanation


def refusal(*words):
    """Return the one line that a command is refused with."""
    outcome = CliRunner().invoke(cli.app, list(words))
    assert isinstance(outcome.exception, SparringError), outcome.output
    return str(outcome.exception)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["kuhn-tiny", "--steps", "10"], "write 'steps=10'"),
        (["kuhn-tiny", "--learner.learning_rate=0.1"], "write 'learner.learning_rate=0.1'"),
        (["kuhn-tiny", "steps", "10"], "write 'steps=10'"),
        (["kuhn-tiny", "credit.name=ppo"], "credit.name=gae 'losses=[{name: ppo_clip}"),
        (["kuhn-tiny", "credit.name=REINFORCE"], "credit.name=outcome"),
        (["kuhn-tiny", "credit.name=a2c"], "policy_gradient"),
        (["kuhn-tiny", "environments.0.name=kuhn"], "Did you mean 'kuhn_poker'"),
        (["kuhn-tiny", "learner.learning_rate=[0.001, 0.002]"], "start a run for each"),
        (["kuhn-tiny", "scale.fleet=simulated", "scale.workers=2"], "scale.fleet: Input should be 'here', 'processes' or 'ray', got 'simulated'"),
    ],
)
def test_training_says_what_to_write(words, advice, tmp_path):
    said = refusal("train", *words, "--run", str(tmp_path / "run"))
    assert advice in said and len(said) < 900


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["scale", "plan", "kuhn-tiny", "--workers", "8"], "write: sparring train RECIPE --dry-run"),
        (["credit", "race", "--seeds", "2"], "`sparring credit race` was removed in version 0.3"),
        (["scale", "chaos", "kuhn-tiny"], "`sparring scale` was removed in version 0.3"),
        (["scale", "--help"], "write: sparring train RECIPE steps=3"),
        (["train", "kuhn-tiny", "--dry-run", "--assume", "play=3"], "`sparring train --assume` was removed in version 0.3"),
        (["train", "kuhn-tiny", "--times=scale.json"], "write: sparring train RECIPE steps=3"),
    ],
)
def test_what_was_removed_says_what_to_write_instead(words, advice):
    said = refusal(*words)
    assert advice in said and "\n" not in said


def test_an_environment_and_the_folder_of_a_run_are_told_apart(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("name: x\n")
    assert f"sparring train --run {tmp_path} --resume" in refusal("train", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert "sparring play --environment kuhn_poker" in refusal("play", "kuhn_poker")


@pytest.mark.parametrize(
    ("recipe", "advice"),
    [
        ("extends: kuhn-tiny\n  steps: 3\n", "begin in the same column"),
        ("steps: 3\n", "environments: a recipe names what is played; begin it with the line extends: kuhn-tiny"),
    ],
)
def test_a_wrong_file_says_how_to_mend_it(recipe, advice, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(recipe)
    with pytest.raises(ConfigError, match=advice):
        resolve(load_recipe(str(path)))


@pytest.mark.parametrize("name", ["ppo", "PPO", "a2c", "actor_critic", "reinforce", "dapo", "dr_grpo"])
def test_algorithms_under_other_names_are_explained(name):
    assert "credit" in explanation(name)


@pytest.mark.parametrize("name", ["ppo", "a2c", "reinforce", "dapo", "dr_grpo"])
def test_what_is_advised_for_an_algorithm_is_a_configuration(name):
    words = [word.rstrip(".") for word in shlex.split(FIELD_NAMES[name].partition(";")[0]) if "=" in word]
    assert words[0].startswith("credit")
    resolve(apply_overrides(load_recipe("kuhn-tiny"), words))


def test_names_that_begin_alike_and_first_recipes_come_first():
    assert nearest("kuhn", ["urn", "kuhn_poker", "kuhn_rounds", "run"])[0] == "kuhn_poker"
    assert nearest("", ["urn"]) == []
    assert [row["name"] for row in entries("recipes")][:3] == ["demo", "kuhn-tiny", "tictactoe-tiny"]


def test_a_run_is_planned_and_measured_as_its_configuration_says():
    text = CliRunner().invoke(cli.app, ["train", "kuhn-tiny", "--dry-run"]).stdout
    assert "updates:" in text and "learning_rate" not in text and "add --json" in text
    whole = CliRunner().invoke(cli.app, ["train", "kuhn-tiny", "--dry-run", "--json"]).stdout
    assert '"plan"' in whole and '"learning_rate"' in whole
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), ["evaluation.every=20"])).evaluation
    assert [step for step in range(1, 46) if config.is_due(step, 45)] == [1, 20, 40, 45]
    never = resolve(apply_overrides(load_recipe("kuhn-tiny"), ["evaluation.every=0"])).evaluation
    assert not any(never.is_due(step, 45) for step in range(1, 46))
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), ["environments=leduc_poker", "losses={name: ppo_clip}"]))
    assert [section.name for section in config.environments] == ["leduc_poker"]
    assert [loss.name for loss in config.losses] == ["ppo_clip"]


def test_playing_again_takes_only_an_answer(monkeypatch):
    from sparring.cli import play

    answers = iter(["foo", "S"])
    monkeypatch.setattr(play, "_ask", lambda text: next(answers))
    assert play._ask_again(alone=False) == "s"
    answers = iter(["s", "later", ""])
    assert play._ask_again(alone=True) == "y"


def test_commands_are_printed_as_the_program_was_called(monkeypatch):
    from sparring.cli import text

    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("sys.argv", [".venv/bin/sparring", "train"])
    assert text.command() == ".venv/bin/sparring"
    monkeypatch.setattr("sys.argv", ["pytest"])
    assert text.command() == "sparring"
