"""Tools: an environment whose seats may search and calculate before each move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.core.errors import GameError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Play, random_reply, read_reply, teams_of
from sparring.environments.combining import CombinedEnvironment, CombinedPlay, inner_of
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import TimelineMessage, heading, timeline
from sparring.environments.drawing.words import wrap_text
from sparring.environments.options import entry_of
from sparring.environments.toolbox import (
    MAX_RESULTS,
    NO_RESULT,
    SIGNS,
    calculator_result,
    parse_call,
    search_result,
    write_call,
)

Style = Literal["brief", "full"]
UNPARSED = "<unread>"  # stands for a reply that is neither a call nor a move
MAX_BRIEF_NUMBER = 99  # largest result of the calculator in brief style


class ToolEnvironment(CombinedEnvironment):
    """An environment in which seats may search and calculate before each move.

    A reply is a call of a tool, or a move in the wrapped environment. After a call the same seat
    acts again, and only this seat sees the result. If several seats move at once, a seat that has
    moved waits for the calls of the others. Each call is a turn. In full style the calls are
    ``<search>words</search>`` and ``<calculate>2*(3+4)</calculate>``; only the first call in a
    reply counts. In brief style a call is the whole reply: ``search ada box``, ``add 3 4``,
    ``subtract``, ``multiply``, ``divide``; the calculator then returns whole numbers from 0 to 99,
    and "none" for other results. A reply that is neither a call nor a move uses up a call and gets
    an error notice. After the last call only a move is legal.

    The search finds documents in ``play.library(seat)``, if the play has this method, as in the
    environment ``lookups``.

    Mathematics:
        turns <= (calls + 1) * turns of the environment
        return = return of the environment - cost * number of calls

    Pitfalls: moves that begin with the word of a call ("add ...") are impossible while calls
    remain. The rules are not searchable, so there are no exact figures, oracles or solvers.

    Args:
        environment: the environment to wrap, {name: ..., options: {...}}. null (default):
            tic_tac_toe, as an example.
        calls: largest number of calls of a seat before each of its moves, 1 to 50.
        results: largest number of documents that a search returns, 1 to 20.
        cost: cost of a call for the seat that makes it, 0 to 1.
        style: wording of the wrapped environment if its options have no style: "brief" for tiny
            models, "full" for language models. The tools use the environment's style.

    Raises:
        ConfigError: a number out of range, or the option ``environment`` names no environment.
        UnknownNameError: the environment, or an option of it, does not exist.

    Reference: Schick and others, "Toolformer", arXiv 2302.04761; Yao and others, "ReAct", arXiv
    2210.03629.
    """

    def __init__(
        self,
        *,
        environment: dict[str, Any] | None = None,
        calls: Annotated[int, Field(ge=1, le=50)] = 3,
        results: Annotated[int, Field(ge=1, le=MAX_RESULTS)] = 3,
        cost: Annotated[float, Field(ge=0, le=1)] = 0.0,
        style: Style = "brief",
    ) -> None:
        inner = inner_of("tools", environment, default="tic_tac_toe", style=style)
        super().__init__("tools", inner)
        self.calls, self.results, self.cost = calls, results, cost
        self.max_turns = inner.max_turns * (calls + 1)
        self.min_utility = inner.min_utility - cost * calls * inner.max_turns
        self.max_utility, self.utility_sum = inner.max_utility, inner.utility_sum
        self.teams = teams_of(inner)  # the cost of calls does not change the teams
        if cost:
            self.zero_sum, self.utility_sum, self.cooperative = False, None, False

    max_number = MAX_BRIEF_NUMBER

    def reset(self, stream: Stream) -> ToolPlay:
        return ToolPlay(self, self.inner.reset(stream))

    def words(self) -> tuple[str, ...]:
        """Return the words of calls and results in brief style."""
        return ("search", NO_RESULT, "spent", ";", *SIGNS, *map(str, range(self.max_number + 1)))

    def describe_tools(self, has_library: bool) -> str:
        """Return the description of the tools in full style."""
        search = f"<search>words</search> finds up to {self.results} notes in a library; "
        return (
            f"Before each move you may use tools, {self.calls} calls at most, one a reply: "
            f"{search if has_library else ''}<calculate>2*(3+4)</calculate> computes. The result "
            "of a call is told to you alone."
        )


class ToolPlay(CombinedPlay):
    """A play in which each seat may call tools before each of its moves."""

    rules: ToolEnvironment

    def __init__(self, rules: ToolEnvironment, play: Play) -> None:
        super().__init__(rules, play)
        # ``step`` assigns new objects to fields, so copies of a play may share the old ones
        self.open_calls: dict[int, tuple[tuple[str, str], ...]] = {}  # (call, result) of this move
        self.pending_moves: dict[int, str] = {}  # moves that wait for the other seats' calls
        self.informed_seats: tuple[int, ...] = ()  # seats that have seen the tools' description
        # for each seat and each earlier move, the (call, result) pairs before the move
        self.past_calls: tuple[tuple[Any, ...], ...] = ((),) * rules.num_seats
        self.num_calls = (0,) * rules.num_seats

    def redeal(self, stream: Stream) -> None:
        """Draw all remaining chance from another stream."""
        if hasattr(self.play, "redeal"):
            self.play.redeal(stream)

    @property
    def returns(self) -> tuple[float, ...]:
        """The payoffs so far, minus the cost of calls."""
        payoffs, cost = super().returns, self.rules.cost
        if not cost:
            return payoffs
        return tuple(
            value - cost * count for value, count in zip(payoffs, self.num_calls, strict=True)
        )

    def due(self) -> tuple[int, ...]:
        return tuple(seat for seat in super().due() if seat not in self.pending_moves)

    def legal(self, seat: int) -> None:
        """Return None: any text is legal, as calls are text."""
        return

    def calls_left(self, seat: int) -> int:
        """Return the number of calls that a seat has left before its move."""
        return self.rules.calls - len(self.open_calls.get(seat, ()))

    def library(self, seat: int) -> tuple[str, ...]:
        """Return the documents that a seat may search, or ()."""
        library = getattr(self.play, "library", None)
        return () if library is None else tuple(library(seat))

    def observe(self, seat: int) -> Observation:
        """Return the result of the last call, or the current play's observation."""
        calls_now = self.open_calls.get(seat, ())
        observation = super().observe(seat)
        calls = (*self.past_calls[seat], calls_now)
        key = f"{observation.key} | {calls}" if any(calls) else observation.key
        if not calls_now:
            prompt = observation.prompt
            if not self.rules.brief and seat not in self.informed_seats:
                text = self.rules.describe_tools(bool(self.library(seat)))
                prompt = f"{prompt}\n\n{text}" if prompt else text
            return observation._replace(prompt=prompt, key=key)
        result, ask, calls_left = calls_now[-1][1], observation.ask, self.calls_left(seat)
        if self.rules.brief:
            return observation._replace(
                prompt=result if calls_left else f"{result} spent",
                key=key,
                view=result,
                fresh=False,
            )
        ask = f"Calls left: {calls_left}.{' ' if ask else ''}{ask}"
        return observation._replace(prompt=result, ask=ask, key=key, view=result, fresh=False)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the call or the move in a reply; else ``UNPARSED`` if calls remain, or None."""
        calls_left = self.calls_left(seat)
        call = parse_call(reply, brief=self.rules.brief) if calls_left else None
        if call is not None:
            return write_call(*call, brief=self.rules.brief)
        legal = super().legal(seat)
        move = read_reply(self.play, seat, legal, reply, exact)
        if move is not None and (legal is None or move in legal):
            return move
        return UNPARSED if calls_left else None

    def step(self, replies: Mapping[int, str]) -> None:
        self.open_calls, self.pending_moves = dict(self.open_calls), dict(self.pending_moves)
        for seat, reply in replies.items():
            if seat not in self.due():
                raise GameError(f"{self.rules.name}: seat {seat} is not due.")
            action = self.read(seat, reply, True)
            call = parse_call(reply, brief=self.rules.brief) if self.calls_left(seat) else None
            if action is None:
                raise GameError(f"{self.rules.name}: {quoted(reply)} has no move of seat {seat}.")
            if call is None and action != UNPARSED:
                self.pending_moves[seat] = action
                continue
            result = self._result(seat, call)
            self.open_calls[seat] = (*self.open_calls.get(seat, ()), (action, result))
            num_calls = list(self.num_calls)
            num_calls[seat] += 1
            self.num_calls = tuple(num_calls)
        if self.pending_moves and not self.due():
            past_calls, moves = list(self.past_calls), self.pending_moves
            for seat in moves:
                past_calls[seat] = (*past_calls[seat], self.open_calls.get(seat, ()))
            self.informed_seats = tuple(sorted({*self.informed_seats, *moves}))
            self.past_calls, self.open_calls, self.pending_moves = tuple(past_calls), {}, {}
            super().step(moves)

    def _result(self, seat: int, call: tuple[str, str] | None) -> str:
        """Return the result of a call; None: the reply was neither a call nor a move."""
        rules, library = self.rules, self.library(seat)
        if call is None:
            error = (
                f"Your reply holds neither a call nor a move. {rules.describe_tools(bool(library))}"
            )
            return NO_RESULT if rules.brief else error
        if call[0] == "search":
            return search_result(library, call[1], limit=rules.results, brief=rules.brief)
        return calculator_result(*call, max_result=rules.max_number if rules.brief else None)

    def calls_of(self, seat: int) -> list[tuple[str, str]]:
        """Return all calls of a seat so far with their results."""
        return [
            pair
            for calls in (*self.past_calls[seat], self.open_calls.get(seat, ()))
            for pair in calls
        ]

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        super().paint(canvas, seat)
        for player, role in enumerate(self.rules.roles):
            if seat not in (None, player):
                continue
            note = f"{self.calls_left(player)} calls left" if player in self.due() else ""
            heading(canvas, f"Calls of {role}", note)
            messages = [
                TimelineMessage(_call_text(call), result, seat_colour(player))
                for call, result in self.calls_of(player)
            ]
            timeline(canvas, messages, most=8, lines=3)

    def described(self, seat: int | None) -> str:
        parts = [super().described(seat)]
        for player, role in enumerate(self.rules.roles):
            calls = self.calls_of(player) if seat in (None, player) else []
            if calls:
                call, result = calls[-1]
                text = wrap_text(f"{_call_text(call)} and was told {result}", 1, 90, 1)[0]
                parts.append(f"{role} called {text}")
        return " ".join(parts)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random sum to calculate or a random move, with equal probability."""
        if self.calls_left(seat) and stream.uniform(0) < 0.5:
            first, second = (stream.integer(number, 10) for number in (1, 2))
            argument = f"{first} {second}" if self.rules.brief else f"{first}+{second}"
            return write_call(
                "add" if self.rules.brief else "calculate", argument, brief=self.rules.brief
            )
        return random_reply(self.play, seat, super().legal(seat), stream.child("move"))


def _call_text(call: str) -> str:
    return "(neither a call nor a move)" if call == UNPARSED else call


tools = entry_of(ToolEnvironment)
