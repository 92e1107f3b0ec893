"""Episodes of people over HTTP: repeated requests, hidden data, limits, and forged requests."""

import json
import os
import shutil
import signal
import threading
import time

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import sparring.view.play_server as plays_module
import sparring.view.play_worker as play_worker
from sparring.api.human_play import InteractiveSession, Lobby, Opponent, store_episode
from sparring.cli import app
from sparring.config.plugins.guard import PluginCall
from sparring.core.errors import OracleError, RolloutError
from sparring.core.rng import Stream
from sparring.measure.oracle_choice import choose_oracle
from sparring.methods.oracles.judge import regret
from sparring.play.players.scripted import scripted
from sparring.play.store import EpisodeStore
from sparring.view.app import application
from sparring.view.pages import Pages
from sparring.view.play_server import PlayServer
from sparring.view.play_worker import PlayWorker, position
from sparring.view.watch import RunWatcher
from tests.run_with_members import MEMBERS, run_of

TOKEN = "right-token"
SMALL = ["steps=1", "rollout.games_per_step=8", "model.hidden_size=8", "model.layers=1", "model.heads=2", "threads=1"]
SMALL += ["evaluation.exact=false", "evaluation.opponents=[]"]
JSON_HEADERS = {"X-Sparring": "1", "Content-Type": "application/json"}


class InlinePool:
    """A pool that plays in this process; messages are JSON as between processes."""

    def __init__(self, make, settings, workers):
        self.make, self.settings, self.answer, self.killed = make, settings, None, threading.Event()

    def start(self):
        self.answer = PlayWorker(**json.loads(json.dumps(self.settings)))

    def results(self, jobs, *, seconds):
        for job in jobs:
            if job[0] == "move" and job[-1] == "die":
                raise RolloutError("A worker process died (exit code -9), perhaps; run again")
            if job[0] == "move" and job[-1] == "hang" and self.killed.wait(20):
                raise RolloutError("A worker process died (exit code -9), perhaps; run again")
            if job[0] == "move" and job[-1].startswith("slow "):
                time.sleep(1.0)
                job = [*job[:-1], job[-1].removeprefix("slow ")]
            yield job, json.loads(json.dumps(self.answer(json.loads(json.dumps(job)))))

    def kill(self):
        self.killed.set()

    def close(self, *, at_once):
        self.answer = None


class Page:
    def __init__(self, folders=(), pool=InlinePool, trusted=(), **settings):
        self.watch = RunWatcher(folders)
        self.plays = PlayServer(self.watch, trusted, pool=pool, **settings)
        server = application(Pages(self.watch), TOKEN, plays=self.plays)
        self.client = TestClient(server, base_url="http://127.0.0.1:7460")
        self.client.headers["Authorization"] = f"Bearer {TOKEN}"

    def post(self, path, status=200, **body):
        answer = self.client.post(path, content=json.dumps(body), headers=JSON_HEADERS)
        assert answer.status_code == status, answer.text
        return answer.json()

    def begin(self, environment, status=200, *, key="k", **body):
        return self.post("/play", status, key=key, environment=environment, **body)

    def move(self, state, reply, status=200, **fields):
        return self.post(
            f"/play/{state['id']}/move",
            status,
            **{"play": state["play"], "turn": state["turn"], "reply": reply} | fields,
        )

    def wait_until_idle(self, state):
        deadline = time.monotonic() + 60
        while state["phase"] == "thinking" and time.monotonic() < deadline:
            time.sleep(0.02)
            state = self.client.get(f"/play/{state['id']}").json()
        return state

    def play_to_end(self, state, choose=lambda legal: legal[0]):
        while state["phase"] == "yours":
            state = self.wait_until_idle(self.move(state, choose(state["legal"])))
        return state


@pytest.fixture(scope="module")
def page():
    shared_page = Page()
    yield shared_page
    shared_page.plays.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "poker"
    outcome = CliRunner().invoke(app, ["train", "kuhn-tiny", *SMALL, "--run", str(path)])
    assert outcome.exit_code == 0, outcome.output
    return path


