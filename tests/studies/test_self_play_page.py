"""The page of tabular self-play: recipes in words, and verdicts that follow from the figures."""

from studies.common.result_figures import Results
from studies.common.results_file import errors_of_row
from studies.self_play import claims, study
from studies.self_play import tables as self_play
from studies.self_play.algorithms import ALGORITHMS
from studies.self_play.words import columns
from tests.cases import every_case


def row(
    algorithm, game="kuhn_poker", final_values=(0.2, 0.2, 0.2), members=None, rise=0.0, initial_value=1.0, midway=0.5
):
    def seeds(values):
        return {str(seed): value for seed, value in enumerate(values)}

    figures = {
        "NashConv after 0": [initial_value] * 3,
        "NashConv after 2": [midway] * 3,
        "NashConv after 4": final_values,
    }
    figures |= {
        "NashConv, end": final_values,
        "largest rise": [rise] * 3,
        "NashConv, Nash of members": members or final_values,
    }
    figures |= {name: [4] * 3 for name in ("rounds", "passes", "payoffs", "members", "seconds")}
    return {"algorithm": algorithm, "game": game, "starts": "all", "values": {k: seeds(v) for k, v in figures.items()}}


def results(*changes):
    by_name = {change["algorithm"]: change for change in changes}
    rows = [by_name.get(name, row(name)) for name in [*ALGORITHMS, *self_play.REFERENCES]]
    origin = {"command": "sparring reproduce self-play", "commit": "0123abc", "date": "2026-11-24"}
    return Results({**origin, "versions": {"python": "3.11"}, "rows": rows})


@every_case("name", ALGORITHMS)
def test_every_recipe_is_described_in_all_columns(name):
    assert all(columns(ALGORITHMS[name]))


def test_recipes_in_words():
    assert columns(ALGORITHMS["NFSP"])[1:] == (
        "10% live, otherwise all members equally",
        "`uniform`",
        "5 steps, warm",
        "average",
    )
    assert columns(ALGORITHMS["JPSRO, CE"])[1] == "for each recommended member"
    assert columns(ALGORITHMS["XDO"])[0].endswith("start: pure")


def test_a_difference_is_reported_per_game_and_only_if_significant():
    study_results = results(row("pipeline PSRO, timer", final_values=(0.3, 0.31, 0.32)))
    assert claims.plateau(study_results).verdict == "confirmed in Kuhn"
    assert claims.plateau(results()).verdict == "not decided in Kuhn"
    study_results = results(row("pipeline PSRO, timer", final_values=(0.1, 0.11, 0.12)))
    assert claims.plateau(study_results).verdict == "the reverse in Kuhn"
    assert "Kuhn -0.090 [-0.115, -0.065]" in claims.plateau(study_results).figures


def test_the_claim_monotone_requires_that_only_psro_rises():
    assert claims.monotone(results(row("PSRO Nash", rise=0.1))).verdict == "confirmed"
    assert claims.monotone(results()).verdict == "refuted"
    both_rise = results(row("PSRO Nash", rise=0.1), row("anytime PSRO", rise=0.1))
    assert claims.monotone(both_rise).verdict == "refuted"


def test_rounds_are_counted_to_a_level_of_one_percent():
    claim = claims.fewer_rounds(results(row("XDO", midway=0.0, final_values=(0, 0, 0))))
    assert claim.verdict == "confirmed" and "Kuhn 2 against more than 4" in claim.figures


def test_falling_means_below_half_of_the_initial_value():
    low_rows = [row(name, final_values=(0.4,) * 3) for name in ("fictitious play", "fictitious self-play", "PSRO Nash")]
    vanilla, high_row = row("vanilla", final_values=(0.6,) * 3), row("PSRO Nash", final_values=(0.6,) * 3)
    assert claims.cycles(results(vanilla, *low_rows)).verdict == "confirmed"
    assert claims.cycles(results(vanilla, *low_rows[:2], high_row)).verdict == "confirmed in 3 of 4"
    assert claims.cycles(results(*low_rows)).verdict == "confirmed in 3 of 4"


def test_the_largest_change_of_rank_is_named():
    claim = claims.one_solver(results(row("vanilla", final_values=(9.0,) * 3, members=(0.0,) * 3)))
    count = len(ALGORITHMS)
    assert claim.verdict.startswith("confirmed") and f"Kuhn vanilla, {count + 4} to 1 of {count + 4}" in claim.figures


def test_only_a_page_of_all_algorithms_has_claims():
    document = dict(results().document)
    assert "## The survey's claims" in self_play.page(Results(document))
    few_algorithms = {**document, "rows": document["rows"][:2]}
    assert "claims" not in self_play.page(Results(few_algorithms)).split("## ", 1)[1]
    assert set(self_play.charts(Results(few_algorithms))) == {"self-play-kuhn-poker-last.svg"}


def test_rows_keep_every_value_by_algorithm_game_and_seed():
    cells = {("XDO", seed): {"found": {"kuhn_poker": {"NashConv, end": seed / 10}}} for seed in (0, 1)}
    (stored_row,) = study.rows({}, cells)
    assert stored_row == {
        "algorithm": "XDO",
        "game": "kuhn_poker",
        "starts": "all",
        "values": {"NashConv, end": {"0": 0.0, "1": 0.1}},
    }
    assert errors_of_row(stored_row) == []


def test_deterministic_solvers_have_one_seed():
    keys = [cell.key for cell in study.cells(study.STUDY.setting)]
    assert [seed for name, seed in keys if name == "CFR"] == [0]
    assert [seed for name, seed in keys if name == "external-sampling MCCFR"] == [0, 1, 2]
    assert [seed for name, seed in keys if name == "vanilla"] == [0, 1, 2]
