from collections import Counter

from sparring.environments.catalogue import make_game
from sparring.players.base import PendingTurn
from sparring.players.demonstrator import demonstrator
from sparring.rng import Stream


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
