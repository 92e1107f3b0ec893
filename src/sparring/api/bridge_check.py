"""Tries the environments of a library through its bridge."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparring.config.plugins import registry
from sparring.core.errors import SparringError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.random_episode import CheckedEnvironmentCall, play_randomly

SECONDS = 30.0  # an environment is tried with fewer episodes after this time


@dataclass(frozen=True, kw_only=True, slots=True)
class BridgeRow:
    """What one environment of a library does; None: a problem came before the answer.

    Args:
        name: its id.
        begins: whether an episode begins.
        has_seeds: whether equal seeds gave equal episodes.
        has_copies: whether copies of running episodes went on in the same way.
        conforms: whether nothing broke the contract of environments.
        turns_per_second: replies per second of random play.
        problem: the first problem; "" if there is none.
    """

    name: str
    begins: bool = False
    has_seeds: bool | None = None
    has_copies: bool | None = None
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
    row = BridgeRow(name=name)
    turns, seconds, has_seeds, has_copies = 0, 0.0, True, True
    try:
        rules = make_game(library, options={"game": name})
        row, start = replace(row, begins=True), time.monotonic()
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
    except (SparringError, AssertionError) as error:
        return replace(row, problem=" ".join(str(error).split()))
    conforms = has_seeds and has_copies
    return replace(
        row,
        has_seeds=has_seeds,
        has_copies=has_copies,
        conforms=conforms,
        turns_per_second=turns / seconds if seconds else 0.0,
        problem="" if conforms else "equal seeds or copies give other episodes",
    )
