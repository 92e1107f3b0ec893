"""The table of runs, curves, configurations, league and workers, read from run folders."""

import json
import math
import os
import shutil
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.records import LEARNER, snapshot
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.view.episode_index import EpisodeIndex
from sparring.view.pages import answer
from sparring.view.run_files import FigureColumns, read_regular_file, thinned_indices
from sparring.view.viewed_run import find_runs
from sparring.view.worker_process import WorkerProcess
from tests.view.run_writer import append, episode, write_run, write_step


def get_only_run(client):
    (run,) = client.get("/api/runs").json()["runs"]
    return run


def test_a_row_of_the_table_describes_a_run(open_client, run_folder):
    row = get_only_run(open_client(run_folder.parent))
    assert (row["run"], row["name"], row["recipe"], row["seed"], row["state"]) == (0, "kuhn", "made", 0, "finished")
    assert (row["step"], row["steps"], row["plays"]) == (30, 30, 120)
    assert (row["plays_per_second"], row["seconds_per_step"], row["seconds_left"]) == (8.0, 0.5, None)
    assert row["environments"] == ["kuhn_poker"]
    assert row["newest"]["loss"] == {"step": 30, "value": 1 / 30}
    assert row["key"] == ["legal_rate"]
    assert row["events"] == 1 and row["event"]["metric"] == "loss"
    assert row["episodes"] == {"parts": 3, "indexed": 3, "rows": 12, "indexing": None, "left_out": 0}
    assert (row["started"], row["seconds"]) == (None, 15.0)  # 30 rounds of half a second
    assert row["notes"] == []


def test_the_state_is_read_from_the_folder(open_client, tmp_path):
    complete_run = write_run(tmp_path / "whole")
    empty_run = write_run(tmp_path / "empty", steps=())
    for name in ("metrics.jsonl", "timing.jsonl", "health.jsonl"):
        (empty_run / name).unlink()
    stopped_run = write_run(tmp_path / "stopped")
    (stopped_run / "config.yaml").write_text(
        (stopped_run / "config.yaml").read_text().replace("steps: 30", "steps: 40")
    )
    training_run = write_run(tmp_path / "held")
    (training_run / ".lock-holder").write_text(str(os.getpid()))
    broken_run = write_run(tmp_path / "broken")
    (broken_run / "config.yaml").write_text("a: [")
    newer_run = write_run(tmp_path / "newer")
    (newer_run / "sparring-run.json").write_text('{"format": 2}')
    client = open_client(tmp_path)
    states = {row["name"]: row["state"] for row in client.get("/api/runs").json()["runs"]}
    assert states == {
        "whole": "finished",
        "empty": "empty",
        "stopped": "stopped",
        "held": "training",
        "broken": "unreadable",
        "newer": "unreadable",
    }
    shutil.rmtree(complete_run)
    client.watch._last_check = -1.0
    rows = {row["name"]: row for row in client.get("/api/runs").json()["runs"]}
    assert rows["whole"]["state"] == "gone"
    assert "config.yaml" in rows["broken"]["notes"][0] and "format 2" in rows["newer"]["notes"][0]


def test_an_incomplete_line_is_read_once(tmp_path, monkeypatch):
    """An incomplete line may have 100 MB, and the page requests an update every second."""
    reads, path = [], tmp_path / "metrics.jsonl"

    def count_reads(path, offset):
        reads.append(offset)
        return read_regular_file(path, offset)

    monkeypatch.setattr("sparring.view.run_files.read_regular_file", count_reads)
    figures = FigureColumns(path=path)
    path.write_text('{"step": 1')
    assert [figures.update() for _ in range(3)] == [False] * 3
    assert reads == [0]
    path.open("a").write(', "loss": 1.0}\n{"step": 2')
    assert [figures.update() for _ in range(3)] == [True, False, False]
    assert reads == [0, 0]
    path.open("a").write("}\n")
    assert [figures.update() for _ in range(2)] == [True, False]
    assert list(figures.steps) == [1, 2]
    assert figures.damaged == 0
    path.write_text('{"step": 7}\n')  # shorter than the last size
    assert figures.update()
    assert list(figures.steps) == [7]
    path.write_text('{"step": 8, "loss": ')
    figures.update()
    path.write_text('{"step": 9}\n')  # shorter than the last size, but longer than the part read
    assert figures.update()
    assert list(figures.steps) == [9]


