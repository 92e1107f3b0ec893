"""The state of a run without its models: one frozen record with the state of each owner.

An owner is a component that keeps state between steps: the estimator, the curriculum, the replay
buffer, the payoff book. A step takes one RunState and returns the next. So a training loop passes
on one value, and a new owner needs no change of the loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import pyarrow as pa

from sparring.core.errors import CheckpointError
from sparring.core.files import parse_json, write_synced
from sparring.core.records import Episode
from sparring.engine.workers.episode_budget import EpisodeBudget
from sparring.engine.workers.units import episode_of, record_of
from sparring.league.payoffs import Payoffs
from sparring.methods.selection.replay.base import ReplayBuffer
from sparring.play.store import from_bytes, to_bytes

FILE, NOTES = "fresh.parquet", "fresh.json"  # files of a ``FreshRecord``


class FreshGroup(NamedTuple):
    """A group of episodes that has arrived, and has not been taken by a step."""

    number: int
    arm: str
    episodes: tuple[Episode, ...]


class FreshRecord:
    """The state of a run in fresh order.

    Args:
        budget: counts of all episodes so far.
        num_draws: number of draws of specs so far.
        groups: arrived groups, in order of arrival.
    """

    def __init__(
        self,
        budget: EpisodeBudget | None = None,
        num_draws: int = 0,
        groups: Iterable[FreshGroup] = (),
    ) -> None:
        self.budget, self.num_draws = budget or EpisodeBudget(), num_draws
        self.groups = tuple(groups)

    def save(self, folder: Path) -> None:
        """Write the record into a checkpoint's folder; write nothing if no episode was issued."""
        if not self.budget.issued:
            return
        episodes = [episode for group in self.groups for episode in group.episodes]
        episodes_with_turns = [(0, episode) for episode in episodes if episode.turns]
        notes = {
            "account": asdict(self.budget),
            "draws": self.num_draws,
            "groups": [
                [group.number, group.arm, [episode.episode_id for episode in group.episodes]]
                for group in self.groups
            ],
            "silent": [record_of(episode) for episode in episodes if not episode.turns],
        }
        if episodes_with_turns:
            write_synced(folder / FILE, to_bytes(episodes_with_turns))
        write_synced(folder / NOTES, json.dumps(notes).encode())

    @classmethod
    def restored(cls, folder: Path) -> Self:
        """Return the record of a checkpoint's folder.

        Raises:
            CheckpointError: the files of the record do not match.
        """
        if not (folder / NOTES).exists():
            return cls()
        try:
            notes: Mapping[str, Any] = parse_json((folder / NOTES).read_bytes())
            episodes = [episode_of(record) for record in notes["silent"]]
            if (folder / FILE).exists():
                episodes += [episode for _, episode in from_bytes((folder / FILE).read_bytes())]
            episode_by_id = {episode.episode_id: episode for episode in episodes}
            groups = [
                FreshGroup(int(number), str(arm), tuple(episode_by_id[id_] for id_ in ids))
                for number, arm, ids in notes["groups"]
            ]
            return cls(EpisodeBudget.of(notes["account"]), int(notes["draws"]), groups)
        except (OSError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
            raise CheckpointError(
                f"The episodes of {folder} that no step had taken cannot be loaded: {error!r}. "
                "Take an earlier checkpoint, or start anew with --overwrite."
            ) from error


STATE = "state.json"
FRESH = "fresh"  # the owner of a ``FreshRecord``
LEAGUE = "league"  # the owner of the state of a league's learners


class FileState(Protocol):
    """The state of an owner that writes files instead of JSON."""

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint's folder; write nothing if it is empty."""

    @classmethod
    def restored(cls, folder: Path) -> Self:
        """Return what ``save`` wrote; the empty state if there are no files.

        Raises:
            CheckpointError: the files do not match.
        """


FILE_STATES: Mapping[str, type[FileState]] = {
    "replay": ReplayBuffer,
    FRESH: FreshRecord,
}  # owners that write files; the state of all other owners is in state.json


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """The state of a run after ``step`` steps; ``RunState()`` is the initial state of any run.

    Args:
        step: number of steps done.
        owners: the state of each owner by name; a missing owner has no state yet.
    """

    step: int = 0
    owners: Mapping[str, Any] = field(default_factory=dict)

    def json(self, owner: str) -> dict[str, Any]:
        """Return a copy of an owner's JSON state, empty at the beginning."""
        return dict(self.owners.get(owner, {}))

    @property
    def replay(self) -> ReplayBuffer:
        """A copy of the replay buffer, empty at the beginning."""
        buffer = self.owners.get("replay")
        return ReplayBuffer(buffer.entries if buffer is not None else ())

    @property
    def fresh(self) -> FreshRecord:
        """The record of fresh order, empty at the beginning."""
        record: FreshRecord = self.owners.get(FRESH) or FreshRecord()
        return record

    @property
    def payoffs(self) -> Payoffs:
        """The payoff book, empty at the beginning.

        Raises:
            CheckpointError: the restored value is not a payoff book.
        """
        return Payoffs.from_json(self.owners.get("payoffs", {}))

    def after(self, **owners: Any) -> RunState:
        """Return the state after the next step, with these new states of owners."""
        return replace(self.with_owners(**owners), step=self.step + 1)

    def with_owners(self, **owners: Any) -> RunState:
        """Return the state of the same step, with these new states of owners."""
        return replace(self, owners={**self.owners, **owners})

    def save(self, folder: Path, **states: Any) -> None:
        """Write ``state.json`` and the owners' files into a checkpoint's folder.

        Args:
            folder: folder of the new checkpoint.
            states: further entries of ``state.json``.
        """
        data = {name: value for name, value in self.owners.items() if name not in FILE_STATES}
        write_synced(folder / STATE, json.dumps({**data, **states}, sort_keys=True).encode())
        for name, value in self.owners.items():
            if name in FILE_STATES:
                value.save(folder)

    @classmethod
    def restored(
        cls,
        folder: Path,
        step: int,
        state: Mapping[str, Any],
        *,
        ignored_keys: frozenset[str] = frozenset(),
    ) -> RunState:
        """Return what ``save`` wrote.

        Args:
            folder: folder of the checkpoint.
            step: number of finished steps when the checkpoint was saved.
            state: the content of the checkpoint's ``state.json``.
            ignored_keys: keys of ``state.json`` that are not owners.

        Raises:
            CheckpointError: an owner's state is not a mapping, or its files do not match.
        """
        json_owners = {name: value for name, value in state.items() if name not in ignored_keys}
        for name, value in json_owners.items():
            if not isinstance(value, dict):
                raise CheckpointError(
                    f"The checkpoint {folder} holds no state of {name}; take another checkpoint, "
                    "or start anew with --overwrite."
                )
        file_owners = {name: kind.restored(folder) for name, kind in FILE_STATES.items()}
        return cls(step=step, owners={**json_owners, **file_owners})
