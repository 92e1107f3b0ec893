"""Tries the environments of a library through its bridge."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sparring.config.plugins import registry
from sparring.core.errors import SparringError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.random_episode import CheckedEnvironmentCall, play_randomly

SECONDS = 30.0  # an environment is tried with fewer episodes after this time


@dataclass(frozen=True, kw_only=True, slots=True)
class BridgeRow:
    """What one environment of a library does; speed is that of random play."""

    name: str
    begins: bool = False
    has_seeds: bool = False
    has_copies: bool = False
    conforms: bool = False
    turns_per_second: float = 0.0
    problem: str = ""


def library_ids(library: str) -> list[str]:
    """Return the ids of a library that its bridge tries.

    Raises:
        UnknownNameError: there is no bridge to this library, or it has no ids.
        ConfigError: the library is not installed.
    """
    names = [name for name in registry.bridges("environments") if name != "dataset"]
    if library not in names:
        raise UnknownNameError("library with a bridge", library, names)
    module: Any = registry.load("environments", library).module
    ids: list[str] = module.library_ids()
    return ids


def check_bridge(
    library: str, ids: Sequence[str] = (), *, plays: int = 3
) -> Iterator[tuple[int, int, BridgeRow]]:
    """Try environments of a library by random episodes.

    Args:
        library: name of the bridge.
        ids: ids of environments; (): all of the library.
        plays: largest number of episodes of each.

    Yields:
        Number of the environment from 1, number of environments, and what it does.
    """
    ids = list(ids) or library_ids(library)
    for number, name in enumerate(ids, 1):
        yield number, len(ids), _check(library, name, plays)


def _check(library: str, name: str, plays: int) -> BridgeRow:
    begins, has_seeds, has_copies, turns, seconds = False, True, True, 0, 0.0
    try:
        rules = make_game(library, options={"game": name})
        begins, start = True, time.monotonic()
        for number in range(plays):
            stream = Stream.from_seed(0).child(number)
            with CheckedEnvironmentCall(rules):
                began = time.perf_counter()
                history = [*play_randomly(rules, name, stream, copies=False)]
                seconds += time.perf_counter() - began
                turns += sum(len(entry) for entry in history if isinstance(entry, dict))
                has_seeds &= history == [*play_randomly(rules, name, stream, copies=False)]
                has_copies &= history == [*play_randomly(rules, name, stream, copies=True)]
            if time.monotonic() - start > SECONDS:
                break
        problem = "" if has_seeds and has_copies else "equal seeds or copies give other episodes"
    except (SparringError, AssertionError) as error:
        problem = " ".join(str(error).split())
    conforms = not problem
    return BridgeRow(
        name=name,
        begins=begins,
        has_seeds=begins and has_seeds and conforms,
        has_copies=begins and has_copies and conforms,
        conforms=conforms,
        turns_per_second=turns / seconds if seconds else 0.0,
        problem=problem,
    )
