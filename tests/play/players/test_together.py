from collections import Counter
from types import SimpleNamespace

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import GameError, PluginError
from sparring.core.records import SampleResult, SamplingParams
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.info_states import enumerate_info_states
from sparring.measure.lab_episodes import TableAgent, random_table
from sparring.models.samplers.base import SampleBatch
from sparring.play.players.base import JointAgent, PendingTurn, Reply, joint_agents
from sparring.play.players.chances import HasChances, chances_of
from sparring.play.players.policy import PolicyAgent


class Server:
    def __init__(self):
        self.calls = []

    def submit(self, lots):
        self.calls.append([(lot.sampler.name, len(lot.requests)) for lot in lots])
        results = [
            SampleResult((ord(lot.sampler.name), *request.ids), (-1.0,), False)
            for lot in lots
            for request in lot.requests
        ]
        for place in range(len(results))[::-1]:
            yield []
            yield [(place, results[place])]


class NamedSampler:
    context, version, invariant, score = 10, 3, True, None

    def __init__(self, name, backend=None):
        self.name = name
        if backend is not None:
            self.backend = backend

    def submit(self, requests, params, stop_ids):
        return Server().submit([SampleBatch(self, requests, params, stop_ids)])

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
        name=name, sampler=NamedSampler(name, backend), renderer=Plain(), params=SamplingParams(max_new_tokens=4)
    )


def turns(*lengths):
    return [PendingTurn(state=None, seat=0, stream=Stream.from_seed(0), ids=tuple(range(length))) for length in lengths]


class Quiet(PolicyAgent):
    def act(self, turns):
        return [Reply("") for _ in turns]


def test_those_with_one_backend_are_one_party_in_the_order_of_the_first():
    first, other = Server(), Server()
    agents = {
        "a": agent("a", first), "b": agent("b"), "c": agent("c", other), "d": agent("d", first), "e": agent("e", first, Quiet), "f": agent("f", first),
    }  # fmt: skip
    parties = list(joint_agents(dict.fromkeys(agents, 1), agents))
    assert [names for names, _ in parties] == [("a", "d", "f"), ("b",), ("c",), ("e",)]
    assert isinstance(parties[0][1], JointAgent)
    assert [party for _, party in parties[1:]] == [agents[name] for name in "bce"], "alone they are asked as ever"


def test_each_turn_gets_the_reply_of_its_own_agent():
    server = Server()
    agents = {name: agent(name, server) for name in "abc"}
    due = {"b": turns(2, 7, 3), "a": turns(9), "c": turns(1, 4)}
    ((_, party),) = joint_agents({name: len(pending) for name, pending in due.items()}, agents)
    flat = [turn for pending in due.values() for turn in pending]
    replies = party.act(flat)
    assert server.calls == [[("b", 2), ("a", 0), ("c", 2)]], "7 and 9 ids have no room for a whole reply"
    assert [reply.ids for reply in replies] == [(98, 0, 1), (), (98, 0, 1, 2), (), (99, 0), (99, 0, 1, 2, 3)]
    assert [reply.truncated for reply in replies] == [False, True, False, True, False, False]
    assert {reply.weights_version for reply in replies} == {3}
    assert replies == [reply for name, pending in due.items() for reply in agents[name].act(pending)], "as each alone"


def test_one_agent_under_two_names_is_asked_once():
    server = Server()
    player = agent("a", server)
    ((names, party),) = joint_agents({"x": 1, "y": 2}, {"x": player, "y": player})
    assert names == ("x", "y")
    assert [reply.ids for reply in party.act(turns(1, 2, 3))] == [(97, 0), (97, 0, 1), (97, 0, 1, 2)]
    assert server.calls == [[("a", 1), ("a", 2)]]


def test_a_backend_that_leaves_a_request_out_is_named(monkeypatch):
    monkeypatch.setattr(Server, "submit", lambda self, lots: iter([[]]))
    server = Server()
    agents = {name: agent(name, server) for name in "ab"}
    ((_, party),) = joint_agents({"a": 1, "b": 1}, agents)
    with pytest.raises(Exception, match="The backend Server gave no reply for request 0 of 2") as caught:
        party.act(turns(1, 1))
    assert not isinstance(caught.value, PluginError)


