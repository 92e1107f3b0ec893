"""Generic wording for any game of OpenSpiel."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, get_args

import pyspiel

from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, table
from sparring.environments.openspiel.base import CHANCE, NOTHING, Game, State, Style
from sparring.environments.reply import ReplyParser, listed_reply

_PRINTABLE = tuple(chr(code) for code in range(33, 127))
_PLAYOUT_PLIES = 2000  # number of random plies that collect the vocabulary
_MAX_LISTED = 5000  # largest number of actions whose words the vocabulary collects
SERIALISED = "turn_based_simultaneous_game"  # OpenSpiel's name for serialised simultaneous moves
_MODE = pyspiel.GameType.ChanceMode
_DYNAMICS = pyspiel.GameType.Dynamics


class GenericGame(Game):
    """An OpenSpiel game with OpenSpiel's text for actions (one word each) and information states.

    Brief style writes words outside ``vocabulary()`` character by character, so few words suffice.
    """

    def __init__(
        self,
        spiel: pyspiel.Game,
        *,
        name: str,
        style: Style,
        matrix: str = "",
        payoffs: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        roles = tuple(f"seat{seat}" for seat in range(spiel.num_players()))
        super().__init__(spiel, name=name, roles=roles, style=style)
        self.title, self._matrix_text, self.payoffs = name, matrix, payoffs
        spiel_type = spiel.get_type()
        self._has_key: bool = spiel_type.provides_information_state_string
        self._has_view: bool = spiel_type.provides_observation_string
        self._hides_nothing = (
            spiel_type.information == pyspiel.GameType.Information.PERFECT_INFORMATION
        )
        self.notes_events = not self._has_key and not self._hides_nothing and self._has_view
        if not (self._has_key or self._has_view):
            raise GameError(
                f"OpenSpiel game {name!r} has no text for seats (neither information states nor "
                "observations)."
            )
        self.rules = f"We play the game {name} with {self.num_seats} player(s)." + (
            f"\n\n{matrix}" if matrix else ""
        )
        self._vocabulary: frozenset[str] | None = None

    def word_of(self, state: State, player: int, index: int) -> str:
        """Return the word of an action that is legal for the seat to act."""
        legal: list[int] = state.spiel.legal_actions()
        return self.legal_words(state, legal)[legal.index(index)]

    def legal_words(self, state: State, indices: list[int]) -> tuple[str, ...]:
        """Return one word per legal action, all different."""
        spiel, player = state.spiel, state.seat
        words: list[str] = [
            one_word(spiel.action_to_string(player, index), index) for index in indices
        ]
        if len({word.lower() for word in words}) == len(words):
            return tuple(words)
        return tuple(f"{word}#{index}" for word, index in zip(words, indices, strict=True))

    def index_of(self, state: State, word: str) -> int | None:
        """Return the action id of a legal word."""
        legal = state.legal_actions()
        if word not in legal:
            return None
        index: int = state.spiel.legal_actions()[legal.index(word)]
        return index

    def parse(self, state: State, reply: str, exact: bool = False) -> str | None:
        """Return a legal action word in ``reply``, or any action word, or None."""
        legal = state.legal_actions()
        if reply in legal:
            return reply
        if self.brief:
            return reply if self._parser().knows(reply) else None
        if exact:
            return listed_reply(legal, reply, exact) or self._parser().word(reply)
        action = listed_reply(legal, reply, exact)
        return action if action is not None else self._parser().find(reply)

    def _parser(self) -> ReplyParser:
        if not hasattr(self, "_action_parser"):
            self._action_parser = ReplyParser(listed_actions(self.spiel))
        return self._action_parser

    def tell_seat(self, state: State, seat: int, since: int) -> tuple[str, str]:
        """Return OpenSpiel's text for the seat and the question; see ``State.observe``."""
        view = "" if self._matrix_text else self._view(state, seat, since)
        if self.brief:
            first_words = [] if since else [self.title, self.roles[seat]]
            return " ".join([*first_words, *self._spell(view.split())]) or NOTHING, ""
        parts = [] if since else [self.rules, f"You play as {self.roles[seat]!r}."]
        text = "\n\n".join(part for part in [*parts, view.strip()] if part)
        return text, self.call(state, seat)

    def example(self, state: State) -> int:
        """Return a number that chooses an example action.

        This is a digest of the information state, as a seat may not know the number of events.
        """
        return zlib.crc32(self.key(state, state.seat).encode())

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        """Draw the payoffs of a matrix game, or OpenSpiel's text of any other game."""
        if self.payoffs:
            paint_matrix(canvas, self, state, seat)
        else:
            super().paint(canvas, state, seat)

    def describe(self, state: State, seat: int | None) -> str:
        """Return the position in one or two sentences, as a seat knows it."""
        return describe_matrix(self, state, seat) if self.payoffs else super().describe(state, seat)

    def scene(self, state: State, seat: int, since: int) -> str:
        """Return OpenSpiel's text of the position as the seat sees it now."""
        if self._matrix_text:
            return ""
        view = self._view(state, seat, 1).strip()
        # OpenSpiel prints the hidden moves of a serialised game
        may_print = self._hides_nothing and self.spiel.get_type().short_name != SERIALISED
        board_text = str(state.spiel) if may_print else ""
        return board_text.rstrip() if "\n" in board_text else view

    def _view(self, state: State, seat: int, since: int) -> str:
        """Return the information state (``since`` = 0) or the observation, if the game has both."""
        spiel = state.spiel
        if self._has_key and not (since and self._has_view):
            text: str = spiel.information_state_string(seat)
        else:
            text = spiel.observation_string(seat)
        return text

    def _spell(self, words: list[str]) -> list[str]:
        """Return the words, with words outside the vocabulary as single characters."""
        vocabulary = self._collect_vocabulary()
        texts: list[str] = []
        for word in words:
            characters = [char if "!" <= char <= "~" else "?" for char in word]
            texts.extend([word] if word in vocabulary else characters)
        return texts

    def key(self, state: State, seat: int) -> str:
        """Return the information state, from OpenSpiel or from all observations and actions."""
        if self._has_key:
            return super().key(state, seat)
        if self._hides_nothing:
            actions_text: str = state.spiel.history_str()
            return actions_text
        history = [
            f"{event.note[seat]}\n{event.action if event.player == seat else ''}"
            for event in state.trail
            if event.player != CHANCE
        ]
        return "\n".join([*history, str(state.spiel.observation_string(seat))])

    def note(self, spiel: pyspiel.State, player: int, index: int) -> Any:
        """Return the observation of every seat before an action."""
        return (
            None
            if player == CHANCE
            else tuple(spiel.observation_string(seat) for seat in range(self.num_seats))
        )

    def vocabulary(self) -> tuple[str, ...]:
        """Return the vocabulary: words from random play, words of actions, and characters."""
        return tuple(sorted(self._collect_vocabulary()))

    def _collect_vocabulary(self) -> frozenset[str]:
        if self._vocabulary is None:
            self._vocabulary = frozenset()  # while words are collected, every word is spelt
            characters = () if self._matrix_text else _PRINTABLE
            self._vocabulary = frozenset(
                {
                    *super().vocabulary(),
                    *characters,
                    *listed_actions(self.spiel),
                    *_random_words(self),
                }
            )
        return self._vocabulary


