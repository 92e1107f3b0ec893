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
from tests.view.run_writer import TRAINING, episode, turn, write_run, write_step


@pytest.fixture(scope="module")
def client(opened, trained_run):
    return opened(trained_run)


@pytest.fixture
def questions(monkeypatch):
    asked_of_worker = []

    def ask(self, question):
        asked_of_worker.append(question)
        try:
            return policy.answer(question)
        except SparringError as error:
            raise RequestError(404, str(error)) from None

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    return asked_of_worker


def stored(run, step):
    return [episode for number, episode in EpisodeStore(run / "episodes").episodes() if number == step]


def ask(client, step, number, place, **params):
    return client.get(f"/api/runs/0/episodes/{step}/{number}/policy/{place}", params=params)


def chance_of(answer, turn):
    return answer["probabilities"][answer["actions"].index(turn.action)]


def reply_probability(turn):
    return math.exp(sum(number for part in turn.segments for number in part.logprobs))


def by_hand(model, renderer, ids, action, temperature):
    probability, ids = 1.0, list(ids)
    for token in renderer.reply(action):
        with torch.no_grad():
            logits = hugging_face(model.network)(input_ids=torch.tensor([ids])).logits[0, -1]
        probability *= torch.softmax(logits.double() / temperature, 0)[token].item()
        ids.append(token)
    return probability


def test_the_weights_that_played_give_what_was_recorded(client, trained_run, questions):
    agreed = 0
    for play in stored(trained_run, 3):
        for place, step in enumerate(play.turns):
            answer = ask(client, 3, play.episode_id, place).json()
            assert (answer["step"], answer["why"], answer["actions"]) == (2, None, list(step.legal_actions))
            assert (answer["player"], answer["weights"]) == ("learner", "live")
            assert sum(answer["probabilities"]) + answer["other"] == pytest.approx(1, abs=1e-6)
            assert 0 < answer["other"] < 1
            if step.event == "ok":
                assert chance_of(answer, step) == pytest.approx(reply_probability(step), rel=1e-4)
                agreed += 1
    assert agreed


def test_each_action_is_a_whole_reply_of_the_network_with_its_end(client, trained_run, questions):
    config, engine, _ = load_run(trained_run, 2)
    play = max(stored(trained_run, 3), key=lambda episode: len(episode.turns))
    place = len(play.turns) - 1
    last = play.turns[place]
    ids = [
        number
        for before in play.turns[:place]
        if before.seat == last.seat
        for part in before.segments
        for number in part.ids
    ]
    ids += [number for part in last.segments if part.kind in ("prompt", "context") for number in part.ids]
    answer = ask(client, 3, play.episode_id, place).json()
    for action, chance in zip(answer["actions"], answer["probabilities"], strict=True):
        assert chance == pytest.approx(
            by_hand(engine.model, engine.policies["main"].renderer, ids, action, config.rollout.temperature), rel=1e-4
        )


@pytest.mark.parametrize(("who", "weights"), [("learner", "live"), ("policy", "EMA"), ("past-000001", "snapshot")])
def test_an_answer_says_which_weights_it_is_of(trained_run, who, weights):
    engine = load_run(trained_run, 2)[1]
    assert policy._weights(engine, ref(who)) == weights
    engine.policies["main"].average = None  # as of a run without averages
    assert policy._weights(engine, ref(who)) == weights.replace("EMA", "live")


def test_a_conversation_is_that_of_its_seat_alone():
    def spoken(seat, number, conversation=0):
        segments = (Segment("prompt", (number,)), Segment("sampled", (number + 1,)), Segment("boundary", (number + 2,)))
        return turn(seat, "pass", segments=segments, conversation=conversation)

    two_runs = spoken(0, 40)._replace(
        segments=(
            Segment("context", (40, 41)),
            Segment("sampled", (42,)),
            Segment("context", (43,)),
            Segment("sampled", (44,)),
        )
    )
    played = episode(0, spoken(0, 10), spoken(1, 20), two_runs, spoken(0, 50, conversation=1))
    assert policy.prompt_ids(played, 2) == (10, 11, 12, 40, 41)
    assert policy.prompt_ids(played, 3) == (50,)


@pytest.mark.parametrize(
    ("steps", "step", "taken"),
    [([10, 20, 30], 20, 20), ([10, 20, 30], 29, 20), ([10, 20], 99, 20), ([10, 20], 9, 10), ([5], 0, 5)],
)
def test_the_newest_checkpoint_before_the_play_is_taken_else_the_first_after(steps, step, taken):
    assert policy.nearest(steps, step) == taken


def test_the_run_stays_loaded_until_its_checkpoint_changes(client, trained_run, questions):
    numbers = [stored(trained_run, step)[0].episode_id for step in (2, 3)]
    ask(client, 3, numbers[1], 0)
    (engine,) = policy._loaded.values()
    ask(client, 3, numbers[1], 0)
    assert list(policy._loaded.values()) == [engine]
    assert ask(client, 2, numbers[0], 0).json()["step"] == 1
    assert len(policy._loaded) == 1 and engine not in policy._loaded.values()


