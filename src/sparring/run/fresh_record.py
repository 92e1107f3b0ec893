"""What a checkpoint holds of plays in fresh order: their account, and those that had come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa

from sparring.engine.admission import Account
from sparring.engine.silent import episode_of, record_of
from sparring.errors import CheckpointError
from sparring.rollout.store import from_bytes, to_bytes
from sparring.system.files import parse_json, write_synced
from sparring.types import Episode

FILE, NOTES = "fresh.parquet", "fresh.json"


class Group(NamedTuple):
    """A group of plays that has come, and that no step has taken yet."""

    number: int
    arm: str
    episodes: tuple[Episode, ...]


class FreshRecord:
    """What is remembered of plays from step to step.

    Args:
        account: of all plays so far.
        draws: how often plays were drawn to be issued.
        groups: that have come, the first first.
    """

    def __init__(
        self, account: Account | None = None, draws: int = 0, groups: Iterable[Group] = ()
    ) -> None:
        self.account, self.draws, self.groups = account or Account(), draws, tuple(groups)

    def save(self, folder: Path) -> None:
        """Write everything into a checkpoint's folder; nothing where nothing was issued."""
        if not self.account.issued:
            return
        episodes = [episode for group in self.groups for episode in group.episodes]
        spoken = [(0, episode) for episode in episodes if episode.turns]
        notes = {
            "account": asdict(self.account),
            "draws": self.draws,
            "groups": [
                [group.number, group.arm, [one.episode_id for one in group.episodes]]
                for group in self.groups
            ],
            "silent": [record_of(episode) for episode in episodes if not episode.turns],
        }
        if spoken:
            write_synced(folder / FILE, to_bytes(spoken))
        write_synced(folder / NOTES, json.dumps(notes).encode())

    @classmethod
    def restored(cls, folder: Path) -> Self:
        """Return what was saved in a checkpoint's folder.

        Raises:
            CheckpointError: its files do not fit together.
        """
        if not (folder / NOTES).exists():
            return cls()
        try:
            notes: Mapping[str, Any] = parse_json((folder / NOTES).read_bytes())
            found = [episode_of(record) for record in notes["silent"]]
            if (folder / FILE).exists():
                found += [episode for _, episode in from_bytes((folder / FILE).read_bytes())]
            own = {episode.episode_id: episode for episode in found}
            groups = [
                Group(int(number), str(arm), tuple(own[play] for play in plays))
                for number, arm, plays in notes["groups"]
            ]
            return cls(Account.of(notes["account"]), int(notes["draws"]), groups)
        except (OSError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
            raise CheckpointError(
                f"The plays that had come when {folder} was saved cannot be loaded: {error!r}. "
                "Take an earlier checkpoint, or start anew with --overwrite."
            ) from error
