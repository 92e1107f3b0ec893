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

    def submit(self, batches):
        self.calls.append([(batch.sampler.name, len(batch.requests)) for batch in batches])
        results = [
            SampleResult((ord(batch.sampler.name), *request.ids), (-1.0,), False)
            for batch in batches
            for request in batch.requests
        ]
        for index in range(len(results))[::-1]:
            yield []
            yield [(index, results[index])]


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


class IdRenderer:
    stop_ids = (0,)

    def parse(self, ids):
        return ",".join(map(str, ids))


def make_agent(name, backend=None, agent_class=PolicyAgent):
    return agent_class(
        name=name, sampler=NamedSampler(name, backend), renderer=IdRenderer(), params=SamplingParams(max_new_tokens=4)
    )


def turns_of_lengths(*lengths):
    return [PendingTurn(state=None, seat=0, stream=Stream.from_seed(0), ids=tuple(range(length))) for length in lengths]


class AgentWithOwnAct(PolicyAgent):
    def act(self, turns_of_lengths):
        return [Reply("") for _ in turns_of_lengths]


def test_agents_with_one_backend_are_joined_in_order():
    first_server, second_server = Server(), Server()
    agents = {
        "a": make_agent("a", first_server), "b": make_agent("b"), "c": make_agent("c", second_server), "d": make_agent("d", first_server), "e": make_agent("e", first_server, AgentWithOwnAct), "f": make_agent("f", first_server),
    }  # fmt: skip
    joint_groups = list(joint_agents(dict.fromkeys(agents, 1), agents))
    assert [names for names, _ in joint_groups] == [("a", "d", "f"), ("b",), ("c",), ("e",)]
    assert isinstance(joint_groups[0][1], JointAgent)
    assert [joint_agent for _, joint_agent in joint_groups[1:]] == [agents[name] for name in "bce"], (
        "an agent that is not joined stays itself"
    )


def test_each_turn_gets_the_reply_of_its_agent():
    server = Server()
    agents = {name: make_agent(name, server) for name in "abc"}
    turns_by_agent = {"b": turns_of_lengths(2, 7, 3), "a": turns_of_lengths(9), "c": turns_of_lengths(1, 4)}
    ((_, joint_agent),) = joint_agents({name: len(pending) for name, pending in turns_by_agent.items()}, agents)
    all_turns = [turn for pending in turns_by_agent.values() for turn in pending]
    replies = joint_agent.act(all_turns)
    assert server.calls == [[("b", 2), ("a", 0), ("c", 2)]], (
        "prompts of 7 and 9 ids leave no room for a reply of 4 tokens"
    )
    assert [reply.ids for reply in replies] == [(98, 0, 1), (), (98, 0, 1, 2), (), (99, 0), (99, 0, 1, 2, 3)]
    assert [reply.truncated for reply in replies] == [False, True, False, True, False, False]
    assert {reply.weights_version for reply in replies} == {3}
    assert replies == [reply for name, pending in turns_by_agent.items() for reply in agents[name].act(pending)], (
        "replies are equal to those of the single agents"
    )


def test_one_agent_with_two_names_is_called_once():
    server = Server()
    player = make_agent("a", server)
    ((names, joint_agent),) = joint_agents({"x": 1, "y": 2}, {"x": player, "y": player})
    assert names == ("x", "y")
    assert [reply.ids for reply in joint_agent.act(turns_of_lengths(1, 2, 3))] == [(97, 0), (97, 0, 1), (97, 0, 1, 2)]
    assert server.calls == [[("a", 1), ("a", 2)]]


def test_a_backend_that_leaves_a_request_out_is_an_error(monkeypatch):
    monkeypatch.setattr(Server, "submit", lambda self, batches: iter([[]]))
    server = Server()
    agents = {name: make_agent(name, server) for name in "ab"}
    ((_, joint_agent),) = joint_agents({"a": 1, "b": 1}, agents)
    with pytest.raises(Exception, match="The backend Server returned no reply to request 0 of 2") as error:
        joint_agent.act(turns_of_lengths(1, 1))
    assert not isinstance(error.value, PluginError)


