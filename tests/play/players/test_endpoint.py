import dataclasses
import json
import logging
import sys
import threading
import traceback

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, PluginError, RolloutError, RunError, SparringError
from sparring.core.rng import Stream
from sparring.core.trust import FILES, HOSTS
from sparring.environments.catalogue import make_game
from sparring.play.players.base import PendingTurn
from sparring.play.players.endpoint import SYSTEM
from sparring.play.players.random import random
from sparring.play.rollout import play
from tests.play.players.model_server import Server
from tests.play.plays import specs

KEY = "sk-Very0Secret1Key2"
SOON = {"retry-after-ms": "1"}


def completion(content="bet", tokens_in=100, tokens_out=10, **choice):
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop", **choice}], "usage": usage})


def last_legal(request):
    listed = request["messages"][-1]["content"].rsplit("Legal actions: ", 1)[1].split(".", 1)[0]
    return completion(f"I have thought about it. My action: {listed.rsplit(', ', 1)[-1]}")


@pytest.fixture
def serve(monkeypatch, tmp_path):
    monkeypatch.setenv(FILES, str(tmp_path))
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    servers = []

    def start(answers):
        servers.append(Server(answers))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def agent_at(server, **options):
    url = server if isinstance(server, str) else server.url
    return registry.bind("players", "endpoint", {"model": "m", "base_url": url, "retries": 0, **options})()


def turns(count, seed=1):
    """Return first decisions of Kuhn poker with different deals and random streams."""
    game, root = make_game("kuhn_poker", options={"style": "full"}), Stream.from_seed(seed)
    return [
        PendingTurn(state=game.reset(root.child(n)), seat=0, stream=root.child("say").child(n)) for n in range(count)
    ]


def games(count):
    seats = ("random", "endpoint")
    due = specs(make_game("kuhn_poker", options={"style": "full"}), count, seed=5, trained=(False, False))
    return [dataclasses.replace(spec, seats=seats[::-1] if n % 2 else seats) for n, spec in enumerate(due)]


def test_whole_games_against_random(serve):
    server = serve(lambda number, request: last_legal(request))
    agent = agent_at(server, max_new_tokens=7, top_p=0.5, temperature=0.25)
    episodes = play(games(12), {"endpoint": agent, "random": random()})
    replies = [turn for episode in episodes for turn in episode.turns if turn.agent == "endpoint"]
    assert len(episodes) == 12 and len(replies) == len(server.requests) == agent.counters.requests
    assert all(
        turn.event == "ok" and turn.action == "bet" and turn.reply.startswith("I have thought") for turn in replies
    )
    assert (agent.counters.tokens_in, agent.counters.tokens_out) == (100 * len(replies), 10 * len(replies))
    assert set(server.paths) == {"/v1/chat/completions"}
    first_request = server.requests[0]
    assert {name: first_request[name] for name in ("model", "max_tokens", "top_p", "temperature")} == {
        "model": "m",
        "max_tokens": 7,
        "top_p": 0.5,
        "temperature": 0.25,
    }
    assert first_request["messages"][0] == {"role": "system", "content": SYSTEM}
    assert first_request["messages"][1]["content"].startswith("We play Kuhn poker")
    # later requests have the full conversation too
    assert all("You play as" in request["messages"][1]["content"] for request in server.requests)


def test_replies_are_in_the_order_of_turns_and_requests_are_concurrent(serve):
    arrived = threading.Barrier(4, timeout=20)
    gates = [threading.Event() for _ in range(4)]

    def answer(number, request):
        if number < 4:  # four concurrent requests, answered in reverse order
            arrived.wait()
            if number < 3:
                gates[number + 1].wait(20)
            gates[number].set()
        return completion(str(request["seed"]))

    server, pending = serve(answer), turns(9)
    replies = agent_at(server, concurrency=4).act(pending)
    assert [reply.text for reply in replies] == [str(turn.stream.integer(0, 1 << 31)) for turn in pending]
    assert len({reply.text for reply in replies}) == 9


def test_an_episode_continues_while_another_waits_for_its_reply(serve):
    second_decision_sent, was_in_time = threading.Event(), []

    def answer(number, request):
        if number == 0:
            was_in_time.append(second_decision_sent.wait(20))
        if number == 2:  # the second decision of the episode without delay
            second_decision_sent.set()
        return last_legal(request)

    self_play_specs = [dataclasses.replace(spec, seats=("endpoint", "endpoint")) for spec in games(2)]
    episodes = play(self_play_specs, {"endpoint": agent_at(serve(answer), concurrency=2)})
    assert was_in_time == [True]
    assert [[turn.action for turn in episode.turns] for episode in episodes] == [["bet", "bet"]] * 2


