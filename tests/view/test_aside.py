"""A process that is asked from aside: it may raise, crash or hang, and the next question is answered."""

import os
from pathlib import Path

import pytest
from run_made import write_run

from sparring.view import boards
from sparring.view.answers import Refused
from sparring.view.aside import Aside
from sparring.view.drawing import can_draw


@pytest.fixture
def aside(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    made = Aside("aside_made", seconds=10.0)
    yield made
    made.close()


@pytest.mark.slow
def test_a_crash_and_a_hang_are_said_and_the_next_question_is_answered(aside):
    first = aside.ask({"do": "answer"})
    assert first["process"] != os.getpid()
    with pytest.raises(Refused, match="two lines") as refused:
        aside.ask({"do": "raise"})
    assert refused.value.status == 404
    assert aside.ask({"do": "answer"}) == first  # the same process
    with pytest.raises(Refused, match="crashed"):
        aside.ask({"do": "crash"})
    second = aside.ask({"do": "answer"})
    assert second["process"] != first["process"]
    aside._seconds = 0.5
    with pytest.raises(Refused, match="within"):
        aside.ask({"do": "hang"})
    with pytest.raises(ProcessLookupError):
        os.kill(second["process"], 0)


def test_pictures_are_asked_for_by_place_and_seat(opened, tmp_path, monkeypatch):
    asked = []

    def ask(self, question):
        asked.append(question)
        if question["turn"] == 1:
            raise Refused(404, "it cannot be drawn")
        return {"svg": "<svg>é</svg>", "said": "first holds é\n"}

    monkeypatch.setattr(boards, "can_draw", lambda: True)
    monkeypatch.setattr(Aside, "ask", ask)
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    client = opened(folder)
    place = "/api/runs/0/episodes/10/40"
    assert client.get(place).json()["pictures"] is True
    answer = client.get(f"{place}/board/0.svg?seat=1&theme=dark")
    assert answer.text == "<svg>é</svg>" and answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    assert answer.headers["x-said"] == "first holds %C3%A9%0A"
    assert asked == [{"folder": str(folder), "step": 10, "episode": 40, "turn": 0, "seat": 1, "theme": "dark"}]
    assert client.get(f"{place}/board/1.svg").json() == {"error": "it cannot be drawn"}
    assert client.get(f"{place}/board/2.svg").status_code == client.get(f"{place}/board/0.svg?seat=2").status_code == 404
    assert "\\u003csvg\\u003e" in client.get("/export/0/10/40.html").text
    assert asked[-1]["turn"] == 1


@pytest.mark.slow
@pytest.mark.skipif(not can_draw(), reason="platform: nothing draws positions yet")
def test_a_position_is_drawn_by_its_environment(opened, tmp_path):
    from sparring.api import train

    train("kuhn-tiny", "steps=1", "warmup.updates=0", "rollout.games_per_step=4", "store.every=1", run=tmp_path / "run")
    client = opened(tmp_path / "run")
    row = client.get("/api/episodes").json()["rows"][0]
    answer = client.get(f"/api/runs/0/episodes/1/{row['episode']}/board/0.svg?seat=0")
    assert answer.status_code == 200 and answer.text.startswith("<svg") and answer.headers["x-said"]
