"""Games as text: rules from OpenSpiel, wording and parsing from one small file per game.

A ``Game`` holds the constant part (rules, roles, wording), and a ``State`` is one play of it. Draw
n of a play's stream chooses its chance outcome n, with the game's probabilities.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pyspiel

from sparring.core.errors import GameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Environment, IllegalRule, Node
from sparring.environments.drawing.canvas import Canvas, PaintedPlay, seat_colour
from sparring.environments.drawing.pieces import (
    due_sentence,
    paragraph,
    printed_lines,
    seats,
    strip,
)
from sparring.environments.openspiel.position import CHANCE, Event, Position, events_since, trail_of
from sparring.environments.reply import REPLY, ReplyParser, Style

__all__ = ["CHANCE", "NOTHING", "Event", "Game", "Position", "State", "Style"]

NOTHING = "."  # prompt in brief style without news
ILLEGAL = "illegal"  # prompt in brief style after an illegal reply
_PERFECT = pyspiel.GameType.Information.PERFECT_INFORMATION


class Wording:
    """The prompts of a game, in brief or full style.

    Subclasses set ``title`` (the word for the game in brief style) and ``rules`` (for full style).
    Subclasses may override ``private``, ``private_words``, ``position`` and ``chance_event``, and
    for human readers ``picture``, ``on_table`` and ``revealed``.
    """

    title: str = ""
    rules: str = ""
    brief: bool
    num_seats: int
    roles: tuple[str, ...]
    words: tuple[str, ...]

    def word_of(self, state: State, player: int, index: int) -> str:
        """Return the word of an action id in ``state``."""
        return self.words[index]

    def vocabulary(self) -> tuple[str, ...]:
        """Return the sorted words, without blanks, of the brief wording and the actions."""
        return tuple(
            sorted({self.title, NOTHING, ILLEGAL, *self.roles, *self.words, *self.private_words()})
        )

    def private_words(self) -> tuple[str, ...]:
        """Return the words of ``private`` and ``chance_event`` in brief style."""
        return ()

    def private(self, state: State, seat: int) -> str:
        """Return the private information of the seat at the start, in the game's style, or ""."""
        return ""

    def position(self, state: State, seat: int) -> str:
        """Return the position in characters for full style, such as a board, or ""."""
        return ""

    def picture(self, state: State, seat: int) -> str:
        """Return the position for a person: as in full style, or with coordinates added."""
        return self.position(state, seat)

    def on_table(self, state: State, seat: int) -> str:
        """Return more text for people only, such as the pot, or ""; models never read it."""
        return ""

    def revealed(self, state: State) -> str:
        """Return the hidden information in full style, for people after the game is over, or ""."""
        return ""

    def shown(self, state: State, seat: int) -> str:
        """Return what the rules show a seat at the end, such as the cards of a show-down, or ""."""
        return ""

    def scene(self, state: State, seat: int, since: int) -> str:
        """Return private information, news from ply ``since`` on and the position, for people."""
        news = " ".join(self.events(state, seat, since))
        parts = (
            self.private(state, seat),
            news,
            self.picture(state, seat),
            self.on_table(state, seat),
        )
        return "\n\n".join(part for part in parts if part)

    def chance_event(self, state: State, seat: int, event: Event) -> str:
        """Return the wording of a chance outcome that ``seat`` sees, or ""."""
        return ""

    def action_event(self, state: State, seat: int, event: Event) -> str:
        """Return the wording of a seat's action, as ``seat`` sees it."""
        word = self.word_of(state, event.player, event.action)
        if self.brief:
            return word if self.num_seats <= 2 else f"{self.roles[event.player]} {word}"
        return (
            f"You chose {word}."
            if event.player == seat
            else f"The player {self.roles[event.player]!r} chose {word}."
        )

    def tell_seat(self, state: State, seat: int, since: int) -> tuple[str, str]:
        """Return the text of an observation and its question; see ``State.observe``."""
        events = self.events(state, seat, since)
        if self.brief:
            if since:
                return " ".join(events) or NOTHING, ""
            private_texts = [text] if (text := self.private(state, seat)) else []
            words = [self.title, self.roles[seat], *private_texts, *events]
            return " ".join(words), ""
        parts = (
            []
            if since
            else [self.rules, f"You play as {self.roles[seat]!r}.", self.private(state, seat)]
        )
        parts += [" ".join(events), self.position(state, seat)]
        return "\n\n".join(part for part in parts if part), self.call(state, seat)

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the wordings of all events from ply ``since`` on that are new to the seat."""
        texts = []
        for event in events_since(state.trail, since):
            if event[1] == CHANCE:
                text = self.chance_event(state, seat, event)
                if text:
                    texts.append(text)
            elif not since or event[1] != seat:
                texts.append(self.action_event(state, seat, event))
        return texts

    def actions_so_far(self, state: State) -> str:
        """Return all actions in order, such as "first pass, second bet", or "none"."""
        actions = [
            f"{self.roles[event.player]} {self.word_of(state, event.player, event.action)}"
            for event in state.trail
            if event.player != CHANCE
        ]
        return ", ".join(actions) or "none"

    def call(self, state: State, seat: int) -> str:
        """Return the last lines of full style: the turn, the legal actions and the reply format."""
        if state.done:
            return "The game is over."
        if state.seat != seat:
            return "It is not your turn yet; please wait."
        legal = state.legal_actions()
        example = legal[self.example(state) % len(legal)]
        return f"It is your turn. Legal actions: {', '.join(legal)}.\n{REPLY} {example}"

    def example(self, state: State) -> int:
        """Return a number that selects the example action, here the number of events so far.

        The example must not reveal hidden events, so games with such events override this.
        """
        return len(state.trail)

    def correction(self, state: State, reply_action: str | None, played: str | None = None) -> str:
        """Return the error notice after an illegal or unparsable reply.

        Args:
            state: the state before the reply.
            reply_action: the illegal action of the reply; None: unparsable.
            played: the random legal action in its place; None: the seat may try again.
        """
        if self.brief:
            return ILLEGAL if played is None else f"{ILLEGAL} {played}"
        problem = (
            "Your reply contained no action."
            if reply_action is None
            else f"The action {reply_action} is not legal now."
        )
        if played is not None:
            return f"{problem} The action {played} was played for you."
        return f"{problem} {self.call(state, state.seat)}"


class GamePictures:
    """The part of ``Game`` that draws; games override ``paint`` and ``describe``."""

    roles: tuple[str, ...]
    words: tuple[str, ...]
    num_seats: int

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        """Draw a position as a seat sees it; seat None: nothing is hidden."""
        self.paint_seats(canvas, state, seat)
        printed_lines(canvas, self.known_lines(state, seat))

    def describe(self, state: State, seat: int | None) -> str:
        """Return a position in one or two sentences; seat None: nothing is hidden."""
        lines = "; ".join(line for line in self.known_lines(state, seat) if line.strip())
        return f"{self.due_text(state)} {lines}".strip()

    def paint_seats(
        self, canvas: Canvas, state: State, seat: int | None, notes: dict[int, str] | None = None
    ) -> None:
        """Draw the seats and mark those that are due; with seat None also draw the payoffs."""
        texts = {player: [note] for player, note in (notes or {}).items()}
        if seat is None and (state.done or any(state.returns)):
            for player, value in enumerate(state.returns):
                texts.setdefault(player, []).append(f"{value:+g}")
        joined_notes = {player: ", ".join(parts) for player, parts in texts.items()}
        seats(canvas, self.roles, state.due(), joined_notes)

    def paint_moves(self, canvas: Canvas, state: State, *, empty: str = "No move yet.") -> None:
        """Draw the actions of all seats in order, for games in which every seat sees them."""
        moves = [
            (self.words[event.action], seat_colour(event.player))
            for event in state.trail
            if event.player != CHANCE
        ]
        if moves:
            strip(canvas, moves)
        else:
            paragraph(canvas, empty, colour="dim")

    def due_text(self, state: State) -> str:
        """Return the sentence about the seats to act."""
        return due_sentence([self.roles[seat] for seat in state.due()])

    def last_move(self, state: State) -> str:
        """Return the sentence about the last action; "" before the first."""
        moves = [event for event in state.trail if event.player != CHANCE]
        if not moves:
            return ""
        return f"{self.roles[moves[-1].player]} played {self.words[moves[-1].action]} last."

    def payoff_line(self, state: State, seat: int | None) -> str:
        """Return the payoffs of a finished play as a sentence; "" for a seat, or before the end."""
        if seat is not None or not state.done:
            return ""
        payoffs = zip(self.roles, state.returns, strict=True)
        return f"Payoffs: {', '.join(f'{role} {value:+g}' for role, value in payoffs)}."

    def known_lines(self, state: State, seat: int | None) -> list[str]:
        """Return OpenSpiel's text of a position for a seat, as lines."""
        text = str(state.spiel) if seat is None else state.observe(seat, 0).key
        return [line for line in text.split("\n") if line.strip()][:24]