def _random_words(game: GenericGame) -> set[str]:
    words: set[str] = set()
    stream, plies, episode = Stream.from_seed(0), 0, 0
    while plies < _PLAYOUT_PLIES:
        state = game.reset(stream.child("deal").child(episode))
        action_stream = stream.child("play").child(episode)
        episode += 1
        while not state.done and plies < _PLAYOUT_PLIES:
            legal = state.legal_actions()
            words.update(legal)
            if not game._matrix_text:
                for since in (0, 1):
                    words.update(
                        word
                        for word in game._view(state, state.seat, since).split()
                        if word.isascii()
                    )
            state.apply(legal[action_stream.integer(state.plies, len(legal))])
            plies += 1
        plies += 1  # an episode without decisions counts too, so that the loop ends
    return words


def openspiel_game(name: str, options: Mapping[str, Any]) -> Game:
    """Return a registered OpenSpiel game with generic wording.

    Simultaneous moves are made one after another.

    Args:
        name: OpenSpiel's name.
        options: OpenSpiel's parameters, and ``style``.

    Raises:
        UnknownNameError: the game has no such option.
        ConfigError: OpenSpiel refuses a value, or a parameter is missing.
        GameError: the game is a mean-field game, or hides its chance probabilities.
    """
    parameters = dict(options)
    style = parameters.pop("style", "brief")
    if style not in get_args(Style):
        raise UnknownNameError(f"style of {name!r}", str(style), get_args(Style))
    spiel_type = next(item for item in pyspiel.registered_games() if item.short_name == name)
    for option in parameters:
        if option not in spiel_type.parameter_specification:
            raise UnknownNameError(
                f"option of games {name!r}", option, [*spiel_type.parameter_specification, "style"]
            )
    is_mean_field = spiel_type.dynamics == _DYNAMICS.MEAN_FIELD
    if is_mean_field or spiel_type.chance_mode == _MODE.SAMPLED_STOCHASTIC:
        raise GameError(
            f"OpenSpiel game {name!r} cannot be played: it is a mean-field game or hides its "
            "chance probabilities."
        )
    spiel = _load_game(name, parameters)
    matrix, payoffs = matrix_text(spiel), matrix_rows(spiel)
    if spiel.get_type().dynamics == _DYNAMICS.SIMULTANEOUS:
        spiel = pyspiel.convert_to_turn_based(spiel)
    try:
        spiel.new_initial_state().legal_actions()
    except pyspiel.SpielError as error:
        raise GameError(
            f"OpenSpiel game {name!r} cannot be played: its actions are not numbered ({error})."
        ) from None
    return GenericGame(spiel, name=name, style=style, matrix=matrix, payoffs=payoffs)


