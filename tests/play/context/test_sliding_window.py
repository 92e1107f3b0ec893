"""The last exchanges are shown, by their own ids, and the opening where it is kept."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.learn.pack import pack
from sparring.play.context.base import Shown
from sparring.play.context.full import full
from sparring.play.context.ledger import Ledger
from sparring.play.context.sliding_window import sliding_window
from sparring.play.players.base import Reply
from sparring.testing import check_context, context_seen
from sparring.testing.context import Letters

SOKOBAN = {"rooms": 4, "moves": 8}


def test_by_hand_a_window_of_one_after_the_opening():
    ledger = Ledger(Letters(), bind("context", "sliding_window", {"exchanges": 1}))
    conversations = []
    for text, reply in zip("wxyz", "abcd", strict=True):
        ledger.ask(text)
        conversations.append((ledger.conversation, ledger.ids))
        ledger.record(Reply(text=reply, ids=(ord(reply), 2), logprobs=(0.0, 0.0)))
    w, x, y, z = map(ord, "wxyz")
    assert conversations == [
        (0, (0, w, 1)),
        (0, (0, w, 1, 97, 2, x, 1)),
        (0, (0, w, 1, 97, 2, x, 1, 98, 2, y, 1)),
        (1, (0, w, 1, 97, 2, y, 1, 99, 2, z, 1)),  # x and b have slid out
    ]


def test_a_reply_that_was_cut_is_closed_where_it_is_shown_again():
    ledger = Ledger(Letters(), bind("context", "sliding_window", {"exchanges": 1, "opening": False}))
    for text in "xy":
        ledger.ask(text)
        ledger.record(Reply(text="a", ids=(97,), logprobs=(0.0,), truncated=True))
    ledger.ask("z")
    assert ledger.ids == (0, ord("y"), 1, 97, 2, ord("z"), 1)


def test_a_window_that_holds_everything_is_full():
    seen = context_seen(*"abcdef")
    for exchanges in (4, 5, 6, 100):
        assert sliding_window(seen, exchanges=exchanges) == full(seen)
    assert sliding_window(seen, exchanges=5, opening=False) == full(seen)


@given(st.integers(0, 12), st.integers(1, 8), st.booleans())
def test_it_shows_the_newest_of_what_there_is(count, exchanges, opening):
    seen = context_seen(*map(str, range(count + 1)))
    shown = sliding_window(seen, exchanges=exchanges, opening=opening)
    numbers = [int(one.told) for one in shown.past]
    kept = [0] if opening and count else []
    assert numbers == kept + list(range(max(len(kept), count - exchanges), count))
    assert shown.text == str(count)


def test_nothing_is_shown_where_nothing_was_told():
    assert sliding_window(context_seen("x")) == Shown((), "x")


@pytest.mark.parametrize(("exchanges", "opening"), [(1, True), (1, False), (3, True)])
def test_the_public_check_passes(exchanges, opening):
    check_context(sliding_window, exchanges=exchanges, opening=opening)


@pytest.mark.parametrize(("option", "value"), [("exchanges", 0), ("exchanges", "two"), ("opening", "perhaps")])
def test_wrong_options_are_refused(option, value):
    with pytest.raises(ConfigError, match=option):
        bind("context", "sliding_window", {option: value})


def test_in_plays_it_keeps_the_law_and_bounds_the_prompts(table, lawful):
    lengths = {}
    for name, options in (("full", {}), ("sliding_window", {"exchanges": 2})):
        made = table("sokoban", SOKOBAN, {"name": name, **options})
        episodes = made.play()
        lawful(made, episodes)
        data = pack(episodes)
        assert sorted(data.turn_of.tolist()) == [row for row, n in enumerate(n_tokens(episodes)) for _ in range(n)]
        lengths[name] = max(map(len, made.recorder.sent))
        conversations = max(turn.conversation for episode in episodes for turn in episode.turns)
        assert (conversations > 0) == (name == "sliding_window")
    assert lengths["sliding_window"] < lengths["full"]


def n_tokens(episodes):
    """Return the sampled tokens of each turn, in the order of the turn table."""
    return [
        sum(len(part.ids) for part in turn.segments if part.kind == "sampled")
        for episode in episodes
        for turn in sorted(episode.turns, key=lambda turn: (turn.seat, turn.turn_index))
    ]
