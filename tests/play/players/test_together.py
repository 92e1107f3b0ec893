"""Agents that are asked in one call: who is, in which order, and that nothing else changes."""

import pytest

from sparring.core.errors import PluginError
from sparring.core.records import SampleResult, SamplingParams
from sparring.core.rng import Stream
from sparring.models.samplers.base import Lot
from sparring.play.players.base import Party, PendingTurn, Reply, parties
from sparring.play.players.policy import PolicyAgent


class Server:
    """Replies with the sampler's name and the request's ids, the last first."""

    def __init__(self):
        self.calls = []

    def submit(self, lots):
        self.calls.append([(lot.sampler.name, len(lot.requests)) for lot in lots])
        said = [
            SampleResult((ord(lot.sampler.name), *request.ids), (-1.0,), False)
            for lot in lots
            for request in lot.requests
        ]
        for place in range(len(said))[::-1]:
            yield []
            yield [(place, said[place])]


class Named:
    context, version, invariant, score = 10, 3, True, None

    def __init__(self, name, backend=None):
        self.name = name
        if backend is not None:
            self.backend = backend

    def submit(self, requests, params, stop_ids):
        return Server().submit([Lot(self, requests, params, stop_ids)])

    def publish(self, weights, version):
        return version

    def refresh(self):
        pass


class Plain:
    stop_ids = (0,)

    def parse(self, ids):
        return ",".join(map(str, ids))


def agent(name, backend=None, kind=PolicyAgent):
    return kind(
        name=name,
        sampler=Named(name, backend),
        renderer=Plain(),
        params=SamplingParams(max_new_tokens=4),
    )


def turns(*lengths):
    return [
        PendingTurn(state=None, seat=0, stream=Stream.from_seed(0), ids=tuple(range(length)))
        for length in lengths
    ]


class Quiet(PolicyAgent):
    """Says nothing, whatever its sampler would."""

    def act(self, turns):
        return [Reply("") for _ in turns]


def test_those_with_one_backend_are_one_party_in_the_order_of_the_first():
    one, other = Server(), Server()
    agents = {
        "a": agent("a", one), "b": agent("b"), "c": agent("c", other), "d": agent("d", one), "e": agent("e", one, Quiet), "f": agent("f", one),
    }  # fmt: skip
    found = list(parties(dict.fromkeys(agents, 1), agents))
    assert [names for names, _ in found] == [("a", "d", "f"), ("b",), ("c",), ("e",)]
    assert isinstance(found[0][1], Party)
    assert [asked for _, asked in found[1:]] == [agents[name] for name in "bce"], (
        "alone they are asked as ever"
    )


def test_each_turn_gets_the_reply_of_its_own_agent():
    server = Server()
    agents = {name: agent(name, server) for name in "abc"}
    due = {"b": turns(2, 7, 3), "a": turns(9), "c": turns(1, 4)}
    ((_, party),) = parties({name: len(own) for name, own in due.items()}, agents)
    flat = [turn for own in due.values() for turn in own]
    said = party.act(flat)
    assert server.calls == [[("b", 2), ("a", 0), ("c", 2)]], (
        "7 and 9 ids have no room for a whole reply"
    )
    assert [reply.ids for reply in said] == [
        (98, 0, 1),
        (),
        (98, 0, 1, 2),
        (),
        (99, 0),
        (99, 0, 1, 2, 3),
    ]
    assert [reply.truncated for reply in said] == [False, True, False, True, False, False]
    assert {reply.weights_version for reply in said} == {3}
    assert said == [reply for name, own in due.items() for reply in agents[name].act(own)], (
        "as each alone"
    )


def test_one_agent_under_two_names_is_asked_once():
    server = Server()
    one = agent("a", server)
    ((names, party),) = parties({"x": 1, "y": 2}, {"x": one, "y": one})
    assert names == ("x", "y")
    assert [reply.ids for reply in party.act(turns(1, 2, 3))] == [
        (97, 0),
        (97, 0, 1),
        (97, 0, 1, 2),
    ]
    assert server.calls == [[("a", 1), ("a", 2)]]


def test_a_backend_that_leaves_a_request_out_is_named(monkeypatch):
    monkeypatch.setattr(Server, "submit", lambda self, lots: iter([[]]))
    server = Server()
    agents = {name: agent(name, server) for name in "ab"}
    ((_, party),) = parties({"a": 1, "b": 1}, agents)
    with pytest.raises(
        Exception, match="The backend Server gave no reply for request 0 of 2"
    ) as caught:
        party.act(turns(1, 1))
    assert not isinstance(caught.value, PluginError)