class EnumerableGame:
    """The part of ``Game`` for exact solvers."""

    spiel: Any

    @property
    def rules_key(self) -> str:
        """Text of the rules and options; games with the same text have the same tree."""
        return str(self.spiel)

    @property
    def rules_name(self) -> str:
        """OpenSpiel's name of the rules, without options."""
        return str(self.spiel.get_type().short_name)

    @property
    def perfect_information(self) -> bool:
        """Whether nothing is hidden from any seat."""
        return bool(self.spiel.get_type().information == _PERFECT)

    @property
    def has_info_states(self) -> bool:
        """Whether nodes have information states."""
        return bool(self.spiel.get_type().provides_information_state_string)

    def first_node(self) -> Node:
        """Return the empty history."""
        node: Node = self.spiel.new_initial_state()
        return node

    @property
    def first_table(self) -> Any:
        """The table of the initial state, in games made of tables (``openspiel/table.py``)."""
        return self.spiel.opening


class EnumerableState:
    """The part of ``State`` for exact solvers.

    Attributes:
        node: the current history, shared with other plays.
    """

    __slots__ = ("spiel",)
    spiel: Any
    node: Node

    @property
    def table(self) -> Any:
        """The current table, in games made of tables (``openspiel/table.py``)."""
        return self.spiel.table


