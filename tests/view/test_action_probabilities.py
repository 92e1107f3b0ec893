"""The policy's probabilities of legal actions at a stored turn: from the nearest checkpoint and private to the seat."""

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
def client(open_client, trained_run):
    return open_client(trained_run)


@pytest.fixture
def questions(monkeypatch):
    worker_questions = []

    def ask(self, question):
        worker_questions.append(question)
        try:
            return policy.answer(question)
        except SparringError as error:
            raise RequestError(404, str(error)) from None

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    return worker_questions


def stored_episodes(run, step):
    return [episode for stored_step, episode in EpisodeStore(run / "episodes").episodes() if stored_step == step]


def ask(client, step, episode_id, turn_number, **params):
    return client.get(f"/api/runs/0/episodes/{step}/{episode_id}/policy/{turn_number}", params=params)


def probability_of(answer, turn):
    return answer["probabilities"][answer["actions"].index(turn.action)]


def reply_probability(turn):
    return math.exp(sum(logprob for segment in turn.segments for logprob in segment.logprobs))


def reply_probability_by_hand(model, renderer, ids, action, temperature):
    probability, ids = 1.0, list(ids)
    for token in renderer.reply(action):
        with torch.no_grad():
            logits = hugging_face(model.network)(input_ids=torch.tensor([ids])).logits[0, -1]
        probability *= torch.softmax(logits.double() / temperature, 0)[token].item()
        ids.append(token)
    return probability


def test_the_weights_that_played_give_the_recorded_probabilities(client, trained_run, questions):
    num_compared = 0
    for play in stored_episodes(trained_run, 3):
        for turn_number, played_turn in enumerate(play.turns):
            answer = ask(client, 3, play.episode_id, turn_number).json()
            assert (answer["step"], answer["why"], answer["actions"]) == (2, None, list(played_turn.legal_actions))
            assert (answer["player"], answer["weights"]) == ("learner", "live")
            assert sum(answer["probabilities"]) + answer["other"] == pytest.approx(1, abs=1e-6)
            assert 0 < answer["other"] < 1
            if played_turn.event == "ok":
                assert probability_of(answer, played_turn) == pytest.approx(reply_probability(played_turn), rel=1e-4)
                num_compared += 1
    assert num_compared


def test_an_actions_probability_includes_the_end_token(client, trained_run, questions):
    config, engine, _ = load_run(trained_run, 2)
    play = max(stored_episodes(trained_run, 3), key=lambda episode: len(episode.turns))
    turn_number = len(play.turns) - 1
    queried_turn = play.turns[turn_number]
    ids = [
        token
        for earlier_turn in play.turns[:turn_number]
        if earlier_turn.seat == queried_turn.seat
        for segment in earlier_turn.segments
        for token in segment.ids
    ]
    ids += [
        token for segment in queried_turn.segments if segment.kind in ("prompt", "context") for token in segment.ids
    ]
    answer = ask(client, 3, play.episode_id, turn_number).json()
    for action, probability in zip(answer["actions"], answer["probabilities"], strict=True):
        assert probability == pytest.approx(
            reply_probability_by_hand(
                engine.model, engine.policies["main"].renderer, ids, action, config.rollout.temperature
            ),
            rel=1e-4,
        )


@pytest.mark.parametrize(("player", "weights"), [("learner", "live"), ("policy", "EMA"), ("past-000001", "snapshot")])
def test_an_answer_names_its_weights(trained_run, player, weights):
    engine = load_run(trained_run, 2)[1]
    assert policy._weights_label(engine, ref(player)) == weights
    engine.policies["main"].average = None  # like a run without EMA weights
    assert policy._weights_label(engine, ref(player)) == weights.replace("EMA", "live")


def test_a_conversation_contains_only_the_seats_text():
    def turn_of_seat(seat, number, conversation=0):
        segments = (Segment("prompt", (number,)), Segment("sampled", (number + 1,)), Segment("boundary", (number + 2,)))
        return turn(seat, "pass", segments=segments, conversation=conversation)

    turn_with_two_replies = turn_of_seat(0, 40)._replace(
        segments=(
            Segment("context", (40, 41)),
            Segment("sampled", (42,)),
            Segment("context", (43,)),
            Segment("sampled", (44,)),
        )
    )
    recorded_episode = episode(
        0, turn_of_seat(0, 10), turn_of_seat(1, 20), turn_with_two_replies, turn_of_seat(0, 50, conversation=1)
    )
    assert policy.prompt_ids(recorded_episode, 2) == (10, 11, 12, 40, 41)
    assert policy.prompt_ids(recorded_episode, 3) == (50,)


@pytest.mark.parametrize(
    ("steps", "step", "used_step"),
    [([10, 20, 30], 20, 20), ([10, 20, 30], 29, 20), ([10, 20], 99, 20), ([10, 20], 9, 10), ([5], 0, 5)],
)
def test_the_newest_earlier_checkpoint_is_used_else_the_first_later_one(steps, step, used_step):
    assert policy.checkpoint_step_for(steps, step) == used_step


