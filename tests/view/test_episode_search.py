"""The episode search, and stores that are damaged, of a newer format, deleted or replaced."""

import os

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.play.store import CreditStore, EpisodeStore
from sparring.view.episode_index import EpisodeIndex
from tests.view import run_writer
from tests.view.run_writer import credit, episode, turn, write_run, write_step


def search(client, query=""):
    answer = client.get(f"/api/episodes?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def search_ids(client, query):
    return sorted(row["episode"] for row in search(client, query)["rows"])


@pytest.fixture(scope="module")
def client(open_client, tmp_path_factory):
    return open_client(write_run(tmp_path_factory.mktemp("runs") / "kuhn"))


def test_the_newest_step_comes_first_with_all_columns(client):
    answer = search(client)
    assert answer["total"] == 12 and answer["left_out"] == []
    assert answer["indexed"] == {"parts": 3, "of": 3, "rows": 12}
    row = answer["rows"][0]
    assert row.pop("logprob") == pytest.approx(-0.375)
    assert row == {
        "run": 0, "people": False, "step": 30, "episode": 120, "group": 120, "game": "kuhn_poker", "roles": ["first", "second"],
        "agents": ["learner", "past-000010"], "returns": [-1.0, 1.0], "turns": 2, "tokens": 4, "illegal": 0,
        "forfeited_by": None, "cut": False, "advantage": 0.5, "regret": 1.5, "wrong": False,
    }  # fmt: skip
    assert answer["facets"] == {
        "run": [[0, 12]],
        "of": [["training", 12]],
        "game": [["kuhn_poker", 12]],
        "seat": [["first", 12], ["second", 12]],
        "player": [["learner", 12], ["past-000010", 9]],
    }


@pytest.mark.parametrize(
    ("query", "episodes"),
    [
        ("step=10", [40, 41, 42, 43]),
        ("step=10-20&illegal=1", [41, 81]),
        ("step=30&illegal=0", [120, 122, 123]),
        ("illegal=1&seat=first", [41, 81, 121]),
        ("illegal=1&seat=second", []),
        ("step=30&player=learner&seat=second", [123]),
        ("step=30&outcome=win", [120, 121, 122]),
        ("step=30&outcome=loss&seat=first", [120, 121, 122]),
        ("step=30&outcome=draw", [123]),
        ("step=30&turns=1", [121]),
        ("step=30&turns=2-", [120, 122, 123]),
        ("step=30&turns=-1", [121]),
        ("step=30&forfeited=1", [121]),
        ("step=30&advantage=0.4-0.6", [120, 121, 122, 123]),
        ("step=30&regret=1.5&seat=second", [120, 122, 123]),
        ("step=30&regret=-0&seat=first", [120, 122, 123]),
        ("step=30&wrong=1", [121]),  # the illegal reply has regret 1.5, but the advantage +0.5
        ("step=30&wrong=1&seat=second", []),  # the bet has regret 1.5 and the advantage -0.5
        ("group=120", [120, 122]),
        ("step=30&game=kuhn_poker&run=0", [120, 121, 122, 123]),
        ("game=chess", []),
        ("seat=third", []),
        ("step=30&text=SECRET card j", [120, 122, 123]),
        ("step=30&text=fold", [121]),
        ("step=30&text=fold&illegal=0", []),
    ],
)
def test_search_conditions_select_episodes(client, query, episodes):
    assert search_ids(client, query) == episodes


def test_facets_also_list_values_that_the_query_excludes(client):
    facets = search(client, "step=30&seat=first&illegal=1")["facets"]
    assert facets["seat"] == [["first", 1], ["second", 1]]
    assert facets["player"] == [["learner", 1], ["past-000010", 1]]


@pytest.mark.parametrize(
    "sort", ["step", "episode", "game", "turns", "tokens", "illegal", "advantage", "regret", "logprob", "return"]
)
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_every_column_sorts_and_pages_together_have_all_rows(client, sort, order):
    rows = search(client, f"sort={sort}&order={order}&limit=200")["rows"]
    if sort != "return":
        values = [row[sort] for row in rows]
        assert values == sorted(values, reverse=order == "desc")
    rows_of_pages = [
        row
        for offset in range(0, 12, 5)
        for row in search(client, f"sort={sort}&order={order}&limit=5&offset={offset}")["rows"]
    ]
    assert rows_of_pages == rows


@pytest.mark.parametrize(
    "query",
    [
        "sort=1;drop table episodes",
        "order=up",
        "offset=-1",
        "limit=x",
        "turns=a",
        "turns=5--",
        "advantage=nan",
        "illegal=yes",
        "outcome=all",
        "run=a",
        "wrong=2",
        "turns=-",
        "forfeited=x",
        "step=1-2-3",
    ],
)
def test_an_invalid_condition_is_refused_in_one_line(client, query):
    answer = client.get(f"/api/episodes?{query}")
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]


