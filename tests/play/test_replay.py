import sys
from collections import Counter
from dataclasses import replace

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, PluginError, RolloutError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.base import HasConversationEnd
from sparring.environments.catalogue import make_game
from sparring.play.episode_pictures import picture, sentences
from sparring.play.players.base import TextAgent
from sparring.play.replay import conversations, is_cut_short, is_unsent_turn, replay
from sparring.play.rollout import play
from sparring.report.episode_text import endings_lines, episode_lines
from sparring.testing import check_svg
from tests.cases import every_case
from tests.play.plays import make_specs, random_episodes, tiny_learner


@pytest.mark.parametrize(
    "name", ["tic_tac_toe", "kuhn_poker", "leduc_poker", "kuhn_rounds", "tiny_hanabi", "minesweeper", "signalling"]
)
def test_replayed_states_are_those_of_the_turns(name):
    game = make_game(name)
    for episode in random_episodes(game):
        states = replay(game, episode)
        assert [state.seat for state in states] == [turn.seat for turn in episode.turns]
        assert [state.observe(state.seat).key for state in states] == [turn.state_key for turn in episode.turns]
        final_state = states[-1].clone()
        final_state.apply(episode.turns[-1].action)
        assert final_state.done and final_state.returns == episode.returns


@pytest.mark.parametrize(
    "illegal", [{"rule": "forfeit"}, {"rule": "retry", "retries": 2}, {"rule": "random"}], ids=lambda rule: rule["rule"]
)
def test_illegal_replies_are_replayed_unchanged(illegal):
    game = make_game("tic_tac_toe", illegal=illegal)
    episodes = random_episodes(game, agent="scripted", moves=["b2", "a1"])  # the second seat always replies illegally
    for episode in episodes:
        states = replay(game, episode)
        assert any(turn.event == "illegal" for turn in episode.turns)
        assert [state.legal_actions() for state in states] == [turn.legal_actions for turn in episode.turns]


def test_records_that_do_not_fit_the_rules_are_refused():
    tic_tac_toe, kuhn = make_game("tic_tac_toe"), make_game("kuhn_poker")
    kuhn_episode = random_episodes(kuhn, 1)[0]
    with pytest.raises(RolloutError, match=r"'kuhn_poker'.*at turn 0.*tic_tac_toe"):
        replay(tic_tac_toe, kuhn_episode)
    episode_of_tic = random_episodes(tic_tac_toe, 1)[0]
    wrong_actions = (
        episode_of_tic.turns[0],
        episode_of_tic.turns[1]._replace(action=episode_of_tic.turns[0].action),
        *episode_of_tic.turns[2:],
    )
    with pytest.raises(RolloutError, match="not legal at ply 1"):
        replay(tic_tac_toe, replace(episode_of_tic, turns=wrong_actions))
    wrong_seats = (*episode_of_tic.turns[:1], episode_of_tic.turns[1]._replace(seat=0), *episode_of_tic.turns[2:])
    with pytest.raises(RolloutError, match="at turn 1: another decision"):
        replay(tic_tac_toe, replace(episode_of_tic, turns=wrong_seats))


TEAM_OPTIONS = {"items": 2, "columns": 1, "workers": 2, "turns": 3, "waves": 2, "worlds": 3}


class ScriptedWorkers(TextAgent):
    def __init__(self, lines_by_seat):
        super().__init__("says")
        self.lines_by_seat, self.num_turns = lines_by_seat, Counter()

    def choose(self, state, seat, stream):
        lines = self.lines_by_seat[seat]
        self.num_turns[seat] += 1
        line = lines[min(self.num_turns[seat], len(lines)) - 1]
        return line(state, seat) if callable(line) else line


def open_first_place(state, seat):
    return state.legal(seat)[0]


def note_first_fact(state, seat):
    return next(action for action in state.legal(seat) if action.startswith("note"))


def play_scripted(game, lines, **changes):
    (episode,) = play(make_specs(game, 1, name="it", **changes), {"it": ScriptedWorkers(lines)})
    return episode


def conversation_ends(game, episode):
    return [
        (conversation.seat, len(conversation.turns), conversation.end) for conversation in conversations(game, episode)
    ]


def make_team_search(**options):
    return make_game("wide_search", options={**TEAM_OPTIONS, **options}, illegal={"rule": "retry", "retries": 1})


