"""Texts of a game for people: in full style, even if models read brief style."""

from __future__ import annotations

import textwrap
from typing import TypeVar, cast

from sparring.environments.base import Environment, SearchablePlay
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.base import as_game
from sparring.environments.openspiel.generic import GenericGame

GameType = TypeVar("GameType", bound=Environment)
MAX_LISTED_ACTIONS = 40  # legal actions to list before a move; the reply "?" lists all
OPENSPIEL = "https://openspiel.readthedocs.io/en/latest/games.html"


def for_people(game: GameType) -> GameType:
    """Return the game in full style, or the game itself if ``make_game`` did not make it."""
    if not game.brief or game.made_by is None:
        return game
    copy = make_game(game.made_by["name"], options={**game.made_by["options"], "style": "full"})
    copy.name, copy.illegal = game.name, game.illegal
    return cast(GameType, copy)


def seen_by(game: Environment, state: SearchablePlay, seat: int) -> str:
    """Return the news since the seat's last action and the position, for a person.

    Args:
        game: a result of ``for_people``.
        state: a state of the same rules, in any style.
        seat: the seat of the person.
    """
    last = max((event.ply for event in state.trail if event.player == seat), default=-1)
    rules = as_game(game)
    return rules.scene(rules.state_of(state.node), seat, last + 1)


def revealed_by(game: Environment, state: SearchablePlay) -> str:
    """Return the hidden information of a finished play in the style of ``game``, or ""."""
    rules = as_game(game)
    return rules.revealed(rules.state_of(state.node))


def rules_of(game: Environment) -> str:
    """Return the rules in words, with OpenSpiel's facts for a game with generic wording."""
    rules = as_game(game).rules
    return f"{rules} {_facts(game)}" if isinstance(game, GenericGame) else rules


def _facts(game: GenericGame) -> str:
    kind = game.spiel.get_type()
    seats = "one seat plays" if game.num_seats == 1 else f"{game.num_seats} seats play"
    hidden = kind.information != kind.Information.PERFECT_INFORMATION
    chance = kind.chance_mode != kind.ChanceMode.DETERMINISTIC
    pay = "zero-sum" if game.zero_sum else "cooperative" if game.cooperative else "general-sum"
    return (
        f"In OpenSpiel it is {kind.long_name!r}: {seats}, "
        f"{'something' if hidden else 'nothing'} is hidden, "
        f"{'there is' if chance else 'there is no'} chance, payoffs are {pay} from "
        f"{game.min_utility:g} to {game.max_utility:g}, and a play has at most {game.max_turns} "
        f"actions. Sparring has no rules in words for it; {OPENSPIEL} names its source."
    )


def list_actions(actions: tuple[str, ...], limit: int = MAX_LISTED_ACTIONS) -> str:
    """Return the first ``limit`` legal actions as a line."""
    hidden = len(actions) - limit
    return ", ".join(actions[:limit]) + (f" and {hidden} more (? lists all)" if hidden > 0 else "")


def wrap_lines(text: str, width: int = 88) -> str:
    """Return a text with long lines broken between words; short lines, such as boards, stay."""
    lines = (
        textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        if len(line) > width
        else [line]
        for line in text.split("\n")
    )
    return "\n".join(piece for pieces in lines for piece in pieces)
