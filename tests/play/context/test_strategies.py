import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ContextError
from sparring.core.records import Observation
from sparring.engine.local import LocalEngine
from sparring.learn.pack import pack
from sparring.measure.info_states import Query
from sparring.play.context.base import ContextWindow, Ledger
from sparring.play.context.full import full
from sparring.play.context.markov import markov
from sparring.play.context.sliding_window import sliding_window
from sparring.play.context_check import check_context as tried
from sparring.play.players.base import Reply
from sparring.testing import context_seen
from sparring.testing.context import Letters

SAID = Reply(text="a", ids=(97, 2), logprobs=(-0.5, -0.25))


def test_all_of_it_is_shown_whatever_happened():
    for seen in (context_seen("x"), context_seen("x", "y", "z"), context_seen("x", "y", again=True)):
        assert full(seen) == ContextWindow(seen.past, seen.text)


def test_a_conversation_grows_by_what_is_told_and_said():
    ledger = Ledger(Letters())
    ledger.ask("x")
    first = ledger.record(SAID)
    ledger.ask("y")
    second = ledger.record(SAID)
    assert [(segment.kind, segment.ids) for segment in (*first, *second)] == [
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
    anew = Observation(prompt="y", key="", fresh=True)
    ledger.ask("y", anew)
    assert (ledger.conversation, ledger.known, ledger.ids) == (1, 0, (0, 121, 1))
    ledger.record(SAID)
    ledger.ask("no", anew, again=True)
    assert (ledger.conversation, ledger.ids) == (1, (0, 121, 1, 97, 2, 110, 111, 1))


def test_what_was_too_long_to_be_sent_stays_too_long():
    ledger = Ledger(Letters())
    ledger.ask("x")
    assert [(segment.kind, segment.ids) for segment in ledger.record(Reply(text="", truncated=True))] == [
        ("prompt", (0,)),
        ("sampled", ()),
    ]
    ledger.ask("y")
    assert (ledger.conversation, ledger.ids) == (0, (0, 120, 1, 121, 1))


SOKOBAN = {"rooms": 4, "moves": 8}


def test_by_hand_each_turn_is_the_view_and_the_question():
    ledger = Ledger(Letters(), bind("context", "markov"))
    for number, view in enumerate("VW"):
        ledger.ask("news", Observation(prompt="news", key="", view=view, ask="?"))
        assert (ledger.conversation, ledger.prompt) == (number, f"{view}\n\n?")
        assert ledger.ids == (0, ord(view), 10, 10, ord("?"), 1)
        ledger.record(Reply(text="a", ids=(97, 2), logprobs=(0.0, 0.0)))


def test_a_second_try_is_asked_the_same():
    assert markov(context_seen("x", "y", again=True)) == markov(context_seen("x", "y")) == ContextWindow((), "Y")


def test_where_what_is_told_is_the_view_the_first_turn_is_that_of_full():
    seen = context_seen("X")
    assert markov(seen) == bind("context", "full")(seen)


@given(st.lists(st.text("ab", min_size=1), max_size=6), st.lists(st.text("ab", min_size=1), max_size=6))
def test_the_past_changes_nothing(past, other):
    assert markov(context_seen(*past, "now")) == markov(context_seen(*other, "now"))


def test_in_plays_equal_views_give_equal_prompts_and_each_turn_is_a_conversation(table, lawful):
    sokoban = table("sokoban", SOKOBAN, {"name": "markov"})
    episodes = sokoban.play(12)
    lawful(sokoban, episodes)
    prompts = {}
    for episode in episodes:
        for number, turn in enumerate(episode.turns):
            assert turn.conversation == number and turn.prompt == turn.view
            prompts.setdefault(turn.view, set()).add(turn.segments[0].ids)
    assert len(prompts) > 4 and all(len(ids) == 1 for ids in prompts.values())


def test_exact_probabilities_are_those_of_the_prompts_of_plays(table):
    dice = table("liars_dice", {}, {"name": "markov"})
    episodes = dice.play(4)
    turn = next(turn for episode in episodes for turn in episode.turns if turn.turn_index == 1)
    seen = (Observation(prompt="first", key="", view="0"), Observation(prompt="other words", key="", view=turn.view))
    query = Query(
        game="liars_dice",
        seat=turn.seat,
        key=turn.state_key,
        observations=("first", "other words"),
        actions=("1-1",),
        legal_actions=turn.legal_actions,
        seen=seen,
    )
    assert dice.agent._conversation(query) == turn.segments[0].ids
    (row,) = dice.agent.action_logprobs([query])
    assert np.exp(row).sum() < 1.0


@pytest.mark.parametrize("name", ["bargain", "rock_paper_scissors", "trial"])
def test_an_environment_without_a_view_is_refused_before_anything_is_played(name):
    config = {"environments": [{"name": name}], "context": {"name": "markov"}, "model": {"hidden_size": 8, "heads": 1}}
    with pytest.raises(
        ContextError, match=f"context strategy 'markov' .context. shows only the position, and {name} has no view"
    ):
        LocalEngine(resolve(config))


def test_a_view_in_words_that_a_tiny_model_does_not_know_is_refused():
    config = {
        "environments": [{"name": "tic_tac_toe"}],
        "context": {"name": "markov"},
        "model": {"hidden_size": 8, "heads": 1},
    }
    with pytest.raises(ContextError, match=r"in tic_tac_toe, and the tiny model's vocabulary has no word '\.\.\.'"):
        LocalEngine(resolve(config))


def test_full_is_never_tried_as_it_shows_what_any_environment_tells():
    tried(bind("context", "full"), [object()], Letters())


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
    window = sliding_window(seen, exchanges=exchanges, opening=opening)
    numbers = [int(exchange.prompt) for exchange in window.past]
    opening_number = [0] if opening and count else []
    assert numbers == opening_number + list(range(max(len(opening_number), count - exchanges), count))
    assert window.text == str(count)


def test_nothing_is_shown_where_nothing_was_told():
    assert sliding_window(context_seen("x")) == ContextWindow((), "x")


def test_in_plays_it_keeps_the_law_and_bounds_the_prompts(table, lawful):
    lengths = {}
    for name, options in (("full", {}), ("sliding_window", {"exchanges": 2})):
        sokoban = table("sokoban", SOKOBAN, {"name": name, **options})
        episodes = sokoban.play()
        lawful(sokoban, episodes)
        data = pack(episodes)
        assert sorted(data.turn_of.tolist()) == [row for row, n in enumerate(n_tokens(episodes)) for _ in range(n)]
        lengths[name] = max(map(len, sokoban.recorder.sent))
        conversations = max(turn.conversation for episode in episodes for turn in episode.turns)
        assert (conversations > 0) == (name == "sliding_window")
    assert lengths["sliding_window"] < lengths["full"]


def n_tokens(episodes):
    return [
        sum(len(part.ids) for part in turn.segments if part.kind == "sampled")
        for episode in episodes
        for turn in sorted(episode.turns, key=lambda turn: (turn.seat, turn.turn_index))
    ]
