"""Wrong values are refused with one line that says what, the value shortened, where, and what to write instead."""

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import ConfigError, quoted
from tests.cases import every_case

HUGE = "1" + "0" * 310
BOMB = "{a: &a [x,x,x,x,x,x,x,x], b: &b [*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b,*b,*b], d: [*c,*c,*c,*c,*c,*c,*c,*c]}"
NESTED = "{a: " * 45 + "1" + "}" * 45


def refusal(*overrides):
    """Return the error of these changes to a recipe."""
    with pytest.raises(ConfigError) as caught:
        resolve(apply_overrides(load_recipe("kuhn-tiny"), overrides))
    return str(caught.value)


@every_case(
    ("override", "message"),
    [
        ("seed=" + "[" * 2000, "more than 50 levels"),
        ("seed=2001-99-99", "seed: Input should be a valid integer"),
        ("seed=!!int x", "no value for 'seed'"),
        ("seed=!!bool x", "no value for 'seed'"),
        ("losses.0.weight={schedule: []}", "losses.0.weight: unknown schedule []"),
        ("losses.0.weight={schedule: {a: 1}}", "losses.0.weight: unknown schedule"),
        ("losses.0.weight={1.5: x, schedule: linear}", "a linear schedule takes"),
        ("losses.0.weight={schedule: constant, value: {schedule: constant, value: 1}}", "numbers"),
        ("losses.0.weight={schedule: staircase, values: [0.1, .nan], at: [0.5]}", "finite"),
        (f"rollout.max_new_tokens={HUGE}", "bits"),
        (f"environments.0.illegal.penalty={HUGE}", "bits"),
        (f"threads={HUGE}", "bits"),
        ("threads=100000", "threads: Input should be less than or equal to 1024"),
        ("learner.learning_rate=-1", "learner.learning_rate: -1 is too small; write 0 or more"),
        ("learner.learning_rate={schedule: linear, start: -1, end: 0}", "learner.learning_rate: -1 is too small"),
        ("learner.learning_rate=.nan", "learner.learning_rate: nan is not a finite number"),
        ("learner.learning_rate=.inf", "learner.learning_rate: inf is not a finite number"),
        ("learner.learning_rate=1e300", "learner.learning_rate"),
        ("process.learning_rate=.nan", "process.learning_rate: nan"),
        ("process.learning_rate=-0.1", "process.learning_rate: -0.1"),
        ("learner.betas=[2, -1]", "learner.betas.0"),
        ("learner.betas=[0.9, 1]", "learner.betas.1"),
        ("learner.minibatches=9223372036854775808", "learner.minibatches: Input should be less than or equal to 10000"),
        ("learner.gradient_norm=.inf", "learner.gradient_norm: Input should be a finite number"),
        ("learner.weight_decay=.inf", "learner.weight_decay: Input should be a finite number"),
        ("rollout.max_turns=.nan", "rollout.max_turns: nan"),
        ("rollout.max_turns=0", "rollout.max_turns: 0 is too small; write 1 or more"),
        ("rollout.max_turns=-1", "rollout.max_turns: -1"),
        ("rollout.temperature=.inf", "rollout.temperature: Input should be a finite number"),
        ("rollout.temperature=1e-300", "rollout.temperature"),
        ("rollout.games_per_step=9223372036854775807", "rollout.games_per_step"),
        ("rollout.starts=9223372036854775807", "rollout.starts"),
        ("model.hidden_size=4294967296", "model.hidden_size"),
        ("model.layers=1000000000", "model.layers"),
        ("model.context=1000000000000", "model.context"),
        ("environments.0.weight=.inf", "environments.0.weight: Input should be a finite number"),
        ("environments.0.weight=.nan", "environments.0.weight"),
        ("losses.0.weight=.nan", "losses.0.weight: nan is not a finite number"),
        ("losses.0.weight=true", "neither a number nor a schedule"),
        ("losses=[{name: masked_is}]", "losses: nothing trains the policy, as masked_is cannot alone; add a line such as - {name: ppo_clip}"),
        ("losses=[{name: truncated_is}, {name: probability_mask}]", "nothing trains the policy"),
        ("losses=[{name: value_loss}]", "nothing trains the policy"),
        (f"name={BOMB}", "name: Input should be a valid string"),
        (f"learner.learning_rate={BOMB}", "neither a number nor a schedule"),
        (f"evaluation={NESTED}", "evaluation"),
        ("name=12e5", "name: Input should be a valid string, got 1200000.0; write it in quotes"),
        ("=".join(["a." * 60 + "b", "1"]), "more than 50 levels down"),
        ("x" * 5000 + "=1", "Unknown key"),
        ("credit.name=" + "x" * 5000, "Unknown advantage estimator"),
        ("{1: 2}=3", "Unknown key"),
        ("environments.0.options={1: 2}", "environments.0.options"),
        ("losses=3", "losses: Input should be a valid list"),
        ("losses=[]", "losses"),
        ("bots=[1]", "bots"),
        ("credit=null", "credit"),
    ],
    ids=lambda text: quoted(text, 60),
)
def test_wrong_values_get_one_line(override, message):
    said = refusal(override)
    assert message in said
    assert "\n" not in said and len(said) < 900


