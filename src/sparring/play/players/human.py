"""A person at the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparring.core.errors import quoted
from sparring.core.rng import Stream
from sparring.environments.base import Environment, Play, is_searchable_play
from sparring.environments.openspiel.people import (
    for_people,
    list_actions,
    rules_of,
    seen_by,
    wrap_lines,
)
from sparring.play.players.base import PendingTurn, Reply, TextAgent

NEEDS = {"terminal"}

Ask = Callable[[str], str]
"""Shows a text to a person and returns what was typed."""

HELP = ("?", "help", "h", "rules")
LEAVE = ("q", "quit", "exit")
EMPTY = "Type one of the legal actions, ? for the rules, or q to leave."


@dataclass(kw_only=True, eq=False)
class HumanAgent(TextAgent):
    """A person who types actions, shown the position in sentences; asked again until one is legal.

    Args:
        ask: shows a text and returns the typed line.
    """

    ask: Ask = input

    name = "human"
    patient = True  # a person may take as long as it takes

    def __post_init__(self) -> None:
        self._twins: list[tuple[Environment, Environment]] = []

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one typed reply per turn.

        Raises:
            EOFError: the person leaves.
        """
        return [
            Reply(
                text=self.choose(turn.state, turn.seat, turn.stream)
                if is_searchable_play(turn.state)
                else self._open(turn)
            )
            for turn in turns
        ]

    def _open(self, turn: PendingTurn) -> str:
        """Return the reply to what a play tells as it comes: a legal action, or any text."""
        legal = turn.state.legal(turn.seat)
        choices = "" if legal is None else f"\n\nLegal actions: {list_actions(legal)}"
        shown = wrap_lines(f"{turn.told}{choices}")
        while True:
            reply = self.ask(f"{shown}\n> ").strip()
            if reply.lower() in LEAVE:
                raise EOFError
            if reply.lower() in HELP:
                shown = wrap_lines("\n\n".join([*self._told(turn), f"{turn.told}{choices}"]))
            elif reply:
                action, trouble = understood(None, turn.state, turn.seat, reply)
                if action is not None:
                    return action
                shown = wrap_lines(f"{trouble}{choices}")
            else:
                shown = wrap_lines(f"Type your reply, ? for what was said, or q to leave.{choices}")

    @staticmethod
    def _told(turn: PendingTurn) -> list[str]:
        past = turn.past() if turn.past is not None else ()
        return [text for told, said in past for text in (told, f"> {said}")]

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the legal action that the person chose.

        Raises:
            EOFError: the person leaves.
        """
        assert is_searchable_play(state)
        game, legal = self._in_sentences(state.game), state.legal_actions()
        shown = wrap_lines(f"{seen_by(game, state, seat)}\n\nLegal actions: {list_actions(legal)}")
        while True:
            reply = self.ask(f"{shown}\n> ").strip()
            if reply.lower() in LEAVE and reply not in legal:
                raise EOFError
            if reply.lower() in HELP and reply not in legal:
                told = (rules_of(game), seen_by(game, state, seat))
                shown = "\n\n".join(
                    [*map(wrap_lines, told), wrap_lines(f"Legal actions: {', '.join(legal)}")]
                )
                continue
            action, trouble = understood(game, state, seat, reply)
            if action is not None:
                return action
            more = f"{trouble} (? shows the rules)." if reply else EMPTY
            shown = wrap_lines(f"{more} Legal actions: {list_actions(legal)}")

    def _in_sentences(self, game: Environment) -> Environment:
        """Return the game as people see it, made once."""
        for known, twin in self._twins:
            if known is game:
                return twin
        self._twins.append((game, for_people(game)))
        return self._twins[-1][1]


def understood(people: Any, play: Play, seat: int, reply: str) -> tuple[str | None, str]:
    """Return the action that a person's text is taken for; else None, and what is wrong with it.

    Where any text is allowed it is taken as it stands.

    Args:
        people: the game of ``for_people``, if the play is one of OpenSpiel's.
        play: as it stands.
        seat: the person's.
        reply: what was typed, without spaces around it.
    """
    legal = play.legal(seat)
    if reply and (legal is None or reply in legal):
        return reply, ""
    if not is_searchable_play(play):
        return None, f"{quoted(reply)} is no legal action."
    action = people.parse(people.state_of(play.node), reply)
    if action in play.legal_actions():
        return str(action), ""
    if action is None:
        return None, f"{quoted(reply)} is no action of this game; it does not count as a move"
    return None, f"{action} is not possible now; it does not count as a move"


human = HumanAgent
