"""Texts of a game for people: in full style, even if models read brief style."""

from __future__ import annotations

import textwrap
from typing import TypeVar, cast

from sparring.environments.base import Environment, SearchablePlay
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.base import as_game
from sparring.environments.openspiel.generic import GenericGame

GameType = TypeVar("GameType", bound=Environment)
MAX_LISTED_ACTIONS = 40  # number of legal actions to list; the reply "?" lists all
OPENSPIEL_URL = "https://openspiel.readthedocs.io/en/latest/games.html"


def for_people(game: GameType) -> GameType:
    """Return the game in full style, or the game itself if ``make_game`` did not make it."""
    if not game.brief or game.made_by is None:
        return game
    full_game = make_game(
        game.made_by["name"], options={**game.made_by["options"], "style": "full"}
    )
    full_game.name, full_game.illegal = game.name, game.illegal
    return cast(GameType, full_game)


def seen_by(game: Environment, state: SearchablePlay, seat: int) -> str:
    """Return the news since the seat's last action and the position, for a person.

    Args:
        game: a result of ``for_people``.
        state: a state of the same rules, in any style.
        seat: the seat of the person.
    """
    last_ply = max((event.ply for event in state.trail if event.player == seat), default=-1)
    text_game = as_game(game)
    return text_game.scene(text_game.state_of(state.node), seat, last_ply + 1)


def revealed_by(game: Environment, state: SearchablePlay) -> str:
    """Return the hidden information of a finished play in the style of ``game``, or ""."""
    text_game = as_game(game)
    return text_game.revealed(text_game.state_of(state.node))


def rules_of(game: Environment) -> str:
    """Return the rules in words, with OpenSpiel's facts for a game with generic wording."""
    rules = as_game(game).rules
    return f"{rules} {_facts(game)}" if isinstance(game, GenericGame) else rules


def _facts(game: GenericGame) -> str:
    spiel_type = game.spiel.get_type()
    seats = "one seat plays" if game.num_seats == 1 else f"{game.num_seats} seats play"
    is_hidden = spiel_type.information != spiel_type.Information.PERFECT_INFORMATION
    has_chance = spiel_type.chance_mode != spiel_type.ChanceMode.DETERMINISTIC
    payoffs = "zero-sum" if game.zero_sum else "cooperative" if game.cooperative else "general-sum"
    return (
        f"In OpenSpiel it is {spiel_type.long_name!r}: {seats}, "
        f"{'something' if is_hidden else 'nothing'} is hidden, "
        f"{'there is' if has_chance else 'there is no'} chance, payoffs are {payoffs} from "
        f"{game.min_utility:g} to {game.max_utility:g}, and a play has at most {game.max_turns} "
        f"actions. Sparring has no rules in words for it; {OPENSPIEL_URL} names its source."
    )


def list_actions(actions: tuple[str, ...], limit: int = MAX_LISTED_ACTIONS) -> str:
    """Return the first ``limit`` legal actions as a line."""
    num_omitted = len(actions) - limit
    more = f" and {num_omitted} more (? lists all)" if num_omitted > 0 else ""
    return ", ".join(actions[:limit]) + more


def wrap_lines(text: str, width: int = 88) -> str:
    """Return a text with long lines broken between words; short lines, such as boards, stay."""
    lines = (
        textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        if len(line) > width
        else [line]
        for line in text.split("\n")
    )
    return "\n".join(piece for pieces in lines for piece in pieces)
