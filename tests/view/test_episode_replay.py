"""One episode: complete records, one seat's private view, siblings, token text, and the exported file."""

import json
import re

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from sparring.play.store import EpisodeStore
from sparring.view import episode_replay
from sparring.view.episode_replay import DecodedToken, decode_tokens, text_of
from sparring.view.http_requests import RequestError
from sparring.view.static_pages import script_json
from sparring.view.viewed_run import ViewedRun
from tests.view import run_writer
from tests.view.run_writer import episode, turn, write_run, write_step

EPISODE_URL = "/api/runs/0/episodes/10/40"
HOSTILE_TEXT = "</script><script>hit()</script><!-- & \u202e\u2028 \ud7ff"


@pytest.fixture(scope="module")
def client(open_client, tmp_path_factory):
    return open_client(write_run(tmp_path_factory.mktemp("runs") / "kuhn"))


def test_an_episode_has_all_recorded_fields(client):
    replay = client.get(EPISODE_URL).json()
    assert (replay["run"], replay["step"], replay["episode"], replay["group"], replay["seat"]) == (0, 10, 40, 40, None)
    assert replay["environment"]["options"] == {"start": "K J"}
    assert replay["seats"][1] == {
        "seat": 1,
        "role": "second",
        "agent": "past-000010",
        "kind": "snapshot",
        "trained": False,
        "return": 1.0,
    }
    assert (replay["previous"], replay["next"], replay["siblings"]) == (None, 41, 2)
    assert replay["missing"] == [] and replay["pictures"] is True
    assert replay["scale"]["advantage"] == 0.5 and replay["scale"]["entropy"] == pytest.approx(0.6)
    first_turn, second_turn = replay["turns"]
    assert (first_turn["index"], first_turn["seat"], first_turn["hidden"], first_turn["told"], first_turn["legal"]) == (
        0,
        0,
        False,
        "you hold the secret card K",
        ["pass", "bet"],
    )
    assert first_turn["credit"] == {
        "selected": True,
        "replayed": False,
        "reward": 1.0,
        "advantage": 0.5,
        "baseline": 0.25,
        "value": None,
        "value_target": None,
    }
    assert (
        second_turn["oracle"]["values"] == [0.5, -1.0]
        and second_turn["oracle"]["best"] == ["pass"]
        and second_turn["oracle"]["regret"] == 1.5
    )
    prompt, reply = first_turn["segments"]
    assert (prompt["kind"], prompt["length"], prompt["tokens"]) == ("prompt", 3, None)
    assert [(token["id"], token["logprob"], token["entropy"], token["advantage"]) for token in reply["tokens"]] == [
        (13, -0.5, 0.6, 0.5),
        (2, -0.25, 0.1, 0.5),
    ]
    assert replay["decoded"] is True and prompt["text"].startswith("<begin> ") and reply["text"].endswith(" <end>")
    assert "".join(token["text"] for token in reply["tokens"]) == reply["text"]


def test_hidden_turns_have_only_their_position_and_the_critical_path(client):
    assert [client.get(f"{EPISODE_URL}{seat}").json()["path"] for seat in ("", "?seat=0", "?seat=1")] == [[0, 1]] * 3
    replay = client.get(f"{EPISODE_URL}?seat=0").json()
    assert replay["turns"][1] == {"index": 1, "seat": 1, "moment": 1, "attempt": 0, "hidden": True}
    assert replay["turns"][0] == client.get(EPISODE_URL).json()["turns"][0]
    assert replay["environment"]["options"] is None


def test_the_viewer_agrees_with_the_command_sparring_show(client, tmp_path_factory):
    from typer.testing import CliRunner

    from sparring import cli

    path = client.watch.runs[0].path
    document = json.loads(
        CliRunner().invoke(cli.app, ["show", str(path), "--step", "10", "--episode", "40", "--json"]).stdout
    )
    replay = client.get(EPISODE_URL).json()
    for replayed_turn, recorded_turn in zip(replay["turns"], document["episode"]["turns"], strict=True):
        for name in ("told", "reply", "action", "event", "rewards", "view", "state_key", "weights_version"):
            assert replayed_turn[name] == recorded_turn[name]
        assert replayed_turn["legal"] == recorded_turn["legal_actions"]
        assert [segment["length"] for segment in replayed_turn["segments"]] == [
            len(segment["ids"]) for segment in recorded_turn["segments"]
        ]
    assert [turn["credit"]["advantage"] for turn in replay["turns"]] == [row["advantage"] for row in document["credit"]]


