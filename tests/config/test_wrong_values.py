"""A wrong value is refused with one line, which states the value, its key and a valid replacement."""

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import ConfigError, quoted
from tests.cases import every_case

HUGE_NUMBER = "1" + "0" * 310
ALIAS_BOMB = "{a: &a [x,x,x,x,x,x,x,x], b: &b [*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b,*b,*b], d: [*c,*c,*c,*c,*c,*c,*c,*c]}"
NESTED = "{a: " * 45 + "1" + "}" * 45


def refusal(*overrides):
    with pytest.raises(ConfigError) as error:
        resolve(apply_overrides(load_recipe("kuhn-tiny"), overrides))
    return str(error.value)


@every_case(
    ("override", "message"),
    [
        ("seed=" + "[" * 2000, "more than 50 nested levels"),
        ("seed=2001-99-99", "seed: Input should be a valid integer"),
        ("seed=!!int x", "not a value for 'seed'"),
        ("losses.0.weight={schedule: []}", "losses.0.weight: unknown schedule []"),
        ("losses.0.weight={1.5: x, schedule: linear}", "a linear schedule takes"),
        ("losses.0.weight={schedule: constant, value: {schedule: constant, value: 1}}", "numbers"),
        ("losses.0.weight={schedule: staircase, values: [0.1, .nan], at: [0.5]}", "finite"),
        (f"environments.0.illegal.penalty={HUGE_NUMBER}", "bits"),
        ("threads=100000", "threads: Input should be less than or equal to 1024"),
        ("learner.learning_rate=-1", "learner.learning_rate: -1 is too small; write 0 or more"),
        ("learner.learning_rate={schedule: linear, start: -1, end: 0}", "learner.learning_rate: -1 is too small"),
        ("learner.learning_rate=.nan", "learner.learning_rate: nan is not a finite number"),
        ("learner.learning_rate=1e300", "learner.learning_rate"),
        ("process.learning_rate=.nan", "process.learning_rate: nan"),
        ("learner.betas=[0.9, 1]", "learner.betas.1"),
        ("learner.minibatches=9223372036854775808", "learner.minibatches: Input should be less than or equal to 10000"),
        ("learner.gradient_norm=.inf", "learner.gradient_norm: Input should be a finite number"),
        ("rollout.max_turns=.nan", "rollout.max_turns: nan"),
        ("rollout.max_turns=0", "rollout.max_turns: 0 is too small; write 1 or more"),
        ("rollout.temperature=.inf", "rollout.temperature: Input should be a finite number"),
        ("rollout.temperature=1e-300", "rollout.temperature"),
        ("rollout.games_per_step=9223372036854775807", "rollout.games_per_step"),
        ("rollout.starts=9223372036854775807", "rollout.starts"),
        ("model.hidden_size=4294967296", "model.hidden_size"),
        ("model.layers=1000000000", "model.layers"),
        ("model.context=1000000000000", "model.context"),
        ("environments.0.weight=.inf", "environments.0.weight: Input should be a finite number"),
        ("losses.0.weight=.nan", "losses.0.weight: nan is not a finite number"),
        ("losses.0.weight=true", "neither a number nor a schedule"),
        (
            "losses=[{name: masked_is}]",
            "losses: masked_is cannot train the policy alone; add a line such as - {name: ppo_clip}",
        ),
        ("losses=[{name: truncated_is}, {name: probability_mask}]", "cannot train the policy alone"),
        (f"name={ALIAS_BOMB}", "name: Input should be a valid string"),
        (f"learner.learning_rate={ALIAS_BOMB}", "neither a number nor a schedule"),
        (f"evaluation={NESTED}", "evaluation"),
        ("name=12e5", "name: Input should be a valid string, got 1200000.0; write it in quotes"),
        ("=".join(["a." * 60 + "b", "1"]), "has more than 50 levels"),
        ("x" * 5000 + "=1", "Unknown key"),
        ("credit.name=" + "x" * 5000, "Unknown advantage estimator"),
        ("{1: 2}=3", "Unknown key"),
        ("environments.0.options={1: 2}", "environments.0.options"),
        ("losses=[]", "losses"),
        ("credit=null", "credit"),
    ],
    ids=lambda text: quoted(text, 60),
)
def test_a_wrong_value_is_refused_with_one_line(override, message):
    error_text = refusal(override)
    assert message in error_text
    assert "\n" not in error_text and len(error_text) < 900