def test_seeds_of_one_configuration_are_a_family(open_client, tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"seed{seed}", seed=seed)
    other_run = write_run(tmp_path / "other")
    (other_run / "config.yaml").write_text(
        (other_run / "config.yaml").read_text().replace("games_per_step: 4", "games_per_step: 8")
    )
    client = open_client(tmp_path)
    families = {row["name"]: row["family"] for row in client.get("/api/runs").json()["runs"]}
    assert families["seed0"] == families["seed1"] != families["other"]
    rows = client.get("/api/differences?runs=0,1,2").json()["rows"]
    assert {row["key"]: row["values"] for row in rows} == {"seed": [0, 0, 1], "rollout.games_per_step": [8, 4, 4]}


def test_curves_have_four_axes(open_client, run_folder):
    client = open_client(run_folder)
    last_values = {}
    for axis in ("step", "plays", "tokens", "seconds"):
        curve = client.get(f"/api/runs/0/series?names=loss,seconds/round&x={axis}").json()["series"]["loss"]
        assert curve["step"] == list(range(1, 31)) and curve["y"][1] == 0.5 and not curve["thinned"]
        last_values[axis] = curve["x"][-1]
    assert last_values == {"step": 30, "plays": 120, "tokens": 600, "seconds": 15}
    assert client.get("/api/runs/0/series?names=loss&x=inches").status_code == 400
    assert client.get("/api/runs/0/series?names=none").json()["series"] == {}
    legal = client.get("/api/runs/0/series?names=legal_rate").json()["series"]["legal_rate"]
    assert legal["y"][1] is None


def test_only_new_complete_lines_are_sent(open_client, run_folder):
    client = open_client(run_folder)
    first_answer = client.get("/api/runs/0/series?names=loss").json()
    assert first_answer["from_start"] and len(first_answer["events"]) == 1
    with open(run_folder / "metrics.jsonl", "a") as stream:
        stream.write('{"step": 31, "loss": 0.')
    next_answer = client.get(f"/api/runs/0/series?names=loss&since={first_answer['cursor']}").json()
    assert not next_answer["from_start"] and next_answer["series"]["loss"]["y"] == [] and next_answer["events"] == []
    with open(run_folder / "metrics.jsonl", "a") as stream:
        stream.write("5}\n")
    next_answer = client.get(f"/api/runs/0/series?names=loss&since={first_answer['cursor']}").json()
    assert next_answer["series"]["loss"] == {"step": [31], "x": [31.0], "y": [0.5], "thinned": False}


def test_a_figure_is_sent_when_its_x_value_is_known(open_client, run_folder):
    client = open_client(run_folder)
    first_answer = client.get("/api/runs/0/series?names=loss&x=plays").json()
    append(run_folder / "metrics.jsonl", {"step": 31, "loss": 0.5})
    next_answer = client.get(f"/api/runs/0/series?names=loss&x=plays&since={first_answer['cursor']}").json()
    assert next_answer["series"]["loss"]["y"] == []
    append(run_folder / "timing.jsonl", {"step": 31, "games_per_second": 8.0, "seconds/round": 0.5})
    next_answer = client.get(f"/api/runs/0/series?names=loss&x=plays&since={next_answer['cursor']}").json()
    assert next_answer["series"]["loss"]["x"] == [124.0]


def test_a_rewound_run_is_sent_from_the_start(open_client, run_folder):
    client = open_client(run_folder)
    first_answer = client.get("/api/runs/0/series?names=loss").json()
    lines = (run_folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run_folder / "new").write_text(
        "".join(lines[:10]) + '{"step": 11, "loss": 9.0}\n' * 90
    )  # longer than the old file
    os.replace(run_folder / "new", run_folder / "metrics.jsonl")  # as a resumed run does
    next_answer = client.get(f"/api/runs/0/series?names=loss&since={first_answer['cursor']}").json()
    assert next_answer["from_start"] and next_answer["series"]["loss"]["y"][10] == 9.0
    for cursor in ("0.0.0.999.0.0", "a.b", "0.0.0.0.0.-1"):
        assert client.get(f"/api/runs/0/series?names=loss&since={cursor}").json()["from_start"]