ROOT = Stream.from_seed(11)
NUM_DRAWS = 3000
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


def plays_with_combinators(name):
    """Yield a play of the environment, and plays inside combinators at the start of the second inner play and a turn later."""
    yield make_game(name).reset(ROOT)
    for combinator, options in (("trial", {"reflect": False}), ("repeated", {})):
        play = make_game(combinator, options={"environment": {"name": name}, **options}).reset(ROOT)
        first_play, turn_number = play.play, 0
        while play.play is first_play:
            play.step({seat: play.sample(seat, ROOT.child(turn_number)) for seat in play.due()})
            turn_number += 1
        yield play
        play_one_turn_later = play.clone()
        play_one_turn_later.step({seat: play.sample(seat, ROOT.child(turn_number)) for seat in play.due()})
        yield play_one_turn_later


@pytest.mark.parametrize(("name", "options", "game"), CASES, ids=str)
def test_an_agent_acts_by_its_stated_probabilities_also_in_combinators(name, options, game):
    agent = registry.bind("players", name, options)()
    assert isinstance(agent, HasChances)
    for play in plays_with_combinators(game):
        for seat in play.due():
            chances = chances_of(name, agent, play, seat)
            assert list(chances) == list(play.legal(seat)) and sum(chances.values()) == pytest.approx(1)
            turns = [PendingTurn(play, seat, ROOT.child(number), past=tuple) for number in range(NUM_DRAWS)]
            counts = Counter(reply.text for reply in agent.act(turns))
            for action, probability in chances.items():
                assert (
                    abs(counts[action] / NUM_DRAWS - probability)
                    < 5 * (probability * (1 - probability) / NUM_DRAWS) ** 0.5 + 1e-12
                ), (
                    play,
                    action,
                )


def test_the_probabilities_of_a_table_agent_are_its_rows():
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    table = random_table(states, ROOT)
    for query, row in zip(states.queries, table.rows, strict=True):
        if not query.actions and len(query.key) == 1:
            state = game.state_of(game.first_node())
            state.apply_index(int(query.key))
            state.apply_index((int(query.key) + 1) % 3)
            assert list(chances_of("table", TableAgent(table), state, 0).values()) == pytest.approx(row.tolist())


def test_an_agent_without_probabilities_is_refused_by_name():
    state = make_game("tic_tac_toe").reset(ROOT)
    with pytest.raises(GameError, match="'deep' cannot be measured exactly, as it has no method chances"):
        chances_of("deep", registry.bind("players", "mcts")(), state, 0)
    play_with_note = make_game("trial", options={"environment": {"name": "rock_paper_scissors"}}).reset(ROOT)
    play_with_note.step({0: "rock", 1: "rock"})
    for name, options in (("random", {}), ("biased", {}), ("scripted", {})):
        with pytest.raises(GameError, match="any text"):
            chances_of(name, registry.bind("players", name, options)(), play_with_note, 0)


@pytest.mark.parametrize(
    "chances", [{"a1": 0.5}, {"a1": 0.7, "b2": 0.7}, {"a1": -1.0, "b2": 2.0}, {"z9": 1.0}, {}, {"a1": float("nan")}]
)
def test_invalid_probabilities_are_refused(chances):
    agent = SimpleNamespace(chances=lambda state, seat: chances)
    with pytest.raises(GameError, match="'odd': chances returned"):
        chances_of("odd", agent, make_game("tic_tac_toe").reset(ROOT), 0)


@pytest.mark.parametrize("chances", [lambda state, seat: 1 / 0, lambda state, seat: {"pass": "half", "bet": "half"}])
def test_an_agent_with_an_error_is_named(chances):
    with pytest.raises(PluginError, match=r"player 'broken' .* failed"):
        chances_of("broken", SimpleNamespace(chances=chances), make_game("kuhn_poker").reset(ROOT), 0)


def test_solvers_play_inside_a_trial():
    for name, options in (("minimax", {}), ("mcts", {"simulations": 5})):
        play = make_game("trial", options={"environment": {"name": "tic_tac_toe"}}).reset(ROOT)
        assert registry.bind("players", name, options)().choose(play, 0, ROOT) in play.legal(0)
