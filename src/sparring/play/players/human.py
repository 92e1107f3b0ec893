"""A person who plays at the terminal."""

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
"""Shows a text to a person and returns the typed line."""

HELP = ("?", "help", "h", "rules")
LEAVE = ("q", "quit", "exit")
EMPTY_HINT = "Type one of the legal actions, ? for the rules, or q to leave."


@dataclass(kw_only=True, eq=False)
class HumanAgent(TextAgent):
    """A person who types actions, and is asked again until one is legal.

    Args:
        ask: shows a text and returns the typed line.
    """

    ask: Ask = input

    name = "human"
    patient = True  # no time limit

    def __post_init__(self) -> None:
        self._readable_games: list[tuple[Environment, Environment]] = []

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one typed reply per turn.

        Raises:
            EOFError: the person leaves.
        """
        return [
            Reply(
                text=self.choose(turn.state, turn.seat, turn.stream)
                if is_searchable_play(turn.state)
                else self._ask_by_prompt(turn)
            )
            for turn in turns
        ]

    def _ask_by_prompt(self, turn: PendingTurn) -> str:
        legal = turn.state.legal(turn.seat)
        choices = "" if legal is None else f"\n\nLegal actions: {list_actions(legal)}"
        text = wrap_lines(f"{turn.prompt}{choices}")
        while True:
            reply = self.ask(f"{text}\n> ").strip()
            if reply.lower() in LEAVE:
                raise EOFError
            if reply.lower() in HELP:
                text = wrap_lines("\n\n".join([*self._past_texts(turn), f"{turn.prompt}{choices}"]))
            elif reply:
                action, fault = parse_human_reply(None, turn.state, turn.seat, reply)
                if action is not None:
                    return action
                text = wrap_lines(f"{fault}{choices}")
            else:
                text = wrap_lines(f"Type your reply, ? for what was said, or q to leave.{choices}")

    @staticmethod
    def _past_texts(turn: PendingTurn) -> list[str]:
        past = turn.past() if turn.past is not None else ()
        return [text for prompt, reply in past for text in (prompt, f"> {reply}")]

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the legal action that the person types.

        Raises:
            EOFError: the person leaves.
        """
        assert is_searchable_play(state)
        game, legal = self._readable_game(state.game), state.legal_actions()
        text = wrap_lines(f"{seen_by(game, state, seat)}\n\nLegal actions: {list_actions(legal)}")
        while True:
            reply = self.ask(f"{text}\n> ").strip()
            if reply.lower() in LEAVE and reply not in legal:
                raise EOFError
            if reply.lower() in HELP and reply not in legal:
                parts = (rules_of(game), seen_by(game, state, seat))
                text = "\n\n".join(
                    [*map(wrap_lines, parts), wrap_lines(f"Legal actions: {', '.join(legal)}")]
                )
                continue
            action, fault = parse_human_reply(game, state, seat, reply)
            if action is not None:
                return action
            hint = f"{fault} (? shows the rules)." if reply else EMPTY_HINT
            text = wrap_lines(f"{hint} Legal actions: {list_actions(legal)}")

    def _readable_game(self, game: Environment) -> Environment:
        for original, readable_game in self._readable_games:
            if original is game:
                return readable_game
        self._readable_games.append((game, for_people(game)))
        return self._readable_games[-1][1]


def parse_human_reply(readable: Any, play: Play, seat: int, reply: str) -> tuple[str | None, str]:
    """Return the action in a person's text and "", or None and why it is not legal.

    Args:
        readable: the game with texts for people (``for_people``), if it is one of OpenSpiel's.
        play: the play in its current state.
        seat: the person's seat.
        reply: the typed text, without spaces around it.
    """
    legal = play.legal(seat)
    if reply and (legal is None or reply in legal):
        return reply, ""
    if not is_searchable_play(play):
        return None, f"{quoted(reply)} is not a legal action."
    action = readable.parse(readable.state_of(play.node), reply)
    if action in play.legal_actions():
        return str(action), ""
    if action is None:
        return None, f"{quoted(reply)} is not an action of this game; it does not count as a move"
    return None, f"{action} is not possible now; it does not count as a move"


human = HumanAgent
