"""Everything is shown: the conversation grows, or is laid out anew where a renderer edits it."""

from sparring.core.records import Observation
from sparring.play.context.base import Shown
from sparring.play.context.full import full
from sparring.play.context.ledger import Ledger
from sparring.play.players.base import Reply
from sparring.testing import context_seen
from sparring.testing.context import Letters

SAID = Reply(text="a", ids=(97, 2), logprobs=(-0.5, -0.25))


def test_all_of_it_is_shown_whatever_happened():
    for seen in (context_seen("x"), context_seen("x", "y", "z"), context_seen("x", "y", again=True)):
        assert full(seen) == Shown(seen.past, seen.text)


def test_a_conversation_grows_by_what_is_told_and_said():
    ledger = Ledger(Letters())
    ledger.ask("x")
    first = ledger.record(SAID)
    ledger.ask("y")
    second = ledger.record(SAID)
    assert [(one.kind, one.ids) for one in (*first, *second)] == [
        *(("prompt", (0, 120, 1)), ("sampled", (97, 2))),
        *(("context", (121, 1)), ("sampled", (97, 2))),
    ]
    assert (ledger.conversation, ledger.known, ledger.ids) == (0, 8, (0, 120, 1, 97, 2, 121, 1, 97, 2))


def test_where_replies_are_edited_each_turn_is_a_conversation():
    ledger = Ledger(Letters(stable=False))
    ledger.ask("x")
    ledger.record(SAID)
    ledger.ask("y")
    assert (ledger.conversation, ledger.known, ledger.ids) == (1, 0, (0, 120, 1, 2, 121, 1))


def test_a_fresh_conversation_has_no_past_and_a_second_try_does_not_begin_one():
    ledger = Ledger(Letters())
    ledger.ask("x")
    ledger.record(SAID)
    anew = Observation(told="y", key="", fresh=True)
    ledger.ask("y", anew)
    assert (ledger.conversation, ledger.known, ledger.ids) == (1, 0, (0, 121, 1))
    ledger.record(SAID)
    ledger.ask("no", anew, again=True)
    assert (ledger.conversation, ledger.ids) == (1, (0, 121, 1, 97, 2, 110, 111, 1))


def test_what_was_too_long_to_be_sent_stays_too_long():
    ledger = Ledger(Letters())
    ledger.ask("x")
    assert [(one.kind, one.ids) for one in ledger.record(Reply(text="", truncated=True))] == [("prompt", (0,)), ("sampled", ())]
    ledger.ask("y")
    assert (ledger.conversation, ledger.ids) == (0, (0, 120, 1, 121, 1))
