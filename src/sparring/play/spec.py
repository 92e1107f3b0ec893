"""A play that is to be played, as a value: it goes to JSON and back to an equal one."""

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
from sparring.environments.base import Environment, plain, spec_of
from sparring.environments.catalogue import from_spec


def turn_record(turn: Turn) -> dict[str, Any]:
    """Return a turn as values of JSON; the best actions of a verdict are sorted."""
    verdict = turn.verdict
    judged = None if verdict is None else asdict(verdict) | {"best": sorted(verdict.best)}
    parts = {
        "segments": [part._asdict() for part in turn.segments],
        "verdict": judged,
        "candidates": [turn_record(other) for other in turn.candidates],
    }
    found: dict[str, Any] = plain(turn._asdict() | parts)
    return found


def turn_of(record: Any) -> Turn:
    """Return the turn that ``turn_record`` was given.

    Raises:
        ConfigError: it is no such record.
    """
    try:
        verdict = record["verdict"]
        turn = Turn(
            **{
                **record,
                "legal_actions": tuple(record["legal_actions"]),
                "segments": tuple(
                    (
                        Segment(
                            **{
                                **part,
                                "ids": tuple(part["ids"]),
                                "logprobs": tuple(part["logprobs"]),
                                "kept": tuple(map(tuple, part["kept"])),
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
                "candidates": tuple(turn_of(other) for other in record["candidates"]),
            }
        )
        right = _is_turn(turn) and turn_record(turn) == record
    except (TypeError, KeyError, ValueError, AttributeError):
        right = False
    if not right:
        raise ConfigError(
            f"{quoted(record)} is no record of a turn; take it from EpisodeSpec.to_json()."
        )
    return turn


def _is_turn(turn: Turn) -> bool:
    """Return whether what a play reads of a turn is of the right kind."""
    numbers = (turn.seat, turn.turn_index, turn.moment, turn.conversation, turn.weights_version)
    texts = (turn.agent, turn.reply, turn.told, *turn.legal_actions)
    return (
        all(type(number) is int for number in numbers)
        and all(isinstance(text, str) for text in texts)
        and (turn.action is None or isinstance(turn.action, str))
        and turn.event in get_args(TurnEvent)
        and isinstance(turn.rewards, Mapping)
    )


VERSION = 1  # of the record that ``to_json`` gives
NUMBERS = ("episode_id", "group_id", "deal", "stream")
OTHERS = {"seats": list, "trained": list, "arm": str, "prefix": list, "redealt": bool}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EpisodeSpec:
    """One game to be played.

    The rules, who sits where, and the streams for the deal and for everything else. Two are equal
    if all of these are: rules are, if they are made from equal ``EnvironmentSpec``s.
    """

    game: Environment
    episode_id: int
    group_id: int
    deal: Stream  # equal within a group: its members share their start
    stream: Stream  # differs within a group
    seats: Sequence[PlayerRef | str]  # [num_seats]; held as references
    trained: tuple[bool, ...]  # [num_seats]
    # all seats' turns after which the game is cut, if before its rules do
    max_turns: int | None = None
    arm: str = ""  # what the curriculum knows the start by
    prefix: tuple[Turn, ...] = ()  # turns of another play of this deal, taken over as they were
    # whether chance is drawn anew from the last turn of the prefix on, or from the first decision
    # where there is none; if not, it goes on as dealt
    redealt: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "seats", refs(self.seats))

    @property
    def players(self) -> tuple[PlayerRef, ...]:
        """Who sits in each seat, [num_seats]."""
        return cast("tuple[PlayerRef, ...]", self.seats)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpisodeSpec) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.episode_id, self.deal.key, self.stream.key))

    def _values(self) -> tuple[Any, ...]:
        """Return what two equal specs have in common."""
        return (
            spec_of(self.game) or self.game,
            *(self.episode_id, self.group_id, self.deal.key, self.stream.key),
            *(self.seats, self.trained, self.max_turns, self.arm, self.prefix, self.redealt),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the spec as values of JSON.

        Without a prefix it has at most 4 KiB as long as the environment's options are few; nothing
        of it grows with what was played. The turns of a prefix go along as records.

        Raises:
            ConfigError: no name makes the environment, so that nobody else could make it.
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
        """Return a spec that is equal to the one ``to_json`` was asked for.

        Args:
            value: what that gave.
            games: environments that were made before, by their JSON; one that is made is added.

        Raises:
            ConfigError: it is something else, or of a newer version.
            UnknownNameError: there is no such environment, option or rule.
            GameError: the environment is of another version.
        """
        found = _checked(value)
        game = _made(found.pop("environment"), {} if games is None else games)
        if not len(found["seats"]) == len(found["trained"]) == game.num_seats:
            raise _wrong("seats", found["seats"], f"{game.num_seats} players, each trained or not")
        return cls(
            **{
                **found,
                "game": game,
                "deal": Stream(found["deal"]),
                "stream": Stream(found["stream"]),
                "seats": tuple(PlayerRef.from_json(player) for player in found["seats"]),
                "trained": tuple(found["trained"]),
                "prefix": tuple(turn_of(record) for record in found["prefix"]),
            }
        )


def alone(
    game: Environment,
    number: int,
    seats: Sequence[PlayerRef | str],
    stream: Stream,
    deal: Stream | None = None,
) -> EpisodeSpec:
    """Return a play that nobody learns from, in a group of its own.

    Args:
        game: what is played.
        number: of the play, and of its group.
        seats: who sits where.
        stream: of this play; its children "deal" and "play" are what all draws derive from.
        deal: in place of the child "deal".
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


def _made(record: Mapping[str, Any], games: dict[str, Environment]) -> Environment:
    """Return the environment of a record, made at most once."""
    key = json.dumps(record, sort_keys=True)
    if key not in games:
        try:
            games[key] = from_spec(EnvironmentSpec(**record))
        except TypeError:
            raise _wrong("environment", record, "an EnvironmentSpec") from None
    return games[key]


def _checked(value: Any) -> dict[str, Any]:
    fields = {"environment", "max_turns", *NUMBERS, *OTHERS}
    version = value.get("version") if isinstance(value, Mapping) else None
    if type(version) is int and version > VERSION:
        raise ConfigError(
            f"This EpisodeSpec has version {version}, and this Sparring reads up to {VERSION}; "
            "install the newer Sparring that wrote it."
        )
    if type(version) is not int or version != VERSION or set(value) != {"version", *fields}:
        raise ConfigError(
            f"{quoted(value)} is no EpisodeSpec of version {VERSION}; take one from "
            "EpisodeSpec.to_json()."
        )
    for name in NUMBERS:
        if type(value[name]) is not int or not 0 <= value[name] < 2**64:
            raise _wrong(name, value[name], "a whole number of at most 64 bits")
    for name, kind in OTHERS.items():
        if type(value[name]) is not kind:
            raise _wrong(name, value[name], f"a {kind.__name__}")
    if not all(type(one) is bool for one in value["trained"]):
        raise _wrong("trained", value["trained"], "true or false per seat")
    if not isinstance(value["environment"], Mapping):
        raise _wrong("environment", value["environment"], "an EnvironmentSpec")
    most = value["max_turns"]
    if most is not None and (type(most) is not int or most < 1):
        raise _wrong("max_turns", most, "null, or a whole number of at least 1")
    return {name: value[name] for name in fields}


def _wrong(field: str, given: Any, wanted: str) -> ConfigError:
    return ConfigError(
        f"EpisodeSpec: {field}={quoted(given)} must be {wanted}; take it from "
        "EpisodeSpec.to_json()."
    )