def test_links_outside_the_folder_are_not_read(open_client, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    append(secret / "metrics.jsonl", {"step": 1, "loss": 42.0})
    run = write_run(tmp_path / "runs" / "kuhn")
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to(secret / "metrics.jsonl")
    shutil.move(run / "episodes", secret / "episodes")
    (run / "episodes").symlink_to(secret / "episodes")
    (tmp_path / "runs" / "linked").symlink_to(secret)
    client = open_client(tmp_path / "runs")
    row = get_only_run(client)
    assert row["newest"] == {} and row["episodes"]["rows"] == 0
    assert row["notes"] == ["episodes is a link out of the run folder and is not read"]
    assert client.get("/api/runs/0/episodes/10/40").status_code == 404


def test_runs_have_unique_names_and_new_runs_appear(tmp_path, open_client):
    for name in ("a/x", "b/x", "a/x/inner"):
        write_run(tmp_path / name, steps=())
    assert find_runs(tmp_path) == [tmp_path / "a/x", tmp_path / "b/x"]
    client = open_client(tmp_path / "a" / "x", tmp_path / "b" / "x", tmp_path)
    assert [row["name"] for row in client.get("/api/runs").json()["runs"]] == ["x", "b/x"]
    client = open_client(tmp_path / "new")
    assert client.get("/api/runs").json()["runs"] == []
    write_run(tmp_path / "new" / "kuhn")
    client.watch._last_check = client.watch._last_search = -10.0
    assert get_only_run(client)["name"] == "kuhn"


def test_a_run_reports_its_origin_and_damaged_lines(open_client, run_folder):
    (run_folder / "provenance.json").write_text(json.dumps({"starts": [{"command": "sparring train made"}]}))
    details = open_client(run_folder).get("/api/runs/0").json()
    assert details["config"]["environments.0.name"] == "kuhn_poker"
    assert details["provenance"] == [{"command": "sparring train made"}]
    assert details["stored"] == [10, 20, 30] and details["metrics"] == ["legal_rate", "loss"]
    with open(run_folder / "metrics.jsonl", "a") as stream:
        stream.write('no json\n[1]\n{"step": -1}\n{"step": 31, "loss": "high", "legal_rate": 1e999}\n')
    row = get_only_run(open_client(run_folder))
    assert row["notes"] == ["metrics.jsonl: 3 damaged lines are left out"]
    assert row["step"] == 31 and row["newest"]["loss"]["step"] == 30


def write_payoffs(run, opponent, **results):
    folder = run / "checkpoints" / "step_000010"
    folder.mkdir(parents=True, exist_ok=True)
    payoffs = Payoffs({RowKey("kuhn_poker", 0, LEARNER, opponent): Results(**results)})
    (folder / "state.json").write_text(json.dumps({"payoffs": payoffs.to_json()}))


def test_the_league_is_read_from_the_newest_readable_checkpoint(open_client, run_folder):
    client = open_client(run_folder)
    assert client.get("/api/runs/0/league").json()["standings"] == []
    write_payoffs(run_folder, snapshot(10), games=4, wins=3, losses=1, returns=2.0)
    damaged_checkpoint = run_folder / "checkpoints" / "step_000020"
    damaged_checkpoint.mkdir()
    (damaged_checkpoint / "state.json").write_text("{")
    league = client.get("/api/runs/0/league").json()
    assert league["step"] == 10 and "step 20" in league["notes"][0]
    (pair,) = league["standings"]
    assert (pair["player"], pair["opponent"], pair["games"], pair["win_rate"]) == ("learner", "past-000010", 4, 0.75)
    assert league["players"] == ["learner", "past-000010"]
    assert (
        pair["plays_more"] == 286 - 4 and league["half"] == 0.05
    )  # with 286 plays and a win rate of 3/4 the half width is 0.05


def test_further_plays_are_none_without_information(open_client, run_folder):
    for results, expected in ((dict(games=4, returns=2.0), None), (dict(games=2000, wins=1000, losses=1000), 0)):
        write_payoffs(run_folder, snapshot(10), **results)
        (pair,) = open_client(run_folder).get("/api/runs/0/league").json()["standings"]
        assert pair["plays_more"] == expected
    (run_folder / "config.yaml").write_text((run_folder / "config.yaml").read_text() + "league: {payoff_decay: 0.1}\n")
    league = open_client(run_folder).get("/api/runs/0/league").json()
    assert league["fades"] and league["standings"][0]["plays_more"] is None


def test_a_run_with_workers_shows_them(open_client, run_folder):
    client = open_client(run_folder)
    assert client.get("/api/runs/0/workers").json()["workers"] is False
    append(run_folder / "metrics.jsonl", {"step": 31, "lag": 1.0})
    append(
        run_folder / "timing.jsonl",
        {
            "step": 31,
            "workers": 2.0,
            "workers_idle": 0.5,
            "seconds/play": 0.25,
            "seconds/round": 1.0,
            "lost_workers": 1.0,
        },
    )
    workers = client.get("/api/runs/0/workers").json()
    assert (workers["step"], workers["ready"], workers["players_idle"], workers["learner_idle"], workers["lag"]) == (
        [31],
        [2.0],
        [0.5],
        [0.25],
        [1.0],
    )
    assert workers["sentence"].startswith("2 workers played, with weights that were 1 steps old")
    assert workers["faults"][0] == {"name": "lost_workers", "text": "workers lost", "total": 1.0, "steps": [[31, 1.0]]}
    assert workers["account"] == []
    plays = {"issued_games": 44.0, "learned_games": 32.0, "withheld_games": 4.0, "lost_games": 2.0, "open_games": 6.0}
    append(run_folder / "metrics.jsonl", {"step": 32, "lag": 1.0, **plays})
    assert [line["number"] for line in client.get("/api/runs/0/workers").json()["account"]] == [44, 32, 4, 2, 6]


def test_workers_have_lanes_if_recorded_and_one_sum_otherwise(open_client, run_folder):
    (run_folder / "config.yaml").write_text((run_folder / "config.yaml").read_text() + "scale: {workers: 4}\n")
    client, line = open_client(run_folder), {"workers": 3.0, "workers_idle": 0.5, "lost_workers": 1.0}
    append(run_folder / "timing.jsonl", {"step": 31, **line})
    workers = client.get("/api/runs/0/workers").json()
    assert workers["all"] == {"playing": [0.5], "ready": [0.75], "lost": [[31, 1.0]]}
    assert (workers["lanes"], workers["wanted"]) == ([], 4)
    lanes = {
        "worker/0/playing": 0.5,
        "worker/0/ready": 1.5,
        "worker/1/playing": 0.0,
        "worker/1/ready": 0.25,
        "worker/1/lost": 2.0,
    }
    append(run_folder / "timing.jsonl", {"step": 32, **line, **lanes})
    append(run_folder / "timing.jsonl", {"step": 33, "workers": 1.0, "workers_idle": 0.5})
    assert client.get("/api/runs/0/workers").json()["all"]["ready"] == [
        0.75,
        0.75,
        0.5,
    ]  # workers that played were ready
    first_lane, second_lane = client.get("/api/runs/0/workers").json()["lanes"]
    assert first_lane == {"worker": 0, "playing": [None, 0.5, None], "ready": [None, 1.0, None], "lost": []}
    assert second_lane == {"worker": 1, "playing": [None, 0.0, None], "ready": [None, 0.25, None], "lost": [[32, 2.0]]}


@given(st.lists(st.floats(-1e9, 1e9) | st.just(math.nan), min_size=1, max_size=300), st.integers(2, 60))
def test_thinning_keeps_extremes_order_and_size(values, points):
    figures = np.array(values)
    indices = thinned_indices(np.arange(len(figures), dtype=float), figures, points)
    assert len(indices) <= max(points, 2) and list(indices) == sorted(set(indices))
    if not np.isnan(figures).all():
        assert np.nanmax(figures[indices]) == np.nanmax(figures) and np.nanmin(figures[indices]) == np.nanmin(figures)


@pytest.mark.parametrize("points", ["1", "0", "", "99999"])
def test_the_number_of_points_is_limited(open_client, run_folder, points):
    client = open_client(run_folder)
    assert client.get(f"/api/runs/0/series?names=loss&points={points}").status_code == 200
    assert client.get("/api/runs/0/series?names=loss&points=-2").status_code == 400
    assert client.get("/api/sparks?names=loss&points=5").json()["runs"]["0"]["loss"][-1] == 1 / 30


def test_small_environments_have_reference_values(open_client, run_folder, monkeypatch):
    config = {"environments": [{"name": "kuhn_poker"}, {"name": "no_such_environment"}]}
    names = ["loss", "nash_conv/kuhn_poker", "return/kuhn_poker/first"]
    figures = answer({"config": config, "names": names})["figures"]
    assert set(figures) == {"nash_conv/kuhn_poker", "return/kuhn_poker/first"}
    assert figures["return/kuhn_poker/first"][1] == {"label": "equilibrium", "value": pytest.approx(-1 / 18)}
    monkeypatch.setattr(WorkerProcess, "ask", None)  # a call would start a process
    assert open_client(run_folder).get("/api/runs/0/references").json()["figures"] == {}


def test_a_run_reports_its_first_start_and_the_time_of_steps(open_client, run_folder):
    client = open_client(run_folder)
    run_starts = [{"date": "2026-11-22T04:10:11+00:00"}, {"date": "2026-11-23T00:00:00+00:00"}]
    (run_folder / "provenance.json").write_text(json.dumps({"starts": run_starts}))
    append(run_folder / "timing.jsonl", {"step": 31, "seconds/round": 2.0, "seconds/evaluation": 0.5})
    row = get_only_run(client)
    assert (row["started"], row["seconds"]) == (run_starts[0]["date"], 17.5)
    for text in ('{"starts": [{"date": 7}]}', "{", '{"starts": []}'):
        (run_folder / "provenance.json").write_text(text)
        assert get_only_run(client)["started"] is None
    (run_folder / "provenance.json").unlink()
    assert get_only_run(client)["started"] is None


def test_episodes_not_indexed_yet_are_reported(open_client, tmp_path):
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    client = open_client(tmp_path)
    assert get_only_run(client)["episodes"]["indexing"] is None
    write_step(folder, 20, [episode(80)])
    client.watch._last_check = -1.0
    assert get_only_run(client)["episodes"] == {"parts": 1, "indexed": 1, "rows": 4, "indexing": "later", "left_out": 0}
    client.get("/api/episodes")  # a request starts the index
    assert client.watch.idle.wait(10)
    assert get_only_run(client)["episodes"] == {"parts": 2, "indexed": 2, "rows": 5, "indexing": None, "left_out": 0}


def test_episodes_being_indexed_are_reported(open_client, tmp_path, monkeypatch):
    index_started, may_continue = threading.Event(), threading.Event()
    update = EpisodeIndex.update

    def wait_then_update(self, *arguments):
        index_started.set()
        assert may_continue.wait(20)
        return update(self, *arguments)

    folder = write_run(tmp_path / "kuhn", steps=())
    client = open_client(tmp_path)
    monkeypatch.setattr(EpisodeIndex, "update", wait_then_update)
    write_step(folder, 20, [episode(80)])
    client.watch._last_check = -1.0
    client.get("/api/episodes")
    get_only_run(client)
    assert index_started.wait(20)
    assert get_only_run(client)["episodes"]["indexing"] == "now"
    may_continue.set()
    assert client.watch.idle.wait(10)
    assert get_only_run(client)["episodes"]["indexing"] is None


def test_a_run_without_a_league_differs_from_a_league_without_snapshots(open_client, run_folder):
    config = run_folder / "config.yaml"
    text = config.read_text()
    write_payoffs(run_folder, LEARNER, games=4, wins=2, losses=2)
    for config_text, has_no_league in (
        ("", "This run has no league: mirror self-play. "),
        ("league: {every: 0}\nmatchmaker: {name: mirror}\n", "This run has no league: mirror self-play. "),
        ("league: {every: 0}\nmatchmaker: fixed\n", "This run has no league. "),
        ("league: {every: 10}\n", None),
        ("league: {every: 0, start: true}\n", None),
    ):
        config.write_text(text + config_text)
        league = open_client(run_folder).get("/api/runs/0/league").json()
        assert (league["none"] or "").startswith(has_no_league or "") and (league["none"] is None) == (
            has_no_league is None
        )
        assert league["standings"] == [] and league["players"] == []  # no row of a player against itself