@given(
    st.text(max_size=30),
    st.sampled_from(["game", "seat", "player", "text", "turns", "outcome", "advantage", "run", "sort", "limit"]),
)
@settings(max_examples=25)
def test_any_text_in_any_parameter_is_answered(client, text, name):
    assert client.get("/api/episodes", params={name: text}).status_code in (200, 400)


def test_non_finite_values_and_candidates_are_ignored(open_client, tmp_path):
    folder = write_run(tmp_path / "kuhn", steps=())
    episodes = [episode(episode_id, turn(0, "pass")) for episode_id in range(4)]
    write_step(
        folder, 1, episodes, advantage=lambda episode_id, seat: (float("nan"), float("inf"), 3.0, None)[episode_id]
    )
    rows = search(open_client(folder), "sort=advantage")["rows"]
    assert [row["advantage"] for row in rows] == [3.0, None, None, None]
    folder = write_run(tmp_path / "second", steps=())
    candidate = turn(0, "fold", event="illegal", candidate=1)
    write_step(
        folder, 1, [episode(0, turn(0, "pass", candidates=(candidate,)), turn(0, "note", event="memory", turn_index=1))]
    )
    (row,) = search(open_client(folder))["rows"]
    assert (row["turns"], row["illegal"], row["tokens"]) == (1, 0, 2)


def damage_one_byte(path):
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)


def test_unreadable_files_are_skipped_and_named(open_client, tmp_path):
    folder = write_run(tmp_path / "kuhn", steps=range(1, 7))
    files = {step: folder / "episodes" / f"part-{step:06d}.parquet" for step in range(1, 7)}
    files[1].write_bytes(files[1].read_bytes()[:-50])
    damage_one_byte(files[2])
    table = pq.read_table(files[3])
    pq.write_table(table.replace_schema_metadata({b"sparring.episodes.version": b"99"}), files[3])
    files[4].write_text("no part")
    CreditStore(folder / "credit").path(5).write_text("torn")
    answer = search(open_client(folder.parent))
    assert answer["total"] == 8
    reasons = {file["part"]: file["why"] for file in answer["left_out"]}
    assert set(reasons) == {
        *(f"episodes/part-{step:06d}.parquet" for step in range(1, 5)),
        "credit/part-000005.parquet",
    }
    assert "version 99" in reasons["episodes/part-000003.parquet"] and str(tmp_path) not in str(reasons)
    assert {row["step"]: row["advantage"] for row in answer["rows"]} == {5: None, 6: 0.5}


def test_files_are_keyed_by_content_and_step(tmp_path):
    folder = write_run(tmp_path / "kuhn")
    index, updates = EpisodeIndex(), []
    index.update({0: folder}, updates.append)
    index.update({0: folder}, updates.append)
    assert updates == [{0}] and len(index.signatures) == 3
    write_step(folder, 20, [episode(99)])
    (folder / "episodes" / "part-000030.parquet").unlink()
    index.update({0: folder}, updates.append)
    rows = index.cursor().execute("SELECT episode FROM episodes ORDER BY 1").fetchall()
    assert [episode_id for (episode_id,) in rows] == [40, 41, 42, 43, 99]
    assert len(index.cursor().execute("SELECT * FROM seats").fetchall()) == 10
    index.close()
    folder = write_run(tmp_path / "second", steps=(10,))
    os.rename(folder / "episodes" / "part-000010.parquet", folder / "episodes" / "part-000011.parquet")
    index = EpisodeIndex()
    index.update({0: folder}, lambda runs: None)
    (reason,) = index.skipped_parts.values()
    assert reason.part == "episodes/part-000011.parquet" and "other steps" in reason.why
    index.close()


def test_new_files_are_indexed_and_deleted_files_are_removed(open_client, tmp_path):
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    client = open_client(tmp_path)
    version = search(client)["version"]
    assert client.get(f"/api/changes?since={version}").status_code == 304
    EpisodeStore(folder / "episodes").append(20, [episode(80)])
    CreditStore(folder / "credit").put(20, credit(20, [episode(80)]))
    client.watch._last_check = -1.0
    changes = client.get(f"/api/changes?since={version}").json()
    assert changes["runs"] == [0] and changes["version"] > version and changes["indexing"] == {"parts": 1, "of": 1}
    assert client.watch.idle.wait(10)
    assert search(client)["total"] == 5
    for path in (folder / "episodes").iterdir():
        path.unlink()
    client.watch._last_check = -1.0
    assert client.get(f"/api/changes?since={changes['version']}").status_code == 200
    assert client.watch.idle.wait(10)
    assert search(client)["total"] == 0


def grow_run(client, folder, steps):
    for step in steps:
        write_step(folder, step, [episode(4 * step)])
    client.watch._last_check = -1.0
    assert client.get("/api/changes?since=0").json()["indexing"] is None or client.watch._is_in_use()