def test_exponents_are_numbers_and_a_base_recipe_may_occur_twice(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "extends: kuhn-tiny\nname: '12e5'\nlearner: {learning_rate: {schedule: cosine, start: 3e-3, end: 1e-5}}\ncredit: {name: grpo, epsilon: 9e-1}\n"
    )
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
        ("extends: [[demo]]", "extends must be"),
        ("extends: {itself}", "extends itself"),
        ("extends: [demo, {itself}]", "extends itself"),
        ("extends: {other}", "extends itself"),
        ("extends: ../suites/mars", "Unknown recipe"),
        ('extends: "a\\0b"', "Unknown recipe"),
        ("extends: " + "x" * 300, "Unknown recipe"),
        ("name: \xff", "not UTF-8"),
        ("5", "must be a mapping"),
        ("", "must be a mapping"),
    ],
    ids=lambda text: quoted(text, 40),
)
def test_a_wrong_recipe_is_refused_with_one_line(text, message, tmp_path):
    first_recipe, second_recipe = tmp_path / "mine.yaml", tmp_path / "other.yaml"
    first_recipe.write_bytes(
        text.replace("{itself}", str(first_recipe)).replace("{other}", str(second_recipe)).encode("latin-1")
    )
    second_recipe.write_text(f"extends: {first_recipe}")
    with pytest.raises(ConfigError, match=message) as error:
        resolve(load_recipe(str(first_recipe)))
    assert "\n" not in str(error.value)


ON_CUDA, TWO_RANKS = "model.device=cuda", ("learner.ranks=2", "learner.leaves=2")
PROCESSES, RAY = ("scale.fleet=processes", "scale.workers=4"), ("scale.fleet=ray", "scale.workers=4")
CLUSTER = (*RAY, "scale.address=localhost:6379")


def resolve_with(*overrides, recipe="mars/kuhn-smol"):
    return resolve(apply_overrides(load_recipe(recipe), overrides))


WRONG_GPUS = {
    "fewer GPUs than learners": ((ON_CUDA, *TWO_RANKS, "learner.gpus=[0]"), r"gpus=\[0\] and ranks=2: each learner takes one GPU; write 2 numbers, or leave gpus out"),
    "a learner's twice": ((ON_CUDA, *TWO_RANKS, "learner.gpus=[1,1]"), r"learner.gpus: GPU 1 is listed twice; name each once"),
    "a worker's twice": ((ON_CUDA, *PROCESSES, "scale.gpus=[2,1,2]"), r"scale.gpus: GPU 2 is listed twice"),
    "below 0": ((ON_CUDA, *TWO_RANKS, "learner.gpus=[-1,1]"), r"learner.gpus.0: .*greater than or equal to 0"),
    "learners on the CPU": (("model.device=cpu", "learner.gpus=[1]"), r"learner.gpus=\[1\], but model.device=cpu; write model.device: cuda"),
    "wherever": (("learner.gpus=[1]",), r"learner.gpus=\[1\], but model.device=auto; write model.device: cuda"),
    "one GPU for two": (("model.device=cuda:3", *TWO_RANKS), r"model.device=cuda:3 is one GPU, but learner.ranks=2.*write model.device: cuda and learner.gpus: \[3, 4\]"),
    "two ways": (("model.device=cuda:3", "learner.gpus=[1]"), r"write model.device: cuda and learner.gpus: \[1\]"),
    "workers on the CPU": (("model.device=cpu", *PROCESSES, "scale.gpus=[1]"), r"scale.gpus assigns GPUs to workers, but their models use none \(model.device=cpu\); write model.device: cuda.*, or leave scale.gpus out"),
    "no workers": ((ON_CUDA, "scale.gpus=[1]"), r"gpus=\[1\] are for workers, but fleet=here; write fleet: processes"),
    "shares of processes": ((ON_CUDA, *PROCESSES, "scale.gpus_per_worker=1"), r"gpus_per_worker=1 is what an actor of Ray reserves, but fleet=processes; write gpus: \[1, 2\]"),
    "nothing": ((ON_CUDA, *CLUSTER, "scale.gpus_per_worker=0"), r"gpus_per_worker=0 is not a valid number of GPUs; write 1, 2 ..., a share of one such as 0.5, or null"),
    "one and a half": ((ON_CUDA, *CLUSTER, "scale.gpus_per_worker=1.5"), r"gpus_per_worker=1.5 is not a valid number of GPUs"),
    "too many": ((ON_CUDA, *CLUSTER, "scale.gpus_per_worker=65"), r"scale.gpus_per_worker: .*less than or equal to 64"),
    "no reservation": ((ON_CUDA, *CLUSTER), r"model.device=cuda, but Ray assigns no GPU to workers; write scale.gpus_per_worker: 1 \(or a share such as 0.5\), or leave"),
    "a Ray of ours": ((ON_CUDA, *RAY), r"write scale.gpus_per_worker: 1 .* and scale.gpus: \[1, 2\]"),
    "half of it": ((ON_CUDA, *RAY, "scale.gpus_per_worker=1"), r"fleet=ray, gpus=\[\] and gpus_per_worker=1.0: Ray on this machine needs its GPUs"),
    "a cluster's": ((ON_CUDA, *CLUSTER, "scale.gpus=[1]"), r"gpus=\[1\] are GPUs of this machine, but address=localhost:6379 is a cluster.*write gpus_per_worker: 1"),
    "workers beside the learner": ((ON_CUDA, *PROCESSES), r"GPU 0 is used twice, by learners \(learner.gpus\) and by workers \(scale.gpus\); choose different GPUs, such as scale.gpus=\[1\], or write scale.share_gpus: true"),
    "workers on a learner's": ((ON_CUDA, *TWO_RANKS, *PROCESSES, "scale.gpus=[1,2]"), r"GPU 1 is used twice, by learners .* and by workers .* such as scale.gpus=\[2,3\]"),
    "vLLM beside the learner": ((ON_CUDA, "sampler={name: vllm, device: cuda}"), r"GPU 0 is used twice, by learners \(learner.gpus\) and by replicas of vLLM \(sampler.gpus\).*sampler.gpus=\[1\]"),
    "vLLM on a worker's": ((ON_CUDA, *PROCESSES, "scale.gpus=[1]", "sampler={name: vllm, device: cuda, gpus: [1]}"), r"GPU 1 is used twice, by replicas of vLLM \(sampler.gpus\) and by workers"),
    "vLLM without Ray's": ((*CLUSTER, "sampler={name: vllm, device: cuda}"), r"sampler.device=cuda, but Ray assigns no GPU to workers"),
}  # fmt: skip


