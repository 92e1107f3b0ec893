"""The contract of context strategies, for every file in the slot."""

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import PluginError
from sparring.play.context.base import ContextWindow, WriteMemory
from sparring.testing import check_context, context_seen
from tests.cases import every_case


@pytest.mark.parametrize("name", registry.names("context"))
def test_the_public_check_passes(name):
    check_context(registry.bind("context", name))


def show_everything(request):
    return ContextWindow(request.past, request.text)


def reverse_order(request):
    return ContextWindow(request.past[::-1], request.text)


def show_twice(request):
    return ContextWindow(request.past * 2, request.text)


def change_replies(request):
    return ContextWindow(tuple(exchange._replace(reply_ids=(99, 2)) for exchange in request.past), request.text)


def hide_the_prompt(request):
    return ContextWindow(request.past, None)


def return_a_list(request):
    return [*request.past, request.text]


def always_write_memory(request):
    return WriteMemory("again")


def write_empty_memory(request):
    return (
        WriteMemory(" ")
        if request.past and not request.past[-1].is_memory and not request.is_retry
        else ContextWindow(request.past, request.text)
    )


def hide_every_second_time(request, calls=[]):  # noqa: B006
    calls.append(1)
    return ContextWindow(request.past if len(calls) % 2 else (), request.text)


def raise_an_error(request):
    return request.nothing


def test_a_strategy_that_keeps_the_contract_passes():
    check_context(show_everything)


@every_case(
    ("strategy", "message"),
    [
        (reverse_order, "'reverse_order' .context. breaks the ledger"),
        (show_twice, "'show_twice' .context. breaks the ledger"),
        (change_replies, "'change_replies' .context. breaks the ledger"),
        (hide_the_prompt, "must return ContextWindow.past, text. or WriteMemory"),
        (return_a_list, "must return ContextWindow"),
        (always_write_memory, "without a new exchange since the last memory"),
        (write_empty_memory, "must request a memory by a text"),
        (raise_an_error, "'raise_an_error' .context. failed in test_context.py"),
    ],
)
def test_a_strategy_that_breaks_the_contract_is_refused_by_name(strategy, message):
    with pytest.raises(PluginError, match=message):
        check_context(strategy)


def test_a_strategy_that_answers_differently_each_time_is_refused():
    with pytest.raises(AssertionError, match=r"'hide_every_second_time' .context. must answer equal requests equally"):
        check_context(hide_every_second_time)


def test_a_strategy_that_declares_grows_must_show_everything(monkeypatch):
    monkeypatch.setattr("sparring.play.context.sliding_window.GROWS", True, raising=False)
    with pytest.raises(AssertionError, match=r"'sliding_window' .context. says GROWS but hides something"):
        check_context(registry.bind("context", "sliding_window", {"exchanges": 1}))


def test_context_seen_builds_a_request_for_tests():
    request = context_seen("one", "two", "three", is_retry=True)
    assert [(exchange.prompt, exchange.reply_ids) for exchange in request.past] == [("one", (97, 2)), ("two", (97, 2))]
    assert (request.text, request.observation.view, request.is_retry, request.tokens) == ("three", "THREE", True, 12)
