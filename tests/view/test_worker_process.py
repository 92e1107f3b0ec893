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

from sparring.play.store import EpisodeStore
from sparring.view.http_requests import RequestError
from sparring.view.worker_process import WorkerProcess
from tests.view.run_writer import write_run


@pytest.fixture
def aside(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    process = WorkerProcess("worker_answers", seconds=10.0)
    yield process
    process.close()


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
    script = (
        "import multiprocessing, sys, threading, time; sys.path.insert(0, sys.argv[1]); from sparring.view.worker_process import WorkerProcess\n"
        "if __name__ == '__main__':\n"
        "    aside = WorkerProcess('worker_answers', 60.0); print(aside.ask({'do': 'answer'})['process'], flush=True); aside.ask({'do': 'hang'})\n"
    )
    viewer = subprocess.Popen(
        [sys.executable, "-c", script, str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
    )
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
    questions = []

    def ask(self, question):
        questions.append(question)
        if question["turn"] == 1:
            raise RequestError(404, "it cannot be drawn")
        return {"svg": "<svg>é</svg>", "said": "first holds é\n"}

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    client = opened(folder)
    place = "/api/runs/0/episodes/10/40"
    assert client.get(place).json()["pictures"] is True
    picture = {"svg": "<svg>é</svg>", "said": "first holds é\n", "why": None}
    assert client.get(f"{place}/board/0?seat=1&theme=dark").json() == picture
    assert questions == [{"folder": str(folder), "step": 10, "episode": 40, "turn": 0, "seat": 1, "theme": "dark"}]
    assert client.get(f"{place}/board/1").json() == {"svg": None, "said": None, "why": "it cannot be drawn"}
    assert client.get(f"{place}/board/3").status_code == client.get(f"{place}/board/0?seat=2").status_code == 404
    assert "\\u003csvg\\u003e" in client.get("/export/0/10/40.html").text
    assert questions[-1]["turn"] == 1


@pytest.fixture(scope="module")
def client(opened, trained_run):
    return opened(trained_run)


def board(client, number, turn, **params):
    return client.get(f"/api/runs/0/episodes/1/{number}/board/{turn}", params=params).json()


def test_every_position_is_drawn_and_said_also_in_a_mailed_replay(client, trained_run):
    number = next(EpisodeStore(trained_run / "episodes").episodes())[1].episode_id
    replay = client.get(f"/api/runs/0/episodes/1/{number}").json()
    assert replay["pictures"]
    for turn in range(len(replay["turns"]) + 1):
        picture = board(client, number, turn)
        assert ET.fromstring(picture["svg"]).tag.endswith("svg") and picture["said"] and picture["why"] is None
    assert board(client, number, 0, theme="dark")["svg"] != board(client, number, 0)["svg"]
    turns = client.get(f"/api/runs/0/episodes/1/{number}").json()["turns"]
    page = client.get(f"/export/0/1/{number}.html").text
    assert page.count('"svg":"\\u003csvg') == len(turns) + 1 == page.count('"why":null')


def test_a_seat_sees_its_own_card_alone(client, trained_run):
    hands = [
        (episode.episode_id, [turn.prompt for turn in episode.turns])
        for step, episode in EpisodeStore(trained_run / "episodes").episodes()
        if step == 1
    ]
    for number, prompts in hands:
        private = board(client, number, 0, seat=0)
        everything = board(client, number, 0)
        assert private["svg"] != everything["svg"] and private["said"] != everything["said"], prompts
    assert len({board(client, number, 0, seat=0)["said"] for number, _ in hands}) <= 3  # one per card
