"""What an environment must keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from sparring.environments.own import check_own
from sparring.registry import Bound
from sparring.rng import Stream
from sparring.testing.given import bound, same
from sparring.types import Observation

NOTHING = "zzzqqq"  # a reply that no environment reads as an action


def check_environment(
    environment: Callable[..., Any] | Bound, *, plays: int = 30, seed: int = 0, **options: Any
) -> None:
    """Check an environment by random plays.

    Every play ends within ``max_turns``; at each turn one seat is to act and has legal actions,
    each told apart and read back from a reply that is the action; every seat is told something; a
    reply without an action reads as None. Returns are one finite number per seat. The same stream
    gives the same play.

    Args:
        environment: the function that makes it, or the plug-in bound.
        plays: how many.
        seed: of the plays.
        options: of the function.

    Raises:
        AssertionError: it does not keep one of these.
        GameError: it lacks what play asks for.
    """
    made = bound("environments", environment, options)
    game = made()
    name = made.plugin.name
    check_own(name, game)
    assert game.num_seats == len(game.roles) == len(set(game.roles)), (
        f"{name}: {game.num_seats} seats have the roles {game.roles}."
    )
    root = Stream.from_seed(seed)
    for number in range(plays):
        told = [*_played(game, name, root.child(number))]
        same(
            told,
            [*_played(game, name, root.child(number))],
            f"{name}: the same stream must give the same play",
        )


def _played(game: Any, name: str, stream: Stream) -> Iterator[Any]:
    """Play at random; yield what tells a play from another."""
    state, turns = game.reset(stream.child("deal")), 0
    while not state.done:
        assert turns < game.max_turns, (
            f"{name}: a play goes on after max_turns = {game.max_turns} turns."
        )
        assert 0 <= state.seat < game.num_seats, (
            f"{name}: at turn {turns} the seat to act is {state.seat}, and the play is not done."
        )
        legal = state.legal_actions()
        assert legal and len(set(legal)) == len(legal), (
            f"{name}: the legal actions at turn {turns} are {legal}; give each once."
        )
        for action in legal:
            read = state.parse(action)
            assert read == action, (
                f"{name}: the reply {action!r} is read as {read!r}; it is a legal action."
            )
        assert state.parse(NOTHING) is None, (
            f"{name}: the reply {NOTHING!r} is read as {state.parse(NOTHING)!r}; it is no action."
        )
        for seat in range(game.num_seats):
            seen = state.observe(seat, 0)
            fine = isinstance(seen, Observation) and seen.text.strip()
            assert fine, (
                f"{name}: observe({seat}, 0) gave {seen!r}; give an Observation with a text."
            )
            yield seen.text, seen.key
        action = legal[stream.child("play").integer(turns, len(legal))]
        state.apply(action)
        turns += 1
        yield action
    returns = tuple(state.returns)
    assert len(returns) == game.num_seats, (
        f"{name}: {len(returns)} returns for {game.num_seats} seats."
    )
    assert all(math.isfinite(value) for value in returns), (
        f"{name}: the returns {returns} are not finite."
    )
    assert not state.legal_actions(), (
        f"{name}: there are legal actions after the end: {state.legal_actions()}."
    )
    yield returns