def test_a_complete_episode_with_rules_and_judgement(page):
    state = page.begin("kuhn_poker", key="rules", against="cfr", seed=3)
    assert state["phase"] == "yours" and state["turn"] == 0 and state["legal"] == ["pass", "bet"]
    assert "We play Kuhn poker" in state["rules"] and "Your card is the Queen" in state["told"]
    assert state["players"] == ["you", "cfr"] and state["end"] is None and state["stored"] is None
    final_state = page.play_to_end(state)
    assert final_state["phase"] == "over" and final_state["legal"] is None
    assert final_state["end"]["ending"].endswith("The cards: first Queen, second Jack.")
    assert sum(final_state["end"]["returns"]) == 0 and final_state["end"]["judgement"] is None
    judged_end = page.wait_until_idle(page.post(f"/play/{final_state['id']}/judge", play=1))["end"]
    own_turns = [turn for turn in judged_end["turns"] if turn["yours"]]
    assert judged_end["judgement"]["moves"] == len(own_turns) == judged_end["judgement"]["judged"]
    assert judged_end["judgement"]["regret"] == pytest.approx(sum(turn["regret"] for turn in own_turns))
    assert judged_end["judgement"]["oracle"] == "cfr"


def test_a_hint_is_the_verdict_of_the_games_oracle(page):
    lobby = Lobby()
    game = lobby.game("tic_tac_toe")
    oracle, _ = choose_oracle(game)
    state = page.begin("tic_tac_toe", key="hint", against="random", seed=1)
    state = page.wait_until_idle(page.move(state, "a1"))
    hint = page.wait_until_idle(page.post(f"/play/{state['id']}/hint", play=1, turn=1))["hint"]
    play = page.plays._pool.answer._sessions[state["id"]].interactive.pending.state.clone()
    (verdict,) = oracle.judge([play])
    assert (hint["actions"], hint["values"]) == (list(verdict.actions), list(verdict.values))
    assert set(hint["best"]) == verdict.best and hint["oracle"] == "minimax"
    assert page.wait_until_idle(page.move(state, hint["best"][0]))["hint"] is None
    state = page.begin("rock_paper_scissors", key="none", against="random")
    hint = page.post(f"/play/{state['id']}/hint", play=1, turn=0)["hint"]
    assert hint["oracle"] is None and hint["why"].startswith("there is no oracle: only games over OpenSpiel")
    final_state = page.play_to_end(state)
    judged_end = page.post(f"/play/{final_state['id']}/judge", play=1)["end"]
    assert judged_end["judgement"] is None and "there is no oracle" in judged_end["why"]


def test_no_hidden_data_is_sent_before_the_end(page):
    """Two deals that the seat cannot distinguish give equal bytes."""
    deals_by_prompt = {}
    for seed in range(40):
        state = page.begin("kuhn_poker", key=f"deal-{seed}", against="scripted preference=[bet]", seed=seed, status=400)
        assert "opponent" in state["error"]
        state = page.begin("kuhn_poker", key=f"deal-{seed}", against="random", seed=seed)
        other_state = page.plays._pool.answer._sessions[state["id"]].interactive.play.node
        cards = str(other_state.history()[:2])
        text = json.dumps({name: value for name, value in state.items() if name != "id"})
        deals_by_prompt.setdefault(state["told"], {})[cards] = text
    assert len(deals_by_prompt) == 3 and all(len(deals) == 2 for deals in deals_by_prompt.values())
    assert all(len(set(deals.values())) == 1 for deals in deals_by_prompt.values())


@pytest.mark.parametrize("environment", ["sealed_auction", "talk", "bargain"])
def test_observations_of_others_are_sent_only_at_the_end(page, environment):
    state = page.begin(environment, key=f"secret-{environment}", against="random", seed=2)
    session = page.plays._pool.answer._sessions[state["id"]].interactive
    for _ in range(30):
        secrets = {draft.prompt for draft in session._play._drafts if draft.seat == 1}
        secrets -= {draft.prompt for draft in session._play._drafts if draft.seat == 0}
        if state["phase"] != "yours":
            break
        assert not any(text in json.dumps(state, ensure_ascii=False) for text in map(str.strip, secrets) if text)
        state = page.wait_until_idle(page.move(state, state["legal"][0] if state["legal"] else "hello"))
    assert state["phase"] == "over"
    assert {turn["told"] for turn in state["end"]["turns"] if turn["seat"] == 1} >= secrets


