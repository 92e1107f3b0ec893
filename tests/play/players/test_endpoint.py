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
from tests.play.plays import make_specs

API_KEY = "sk-Very0Secret1Key2"
RETRY_SOON = {"retry-after-ms": "1"}


def completion_body(content="bet", tokens_in=100, tokens_out=10, **choice):
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop", **choice}], "usage": usage})


def reply_with_last_legal(request):
    action_list = request["messages"][-1]["content"].rsplit("Legal actions: ", 1)[1].split(".", 1)[0]
    return completion_body(f"I have thought about it. My action: {action_list.rsplit(', ', 1)[-1]}")


@pytest.fixture
def start_server(monkeypatch, tmp_path):
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


def make_agent(server, **options):
    url = server if isinstance(server, str) else server.url
    return registry.bind("players", "endpoint", {"model": "m", "base_url": url, "retries": 0, **options})()


def first_turns(count, seed=1):
    """Return first decisions of Kuhn poker with different deals and random streams."""
    game, root = make_game("kuhn_poker", options={"style": "full"}), Stream.from_seed(seed)
    return [
        PendingTurn(state=game.reset(root.child(number)), seat=0, stream=root.child("say").child(number))
        for number in range(count)
    ]


def specs_against_random(count):
    seats = ("random", "endpoint")
    specs = make_specs(make_game("kuhn_poker", options={"style": "full"}), count, seed=5, trained=(False, False))
    return [dataclasses.replace(spec, seats=seats[::-1] if number % 2 else seats) for number, spec in enumerate(specs)]


def test_whole_games_against_random(start_server):
    server = start_server(lambda number, request: reply_with_last_legal(request))
    agent = make_agent(server, max_new_tokens=7, top_p=0.5, temperature=0.25)
    episodes = play(specs_against_random(12), {"endpoint": agent, "random": random()})
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
    # later requests also have the full conversation
    assert all("You play as" in request["messages"][1]["content"] for request in server.requests)


def test_replies_are_in_the_order_of_turns_and_requests_are_concurrent(start_server):
    all_arrived = threading.Barrier(4, timeout=20)
    answer_events = [threading.Event() for _ in range(4)]

    def answer(number, request):
        if number < 4:  # four concurrent requests, answered in reverse order
            all_arrived.wait()
            if number < 3:
                answer_events[number + 1].wait(20)
            answer_events[number].set()
        return completion_body(str(request["seed"]))

    server, pending = start_server(answer), first_turns(9)
    replies = make_agent(server, concurrency=4).act(pending)
    assert [reply.text for reply in replies] == [str(turn.stream.integer(0, 1 << 31)) for turn in pending]
    assert len({reply.text for reply in replies}) == 9


def test_an_episode_continues_while_another_waits_for_its_reply(start_server):
    second_decision_sent, was_in_time = threading.Event(), []

    def answer(number, request):
        if number == 0:
            was_in_time.append(second_decision_sent.wait(20))
        if number == 2:  # the second decision of the episode without delay
            second_decision_sent.set()
        return reply_with_last_legal(request)

    self_play_specs = [dataclasses.replace(spec, seats=("endpoint", "endpoint")) for spec in specs_against_random(2)]
    episodes = play(self_play_specs, {"endpoint": make_agent(start_server(answer), concurrency=2)})
    assert was_in_time == [True]
    assert [[turn.action for turn in episode.turns] for episode in episodes] == [["bet", "bet"]] * 2


def test_a_failed_request_ends_all_pending_requests(start_server):
    both_arrived = threading.Barrier(2, timeout=20)

    def answer(number, request):
        both_arrived.wait()
        threading.Event().wait(0.3 * number)  # the failure comes first
        return (400, "no", {}) if number == 0 else reply_with_last_legal(request)

    server = start_server(answer)
    agent = make_agent(server, concurrency=2)
    with pytest.raises(RolloutError, match="status 400"):
        play(specs_against_random(12), {"endpoint": agent, "random": random()})
    assert len(server.requests) == 2
    both_arrived.abort()  # the server breaks down
    with pytest.raises(RolloutError, match="Write cache=NAME"):  # later requests are sent again
        agent.act(first_turns(1))
    assert len(server.requests) == 3


