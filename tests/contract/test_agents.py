"""What every agent plug-in must keep: one legal reply per pending turn, a function of (state, seat, stream) alone."""

import inspect

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.base import PendingTurn, Reply
from tests.cases import every_case

OPTIONS = {"human": {"ask": lambda text: text.rsplit("Legal actions: ", 1)[1].split()[0].strip(",.\n")}}
NEEDS_MORE = [
    name
    for name in registry.names("players")
    if any(option.default is inspect.Parameter.empty for option in registry.load("players", name).options.values())
]
NOT_TIC_TAC_TOE = {"cfr", "fictitious", "house", "kuhn_bot", "scheduler", "searcher", "werewolf_bot"}  # see tests/players, a file of each
NAMES = [name for name in registry.names("players") if name not in {*NEEDS_MORE, *NOT_TIC_TAC_TOE}]


def turns(number=12):
    """Return pending turns of different tic-tac-toe games at different plies."""
    game, out = make_game("tic_tac_toe"), []
    for episode in range(number):
        state = game.reset(Stream.from_seed(episode))
        for ply in range(3 + episode % 3):
            state.apply(state.legal_actions()[(episode + ply) % len(state.legal_actions())])
        if not state.done:
            out.append(PendingTurn(state=state, seat=state.seat, stream=Stream.from_seed(99).child(episode)))
    return out


def made(name):
    return registry.bind("players", name, OPTIONS.get(name, {}))()


def test_agents_that_need_options_are_known():
    assert set(NEEDS_MORE) <= {"policy", "demonstrator", "endpoint", "mixture", "exported", "prompted"}


@every_case("name", NAMES)
def test_one_legal_reply_per_turn_in_order(name):
    agent, pending = made(name), turns()
    replies = agent.act(pending)
    assert len(replies) == len(pending)
    for turn, reply in zip(pending, replies, strict=True):
        assert isinstance(reply, Reply)
        assert turn.state.parse(reply.text) in turn.state.legal_actions()
    assert agent.act([]) == []
    assert agent.name


@every_case("name", NAMES)
def test_replies_depend_on_the_turn_alone(name):
    pending = turns()
    together = [reply.text for reply in made(name).act(pending)]
    agent = made(name)
    alone = [agent.act([turn])[0].text for turn in reversed(pending)][::-1]
    assert together == alone


@every_case("name", NAMES)
def test_acting_leaves_the_state_alone(name):
    pending = turns(3)
    before = [(turn.state.spiel.history(), list(turn.state.trail)) for turn in pending]
    made(name).act(pending)
    assert [(turn.state.spiel.history(), list(turn.state.trail)) for turn in pending] == before
