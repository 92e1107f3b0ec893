"""A step's plays cut into units, and what travels: specs as JSON, episodes in the store's columns.

A message is one line of JSON and, after it, a table in Arrow's format for streams. Nothing of it is
code: reading one from a stranger gives values or an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import pyarrow as pa

from sparring.core import errors
from sparring.core.errors import RolloutError, SparringError
from sparring.core.files import parse_json
from sparring.core.records import EnvironmentSpec, Episode, PlayerRef, ref
from sparring.engine.logprob_check import LogprobCheck
from sparring.environments.base import Environment, spec_of
from sparring.play.rollout import Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec
from sparring.play.store import from_stream, to_stream


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


class WeightsFile(NamedTuple):
    """Weights that a player speaks with, as a file."""

    player: str  # the text form of a reference
    file: str
    digest: str  # SHA-256 of the file
    version: int  # number of updates that they have seen


class WorkUnit(NamedTuple):
    """Plays that one worker plays, and what they are played with; any worker gives the same."""

    specs: tuple[EpisodeSpec, ...]
    weights: tuple[WeightsFile, ...]
    progress: float | None  # share of the run that is done; None: nobody judges
    place: int = 0  # its number among those of its step; it is not sent
    fresh: bool = False  # it is played with the weights that are newest when it is; it is not sent


Task = Mapping[int, WorkUnit]  # what a worker is asked: units by their numbers


class WorkerAnswer(NamedTuple):
    """What a worker answers."""

    rollouts: Mapping[int, Rollout]  # of each unit by its number
    units: tuple[int, ...] = ()  # all that were answered, those that nobody wants any more as well


class UnreadableError(RolloutError):
    """A message is none, or not what was asked for."""


# what reading a stranger's answer may raise
UNREADABLE = (
    SparringError,
    pa.ArrowException,
    OSError,  # Arrow's, of a stream that is cut off
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def split_into_units(specs: Sequence[EpisodeSpec], games: int) -> list[tuple[EpisodeSpec, ...]]:
    """Return the plays in units of about so many, in order, no group cut.

    Args:
        specs: the members of a group next to each other.
        games: a unit is full as soon as it has so many.
    """
    units: list[list[EpisodeSpec]] = []
    for spec in specs:
        if units and (len(units[-1]) < games or units[-1][-1].group_id == spec.group_id):
            units[-1].append(spec)
        else:
            units.append([spec])
    return [tuple(unit) for unit in units]


def weights_after(
    before: Mapping[str, WeightsFile], units_weights: Iterable[WeightsFile]
) -> dict[str, WeightsFile]:
    """Return the latest weights that a worker holds of each player after these units."""
    new = {weights.player: weights for weights in units_weights}
    remaining = {
        name: weights for name, weights in before.items() if ref(name).step is None or name in new
    }
    return {**remaining, **new}


def task_bytes(task: Task) -> bytes:
    """Return a task as it travels.

    Raises:
        ConfigError: an environment was not made by its name.
    """
    units = [
        [number, [spec.to_json() for spec in unit.specs], unit.weights, unit.progress]
        for number, unit in task.items()
    ]
    return json.dumps({"units": units}).encode()


def task_of(data: bytes, games: dict[str, Environment]) -> Task:
    """Return what ``task_bytes`` was given.

    Args:
        data: as it travelled.
        games: environments that were made before, as ``EpisodeSpec.from_json`` takes them.
    """
    return {
        number: WorkUnit(
            tuple(EpisodeSpec.from_json(spec, games=games) for spec in specs),
            tuple(WeightsFile(*fields) for fields in weights),
            progress,
        )
        for number, specs, weights, progress in parse_json(data)["units"]
    }


NEWS = b'{"news"'


def news_bytes(weights: Iterable[WeightsFile]) -> bytes:
    """Return newer weights as they are told of to workers that play."""
    return json.dumps({"news": list(weights)}).encode()


def is_news(data: bytes) -> bool:
    """Return whether a message tells of newer weights; if not it is a task."""
    return data.startswith(NEWS)


def news_of(data: bytes) -> tuple[WeightsFile, ...]:
    """Return what ``news_bytes`` was given."""
    return tuple(WeightsFile(*fields) for fields in parse_json(data)["news"])


def numbers_of(data: bytes) -> tuple[int, ...]:
    """Return the numbers of the units of a task."""
    return tuple(unit[0] for unit in parse_json(data)["units"])


def known_games(games: Sequence[Environment]) -> dict[str, Environment]:
    """Return environments as ``task_of`` takes them."""
    return {
        json.dumps(asdict(spec), sort_keys=True): game for game in games if (spec := spec_of(game))
    }


def answer_bytes(answer: WorkerAnswer) -> bytes:
    """Return an answer as it travels."""
    head = {
        "units": [
            {
                "number": number,
                "retried": rollout.counts.retried,
                "dropped": sorted(rollout.counts.dropped_groups),
                "judging": rollout.counts.judging,
                "scored": rollout.counts.scored,
                "silent": [record_of(each) for each in rollout.episodes if not each.turns],
            }
            for number, rollout in answer.rollouts.items()
        ]
    }
    spoken = [
        (number, episode)
        for number, rollout in answer.rollouts.items()
        for episode in rollout.episodes
        if episode.turns
    ]
    return json.dumps(head).encode() + b"\n" + to_stream(spoken)


def head_of(data: bytes) -> dict[str, Any]:
    """Return the line of JSON that a message begins with.

    Raises:
        UnreadableError: it begins with none.
    """
    try:
        head = parse_json(data.partition(b"\n")[0])
    except ValueError as error:
        raise UnreadableError(f"it said what is no message: {error}") from error
    if not isinstance(head, dict):
        raise UnreadableError("it said what is no message")
    return head


def answer_of(data: bytes, open_units: Mapping[int, WorkUnit]) -> WorkerAnswer:
    """Return what ``answer_bytes`` was given, the episodes in the order of the specs.

    Args:
        data: as it travelled.
        wanted: the units that are wanted, by their numbers; others are left out.

    Raises:
        UnreadableError: it is none, or not an answer to these units.
    """
    try:
        head = head_of(data)
        units = tuple(unit["number"] for unit in head["units"])
        if not units:
            raise ValueError("of no unit")
        spoken: dict[int, dict[int, Episode]] = {number: {} for number in units}
        if open_units.keys() & spoken.keys():
            for number, episode in from_stream(data.partition(b"\n")[2]):
                spoken[number][episode.episode_id] = episode
        rollouts = {
            unit["number"]: _rollout(unit, spoken[unit["number"]], open_units[unit["number"]].specs)
            for unit in head["units"]
            if unit["number"] in open_units
        }
    except UNREADABLE as error:
        raise UnreadableError(f"its answer cannot be read: {error!r:.200}") from error
    return WorkerAnswer(rollouts, units)


def _rollout(
    unit: Mapping[str, Any], spoken: Mapping[int, Episode], specs: Sequence[EpisodeSpec]
) -> Rollout:
    episodes = {**spoken, **{each.episode_id: each for each in map(episode_of, unit["silent"])}}
    counts = RolloutCounts(
        int(unit["retried"]),
        frozenset(map(int, unit["dropped"])),
        float(unit["judging"]),
        tuple(LogprobCheck(*each) for each in unit["scored"]),
    )
    complete = [spec for spec in specs if spec.group_id not in counts.dropped_groups]
    return Rollout([_fitting(episodes, spec) for spec in complete], counts)


def _fitting(episodes: Mapping[int, Episode], spec: EpisodeSpec) -> Episode:
    episode = episodes.get(spec.episode_id)
    if episode is None or (episode.group_id, episode.seed) != (spec.group_id, spec.deal.key):
        raise ValueError(f"the play {spec.episode_id} is missing or another one")
    return episode


def error_of(content: object) -> SparringError:
    """Return the error that a worker has met."""
    kind, message = content if isinstance(content, list) and len(content) == 2 else ("", content)
    kind_of_error = getattr(errors, str(kind), None)
    if not (isinstance(kind_of_error, type) and issubclass(kind_of_error, SparringError)):
        return RolloutError(message)
    error = kind_of_error.__new__(kind_of_error)  # some are made from what the message says
    SparringError.__init__(error, message)
    return error