def test_workers_of_two_waves_and_a_lead_that_finishes():
    lines = {
        0: ["call 2", "call 1", "finish"],
        1: ["done", open_first_place, note_first_fact, "done"],
        2: [open_first_place, note_first_fact, "done"],
    }
    game = make_team_search(waves=3)
    episode = play_scripted(game, lines)
    # worker 1 stops at once and is called again, so its seat has two conversations
    assert conversation_ends(game, episode) == [
        (1, 1, "answered"),
        (2, 3, "answered"),
        (1, 3, "answered"),
        (0, 3, "answered"),
    ]


def test_running_out_of_turns_is_a_failure_only_with_open_cells():
    game = make_team_search(turns=2, waves=1)
    episode = play_scripted(
        game, {0: ["call 2"], 1: [open_first_place, note_first_fact], 2: [open_first_place, "done"]}
    )
    assert conversation_ends(game, episode) == [(1, 2, "answered"), (2, 2, "answered"), (0, 1, "over")]
    wide_table = make_team_search(turns=2, waves=1, items=4)
    episode = play_scripted(
        wide_table, {0: ["call 2"], 1: [open_first_place, note_first_fact], 2: [open_first_place, open_first_place]}
    )
    assert conversation_ends(wide_table, episode) == [(1, 2, "turns"), (2, 2, "turns"), (0, 1, "over")]


def test_the_limit_of_critical_steps_ends_working_seats():
    game = make_team_search(critical=2)
    episode = play_scripted(game, {0: ["call 2"], 1: [open_first_place], 2: ["done"]})
    assert conversation_ends(game, episode) == [(1, 1, "limit"), (2, 1, "answered"), (0, 1, "over")]


@pytest.mark.parametrize(("table", "end"), [("none", "answered"), ("what?", "malformed")])
def test_a_table_that_is_written(table, end):
    game = make_team_search(answer="written", waves=1)
    episode = play_scripted(game, {0: ["call 1", table], 1: ["done"]})
    assert conversation_ends(game, episode) == [(1, 1, "answered"), (0, 2, end)]
    # a conversation longer than the model's context
    turns = (
        *episode.turns[:-1],
        episode.turns[-1]._replace(reply="", truncated=True),
    )
    assert conversation_ends(game, replace(episode, turns=turns))[-1] == (
        0,
        2,
        "malformed" if end == "malformed" else "context",
    )


def test_one_worker_without_a_lead():
    game = make_team_search(workers=0, turns=2)
    assert conversation_ends(game, play_scripted(game, {0: [open_first_place, open_first_place]})) == [(0, 2, "turns")]
    assert conversation_ends(game, play_scripted(game, {0: [open_first_place, "done"]})) == [(0, 2, "answered")]
    game_with_written_table = make_team_search(
        workers=0, turns=2, answer="written"
    )  # its one conversation includes the table
    assert conversation_ends(
        game_with_written_table, play_scripted(game_with_written_table, {0: [open_first_place, "done", "none"]})
    ) == [(0, 3, "answered")]


def test_a_retry_begins_no_new_conversation():
    game = make_team_search()
    episode = play_scripted(game, {0: ["call 2", "finish"], 1: ["what?", "done"], 2: ["done"]})
    assert [turn.event for turn in episode.turns].count("unparsable") == 1
    assert conversation_ends(game, episode) == [(1, 2, "answered"), (2, 1, "answered"), (0, 2, "answered")]


def test_conversations_of_forfeited_and_truncated_episodes():
    game = make_game("wide_search", options=TEAM_OPTIONS, illegal={"rule": "forfeit"})
    episode = play_scripted(game, {0: ["call 2"], 1: ["what?"], 2: ["done"]})
    assert sorted(conversation_ends(game, episode)) == [(0, 1, "over"), (1, 1, "malformed"), (2, 1, "over")]
    truncated_episode = play_scripted(game, {0: ["call 2"], 1: [open_first_place], 2: ["done"]}, max_turns=3)
    assert truncated_episode.cut
    assert sorted(conversation_ends(game, truncated_episode)) == [(0, 1, "cut"), (1, 1, "cut"), (2, 1, "answered")]


