"""A process that is asked from aside: it may raise, crash or hang, and the next question is answered."""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import sparring
from sparring.play.store import EpisodeStore
from sparring.view.http_requests import RequestError
from sparring.view.worker_process import WorkerProcess
from tests.view.run_made import write_run


@pytest.fixture
def aside(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    made = WorkerProcess("aside_made", seconds=10.0)
    yield made
    made.close()


@pytest.mark.slow
def test_a_crash_and_a_hang_are_said_and_the_next_question_is_answered(aside):
    first = aside.ask({"do": "answer"})
    assert first["process"] != os.getpid() and first["offline"] == "1"
    with pytest.raises(RequestError, match="two lines") as refused:
        aside.ask({"do": "raise"})
    assert refused.value.status == 404
    assert aside.ask({"do": "answer"}) == first  # the same process
    with pytest.raises(RequestError, match="crashed"):
        aside.ask({"do": "crash"})
    second = aside.ask({"do": "answer"})
    assert second["process"] != first["process"]
    aside._seconds = 0.5
    with pytest.raises(RequestError, match="within"):
        aside.ask({"do": "hang"})
    with pytest.raises(ProcessLookupError):
        os.kill(second["process"], 0)


@pytest.mark.slow
def test_it_ends_when_the_viewer_is_killed_while_it_thinks():
    """Not only when it has answered, which may be minutes later."""
    script = (
        "import multiprocessing, sys, threading, time; sys.path.insert(0, sys.argv[1]); from sparring.view.worker_process import WorkerProcess\n"
        "if __name__ == '__main__':\n"
        "    aside = WorkerProcess('aside_made', 60.0); print(aside.ask({'do': 'answer'})['process'], flush=True); aside.ask({'do': 'hang'})\n"
    )
    viewer = subprocess.Popen([sys.executable, "-c", script, str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True)
    process = int(viewer.stdout.readline())
    time.sleep(1)  # it thinks
    thinking = psutil.Process(process)
    viewer.kill()
    viewer.wait()
    viewer.stdout.close()
    until = time.monotonic() + 15
    try:
        while thinking.is_running() and thinking.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until, "it goes on"
            time.sleep(0.05)
    except psutil.NoSuchProcess:
        pass
    finally:
        with suppress(psutil.NoSuchProcess):
            thinking.kill()


def test_pictures_are_asked_for_by_place_and_seat(opened, tmp_path, monkeypatch):
    asked = []

    def ask(self, question):
        asked.append(question)
        if question["turn"] == 1:
            raise RequestError(404, "it cannot be drawn")
        return {"svg": "<svg>é</svg>", "said": "first holds é\n"}

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    client = opened(folder)
    place = "/api/runs/0/episodes/10/40"
    assert client.get(place).json()["pictures"] is True
    drawn = {"svg": "<svg>é</svg>", "said": "first holds é\n", "why": None}
    assert client.get(f"{place}/board/0?seat=1&theme=dark").json() == drawn
    assert asked == [{"folder": str(folder), "step": 10, "episode": 40, "turn": 0, "seat": 1, "theme": "dark"}]
    assert client.get(f"{place}/board/1").json() == {"svg": None, "said": None, "why": "it cannot be drawn"}
    assert client.get(f"{place}/board/3").status_code == client.get(f"{place}/board/0?seat=2").status_code == 404
    assert "\\u003csvg\\u003e" in client.get("/export/0/10/40.html").text
    assert asked[-1]["turn"] == 1


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
