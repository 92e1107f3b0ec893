"""Column: whether a conversation ended before its seat had had its say."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from sparring.core.records import BoolArray, Episode
from sparring.methods.columns.base import Source
from sparring.play.episode_pictures import environment_of
from sparring.play.replay import FAILED, conversations
from sparring.play.turn_table import ordered_turns


def failed(source: Source) -> BoolArray:
    """Say of every turn whether its conversation was ended by a limit.

    What: true or false per row, [N], the same for all turns of a conversation of an agent instance:
    true where it ran out of turns, outgrew the model's context, had its last reply cut short, or
    was truncated with the play. ``sparring show`` says how each has ended. The
    plays are played again, as their records hold nothing of it.
    """
    return turns_in(
        source,
        lambda game, episode: {
            place
            for one in conversations(game, episode)
            if one.end in FAILED
            for place in one.turns
        },
    )


def turns_in(source: Source, places: Callable[[Any, Episode], Collection[int]]) -> BoolArray:
    """Return which rows are turns at some places of their episodes, [N].

    A reply that was not played is as the one that was played in its place.

    Args:
        source: of the column.
        places: of an environment and an episode that was played by it, in ``Episode.turns``.
    """
    games: dict[str, Any] = {}
    found: dict[int, set[tuple[int, int]]] = {}  # seat and index of the turns, by episode
    for number, episode in enumerate(source.episodes):
        key = repr(episode.environment)
        if key not in games:
            games[key] = environment_of(episode)
        wanted = places(games[key], episode) if episode.turns else ()
        turns = (episode.turns[place] for place in wanted)
        found[number] = {(turn.seat, turn.turn_index) for turn in turns}
    numbers = {id(episode): number for number, episode in enumerate(source.episodes)}
    rows = ordered_turns(source.episodes, candidates=source.turns.state_group is not None)
    return np.array(
        [(turn.seat, turn.turn_index) in found[numbers[id(one)]] for one, turn in rows], dtype=bool
    )
