"""How likely the policy says each legal action at a stored turn: by the checkpoint that is nearest, and private to its seat."""

import math
import shutil
from dataclasses import replace

import pytest
import torch

import sparring
from sparring.api.load import load_run
from sparring.core.errors import SparringError
from sparring.core.records import Segment, ref
from sparring.play.store import EpisodeStore
from sparring.view import action_probabilities as policy
from sparring.view.http_requests import RequestError
from sparring.view.worker_process import WorkerProcess
from tests.hugging_face import hugging_face
from tests.view.run_made import episode, turn, write_run, write_step

CHANGES = (
    *("steps=3", "threads=1", "store.every=1", "warmup.updates=1", "warmup.games=8", "rollout.games_per_step=8", "checkpoint.every=1", "checkpoint.keep=3"),
    *("model.hidden_size=8", "model.layers=1", "model.heads=1", "evaluation.exact=false", "evaluation.opponents=[]"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy") / "kuhn"
    sparring.train("kuhn-tiny", *CHANGES, run=path)
    return path


@pytest.fixture(scope="module")
def client(opened, run):
    return opened(run)


@pytest.fixture
def here(monkeypatch):
    asked = []

    def ask(self, question):
        asked.append(question)
        try:
            return policy.answer(question)
        except SparringError as error:
            raise RequestError(404, str(error)) from None

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    return asked


def stored(run, step):
    return [one for number, one in EpisodeStore(run / "episodes").episodes() if number == step]


def ask(client, step, number, place, **asked):
    return client.get(f"/api/runs/0/episodes/{step}/{number}/policy/{place}", params=asked)


def chance_of(found, own):
    return found["probabilities"][found["actions"].index(own.action)]


def said(own):
    return math.exp(sum(number for part in own.segments for number in part.logprobs))


def by_hand(model, renderer, ids, action, temperature):
    found, ids = 1.0, list(ids)
    for token in renderer.reply(action):
        with torch.no_grad():
            logits = hugging_face(model.network)(input_ids=torch.tensor([ids])).logits[0, -1]
        found *= torch.softmax(logits.double() / temperature, 0)[token].item()
        ids.append(token)
    return found


def test_the_weights_that_played_give_what_was_recorded(client, run, here):
    agreed = 0
    for one in stored(run, 3):
        for place, own in enumerate(one.turns):
            found = ask(client, 3, one.episode_id, place).json()
            assert (found["step"], found["why"], found["actions"]) == (2, None, list(own.legal_actions))
            assert (found["player"], found["weights"]) == ("learner", "live")
            assert sum(found["probabilities"]) + found["other"] == pytest.approx(1, abs=1e-6)
            assert 0 < found["other"] < 1
            if own.event == "ok":
                assert chance_of(found, own) == pytest.approx(said(own), rel=1e-4)
                agreed += 1
    assert agreed


def test_each_action_is_a_whole_reply_of_the_network_with_its_end(client, run, here):
    config, engine, _ = load_run(run, 2)
    one = max(stored(run, 3), key=lambda one: len(one.turns))
    place = len(one.turns) - 1
    own = one.turns[place]
    ids = [number for before in one.turns[:place] if before.seat == own.seat for part in before.segments for number in part.ids]
    ids += [number for part in own.segments if part.kind in ("prompt", "context") for number in part.ids]
    found = ask(client, 3, one.episode_id, place).json()
    for action, chance in zip(found["actions"], found["probabilities"], strict=True):
        assert chance == pytest.approx(by_hand(engine.model, engine.policies["main"].renderer, ids, action, config.rollout.temperature), rel=1e-4)


@pytest.mark.parametrize(("who", "weights"), [("learner", "live"), ("policy", "EMA"), ("past-000001", "snapshot")])
def test_an_answer_says_which_weights_it_is_of(run, who, weights):
    engine = load_run(run, 2)[1]
    assert policy._weights(engine, ref(who)) == weights
    engine.policies["main"].average = None  # as of a run without averages
    assert policy._weights(engine, ref(who)) == weights.replace("EMA", "live")


def test_a_conversation_is_that_of_its_seat_alone():
    def spoken(seat, number, conversation=0):
        segments = (Segment("prompt", (number,)), Segment("sampled", (number + 1,)), Segment("boundary", (number + 2,)))
        return turn(seat, "pass", segments=segments, conversation=conversation)

    two_runs = spoken(0, 40)._replace(segments=(Segment("context", (40, 41)), Segment("sampled", (42,)), Segment("context", (43,)), Segment("sampled", (44,))))
    played = episode(0, spoken(0, 10), spoken(1, 20), two_runs, spoken(0, 50, conversation=1))
    assert policy.prompt_ids(played, 2) == (10, 11, 12, 40, 41)
    assert policy.prompt_ids(played, 3) == (50,)


@pytest.mark.parametrize(("steps", "wanted", "taken"), [([10, 20, 30], 20, 20), ([10, 20, 30], 29, 20), ([10, 20], 99, 20), ([10, 20], 9, 10), ([5], 0, 5)])
def test_the_newest_checkpoint_before_the_play_is_taken_else_the_first_after(steps, wanted, taken):
    assert policy.nearest(steps, wanted) == taken


def test_the_run_stays_loaded_until_its_checkpoint_changes(client, run, here):
    numbers = [stored(run, step)[0].episode_id for step in (2, 3)]
    ask(client, 3, numbers[1], 0)
    (engine,) = policy._loaded.values()
    ask(client, 3, numbers[1], 0)
    assert list(policy._loaded.values()) == [engine]
    assert ask(client, 2, numbers[0], 0).json()["step"] == 1
    assert len(policy._loaded) == 1 and engine not in policy._loaded.values()


def test_a_seat_asks_for_its_own_turns_alone(client, run, here):
    one = stored(run, 3)[0]
    own = one.turns[0].seat
    assert ask(client, 3, one.episode_id, 0, seat=own).json() == ask(client, 3, one.episode_id, 0).json()
    here.clear()
    refused = ask(client, 3, one.episode_id, 0, seat=1 - own)
    assert (refused.status_code, refused.json()) == (404, {"error": "the turn is another seat's"})
    assert ask(client, 3, one.episode_id, 99).status_code == ask(client, 3, one.episode_id, 0, seat=9).status_code == 404
    assert ask(client, 3, 10**6, 0).status_code == 404 and here == []


def test_without_a_checkpoint_or_a_model_the_reason_is_said_and_nothing_asked(opened, run, tmp_path, here):
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    unsent = turn(0, "", event="unparsable", truncated=True, turn_index=2, segments=(Segment("prompt", (1,)), Segment("sampled", ())))
    asked = episode(0, turn(0, "pass"), turn(1, "bet"), turn(0, "well", legal_actions=(), turn_index=1, regretted=False), unsent, agents=("learner", "bot-random"))
    write_step(folder, 20, [asked, episode(1, turn(1, "bet"), agents=("learner", "bot-random"))])
    client = opened(folder)
    assert ask(client, 10, 40, 0).json()["why"] == "the run has no checkpoint yet"
    assert client.get("/api/runs/0/episodes/10/40").json()["policy"] is False
    shutil.copytree(run / "checkpoints", folder / "checkpoints")
    whys = ("bot-random is no policy", "no legal actions", "no model was asked")
    for place, why in enumerate(whys, start=1):
        found = ask(client, 20, 0, place)
        assert found.status_code == 200, found.text
        assert found.json()["why"].startswith(why) and "actions" not in found.json()
    assert here == []
    assert client.get("/api/runs/0/episodes/20/0").json()["policy"] is True
    assert client.get("/api/runs/0/episodes/20/1").json()["policy"] is False


def test_a_run_being_replaced_or_a_snapshot_it_lacks_is_a_line(opened, run, tmp_path, here):
    folder = shutil.copytree(run, tmp_path / "kuhn")
    played = stored(run, 3)[0]
    write_step(folder, 4, [episode(7, *played.turns, agents=("past-000777", "past-000777"))])
    found = ask(opened(folder), 4, 7, 0)
    assert found.status_code == 200 and "past-000777" in found.json()["why"] and "actions" not in found.json()
    folder = shutil.copytree(run, tmp_path / "replaced")
    (folder / ".replaced").mkdir()
    before = sorted(path for path in folder.rglob("*"))
    with pytest.raises(SparringError, match="replacing"):
        policy.answer({"folder": str(folder), "step": 3, "episode": stored(run, 3)[0].episode_id, "turn": 0})
    assert sorted(path for path in folder.rglob("*")) == before


def test_of_several_policies_the_one_of_the_role_is_asked(opened, tmp_path, here):
    path, sizes = tmp_path / "signalling", ("policies.leader.model.hidden_size=8", "policies.helper.model.hidden_size=16")
    sparring.train("signalling-tiny", *CHANGES[:8], *sizes, "warmup.updates=40", "evaluation.exact=false", "evaluation.opponents=[]", run=path)
    client, agreed = opened(path), set()
    for one in stored(path, 3):
        for place, own in enumerate(one.turns):
            found = ask(client, 3, one.episode_id, place).json()
            assert found["player"] == f"learner-{('leader', 'helper')[own.seat]}"
            if own.event == "ok":
                assert chance_of(found, own) == pytest.approx(said(own), rel=1e-4)
                agreed.add(own.seat)
    assert agreed == {0, 1}
    write_step(path, 4, [replace(one, agents=("learner", "learner"), players=())])  # as before names were stored
    for place, own in enumerate(one.turns):
        assert ask(client, 4, one.episode_id, place).json()["player"] == f"learner-{('leader', 'helper')[own.seat]}"


@pytest.mark.slow
def test_it_is_computed_in_a_process_of_its_own(client, run):
    one = stored(run, 3)[0]
    found = ask(client, 3, one.episode_id, 0).json()
    asked = {"folder": str(run), "step": 3, "episode": one.episode_id, "turn": 0}
    assert {name: found[name] for name in ("step", "player", "actions")} == {"step": 2, "player": "learner", "actions": list(one.turns[0].legal_actions)}
    assert found["probabilities"] == pytest.approx(policy.answer(asked)["probabilities"])
