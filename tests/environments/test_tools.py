"""A tool loop around each move of another environment."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import GameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments import tools as module
from sparring.environments.base import read_reply, teams_of
from sparring.environments.catalogue import make_game
from sparring.environments.foreign import complete_environment
from sparring.environments.tools import UNREAD, ToolEnvironment
from sparring.play.players.base import Reply
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.testing import check_environment
from tests.environments.worlds import play_replies

TTT = {"name": "tic_tac_toe"}
FULL = {"name": "tic_tac_toe", "options": {"style": "full"}}


def new_play(**options):
    game = make_game("tools", options=options)
    return game, game.reset(Stream.from_seed(0))


@pytest.mark.parametrize(
    "options",
    [{}, {"calls": 1, "cost": 0.5}, {"environment": FULL}, {"environment": {"name": "kuhn_poker"}, "style": "full"}],
)
def test_it_keeps_what_every_environment_must(options):
    check_environment(registry.bind("environments", "tools", options), plays=5)


def test_seats_that_wait_and_turns_of_calls():
    game, course = new_play()
    first = course.observe(0)
    course.step({0: "add 3 4"})
    assert course.due() == (0,) and course.observe(0).prompt == "7" and course.observe(0).key != first.key
    course.step({0: "b2"})
    assert course.due() == (1,) and "b2" in course.observe(1).text and "7" not in course.observe(1).key
    assert game.max_turns == 9 * 4
    _, course = new_play(calls=1)
    course.step({0: "add 1 1"})
    assert course.observe(0).prompt == "2 spent"
    assert course.read(0, "add 1 1", True) is None and course.read(0, "zzz", True) is None
    with pytest.raises(GameError, match="no move of seat 0"):
        course.step({0: "add 1 1"})
    course.step({0: "a1"})
    with pytest.raises(GameError, match="seat 0 is not due"):
        course.step({0: "a2"})
    assert course.calls_left(1) == 1
    _, course = new_play(cost=0.25)
    copy = course.clone()
    course.step({0: "add 1 1"})
    assert (copy.calls_left(0), course.calls_left(0)) == (3, 2)
    assert (copy.returns, course.returns) == ((0.0, 0.0), (-0.25, 0.0))
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
        (0, UNREAD, "ok"),
        (0, "b2", "ok"),
        (1, "add 1 1", "ok"),
        (1, "add 1 1", "ok"),
        (1, None, "unparsable"),
    ]
    assert episode.returns == (1.0, -1.0) and [turn.prompt for turn in episode.turns[:3]][1:] == ["4", "none spent"]


@pytest.mark.parametrize(
    ("call", "answer"),
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
def test_brief_calls(call, answer):
    _, course = new_play()
    course.step({0: course.read(0, call, True)})
    assert course.observe(0).prompt == answer and course.calls_left(0) == 2


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Hm. <calculate>2*(3+4)</calculate> and then b2", "The result is 14."),
        ("<calculate>1/0</calculate>", "The calculator cannot divide by zero."),
        ("<calculate>1+1</calculate><calculate>2+2</calculate>", "The result is 2."),
        ("<calculate>1+1", "The calculator cannot read this; write an expression such as 2*(3+4)."),
        ("<search>ada</search>", "There is no library here."),
        ("nothing of the kind", "Your reply holds neither a call nor a move."),
    ],
)
def test_full_calls(reply, answer):
    _, course = new_play(environment=FULL)
    assert "<calculate>" in course.observe(0).prompt and "<search>" not in course.observe(0).prompt
    course.step({0: course.read(0, reply)})
    assert course.observe(0).prompt.startswith(answer) and "Calls left: 2." in course.observe(0).ask
    course.step({0: course.read(0, "I take b2.")})
    assert course.due() == (1,)


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


def test_seats_that_move_at_once_wait_for_one_anothers_calls():
    course = ToolEnvironment(environment=complete_environment("pair", Pair()), calls=2, results=1).reset(
        Stream.from_seed(0)
    )
    course.step({0: "search word", 1: "yes"})
    assert course.due() == (0,) and course.observe(0).prompt == "the word is no" and not course.done
    play_replies(course, {0: "search word"}, {0: "yes"})
    assert course.done and course.returns == (1.0, 1.0) and course.due() == ()
    with pytest.raises(GameError, match="its plays cannot be copied, so tools cannot copy its own"):
        course.clone()


class ScriptedPlayer:
    renderer = None

    def __init__(self, *replies):
        self.replies = iter(replies)

    def act(self, turns):
        return [Reply(text=next(self.replies)) for _ in turns]


def test_styles():
    assert [new_play(style=style)[0].brief for style in ("brief", "full")] == [True, False]
    assert not new_play(environment=FULL)[0].brief
    assert "Legal actions" in new_play(environment={"name": "matrix_pd"}, style="full")[1].observe(0).text
    assert module.tools is registry.load("environments", "tools").function


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.text(max_size=30) | st.sampled_from(["add 1 2", "search x", "<search>", "</calculate>", "a1", "b2", UNREAD]),
        max_size=30,
    ),
    st.booleans(),
)
def test_any_reply_is_a_call_a_move_or_illegal(replies, full):
    _, course = new_play(environment=FULL if full else TTT, calls=2)
    for reply in replies:
        if course.done:
            break
        seat = course.due()[0]
        read = read_reply(course, seat, course.legal(seat), reply, not full)
        if read is not None:
            assert course.read(seat, read, True) == read
            course.step({seat: read})
        assert course.done or course.observe(course.due()[0]).text.strip()


@pytest.mark.parametrize(("inner", "teams"), [("signalling", (0, 0)), ("kuhn_poker", (0, 1))])
def test_a_cost_changes_what_is_paid_and_not_who_wins_together(inner, teams):
    free, dear = (make_game("tools", options={"environment": {"name": inner}, "cost": cost}) for cost in (0.0, 0.5))
    assert teams_of(free) == teams_of(dear) == teams
    assert (
        (free.zero_sum, free.cooperative) == (free.inner.zero_sum, free.inner.cooperative)
        and not dear.zero_sum
        and not dear.cooperative
    )
    assert dear.min_utility == free.min_utility - 0.5 * 3 * free.inner.max_turns and dear.utility_sum is None
