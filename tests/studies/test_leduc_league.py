"""The study of Leduc poker in a league: its arms, what is kept of a run, and what its page says of it."""

import json

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.run.folder import RunFolder
from studies.common.result_figures import Results
from studies.leduc_league import answers_along, study
from studies.leduc_league import tables as page
from tests.studies.told_run import told_run

APART = {"name", "summary", "steps", "matchmaker", "league", "checkpoint", "policies", "roles"}


def config_of(arm):
    """Return the whole configuration of an arm."""
    return resolve(apply_overrides(load_recipe(study.RECIPE), study.ARMS[arm][0])).model_dump(mode="json")


# -- the arms


@pytest.mark.parametrize("arm", study.ARMS)
def test_the_arms_differ_in_the_league_alone_and_have_as_many_plays(arm):
    mirror, own = config_of("mirror"), config_of(arm)
    assert {key: own[key] for key in own if key not in APART} == {key: mirror[key] for key in mirror if key not in APART}
    assert study.plays(own["steps"], own) == 614_400
    assert own["matchmaker"]["name"] == {"mirror": "mirror", "PFSP": "pfsp", "exploiters": "alphastar"}.get(arm, "meta_strategy")


@pytest.mark.parametrize("arm", study.ARMS)
def test_answers_are_measured_after_the_same_plays_in_all_arms(arm):
    own = config_of(arm)
    every, kept = own["checkpoint"]["every"], own["checkpoint"]["keep"]
    assert every == own["league"]["every"] and own["steps"] == every * kept
    assert [study.plays(every * number, own) for number in (1, 2)] == [40_960, 81_920]


def test_who_has_no_league_plays_what_it_learns_from():
    assert study.plays(7, {"league": {"every": 0, "plays": 9}, "rollout": {"games_per_step": 10}}) == 70
    assert study.plays(7, {"league": {"every": 3, "plays": 9}, "rollout": {"games_per_step": 10}}) == 88


def test_a_table_that_draws_nothing_is_run_once():
    names = [cell.key for cell in study.cells(study.STUDY.setting) if cell.key[0] in study.TABLES]
    assert [seed for name, seed in names if name == "CFR"] == [0]
    assert [seed for name, seed in names if name == "XDO"] == [0, 1, 2]


# -- what is kept


def test_a_run_is_kept_by_its_answers_at_the_end_and_along_it(tmp_path, monkeypatch):
    told_run(monkeypatch, study, [{"step": 2, "legal_rate": 0.5}, {"step": 4, "legal_rate": 0.9}], {"rollout": {"games_per_step": 10}, "league": {"every": 2, "plays": 5}})

    def ask(words):
        assert words[:3] == ["python", "-m", "studies.leduc_league.answers_along"]
        assert json.loads(words[4]) == ["last", "nash"]
        found = [{"step": 2, "last": 3.0, "nash": 2.0}, {"step": 4, "last": 1.0, "nash": 0.5}]
        (tmp_path / "answers.json").write_text(json.dumps(found), encoding="utf-8")
        return ""

    found = study.measured(tmp_path, "", ask, answers=["last", "nash"])
    assert found == {
        "answers": {
            "last": {"NashConv": 1.0, "NashConv after 25": 3.0, "NashConv after 50": 1.0},
            "nash": {"NashConv": 0.5, "NashConv after 25": 2.0, "NashConv after 50": 0.5},
        },
        "plays": 50,
        "legal replies": 0.9,
    }


def test_rows_tell_arms_with_their_answers_from_tables():
    trained = {"answers": {"last": {"NashConv": 1.0}, "uniform": {"NashConv": 2.0}}, "plays": 9, "legal replies": 1.0}
    table = {"leduc_poker": {"NashConv after 1": 4.0, "NashConv, end": 0.5, "rounds": 3}}
    kept = {("mirror", 0): {"found": trained, "seconds": 1}, ("CFR", 0): {"found": table, "seconds": 2}}
    first, second, third = study.rows({}, kept)
    assert (first["arm"], first["answer"], second["answer"]) == ("mirror", "last", "uniform")
    assert second["values"]["NashConv"] == {"0": 2.0} and second["values"]["plays"] == {"0": 9}
    assert third["policy"] == "table" and third["values"] == {"NashConv": {"0": 0.5}, "NashConv after 1": {"0": 4.0}, "seconds": {"0": 2}}