def test_a_seat_asks_for_its_own_turns_alone(client, trained_run, questions):
    play = stored(trained_run, 3)[0]
    seat = play.turns[0].seat
    assert ask(client, 3, play.episode_id, 0, seat=seat).json() == ask(client, 3, play.episode_id, 0).json()
    questions.clear()
    refused = ask(client, 3, play.episode_id, 0, seat=1 - seat)
    assert (refused.status_code, refused.json()) == (404, {"error": "the turn belongs to another seat"})
    assert (
        ask(client, 3, play.episode_id, 99).status_code == ask(client, 3, play.episode_id, 0, seat=9).status_code == 404
    )
    assert ask(client, 3, 10**6, 0).status_code == 404 and questions == []


def test_without_a_checkpoint_or_a_model_the_reason_is_said_and_nothing_asked(opened, trained_run, tmp_path, questions):
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    unsent = turn(
        0,
        "",
        event="unparsable",
        truncated=True,
        turn_index=2,
        segments=(Segment("prompt", (1,)), Segment("sampled", ())),
    )
    play = episode(
        0,
        turn(0, "pass"),
        turn(1, "bet"),
        turn(0, "well", legal_actions=(), turn_index=1, regretted=False),
        unsent,
        agents=("learner", "bot-random"),
    )
    write_step(folder, 20, [play, episode(1, turn(1, "bet"), agents=("learner", "bot-random"))])
    client = opened(folder)
    assert ask(client, 10, 40, 0).json()["why"] == "the run has no checkpoint yet"
    assert client.get("/api/runs/0/episodes/10/40").json()["policy"] is False
    shutil.copytree(trained_run / "checkpoints", folder / "checkpoints")
    whys = ("bot-random is no policy", "no legal actions", "no model wrote the reply")
    for place, why in enumerate(whys, start=1):
        answer = ask(client, 20, 0, place)
        assert answer.status_code == 200, answer.text
        assert answer.json()["why"].startswith(why) and "actions" not in answer.json()
    assert questions == []
    assert client.get("/api/runs/0/episodes/20/0").json()["policy"] is True
    assert client.get("/api/runs/0/episodes/20/1").json()["policy"] is False


def test_a_run_being_replaced_or_a_snapshot_it_lacks_is_a_line(opened, trained_run, tmp_path, questions):
    folder = shutil.copytree(trained_run, tmp_path / "kuhn")
    played = stored(trained_run, 3)[0]
    write_step(folder, 4, [episode(7, *played.turns, agents=("past-000777", "past-000777"))])
    answer = ask(opened(folder), 4, 7, 0)
    assert answer.status_code == 200 and "past-000777" in answer.json()["why"] and "actions" not in answer.json()
    folder = shutil.copytree(trained_run, tmp_path / "replaced")
    (folder / ".replaced").mkdir()
    before = sorted(path for path in folder.rglob("*"))
    with pytest.raises(SparringError, match="replacing"):
        policy.answer({"folder": str(folder), "step": 3, "episode": stored(trained_run, 3)[0].episode_id, "turn": 0})
    assert sorted(path for path in folder.rglob("*")) == before


def test_of_several_policies_the_one_of_the_role_is_asked(opened, tmp_path, questions):
    path, sizes = (
        tmp_path / "signalling",
        ("policies.leader.model.hidden_size=8", "policies.helper.model.hidden_size=16"),
    )
    sparring.train(
        "signalling-tiny",
        *TRAINING[:8],
        *sizes,
        "warmup.updates=40",
        "evaluation.exact=false",
        "evaluation.opponents=[]",
        run=path,
    )
    client, agreed = opened(path), set()
    for play in stored(path, 3):
        for place, step in enumerate(play.turns):
            answer = ask(client, 3, play.episode_id, place).json()
            assert answer["player"] == f"learner-{('leader', 'helper')[step.seat]}"
            if step.event == "ok":
                assert chance_of(answer, step) == pytest.approx(reply_probability(step), rel=1e-4)
                agreed.add(step.seat)
    assert agreed == {0, 1}
    write_step(path, 4, [replace(play, agents=("learner", "learner"), players=())])  # as before names were stored
    for place, step in enumerate(play.turns):
        assert ask(client, 4, play.episode_id, place).json()["player"] == f"learner-{('leader', 'helper')[step.seat]}"


@pytest.mark.slow
def test_it_is_computed_in_a_process_of_its_own(client, trained_run):
    play = stored(trained_run, 3)[0]
    answer = ask(client, 3, play.episode_id, 0).json()
    question = {"folder": str(trained_run), "step": 3, "episode": play.episode_id, "turn": 0}
    assert {name: answer[name] for name in ("step", "player", "actions")} == {
        "step": 2,
        "player": "learner",
        "actions": list(play.turns[0].legal_actions),
    }
    assert answer["probabilities"] == pytest.approx(policy.answer(question)["probabilities"])