def test_conversations_of_sub_tasks():
    game = make_game(
        "dag_search",
        options={"tasks": 2, "workers": 2, "shape": "independent", "pages": 1, "turns": 2, "slack": 9, "worlds": 3},
    )
    episode = play_scripted(game, {0: ["call 2"], 1: [open_first_place, open_first_place, "done"], 2: ["done"]})
    ends = conversation_ends(game, episode)
    assert (
        ends[:2] == [(2, 1, "answered"), (1, 2, "turns")]
        and ends[2] == (1, 1, "answered")
        and ends[-1][::2] == (0, "over")
    )
    short_limit = make_game(
        "dag_search", options={"tasks": 1, "workers": 1, "shape": "chain", "pages": 1, "turns": 3, "worlds": 3}
    )
    assert conversation_ends(
        short_limit, play_scripted(short_limit, {0: ["call 1"], 1: [open_first_place, open_first_place]})
    ) == [(1, 2, "limit"), (0, 1, "over")]


def test_too_long_conversations_and_truncated_replies_are_marked():
    game = make_game("wide_search", options=TEAM_OPTIONS, illegal={"rule": "random"})
    agent, _ = tiny_learner(game)
    agent.sampler.model.context = 24  # the first turn of a worker fits into the context, the third does not
    counts = Counter()
    for episode in play(make_specs(game, 30), {"learner": agent}):
        for conversation in conversations(game, episode):
            last_turn = episode.turns[conversation.turns[-1]]
            counts[conversation.end] += 1
            assert (conversation.end == "context") == is_unsent_turn(last_turn)
            assert (conversation.end == "length") == is_cut_short(last_turn)
    assert counts["context"] and counts["length"], counts


def test_every_turn_is_in_one_conversation():
    game = make_game("wide_search", options={**TEAM_OPTIONS, "items": 5}, illegal={"rule": "random"})
    for episode in random_episodes(game, 20):
        conversation_list = conversations(game, episode)
        assert sorted(index for conversation in conversation_list for index in conversation.turns) == list(
            range(len(episode.turns))
        )
        for conversation in conversation_list:
            assert {episode.turns[index].seat for index in conversation.turns} == {conversation.seat}
            has_first_find = [" find " in f" {episode.turns[index].prompt}" for index in conversation.turns]
            assert has_first_find == [True] + [False] * (len(conversation.turns) - 1)


def test_without_a_stated_end_a_conversation_is_over():
    game = make_game("tic_tac_toe")
    assert not isinstance(game.reset(Stream.from_seed(0)), HasConversationEnd) and isinstance(
        make_team_search().reset(Stream.from_seed(0)), HasConversationEnd
    )
    for episode in random_episodes(game, 5):
        assert {conversation.end for conversation in conversations(game, episode)} == {"over"}
    trial = make_game("trial", options={"environment": {"name": "kuhn_poker"}, "attempts": 2})
    for episode in random_episodes(trial, 3):
        trial_conversations = conversations(trial, episode)
        assert {conversation.end for conversation in trial_conversations} == {"over"}
        # a seat without memory of attempts begins a new conversation
        assert sorted(conversation.seat for conversation in trial_conversations) == [
            0,
            1,
            1,
        ]


def test_show_prints_the_end_of_each_conversation():
    game = make_team_search(turns=2, waves=1, items=4)
    episode = play_scripted(
        game, {0: ["call 2"], 1: [open_first_place, note_first_fact], 2: [open_first_place, "done"]}
    )
    conversation_list = conversations(game, episode)
    lines = episode_lines(1, episode, {}, None, (), conversation_list)
    endings = [line for line in lines if line.startswith("    ended")]
    # the record does not say how the lead ended
    assert endings == [
        "    ended   it ran out of turns",
        "    ended   it gave its answer",
    ]
    last_line = next(index for index, line in enumerate(lines) if line.startswith("[2] worker 2"))
    assert lines.index(endings[0]) < last_line < lines.index(endings[1])
    assert endings_lines(episode, conversation_list) == ["worker 1 ended: turns", "worker 2 ended: answered"]
    assert not any(line.startswith("    ended") for line in episode_lines(1, episode, {}, None))


SECRET_MODULE = '''"""Environment: two seats are told a number each and say one at once; it has no picture and no copy."""

from sparring.core.records import Observation

SLOT = "environments"


def secret(*, version: int = 1):
    return Secret(version)


class Secret:
    roles, max_turns, min_utility, max_utility = ("left", "right"), 4, 0.0, 1.0

    def __init__(self, version):
        self.version = version

    def reset(self, stream):
        return Play([f"<b>number{stream.integer(seat, 100)}</b>" for seat in (0, 1)])


class Play:
    returns = (0.0, 0.0)

    def __init__(self, numbers):
        self.numbers, self.moments = numbers, 0

    @property
    def done(self):
        return self.moments == 2

    def due(self):
        return () if self.done else (0, 1)

    def legal(self, seat):
        return None

    def sample(self, seat, stream):
        return f"I am seat{seat}"

    def observe(self, seat):
        return Observation(prompt=self.numbers[seat], key=self.numbers[seat])

    def step(self, replies):
        self.moments += 1
'''


