"""Games as text: rules from OpenSpiel, wording and parsing from small files, one per game.

A ``Game`` holds what never changes (rules, roles, wording), a ``State`` one play of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pyspiel

from sparring.core.rng import Stream
from sparring.environments.illegal import IllegalRule
from sparring.environments.openspiel.capabilities import EnumerableGame
from sparring.environments.openspiel.events import CHANCE, Event, trail_of
from sparring.environments.openspiel.pictures import Pictured
from sparring.environments.openspiel.position import Position
from sparring.environments.openspiel.state import State
from sparring.environments.openspiel.wording import Style, Wording
from sparring.environments.reply import ReplyParser

__all__ = ["CHANCE", "Event", "Game", "Position", "State", "Style"]


class Game(EnumerableGame, Pictured, Wording):
    """Rules and wording of a game.

    Subclasses override the hooks of ``Wording`` and of ``Pictured``, and, where needed, ``note``,
    ``key`` and ``stake``.
    ``illegal`` is the rule for illegal replies; ``max_turns`` bounds the seats' actions in one
    play, all seats together.

    Args:
        spiel: OpenSpiel's rules (turn-based).
        name: the game's name in Sparring.
        roles: role name per seat, [num_seats].
        words: action word per action id, [num_distinct_actions]; empty if words depend on the
            state.
        style: "brief" or "full".
    """

    notes_events: bool = False  # whether ``note`` is to be called at every event

    def __init__(
        self,
        spiel: pyspiel.Game,
        *,
        name: str,
        roles: tuple[str, ...],
        words: tuple[str, ...] = (),
        style: Style = "brief",
    ) -> None:
        kind = spiel.get_type()
        self.spiel, self.name, self.roles, self.words, self.style = spiel, name, roles, words, style
        self.num_seats: int = spiel.num_players()
        self.min_utility: float = spiel.min_utility()
        self.max_utility: float = spiel.max_utility()
        self.utility_sum: float | None = spiel.utility_sum()
        self.zero_sum: bool = kind.utility == pyspiel.GameType.Utility.ZERO_SUM
        self.cooperative: bool = kind.utility == pyspiel.GameType.Utility.IDENTICAL
        self.max_turns: int = spiel.max_game_length()
        self.illegal = IllegalRule()
        # name and options that ``make_game`` makes this game from
        self.made_by: dict[str, Any] | None = None
        self.brief = style == "brief"
        self.indices = {word: index for index, word in enumerate(words)}
        self._reader = ReplyParser(words)
        self.opening = Position(spiel.new_initial_state(), ())
        self.positions_kept = 0

    # -- play --------------------------------------------------------------------------------------

    def reset(self, stream: Stream) -> State:
        """Return a fresh state whose chance outcomes are draws 0, 1, 2, ... of ``stream``."""
        state = State(self, self.opening, stream)
        state.settle()
        return state

    def state_of(self, spiel: pyspiel.State) -> State:
        """Return a state around a clone of an OpenSpiel state, for solvers and exact evaluation.

        It has no stream: at a chance node its ``seat`` is -1 and chance outcomes are given to
        ``apply_index``.
        """
        if not self.notes_events:
            return State(self, Position(spiel.clone(), trail_of(spiel)), None)
        state = State(self, self.opening, None)
        for item in spiel.full_history():
            state.apply_index(item.action)
        return state

    # -- starts ------------------------------------------------------------------------------------

    def start_of(self, state: State) -> Hashable:
        """Return what tells a start from another: the chance outcomes before the first decision."""
        return tuple(
            event.action for event in state.trail if event.player == CHANCE and event.ply == 0
        )

    def starts(self) -> frozenset[Hashable] | None:
        """Return all starts of the bank that chance draws from; None where there is no bank."""
        return None

    def other_bank(self) -> dict[str, Any] | None:
        """Return options that make the same game with another bank; None where there is none."""
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
        """Return the action word written in ``reply``, legal or not, or None.

        In brief style the reply must be the word as it is written and nothing else: what is
        measured exactly (the probability of the word) is then what is played. If asked to be exact,
        it must be the word in any case of letters; else full style finds the action in natural
        text.
        """
        if reply in self.indices:
            return reply
        if self.brief:
            return None
        return self._reader.word(reply) if exact else self._reader.find(reply)

    def note(self, spiel: pyspiel.State, player: int, index: int) -> Any:
        """Return what the wording wants to remember of the position in which an event happens."""
        return None

    def key(self, state: State, seat: int) -> str:
        """Return the seat's information state as a string (perfect recall)."""
        text: str = state.spiel.information_state_string(seat)
        return text

    def view(self, state: State, seat: int) -> str:
        """Return what the seat can see of the position now; the key where rules give none."""
        if not self.spiel.get_type().provides_observation_string:
            return self.key(state, seat)
        text: str = state.spiel.observation_string(seat)
        return text

    def stake(self, state: State, seat: int) -> float:
        """Return what the seat has at stake in ``state``, for the "mars" forfeiture."""
        return 1.0
