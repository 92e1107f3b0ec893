"""Episodes in which nobody was asked anything: the store has a row per turn, so none for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sparring.refs import PlayerRef
from sparring.types import EnvironmentSpec, Episode


def record_of(episode: Episode) -> dict[str, Any]:
    """Return such an episode as values of JSON."""
    return {
        "episode_id": episode.episode_id,
        "group_id": episode.group_id,
        "game": episode.game,
        "seed": episode.seed,
        "roles": episode.roles,
        "players": [player.to_json() for player in episode.players],
        "trained": episode.trained,
        "returns": episode.returns,
        "forfeited_by": episode.forfeited_by,
        "cut": episode.cut,
        "environment": None if episode.environment is None else asdict(episode.environment),
    }


def episode_of(record: Mapping[str, Any]) -> Episode:
    """Return the episode of a record."""
    players = tuple(PlayerRef.from_json(player) for player in record["players"])
    environment = record["environment"]
    return Episode(
        **{
            **record,
            "roles": tuple(record["roles"]),
            "players": players,
            "agents": tuple(map(str, players)),
            "trained": tuple(record["trained"]),
            "returns": tuple(record["returns"]),
            "environment": None if environment is None else EnvironmentSpec(**environment),
            "turns": (),
        }
    )