def test_the_run_stays_loaded_until_its_checkpoint_changes(client, trained_run, questions):
    episode_ids = [stored_episodes(trained_run, step)[0].episode_id for step in (2, 3)]
    ask(client, 3, episode_ids[1], 0)
    (engine,) = policy._engines.values()
    ask(client, 3, episode_ids[1], 0)
    assert list(policy._engines.values()) == [engine]
    assert ask(client, 2, episode_ids[0], 0).json()["step"] == 1
    assert len(policy._engines) == 1 and engine not in policy._engines.values()


def test_a_seat_can_query_only_its_own_turns(client, trained_run, questions):
    play = stored_episodes(trained_run, 3)[0]
    seat = play.turns[0].seat
    assert ask(client, 3, play.episode_id, 0, seat=seat).json() == ask(client, 3, play.episode_id, 0).json()
    questions.clear()
    refused_response = ask(client, 3, play.episode_id, 0, seat=1 - seat)
    assert (refused_response.status_code, refused_response.json()) == (
        404,
        {"error": "the turn belongs to another seat"},
    )
    assert (
        ask(client, 3, play.episode_id, 99).status_code == ask(client, 3, play.episode_id, 0, seat=9).status_code == 404
    )
    assert ask(client, 3, 10**6, 0).status_code == 404 and questions == []


def test_without_a_checkpoint_or_a_model_a_reason_is_given(open_client, trained_run, tmp_path, questions):
    folder = write_run(tmp_path / "kuhn", steps=(10,))
    turn_without_tokens = turn(
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
        turn(0, "well", legal_actions=(), turn_index=1, has_verdict=False),
        turn_without_tokens,
        agents=("learner", "bot-random"),
    )
    write_step(folder, 20, [play, episode(1, turn(1, "bet"), agents=("learner", "bot-random"))])
    client = open_client(folder)
    assert ask(client, 10, 40, 0).json()["why"] == "the run has no checkpoint yet"
    assert client.get("/api/runs/0/episodes/10/40").json()["policy"] is False
    shutil.copytree(trained_run / "checkpoints", folder / "checkpoints")
    reasons = ("bot-random is not a policy", "no legal actions", "no model wrote the reply")
    for turn_number, reason in enumerate(reasons, start=1):
        answer = ask(client, 20, 0, turn_number)
        assert answer.status_code == 200, answer.text
        assert answer.json()["why"].startswith(reason) and "actions" not in answer.json()
    assert questions == []
    assert client.get("/api/runs/0/episodes/20/0").json()["policy"] is True
    assert client.get("/api/runs/0/episodes/20/1").json()["policy"] is False


def test_a_replaced_run_or_a_missing_snapshot_gives_a_one_line_error(open_client, trained_run, tmp_path, questions):
    folder = shutil.copytree(trained_run, tmp_path / "kuhn")
    recorded_episode = stored_episodes(trained_run, 3)[0]
    write_step(folder, 4, [episode(7, *recorded_episode.turns, agents=("past-000777", "past-000777"))])
    answer = ask(open_client(folder), 4, 7, 0)
    assert answer.status_code == 200 and "past-000777" in answer.json()["why"] and "actions" not in answer.json()
    folder = shutil.copytree(trained_run, tmp_path / "replaced")
    (folder / ".replaced").mkdir()
    files_before = sorted(path for path in folder.rglob("*"))
    with pytest.raises(SparringError, match="replacing"):
        policy.answer(
            {"folder": str(folder), "step": 3, "episode": stored_episodes(trained_run, 3)[0].episode_id, "turn": 0}
        )
    assert sorted(path for path in folder.rglob("*")) == files_before


def test_with_several_policies_the_policy_of_the_role_is_used(open_client, tmp_path, questions):
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
    client, compared_seats = open_client(path), set()
    for play in stored_episodes(path, 3):
        for turn_number, played_turn in enumerate(play.turns):
            answer = ask(client, 3, play.episode_id, turn_number).json()
            assert answer["player"] == f"learner-{('leader', 'helper')[played_turn.seat]}"
            if played_turn.event == "ok":
                assert probability_of(answer, played_turn) == pytest.approx(reply_probability(played_turn), rel=1e-4)
                compared_seats.add(played_turn.seat)
    assert compared_seats == {0, 1}
    write_step(path, 4, [replace(play, agents=("learner", "learner"), players=())])  # as in older runs without names
    for turn_number, played_turn in enumerate(play.turns):
        assert (
            ask(client, 4, play.episode_id, turn_number).json()["player"]
            == f"learner-{('leader', 'helper')[played_turn.seat]}"
        )


@pytest.mark.slow
def test_probabilities_are_computed_in_a_separate_process(client, trained_run):
    play = stored_episodes(trained_run, 3)[0]
    answer = ask(client, 3, play.episode_id, 0).json()
    question = {"folder": str(trained_run), "step": 3, "episode": play.episode_id, "turn": 0}
    assert {name: answer[name] for name in ("step", "player", "actions")} == {
        "step": 2,
        "player": "learner",
        "actions": list(play.turns[0].legal_actions),
    }
    assert answer["probabilities"] == pytest.approx(policy.answer(question)["probabilities"])
