"""The specification of one episode, as a value that can be stored as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args

from sparring.core.errors import ConfigError, quoted
from sparring.core.records import (
    EnvironmentSpec,
    PlayerRef,
    Segment,
    Turn,
    TurnEvent,
    Verdict,
    refs,
)
from sparring.core.rng import Stream
from sparring.environments.base import Environment, spec_of, to_json_data
from sparring.environments.catalogue import from_spec

STORED_NAMES = {"prompt": "told", "support": "kept"}  # field -> name in records since version 1
FIELDS_BY_STORED_NAME = {text: name for name, text in STORED_NAMES.items()}


def turn_record(turn: Turn) -> dict[str, Any]:
    """Return a turn as JSON values, with sorted best actions in its verdict."""
    verdict = turn.verdict
    verdict_record = None if verdict is None else asdict(verdict) | {"best": sorted(verdict.best)}
    parts = {
        "segments": [_rename_keys(part._asdict(), STORED_NAMES) for part in turn.segments],
        "verdict": verdict_record,
        "candidates": [turn_record(candidate) for candidate in turn.candidates],
    }
    record: dict[str, Any] = to_json_data(_rename_keys(turn._asdict() | parts, STORED_NAMES))
    return record


def turn_of(record: Any) -> Turn:
    """Return the turn of a record that ``turn_record`` made.

    Raises:
        ConfigError: the value is not such a record.
    """
    try:
        verdict = record["verdict"]
        turn = Turn(
            **{
                **_rename_keys(record, FIELDS_BY_STORED_NAME),
                "legal_actions": tuple(record["legal_actions"]),
                "segments": tuple(
                    (
                        Segment(
                            **{
                                **_rename_keys(part, FIELDS_BY_STORED_NAME),
                                "ids": tuple(part["ids"]),
                                "logprobs": tuple(part["logprobs"]),
                                "support": tuple(map(tuple, part["kept"])),
                            }
                        )
                    )
                    for part in record["segments"]
                ),
                "verdict": None
                if verdict is None
                else (
                    Verdict(
                        **{
                            **verdict,
                            "actions": tuple(verdict["actions"]),
                            "values": tuple(verdict["values"]),
                            "best": frozenset(verdict["best"]),
                        }
                    )
                ),
                "candidates": tuple(turn_of(candidate) for candidate in record["candidates"]),
            }
        )
        is_valid = _is_turn(turn) and turn_record(turn) == record
    except (TypeError, KeyError, ValueError, AttributeError):
        is_valid = False
    if not is_valid:
        raise ConfigError(
            f"{quoted(record)} is not a record of a turn; take it from EpisodeSpec.to_json()."
        )
    return turn


def _rename_keys(record: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in record.items()}


def _is_turn(turn: Turn) -> bool:
    numbers = (turn.seat, turn.turn_index, turn.moment, turn.conversation, turn.weights_version)
    texts = (turn.agent, turn.reply, turn.prompt, *turn.legal_actions)
    return (
        all(type(number) is int for number in numbers)
        and all(isinstance(text, str) for text in texts)
        and (turn.action is None or isinstance(turn.action, str))
        and turn.event in get_args(TurnEvent)
        and isinstance(turn.rewards, Mapping)
    )


VERSION = 1  # version of the record that ``to_json`` returns
NUMBER_FIELDS = ("episode_id", "group_id", "deal", "stream")
FIELD_TYPES = {"seats": list, "trained": list, "arm": str, "prefix": list, "redealt": bool}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EpisodeSpec:
    """One episode to be played: the environment, the players of the seats, and the streams.

    Specs are equal if all fields are equal; environments are compared by ``EnvironmentSpec``.
    """

    game: Environment
    episode_id: int
    group_id: int
    deal: Stream  # stream of the initial state; equal within a group
    stream: Stream  # stream of everything else; differs within a group
    seats: Sequence[PlayerRef | str]  # [num_seats]; stored as references
    trained: tuple[bool, ...]  # [num_seats]
    max_turns: int | None = None  # the episode is truncated after this number of turns of all seats
    arm: str = ""  # the curriculum's name of the initial state
    prefix: tuple[Turn, ...] = ()  # first turns, replayed from another episode with the same deal
    # true: new chance outcomes from the last turn of the prefix on, or from the first decision if
    # it is empty; false: the chance outcomes of ``deal``
    redealt: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "seats", refs(self.seats))

    @property
    def players(self) -> tuple[PlayerRef, ...]:
        """The player of each seat, [num_seats]."""
        return cast("tuple[PlayerRef, ...]", self.seats)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpisodeSpec) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.episode_id, self.deal.key, self.stream.key))

    def _values(self) -> tuple[Any, ...]:
        return (
            spec_of(self.game) or self.game,
            *(self.episode_id, self.group_id, self.deal.key, self.stream.key),
            *(self.seats, self.trained, self.max_turns, self.arm, self.prefix, self.redealt),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON values: at most 4 KiB with few options and without prefix.

        Raises:
            ConfigError: the environment was not made by its name, so no other process can make it.
        """
        environment = spec_of(self.game)
        if environment is None:
            raise ConfigError(
                f"The environment {quoted(self.game.name)} was not made by its name, so an "
                "EpisodeSpec of it cannot be sent; make it by make_environment(NAME)."
            )
        return {
            "version": VERSION,
            "environment": asdict(environment),
            "episode_id": self.episode_id,
            "group_id": self.group_id,
            "deal": self.deal.key,
            "stream": self.stream.key,
            "seats": [player.to_json() for player in self.players],
            "trained": list(self.trained),
            "max_turns": self.max_turns,
            "arm": self.arm,
            "prefix": [turn_record(turn) for turn in self.prefix],
            "redealt": self.redealt,
        }

    @classmethod
    def from_json(cls, value: Any, *, games: dict[str, Environment] | None = None) -> EpisodeSpec:
        """Return the spec that ``to_json`` stored.

        Args:
            value: the result of ``to_json``.
            games: cache of environments by their JSON; new environments are added.

        Raises:
            ConfigError: the value has another form or a newer version.
            UnknownNameError: there is no such environment, option or rule.
            GameError: the environment has another version.
        """
        values = _check_values(value)
        game = _environment_of(values.pop("environment"), {} if games is None else games)
        if not len(values["seats"]) == len(values["trained"]) == game.num_seats:
            raise _error("seats", values["seats"], f"{game.num_seats} players, each trained or not")
        return cls(
            **{
                **values,
                "game": game,
                "deal": Stream(values["deal"]),
                "stream": Stream(values["stream"]),
                "seats": tuple(PlayerRef.from_json(player) for player in values["seats"]),
                "trained": tuple(values["trained"]),
                "prefix": tuple(turn_of(record) for record in values["prefix"]),
            }
        )


