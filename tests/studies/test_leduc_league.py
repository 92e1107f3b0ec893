"""The study of a Leduc poker league: its arms, figures of a run, and the page."""

import json

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.run.folder import RunFolder
from studies.common.result_figures import Results
from studies.leduc_league import answers_along, study
from studies.leduc_league import tables as page
from tests.studies.builders import stub_run

KEYS_THAT_DIFFER = {"name", "summary", "steps", "matchmaker", "league", "checkpoint", "policies", "roles"}


def config_of(arm):
    return resolve(apply_overrides(load_recipe(study.RECIPE), study.ARMS[arm][0])).model_dump(mode="json")


@pytest.mark.parametrize("arm", study.ARMS)
def test_the_arms_differ_only_in_the_league_with_equal_games(arm):
    mirror, config = config_of("mirror"), config_of(arm)
    assert {key: config[key] for key in config if key not in KEYS_THAT_DIFFER} == {
        key: mirror[key] for key in mirror if key not in KEYS_THAT_DIFFER
    }
    assert study.num_plays(config["steps"], config) == 614_400
    assert config["matchmaker"]["name"] == {"mirror": "mirror", "PFSP": "pfsp", "exploiters": "alphastar"}.get(
        arm, "meta_strategy"
    )


@pytest.mark.parametrize("arm", study.ARMS)
def test_answers_are_measured_after_the_same_games_in_all_arms(arm):
    config = config_of(arm)
    interval, keep = config["checkpoint"]["every"], config["checkpoint"]["keep"]
    assert interval == config["league"]["every"] and config["steps"] == interval * keep
    assert [study.num_plays(interval * number, config) for number in (1, 2)] == [40_960, 81_920]


def test_arms_without_a_league_play_all_games_that_they_learn_from():
    assert study.num_plays(7, {"league": {"every": 0, "plays": 9}, "rollout": {"games_per_step": 10}}) == 70
    assert study.num_plays(7, {"league": {"every": 3, "plays": 9}, "rollout": {"games_per_step": 10}}) == 88


def test_deterministic_tabular_methods_run_once():
    keys = [cell.key for cell in study.cells(study.STUDY.setting) if cell.key[0] in study.TABULAR_ALGORITHMS]
    assert [seed for name, seed in keys if name == "CFR"] == [0]
    assert [seed for name, seed in keys if name == "XDO"] == [0, 1, 2]


