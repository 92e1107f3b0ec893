"""How each conversation of a play has ended: by hand, for each way, and from records of before."""

from collections import Counter
from dataclasses import replace

import pytest

from sparring.core.rng import Stream
from sparring.environments.base import Closing
from sparring.environments.catalogue import make_game
from sparring.play.conversation_endings import ENDS, FAILED, conversations, cut_short, unsent
from sparring.play.players.base import TextAgent
from sparring.play.rollout import play
from sparring.report.episode_text import endings_lines, episode_lines
from tests.play.plays import learner, played, specs

TEAM = {"items": 2, "columns": 1, "workers": 2, "turns": 3, "waves": 2, "worlds": 3}


class Says(TextAgent):
    """Says what it is given for a seat, in turn."""

    def __init__(self, lines):
        super().__init__("says")
        self.lines, self.at = lines, Counter()

    def choose(self, state, seat, stream):
        self.at[seat] += 1
        said = self.lines[seat][min(self.at[seat], len(self.lines[seat])) - 1]
        return said(state, seat) if callable(said) else said


def opened(state, seat):
    return state.legal(seat)[0]


def noted(state, seat):
    return next(one for one in state.legal(seat) if one.startswith("note"))


def one(game, lines, **changes):
    spec = specs(game, 1, name="it")[0]
    (episode,) = play([replace(spec, **changes)], {"it": Says(lines)})
    return episode


def ends(game, episode):
    return [(found.seat, len(found.turns), found.end) for found in conversations(game, episode)]


def team(**options):
    return make_game("wide_search", options={**TEAM, **options}, illegal={"rule": "retry", "retries": 1})


def test_workers_of_two_waves_and_a_lead_that_finishes():
    lines = {0: ["call 2", "call 1", "finish"], 1: ["done", opened, noted, "done"], 2: [opened, noted, "done"]}
    game = team(waves=3)
    episode = one(game, lines)
    # worker 1 gives up at once and is called again: two conversations of one seat
    assert ends(game, episode) == [(1, 1, "answered"), (2, 3, "answered"), (1, 3, "answered"), (0, 3, "answered")]


def test_no_turns_left_is_a_failure_only_where_a_cell_is_open():
    game = team(turns=2, waves=1)
    episode = one(game, {0: ["call 2"], 1: [opened, noted], 2: [opened, "done"]})
    assert ends(game, episode) == [(1, 2, "answered"), (2, 2, "answered"), (0, 1, "over")]
    wide = team(turns=2, waves=1, items=4)
    episode = one(wide, {0: ["call 2"], 1: [opened, noted], 2: [opened, opened]})
    assert ends(wide, episode) == [(1, 2, "turns"), (2, 2, "turns"), (0, 1, "over")]


def test_the_limit_of_critical_steps_ends_who_is_at_work():
    game = team(critical=2)
    episode = one(game, {0: ["call 2"], 1: [opened], 2: ["done"]})
    assert ends(game, episode) == [(1, 1, "limit"), (2, 1, "answered"), (0, 1, "over")]


@pytest.mark.parametrize(("table", "end"), [("none", "answered"), ("what?", "malformed")])
def test_a_table_that_is_written(table, end):
    game = team(answer="written", waves=1)
    episode = one(game, {0: ["call 1", table], 1: ["done"]})
    assert ends(game, episode) == [(1, 1, "answered"), (0, 2, end)]
    turns = (*episode.turns[:-1], episode.turns[-1]._replace(reply="", truncated=True))  # and had outgrown the model
    assert ends(game, replace(episode, turns=turns))[-1] == (0, 2, "malformed" if end == "malformed" else "context")


def test_one_who_works_alone():
    game = team(workers=0, turns=2)
    assert ends(game, one(game, {0: [opened, opened]})) == [(0, 2, "turns")]
    assert ends(game, one(game, {0: [opened, "done"]})) == [(0, 2, "answered")]
    writes = team(workers=0, turns=2, answer="written")  # its conversation goes on to the table that it writes
    assert ends(writes, one(writes, {0: [opened, "done", "none"]})) == [(0, 3, "answered")]


def test_a_retry_opens_no_conversation():
    game = team()
    episode = one(game, {0: ["call 2", "finish"], 1: ["what?", "done"], 2: ["done"]})
    assert [turn.event for turn in episode.turns].count("unparsable") == 1
    assert ends(game, episode) == [(1, 2, "answered"), (2, 1, "answered"), (0, 2, "answered")]


