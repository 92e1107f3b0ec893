"""Plays of people beside those of a training: found, told apart, opened, and never mixed up."""

import pytest

from sparring.play.store import EpisodeStore
from tests.view import run_made as made


@pytest.fixture
def client(opened, run_folder):
    """Return a client of a run whose step 10 and first play of a person have the same numbers."""
    played = made.episode(40, made.turn(0, "bet", said="welcome, person"), agents=("person-me", "bot-cfr"))
    made.write_played(run_folder / "played", 10, played)
    return opened(run_folder)


def rows(client, query=""):
    answer = client.get(f"/api/episodes?{query}").json()
    return [(row["run"], row["people"], row["step"], row["episode"]) for row in answer["rows"]]


def test_plays_of_people_are_found_and_opened_apart_from_those_of_training(client):
    assert rows(client, "of=people") == [(0, True, 10, 40)]
    assert len(rows(client, "of=training")) == 12 and len(rows(client)) == 13
    assert rows(client, "of=people&run=0&player=person-me") == [(0, True, 10, 40)]
    assert rows(client, "text=welcome") == [(0, True, 10, 40)]
    facets = client.get("/api/episodes").json()["facets"]
    assert facets["of"] == [["training", 12], ["people", 1]] and facets["run"] == [[0, 13]]
    assert client.get("/api/episodes?of=nobody").status_code == 400
    assert client.get("/api/runs").json()["runs"][0]["episodes"]["rows"] == 12
    theirs = client.get("/api/runs/0-people/episodes/10/40").json()
    assert (theirs["run"], theirs["people"], theirs["turns"][0]["told"]) == (0, True, "welcome, person")
    own = client.get("/api/runs/0/episodes/10/40").json()
    assert own["people"] is False and own["turns"][0]["told"] != "welcome, person"
    assert client.get("/api/runs/0-people/groups/10/40").json()["members"][0]["actions"] == ["bet"]
    assert b"welcome, person" in client.get("/export/0-people/10/40.html").content
    assert client.get("/api/runs/0-people/episodes/20/80").status_code == 404
    for name in ("1-people", "-people", "0-people-people-people"):
        assert client.get(f"/api/runs/{name}/episodes/10/41").status_code == 404


def test_a_new_play_is_seen_and_a_torn_part_named(client, run_folder):
    store = EpisodeStore(run_folder / "played" / "episodes")
    store.append(11, [made.episode(1)])
    client.watch._looked = -1.0
    client.get("/api/changes?since=0")
    rows(client)
    assert client.watch.idle.wait(10) and len(rows(client, "of=people")) == 2
    store.path(12).write_bytes(b"PAR1")
    client.watch._looked = -1.0
    client.get("/api/changes?since=0")
    rows(client)
    assert client.watch.idle.wait(10)
    (left,) = client.get("/api/episodes?of=people").json()["left_out"]
    assert (left["run"], left["part"]) == (0, "played/episodes/part-000012.parquet")


def test_a_folder_that_leads_out_is_not_read(opened, run_folder, tmp_path):
    made.write_played(tmp_path / "secret", 1, made.episode(1))
    (run_folder / "played").symlink_to(tmp_path / "secret")
    client = opened(run_folder)
    assert rows(client, "of=people") == []
    assert client.get("/api/runs/0-people/episodes/1/1").status_code == 404
    assert "played leads out" in client.get("/api/runs/0").json()["notes"][0]
