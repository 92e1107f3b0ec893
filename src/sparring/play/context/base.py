"""What a seat sees of its past: the question to a context strategy, and the answers it may give.

A strategy is a function of what one seat has been through. It is asked whenever the seat is to be
told something, and answers in one of two ways:

``Shown``
    The exchanges of the past that stand in the conversation, and the text that is told after them.
    If they are those of the conversation that goes on, the text is added to it. If not, a new
    conversation is laid out, of the exchanges' own ids. Each conversation is one sequence to train
    on, and a reply is trained in the conversation in which it was sampled.
``Rewrite``
    Before it is told anything the seat is to write its memory anew. What it replies is a turn of
    its own, which is recorded and trained and moves no play. Then the strategy is asked again, and
    finds the memory as the last exchange of the past.

A strategy that always shows everything says ``GROWS = True``, and is not asked: the ledger adds
what is told to a conversation that only grows.

A strategy decides nothing else. It cannot change an id that was sampled or told, and a seat that
the environment gives a fresh conversation has no past under any strategy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sparring.config.plugins.registry import Bound
from sparring.core.errors import ContextError, PluginError
from sparring.core.records import Observation
from sparring.environments.base import Environment

GIVEN = {  # what NEEDS may name
    "view": "what a seat sees of the position now, at every turn (Observation.view)",
    "notes": "notes between attempts (Observation.note, as in the environment trial)",
}


class Exchange(NamedTuple):
    """One turn of a seat as it was laid out: what it was told, and the ids of its reply."""

    told: str
    said: tuple[int, ...]  # as sampled; empty where the conversation was too long to be sent
    closing: tuple[int, ...]  # the scaffold that closes a reply which does not close itself
    observation: Observation  # of the turn
    reply: str = ""  # as text
    memory: bool = False  # whether the reply is a memory that the strategy asked for


class Seen(NamedTuple):
    """A seat that is to be told something, as a strategy is asked about it."""

    # of the turn that is due; where an environment has none, its text alone
    observation: Observation
    # what it has not been told yet: ``observation.text``, and before it, or in its place where the
    # seat tries again, a word about its last reply
    text: str
    # everything since the environment last began a fresh conversation, oldest first
    past: tuple[Exchange, ...] = ()
    tokens: int = 0  # of the conversation that goes on
    again: bool = False  # whether the seat tries again after a reply that was no legal action
    brief: bool = False  # whether the environment speaks in the words of a small vocabulary


class Shown(NamedTuple):
    """What stands in the conversation: exchanges of ``Seen.past``, in order, then a text."""

    past: tuple[Exchange, ...]
    text: str


class Rewrite(NamedTuple):
    """A memory is to be written first."""

    request: str  # what the seat is told, in the conversation that goes on
    example: str = ""  # what is written in the warm-up, which imitates


def grows(strategy: Bound) -> bool:
    """Return whether a strategy always shows everything, so that it need not be asked."""
    return bool(getattr(strategy.plugin.module, "GROWS", False))


def no_view(strategy: Bound, environment: Environment | None) -> ContextError:
    """Return the error of an environment that does not say what a seat sees of the position."""
    name = "the environment" if environment is None else environment.name
    return ContextError(
        f"The {strategy} shows the position alone, and {name} has no view of it at some turn "
        "(Observation.view is empty). Write context: {name: full}, or let the environment's "
        "observe give a view."
    )


def no_notes(strategy: Bound, environment: Environment) -> ContextError:
    """Return the error of an environment without notes between attempts."""
    name = environment.name
    return ContextError(
        f"The {strategy} shows what a seat noted in earlier attempts, and {name} has no notes. "
        "Write context: {name: full}, or play an environment such as {name: trial, options: "
        "{environment: {name: rock_paper_scissors}, attempts: 3, reflect: true}}."
    )


def check_output(strategy: Bound, given: Any, seen: Seen) -> None:
    """Check what a strategy has answered; every call of one ends here.

    Raises:
        PluginError: it shows what is not the seat's own past, in another order, or twice; or it
            asks for a memory where nothing has happened since the last one.
    """
    if isinstance(given, Rewrite):
        if not isinstance(given.request, str) or not given.request.strip():
            raise PluginError(
                f"The {strategy} must ask for a memory in words; it asked {given.request!r}."
            )
        if seen.again or not seen.past or seen.past[-1].memory:
            raise PluginError(
                f"The {strategy} asked for a memory where there is nothing new to remember, or "
                "where the seat tries again; return Shown there (see Seen.past and Seen.again)."
            )
        return
    if not isinstance(given, Shown) or not isinstance(given.text, str):
        raise PluginError(
            f"The {strategy} must return Shown(past, text) or Rewrite(request); it "
            f"returned {given!r:.100}."
        )
    if given.past is seen.past:
        return
    places = {id(one): place for place, one in enumerate(seen.past)}
    found = [places.get(id(one), -1) for one in given.past]
    if -1 in found or found != sorted(set(found)):
        raise PluginError(
            f"The {strategy} breaks the ledger: it shows what is not the seat's own past as it was "
            "told and said. Take exchanges of Seen.past as they are, in their order, each once."
        )
