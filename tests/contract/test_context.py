"""What every context strategy must hold, for every file found in the slot."""

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import PluginError
from sparring.play.context.base import ContextWindow, WriteMemory
from sparring.testing import check_context, context_seen
from tests.cases import every_case


@pytest.mark.parametrize("name", registry.names("context"))
def test_the_public_check_passes(name):
    check_context(registry.bind("context", name))


def unchanged(seen):
    return ContextWindow(seen.past, seen.text)


def backwards(seen):
    return ContextWindow(seen.past[::-1], seen.text)


def twice(seen):
    return ContextWindow(seen.past * 2, seen.text)


def reworded(seen):
    return ContextWindow(tuple(exchange._replace(reply_ids=(99, 2)) for exchange in seen.past), seen.text)


def untold(seen):
    return ContextWindow(seen.past, None)


def listing(seen):
    return [*seen.past, seen.text]


def never_enough(seen):
    return WriteMemory("again")


def wordless(seen):
    return (
        WriteMemory(" ")
        if seen.past and not seen.past[-1].memory and not seen.again
        else ContextWindow(seen.past, seen.text)
    )


def forgetful(seen, calls=[]):  # noqa: B006
    """Counts how often it was asked."""
    calls.append(1)
    return ContextWindow(seen.past if len(calls) % 2 else (), seen.text)


def failing(seen):
    return seen.nothing


def test_one_that_keeps_the_contract_passes():
    check_context(unchanged)


@every_case(
    ("strategy", "message"),
    [
        (backwards, "'backwards' .context. breaks the ledger"),
        (twice, "'twice' .context. breaks the ledger"),
        (reworded, "'reworded' .context. breaks the ledger"),
        (untold, "must return ContextWindow.past, text. or WriteMemory"),
        (listing, "must return ContextWindow"),
        (never_enough, "without anything new to remember"),
        (wordless, "must request a memory by a text"),
        (failing, "'failing' .context. failed in test_context.py"),
    ],
)
def test_one_that_breaks_it_is_named(strategy, message):
    with pytest.raises(PluginError, match=message):
        check_context(strategy)


def test_one_that_changes_its_mind_is_found():
    with pytest.raises(AssertionError, match=r"'forgetful' .context. must answer equal requests equally"):
        check_context(forgetful)


def test_one_that_says_it_shows_everything_must(monkeypatch):
    monkeypatch.setattr("sparring.play.context.sliding_window.GROWS", True, raising=False)
    with pytest.raises(AssertionError, match=r"'sliding_window' .context. says GROWS but hides something"):
        check_context(registry.bind("context", "sliding_window", {"exchanges": 1}))


def test_questions_for_tests_are_what_they_say():
    seen = context_seen("one", "two", "three", again=True)
    assert [(exchange.prompt, exchange.reply_ids) for exchange in seen.past] == [("one", (97, 2)), ("two", (97, 2))]
    assert (seen.text, seen.observation.view, seen.again, seen.tokens) == ("three", "THREE", True, 12)
