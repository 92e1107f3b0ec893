"""The environment tools: tool calls before each move of another environment."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import GameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments import tools as tools_module
from sparring.environments.base import read_reply, teams_of
from sparring.environments.catalogue import make_game
from sparring.environments.foreign import complete_environment
from sparring.environments.tools import UNPARSED, ToolEnvironment
from sparring.play.players.base import Reply
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.testing import check_environment
from tests.environments.worlds import play_replies

TIC_TAC_TOE = {"name": "tic_tac_toe"}
TIC_TAC_TOE_FULL_STYLE = {"name": "tic_tac_toe", "options": {"style": "full"}}


def new_game_and_episode(**options):
    game = make_game("tools", options=options)
    return game, game.reset(Stream.from_seed(0))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"calls": 1, "cost": 0.5},
        {"environment": TIC_TAC_TOE_FULL_STYLE},
        {"environment": {"name": "kuhn_poker"}, "style": "full"},
    ],
)
def test_environment_contract(options):
    check_environment(registry.bind("environments", "tools", options), plays=5)


def test_a_call_keeps_the_turn_and_stays_private():
    game, episode = new_game_and_episode()
    first_observation = episode.observe(0)
    episode.step({0: "add 3 4"})
    assert (
        episode.due() == (0,) and episode.observe(0).prompt == "7" and episode.observe(0).key != first_observation.key
    )
    episode.step({0: "b2"})
    assert episode.due() == (1,) and "b2" in episode.observe(1).text and "7" not in episode.observe(1).key
    assert game.max_turns == 9 * 4


def test_a_seat_without_calls_must_move():
    _, episode = new_game_and_episode(calls=1)
    episode.step({0: "add 1 1"})
    assert episode.observe(0).prompt == "2 spent"
    assert episode.read(0, "add 1 1", True) is None and episode.read(0, "zzz", True) is None
    with pytest.raises(GameError, match="no move of seat 0"):
        episode.step({0: "add 1 1"})
    episode.step({0: "a1"})
    with pytest.raises(GameError, match="seat 0 is not due"):
        episode.step({0: "a2"})
    assert episode.calls_left(1) == 1


def test_a_call_costs_only_its_own_copy_of_an_episode():
    _, episode = new_game_and_episode(cost=0.25)
    copy = episode.clone()
    episode.step({0: "add 1 1"})
    assert (copy.calls_left(0), episode.calls_left(0)) == (3, 2)
    assert (copy.returns, episode.returns) == ((0.0, 0.0), (-0.25, 0.0))


def test_a_rollout_records_calls_as_turns():
    game = make_game("tools", options={"calls": 2}, illegal={"penalty": 0.5})
    root = Stream.from_seed(0)
    spec = EpisodeSpec(
        game=game, episode_id=0, group_id=0, deal=root, stream=root.child(1), seats=("a", "b"), trained=(True, True)
    )
    (episode,) = play(
        [spec],
        {"a": ScriptedPlayer("add 2 2", "??", "b2"), "b": ScriptedPlayer("add 1 1", "add 1 1", "add 1 1")},
        retries=0,
    )
    assert [(turn.seat, turn.action, turn.event) for turn in episode.turns] == [
        (0, "add 2 2", "ok"),
        (0, UNPARSED, "ok"),
        (0, "b2", "ok"),
        (1, "add 1 1", "ok"),
        (1, "add 1 1", "ok"),
        (1, None, "unparsable"),
    ]
    assert episode.returns == (1.0, -1.0) and [turn.prompt for turn in episode.turns[:3]][1:] == ["4", "none spent"]


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        ("add 3 4", "7"),
        ("subtract 9 4", "5"),
        ("subtract 4 9", "none"),
        ("multiply 9 11", "99"),
        ("multiply 10 10", "none"),
        ("divide 8 2", "4"),
        ("divide 8 3", "none"),
        ("divide 8 0", "none"),
        ("add 3", "none"),
        ("add 1 2 3", "none"),
        ("add", "none"),
        ("add\t3  4", "7"),
        ("add (1 2)", "none"),
        ("search ada", "none"),
        ("hello", "none"),
        ("", "none"),
    ],
)
def test_results_of_brief_calls(reply, result):
    _, episode = new_game_and_episode()
    episode.step({0: episode.read(0, reply, True)})
    assert episode.observe(0).prompt == result and episode.calls_left(0) == 2


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        ("Hm. <calculate>2*(3+4)</calculate> and then b2", "The result is 14."),
        ("<calculate>1/0</calculate>", "The calculator cannot divide by zero."),
        ("<calculate>1+1</calculate><calculate>2+2</calculate>", "The result is 2."),
        ("<calculate>1+1", "The calculator cannot read this; write an expression such as 2*(3+4)."),
        ("<search>ada</search>", "There is no library here."),
        ("nothing of the kind", "Your reply holds neither a call nor a move."),
    ],
)
def test_results_of_full_calls(reply, result):
    _, episode = new_game_and_episode(environment=TIC_TAC_TOE_FULL_STYLE)
    assert "<calculate>" in episode.observe(0).prompt and "<search>" not in episode.observe(0).prompt
    episode.step({0: episode.read(0, reply)})
    assert episode.observe(0).prompt.startswith(result) and "Calls left: 2." in episode.observe(0).ask
    episode.step({0: episode.read(0, "I take b2.")})
    assert episode.due() == (1,)


class Pair:
    roles, num_seats, max_turns, brief, cooperative = ("left", "right"), 2, 2, True, True
    min_utility, max_utility = 0.0, 1.0

    def vocabulary(self):
        return ("say", "yes", "no")

    def reset(self, stream):
        return PairPlay()


class PairPlay:
    done, returns = False, (0.0, 0.0)

    def due(self):
        return () if self.done else (0, 1)

    def observe(self, seat):
        return Observation(prompt="say", key=f"{seat}")

    def legal(self, seat):
        return ("yes", "no")

    def library(self, seat):
        return (f"the word is {'yes' if seat else 'no'}",)

    def step(self, replies):
        self.done, self.returns = True, (float(replies[0] == replies[1]),) * 2


def test_simultaneous_moves_wait_for_the_calls_of_all_seats():
    episode = ToolEnvironment(environment=complete_environment("pair", Pair()), calls=2, results=1).reset(
        Stream.from_seed(0)
    )
    episode.step({0: "search word", 1: "yes"})
    assert episode.due() == (0,) and episode.observe(0).prompt == "the word is no" and not episode.done
    play_replies(episode, {0: "search word"}, {0: "yes"})
    assert episode.done and episode.returns == (1.0, 1.0) and episode.due() == ()
    with pytest.raises(GameError, match="its plays cannot be copied, as plays of pair cannot"):
        episode.clone()


class ScriptedPlayer:
    renderer = None

    def __init__(self, *replies):
        self.replies = iter(replies)

    def act(self, turns):
        return [Reply(text=next(self.replies)) for _ in turns]


def test_style_of_the_inner_environment():
    assert [new_game_and_episode(style=style)[0].brief for style in ("brief", "full")] == [True, False]
    assert not new_game_and_episode(environment=TIC_TAC_TOE_FULL_STYLE)[0].brief
    assert "Legal actions" in new_game_and_episode(environment={"name": "matrix_pd"}, style="full")[1].observe(0).text
    assert tools_module.tools is registry.load("environments", "tools").function


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.text(max_size=30)
        | st.sampled_from(["add 1 2", "search x", "<search>", "</calculate>", "a1", "b2", UNPARSED]),
        max_size=30,
    ),
    st.booleans(),
)
def test_any_reply_is_a_call_a_move_or_illegal(replies, is_full_style):
    _, episode = new_game_and_episode(environment=TIC_TAC_TOE_FULL_STYLE if is_full_style else TIC_TAC_TOE, calls=2)
    for reply in replies:
        if episode.done:
            break
        seat = episode.due()[0]
        action = read_reply(episode, seat, episode.legal(seat), reply, not is_full_style)
        if action is not None:
            assert episode.read(seat, action, True) == action
            episode.step({seat: action})
        assert episode.done or episode.observe(episode.due()[0]).text.strip()


@pytest.mark.parametrize(("inner", "teams"), [("signalling", (0, 0)), ("kuhn_poker", (0, 1))])
def test_a_cost_changes_payoffs_but_not_teams(inner, teams):
    free_game, costly_game = (
        make_game("tools", options={"environment": {"name": inner}, "cost": cost}) for cost in (0.0, 0.5)
    )
    assert teams_of(free_game) == teams_of(costly_game) == teams
    assert (
        (free_game.zero_sum, free_game.cooperative) == (free_game.inner.zero_sum, free_game.inner.cooperative)
        and not costly_game.zero_sum
        and not costly_game.cooperative
    )
    assert (
        costly_game.min_utility == free_game.min_utility - 0.5 * 3 * free_game.inner.max_turns
        and costly_game.utility_sum is None
    )
