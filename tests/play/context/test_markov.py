"""The position alone is shown: equal views give equal prompts, whatever led there."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ContextError
from sparring.core.records import Observation
from sparring.engine.local import LocalEngine
from sparring.measure.info_states import Query
from sparring.play.context.base import Shown
from sparring.play.context.ledger import Ledger
from sparring.play.context.markov import markov
from sparring.play.context_check import check_context as tried
from sparring.play.players.base import Reply
from sparring.testing import check_context, context_seen
from sparring.testing.context import Letters

SOKOBAN = {"rooms": 4, "moves": 8}


def test_by_hand_each_turn_is_the_view_and_the_question():
    ledger = Ledger(Letters(), bind("context", "markov"))
    for number, view in enumerate("VW"):
        ledger.ask("news", Observation(told="news", key="", view=view, ask="?"))
        assert (ledger.conversation, ledger.told) == (number, f"{view}\n\n?")
        assert ledger.ids == (0, ord(view), 10, 10, ord("?"), 1)
        ledger.record(Reply(text="a", ids=(97, 2), logprobs=(0.0, 0.0)))


def test_a_second_try_is_asked_the_same():
    assert markov(context_seen("x", "y", again=True)) == markov(context_seen("x", "y")) == Shown((), "Y")


def test_where_what_is_told_is_the_view_the_first_turn_is_that_of_full():
    seen = context_seen("X")
    assert markov(seen) == bind("context", "full")(seen)


@given(st.lists(st.text("ab", min_size=1), max_size=6), st.lists(st.text("ab", min_size=1), max_size=6))
def test_the_past_changes_nothing(one, other):
    assert markov(context_seen(*one, "now")) == markov(context_seen(*other, "now"))


def test_the_public_check_passes():
    check_context(markov)


def test_in_plays_equal_views_give_equal_prompts_and_each_turn_is_a_conversation(table, lawful):
    made = table("sokoban", SOKOBAN, {"name": "markov"})
    episodes = made.play(12)
    lawful(made, episodes)
    prompts = {}
    for episode in episodes:
        for number, turn in enumerate(episode.turns):
            assert turn.conversation == number and turn.told == turn.view
            prompts.setdefault(turn.view, set()).add(turn.segments[0].ids)
    assert len(prompts) > 4 and all(len(found) == 1 for found in prompts.values())


def test_exact_probabilities_are_those_of_the_prompts_of_plays(table):
    """The laying out of exact evaluation is that of the rollout: the view stands in the query's records."""
    made = table("liars_dice", {}, {"name": "markov"})
    episodes = made.play(4)
    turn = next(turn for episode in episodes for turn in episode.turns if turn.turn_index == 1)
    seen = (Observation(told="first", key="", view="0"), Observation(told="other words", key="", view=turn.view))
    query = Query(
        game="liars_dice",
        seat=turn.seat,
        key=turn.state_key,
        observations=("first", "other words"),
        actions=("1-1",),
        legal_actions=turn.legal_actions,
        seen=seen,
    )
    assert made.agent._conversation(query) == turn.segments[0].ids
    (row,) = made.agent.action_logprobs([query])
    assert np.exp(row).sum() < 1.0


@pytest.mark.parametrize("name", ["bargain", "rock_paper_scissors", "trial"])
def test_an_environment_without_a_view_is_refused_before_anything_is_played(name):
    config = {"environments": [{"name": name}], "context": {"name": "markov"}, "model": {"hidden_size": 8, "heads": 1}}
    with pytest.raises(ContextError, match=f"context strategy 'markov' .context. shows the position alone, and {name} has no view"):
        LocalEngine(resolve(config))


def test_a_view_in_words_that_a_tiny_model_does_not_know_is_refused():
    config = {"environments": [{"name": "tic_tac_toe"}], "context": {"name": "markov"}, "model": {"hidden_size": 8, "heads": 1}}
    with pytest.raises(ContextError, match=r"in tic_tac_toe, and the tiny model's vocabulary has no word '\.\.\.'"):
        LocalEngine(resolve(config))


def test_full_is_never_tried_as_it_shows_what_any_environment_tells():
    tried(bind("context", "full"), [object()], Letters())