def test_cancelled_requests_are_not_sent(start_server):
    server = start_server(lambda number, request: (threading.Event().wait(0.2), completion_body())[1])
    agent = make_agent(server, concurrency=1)
    replies = agent.submit(first_turns(5))
    assert next(replies) == []
    replies.close()
    assert len(agent.act(first_turns(1))) == 1, "the agent still works with new requests"
    assert len(server.requests) == 2


def test_the_number_of_concurrent_requests_is_limited(start_server):
    num_open, max_open = [0], [0]
    lock = threading.Lock()

    def answer(number, request):
        with lock:
            num_open[0] += 1
            max_open[0] = max(max_open[0], num_open[0])
        body = completion_body()
        threading.Event().wait(0.02)
        with lock:
            num_open[0] -= 1
        return body

    make_agent(start_server(answer), concurrency=1).act(first_turns(6))
    assert max_open == [1]


def test_options_that_are_not_set_are_not_sent(start_server):
    server = start_server(lambda number, request: completion_body())
    make_agent(server, system="", seed_requests=False, temperature=None, top_p=None).act(first_turns(1))
    assert set(server.requests[0]) == {"model", "messages", "max_tokens"}
    assert [message["role"] for message in server.requests[0]["messages"]] == ["user"]
    agent = registry.bind("players", "endpoint", {"model": "m", "key_variable": "K_API_KEY"})
    assert agent.options["base_url"] == "https://api.openai.com/v1"


def test_openai_gets_max_completion_tokens(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    assert "max_completion_tokens" in registry.bind("players", "endpoint", {"model": "m"})().fields


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (completion_body(None), ""),
        (completion_body(""), ""),
        ('{"choices": [{"message": {}}]}', ""),
        (
            completion_body(
                [{"type": "thinking", "thinking": []}, {"type": "text", "text": "be"}, {"type": "text", "text": "t"}]
            ),
            "bet",
        ),
        (completion_body("a\ud800b"), "a?b"),
    ],
)
def test_unusual_bodies_are_read_as_texts(start_server, body, text):
    reply = make_agent(start_server(lambda number, request: body)).act(first_turns(1))[0]
    assert (reply.text, reply.truncated) == (text, False)


def test_an_empty_reply_is_unparsable_and_a_truncated_one_is_marked(start_server):
    server = start_server(lambda number, request: completion_body(None, finish_reason="length"))
    episodes = play(specs_against_random(2), {"endpoint": make_agent(server), "random": random()})
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
        completion_body(3),
        completion_body(["x"]),
    ],
)
def test_a_body_that_is_no_completion_is_an_error_with_the_endpoint(start_server, body):
    server = start_server(lambda number, request: body)
    with pytest.raises(
        RolloutError,
        match=rf"Endpoint {server.url} \(model 'm'\) answered with status 200 but not with a chat completion",
    ):
        make_agent(server).act(first_turns(1))


@pytest.mark.parametrize("status", [500, 429, 503])
def test_a_temporary_failure_is_retried(start_server, status):
    server = start_server(lambda number, request: (status, "busy", RETRY_SOON) if number < 2 else completion_body())
    assert make_agent(server, retries=2).act(first_turns(1))[0].text == "bet"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "num_tries", "advice"),
    [
        (500, 3, "more retries"),
        (429, 3, "smaller concurrency"),
        (400, 1, "seed_requests=false"),
        (422, 1, "top_p=null"),
        (404, 1, "Check base_url"),
    ],
)
def test_a_lasting_failure_is_an_error_with_status_and_advice(start_server, status, num_tries, advice):
    server = start_server(lambda number, request: (status, '{"error":\n {"message": "of its own"}}', RETRY_SOON))
    with pytest.raises(RolloutError, match=f"{server.url}.*status {status}: .*of its own.*{advice}.*Write cache=NAME"):
        make_agent(server, retries=2).act(first_turns(1))
    assert len(server.requests) == num_tries