def test_a_failed_request_ends_all_pending_requests(serve):
    both_arrived = threading.Barrier(2, timeout=20)

    def answer(number, request):
        both_arrived.wait()
        threading.Event().wait(0.3 * number)  # the failure comes first
        return (400, "no", {}) if number == 0 else last_legal(request)

    server = serve(answer)
    agent = agent_at(server, concurrency=2)
    with pytest.raises(RolloutError, match="status 400"):
        play(games(12), {"endpoint": agent, "random": random()})
    assert len(server.requests) == 2
    both_arrived.abort()  # the server breaks down
    with pytest.raises(RolloutError, match="Write cache=NAME"):  # later requests are sent again
        agent.act(turns(1))
    assert len(server.requests) == 3


def test_cancelled_requests_are_not_sent(serve):
    server = serve(lambda number, request: (threading.Event().wait(0.2), completion())[1])
    agent = agent_at(server, concurrency=1)
    coming = agent.submit(turns(5))
    assert next(coming) == []
    coming.close()
    assert len(agent.act(turns(1))) == 1, "the line is a new one"
    assert len(server.requests) == 2


def test_the_number_of_concurrent_requests_is_limited(serve):
    under_way, largest = [0], [0]
    lock = threading.Lock()

    def answer(number, request):
        with lock:
            under_way[0] += 1
            largest[0] = max(largest[0], under_way[0])
        body = completion()
        threading.Event().wait(0.02)
        with lock:
            under_way[0] -= 1
        return body

    agent_at(serve(answer), concurrency=1).act(turns(6))
    assert largest == [1]


def test_options_that_are_not_set_are_not_sent(serve):
    server = serve(lambda number, request: completion())
    agent_at(server, system="", seed_requests=False, temperature=None, top_p=None).act(turns(1))
    assert set(server.requests[0]) == {"model", "messages", "max_tokens"}
    assert [message["role"] for message in server.requests[0]["messages"]] == ["user"]
    agent = registry.bind("players", "endpoint", {"model": "m", "key_variable": "K_API_KEY"})
    assert agent.options["base_url"] == "https://api.openai.com/v1"


def test_openai_gets_max_completion_tokens(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert "max_completion_tokens" in registry.bind("players", "endpoint", {"model": "m"})().fields


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (completion(None), ""),
        (completion(""), ""),
        ('{"choices": [{"message": {}}]}', ""),
        (
            completion(
                [{"type": "thinking", "thinking": []}, {"type": "text", "text": "be"}, {"type": "text", "text": "t"}]
            ),
            "bet",
        ),
        (completion("a\ud800b"), "a?b"),
    ],
)
def test_unusual_bodies_are_read_as_texts(serve, body, text):
    reply = agent_at(serve(lambda number, request: body)).act(turns(1))[0]
    assert (reply.text, reply.truncated) == (text, False)


def test_an_empty_reply_is_unparsable_and_a_truncated_one_is_marked(serve):
    server = serve(lambda number, request: completion(None, finish_reason="length"))
    episodes = play(games(2), {"endpoint": agent_at(server), "random": random()})
    replies = [turn for episode in episodes for turn in episode.turns if turn.agent == "endpoint"]
    assert replies and all(turn.event == "unparsable" and turn.reply == "" and turn.truncated for turn in replies)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        '{"choices": []}',
        '{"error": {"message": "no"}}',
        '{"choices": [{"message": null}]}',
        completion(3),
        completion(["x"]),
    ],
)
def test_a_body_that_is_no_completion_is_an_error_with_the_endpoint(serve, body):
    server = serve(lambda number, request: body)
    with pytest.raises(
        RolloutError,
        match=rf"Endpoint {server.url} \(model 'm'\) answered with status 200 but not with a chat completion",
    ):
        agent_at(server).act(turns(1))


