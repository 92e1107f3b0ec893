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
from sparring.play.context_check import check_context
from sparring.play.players.base import Reply
from sparring.testing import context_seen
from sparring.testing.context import Letters

REPLY = Reply(text="a", ids=(97, 2), logprobs=(-0.5, -0.25))


def test_the_strategy_full_shows_the_whole_past():
    for request in (context_seen("x"), context_seen("x", "y", "z"), context_seen("x", "y", is_retry=True)):
        assert full(request) == ContextWindow(request.past, request.text)


def test_a_conversation_grows_by_prompts_and_replies():
    ledger = Ledger(Letters())
    ledger.ask("x")
    first_segments = ledger.record(REPLY)
    ledger.ask("y")
    second_segments = ledger.record(REPLY)
    assert [(segment.kind, segment.ids) for segment in (*first_segments, *second_segments)] == [
        *(("prompt", (0, 120, 1)), ("sampled", (97, 2))),
        *(("context", (121, 1)), ("sampled", (97, 2))),
    ]
    assert (ledger.conversation, ledger.known, ledger.ids) == (0, 8, (0, 120, 1, 97, 2, 121, 1, 97, 2))


def test_if_the_renderer_edits_replies_each_turn_is_a_conversation():
    ledger = Ledger(Letters(stable=False))
    ledger.ask("x")
    ledger.record(REPLY)
    ledger.ask("y")
    assert (ledger.conversation, ledger.known, ledger.ids) == (1, 0, (0, 120, 1, 2, 121, 1))


def test_a_fresh_conversation_has_no_past_and_a_retry_continues_it():
    ledger = Ledger(Letters())
    ledger.ask("x")
    ledger.record(REPLY)
    observation = Observation(prompt="y", key="", fresh=True)
    ledger.ask("y", observation)
    assert (ledger.conversation, ledger.known, ledger.ids) == (1, 0, (0, 121, 1))
    ledger.record(REPLY)
    ledger.ask("no", observation, is_retry=True)
    assert (ledger.conversation, ledger.ids) == (1, (0, 121, 1, 97, 2, 110, 111, 1))


def test_a_prompt_that_was_too_long_stays_in_the_conversation():
    ledger = Ledger(Letters())
    ledger.ask("x")
    assert [(segment.kind, segment.ids) for segment in ledger.record(Reply(text="", truncated=True))] == [
        ("prompt", (0,)),
        ("sampled", ()),
    ]
    ledger.ask("y")
    assert (ledger.conversation, ledger.ids) == (0, (0, 120, 1, 121, 1))


SOKOBAN = {"rooms": 4, "moves": 8}


def test_markov_sends_view_and_question_by_hand():
    ledger = Ledger(Letters(), bind("context", "markov"))
    for conversation, view in enumerate("VW"):
        ledger.ask("news", Observation(prompt="news", key="", view=view, ask="?"))
        assert (ledger.conversation, ledger.prompt) == (conversation, f"{view}\n\n?")
        assert ledger.ids == (0, ord(view), 10, 10, ord("?"), 1)
        ledger.record(Reply(text="a", ids=(97, 2), logprobs=(0.0, 0.0)))


def test_markov_repeats_the_prompt_for_a_retry():
    assert markov(context_seen("x", "y", is_retry=True)) == markov(context_seen("x", "y")) == ContextWindow((), "Y")


def test_markov_equals_full_in_the_first_turn_if_prompt_and_view_agree():
    request = context_seen("X")
    assert markov(request) == bind("context", "full")(request)


@given(st.lists(st.text("ab", min_size=1), max_size=6), st.lists(st.text("ab", min_size=1), max_size=6))
def test_markov_does_not_depend_on_the_past(past, other_past):
    assert markov(context_seen(*past, "now")) == markov(context_seen(*other_past, "now"))


def test_markov_sends_equal_prompts_for_equal_views(context_game, check_ids_sent):
    sokoban = context_game("sokoban", SOKOBAN, {"name": "markov"})
    episodes = sokoban.play(12)
    check_ids_sent(sokoban, episodes)
    prompts_by_view = {}
    for episode in episodes:
        for index, turn in enumerate(episode.turns):
            assert turn.conversation == index and turn.prompt == turn.view
            prompts_by_view.setdefault(turn.view, set()).add(turn.segments[0].ids)
    assert len(prompts_by_view) > 4 and all(len(ids) == 1 for ids in prompts_by_view.values())


