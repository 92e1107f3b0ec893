"""All studies, in the quick and the full setting: cells, and rows with every value by seed."""

import json

import pytest

from sparring.config import recipe
from sparring.core.errors import UnknownNameError
from sparring.report import credit_page
from studies.common import study as studies
from studies.common.results_file import errors_of_row
from studies.credit_lab import study as credit_lab
from studies.demo_seeds import study as demo_seeds
from studies.fxp_tiny import study as fxp_tiny
from studies.mars import study as mars
from studies.vpr_general import study as vpr_general
from studies.vpr_methods import study as vpr_methods
from studies.vpr_table import cells as table_cells
from studies.vpr_table import learner as table_learner
from tests.cases import every_case

SETTINGS = [(name, quick) for name in studies.study_names() for quick in (False, True)]


def setting_of(name, quick):
    study = studies.load(name)
    return study, {**study.setting, **study.quick} if quick else study.setting


@every_case(("name", "quick"), SETTINGS)
def test_the_cells_of_a_study_have_unique_keys_and_folders(name, quick):
    study, setting = setting_of(name, quick)
    cells = study.cells(setting)
    assert len({cell.key for cell in cells}) == len({cell.folder for cell in cells}) == len(cells)
    assert len({cell.command for cell in cells}) == len(cells)  # no seed or arm is run twice
    assert all("/" not in cell.folder and " " not in cell.folder for cell in cells)
    assert not quick or len(cells) <= 3
    for cell in cells:
        if cell.command[:2] == ("sparring", "train"):
            recipe.apply_overrides(recipe.load_recipe(cell.command[2]), cell.command[3:])
            assert "threads=1" in cell.command


def test_an_unknown_study_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'vpr-noise'.*credit-lab, .*mars"):
        studies.load("vpr-nois")


def test_a_study_can_be_written_as_json():
    for name in studies.study_names():
        study = studies.load(name)
        assert json.loads(json.dumps(study.setting)) == study.setting
        assert json.loads(json.dumps(study.quick)) == study.quick
        assert study.hours > 0 and study.summary and not study.summary.endswith(".")


