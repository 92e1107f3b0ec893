"""The helper process of the viewer: after an error, crash or timeout it answers the next question."""

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
def worker_process(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    process = WorkerProcess("worker_answers", seconds=10.0)
    yield process
    process.close()


@pytest.mark.slow
def test_after_a_crash_or_a_timeout_the_next_question_is_answered(worker_process):
    first_answer = worker_process.ask({"do": "answer"})
    assert first_answer["process"] != os.getpid() and first_answer["offline"] == "1"
    with pytest.raises(RequestError, match="two lines") as error_info:
        worker_process.ask({"do": "raise"})
    assert error_info.value.status == 404
    assert worker_process.ask({"do": "answer"}) == first_answer  # both answers come from one process
    with pytest.raises(RequestError, match="crashed"):
        worker_process.ask({"do": "crash"})
    second_answer = worker_process.ask({"do": "answer"})
    assert second_answer["process"] != first_answer["process"]
    worker_process._seconds = 0.5
    with pytest.raises(RequestError, match="within"):
        worker_process.ask({"do": "hang"})
    with pytest.raises(ProcessLookupError):
        os.kill(second_answer["process"], 0)


@pytest.mark.slow
def test_the_worker_ends_when_the_viewer_is_killed():
    script = (
        "import multiprocessing, sys, threading, time; sys.path.insert(0, sys.argv[1]); from sparring.view.worker_process import WorkerProcess\n"
        "if __name__ == '__main__':\n"
        "    worker = WorkerProcess('worker_answers', 60.0); print(worker.ask({'do': 'answer'})['process'], flush=True); worker.ask({'do': 'hang'})\n"
    )
    viewer = subprocess.Popen(
        [sys.executable, "-c", script, str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
    )
    worker_pid = int(viewer.stdout.readline())
    time.sleep(1)  # now the worker computes the answer that never ends
    worker = psutil.Process(worker_pid)
    viewer.kill()
    viewer.wait()
    viewer.stdout.close()
    deadline = time.monotonic() + 15
    try:
        while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "the worker still runs"
            time.sleep(0.05)
    except psutil.NoSuchProcess:
        pass
    finally:
        with suppress(psutil.NoSuchProcess):
            worker.kill()


def test_pictures_are_requested_by_turn_and_seat(open_client, tmp_path, monkeypatch):
    questions = []

    def ask(self, question):
        questions.append(question)
        if question["turn"] == 1:
            raise RequestError(404, "it cannot be drawn")
        return {"svg": "<svg>é</svg>", "said": "first holds é\n"}

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    client = open_client(folder)
    path = "/api/runs/0/episodes/10/40"
    assert client.get(path).json()["pictures"] is True
    picture = {"svg": "<svg>é</svg>", "said": "first holds é\n", "why": None}
    assert client.get(f"{path}/board/0?seat=1&theme=dark").json() == picture
    assert questions == [{"folder": str(folder), "step": 10, "episode": 40, "turn": 0, "seat": 1, "theme": "dark"}]
    assert client.get(f"{path}/board/1").json() == {"svg": None, "said": None, "why": "it cannot be drawn"}
    assert client.get(f"{path}/board/3").status_code == client.get(f"{path}/board/0?seat=2").status_code == 404
    assert "\\u003csvg\\u003e" in client.get("/export/0/10/40.html").text
    assert questions[-1]["turn"] == 1


@pytest.fixture(scope="module")
def client(open_client, trained_run):
    return open_client(trained_run)


def get_board(client, episode_id, turn, **params):
    return client.get(f"/api/runs/0/episodes/1/{episode_id}/board/{turn}", params=params).json()


def test_every_position_has_a_picture_and_text_also_when_exported(client, trained_run):
    episode_id = next(EpisodeStore(trained_run / "episodes").episodes())[1].episode_id
    replay = client.get(f"/api/runs/0/episodes/1/{episode_id}").json()
    assert replay["pictures"]
    for turn in range(len(replay["turns"]) + 1):
        picture = get_board(client, episode_id, turn)
        assert ET.fromstring(picture["svg"]).tag.endswith("svg") and picture["said"] and picture["why"] is None
    assert get_board(client, episode_id, 0, theme="dark")["svg"] != get_board(client, episode_id, 0)["svg"]
    turns = client.get(f"/api/runs/0/episodes/1/{episode_id}").json()["turns"]
    page = client.get(f"/export/0/1/{episode_id}.html").text
    assert page.count('"svg":"\\u003csvg') == len(turns) + 1 == page.count('"why":null')


def test_a_seat_sees_only_its_card(client, trained_run):
    prompts_by_episode = [
        (episode.episode_id, [turn.prompt for turn in episode.turns])
        for step, episode in EpisodeStore(trained_run / "episodes").episodes()
        if step == 1
    ]
    for episode_id, prompts in prompts_by_episode:
        board_of_seat_0 = get_board(client, episode_id, 0, seat=0)
        open_board = get_board(client, episode_id, 0)
        assert board_of_seat_0["svg"] != open_board["svg"] and board_of_seat_0["said"] != open_board["said"], prompts
    assert (
        len({get_board(client, episode_id, 0, seat=0)["said"] for episode_id, _ in prompts_by_episode}) <= 3
    )  # at most one text per card
