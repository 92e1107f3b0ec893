"""Random episodes that check the contract of environments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import HasFigures, Play, close_play, random_reply, read_reply
from sparring.environments.foreign import environment_call

NO_ACTION = "zzzqqq"  # a reply that is not an action of any environment
# replies that an environment with free text must accept or refuse
ODD_REPLIES = ("", " ", "²", "-1", "1e999", "two words", "\u202e\x00", "9" * 1_000)


class CheckedEnvironmentCall(environment_call):
    """A call into an environment; a failed assertion does not count as an error of its code."""

    __slots__ = ()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        super().__exit__(kind, None if isinstance(error, AssertionError) else error, trace)


def play_randomly(rules: Any, name: str, stream: Stream, *, copies: bool) -> Iterator[Any]:
    """Play at random and yield observations, replies and returns; with ``copies``, on copies."""
    play = rules.reset(stream.child("deal"))
    try:
        turns, reply_stream = 0, stream.child("play")
        while not play.done:
            due = tuple(play.due())
            assert (
                due and list(due) == sorted(set(due)) and 0 <= due[0] <= due[-1] < rules.num_seats
            ), (
                f"{name}: due() returned {due} after {turns} replies, before the end; "
                f"return the due seats, ascending, from 0 to {rules.num_seats - 1}."
            )
            assert turns + len(due) <= rules.max_turns, (
                f"{name}: max_turns = {rules.max_turns} is too small: a play goes on after it."
            )
            if copies and hasattr(play, "clone"):
                previous, play = play, play.clone()
                close_play(previous)
            yield [_check_observation(play, name, seat) for seat in due]
            replies = {}
            for seat in due:
                legal = play.legal(seat)
                _check_legal(play, name, seat, legal)
                stream_of_seat = reply_stream.child(turns).child(seat)
                replies[seat] = random_reply(play, seat, legal, stream_of_seat)
            yield replies
            if copies:  # once per episode, which is played three times
                for seat in due:
                    _check_odd_replies(play, name, seat, replies)
            play.step(replies)
            turns += len(due)
        yield _check_returns(play, rules, name)
    finally:
        close_play(play)


def _check_observation(play: Play, name: str, seat: int) -> Observation:
    observation = play.observe(seat)
    assert isinstance(observation, Observation) and observation.text.strip(), (
        f"{name}: observe({seat}) returned {observation!r}; return an Observation with a text."
    )
    assert play.observe(seat) == observation, (
        f"{name}: observe({seat}) changed at the second call; it may only change when "
        "the play goes on."
    )
    return observation


def _check_legal(play: Play, name: str, seat: int, legal: Any) -> None:
    if legal is None:
        return
    assert isinstance(legal, tuple) and legal and len(set(legal)) == len(legal), (
        f"{name}: the legal actions of seat {seat} are {legal!r}; return a tuple with each action "
        "once, or None if any text is legal."
    )
    for action in legal:
        read = read_reply(play, seat, legal, action, False)
        assert read == action, (
            f"{name}: the reply {action!r} is read as {read!r}; it is a legal action."
        )
    read = read_reply(play, seat, legal, NO_ACTION, False)
    assert read is None, (
        f"{name}: the reply {NO_ACTION!r} is read as {read!r}; it is not an action."
    )


def _check_odd_replies(play: Any, name: str, seat: int, replies: Mapping[int, str]) -> None:
    """Check that odd free text of a seat is refused, or played on a copy without an error."""
    if play.legal(seat) is not None:
        return
    for text in ODD_REPLIES:
        action = read_reply(play, seat, None, text, False)
        assert action is None or isinstance(action, str), (
            f"{name}: read() of {text[:20]!r} returned {action!r}; return a text, or None if the "
            "reply means no action."
        )
        if action is not None and hasattr(play, "clone"):
            copy = play.clone()
            try:
                copy.step({**replies, seat: action})
            finally:
                close_play(copy)


def _check_returns(play: Play, rules: Any, name: str) -> tuple[float, ...]:
    returns = tuple(play.returns)
    assert len(returns) == rules.num_seats, (
        f"{name}: {len(returns)} returns for {rules.num_seats} seats."
    )
    assert all(math.isfinite(value) for value in returns), (
        f"{name}: the returns {returns} are not finite."
    )
    low, high = rules.min_utility - 1e-9, rules.max_utility + 1e-9
    assert all(low <= value <= high for value in returns), (
        f"{name}: the returns {returns} are outside min_utility = {rules.min_utility} and "
        f"max_utility = {rules.max_utility}."
    )
    assert not rules.zero_sum or abs(math.fsum(returns)) <= 1e-6, (
        f"{name}: zero_sum is true, and the returns {returns} sum to {math.fsum(returns):g}; write "
        "zero_sum = False, or correct the returns."
    )
    assert not tuple(play.due()), f"{name}: seats {tuple(play.due())} are due after the end."
    if names := rules.figures:
        figures = cast(HasFigures, play).figures()
        assert sorted(figures) == sorted(names), (
            f"{name}: figures() returned {sorted(figures)}; the environment's figures are {names}."
        )
        for figure, values in figures.items():
            assert len(values) == rules.num_seats and not any(map(math.isinf, values)), (
                f"{name}: the figure {figure!r} is {values!r}; return a finite number per seat, "
                "or math.nan for a seat without a value."
            )
    return returns
