"""The study of SmolLM2 in trials with written notes: its arms, stored figures, and the page."""

import pytest
from safetensors.numpy import load_file

from sparring.run import checkpoint
from studies.common.result_figures import CORRECTION_NOTE, Results
from studies.mage_smol import study
from studies.mage_smol import tables as page
from tests.run_with_members import run
from tests.studies.builders import Commands, config_of

TINY = [
    "model={name: tiny, hidden_size: 8, layers: 1, heads: 1, context: 1024}",
    "renderer={name: plain}",
    "rollout={games_per_step: 4, group_size: 2}",
]


def test_the_arms_compared_with_reward_have_its_seeds():
    keys = [cell.key for cell in study.cells({**study.STUDY.setting, "seeds": 2})]
    assert keys == [("trained", 0), ("trained", 1), ("warm-up", 0), ("warm-up", 1)]


def test_arms_differ_only_in_training_on_reward():
    trained_config, warm_up_config = (config_of(study, arm).model_dump() for arm in (study.TRAINED, study.WARM_UP))
    assert {key for key in trained_config if trained_config[key] != warm_up_config[key]} == {"steps", "learner"}
    assert warm_up_config["steps"] == 1 and warm_up_config["learner"]["learning_rate"] == 0.0


def test_held_out_opponents_do_not_occur_in_training():
    config = config_of(study, study.TRAINED)
    training = [bot.options["weights"] for bot in config.bots.values()]
    held_out = [player.options["weights"] for player in config.evaluation.opponents]
    assert len(training) == len(held_out) == 3 and not any(weights in training for weights in held_out)


def test_training_begins_with_the_weights_after_warm_up(tmp_path):
    overrides = ["steps=1", "warmup.updates=2", "warmup.games=2", "checkpoint.every=1"]
    for arm, changes in (
        (study.WARM_UP, []),
        (study.TRAINED, ["learner.learning_rate=0"]),
        ("untouched", ["warmup.updates=0"]),
    ):
        run(tmp_path / arm, config_of(study, study.WARM_UP if arm == "untouched" else arm, *TINY, *overrides, *changes))
    weights_after_training, weights_after_warm_up, initial_weights = (
        load_file(checkpoint.load_latest(tmp_path / arm).path / "model.safetensors")
        for arm in (study.TRAINED, study.WARM_UP, "untouched")
    )
    assert all((weights_after_training[name] == weights_after_warm_up[name]).all() for name in weights_after_warm_up)
    assert any((initial_weights[name] != weights_after_warm_up[name]).any() for name in weights_after_warm_up)


def pool(*, opponent=None, trained=True, role="left", shares=(0.0, 0.5, 0.6)):
    return {
        "role": role,
        "opponent": opponent,
        "trained": trained,
        "attempts": [{"mean": 0.7 * share, "trials": 120} for share in shares],
        "closed": [{"mean": share} for share in shares],
        "forfeits": 0.125,
        "best": 0.7,
        "fixed": 0.0,
        "ceiling": [0.0, 0.7, 0.77],
    }


def test_a_run_is_measured_by_opponent_pools(tmp_path):
    commands = Commands({"adaptation": [pool(opponent="rock"), pool(), pool(trained=False)]})
    assert study.run_figures(tmp_path, "", commands, games=7) == [pool(), pool(trained=False)]
    assert commands.words == [
        "sparring",
        "evaluate",
        str(tmp_path),
        "--adaptation",
        "--games",
        "7",
        "--no-exact",
        "--oracle=none",
        "--json",
    ]


def results(trained_shares, warm_up_shares=(0.1, 0.1, 0.1)):
    """Return results of three seeds with these shares closed in the last attempt after training and after warm-up."""
    cells = {}
    for arm in study.ARMS:
        for seed in range(3):
            last_share = {study.WARM_UP: warm_up_shares[seed], study.TRAINED: trained_shares[seed]}.get(arm, 0.3)
            pools = [(role, trained) for role in ("left", "right") for trained in (True, False)]
            cells[arm, seed] = {
                "found": [
                    pool(
                        trained=trained,
                        role=role,
                        shares=(0.0, 0.2 if trained else 0.1, last_share + (0.1 if role == "right" else -0.1)),
                    )
                    for role, trained in pools
                ]
            }
    return Results({"rows": study.rows(study.STUDY.setting, cells)})


@pytest.mark.parametrize(
    ("trained_shares", "text"),
    [
        (
            (0.5, 0.6, 0.7),
            "0.60 [0.35, 0.85] | 0.60 [0.35, 0.85] | 0.50 [0.25, 0.75] | 0.40 0.50 0.60 | adapts: held; by reward: ahead |",
        ),
        (
            (0.0, 0.1, 0.2),
            "0.10 [-0.15, 0.35] | 0.10 [-0.15, 0.35] | 0.00 [-0.25, 0.25] | -0.10 0.00 0.10 | adapts: not held; by reward: not decided |",
        ),
        (
            (-0.2, -0.3, -0.4),
            "-0.30 [-0.55, -0.05] | -0.30 [-0.55, -0.05] | -0.40 [-0.65, -0.15] | -0.30 -0.40 -0.50 | adapts: not held; by reward: not decided |",
        ),  # p = 0.020 in two rows of four claims
        ((-0.2, -0.25, -0.3), "-0.30 -0.35 -0.40 | adapts: not held; by reward: behind |"),
    ],
)
def test_the_effect_of_reward_is_compared_seed_by_seed(trained_shares, text):
    table = page.table_of_gains(results(trained_shares))
    assert text in table and table.endswith(CORRECTION_NOTE)


def test_without_the_arms_of_the_full_setting_nothing_is_compared():
    (arm,) = study.STUDY.quick["arms"]
    quick_results = Results({"rows": [row for row in results((0.5, 0.6, 0.7)).rows() if row["arm"] == arm]})
    assert (
        len(page.table_of_gains(quick_results).splitlines()) == 2
        and len(page.table_of_headroom(quick_results).splitlines()) == 2 + 4
    )
