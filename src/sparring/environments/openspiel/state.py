"""One play of a game of OpenSpiel's.

Every chance outcome is drawn from the play's own stream by counter, with the game's true
probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sparring.core.errors import GameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.painted import Painted
from sparring.environments.openspiel.capabilities import EnumerableState
from sparring.environments.openspiel.position import Position

if TYPE_CHECKING:
    from sparring.environments.openspiel.base import Game


class State(EnumerableState, Painted):
    """One play of a game.

    Attributes:
        game: the rules.
        spiel: OpenSpiel's state, shared with other plays of the game; never apply actions to it.
        seat: whose turn it is, or -1 (game over, or a chance node of a state without a stream).
        done: whether the game is over.
        plies: number of seats' actions so far.
        trail: every event so far, chance included.
        draws: number of chance outcomes drawn so far from ``stream``.
    """

    __slots__ = (
        "_position",
        "_seen",
        "done",
        "draws",
        "game",
        "plies",
        "seat",
        "stream",
        "trail",
    )

    def __init__(
        self,
        game: Game,
        position: Position,
        stream: Stream | None,
        draws: int = 0,
        seen: Sequence[int] = (),
    ) -> None:
        self.game, self.stream, self.draws = game, stream, draws
        # plies that each seat has been told of
        self._seen = list(seen) or [0] * game.num_seats
        self._enter(position)

    def _enter(self, position: Position) -> None:
        """Stand at a position."""
        self._position, self.spiel, self.trail, self.plies = (
            position,
            position.spiel,
            position.trail,
            position.plies,
        )
        self.seat, self.done = position.seat, position.done

    def settle(self) -> None:
        """Draw chance outcomes until a seat is to act or the game is over.

        Nothing is drawn without a stream.
        """
        stream, position = self.stream, self._position
        if position.seat >= 0 or position.done or stream is None:
            return
        while position.seat < 0 and not position.done:
            position = position.child(position.drawn(stream.uniform(self.draws)), self.game)
            self.draws += 1
        self._enter(position)

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far, [num_seats], cumulative."""
        return self._position.returns()

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions of the seat to act, as words."""
        position = self._position
        if position.words is None:
            position.words = self.game.legal_words(self, position.legal()) if self.seat >= 0 else ()
        return position.words

    def legal_indices(self) -> list[int]:
        """Return the OpenSpiel action ids of the legal actions, in the same order.

        Not to be changed.
        """
        return self._position.legal()

    def action_index(self, action: str) -> int:
        """Return the OpenSpiel action id of a legal action word.

        Raises:
            GameError: the action is not legal here.
        """
        words = self.legal_actions()
        if action not in words:
            listed = ", ".join(words) or "none, the game is over"
            raise GameError(
                f"{self.game.name}: action {action!r} is not legal at ply {self.plies}; legal "
                f"actions: {listed}."
            )
        return self._position.legal()[words.index(action)]

    def apply(self, action: str) -> None:
        """Play an action word for the seat to act.

        Then draw chance outcomes up to the next decision.

        Raises:
            GameError: the action is not legal here.
        """
        self._play(self.action_index(action))

    def apply_index(self, index: int) -> None:
        """Play an OpenSpiel action id (a chance outcome's too, in a state without a stream).

        Raises:
            GameError: the id is not legal here.
        """
        legal = self._position.legal()
        if index not in legal:
            raise GameError(
                f"{self.game.name}: action id {index} is not legal at ply {self.plies}; legal "
                f"ids: {legal}."
            )
        self._play(index)

    def _play(self, index: int) -> None:
        """Apply a legal action id of the seat to act (or of chance)."""
        self._enter(self._position.child(index, self.game))
        if self.seat < 0:
            self.settle()

    def due(self) -> tuple[int, ...]:
        """Return the seat to act, alone; none when the play is over."""
        return (self.seat,) if self.seat >= 0 else ()

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the legal actions of a seat that is due, as words."""
        return self.legal_actions()

    def step(self, replies: Mapping[int, str]) -> None:
        """Play the action of the seat that is due.

        Raises:
            GameError: the action is not legal here, or another seat is due.
        """
        ((seat, action),) = replies.items()
        if seat != self.seat:
            raise GameError(f"{self.game.name}: seat {seat} is not due; seat {self.seat} is.")
        index = self.action_index(action)
        self._seen[seat] = self.plies + 1
        self._play(index)

    def redeal(self, stream: Stream) -> None:
        """Draw chance outcomes from another stream from here on."""
        self.stream = stream

    def overview(self, seat: int) -> Observation:
        """Return everything that ``seat`` may be told, from the start on."""
        return self.observe(seat, 0)

    def observe(self, seat: int, since: int | None = None) -> Observation:
        """Return what ``seat`` is to be told, and the key of its information state.

        Args:
            seat: who is told.
            since: None: what it has not been told yet. 0 for a complete opening with everything
                public so far. Otherwise ``plies`` right
                after the seat's last own action: only what happened from there on is told, and the
                seat's own actions are not repeated.

        Returns:
            An observation whose text is never empty: a pure function of (position, seat, since).
        """
        told = self._position.told
        if since is None:
            since = self._seen[seat]
        found = told.get((seat, since))
        if found is None:
            text, ask = self.game.told(self, seat, since)
            found = told[seat, since] = Observation(
                told=text,
                ask=ask,
                key=self.game.key(self, seat),
                view=self.game.view(self, seat),
            )
        return found

    def ending(self, seat: int) -> str:
        """Return what a seat has not been told of a play that is over."""
        return self.game.told(self, seat, self._seen[seat])[0]

    def shown(self, seat: int) -> str:
        """Return what the rules show a seat of a play that is over, beside its ``ending``."""
        return self.game.shown(self, seat) if self.done else ""

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the position as a seat sees it; None: nothing is hidden."""
        self.game.paint(canvas, self, seat)

    def described(self, seat: int | None) -> str:
        """Return the position in a sentence or two, as a seat knows it; None: nothing is hidden."""
        return self.game.describe(self, seat)

    def parse(self, reply: str, exact: bool = False) -> str | None:
        """Return the canonical action word written in ``reply``, legal or not.

        None if there is none.

        ``exact``: nothing but the word will do.
        """
        return self.game.parse(self, reply, exact)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action word in the reply of a seat that is due; see ``parse``."""
        return self.game.parse(self, reply, exact)

    def clone(self) -> State:
        """Return an independent copy: same position, same stream, same draw counter."""
        return State(self.game, self._position, self.stream, self.draws, self._seen)