@pytest.mark.parametrize("environment", ["rock_paper_scissors", "sealed_auction", "repeated_dilemma"])
def test_simultaneous_moves_of_others_are_not_sent(environment):
    lobby, positions = Lobby(), set()
    game = lobby.game(environment)
    legal = game.reset(Stream.from_seed(0)).legal(0)
    for action in legal[:2]:
        opponent = Opponent("bot-scripted", "scripted", scripted(preference=(action,)))
        session = InteractiveSession(game, 1, opponent, 3)
        positions.add(json.dumps(position(session)))
    assert len(positions) == 1


def test_a_repeated_request_changes_nothing_and_the_next_episode_has_a_new_deal(page):
    state = page.begin("tic_tac_toe", key="once", against="random", seed=4)
    assert page.begin("tic_tac_toe", key="once", against="random", seed=4) == state
    final_page = page.wait_until_idle(page.move(state, "b2"))
    assert page.move(state, "b2") == final_page
    assert "turn 0 is not due" in page.move(state, "a1", 409)["error"]
    assert "turn 7 is not due" in page.move(final_page, "a1", 409, turn=7)["error"]
    assert "episode 2 is not" in page.move(final_page, "a1", 409, play=2)["error"]
    next_page = page.post(f"/play/{state['id']}/next", play=1, seat=1, against="random")
    assert next_page["play"] == 2 and next_page["seat"] == 1 and next_page["past"] == []
    assert page.post(f"/play/{state['id']}/next", play=1, seat=1, against="random") == next_page
    assert "episode 1 is not" in page.move(final_page, "a1", 409)["error"]
    page_state = page.begin("kuhn_poker", key="deals", against="random")
    seeds = set()
    for play in range(1, 5):
        state = page.play_to_end(page_state)
        seeds.add(state["end"]["seed"])
        page_state = page.post(f"/play/{state['id']}/next", play=play, seat=play % 2, against="random")
        assert page_state["seat"] == play % 2
    assert len(seeds) == 4


def test_an_illegal_text_is_reported_and_escaped(page):
    hostile_text = "<script>hit()</script> \u202e \x1b[31m ' \" \ud800"
    state = page.begin("tic_tac_toe", key="hostile", against="random")
    answer = page.move(state, hostile_text)
    assert answer["turn"] == 0 and "is not an action of this game" in answer["trouble"]
    assert "at most 8,000" in page.move(state, "x" * 9000)["trouble"]
    response = page.client.post(
        f"/play/{state['id']}/move",
        content=json.dumps({"play": 1, "turn": 0, "reply": hostile_text}),
        headers=JSON_HEADERS,
    )
    assert response.content.isascii() and response.headers["content-type"] == "application/json"
    talk = page.begin("talk", key="talk", against="random")
    state_after_reply = page.wait_until_idle(page.move(talk, hostile_text))
    assert state_after_reply["past"][0]["reply"] == hostile_text.replace("\ud800", "?")


def test_slow_opponents_do_not_block_the_request(page, monkeypatch):
    monkeypatch.setattr(plays_module, "WAIT_SECONDS", 0.05)
    state = page.begin("tic_tac_toe", key="slow", against="random", seed=1)
    state = page.wait_until_idle(state)
    answer = page.move(state, "slow b2")
    assert answer["phase"] == "thinking" and answer["waits"]["for"] == "the others to reply"
    assert page.move(state, "slow b2")["phase"] == "thinking"
    assert "still waits for the others" in page.move(state, "a1", 409)["error"]
    assert page.wait_until_idle(answer)["turn"] == 1


def test_a_dead_process_ends_the_episodes_and_not_the_page():
    page = Page()
    state = page.begin("kuhn_poker", key="a", against="random")
    other_state = page.begin("urn", key="c")
    answer = page.move(state, "die")
    assert page.client.get(f"/play/{other_state['id']}").json()["phase"] == "failed"
    assert (
        answer["phase"] == "failed"
        and "The process of this session was ended. A worker process died" in answer["trouble"]
    )
    assert page.client.get("/api/runs").status_code == 200
    assert page.begin("kuhn_poker", key="b", against="random")["phase"] == "yours"
    assert "has ended" in page.post(f"/play/{state['id']}/next", 404, play=1, seat=0, against=None)["error"]
    page.plays.close()


