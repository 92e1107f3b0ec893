"""Column: whether a limit ended the turn's conversation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from sparring.core.records import BoolArray, Episode
from sparring.methods.columns.base import ColumnSource
from sparring.play.episode_pictures import environment_of
from sparring.play.replay import FAILED, conversations
from sparring.play.turn_table import ordered_turns


def failed(source: ColumnSource) -> BoolArray:
    """Flag the turns whose conversation was ended by a limit.

    What: true or false per row, [N], equal for all turns of one conversation. True means that the
    conversation had no turns left, outgrew the model's context, had its last reply truncated, or
    was truncated with the episode. ``sparring show`` prints how each conversation ended. The column
    replays the episodes, because their records do not hold the ends of conversations.
    """
    return flag_turns(
        source,
        lambda game, episode: {
            index
            for conversation in conversations(game, episode)
            if conversation.end in FAILED
            for index in conversation.turns
        },
    )


def flag_turns(
    source: ColumnSource, indices_of: Callable[[Any, Episode], Collection[int]]
) -> BoolArray:
    """Return the flags of the rows whose turns have the given indices in their episodes, [N].

    A candidate that was not played has the flag of the played reply.

    Args:
        source: the column's input.
        indices_of: gives the indices in ``Episode.turns``, from an environment and its episode.
    """
    games: dict[str, Any] = {}
    turn_keys: dict[int, set[tuple[int, int]]] = {}  # (seat, turn index) of the turns, by episode
    for episode_index, episode in enumerate(source.episodes):
        key = repr(episode.environment)
        if key not in games:
            games[key] = environment_of(episode)
        indices = indices_of(games[key], episode) if episode.turns else ()
        turns = (episode.turns[index] for index in indices)
        turn_keys[episode_index] = {(turn.seat, turn.turn_index) for turn in turns}
    index_of_episode = {id(episode): index for index, episode in enumerate(source.episodes)}
    rows = ordered_turns(source.episodes, candidates=source.turns.state_group is not None)
    flags = [
        (turn.seat, turn.turn_index) in turn_keys[index_of_episode[id(episode)]]
        for episode, turn in rows
    ]
    return np.array(flags, dtype=bool)