ROOT = Stream.from_seed(11)
DRAWS = 3000
CASES = [
    ("random", {}, "kuhn_poker"),
    ("random", {}, "rock_paper_scissors"),
    ("scripted", {"preference": ["bet"]}, "kuhn_poker"),
    ("scripted", {"preference": ["c3", "b2"]}, "tic_tac_toe"),
    ("cfr", {"iterations": 20}, "kuhn_poker"),
    ("minimax", {"random_moves": 0.3}, "tic_tac_toe"),
    ("kuhn_bot", {"style": "loose"}, "kuhn_poker"),
    ("biased", {"weights": {"rock": 4}}, "rock_paper_scissors"),
]


def courses(name):
    """The environment itself, and the same inside combinators: at the start of the second play, and a turn later."""
    yield make_game(name).reset(ROOT)
    for combinator, options in (("trial", {"reflect": False}), ("repeated", {})):
        course = make_game(combinator, options={"environment": {"name": name}, **options}).reset(ROOT)
        first, count = course.play, 0
        while course.play is first:
            course.step({seat: course.sample(seat, ROOT.child(count)) for seat in course.due()})
            count += 1
        yield course
        later = course.clone()
        later.step({seat: course.sample(seat, ROOT.child(count)) for seat in course.due()})
        yield later


@pytest.mark.parametrize(("name", "options", "game"), CASES, ids=str)
def test_an_agent_draws_as_it_says_in_combinators_too(name, options, game):
    agent = registry.bind("players", name, options)()
    assert isinstance(agent, HasChances)
    for course in courses(game):
        for seat in course.due():
            chances = chances_of(name, agent, course, seat)
            assert list(chances) == list(course.legal(seat)) and sum(chances.values()) == pytest.approx(1)
            turns = [PendingTurn(course, seat, ROOT.child(number), past=tuple) for number in range(DRAWS)]
            counts = Counter(reply.text for reply in agent.act(turns))
            for action, share in chances.items():
                assert abs(counts[action] / DRAWS - share) < 5 * (share * (1 - share) / DRAWS) ** 0.5 + 1e-12, (
                    course,
                    action,
                )


def test_a_table_says_its_rows():
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    table = random_table(states, ROOT)
    for query, row in zip(states.queries, table.rows, strict=True):
        if not query.actions and len(query.key) == 1:
            state = game.state_of(game.first_node())
            state.apply_index(int(query.key))
            state.apply_index((int(query.key) + 1) % 3)
            assert list(chances_of("table", TableAgent(table), state, 0).values()) == pytest.approx(row.tolist())


def test_who_cannot_be_described_is_named():
    state = make_game("tic_tac_toe").reset(ROOT)
    with pytest.raises(GameError, match="'deep' cannot be measured exactly, as it has no method chances"):
        chances_of("deep", registry.bind("players", "mcts")(), state, 0)
    reflecting = make_game("trial", options={"environment": {"name": "rock_paper_scissors"}}).reset(ROOT)
    reflecting.step({0: "rock", 1: "rock"})
    for name, options in (("random", {}), ("biased", {}), ("scripted", {})):
        with pytest.raises(GameError, match="any text"):
            chances_of(name, registry.bind("players", name, options)(), reflecting, 0)


@pytest.mark.parametrize(
    "chances", [{"a1": 0.5}, {"a1": 0.7, "b2": 0.7}, {"a1": -1.0, "b2": 2.0}, {"z9": 1.0}, {}, {"a1": float("nan")}]
)
def test_chances_that_are_no_probabilities_of_legal_actions_are_refused(chances):
    odd = SimpleNamespace(chances=lambda state, seat: chances)
    with pytest.raises(GameError, match="'odd': chances gave"):
        chances_of("odd", odd, make_game("tic_tac_toe").reset(ROOT), 0)


@pytest.mark.parametrize("chances", [lambda state, seat: 1 / 0, lambda state, seat: {"pass": "half", "bet": "half"}])
def test_an_agent_whose_code_fails_is_named(chances):
    with pytest.raises(PluginError, match=r"player 'broken' .* failed"):
        chances_of("broken", SimpleNamespace(chances=chances), make_game("kuhn_poker").reset(ROOT), 0)


def test_solvers_play_inside_a_trial():
    for name, options in (("minimax", {}), ("mcts", {"simulations": 5})):
        course = make_game("trial", options={"environment": {"name": "tic_tac_toe"}}).reset(ROOT)
        assert registry.bind("players", name, options)().choose(course, 0, ROOT) in course.legal(0)