def test_figures_are_of_the_runs_answers_at_and_before_the_end(tmp_path, monkeypatch):
    stub_run(
        monkeypatch,
        study,
        [{"step": 2, "legal_rate": 0.5}, {"step": 4, "legal_rate": 0.9}],
        {"rollout": {"games_per_step": 10}, "league": {"every": 2, "plays": 5}},
    )

    def run_command(words):
        assert words[:3] == ["python", "-m", "studies.leduc_league.answers_along"]
        assert json.loads(words[4]) == ["last", "nash"]
        answers = [{"step": 2, "last": 3.0, "nash": 2.0}, {"step": 4, "last": 1.0, "nash": 0.5}]
        (tmp_path / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
        return ""

    figures = study.run_figures(tmp_path, "", run_command, answers=["last", "nash"])
    assert figures == {
        "answers": {
            "last": {"NashConv": 1.0, "NashConv after 25": 3.0, "NashConv after 50": 1.0},
            "nash": {"NashConv": 0.5, "NashConv after 25": 2.0, "NashConv after 50": 0.5},
        },
        "plays": 50,
        "legal replies": 0.9,
    }


def test_rows_distinguish_answers_of_arms_from_tabular_methods():
    arm_result = {
        "answers": {"last": {"NashConv": 1.0}, "uniform": {"NashConv": 2.0}},
        "plays": 9,
        "legal replies": 1.0,
    }
    table = {"leduc_poker": {"NashConv after 1": 4.0, "NashConv, end": 0.5, "rounds": 3}}
    cells = {("mirror", 0): {"found": arm_result, "seconds": 1}, ("CFR", 0): {"found": table, "seconds": 2}}
    row_0, row_1, row_2 = study.rows({}, cells)
    assert (row_0["arm"], row_0["answer"], row_1["answer"]) == ("mirror", "last", "uniform")
    assert row_1["values"]["NashConv"] == {"0": 2.0} and row_1["values"]["plays"] == {"0": 9}
    assert row_2["policy"] == "table" and row_2["values"] == {
        "NashConv": {"0": 0.5},
        "NashConv after 1": {"0": 4.0},
        "seconds": {"0": 2},
    }


def test_answers_along_a_run_equal_the_evaluations(tiny_league):
    rows = answers_along.nash_conv_along_run(tiny_league, ["last", "uniform", answers_along.BEST])
    assert [row["step"] for row in rows] == [1, 2]
    lines = [json.loads(line) for line in (tiny_league / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    nash_convs = [line["nash_conv/kuhn_poker"] for line in lines]
    assert [row["uniform"] for row in rows] == pytest.approx(nash_convs)
    assert rows[0]["last"] == pytest.approx(rows[0]["uniform"])  # the only member is the learner
    assert rows[1]["last"] != pytest.approx(rows[1]["uniform"])
    payoffs = RunFolder.open(tiny_league).checkpoint(2).state.get("payoffs", {})
    member_values = [
        rows[0]["last"],
        rows[1]["last"],
    ]  # with two members, the equilibrium plays the member with the larger payoff
    assert any(rows[1][answers_along.BEST] == pytest.approx(gap) for gap in member_values)
    assert "exact" not in json.dumps(payoffs)  # figures computed later are not written into the run


@pytest.fixture
def tiny_league(tmp_path):
    from sparring import train

    overrides = [
        "steps=2",
        "threads=1",
        "warmup.updates=2",
        "rollout.games_per_step=32",
        "model.hidden_size=16",
        "model.layers=1",
    ]
    league = [
        "league.every=1",
        "league.keep=4",
        "league.answer=uniform",
        "evaluation.every=1",
        "checkpoint.every=1",
        "checkpoint.keep=4",
    ]
    return train("kuhn-tiny", *overrides, *league, run=tmp_path / "run").path


def row(arm, answer, *gaps, policy="model"):
    seeds = {str(seed): gap for seed, gap in enumerate(gaps)}
    return {"policy": policy, "arm": arm, "answer": answer, "starts": "all", "values": {"NashConv": seeds}}


MIRROR = [row("mirror", "average", 0.9, 1.0, 1.1), row("mirror", "last", 2.0, 2.0, 2.0)]


@pytest.mark.parametrize(
    ("gaps", "words"),
    [
        ((0.4, 0.5, 0.6), "; less exploitable: PSRO (last)"),
        ((1.4, 1.5, 1.6), "more exploitable: PSRO (last)"),
        ((0.5, 1.0, 1.6), "not decided: PSRO (last)"),
    ],
)
def test_the_verdict_compares_an_answer_with_the_mirror_arm(gaps, words):
    results = Results({"rows": [*MIRROR, row("PSRO", "last", *gaps), row("PSRO", answers_along.BEST, 0.1, 0.1, 0.1)]})
    assert words in page.verdict_text(results).replace(": less", "; less") and "(Holm)" in page.verdict_text(results)
    assert "exact payoffs" not in page.verdict_text(results)


def test_an_answer_is_below_a_mark_if_every_seed_is_below():
    rows = [
        *MIRROR,
        row("FSP", "uniform", 0.6, 0.69, 0.65),
        row("FSP", "last", 0.6, 0.71, 0.65),
        row("CFR", "its own", 0.62, policy="table"),
    ]
    lines = page.comparison_text(Results({"rows": rows})).splitlines()
    assert lines[2] == "| `leduc-tiny` | 0.7 | FSP (all members alike) |"
    assert lines[3] == "| CFR, 50 passes, by tables | 0.620 | none |"