@pytest.mark.parametrize(
    ("override", "value"), [("learner.learning_rate=1e-4", 1e-4), ("learner.learning_rate=5E-5", 5e-5), ("learner.weight_decay=1e-2", 0.01)]
)
def test_exponents_are_numbers_in_overrides(override, value):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), [override]))
    assert getattr(config.learner, override.partition("=")[0].partition(".")[2]) == value


def test_exponents_are_numbers_and_a_recipe_may_extend_one_twice(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: kuhn-tiny\nname: '12e5'\nlearner: {learning_rate: {schedule: cosine, start: 3e-3, end: 1e-5}}\ncredit: {name: grpo, epsilon: 9e-1}\n")
    config = resolve(load_recipe(str(path)))
    assert config.learner.learning_rate == {"schedule": "cosine", "start": 3e-3, "end": 1e-5}
    assert config.credit.bind("credit").options["epsilon"] == 0.9
    assert config.name == "12e5"
    for name in ("left", "right"):
        (tmp_path / f"{name}.yaml").write_text("extends: kuhn-tiny\nsteps: 7\n")
    (tmp_path / "both.yaml").write_text(f"extends: [{tmp_path / 'left.yaml'}, {tmp_path / 'right.yaml'}]\n")
    assert resolve(load_recipe(str(tmp_path / "both.yaml"))).steps == 7
    losses = "losses=[{name: masked_is}, {name: policy_gradient}, {name: value_loss}]"
    assert len(resolve(apply_overrides(load_recipe("kuhn-tiny"), [losses, "credit={name: gae}"])).losses) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: 5", "extends must be a recipe's name or a list of names, got 5"),
        ("extends: null", "extends must be"),
        ("extends: [[demo]]", "extends must be"),
        ("extends: {a: 1}", "extends must be"),
        ("extends: {itself}", "extends itself"),
        ("extends: [demo, {itself}]", "extends itself"),
        ("extends: {other}", "extends itself"),
        ("extends: ../suites/mars", "Unknown recipe"),
        ('extends: "a\\0b"', "Unknown recipe"),
        ("extends: " + "x" * 300, "Unknown recipe"),
        ("a: " + "[" * 3000, "more than 50 levels"),
        ("seed: !!int x", "does not fit its kind"),
        ("name: \xff", "not UTF-8"),
        ("5", "must be a mapping"),
        ("", "must be a mapping"),
    ],
    ids=lambda text: quoted(text, 40),
)
def test_wrong_recipes_get_one_line(text, message, tmp_path):
    mine, other = tmp_path / "mine.yaml", tmp_path / "other.yaml"
    mine.write_bytes(text.replace("{itself}", str(mine)).replace("{other}", str(other)).encode("latin-1"))
    other.write_text(f"extends: {mine}")
    with pytest.raises(ConfigError, match=message) as caught:
        resolve(load_recipe(str(mine)))
    assert "\n" not in str(caught.value)