def test_a_forfeit_and_a_cut():
    game = make_game("wide_search", options=TEAM, illegal={"rule": "forfeit"})
    episode = one(game, {0: ["call 2"], 1: ["what?"], 2: ["done"]})
    assert sorted(ends(game, episode)) == [(0, 1, "over"), (1, 1, "malformed"), (2, 1, "over")]
    cut = one(game, {0: ["call 2"], 1: [opened], 2: ["done"]}, max_turns=3)
    assert cut.cut
    assert sorted(ends(game, cut)) == [(0, 1, "cut"), (1, 1, "cut"), (2, 1, "answered")]


def test_sub_tasks():
    game = make_game("dag_search", options={"tasks": 2, "workers": 2, "shape": "independent", "pages": 1, "turns": 2, "slack": 9, "worlds": 3})
    episode = one(game, {0: ["call 2"], 1: [opened, opened, "done"], 2: ["done"]})
    found = ends(game, episode)
    assert found[:2] == [(2, 1, "answered"), (1, 2, "turns")] and found[2] == (1, 1, "answered") and found[-1][::2] == (0, "over")
    short = make_game("dag_search", options={"tasks": 1, "workers": 1, "shape": "chain", "pages": 1, "turns": 3, "worlds": 3})
    assert ends(short, one(short, {0: ["call 1"], 1: [opened, opened]})) == [(1, 2, "limit"), (0, 1, "over")]


def test_a_conversation_that_outgrew_the_model_and_a_reply_that_was_cut_short():
    game = make_game("wide_search", options=TEAM, illegal={"rule": "random"})
    agent, _ = learner(game)
    agent.sampler.model.context = 24  # a worker's first turn fits, the third does not
    found = Counter()
    for episode in play(specs(game, 30), {"learner": agent}):
        for own in conversations(game, episode):
            last = episode.turns[own.turns[-1]]
            found[own.end] += 1
            assert (own.end == "context") == unsent(last)
            assert (own.end == "length") == cut_short(last)
    assert found["context"] and found["length"], found


def test_every_turn_stands_in_one_conversation_and_begins_it_where_it_is_told_anew():
    game = make_game("wide_search", options={**TEAM, "items": 5}, illegal={"rule": "random"})
    for episode in played(game, 20):
        found = conversations(game, episode)
        assert sorted(place for own in found for place in own.turns) == list(range(len(episode.turns)))
        for own in found:
            assert {episode.turns[place].seat for place in own.turns} == {own.seat}
            fresh = [" find " in f" {episode.turns[place].told}" for place in own.turns]
            assert fresh == [True] + [False] * (len(own.turns) - 1)


def test_what_an_environment_does_not_say_is_over():
    game = make_game("tic_tac_toe")
    assert not isinstance(game.reset(Stream.from_seed(0)), Closing) and isinstance(team().reset(Stream.from_seed(0)), Closing)
    for episode in played(game, 5):
        assert {own.end for own in conversations(game, episode)} == {"over"}
    trial = make_game("trial", options={"environment": {"name": "kuhn_poker"}, "attempts": 2})
    for episode in played(trial, 3):
        found = conversations(trial, episode)
        assert {own.end for own in found} == {"over"}
        assert sorted(own.seat for own in found) == [0, 1, 1]  # who is not carried begins afresh


def test_each_end_is_said_in_words():
    assert set(ENDS) > FAILED


def test_show_says_it_at_the_last_turn_and_by_seat():
    game = team(turns=2, waves=1, items=4)
    episode = one(game, {0: ["call 2"], 1: [opened, noted], 2: [opened, "done"]})
    found = conversations(game, episode)
    lines = episode_lines(1, episode, {}, None, (), found)
    said = [line for line in lines if line.startswith("    ended")]
    assert said == ["    ended   it ran out of turns", "    ended   it had its say"]  # of the lead nothing is known
    last = next(number for number, line in enumerate(lines) if line.startswith("[2] worker 2"))
    assert lines.index(said[0]) < last < lines.index(said[1])
    assert endings_lines(episode, found) == ["worker 1 ended: turns", "worker 2 ended: answered"]
    assert not any(line.startswith("    ended") for line in episode_lines(1, episode, {}, None))
