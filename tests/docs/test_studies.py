"""Studies of many training runs: what is kept, what is trained again, and what their rows hold."""

import argparse
import json
from pathlib import Path

import pytest
from loading import load

published = load("benchmarks", "published")
cells = load("benchmarks", "cells")
seeds = load("benchmarks", "seeds")
ablations = load("benchmarks", "ablations")
credit_study = load("benchmarks", "credit_study")


@pytest.fixture
def commands(monkeypatch):
    """Return the list of commands that cells run, without running them."""
    ran = []

    def run(*words):
        ran.append(words)
        Path(words[words.index("--run") + 1]).mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(cells, "sparring", run)
    monkeypatch.setattr(cells, "commit", lambda folder: "0123abc")
    return ran


def test_a_cell_is_run_once_and_again_only_for_another_command(commands, tmp_path):
    first = cells.cell(tmp_path / "a", "demo", ["seed=0"], lambda run: {"figure": 0.5})
    again = cells.cell(tmp_path / "a", "demo", ["seed=0"], lambda run: {"figure": 0.7})
    assert first == again and len(commands) == 1
    assert (first["command"], first["commit"]) == ("sparring train demo seed=0", "0123abc")
    other = cells.cell(tmp_path / "a", "demo", ["seed=0", "steps=2"], lambda run: {"figure": 0.7})
    assert other["found"] == {"figure": 0.7} and len(commands) == 2


def test_cells_of_several_commits_are_refused():
    kept = [
        {"commit": "0123abc", "date": "2026-11-21"},
        {"commit": "0123abc", "date": "2026-11-22"},
    ]
    assert cells.origin(kept) == {"commit": "0123abc", "date": "2026-11-22"}
    with pytest.raises(SystemExit, match="2 commits: 0123abc, 4567def"):
        cells.origin([*kept, {"commit": "4567def", "date": "2026-11-22"}])