def test_answers_along_a_run_are_those_that_evaluation_gives(tiny_league):
    found = answers_along.along(tiny_league, ["last", "uniform", answers_along.BEST])
    assert [one["step"] for one in found] == [1, 2]
    lines = [json.loads(line) for line in (tiny_league / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    measured = [line["nash_conv/kuhn_poker"] for line in lines]
    assert [one["uniform"] for one in found] == pytest.approx(measured)
    assert found[0]["last"] == pytest.approx(found[0]["uniform"])  # the one member is the learner as it is
    assert found[1]["last"] != pytest.approx(found[1]["uniform"])
    book = RunFolder.open(tiny_league).checkpoint(2).state.get("payoffs", {})
    both = [found[0]["last"], found[1]["last"]]  # of two members the equilibrium is the one that earns more
    assert any(found[1][answers_along.BEST] == pytest.approx(gap) for gap in both)
    assert "exact" not in json.dumps(book)  # what is computed afterwards is not written into the run


@pytest.fixture
def tiny_league(tmp_path):
    """Return a run of two steps in Kuhn poker, with a snapshot and a checkpoint of each."""
    from sparring import train

    small = ["steps=2", "threads=1", "warmup.updates=2", "rollout.games_per_step=32", "model.hidden_size=16", "model.layers=1"]
    league = ["league.every=1", "league.keep=4", "league.answer=uniform", "evaluation.every=1", "checkpoint.every=1", "checkpoint.keep=4"]
    return train("kuhn-tiny", *small, *league, run=tmp_path / "run").path


# -- the page


def row(arm, answer, *gaps, policy="model"):
    """Return a row with a NashConv per seed."""
    seeds = {str(seed): gap for seed, gap in enumerate(gaps)}
    rest = {"NashConv after 5": seeds, "seconds": dict.fromkeys(seeds, 60.0), "plays": dict.fromkeys(seeds, 10), "legal replies": dict.fromkeys(seeds, 0.5)}
    return {"policy": policy, "arm": arm, "answer": answer, "starts": "all", "values": {"NashConv": seeds, **rest}}


MIRROR = [row("mirror", "average", 0.9, 1.0, 1.1), row("mirror", "last", 2.0, 2.0, 2.0)]


@pytest.mark.parametrize(
    ("gaps", "said"),
    [((0.4, 0.5, 0.6), "; less exploitable: PSRO (last)"), ((1.4, 1.5, 1.6), "more exploitable: PSRO (last)"), ((0.5, 1.0, 1.6), "not told apart from it: PSRO (last)")],
)
def test_the_verdict_says_on_which_side_of_the_mirror_an_answer_is(gaps, said):
    results = Results({"rows": [*MIRROR, row("PSRO", "last", *gaps), row("PSRO", answers_along.BEST, 0.1, 0.1, 0.1)]})
    assert said in page.verdict(results).replace(": less", "; less") and "(Holm)" in page.verdict(results)
    assert "exact payoffs" not in page.verdict(results)


def test_the_verdict_is_corrected_for_the_number_of_answers():
    """Alone the first answer is told apart (p = 0.024); of five that are compared it is not."""
    near = row("PSRO", "last", 1.2, 1.5, 1.5)
    others = [row(arm, "last", 0.5, 1.0, 1.6) for arm in ("FSP", "PFSP", "exploiters", "gate")]
    alone, several = (page.verdict(Results({"rows": [*MIRROR, near, *rest]})) for rest in ([], others))
    assert "more exploitable: PSRO (last)" in alone and "more exploitable: none" in several


def test_the_table_pairs_each_answer_with_the_same_of_the_mirror_and_with_its_average():
    lines = page.ends(Results({"rows": [*MIRROR, row("PSRO", "last", 1.9, 2.0, 2.1), row("PSRO", "nash", 0.9, 1.0, 1.1)]})).splitlines()
    assert lines[2].endswith("| 1.000 [0.752, 1.248] | - | - |")
    assert "| 1.900 | 2.000 | 2.100 |" in lines[4] and "| 0.000 [-0.248, 0.248] | 1.000 [1.000, 1.000] |" in lines[4]
    assert lines[5].endswith("| - | 0.000 [0.000, 0.000] |")


def test_who_is_below_a_mark_is_below_it_in_every_seed():
    rows = [*MIRROR, row("FSP", "uniform", 0.6, 0.69, 0.65), row("FSP", "last", 0.6, 0.71, 0.65), row("CFR", "its own", 0.62, policy="table")]
    lines = page.beside(Results({"rows": rows})).splitlines()
    assert lines[2] == "| `leduc-tiny` | 0.7 | FSP (all members alike) |"
    assert lines[3] == "| CFR, 50 passes, by tables | 0.620 | none |"


def test_a_chart_has_a_curve_per_arm_and_a_line_per_table():
    rows = [*MIRROR, row("FSP", "uniform", 1.0), row("FSP", "last", 1.0), row("FSP", "average", 1.0), row("CFR", "its own", 0.5, policy="table")]
    charts = page.charts(Results({"rows": rows}))
    assert sorted(charts) == ["league-leduc-average.svg", "league-leduc-last.svg", "league-leduc-own.svg"]
    assert all(name in chart for chart in charts.values() for name in ("mirror", "FSP", "CFR, by tables"))
    assert page.cost(Results({"rows": rows})).splitlines()[2] == "| mirror | 10 | 50.0% | 1 |"