def test_after_a_failure_no_request_is_sent_and_pending_replies_are_cached(start_server, tmp_path):
    both_arrived = threading.Barrier(2, timeout=20)

    def answer(number, request):
        both_arrived.wait()
        return (400, "no", {}) if request["seed"] == first_turns(1)[0].stream.integer(0, 1 << 31) else completion_body()

    server = start_server(answer)
    with pytest.raises(RolloutError, match="status 400"):
        agent = make_agent(server, concurrency=2, cache=str(tmp_path / "c.jsonl"))
        original_add = agent.account.cache.add
        # the failure comes first
        agent.account.cache.add = lambda *arguments: (
            threading.Event().wait(0.2),
            original_add(*arguments),
        )
        agent.act(first_turns(20))
    assert len(server.requests) == 2
    assert len((tmp_path / "c.jsonl").read_text().splitlines()) == 1


def test_a_time_out_names_the_option(start_server):
    release = threading.Event()
    server = start_server(lambda number, request: release.wait(20) and completion_body())
    with pytest.raises(RolloutError, match=rf"{server.url}.*did not answer within timeout=0\.05 seconds, 1 try"):
        make_agent(server, timeout=0.05).act(first_turns(1))
    release.set()


def test_an_unreachable_server_is_an_error(start_server):
    server = start_server(lambda number, request: completion_body())
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(RolloutError, match=f"{server.url}.*could not be reached, 1 try: .*Check base_url"):
        make_agent(server).act(first_turns(1))
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
def test_a_spent_budget_stops_the_requests(start_server, budget, message):
    server = start_server(lambda number, request: completion_body())
    agent = make_agent(server, price_in=1.0, price_out=10.0, concurrency=1, **budget)  # a request costs 0.0002
    with pytest.raises(SparringError, match=message):
        agent.act(first_turns(5))
    assert len(server.requests) == agent.counters.requests == 3 and agent.counters.cost == pytest.approx(0.0006)


def test_no_budget_no_limit_and_concurrent_counting(start_server):
    server = start_server(lambda number, request: completion_body())
    agent = make_agent(server, price_in=1.0)
    agent.act(first_turns(30))
    assert (agent.counters.requests, agent.counters.tokens_in, agent.counters.from_cache) == (30, 3000, 0)
    assert agent.counters.cost == pytest.approx(0.003)


def test_a_budget_cannot_be_kept_without_token_counts(start_server, tmp_path):
    server = start_server(lambda number, request: '{"choices": [{"message": {"content": "bet"}}]}')
    with pytest.raises(RolloutError, match=r"reports no token counts.*budget_tokens=0 and budget_cost=0"):
        make_agent(server, budget_tokens=5, cache=str(tmp_path / "c.jsonl")).act(first_turns(1))
    assert make_agent(server, cache=str(tmp_path / "c.jsonl")).act(first_turns(1))[0].text == "bet"
    assert len(server.requests) == 1


def test_an_interrupted_evaluation_uses_its_cache(start_server, tmp_path):
    cache, is_down = str(tmp_path / "new" / "answers.jsonl"), [True]
    server = start_server(
        lambda number, request: (500, "down", {}) if is_down[0] and number == 7 else reply_with_last_legal(request)
    )
    make_agents = lambda: {"endpoint": make_agent(server, cache=cache, concurrency=2), "random": random()}  # noqa: E731
    with pytest.raises(
        RolloutError, match=r"status 500.*Every answer so far is in .*answers\.jsonl: run again with this cache"
    ):
        play(specs_against_random(12), make_agents())
    num_answered = len(server.requests) - 1
    # the concurrent reply is also stored
    assert len((tmp_path / "new" / "answers.jsonl").read_text().splitlines()) == num_answered >= 7
    is_down[0] = False
    resumed_agent = make_agents()
    episodes = play(specs_against_random(12), resumed_agent)
    counters = resumed_agent["endpoint"].counters
    assert counters.from_cache == num_answered and counters.requests == len(server.requests) - 1 - num_answered > 0
    num_sent, third_agent = len(server.requests), make_agents()
    assert play(specs_against_random(12), third_agent) == episodes
    assert len(server.requests) == num_sent
    assert (
        third_agent["endpoint"].counters.requests,
        third_agent["endpoint"].counters.tokens_in,
        third_agent["endpoint"].counters.cost,
    ) == (0, 0, 0)