def _load_game(name: str, parameters: Mapping[str, Any]) -> pyspiel.Game:
    try:
        return pyspiel.load_game(name, dict(parameters))
    except (pyspiel.SpielError, RuntimeError, TypeError, IndexError) as error:
        raise ConfigError(
            f"OpenSpiel refuses game {name!r} with options {dict(parameters)}: {error}"
        ) from None


def paint_matrix(canvas: Canvas, game: GenericGame, state: State, seat: int | None) -> None:
    """Draw the payoffs of a matrix game, and the choices that the reader knows."""
    game.paint_seats(canvas, state, seat)
    heading(canvas, "Payoffs", f"{game.roles[0]} (rows), {game.roles[1]} (columns)")
    choices = [event.action for event in state.trail]
    table(canvas, game.payoffs, marked=[(choices[0] + 1, choices[1] + 1)] if state.done else ())
    for line in _choices(game, state, seat):
        paragraph(canvas, line)


def describe_matrix(game: GenericGame, state: State, seat: int | None) -> str:
    """Return the position of a matrix game in one or two sentences."""
    parts = (game.due_text(state), *_choices(game, state, seat), game.payoff_line(state, seat))
    return " ".join(part for part in parts if part)


def _choices(game: GenericGame, state: State, seat: int | None) -> list[str]:
    names = [row[0] for row in game.payoffs[1:]], game.payoffs[0][1:]
    return [
        f"{game.roles[event.player]} chose {names[event.player][event.action]}."
        for event in state.trail
        if state.done or seat in (None, event.player)
    ]


def one_word(text: str, index: int) -> str:
    """Return the text of an action as one word, or the action id for an empty text."""
    return "-".join(text.split()) or str(index)


def listed_actions(spiel: pyspiel.Game) -> list[str]:
    """Return the words of actions, up to the first action whose word depends on the state."""
    words = []
    for index in range(min(spiel.num_distinct_actions(), _MAX_LISTED)):
        for player in range(spiel.num_players()):
            try:
                words.append(one_word(spiel.action_to_string(player, index), index))
            except (pyspiel.SpielError, RuntimeError):
                return words
    return words


def matrix_text(spiel: pyspiel.Game) -> str:
    """Return the payoffs of a matrix game in words; "" for other games."""
    if not isinstance(spiel, pyspiel.MatrixGame):
        return ""
    lines = [
        (
            "Both players choose one action without seeing the other's choice. The payoffs "
            "(seat0, seat1):"
        )
    ]
    for row in range(spiel.num_rows()):
        for column in range(spiel.num_cols()):
            payoffs = [spiel.player_utility(seat, row, column) for seat in range(2)]
            lines.append(
                f"seat0 {spiel.row_action_name(row)}, "
                f"seat1 {spiel.col_action_name(column)}: {payoffs[0]:g}, {payoffs[1]:g}"
            )
    return "\n".join(lines)


def matrix_rows(spiel: pyspiel.Game) -> tuple[tuple[str, ...], ...]:
    """Return the payoffs of a matrix game as a table with names of actions; () for other games."""
    if not isinstance(spiel, pyspiel.MatrixGame):
        return ()
    rows = [("", *(spiel.col_action_name(column) for column in range(spiel.num_cols())))]
    for row in range(spiel.num_rows()):
        pairs = (
            (spiel.player_utility(0, row, column), spiel.player_utility(1, row, column))
            for column in range(spiel.num_cols())
        )
        rows.append(
            (spiel.row_action_name(row), *(f"{first:g}, {second:g}" for first, second in pairs))
        )
    return tuple(rows)