@pytest.mark.parametrize("status", [500, 429, 503])
def test_a_temporary_failure_is_retried(serve, status):
    server = serve(lambda number, request: (status, "busy", SOON) if number < 2 else completion())
    assert agent_at(server, retries=2).act(turns(1))[0].text == "bet"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "tries", "advice"),
    [
        (500, 3, "more retries"),
        (429, 3, "smaller concurrency"),
        (400, 1, "seed_requests=false"),
        (422, 1, "top_p=null"),
        (404, 1, "Check base_url"),
    ],
)
def test_a_lasting_failure_is_an_error_with_status_and_advice(serve, status, tries, advice):
    server = serve(lambda number, request: (status, '{"error":\n {"message": "of its own"}}', SOON))
    with pytest.raises(RolloutError, match=f"{server.url}.*status {status}: .*of its own.*{advice}.*Write cache=NAME"):
        agent_at(server, retries=2).act(turns(1))
    assert len(server.requests) == tries


def test_after_a_failure_no_request_is_sent_and_pending_replies_are_cached(serve, tmp_path):
    both_arrived = threading.Barrier(2, timeout=20)

    def answer(number, request):
        both_arrived.wait()
        return (400, "no", {}) if request["seed"] == turns(1)[0].stream.integer(0, 1 << 31) else completion()

    server = serve(answer)
    with pytest.raises(RolloutError, match="status 400"):
        agent = agent_at(server, concurrency=2, cache=str(tmp_path / "c.jsonl"))
        add = agent.account.cache.add
        # the failure comes first
        agent.account.cache.add = lambda *arguments: (
            threading.Event().wait(0.2),
            add(*arguments),
        )
        agent.act(turns(20))
    assert len(server.requests) == 2
    assert len((tmp_path / "c.jsonl").read_text().splitlines()) == 1


def test_a_time_out_names_the_option(serve):
    release = threading.Event()
    server = serve(lambda number, request: release.wait(20) and completion())
    with pytest.raises(RolloutError, match=rf"{server.url}.*did not answer within timeout=0\.05 seconds, 1 try"):
        agent_at(server, timeout=0.05).act(turns(1))
    release.set()


def test_an_unreachable_server_is_an_error(serve):
    server = serve(lambda number, request: completion())
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(RolloutError, match=f"{server.url}.*could not be reached, 1 try: .*Check base_url"):
        agent_at(server).act(turns(1))
    server.http.server_close = server.http.shutdown = lambda: None


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (
            {"budget_tokens": 320},
            r"budget_tokens=320 is spent: 3 requests took 300 tokens in and 30 out, .*To go on, write a larger budget_tokens",
        ),
        ({"budget_cost": 0.0005}, r"budget_cost=0\.0005 is spent: 3 requests .*, 0\.0006 in money.*larger budget_cost"),
    ],
)
def test_a_spent_budget_stops_the_requests(serve, budget, message):
    server = serve(lambda number, request: completion())
    agent = agent_at(server, price_in=1.0, price_out=10.0, concurrency=1, **budget)  # a request costs 0.0002
    with pytest.raises(SparringError, match=message):
        agent.act(turns(5))
    assert len(server.requests) == agent.counters.requests == 3 and agent.counters.cost == pytest.approx(0.0006)


def test_no_budget_no_limit_and_concurrent_counting(serve):
    server = serve(lambda number, request: completion())
    agent = agent_at(server, price_in=1.0)
    agent.act(turns(30))
    assert (agent.counters.requests, agent.counters.tokens_in, agent.counters.from_cache) == (30, 3000, 0)
    assert agent.counters.cost == pytest.approx(0.003)


def test_a_budget_cannot_be_kept_without_token_counts(serve, tmp_path):
    server = serve(lambda number, request: '{"choices": [{"message": {"content": "bet"}}]}')
    with pytest.raises(RolloutError, match=r"reports no token counts.*budget_tokens=0 and budget_cost=0"):
        agent_at(server, budget_tokens=5, cache=str(tmp_path / "c.jsonl")).act(turns(1))
    assert agent_at(server, cache=str(tmp_path / "c.jsonl")).act(turns(1))[0].text == "bet"
    assert len(server.requests) == 1