def test_a_person_leaves_a_hanging_episode_and_others_are_informed(monkeypatch):
    monkeypatch.setattr(plays_module, "WAIT_SECONDS", 0.05)
    page = Page()
    state = page.wait_until_idle(page.begin("kuhn_poker", key="a", against="random"))
    other_state = page.wait_until_idle(page.begin("urn", key="c"))
    assert page.move(state, "hang")["phase"] == "thinking"
    queued_state = page.move(other_state, "draw")
    assert page.post(f"/play/{state['id']}/leave") == {"left": True}
    assert page.post(f"/play/{state['id']}/leave") == {"left": False}
    assert page.client.get(f"/play/{state['id']}").status_code == 404
    assert page.wait_until_idle(queued_state)["phase"] == "failed"
    new_state = page.wait_until_idle(page.begin("kuhn_poker", key="b", against="random"))
    assert new_state["phase"] == "yours" and [*page.plays._pool.answer._sessions] == [new_state["id"]]
    page.plays.close()


def test_the_number_of_sessions_is_limited(page):
    states = [page.begin("urn", key=f"few-{number}") for number in range(plays_module.MAX_SESSIONS + 1)]
    assert page.client.get(f"/play/{states[0]['id']}").status_code == 404
    assert all(page.client.get(f"/play/{state['id']}").status_code == 200 for state in states[1:])
    assert len(page.plays._pool.answer._sessions) == plays_module.MAX_SESSIONS


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"[" * 60000, 400),
        (b"{}", 400),
        (b'{"key": 5}', 400),
        (b'{"key": "x", "seat": -1, "environment": "urn"}', 400),
        (b'{"key": "x", "seat": 9, "environment": "urn"}', 400),
        (b'{"key": "x", "environment": "../../etc/passwd"}', 400),
        (b'{"key": "x", "run": 7}', 404),
        (b'{"key": "x", "environment": "nim", "against": "os.system"}', 400),
        (b" " * 70000, 413),
    ],
)
def test_invalid_bodies_are_refused(page, body, status):
    answer = page.client.post("/play", content=body, headers=JSON_HEADERS)
    assert answer.status_code == status and set(answer.json()) == {"error"}, answer.text


FORGED_HEADERS = {
    "no token": ({"Authorization": ""}, 401),
    "another host": ({"Host": "evil.example:7460"}, 403),
    "another origin": ({"Origin": "http://evil.example"}, 403),
    "another site": ({"Sec-Fetch-Site": "cross-site"}, 403),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
}


@pytest.mark.parametrize("name", FORGED_HEADERS)
@pytest.mark.parametrize("path", ["/play", "/play/{}/move", "/play/{}/next", "/play/{}/leave"])
def test_forged_requests_change_nothing(page, name, path):
    headers, status = FORGED_HEADERS[name]
    state = page.begin("tic_tac_toe", key="forged", against="random", seed=1)
    body = {
        "key": f"forged {name}",
        "environment": "urn",
        "play": 1,
        "turn": 0,
        "reply": "b2",
        "seat": 0,
        "against": "random",
    }
    answer = page.client.post(path.format(state["id"]), json=body, headers=JSON_HEADERS | headers)
    assert answer.status_code == status
    assert page.client.get(f"/play/{state['id']}").json() == state
    assert all(session.key != f"forged {name}" for session in page.plays._sessions.values())


def test_choices_of_an_environment_and_requests_without_the_header(page):
    choices = page.client.get("/play", params={"environment": "tic_tac_toe"}).json()
    assert choices["roles"] == ["X", "O"] and "kuhn_poker" in choices["environments"]
    assert [option["name"] for option in choices["against"]] == ["mcts", "minimax", "random"]
    assert page.client.get("/play", params={"environment": "nothing"}).status_code == 400
    assert page.client.post("/play", json={"key": "x", "environment": "urn"}).status_code == 415
    assert page.client.get("/play/nobody").status_code == 404
    assert page.client.get("/play/nobody/move").status_code == 405