def test_a_run_that_was_stopped_is_no_cell(commands, tmp_path):
    run = tmp_path / "a"
    run.mkdir()
    (run / "config.yaml").write_text("steps: 3", encoding="utf-8")
    (run / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n', encoding="utf-8")
    with pytest.raises(SystemExit, match="stopped after 2 of 3 steps"):
        cells.cell(run, "demo", ["seed=0"], cells.metrics)
    assert not (run / "cell.json").exists()
    (run / "metrics.jsonl").write_text('{"step": 3}\n', encoding="utf-8")
    assert cells.cell(run, "demo", ["seed=0"], cells.metrics)["found"] == [{"step": 3}]


def test_seeds_measures_the_last_figure_and_the_worst_since_the_level(tmp_path):
    values = {20: 0.5, 40: 0.09, 60: 0.3, 80: 0.05}
    lines = [{"step": step, "legal_rate": step / 100} for step in range(1, 82)]
    lines = [
        {**line, "nash_conv/kuhn_poker": values[line["step"]]} if line["step"] in values else line
        for line in lines
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    expected = {"nash_conv": 0.05, "worst from the level on": 0.3, "first step at the level": 40}
    assert seeds.measured(tmp_path, 0.10) == {**expected, "legal replies": 0.81}
    never = {"worst from the level on": None, "first step at the level": None}
    assert never.items() <= seeds.measured(tmp_path, 0.01).items()


def test_seeds_keeps_every_value_by_recipe_and_seed():
    kept = {("demo", seed): {"found": {"nash_conv": seed / 10}, "seconds": 9.0} for seed in (0, 1)}
    rows = seeds.table(kept)
    values = {"nash_conv": {"0": 0.0, "1": 0.1}, "seconds": {"0": 9.0, "1": 9.0}}
    assert rows == [{"recipe": "demo", "level": 0.10, "starts": "all", "values": values}]
    assert published.row_faults(rows[0]) == []


def test_ablations_keep_every_value_by_arm_and_seed():
    score = {"return": {"mean": 0.5}, "score": {"mean": 40.0}}
    rows = [
        {"name": name, "kind": "match", "overall": score}
        for name in ablations.TRAINED + ablations.HELD_OUT
    ]
    rows.append({"name": "kuhn_poker-exact", "kind": "exact", "figures": {"nash_conv": 0.2}})
    kept = {("three games", "full", seed): {"found": rows, "seconds": 9.0} for seed in (0, 1)}
    (row,) = ablations.table(kept)
    assert row["values"]["kuhn_poker-exact"] == {"0": 0.2, "1": 0.2}
    assert row["values"]["held out"] == {"0": 40.0, "1": 40.0}
    assert published.row_faults(row) == []


def test_the_labs_rows_keep_every_figure_and_interval():
    figures = {"mean": 0.5, "low": 0.25, "high": 0.75}
    measured = dict.fromkeys(credit_study.credit_page.KEYS, figures)
    measured |= {"zeros": {"mean": None, "low": None, "high": None}, "seconds": 0.01}
    result = {
        "games": [
            {
                "game": "kuhn_poker",
                "rows": [
                    {"estimator": "rloo", **measured},
                    {"estimator": "ppr", "refused": "why"},
                ],
            }
        ]
    }
    first, second = credit_study.lab_rows(result)
    assert first["values"]["bias"] == {"0": 0.5} and first["intervals"]["bias"] == [0.25, 0.75]
    assert first["values"]["seconds"] == {"0": 0.01} and "seconds" not in first["intervals"]
    assert "zeros" not in first["values"]
    assert (second["refused"], second["starts"]) == ("why", "all")
    assert published.row_faults(first) == published.row_faults(second) == []


def test_the_races_rows_keep_every_seed():
    result = {"rows": [{"estimator": "rloo", "ends": [0.3, 0.2], "means": [0.5, 0.4]}]}
    lab = {"rloo": {key: {"mean": 0.1} for key in credit_study.race_claims.LAB_KEYS}}
    (row,) = credit_study.race_rows(result, lab)
    assert row["values"] == {"final": {"0": 0.3, "1": 0.2}, "mean": {"0": 0.5, "1": 0.4}}
    assert row["lab"]["cosine"] == 0.1
    assert published.row_faults(row) == []


# -- verifiable process rewards


def lines_of_vpr(solved, steps=30):
    """Return metrics of a run that solves this share of new puzzles, and all of training's."""
    lines = [{"step": step + 1, "return/sudoku/solver": 0.5} for step in range(steps)]
    for family, share in (("match", solved), ("match_seen", 1.0)):
        for part, value in (("success", share), ("optimal", share), ("illegal", 0.0)):
            lines[-1][f"{family}/sudoku/random/solver/{part}"] = value
    return lines


def test_what_vpr_solves_of_new_puzzles_stands_in_rows_of_unseen_starts(tmp_path, monkeypatch):
    vpr = load("benchmarks", "vpr")
    asked = []

    def cell(run, recipe, changes, measure):
        asked.append((recipe, *changes))
        return {"found": measure(run), "commit": "0123abc", "date": "2026-11-22"}

    monkeypatch.setattr(vpr, "cell", cell)
    monkeypatch.setattr(vpr, "metrics", lambda run: lines_of_vpr(0.1 * int(run.name[-1])))
    given = argparse.Namespace(
        games=["sudoku"],
        methods=["vpr"],
        steps=30,
        seeds=2,
        workers=1,
        folder=tmp_path,
        changes=[],
    )
    rows, source = vpr.methods(given)
    by_starts = {row["starts"]: row["values"] for row in rows}
    assert by_starts["unseen"]["solved"] == {"0": 0.0, "1": pytest.approx(0.1)}
    assert by_starts["seen"]["solved"] == {"0": 1.0, "1": 1.0}
    assert by_starts["seen"]["return over the run"] == {"0": 0.5, "1": 0.5}
    assert all("return, end" not in row["values"] for row in rows if row["starts"] == "unseen")
    assert [words[-2] for words in asked] == ["seed=0", "seed=1"]
    assert [fault for row in rows for fault in published.row_faults(row)] == []
    assert source["commit"] == "0123abc"


def test_the_table_of_logits_knows_nothing_of_new_puzzles():
    learner = load("benchmarks", "table_learner")
    learner.MEASURED, learner.EVERY = 40, 5
    found = learner.run("sudoku2", "vpr", 0, steps=10, groups=8, size=8)
    rows = load("benchmarks", "vpr_table").rows_of({"task": "sudoku2"}, [found])
    assert [row["starts"] for row in rows] == ["seen", "unseen"]
    seen, unseen = (row["values"]["best moves, end"]["0"] for row in rows)
    assert seen > 0.5
    assert unseen < 0.4  # one digit of four is right
    assert [fault for row in rows for fault in published.row_faults(row)] == []
