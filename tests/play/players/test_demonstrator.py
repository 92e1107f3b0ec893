from collections import Counter

import pytest

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.base import PendingTurn
from sparring.play.players.demonstrator import demonstrator, imitated


class Spelling:
    """A renderer that says a word as the codes of its letters and a stop."""

    def reply(self, text):
        return (*text.encode(), 0)


def pending(count):
    game, root = make_game("kuhn_poker"), Stream.from_seed(0)
    return [PendingTurn(state=game.reset(root.child(n)), seat=0, stream=root.child("say").child(n)) for n in range(count)]


def test_it_says_whole_legal_replies_in_the_renderers_tokens():
    for reply in demonstrator(renderer=Spelling()).act(pending(20)):
        assert reply.text in ("pass", "bet")
        assert reply.ids == (*reply.text.encode(), 0)
        assert reply.logprobs == (0.0,) * len(reply.ids)


def test_legal_actions_are_equally_likely_and_drawn_from_the_turns_own_stream():
    agent, turns = demonstrator(renderer=Spelling()), pending(2000)
    replies = agent.act(turns)
    assert 900 < Counter(reply.text for reply in replies)["bet"] < 1100  # 4.5 standard deviations
    assert [agent.act([turn])[0] for turn in turns[:50]] == replies[:50]


def shown(name, **options):
    return demonstrator(renderer=Spelling(), player=imitated(bind("players", name, options)))


def test_a_players_moves_are_said_in_the_renderers_tokens():
    replies = shown("biased", weights={"bet": 0}).act(pending(20))
    assert {(reply.text, reply.ids) for reply in replies} == {("pass", (*b"pass", 0))}
    leaning = Counter(reply.text for reply in shown("biased", weights={"bet": 3}).act(pending(2000)))
    assert 1400 < leaning["bet"] < 1600  # 3 in 4; five standard deviations


def test_a_player_without_a_leaning_is_random_legal_play():
    assert shown("random").act(pending(50)) == demonstrator(renderer=Spelling()).act(pending(50)) == shown("biased").act(pending(50))


def test_a_memory_is_written_as_it_is_asked_for_whoever_is_imitated():
    (turn,) = pending(1)
    assert shown("biased", weights={"bet": 0}).act([turn._replace(memory="all")])[0].text == "all"


def test_a_player_that_needs_what_a_seat_was_told_is_refused():
    with pytest.raises(ConfigError, match=r"warmup.player: 'mixture' answers by what a seat was told.*biased, scripted"):
        imitated(bind("players", "mixture", {"players": {"random": 1.0}}))