def test_episodes_against_a_run_are_stored_in_its_folder_played(run):
    page = Page([run.parent])
    files = {path.name: path.read_bytes() for path in (run / "episodes").glob("*")}
    choices = page.client.get("/play", params={"run": "0"}).json()
    assert choices["environments"] == ["kuhn_poker"]
    assert [option["name"] for option in choices["against"]][:1] == ["policy"]
    state = page.wait_until_idle(page.begin(None, run=0, seat=1, seed=5))
    assert state["run"] == "poker" and state["players"] == ["policy, step 1", "you"]
    final_state = page.play_to_end(state)
    assert final_state["stored"] == {"number": 1, "why": None}
    ((_, episode),) = EpisodeStore(run / "played" / "episodes").episodes()
    assert episode.agents == ("past-000001", "person-you")
    assert [turn.reply for turn in episode.turns] == [turn["reply"] for turn in final_state["end"]["turns"]]
    assert episode.returns == tuple(final_state["end"]["returns"])
    judged_state = page.wait_until_idle(page.post(f"/play/{final_state['id']}/judge", play=1))
    ((_, stored_episode),) = EpisodeStore(run / "played" / "episodes").episodes()
    assert [regret(turn) for turn in stored_episode.turns] == [turn["regret"] for turn in judged_state["end"]["turns"]]
    assert {path.name: path.read_bytes() for path in (run / "episodes").glob("*")} == files
    assert any(turn["thought"] for turn in judged_state["end"]["turns"] if not turn["yours"])
    page.plays.close()


def test_a_mixture_of_the_run_can_play_and_the_drawn_member_is_recorded(tmp_path):
    path, _ = run_of(tmp_path / "members")
    page = Page([path], answer="last")
    assert page.wait_until_idle(page.begin(None, run=0, seat=0))["players"] == ["you", "learner, step 2"]
    page.plays.close()
    page = Page([path], answer="uniform")
    assert page.client.get("/play", params={"run": "0"}).json()["against"][0]["said"] == "mixture of members, step 2"
    final_state = page.play_to_end(page.wait_until_idle(page.begin(None, run=0, seat=0, seed=5)))
    assert final_state["players"] == ["you", "mixture of 3 members, step 2"]
    ((_, episode),) = EpisodeStore(path / "played" / "episodes").episodes()
    assert episode.players[1] in MEMBERS and final_state["end"]["drawn"].endswith(episode.agents[1])
    page.wait_until_idle(page.post(f"/play/{final_state['id']}/judge", play=1))
    ((_, stored_episode),) = EpisodeStore(path / "played" / "episodes").episodes()
    assert stored_episode.agents == episode.agents
    page.plays.close()


def raise_no_space(*_):
    raise OSError("no space")


def test_a_full_disk_is_reported(run, monkeypatch):
    page = Page([run.parent])
    monkeypatch.setattr("sparring.view.play_worker.store_episode", raise_no_space)
    final_state = page.play_to_end(page.wait_until_idle(page.begin(None, run=0, against="random")))
    assert final_state["phase"] == "over" and final_state["stored"] == {"number": None, "why": "no space"}
    page.plays.close()


def test_an_oracle_that_takes_too_long_is_stopped(monkeypatch):
    def judge_without_end(*_):
        with PluginCall("oracle 'endless'"):
            time.sleep(30)

    monkeypatch.setattr(play_worker, "ORACLE_SECONDS", 0.1)
    monkeypatch.setattr(play_worker, "choose_oracle", judge_without_end)
    worker = PlayWorker([], None)
    worker(["begin", "a", {"run": None, "environment": "urn", "seat": 0, "against": None, "seed": 1}, []])
    start_time = time.monotonic()
    reason = worker(["hint", "a", 1, 0])["hint"]["why"]
    assert reason == "there is no oracle: it takes longer than 0.1 s to judge a position"
    assert time.monotonic() - start_time < 10
    assert worker(["hint", "a", 1, 0])["hint"]["why"] == reason