def test_exact_probabilities_use_the_prompts_of_episodes(context_game):
    dice = context_game("liars_dice", {}, {"name": "markov"})
    episodes = dice.play(4)
    turn = next(turn for episode in episodes for turn in episode.turns if turn.turn_index == 1)
    observations = (
        Observation(prompt="first", key="", view="0"),
        Observation(prompt="other words", key="", view=turn.view),
    )
    query = Query(
        game="liars_dice",
        seat=turn.seat,
        key=turn.state_key,
        observations=("first", "other words"),
        actions=("1-1",),
        legal_actions=turn.legal_actions,
        seen=observations,
    )
    assert dice.agent._conversation(query) == turn.segments[0].ids
    (row,) = dice.agent.action_logprobs([query])
    assert np.exp(row).sum() < 1.0


@pytest.mark.parametrize("name", ["bargain", "rock_paper_scissors", "trial"])
def test_markov_refuses_an_environment_without_a_view(name):
    config = {"environments": [{"name": name}], "context": {"name": "markov"}, "model": {"hidden_size": 8, "heads": 1}}
    with pytest.raises(
        ContextError, match=f"context strategy 'markov' .context. shows only the position, and {name} has no view"
    ):
        LocalEngine(resolve(config))


def test_markov_refuses_a_view_with_words_unknown_to_the_tiny_model():
    config = {
        "environments": [{"name": "tic_tac_toe"}],
        "context": {"name": "markov"},
        "model": {"hidden_size": 8, "heads": 1},
    }
    with pytest.raises(ContextError, match=r"in tic_tac_toe, and the tiny model's vocabulary has no word '\.\.\.'"):
        LocalEngine(resolve(config))


def test_full_fits_every_environment():
    check_context(bind("context", "full"), [object()], Letters())


def test_a_window_of_one_exchange_by_hand():
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
        (1, (0, w, 1, 97, 2, y, 1, 99, 2, z, 1)),  # x and b are no longer in the window
    ]


def test_a_truncated_reply_gets_its_end_token_if_shown_again():
    ledger = Ledger(Letters(), bind("context", "sliding_window", {"exchanges": 1, "opening": False}))
    for text in "xy":
        ledger.ask(text)
        ledger.record(Reply(text="a", ids=(97,), logprobs=(0.0,), truncated=True))
    ledger.ask("z")
    assert ledger.ids == (0, ord("y"), 1, 97, 2, ord("z"), 1)


def test_a_window_larger_than_the_conversation_equals_full():
    request = context_seen(*"abcdef")
    for exchanges in (4, 5, 6, 100):
        assert sliding_window(request, exchanges=exchanges) == full(request)
    assert sliding_window(request, exchanges=5, opening=False) == full(request)


@given(st.integers(0, 12), st.integers(1, 8), st.booleans())
def test_a_window_shows_the_newest_exchanges(count, exchanges, opening):
    request = context_seen(*map(str, range(count + 1)))
    window = sliding_window(request, exchanges=exchanges, opening=opening)
    shown_exchanges = [int(exchange.prompt) for exchange in window.past]
    opening_exchange = [0] if opening and count else []
    assert shown_exchanges == opening_exchange + list(range(max(len(opening_exchange), count - exchanges), count))
    assert window.text == str(count)


def test_the_first_window_has_no_past():
    assert sliding_window(context_seen("x")) == ContextWindow((), "x")


def test_in_episodes_a_window_bounds_the_prompts(context_game, check_ids_sent):
    max_prompt_lengths = {}
    for name, options in (("full", {}), ("sliding_window", {"exchanges": 2})):
        sokoban = context_game("sokoban", SOKOBAN, {"name": name, **options})
        episodes = sokoban.play()
        check_ids_sent(sokoban, episodes)
        batch = pack(episodes)
        assert sorted(batch.turn_of.tolist()) == [
            row for row, num_tokens in enumerate(num_sampled_tokens(episodes)) for _ in range(num_tokens)
        ]
        max_prompt_lengths[name] = max(map(len, sokoban.recorder.sent))
        last_conversation = max(turn.conversation for episode in episodes for turn in episode.turns)
        assert (last_conversation > 0) == (name == "sliding_window")
    assert max_prompt_lengths["sliding_window"] < max_prompt_lengths["full"]


def num_sampled_tokens(episodes):
    return [
        sum(len(segment.ids) for segment in turn.segments if segment.kind == "sampled")
        for episode in episodes
        for turn in sorted(episode.turns, key=lambda turn: (turn.seat, turn.turn_index))
    ]
