"""The contract of player plug-ins: one legal reply per pending turn, which depends only on state, seat and stream."""

import inspect
from types import ModuleType

from sparring.config.plugins import registry
from sparring.config.plugins.plugin import ModuleDeclarations, Plugin, declarations_of
from sparring.core.records import bot
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import AgentSpec
from sparring.measure.info_states import ActionScorer
from sparring.play.players.base import (
    HasContext,
    HasInFlight,
    HasJointCall,
    HasNotes,
    HasPatience,
    HasSampler,
    HasSubmit,
    PendingTurn,
    Reply,
    replies,
)
from sparring.play.players.endpoint import EndpointAgent
from sparring.play.players.mixture import MemberMixture
from sparring.play.team import Team, play_teams
from tests.cases import every_case
from tests.play.plays import make_specs, tiny_learner

OPTIONS = {"human": {"ask": lambda text: text.rsplit("Legal actions: ", 1)[1].split()[0].strip(",.\n")}}
NEEDS_MORE = [
    name
    for name in registry.names("players")
    if any(option.default is inspect.Parameter.empty for option in registry.load("players", name).options.values())
]
# players of other games; each has a test file in tests/players
NOT_TIC_TAC_TOE = {
    "cfr",
    "fictitious",
    "house",
    "kuhn_bot",
    "scheduler",
    "searcher",
    "werewolf_bot",
}
NAMES = [name for name in registry.names("players") if name not in {*NEEDS_MORE, *NOT_TIC_TAC_TOE}]


def turns(number=12):
    game, pending = make_game("tic_tac_toe"), []
    for episode in range(number):
        state = game.reset(Stream.from_seed(episode))
        for ply in range(3 + episode % 3):
            state.apply(state.legal_actions()[(episode + ply) % len(state.legal_actions())])
        if not state.done:
            pending.append(PendingTurn(state=state, seat=state.seat, stream=Stream.from_seed(99).child(episode)))
    return pending


def player_of(name):
    return registry.bind("players", name, OPTIONS.get(name, {}))()


def test_only_these_players_need_options():
    assert set(NEEDS_MORE) <= {"policy", "demonstrator", "endpoint", "mixture", "exported", "prompted"}


@every_case("name", NAMES)
def test_one_legal_reply_per_turn_in_order(name):
    agent, pending = player_of(name), turns()
    replies = agent.act(pending)
    assert len(replies) == len(pending)
    for turn, reply in zip(pending, replies, strict=True):
        assert isinstance(reply, Reply)
        assert turn.state.parse(reply.text) in turn.state.legal_actions()
    assert agent.act([]) == []
    assert agent.name


@every_case("name", NAMES)
def test_replies_depend_only_on_the_turn(name):
    pending = turns()
    joint_replies = [reply.text for reply in player_of(name).act(pending)]
    agent = player_of(name)
    single_replies = [agent.act([turn])[0].text for turn in reversed(pending)][::-1]
    assert joint_replies == single_replies


@every_case("name", NAMES)
def test_acting_does_not_change_the_state(name):
    pending = turns(3)
    history_before = [(turn.state.spiel.history(), list(turn.state.trail)) for turn in pending]
    player_of(name).act(pending)
    assert [(turn.state.spiel.history(), list(turn.state.trail)) for turn in pending] == history_before


ABILITIES = (HasSubmit, HasJointCall, HasPatience, HasContext, HasSampler, HasInFlight, HasNotes, ActionScorer)


class MinimalPlayer:
    """A player with only the required methods."""

    __slots__ = ()
    name = "minimal"
    renderer = None

    def act(self, turns):
        return [Reply(text=turn.state.legal_actions()[0]) for turn in turns]


def test_a_minimal_player_has_no_ability_and_plays():
    agent = MinimalPlayer()
    assert not [ability for ability in ABILITIES if isinstance(agent, ability)]
    assert [reply.text for reply in replies("minimal", agent, turns(2))] == [
        turn.state.legal_actions()[0] for turn in turns(2)
    ]
    (episode,) = play_teams(make_specs(make_game("tic_tac_toe"), 1, name="minimal"), {"minimal": agent})
    assert all(turn.action == turn.legal_actions[0] for turn in episode.turns)


def test_players_satisfy_the_protocols_of_their_abilities():
    game = make_game("tic_tac_toe", options={"style": "brief"})
    policy, _ = tiny_learner(game)
    mixture = MemberMixture({bot("random"): 1.0}, lambda who: player_of(who.name), ["unmet"])
    abilities = {
        player_of("random"): (),
        player_of("human"): (HasPatience,),
        player_of("best_of_n"): (HasContext,),
        Team("pair", lambda game, seat: policy): (HasInFlight, ActionScorer),
        mixture: (HasNotes, ActionScorer),
        policy: (HasSubmit, HasJointCall, HasContext, HasSampler, HasInFlight, ActionScorer),
    }
    for agent, expected in abilities.items():
        assert tuple(ability for ability in ABILITIES if isinstance(agent, ability)) == expected, agent.name
    assert issubclass(EndpointAgent, HasSubmit)


def test_a_player_s_module_declares_its_style_words_and_identity(monkeypatch):
    def style_of(word):
        return word

    module = ModuleType("sample")
    assert declarations_of(module) == ModuleDeclarations()
    plugin = Plugin(slot="players", name="sample", function=MinimalPlayer, module=module)
    monkeypatch.setattr(registry, "load", lambda slot, name: plugin)
    spec = AgentSpec("sample", {"word": "brief"})
    assert (spec.style, spec.words, spec.identity) == ("full", None, None)
    module.style_of, module.words_of, module.identity_of = (
        style_of,
        lambda word: frozenset({word}),
        lambda word: [word],
    )
    assert (spec.style, spec.words, spec.identity) == ("brief", {"brief"}, ["brief"])
    module.words_of = None
    assert spec.words is None
