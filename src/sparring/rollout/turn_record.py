"""A turn as values of JSON, and back: what is shown of it, and what is sent of a prefix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_args

from sparring.environments.spec import plain
from sparring.errors import ConfigError, quoted
from sparring.types import Segment, Turn, TurnEvent, Verdict


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
                "segments": tuple(_segment(part) for part in record["segments"]),
                "verdict": None if verdict is None else _verdict(verdict),
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


def _segment(record: Mapping[str, Any]) -> Segment:
    """Return a segment of a record."""
    return Segment(
        **{
            **record,
            "ids": tuple(record["ids"]),
            "logprobs": tuple(record["logprobs"]),
            "kept": tuple(map(tuple, record["kept"])),
        }
    )


def _verdict(record: Mapping[str, Any]) -> Verdict:
    """Return a verdict of a record."""
    return Verdict(
        **{
            **record,
            "actions": tuple(record["actions"]),
            "values": tuple(record["values"]),
            "best": frozenset(record["best"]),
        }
    )