def test_the_cache_answers_when_the_budget_is_spent(start_server, tmp_path):
    server = start_server(lambda number, request: completion_body())
    options = dict(cache=str(tmp_path / "c.jsonl"), budget_tokens=100, concurrency=1)
    for num_requests in (1, 2, 3):
        agent = make_agent(server, **options)
        if num_requests < 3:
            with pytest.raises(RolloutError, match="Every answer so far is in"):
                agent.act(first_turns(3))
        else:
            assert [reply.text for reply in agent.act(first_turns(3))] == ["bet"] * 3
        assert len(server.requests) == num_requests


def test_the_cache_answers_only_equal_requests_of_the_same_turn(start_server, tmp_path):
    server, second_server = (start_server(lambda number, request: completion_body()) for _ in range(2))
    cache = {"cache": str(tmp_path / "c.jsonl"), "seed_requests": False}
    make_agent(server, **cache).act(first_turns(1))
    make_agent(server, **cache).act(first_turns(1))
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
        make_agent(server, **{**cache, **change}).act(first_turns(1))
        assert len(server.requests) == number
    make_agent(server, **cache, timeout=9.0, concurrency=1, retries=1).act(first_turns(1))
    assert len(server.requests) == len(changes) + 1
    state = first_turns(1)[0].state
    # an equal request of another turn
    make_agent(server, **cache).act([PendingTurn(state=state, seat=0, stream=Stream.from_seed(9))])
    assert len(server.requests) == len(changes) + 2
    make_agent(second_server, **cache).act(first_turns(1))
    assert len(second_server.requests) == 1


@pytest.mark.parametrize("truncated_line", [b"", b'{"request": "0', b"\xff\xfe"])
def test_a_truncated_cache_line_is_skipped(start_server, tmp_path, truncated_line):
    server, path = start_server(lambda number, request: completion_body()), tmp_path / "c.jsonl"
    make_agent(server, cache=str(path), concurrency=1).act(first_turns(3))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + truncated_line)
    make_agent(server, cache=str(path)).act(first_turns(3))
    assert len(server.requests) == 4
    make_agent(server, cache=str(path)).act(first_turns(3))
    assert len(server.requests) == 4
    assert path.read_bytes().splitlines(keepends=True)[-1] == lines[2]


def test_the_cache_stores_every_field_of_a_reply(start_server, tmp_path):
    server = start_server(
        lambda number, request: completion_body("Zug:\n\u2028 b\xe9t \U0001f0a1", finish_reason="length")
    )
    replies = [make_agent(server, cache=str(tmp_path / "c.jsonl")).act(first_turns(1))[0] for _ in range(2)]
    assert replies[0] == replies[1] and replies[0].truncated and replies[0].text.endswith("\U0001f0a1")
    assert len(server.requests) == 1


def test_a_file_that_is_no_cache_is_refused_and_not_changed(start_server, tmp_path):
    server, path = start_server(lambda number, request: completion_body()), tmp_path / "recipe.jsonl"
    path.write_text("games:\n  - name: kuhn_poker\n")
    with pytest.raises(ConfigError, match="is not a file of answers"):
        make_agent(server, cache=str(path))
    assert path.read_text() == "games:\n  - name: kuhn_poker\n"
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        make_agent(server, cache=str(tmp_path / "folder.jsonl"))
    with pytest.raises((RunError, PluginError)):
        make_agent(server, cache=str(path / "below" / "c.jsonl"))