@every_case("name", WRONG_GPUS)
def test_gpus_that_do_not_fit_are_refused_with_what_to_write(name):
    overrides, message = WRONG_GPUS[name]
    with pytest.raises(ConfigError, match=message):
        resolve_with(*overrides)


VALID_GPUS = {
    "learners": (ON_CUDA, *TWO_RANKS),
    "by number": (ON_CUDA, *TWO_RANKS, "learner.gpus=[3,1]"),
    "one by number": ("model.device=cuda:3",),
    "workers": (ON_CUDA, *PROCESSES, "scale.gpus=[1,2]"),
    "shared": (ON_CUDA, *PROCESSES, "scale.share_gpus=true"),
    "vLLM shared": (ON_CUDA, "sampler={name: vllm, device: cuda}", "scale.share_gpus=true"),
    "vLLM": (ON_CUDA, "sampler={name: vllm, device: cuda, replicas: 3, gpus: [1, 2]}"),
    "vLLM alone": ("model.device=cpu", "sampler={name: vllm, device: cuda}"),
    "a share": (ON_CUDA, *CLUSTER, "scale.gpus_per_worker=0.25"),
    "two each": (ON_CUDA, *CLUSTER, "scale.gpus_per_worker=2"),
    "a Ray of ours": (ON_CUDA, *RAY, "scale.gpus_per_worker=0.5", "scale.gpus=[1,2]"),
    "Ray on the CPU": (*RAY,),
}  # fmt: skip


@pytest.mark.parametrize("name", VALID_GPUS)
def test_gpus_that_fit_are_accepted_and_read_back(name):
    config = resolve_with(*VALID_GPUS[name])
    assert resolve(config.model_dump(mode="json")) == config


def test_a_policy_on_a_gpu_is_written_as_given():
    """Files omit keys of GPUs that are not set, so they equal the files of earlier versions."""
    data = resolve_with().model_dump(mode="json")
    assert "gpus" not in data["learner"] and not {"gpus", "gpus_per_worker", "share_gpus"} & data["scale"].keys()
    policies = ["policies.a={}", "policies.b={model: {device: 'cuda:1'}}", "roles={first: a, second: b}"]
    with pytest.raises(ConfigError, match=r"GPU 1 is used twice"):
        resolve_with(*policies, "sampler={name: vllm, device: cuda, gpus: [1]}", "scale.share_gpus=false")
    with pytest.raises(ConfigError, match=r"policies.a.model.device=auto; write policies.a.model.device: cuda"):
        resolve_with(*policies, "learner.gpus=[1]")