def test_a_failing_oracle_is_reported_and_the_episode_is_stored_first(page, run, monkeypatch):
    def fail(*_):
        raise OracleError("no")

    run_page = Page([run.parent])
    monkeypatch.setattr("sparring.view.play_worker.revealed_end", fail)
    final_state = run_page.play_to_end(run_page.wait_until_idle(run_page.begin(None, run=0, against="random")))
    assert (
        final_state["phase"] == "over"
        and final_state["stored"]["number"]
        and final_state["trouble"] == "The end cannot be shown: no"
    )
    run_page.plays.close()
    monkeypatch.undo()
    final_state = page.play_to_end(page.begin("kuhn_poker", key="fails", against="random"))
    monkeypatch.setattr(InteractiveSession, "judge_episode", fail)
    judged_end = page.wait_until_idle(page.post(f"/play/{final_state['id']}/judge", play=1))["end"]
    assert judged_end["judgement"] is None and judged_end["why"] == "the oracle cfr cannot judge this episode: no"


def test_an_overwritten_or_removed_run_is_read_again(run, tmp_path):
    path, worker = tmp_path / "run", PlayWorker([], None)
    shutil.copytree(run, path)
    lobby = worker._lobby(str(path))
    assert worker._lobby(str(path)) is lobby
    (path / "config.yaml").write_bytes((path / "config.yaml").read_bytes() + b"\n")
    assert worker._lobby(str(path)) is not lobby
    seat_request = {"run": str(path), "environment": None, "seat": 0, "against": "random", "seed": 1}
    state = worker(["begin", "a", seat_request, []])
    shutil.rmtree(path)
    while state["phase"] == "yours":
        state = worker(["move", "a", 1, state["turn"], "bet"])
    assert state["end"] and state["stored"]["number"] is None and "cannot be" in state["stored"]["why"]
    assert "There is no run folder" in worker(["begin", "b", seat_request, []])["error"]
    assert not path.exists()


@pytest.mark.slow
def test_every_environment_is_played_in_every_seat_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(play_worker, "ORACLE_SECONDS", 5.0)
    worker, stream, finished_games = PlayWorker([], None), Stream.from_seed(1), []
    for name in Lobby().environments:
        for seat in range(len(worker.on_options(None, name)["roles"])):
            seat_request = {"run": None, "environment": name, "seat": seat, "against": None, "seed": 5}
            state = worker(["begin", name, seat_request, [name]])
            for turn in range(200):
                if state["phase"] != "yours":
                    break
                draw = stream.child(turn)
                legal = state["legal"]
                reply = legal[draw.integer(0, len(legal))] if legal else "<b>hello</b>"
                state = json.loads(json.dumps(worker(["move", name, 1, turn, reply]), allow_nan=False))
                assert "error" not in state and not state["trouble"], (name, seat, state)
            assert state["phase"] == "over" and state["end"]["turns"], (name, seat)
            deadline = worker(["judge", name, 1])["end"]
            assert (deadline["judgement"] is None) == bool(deadline["why"]), (name, seat, deadline)
            finished_games.append(worker._sessions[name].interactive.episode)
            assert store_episode(tmp_path, finished_games[-1]) == len(finished_games)
    assert [episode for _, episode in EpisodeStore(tmp_path / "played" / "episodes").episodes()] == finished_games


@pytest.mark.slow
def test_the_playing_process_is_separate_and_can_be_killed():
    page = Page(pool=plays_module.WorkerPool)
    state = page.wait_until_idle(page.begin("kuhn_poker", key="a", against="cfr", seed=3))
    assert page.wait_until_idle(page.move(state, "pass"))["turn"] >= 1
    (process,) = page.plays._pool._processes
    assert process.pid != os.getpid()
    os.kill(process.pid, signal.SIGKILL)
    process.join(20)
    failed_state = page.wait_until_idle(page.post(f"/play/{state['id']}/hint", play=1, turn=1))
    assert failed_state["phase"] == "failed" and "was ended" in failed_state["trouble"]
    state = page.wait_until_idle(page.begin("simple_negotiation", key="b", against="minimax"))
    start_time, answer = time.monotonic(), page.move(state, state["legal"][1])
    assert answer["phase"] == "thinking"  # for minutes
    page.post(f"/play/{answer['id']}/leave")
    assert page.wait_until_idle(page.begin("kuhn_poker", key="c", against="cfr"))["phase"] == "yours"
    assert time.monotonic() - start_time < 60
    page.plays.close()