def test_an_interrupted_evaluation_uses_its_cache(serve, tmp_path):
    cache, torn_cache = str(tmp_path / "new" / "answers.jsonl"), [True]
    server = serve(lambda number, request: (500, "down", {}) if torn_cache[0] and number == 7 else last_legal(request))
    agents = lambda: {"endpoint": agent_at(server, cache=cache, concurrency=2), "random": random()}  # noqa: E731
    with pytest.raises(
        RolloutError, match=r"status 500.*Every answer so far is in .*answers\.jsonl: run again with this cache"
    ):
        play(games(12), agents())
    answered = len(server.requests) - 1
    # the concurrent reply is stored too
    assert len((tmp_path / "new" / "answers.jsonl").read_text().splitlines()) == answered >= 7
    torn_cache[0] = False
    resumed_agent = agents()
    episodes = play(games(12), resumed_agent)
    counters = resumed_agent["endpoint"].counters
    assert counters.from_cache == answered and counters.requests == len(server.requests) - 1 - answered > 0
    num_sent, third_agent = len(server.requests), agents()
    assert play(games(12), third_agent) == episodes
    assert len(server.requests) == num_sent
    assert (
        third_agent["endpoint"].counters.requests,
        third_agent["endpoint"].counters.tokens_in,
        third_agent["endpoint"].counters.cost,
    ) == (0, 0, 0)


def test_the_cache_answers_when_the_budget_is_spent(serve, tmp_path):
    server = serve(lambda number, request: completion())
    options = dict(cache=str(tmp_path / "c.jsonl"), budget_tokens=100, concurrency=1)
    for answered in (1, 2, 3):
        agent = agent_at(server, **options)
        if answered < 3:
            with pytest.raises(RolloutError, match="Every answer so far is in"):
                agent.act(turns(3))
        else:
            assert [reply.text for reply in agent.act(turns(3))] == ["bet"] * 3
        assert len(server.requests) == answered


def test_the_cache_answers_only_equal_requests_of_the_same_turn(serve, tmp_path):
    server, second_server = (serve(lambda number, request: completion()) for _ in range(2))
    cache = {"cache": str(tmp_path / "c.jsonl"), "seed_requests": False}
    agent_at(server, **cache).act(turns(1))
    agent_at(server, **cache).act(turns(1))
    assert len(server.requests) == 1
    changes = [
        {"model": "n"},
        {"temperature": 0.5},
        {"top_p": 0.5},
        {"max_new_tokens": 5},
        {"system": "s"},
        {"seed_requests": True},
    ]
    for number, change in enumerate(changes, start=2):
        agent_at(server, **{**cache, **change}).act(turns(1))
        assert len(server.requests) == number
    agent_at(server, **cache, timeout=9.0, concurrency=1, retries=1).act(turns(1))
    assert len(server.requests) == len(changes) + 1
    state = turns(1)[0].state
    # an equal request of another turn
    agent_at(server, **cache).act([PendingTurn(state=state, seat=0, stream=Stream.from_seed(9))])
    assert len(server.requests) == len(changes) + 2
    agent_at(second_server, **cache).act(turns(1))
    assert len(second_server.requests) == 1


@pytest.mark.parametrize("num_cut", [b"", b'{"request": "0', b"\xff\xfe"])
def test_a_truncated_cache_line_is_skipped(serve, tmp_path, num_cut):
    server, path = serve(lambda number, request: completion()), tmp_path / "c.jsonl"
    agent_at(server, cache=str(path), concurrency=1).act(turns(3))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + num_cut)
    agent_at(server, cache=str(path)).act(turns(3))
    assert len(server.requests) == 4
    agent_at(server, cache=str(path)).act(turns(3))
    assert len(server.requests) == 4
    assert path.read_bytes().splitlines(keepends=True)[-1] == lines[2]


def test_the_cache_stores_every_field_of_a_reply(serve, tmp_path):
    server = serve(lambda number, request: completion("Zug:\n\u2028 b\xe9t \U0001f0a1", finish_reason="length"))
    replies = [agent_at(server, cache=str(tmp_path / "c.jsonl")).act(turns(1))[0] for _ in range(2)]
    assert replies[0] == replies[1] and replies[0].truncated and replies[0].text.endswith("\U0001f0a1")
    assert len(server.requests) == 1


def test_a_file_that_is_no_cache_is_refused_and_not_changed(serve, tmp_path):
    server, path = serve(lambda number, request: completion()), tmp_path / "recipe.jsonl"
    path.write_text("games:\n  - name: kuhn_poker\n")
    with pytest.raises(ConfigError, match="is not a file of answers"):
        agent_at(server, cache=str(path))
    assert path.read_text() == "games:\n  - name: kuhn_poker\n"
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        agent_at(server, cache=str(tmp_path / "folder.jsonl"))
    with pytest.raises((RunError, PluginError)):
        agent_at(server, cache=str(path / "below" / "c.jsonl"))