def test_seeds_measures_the_last_figure_and_the_worst_since_the_level(tmp_path):
    values = {20: 0.5, 40: 0.09, 60: 0.3, 80: 0.05}
    lines = [{"step": step, "legal_rate": step / 100} for step in range(1, 82)]
    lines = [
        {**line, "nash_conv/kuhn_poker": values[line["step"]]} if line["step"] in values else line for line in lines
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    def seed_figures(level):
        return demo_seeds.run_figures(tmp_path, "", None, level=level)

    expected = {"nash_conv": 0.05, "worst from the level on": 0.3, "first step at the level": 40}
    assert seed_figures(0.10) == {**expected, "legal replies": 0.81}
    if_never_reached = {"worst from the level on": None, "first step at the level": None}
    assert if_never_reached.items() <= seed_figures(0.01).items()


def test_seeds_keeps_every_value_by_recipe_and_seed():
    cells = {("demo", seed): {"found": {"nash_conv": seed / 10}, "seconds": 9.0} for seed in (0, 1)}
    rows = demo_seeds.rows({}, cells)
    values = {"nash_conv": {"0": 0.0, "1": 0.1}, "seconds": {"0": 9.0, "1": 9.0}}
    assert rows == [{"recipe": "demo", "level": 0.10, "starts": "all", "values": values}]
    assert errors_of_row(rows[0]) == []


def test_ablations_keep_every_value_by_arm_and_seed():
    score = {"return": {"mean": 0.5}, "score": {"mean": 40.0}}
    rows = [{"name": name, "kind": "match", "overall": score} for name in mars.TRAINED + mars.HELD_OUT]
    rows.append({"name": "kuhn_poker-exact", "kind": "exact", "figures": {"nash_conv": 0.2}})
    cells = {("three games", "full", seed): {"found": rows, "seconds": 9.0} for seed in (0, 1)}
    (row,) = mars.rows({}, cells)
    assert row["values"]["kuhn_poker-exact"] == {"0": 0.2, "1": 0.2}
    assert row["values"]["held out"] == {"0": 40.0, "1": 40.0}
    assert errors_of_row(row) == []


def test_the_labs_rows_keep_every_figure_and_interval():
    figures = {"mean": 0.5, "low": 0.25, "high": 0.75}
    figures_of_estimator = dict.fromkeys(credit_lab.KEYS, figures)
    figures_of_estimator |= {"zeros": {"mean": None, "low": None, "high": None}, "seconds": 0.01}
    rows = [{"estimator": "rloo", **figures_of_estimator}, {"estimator": "ppr", "refused": "why"}]
    result = {"settings": {}, "game": {"game": "kuhn_poker", "rows": rows}}
    cells = {("kuhn_poker",): {"found": result}}
    assert credit_lab.KEYS == credit_page.KEYS
    first_row, second_row = credit_lab.rows({"games": ["kuhn_poker"]}, cells)
    assert first_row["values"]["bias"] == {"0": 0.5} and first_row["intervals"]["bias"] == [0.25, 0.75]
    assert first_row["values"]["seconds"] == {"0": 0.01} and "seconds" not in first_row["intervals"]
    assert "zeros" not in first_row["values"]
    assert (second_row["refused"], second_row["starts"]) == ("why", "all")
    assert errors_of_row(first_row) == errors_of_row(second_row) == []


def test_all_team_arms_have_equal_games_including_those_of_members():
    setting = fxp_tiny.STUDY.setting
    cells = {cell.key: cell.command for cell in fxp_tiny.cells({**setting, "seeds": 1})}
    assert len(cells) == 10
    for words in cells.values():
        options = dict(word.split("=", 1) for word in words[3:])
        steps, league_plays = int(options["steps"]), int(options["league.plays"])
        assert steps * 128 + steps // 10 * league_plays == 60 * 128 + 6 * 512 == 84 * 128


def test_team_rows_keep_each_answers_gains_and_the_runs_curve(tmp_path):
    name = "exploitability/team_matrix"
    lines = [{"step": step, "legal_rate": 0.99} for step in (1, 2, 3)]
    for line, gain in zip(lines[1:], (1.5, 0.02), strict=True):
        line |= {f"team_{name}": gain, f"one_seat_{name}": gain / 2}
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    commands = []

    def run_command(words):
        commands.append(words)
        return json.dumps({"figures": {f"team_{name}": 1.0, f"one_seat_{name}": 0.0}})

    result = fxp_tiny.run_figures(tmp_path, "", run_command, ["nash", "last"], games=8)
    assert [words[3:5] for words in commands] == [["--answer", "last"]]
    rows = fxp_tiny.rows({}, {("FXP", "example", 0): {"found": result, "seconds": 9.0}})
    assert [(row["answer"], row["values"]["team"]["0"]) for row in rows] == [("nash", 0.02), ("last", 1.0)]
    assert rows[0]["values"]["team after 16"] == {"0": 1.5} and "team after 16" not in rows[1]["values"]
    assert [error for row in rows for error in errors_of_row(row)] == []


def lines_of_vpr(solved):
    """Return metrics of a run that solves this share of new puzzles and all training puzzles."""
    lines = [{"step": step + 1, "return/sudoku/solver": 0.5} for step in range(30)]
    for family, share in (("match", solved), ("match_seen", 1.0)):
        for figure, value in (("success", share), ("optimal", share), ("illegal", 0.0)):
            lines[-1][f"{family}/sudoku/random/solver/{figure}"] = value
    return lines


def test_solved_new_puzzles_are_in_rows_of_unseen_states():
    setting = {"games": ["sudoku"], "methods": ["vpr"], "steps": 30, "seeds": 2, "changes": []}
    cells = vpr_methods.cells(setting)
    assert [cell.command[-2] for cell in cells] == ["seed=0", "seed=1"]
    results = {seed: vpr_methods.of_lines(lines_of_vpr(0.1 * seed), "sudoku") for seed in (0, 1)}
    results_by_cell = {("sudoku", "vpr", seed): {"found": results[seed]} for seed in (0, 1)}
    rows = vpr_methods.rows(setting, results_by_cell)
    by_starts = {row["starts"]: row["values"] for row in rows}
    assert by_starts["unseen"]["solved"] == {"0": 0.0, "1": pytest.approx(0.1)}
    assert by_starts["seen"]["solved"] == {"0": 1.0, "1": 1.0}
    assert by_starts["seen"]["return over the run"] == {"0": 0.5, "1": 0.5}
    assert all("return, end" not in row["values"] for row in rows if row["starts"] == "unseen")
    assert [error for row in rows for error in errors_of_row(row)] == []


def test_shares_of_solved_puzzles_are_stored_by_number_of_blanks(tmp_path):
    lines = [{"step": 300}, {"step": 600}]
    for line in lines:
        for blanks in vpr_general.BLANKS:
            for family, share in (("match", 0.25), ("match_seen", 0.5)):
                line[f"{family}/sudoku{blanks}/random/solver/success"] = share * line["step"] / 600
    text = "\n".join(map(json.dumps, [{"step": 1}, *lines]))
    (tmp_path / "metrics.jsonl").write_text(text, encoding="utf-8")
    result = vpr_general.run_figures(tmp_path, "", None)
    cells = {(name, 0): {"found": result} for name in ("vpr", "outcome")}
    rows = vpr_general.rows({"seeds": 1}, cells)
    assert len(rows) == 16 and rows[0]["games"] == 600 * 256
    assert (rows[0]["starts"], rows[0]["values"]["solved"]) == ("unseen", {"0": 0.25})
    assert rows[1]["values"][f"solved after {300 * 256}"] == {"0": 0.25}
    assert [error for row in rows for error in errors_of_row(row)] == []


def test_a_table_of_logits_does_not_generalise_to_new_puzzles(monkeypatch):
    monkeypatch.setattr(table_learner, "MEASURED", 40)
    monkeypatch.setattr(table_learner, "EVERY", 5)
    result = table_learner.run("sudoku2", "vpr", 0, steps=10, groups=8, size=8)
    rows = table_cells.rows_of({"task": "sudoku2"}, [result])
    assert [row["starts"] for row in rows] == ["seen", "unseen"]
    seen_share, unseen_share = (row["values"]["best moves, end"]["0"] for row in rows)
    assert seen_share > 0.5
    assert unseen_share < 0.4  # one digit of four is right, so chance is 0.25
    assert [error for row in rows for error in errors_of_row(row)] == []