def untrained_spec(
    game: Environment,
    number: int,
    seats: Sequence[PlayerRef | str],
    stream: Stream,
    deal: Stream | None = None,
) -> EpisodeSpec:
    """Return the spec of an episode without trained seats, which is its own group.

    Args:
        game: the environment.
        number: number of the episode, and of its group.
        seats: the player of each seat.
        stream: the episode's stream; all draws derive from its children "deal" and "play".
        deal: stream of the initial state; None: the child "deal" of ``stream``.
    """
    return EpisodeSpec(
        game=game,
        episode_id=number,
        group_id=number,
        deal=stream.child("deal") if deal is None else deal,
        stream=stream.child("play"),
        seats=seats,
        trained=(False,) * game.num_seats,
    )


def _environment_of(record: Mapping[str, Any], games: dict[str, Environment]) -> Environment:
    key = json.dumps(record, sort_keys=True)
    if key not in games:
        try:
            games[key] = from_spec(EnvironmentSpec(**record))
        except TypeError:
            raise _error("environment", record, "an EnvironmentSpec") from None
    return games[key]


def _check_values(value: Any) -> dict[str, Any]:
    fields = {"environment", "max_turns", *NUMBER_FIELDS, *FIELD_TYPES}
    version = value.get("version") if isinstance(value, Mapping) else None
    if type(version) is int and version > VERSION:
        raise ConfigError(
            f"This EpisodeSpec has version {version}, and this Sparring reads up to {VERSION}; "
            "install the newer Sparring that wrote it."
        )
    if type(version) is not int or version != VERSION or set(value) != {"version", *fields}:
        raise ConfigError(
            f"{quoted(value)} is not an EpisodeSpec of version {VERSION}; take one from "
            "EpisodeSpec.to_json()."
        )
    for name in NUMBER_FIELDS:
        if type(value[name]) is not int or not 0 <= value[name] < 2**64:
            raise _error(name, value[name], "a whole number of at most 64 bits")
    for name, field_type in FIELD_TYPES.items():
        if type(value[name]) is not field_type:
            raise _error(name, value[name], f"a {field_type.__name__}")
    if not all(type(flag) is bool for flag in value["trained"]):
        raise _error("trained", value["trained"], "true or false per seat")
    if not isinstance(value["environment"], Mapping):
        raise _error("environment", value["environment"], "an EnvironmentSpec")
    max_turns = value["max_turns"]
    if max_turns is not None and (type(max_turns) is not int or max_turns < 1):
        raise _error("max_turns", max_turns, "null, or a whole number of at least 1")
    return {name: value[name] for name in fields}


def _error(field: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(
        f"EpisodeSpec: {field}={quoted(value)} must be {expected}; take it from "
        "EpisodeSpec.to_json()."
    )