def test_during_training_only_a_few_steps_are_indexed_at_once(open_client, tmp_path, monkeypatch):
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    (folder / ".lock-holder").write_text(str(os.getpid()))
    limits, update = [], EpisodeIndex.update
    monkeypatch.setattr(
        EpisodeIndex, "update", lambda self, *arguments: limits.append(arguments[2]) or update(self, *arguments)
    )
    monkeypatch.setattr("sparring.view.watch.LIVE_SHARE", 100.0)
    monkeypatch.setattr("sparring.view.watch.LIVE_PARTS", 2)
    client = open_client(tmp_path)
    search(client)
    grow_run(client, folder, range(20, 25))
    assert client.watch.idle.wait(10)
    assert search(client)["total"] == 9 and limits == [None, 2, 2, 2]


def test_a_repeated_search_of_an_unchanged_index_is_cached(open_client, tmp_path, monkeypatch):
    from sparring.view import pages

    searches, find = [], pages.find
    monkeypatch.setattr(pages, "find", lambda *query: searches.append(query) or find(*query))
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    client = open_client(tmp_path)
    assert search(client, "illegal=1")["rows"] == search(client, "illegal=1")["rows"] and len(searches) == 1
    assert search(client, "illegal=0")["rows"] != search(client, "illegal=1")["rows"] and len(searches) == 2
    grow_run(client, folder, [20])
    search(client, "illegal=1")
    assert client.watch.idle.wait(10) and search(client, "step=20")["total"] == 1
    assert search(client, "illegal=0")["total"] == 4


@pytest.fixture
def people_client(open_client, run_folder):
    person_episode = run_writer.episode(
        40, run_writer.turn(0, "bet", prompt="welcome, person"), agents=("person-me", "bot-cfr")
    )
    run_writer.write_people_episode(run_folder / "played", 10, person_episode)
    return open_client(run_folder)


def rows(people_client, query=""):
    answer = people_client.get(f"/api/episodes?{query}").json()
    return [(row["run"], row["people"], row["step"], row["episode"]) for row in answer["rows"]]


def test_episodes_of_people_are_searched_separately_from_training(people_client):
    assert rows(people_client, "of=people") == [(0, True, 10, 40)]
    assert len(rows(people_client, "of=training")) == 12 and len(rows(people_client)) == 13
    assert rows(people_client, "of=people&run=0&player=person-me") == [(0, True, 10, 40)]
    assert rows(people_client, "text=welcome") == [(0, True, 10, 40)]
    facets = people_client.get("/api/episodes").json()["facets"]
    assert facets["of"] == [["training", 12], ["people", 1]] and facets["run"] == [[0, 13]]
    assert people_client.get("/api/episodes?of=nobody").status_code == 400
    assert people_client.get("/api/runs").json()["runs"][0]["episodes"]["rows"] == 12
    person_episode = people_client.get("/api/runs/0-people/episodes/10/40").json()
    assert (person_episode["run"], person_episode["people"], person_episode["turns"][0]["told"]) == (
        0,
        True,
        "welcome, person",
    )
    training_episode = people_client.get("/api/runs/0/episodes/10/40").json()
    assert training_episode["people"] is False and training_episode["turns"][0]["told"] != "welcome, person"
    assert people_client.get("/api/runs/0-people/groups/10/40").json()["members"][0]["actions"] == ["bet"]
    assert b"welcome, person" in people_client.get("/export/0-people/10/40.html").content
    assert people_client.get("/api/runs/0-people/episodes/20/80").status_code == 404
    for name in ("1-people", "-people", "0-people-people-people"):
        assert people_client.get(f"/api/runs/{name}/episodes/10/41").status_code == 404


def test_a_new_episode_is_indexed_and_a_damaged_file_is_reported(people_client, run_folder):
    store = EpisodeStore(run_folder / "played" / "episodes")
    store.append(11, [run_writer.episode(1)])
    people_client.watch._last_check = -1.0
    people_client.get("/api/changes?since=0")
    rows(people_client)
    assert people_client.watch.idle.wait(10) and len(rows(people_client, "of=people")) == 2
    store.path(12).write_bytes(b"PAR1")
    people_client.watch._last_check = -1.0
    people_client.get("/api/changes?since=0")
    rows(people_client)
    assert people_client.watch.idle.wait(10)
    (damaged,) = people_client.get("/api/episodes?of=people").json()["left_out"]
    assert (damaged["run"], damaged["part"]) == (0, "played/episodes/part-000012.parquet")


def test_a_folder_outside_the_run_is_not_read(open_client, run_folder, tmp_path):
    run_writer.write_people_episode(tmp_path / "secret", 1, run_writer.episode(1))
    (run_folder / "played").symlink_to(tmp_path / "secret")
    people_client = open_client(run_folder)
    assert rows(people_client, "of=people") == []
    assert people_client.get("/api/runs/0-people/episodes/1/1").status_code == 404
    assert "played is a link out" in people_client.get("/api/runs/0").json()["notes"][0]