# ``node`` is another name of the slot ``spiel``: a property would be slower for oracles
EnumerableState.node = vars(EnumerableState)["spiel"]


class State(EnumerableState, PaintedPlay):
    """One play of a game.

    Attributes:
        game: the rules.
        spiel: OpenSpiel's state, shared with other plays of the game; never apply actions to it.
        seat: the seat to act, or -1 (game over, or a chance node of a state without a stream).
        done: whether the game is over.
        plies: number of seats' actions so far.
        trail: every event so far, chance included.
        draws: number of chance outcomes drawn so far from ``stream``.
    """

    __slots__ = ("_position", "_since", "done", "draws", "game", "plies", "seat", "stream", "trail")

    def __init__(
        self,
        game: Game,
        position: Position,
        stream: Stream | None,
        draws: int = 0,
        since: Sequence[int] = (),
    ) -> None:
        self.game, self.stream, self.draws = game, stream, draws
        # for each seat: the first ply that is new to it
        self._since = list(since) or [0] * game.num_seats
        self._enter(position)

    def _enter(self, position: Position) -> None:
        self._position, self.spiel, self.trail, self.plies = (
            position,
            position.spiel,
            position.trail,
            position.plies,
        )
        self.seat, self.done = position.seat, position.done

    def settle(self) -> None:
        """Draw chance outcomes until a seat is to act or the game is over, if there is a stream."""
        stream, position = self.stream, self._position
        if position.seat >= 0 or position.done or stream is None:
            return
        while position.seat < 0 and not position.done:
            position = position.child(position.outcome_at(stream.uniform(self.draws)), self.game)
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
        """Return OpenSpiel's ids of ``legal_actions``, in their order; do not change the list."""
        return self._position.legal()

    def action_index(self, action: str) -> int:
        """Return the OpenSpiel action id of a legal action word.

        Raises:
            GameError: the action is not legal here.
        """
        words = self.legal_actions()
        if action not in words:
            legal_text = ", ".join(words) or "none, the game is over"
            raise GameError(
                f"{self.game.name}: action {action!r} is not legal at ply {self.plies}; legal "
                f"actions: {legal_text}."
            )
        return self._position.legal()[words.index(action)]

    def apply(self, action: str) -> None:
        """Play an action word for the seat to act, and draw chance up to the next decision.

        Raises:
            GameError: the action is not legal here.
        """
        self._play(self.action_index(action))

    def apply_index(self, index: int) -> None:
        """Play an OpenSpiel action id, or a chance outcome in a state without a stream.

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
        self._enter(self._position.child(index, self.game))
        if self.seat < 0:
            self.settle()

    def due(self) -> tuple[int, ...]:
        """Return the seat to act, or () when the play is over."""
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
        self._since[seat] = self.plies + 1
        self._play(index)

    def redeal(self, stream: Stream) -> None:
        """Draw all remaining chance outcomes from another stream."""
        self.stream = stream

    def overview(self, seat: int) -> Observation:
        """Return everything that ``seat`` may know, from the start on."""
        return self.observe(seat, 0)

    def observe(self, seat: int, since: int | None = None) -> Observation:
        """Return the observation of a seat, with the key of its information state.

        Args:
            seat: the reader.
            since: None: everything new to the seat. 0: the complete first prompt with all public
                events so far. Otherwise ``plies`` right after the seat's last action: only later
                events, without the seat's own actions.

        Returns:
            The observation, a pure function of (position, seat, since); its text is never empty.
        """
        observations = self._position.observations
        if since is None:
            since = self._since[seat]
        observation = observations.get((seat, since))
        if observation is None:
            text, ask = self.game.tell_seat(self, seat, since)
            observation = observations[seat, since] = Observation(
                prompt=text, ask=ask, key=self.game.key(self, seat), view=self.game.view(self, seat)
            )
        return observation

    def ending(self, seat: int) -> str:
        """Return the final news of a seat in a finished play."""
        return self.game.tell_seat(self, seat, self._since[seat])[0]

    def shown(self, seat: int) -> str:
        """Return what the rules show a seat at the end, in addition to ``ending``."""
        return self.game.shown(self, seat) if self.done else ""

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the position as a seat sees it; seat None: nothing is hidden."""
        self.game.paint(canvas, self, seat)

    def described(self, seat: int | None) -> str:
        """Return the position in one or two sentences; seat None: nothing is hidden."""
        return self.game.describe(self, seat)

    def parse(self, reply: str, exact: bool = False) -> str | None:
        """Return the action word in ``reply``, legal or not; None: unparsable.

        Args:
            reply: the text.
            exact: whether the reply must be the word and nothing else.
        """
        return self.game.parse(self, reply, exact)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action word in the reply of a seat that is due; see ``parse``."""
        return self.game.parse(self, reply, exact)

    def clone(self) -> State:
        """Return an independent copy: same position, same stream, same draw counter."""
        return State(self.game, self._position, self.stream, self.draws, self._since)


class Game(EnumerableGame, GamePictures, Wording, Environment):
    """Rules and wording of a game.

    Subclasses override the hooks of ``Wording`` and ``GamePictures``, and ``note``, ``key`` and
    ``stake`` if needed. ``illegal`` is the rule for illegal replies; ``max_turns`` bounds the
    actions of all seats together in one episode.

    Args:
        spiel: OpenSpiel's rules (turn-based).
        name: the game's name in Sparring.
        roles: role name per seat, [num_seats].
        words: action word per action id, [num_distinct_actions]; empty if words depend on the
            state.
        style: "brief" or "full".
    """

    notes_events: bool = False  # whether to call ``note`` at every event

    def __init__(
        self,
        spiel: pyspiel.Game,
        *,
        name: str,
        roles: tuple[str, ...],
        words: tuple[str, ...] = (),
        style: Style = "brief",
    ) -> None:
        utility = spiel.get_type().utility
        self.spiel, self.name, self.roles, self.words, self.style = spiel, name, roles, words, style
        self.num_seats: int = spiel.num_players()
        self.min_utility: float = spiel.min_utility()
        self.max_utility: float = spiel.max_utility()
        self.utility_sum: float | None = spiel.utility_sum()
        self.zero_sum: bool = utility == pyspiel.GameType.Utility.ZERO_SUM
        self.cooperative: bool = utility == pyspiel.GameType.Utility.IDENTICAL
        self.max_turns: int = spiel.max_game_length()
        self.illegal = IllegalRule()
        # name and options for ``make_game``
        self.made_by: dict[str, Any] | None = None
        self.brief = style == "brief"
        self.indices = {word: index for index, word in enumerate(words)}
        self._reply_parser = ReplyParser(words)
        self.opening = Position(spiel.new_initial_state(), ())
        self.num_cached_positions = 0

    # -- play --------------------------------------------------------------------------------------

    def reset(self, stream: Stream) -> State:
        """Return a new state; draws 0, 1, 2, ... of ``stream`` choose its chance outcomes."""
        state = State(self, self.opening, stream)
        state.settle()
        return state

    def first_state(self) -> State:
        """Return a state without a stream at the empty history; see ``state_of``."""
        return State(self, self.opening, None)

    def state_of(self, spiel: pyspiel.State) -> State:
        """Return a state around a clone of an OpenSpiel state, for solvers and exact evaluation.

        The state has no stream: at a chance node its ``seat`` is -1, and the caller passes chance
        outcomes to ``apply_index``.
        """
        if not self.notes_events:
            return State(self, Position(spiel.clone(), trail_of(spiel)), None)
        state = self.first_state()
        for item in spiel.full_history():
            state.apply_index(item.action)
        return state

    # -- initial states ----------------------------------------------------------------------------

    def start_of(self, state: State) -> Hashable:
        """Return the identity of the initial state: chance outcomes before the first decision."""
        return tuple(
            event.action for event in state.trail if event.player == CHANCE and event.ply == 0
        )

    def starts(self) -> frozenset[Hashable] | None:
        """Return all initial states of the bank; None: there is no bank."""
        return None

    def other_bank(self) -> dict[str, Any] | None:
        """Return options that make the same game with another bank; None: there is no bank."""
        return None

    # -- actions as words --------------------------------------------------------------------------

    def legal_words(self, state: State, indices: list[int]) -> tuple[str, ...]:
        """Return the words of the legal action ids of ``state``, in their order."""
        words = self.words
        return tuple([words[index] for index in indices])

    def index_of(self, state: State, word: str) -> int | None:
        """Return the action id of a word in ``state``, or None."""
        return self.indices.get(word)

    def parse(self, state: State, reply: str, exact: bool = False) -> str | None:
        """Return the action word in ``reply``, legal or not; None: unparsable.

        In brief style the reply must be exactly the word, so the probability of the action is that
        of the word. In full style the parser finds the action in natural text; with ``exact`` the
        reply must be the word, in upper or lower case.
        """
        if reply in self.indices:
            return reply
        if self.brief:
            return None
        return self._reply_parser.word(reply) if exact else self._reply_parser.find(reply)

    def note(self, spiel: pyspiel.State, player: int, index: int) -> Any:
        """Return information about the position before an event, for the texts of later prompts."""
        return None

    def key(self, state: State, seat: int) -> str:
        """Return the seat's information state as a string (perfect recall)."""
        text: str = state.spiel.information_state_string(seat)
        return text

    def view(self, state: State, seat: int) -> str:
        """Return what the seat sees now, or the key if OpenSpiel has no observation."""
        if not self.spiel.get_type().provides_observation_string:
            return self.key(state, seat)
        text: str = state.spiel.observation_string(seat)
        return text

    def stake(self, state: State, seat: int) -> float:
        """Return the stake of the seat in ``state``, for the "mars" forfeit."""
        return 1.0


def as_game(environment: object) -> Game:
    """Return a searchable environment with the type ``Game``."""
    assert isinstance(environment, Game)
    return environment