def first_episode(game):
    return random_episodes(game, 1)[0]


@pytest.fixture
def secret_game(tmp_path, monkeypatch):
    (tmp_path / "secret.py").write_text(SECRET_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    registry.clear_caches()
    yield make_game("secret.secret")
    sys.modules.pop("secret", None)
    registry.clear_caches()


@every_case("name", registry.built_in("environments"))
def test_views_of_first_middle_and_last_turn_of_every_environment(name):
    game = make_game(name)
    episode = first_episode(game)
    states, descriptions = replay(game, episode), list(sentences(episode))
    assert len(descriptions) == len(episode.turns) + 1 and descriptions[-1] != descriptions[0]
    for turn in {0, len(episode.turns) // 2, len(episode.turns)}:
        for seat in (None, *range(game.num_seats)):
            view = picture(episode, turn, seat, "dark")
            check_svg(view.svg)
            assert view.description.strip()
            if turn < len(states):
                assert view == (states[turn].draw(seat, "dark"), states[turn].described(seat))
        assert picture(episode, turn).description == descriptions[turn]


def test_without_a_picture_the_view_is_a_timeline_of_prompts_and_replies(secret_game):
    episode = first_episode(secret_game)
    numbers = [turn.prompt[3:-4] for turn in episode.turns[:2]]
    for turn in range(5):
        views = [picture(episode, turn, seat) for seat in (None, 0, 1)]
        for view in views:
            check_svg(view.svg)
        assert all(number in views[0].svg for number in numbers) or turn == 4
        for seat in (0, 1):
            assert numbers[1 - seat] not in views[1 + seat].svg + views[1 + seat].description
            assert f"I am seat{1 - seat}" not in views[1 + seat].svg + views[1 + seat].description
    assert "I am seat0" in picture(episode, 1, 0).svg and "I am seat0" not in picture(episode, 0, 0).svg
    assert (
        "&lt;b&gt;number" in picture(episode, 4, 0).svg
        and "left said last: I am seat0" in picture(episode, 4, 0).description
    )


def test_an_episode_that_cannot_be_replayed_is_refused_with_one_line(secret_game, monkeypatch):
    kuhn_episode = first_episode(make_game("kuhn_poker"))
    newer_version = replace(kuhn_episode, environment=replace(kuhn_episode.environment, version=9))
    unnamed = replace(kuhn_episode, environment=None)
    unknown_game = replace(kuhn_episode, environment=replace(kuhn_episode.environment, name="no_such_game"))
    other_game = replace(kuhn_episode, environment=replace(kuhn_episode.environment, name="tic_tac_toe"))
    for episode, error, message in (
        (newer_version, GameError, "has version 1 here, but the record has version 9"),
        (unnamed, RolloutError, "has no environment in its record"),
        (unknown_game, UnknownNameError, "no_such_game"),
        (other_game, RolloutError, "does not fit these rules"),
    ):
        for function in (lambda episode: picture(episode, 1), lambda episode: list(sentences(episode))):
            with pytest.raises(error, match=message) as error_info:
                function(episode)
            assert "\n" not in str(error_info.value)
    secret_episode = first_episode(secret_game)
    monkeypatch.setattr(sys.modules["secret"].Play, "observe", lambda play, seat: 1 / 0)
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        picture(secret_episode, 0)


@pytest.mark.parametrize(
    ("position", "message"),
    [((9,), "no turn 9; write one of 0 to"), ((-1,), "no turn -1"), ((0, 2), "no seat 2; write one of 0 to 1")],
)
def test_missing_turns_and_seats_are_refused(position, message):
    with pytest.raises(ConfigError, match=message):
        picture(first_episode(make_game("kuhn_poker")), *position)


def test_retried_replies_do_not_change_the_position():
    game = make_game("kuhn_poker", illegal={"rule": "retry", "retries": 2})
    episode = first_episode(game)
    first_turn = episode.turns[0]
    illegal_turn = first_turn._replace(reply="nonsense", action=None, event="illegal")
    episode_with_retry = replace(episode, turns=(illegal_turn, *episode.turns))
    assert picture(episode_with_retry, 1) == picture(episode_with_retry, 0) == picture(episode, 0)
    assert picture(episode_with_retry, 2) == picture(episode, 1)