def test_the_key_is_read_from_the_environment_and_only_sent(start_server, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_API_KEY", f" {API_KEY}\n")
    statuses = iter([200, 500, 400, 401, 403, 200])
    bodies = {200: lambda: completion_body(), 401: lambda: f"wrong key {API_KEY[:8]}***"}
    server = start_server(
        lambda number, request: (lambda s: (s, bodies.get(s, lambda: f"echo {API_KEY}")(), {}))(next(statuses))
    )
    agent = make_agent(server, key_variable="MY_API_KEY", cache=str(tmp_path / "c.jsonl"))
    agent.act(first_turns(1))
    for status in (500, 400, 401, 403):
        with pytest.raises(RolloutError, match=f"status {status}") as error:
            agent.act(first_turns(1, seed=2))
        trace = "".join(traceback.format_exception(error.value)) + repr(error.value.__context__)
        assert API_KEY not in trace and API_KEY[:8] not in trace
        assert ("environment variable MY_API_KEY" in str(error.value)) == (status in (401, 403))
    assert set(server.keys) == {f"Bearer {API_KEY}"}
    assert (
        API_KEY not in (tmp_path / "c.jsonl").read_text() and API_KEY not in caplog.text and API_KEY not in repr(agent)
    )


def test_local_servers_need_no_key_and_others_do(start_server, monkeypatch):
    server = start_server(lambda number, request: completion_body())
    make_agent(server).act(first_turns(1))
    for url in ("http://localhost:1/v1", "http://[::1]:1/v1", "http://127.1.2.3:1"):
        make_agent(url)
    monkeypatch.setenv(HOSTS, "192.168.0.1")
    for url in ("https://api.openai.com/v1", "http://192.168.0.1:8000/v1"):
        with pytest.raises(ConfigError, match="environment variable OPENAI_API_KEY is not set"):
            make_agent(url)


def test_a_key_in_the_wrong_option_is_not_printed(monkeypatch):
    for options in (
        {"key_variable": API_KEY},
        {"key_variable": "gsk_secret"},
        {"base_url": "https://user:secret@host/v1"},
        {"base_url": "https://host/v1?key=secret"},
    ):
        with pytest.raises(ConfigError, match=r"never the key|no user, password or query") as error:
            make_agent(**{"server": "http://127.0.0.1:1", **options})
        assert "secret" not in str(error.value).lower()
    monkeypatch.setenv("BAD_API_KEY", "one secret\nand another")
    with pytest.raises(ConfigError, match="BAD_API_KEY holds characters that are not part of a key") as error:
        make_agent("http://127.0.0.1:1", key_variable="BAD_API_KEY")
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
        make_agent("http://127.0.0.1:1")


def test_without_turns_no_request_is_sent(start_server):
    server = start_server(lambda number, request: completion_body())
    assert make_agent(server).act([]) == [] and server.requests == []


def test_the_request_after_an_illegal_reply_states_the_error(start_server):
    server = start_server(
        lambda number, request: (
            reply_with_last_legal(request) if number % 2 else completion_body("I think I shall castle.")
        )
    )
    game = make_game("kuhn_poker", options={"style": "full"}, illegal={"rule": "retry", "retries": 2})
    episodes = play(
        [dataclasses.replace(spec, game=game) for spec in specs_against_random(2)],
        {"endpoint": make_agent(server, concurrency=1), "random": random()},
        in_flight=1,
    )
    prompts = [request["messages"][-1]["content"] for request in server.requests]
    for first_prompt, retry_prompt in zip(prompts[::2], prompts[1::2], strict=True):
        assert retry_prompt.startswith(first_prompt)
        assert "action" in retry_prompt[len(first_prompt) :]
    assert any(turn.event == "unparsable" for episode in episodes for turn in episode.turns)
