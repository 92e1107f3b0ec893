"""Units of a step's episodes, and the messages that carry them between processes.

A message is one line of JSON followed by a table in Arrow's stream format. Messages hold no code,
so reading a message from an untrusted sender gives values or an error.
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
    """Return an episode without turns as values of JSON."""
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
    """A file with the weights of one player."""

    player: str  # the text form of a reference
    file: str  # path of the file
    digest: str  # SHA-256 of the file
    version: int  # number of updates so far


class WorkUnit(NamedTuple):
    """Episodes for one worker, and their weights; every worker gives the same result."""

    specs: tuple[EpisodeSpec, ...]
    weights: tuple[WeightsFile, ...]
    progress: float | None  # share of the run that is done; None: no judging
    index_in_step: int = 0  # index of the unit in its step; not part of the message
    is_fresh: bool = False  # whether it is sent with the newest weights; not part of the message


Task = Mapping[int, WorkUnit]  # units by their numbers


class WorkerAnswer(NamedTuple):
    """The answer of a worker."""

    rollouts: Mapping[int, Rollout]  # number of an open unit -> its rollout
    units: tuple[int, ...] = ()  # all units of the answer, open or not


class UnreadableError(RolloutError):
    """A message cannot be read, or does not match its task."""


# errors that reading an untrusted answer may raise
READ_ERRORS = (
    SparringError,
    pa.ArrowException,
    OSError,  # from Arrow, for a truncated stream
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def split_into_units(specs: Sequence[EpisodeSpec], size: int) -> list[tuple[EpisodeSpec, ...]]:
    """Return the episodes in units of about ``size`` episodes, in order, without splitting a group.

    Args:
        specs: the episodes; the episodes of a group are adjacent.
        size: number of episodes from which on a unit gets no further group.
    """
    units: list[list[EpisodeSpec]] = []
    for spec in specs:
        if units and (len(units[-1]) < size or units[-1][-1].group_id == spec.group_id):
            units[-1].append(spec)
        else:
            units.append([spec])
    return [tuple(unit) for unit in units]


def weights_after(
    current: Mapping[str, WeightsFile], files: Iterable[WeightsFile]
) -> dict[str, WeightsFile]:
    """Return the weights of each player that a worker holds after it has loaded these files."""
    new_files = {file.player: file for file in files}
    remaining_files = {
        name: file for name, file in current.items() if ref(name).step is None or name in new_files
    }
    return {**remaining_files, **new_files}


def task_bytes(task: Task) -> bytes:
    """Return a task as a message.

    Raises:
        ConfigError: an environment has no spec, because it was not made by its name.
    """
    units = [
        [number, [spec.to_json() for spec in unit.specs], unit.weights, unit.progress]
        for number, unit in task.items()
    ]
    return json.dumps({"units": units}).encode()


def task_of(message: bytes, games: dict[str, Environment]) -> Task:
    """Return the task of a message that ``task_bytes`` made.

    Args:
        message: the message.
        games: the environments made so far, in the form that ``EpisodeSpec.from_json`` takes.
    """
    return {
        number: WorkUnit(
            tuple(EpisodeSpec.from_json(spec, games=games) for spec in specs),
            tuple(WeightsFile(*fields) for fields in weights),
            progress,
        )
        for number, specs, weights, progress in parse_json(message)["units"]
    }


WEIGHTS_PREFIX = b'{"news"'


def weights_message(weights: Iterable[WeightsFile]) -> bytes:
    """Return a message that announces newer weights to workers at play."""
    return json.dumps({"news": list(weights)}).encode()


def is_weights_message(message: bytes) -> bool:
    """Return whether a message announces newer weights; any other message is a task."""
    return message.startswith(WEIGHTS_PREFIX)


def weights_of_message(message: bytes) -> tuple[WeightsFile, ...]:
    """Return the weights that a message of ``weights_message`` announces."""
    return tuple(WeightsFile(*fields) for fields in parse_json(message)["news"])


def numbers_of(message: bytes) -> tuple[int, ...]:
    """Return the numbers of a task's units, without parsing their episodes."""
    return tuple(unit[0] for unit in parse_json(message)["units"])