@pytest.mark.parametrize("path", [EPISODE_URL, "/export/0/10/40.html", "/api/runs/0/groups/10/40"])
def test_a_seat_gets_no_private_data_of_another_seat(client, path):
    text_of_seat_0, text_of_seat_1 = (client.get(f"{path}?seat={seat}").text for seat in (0, 1))
    for card, text in (("J", text_of_seat_0), ("K", text_of_seat_1)):
        for secret in (f"secret card {card}", f"{card}-key", f"{card}-view", "K J"):
            assert secret not in text
    assert "bet" not in [
        action for turn in client.get(f"{EPISODE_URL}?seat=0").json()["turns"] for action in [turn.get("reply")]
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs/0/episodes/10/999",
        "/api/runs/0/episodes/11/40",
        "/api/runs/5/episodes/10/40",
        f"{EPISODE_URL}?seat=2",
        "/api/runs/0/groups/10/999",
        "/api/runs/0/groups/99/40",
        f"{EPISODE_URL}/board/9",
        f"{EPISODE_URL}/board/0?seat=2",
        "/export/0/10/999.html",
    ],
)
def test_missing_episodes_are_reported(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize("path", [f"{EPISODE_URL}?seat=-1", "/api/runs/0/episodes/x/40", "/api/runs/0/episodes/10/4e1"])
def test_addresses_without_valid_numbers_are_refused(client, path):
    assert client.get(path).status_code == 400


def test_a_group_names_the_first_turn_at_which_its_episodes_differ(open_client, tmp_path):
    folder = write_run(tmp_path / "kuhn", steps=())
    equal_episodes = [episode(0, group=0), episode(1, group=0)]
    other_player = episode(2, turn(0, "pass"), turn(1, "pass", moment=1), group=0)
    shorter_episode = episode(4, turn(0, "pass"), group=3)
    write_step(folder, 1, [*equal_episodes, other_player, episode(3, group=3), shorter_episode])
    client = open_client(folder)
    assert client.get("/api/runs/0/groups/1/0").json()["part"] == 1
    assert client.get("/api/runs/0/groups/1/3").json()["part"] == 1
    members = client.get("/api/runs/0/groups/1/0").json()["members"]
    assert [member["actions"] for member in members] == [["pass", "bet"], ["pass", "bet"], ["pass", "pass"]]
    group_of_seat_0 = client.get("/api/runs/0/groups/1/0?seat=0").json()
    assert group_of_seat_0["part"] is None and group_of_seat_0["members"][2]["actions"] == ["pass", None]


def test_candidates_and_missing_or_unusable_records_are_shown(open_client, tmp_path):
    folder = write_run(tmp_path / "kuhn", steps=())
    candidate_turn = turn(0, "fold", event="illegal", candidate=1, score=-1.0)
    write_step(folder, 1, [episode(0, turn(0, "pass", candidates=(candidate_turn,)), turn(1, "bet"))])
    first_turn = open_client(folder).get("/api/runs/0/episodes/1/0").json()["turns"][0]
    (candidate,) = first_turn["candidates"]
    assert (candidate["reply"], candidate["event"], candidate["candidate"], candidate["score"]) == (
        "fold",
        "illegal",
        1,
        -1.0,
    )
    assert candidate["credit"]["advantage"] == 0.5 and len(candidate["segments"]) == 2
    folder = write_run(tmp_path / "second", steps=())
    write_step(folder, 1, [episode(0, turn(0, "pass", has_verdict=False))])
    (folder / "credit" / "part-000001.parquet").unlink()
    replay = open_client(folder).get("/api/runs/0/episodes/1/0").json()
    assert replay["missing"] == ["advantages", "entropies", "oracle values"]
    assert replay["turns"][0]["credit"] is None and replay["scale"] == {"advantage": None, "entropy": None}
    folder = write_run(tmp_path / "third", steps=())
    write_step(folder, 1, [episode(0, turn(0, "pass")._replace(action="raise"), turn(1, "bet"))])
    turn_without_verdict, known_turn = open_client(folder).get("/api/runs/0/episodes/1/0").json()["turns"]
    assert turn_without_verdict["oracle"]["regret"] is None and known_turn["oracle"]["regret"] == 1.5


def test_an_unknown_tokenizer_and_damaged_files_are_reported(open_client, tmp_path):
    folder = write_run(tmp_path / "kuhn")
    with open(folder / "config.yaml", "a") as stream:
        stream.write("model:\n  name: nobody/has-this\n")
    replay = open_client(folder).get(EPISODE_URL).json()
    assert replay["decoded"] is False and "nobody/has-this" in replay["notes"][0]
    assert replay["turns"][0]["segments"][1]["tokens"][0] == {
        "id": 13,
        "text": "",
        "whole": True,
        "logprob": -0.5,
        "entropy": 0.6,
        "advantage": 0.5,
    }
    folder = write_run(tmp_path / "broken" / "kuhn")
    client = open_client(folder)
    episode_file = folder / "episodes" / "part-000010.parquet"
    episode_file.write_bytes(episode_file.read_bytes()[:100])
    answer = client.get(EPISODE_URL)
    assert answer.status_code == 404 and "part-000010.parquet cannot be read" in answer.json()["error"]
    assert str(tmp_path) not in answer.text
    episode_file.unlink()
    assert "is not stored" in client.get(EPISODE_URL).json()["error"]


def test_hostile_text_is_sent_as_data_and_partial_characters_are_joined(open_client, tmp_path):
    folder = write_run(tmp_path / "kuhn", steps=())
    write_step(
        folder,
        1,
        [
            episode(
                0,
                turn(0, HOSTILE_TEXT, prompt=HOSTILE_TEXT, event="unparsable"),
                agents=("learner", "bot-" + HOSTILE_TEXT[:-1]),
            )
        ],
    )
    client = open_client(folder)
    answer = client.get("/api/runs/0/episodes/1/0")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["turns"][0]["reply"] == HOSTILE_TEXT
    page = client.get("/export/0/1/0.html").text
    assert "hit()" not in re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.DOTALL)
    assert page.lower().count("<script") == 2 and page.lower().count("</script") == 2
    data = json.loads(re.search(r'id="replay">(.*?)</script>', page, re.DOTALL)[1])
    assert data["episode"]["turns"][0]["reply"] == HOSTILE_TEXT
    byte_characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={letter: number for number, letter in enumerate(byte_characters)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    ids = tokenizer.encode("aé€b").ids
    assert decode_tokens(tokenizer, ids) == [
        DecodedToken("a", True),
        DecodedToken("", False),
        DecodedToken("é", True),
        DecodedToken("", False),
        DecodedToken("", False),
        DecodedToken("€", True),
        DecodedToken("b", True),
    ]
    assert text_of(tokenizer, ids) == "aé€b"
    assert (
        decode_tokens(tokenizer, [1 << 40, -1]) == [DecodedToken("", True)] * 2
        and text_of(tokenizer, [1 << 40]) is None
    )


def test_an_exported_page_has_its_data_as_text_and_one_script(client):
    text = script_json({"a": HOSTILE_TEXT, "b": float("nan")})
    assert not set("<>&") & set(text) and text.isascii()
    assert json.loads(text) == {"a": HOSTILE_TEXT, "b": None}
    page = client.get("/export/0/10/40.html").text
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy and "unsafe" not in policy and policy.count("sha256-") == 2
    assert not re.search(r"""(?:src|href)=["']?http""", page)
    script = page.rpartition("<script>")[2]
    assert not re.search(r"^(?:import|export) ", script, re.MULTILINE)


@pytest.fixture
def reads(monkeypatch):
    read_episodes, original_read = [], EpisodeStore.episode

    def counting_read(self, step, number):
        read_episodes.append((step, number))
        return original_read(self, step, number)

    monkeypatch.setattr(EpisodeStore, "episode", counting_read)
    return read_episodes


def test_an_episode_is_read_once_until_its_file_changes_or_is_removed(run_folder, reads):
    run, episodes = ViewedRun(0, run_folder, "kuhn"), episode_replay.Episodes()
    episode_read = episodes.find(run, 10, 40)
    assert episodes.find(run, 10, 40) is episode_read and reads == [(10, 40)]
    assert episode_read == episode_replay.Episodes().find(run, 10, 40)
    assert episode_read.episode.episode_id == 40 and len(episode_read.credit) == 2
    assert episode_read.episode.returns == (-1.0, 1.0)
    run_writer.write_step(run_folder, 10, [run_writer.episode(40, returns=(2.0, -2.0))])
    assert episodes.find(run, 10, 40).episode.returns == (2.0, -2.0)
    run, episodes = ViewedRun(0, run_folder, "kuhn"), episode_replay.Episodes()
    episodes.find(run, 10, 40)
    EpisodeStore(run_folder / "episodes").path(10).unlink()
    with pytest.raises(RequestError, match="is not stored"):
        episodes.find(run, 10, 40)


def test_only_the_newest_episodes_stay_cached(run_folder, reads, monkeypatch):
    monkeypatch.setattr(episode_replay, "CACHE_SIZE", 2)
    run, episodes = ViewedRun(0, run_folder, "kuhn"), episode_replay.Episodes()
    for number in (40, 41, 42, 42, 40):
        episodes.find(run, 10, number)
    assert reads == [(10, 40), (10, 41), (10, 42), (10, 40)]
