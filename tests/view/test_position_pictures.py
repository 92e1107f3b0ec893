"""Pictures of stored plays: drawn by a process of its own, private to a seat, and never fatal."""

import xml.etree.ElementTree as ET

import pytest

import sparring
from sparring.play.store import EpisodeStore

CHANGES = (
    *("steps=1", "threads=1", "store.every=1", "warmup.updates=1", "warmup.games=8", "rollout.games_per_step=8"),
    *("model.hidden_size=8", "model.layers=1", "model.heads=1", "evaluation.exact=false", "evaluation.opponents=[]"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("boards") / "kuhn"
    sparring.train("kuhn-tiny", *CHANGES, run=path)
    return path


@pytest.fixture(scope="module")
def client(opened, run):
    return opened(run)


@pytest.fixture(scope="module")
def number(run):
    return next(EpisodeStore(run / "episodes").episodes())[1].episode_id


def board(client, number, turn, **asked):
    return client.get(f"/api/runs/0/episodes/1/{number}/board/{turn}", params=asked).json()


def test_every_position_is_drawn_and_said_also_in_a_mailed_replay(client, number):
    shown = client.get(f"/api/runs/0/episodes/1/{number}").json()
    assert shown["pictures"]
    for turn in range(len(shown["turns"]) + 1):
        found = board(client, number, turn)
        assert ET.fromstring(found["svg"]).tag.endswith("svg") and found["said"] and found["why"] is None
    assert board(client, number, 0, theme="dark")["svg"] != board(client, number, 0)["svg"]
    turns = client.get(f"/api/runs/0/episodes/1/{number}").json()["turns"]
    page = client.get(f"/export/0/1/{number}.html").text
    assert page.count('"svg":"\\u003csvg') == len(turns) + 1 == page.count('"why":null')


def test_a_seat_sees_its_own_card_alone(client, run):
    hands = [(one.episode_id, [turn.told for turn in one.turns]) for _, one in EpisodeStore(run / "episodes").episodes()]
    for number, told in hands:
        own = board(client, number, 0, seat=0)
        everything = board(client, number, 0)
        assert own["svg"] != everything["svg"] and own["said"] != everything["said"], told
    assert len({board(client, number, 0, seat=0)["said"] for number, _ in hands}) <= 3  # one per card