def known_games(games: Sequence[Environment]) -> dict[str, Environment]:
    """Return the dictionary of environments that ``task_of`` takes: by the JSON of their specs."""
    return {
        json.dumps(asdict(spec), sort_keys=True): game for game in games if (spec := spec_of(game))
    }


def answer_bytes(answer: WorkerAnswer) -> bytes:
    """Return an answer as a message."""
    header = {
        "units": [
            {
                "number": number,
                "retried": rollout.counts.retried,
                "dropped": sorted(rollout.counts.dropped_groups),
                "judging": rollout.counts.judging_seconds,
                "scored": rollout.counts.scored,
                "silent": [record_of(episode) for episode in rollout.episodes if not episode.turns],
            }
            for number, rollout in answer.rollouts.items()
        ]
    }
    episodes_with_turns = [
        (number, episode)
        for number, rollout in answer.rollouts.items()
        for episode in rollout.episodes
        if episode.turns
    ]
    return json.dumps(header).encode() + b"\n" + to_stream(episodes_with_turns)


def head_of(message: bytes) -> dict[str, Any]:
    """Return the line of JSON at the start of a message.

    Raises:
        UnreadableError: the message does not begin with JSON.
    """
    try:
        header = parse_json(message.partition(b"\n")[0])
    except ValueError as error:
        raise UnreadableError(f"its message is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise UnreadableError("its message is not a JSON object")
    return header


def answer_of(message: bytes, open_units: Mapping[int, WorkUnit]) -> WorkerAnswer:
    """Return the answer in a message of ``answer_bytes``, with episodes in the order of the specs.

    Args:
        message: the message.
        open_units: the open units by their numbers; answers to other units are left out.

    Raises:
        UnreadableError: the message is not an answer to these units.
    """
    try:
        header = head_of(message)
        units = tuple(unit["number"] for unit in header["units"])
        if not units:
            raise ValueError("it contains no unit")
        episodes: dict[int, dict[int, Episode]] = {number: {} for number in units}
        if open_units.keys() & episodes.keys():
            for number, episode in from_stream(message.partition(b"\n")[2]):
                episodes[number][episode.episode_id] = episode
        rollouts = {
            number: _parse_rollout(unit, episodes[number], open_units[number].specs)
            for number, unit in zip(units, header["units"], strict=True)
            if number in open_units
        }
    except READ_ERRORS as error:
        raise UnreadableError(f"its answer cannot be read: {error!r:.200}") from error
    return WorkerAnswer(rollouts, units)


def _parse_rollout(
    unit: Mapping[str, Any], with_turns: Mapping[int, Episode], specs: Sequence[EpisodeSpec]
) -> Rollout:
    without_turns = {episode.episode_id: episode for episode in map(episode_of, unit["silent"])}
    episodes = {**with_turns, **without_turns}
    counts = RolloutCounts(
        int(unit["retried"]),
        frozenset(map(int, unit["dropped"])),
        float(unit["judging"]),
        tuple(LogprobCheck(*fields) for fields in unit["scored"]),
    )
    complete_specs = [spec for spec in specs if spec.group_id not in counts.dropped_groups]
    return Rollout([_find_episode(episodes, spec) for spec in complete_specs], counts)


def _find_episode(episodes: Mapping[int, Episode], spec: EpisodeSpec) -> Episode:
    episode = episodes.get(spec.episode_id)
    if episode is None or (episode.group_id, episode.seed) != (spec.group_id, spec.deal.key):
        raise ValueError(f"episode {spec.episode_id} is missing or has another seed or group")
    return episode


def error_of(content: object) -> SparringError:
    """Return the error that a worker reported."""
    class_name, message = (
        content if isinstance(content, list) and len(content) == 2 else ("", content)
    )
    error_class = getattr(errors, str(class_name), None)
    if not (isinstance(error_class, type) and issubclass(error_class, SparringError)):
        return RolloutError(message)
    error = error_class.__new__(error_class)  # some error classes take other arguments
    SparringError.__init__(error, message)
    return error