def test_the_key_is_read_from_the_environment_and_only_sent(serve, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_API_KEY", f" {KEY}\n")
    statuses = iter([200, 500, 400, 401, 403, 200])
    bodies = {200: lambda: completion(), 401: lambda: f"wrong key {KEY[:8]}***"}
    server = serve(lambda number, request: (lambda s: (s, bodies.get(s, lambda: f"echo {KEY}")(), {}))(next(statuses)))
    agent = agent_at(server, key_variable="MY_API_KEY", cache=str(tmp_path / "c.jsonl"))
    agent.act(turns(1))
    for status in (500, 400, 401, 403):
        with pytest.raises(RolloutError, match=f"status {status}") as error:
            agent.act(turns(1, seed=2))
        trace = "".join(traceback.format_exception(error.value)) + repr(error.value.__context__)
        assert KEY not in trace and KEY[:8] not in trace
        assert ("environment variable MY_API_KEY" in str(error.value)) == (status in (401, 403))
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert KEY not in (tmp_path / "c.jsonl").read_text() and KEY not in caplog.text and KEY not in repr(agent)


def test_local_servers_need_no_key_and_others_do(serve, monkeypatch):
    server = serve(lambda number, request: completion())
    agent_at(server).act(turns(1))
    for url in ("http://localhost:1/v1", "http://[::1]:1/v1", "http://127.1.2.3:1"):
        agent_at(url)
    monkeypatch.setenv(HOSTS, "192.168.0.1")
    for url in ("https://api.openai.com/v1", "http://192.168.0.1:8000/v1"):
        with pytest.raises(ConfigError, match="environment variable OPENAI_API_KEY is not set"):
            agent_at(url)


def test_a_key_in_the_wrong_option_is_not_printed(monkeypatch):
    for options in (
        {"key_variable": KEY},
        {"key_variable": "gsk_secret"},
        {"base_url": "https://user:secret@host/v1"},
        {"base_url": "https://host/v1?key=secret"},
    ):
        with pytest.raises(ConfigError, match=r"never the key|no user, password or query") as error:
            agent_at(**{"server": "http://127.0.0.1:1", **options})
        assert "secret" not in str(error.value).lower()
    monkeypatch.setenv("BAD_API_KEY", "one secret\nand another")
    with pytest.raises(ConfigError, match="BAD_API_KEY holds characters that are not part of a key") as error:
        agent_at("http://127.0.0.1:1", key_variable="BAD_API_KEY")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"max_new_tokens": 0},
        {"temperature": -1.0},
        {"top_p": 1.5},
        {"timeout": 0.0},
        {"retries": -1},
        {"budget_tokens": -1},
        {"budget_cost": 1.0},
        {"price_in": -1.0},
        {"base_url": "localhost:8000/v1"},
        {"base_url": "http://127.0.0.1:99999/v1"},
        {"base_url": "ftp://host/v1"},
    ],
)
def test_wrong_options_are_refused_by_name(options):
    with pytest.raises(ConfigError, match=f"endpoint: {next(iter(options))}="):
        registry.bind("players", "endpoint", {"model": "m", "base_url": "http://127.0.0.1:1", **options})()


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"pip install 'sparring\[endpoint\]'"):
        agent_at("http://127.0.0.1:1")


def test_without_turns_no_request_is_sent(serve):
    server = serve(lambda number, request: completion())
    assert agent_at(server).act([]) == [] and server.requests == []


def test_the_request_after_an_illegal_reply_states_the_error(serve):
    server = serve(lambda number, request: last_legal(request) if number % 2 else completion("I think I shall castle."))
    game = make_game("kuhn_poker", options={"style": "full"}, illegal={"rule": "retry", "retries": 2})
    episodes = play(
        [dataclasses.replace(spec, game=game) for spec in games(2)],
        {"endpoint": agent_at(server, concurrency=1), "random": random()},
        in_flight=1,
    )
    prompts = [request["messages"][-1]["content"] for request in server.requests]
    for first_prompt, retry_prompt in zip(prompts[::2], prompts[1::2], strict=True):
        assert retry_prompt.startswith(first_prompt)
        assert "action" in retry_prompt[len(first_prompt) :]
    assert any(turn.event == "unparsable" for episode in episodes for turn in episode.turns)
