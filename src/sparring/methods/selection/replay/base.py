"""A bounded buffer of finished games, and what a rule is asked about it in every step.

A rule says which stored games join the step's batch, before credit, and what the buffer holds from
then on. A stored game keeps the log-probabilities it was sampled with. As long as no plug-in NEEDS
"old_logprobs", the losses compare the learner with them, so ratios are those of the policy that
played, whatever its age; with ``truncated_is`` or ``masked_is`` the learner before the update
stands in between and the rest of the ratio is that plug-in's weight.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import CheckpointError, PluginError
from sparring.core.files import parse_json, write_synced
from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.methods.selection.base import trajectories
from sparring.ops.groups import centre
from sparring.play.store import from_bytes, to_bytes
from sparring.play.turn_table import turn_table

FILE, NOTES = "replay.parquet", "replay.json"


class Stored(NamedTuple):
    """A game in the buffer."""

    episode: Episode
    arm: str
    step: int  # when it was played
    priority: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayRequest:
    """What a rule is asked: the fresh games that selection left, and the buffer, oldest first."""

    fresh: tuple[Episode, ...]
    arm_of: Mapping[int, str]  # arm of each fresh group id
    buffer: tuple[Stored, ...]
    wanted: int  # games a step is to have
    step: int
    stream: Stream


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayPlan:
    """A rule's answer.

    A stored game joins at most once, under its own group id or that of a fresh group.
    """

    joining: tuple[tuple[Stored, int], ...] = ()  # with the group id it joins under
    buffer: tuple[Stored, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


def check_output(rule: BoundPlugin, plan: Any, *asked: Any) -> None:
    """Check that a replay rule has given a plan; every call of one ends here.

    Raises:
        PluginError: it gave something else.
    """
    if not isinstance(plan, ReplayPlan):
        raise PluginError(
            f"The {rule} must return a ReplayPlan; it returned {type(plan).__name__}."
        )


class ReplayBuffer:
    """The stored games of a run."""

    def __init__(self, stored: Iterable[Stored] = ()) -> None:
        self.stored = tuple(stored)

    def join(
        self,
        rule: BoundPlugin | None,
        fresh: Sequence[Episode],
        arm_of: Mapping[int, str],
        *,
        wanted: int,
        step: int,
        stream: Stream,
        progress: float,
    ) -> tuple[list[Episode], dict[str, float]]:
        """Return the batch to learn from, stored games first, and figures.

        The buffer is then the rule's.

        Args:
            rule: decides what joins and what is kept; None leaves everything as it is.
            fresh: the games of this step that selection left.
            arm_of: name of the arm of each group id.
            wanted: games a step is to have.
            step: the step's number.
            stream: what the rule draws from.
            progress: share of the run that is done.
        """
        if rule is None:
            return list(fresh), {}
        asked = ReplayRequest(
            fresh=tuple(fresh),
            arm_of=arm_of,
            buffer=self.stored,
            wanted=wanted,
            step=step,
            stream=stream,
        )
        plan: ReplayPlan = rule(asked, progress=progress)
        self.stored = plan.buffer
        joining = sorted(plan.joining, key=lambda pair: pair[0].episode.episode_id)
        batch = [replace(stored.episode, group_id=group) for stored, group in joining] + list(fresh)
        if not plan.buffer and not joining:
            return batch, {}
        metrics = {
            "replayed_share": len(joining) / max(len(batch), 1),
            "buffer_size": float(len(plan.buffer)),
            **plan.metrics,
        }
        if joining:
            metrics["replay_age"] = sum(step - stored.step for stored, _ in joining) / len(joining)
        return batch, metrics

    def save(self, folder: Path) -> None:
        """Write everything into a checkpoint's folder; nothing if the buffer is empty."""
        if not self.stored:
            return
        notes = {
            "arms": [stored.arm for stored in self.stored],
            "priorities": [stored.priority for stored in self.stored],
        }
        episodes = [(stored.step, stored.episode) for stored in self.stored]
        write_synced(folder / FILE, to_bytes(episodes))
        write_synced(folder / NOTES, json.dumps(notes).encode())

    @classmethod
    def restored(cls, folder: Path) -> ReplayBuffer:
        """Return the buffer that was saved in a checkpoint's folder.

        Raises:
            CheckpointError: its files do not fit together.
        """
        if not (folder / FILE).exists():
            return cls()
        try:
            notes: dict[str, Any] = parse_json((folder / NOTES).read_bytes())
            episodes = from_bytes((folder / FILE).read_bytes())
            rows = zip(episodes, notes["arms"], notes["priorities"], strict=True)
            return cls(
                Stored(episode, str(arm), step, float(priority))
                for (step, episode), arm, priority in rows
            )
        except (OSError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
            raise CheckpointError(
                f"The replay buffer of {folder} cannot be loaded: {error!r}."
            ) from error


def recent(buffer: Sequence[Stored], step: int, max_age: int) -> tuple[Stored, ...]:
    """Return the stored games of the last ``max_age`` steps."""
    return tuple(stored for stored in buffer if step - stored.step <= max_age)


def group_sizes(fresh: Sequence[Episode]) -> dict[int, float]:
    """Return the mean |A| over the trajectories of each group id, A = return minus its mean over
    (group, role); 0 up to rounding.
    """
    found = trajectories(turn_table(fresh), "replay")
    size = (
        np.abs(centre(found.returns, found.groups, found.num_groups))
        * (found.deviations() > 0)[found.groups]
    )
    ids, inverse = np.unique(found.turns.group[found.starts], return_inverse=True)
    means = np.bincount(inverse, weights=size) / np.maximum(np.bincount(inverse), 1)
    return dict(zip(ids.tolist(), means.tolist(), strict=True))


def admitted(
    request: ReplayRequest, buffer: Sequence[Stored], sizes: Mapping[int, float], capacity: int
) -> tuple[Stored, ...]:
    """Return the buffer with the fresh groups of some |A| > 0, whole, as its newest.

    Whole groups leave at the old end.
    """
    fresh = [
        episode
        for episode in request.fresh
        if episode.turns and sizes.get(episode.group_id, 0.0) > 0.0
    ]
    new = [
        Stored(episode, request.arm_of[episode.group_id], request.step, sizes[episode.group_id])
        for episode in fresh
    ]
    groups, kept, room = by_group([*buffer, *new]), [], capacity
    for members in reversed(groups):
        if len(members) > room:
            break
        room -= len(members)
        kept.append(members)
    return tuple(stored for members in reversed(kept) for stored in members)


def by_group(buffer: Sequence[Stored]) -> list[list[Stored]]:
    """Return the stored games by the group they were played in, oldest first."""
    groups: dict[int, list[Stored]] = {}
    for stored in buffer:
        groups.setdefault(stored.episode.group_id, []).append(stored)
    return list(groups.values())


def draw_groups(
    groups: Sequence[list[Stored]], weights: Sequence[float], wanted: int, stream: Stream
) -> list[list[Stored]]:
    """Return groups drawn by weight without replacement (Efraimidis and Spirakis, 2006) until
    ``wanted`` games are there.
    """
    keys = [
        -np.log(1.0 - stream.uniform(number)) / max(weight, 1e-300)
        for number, weight in enumerate(weights)
    ]
    drawn: list[list[Stored]] = []
    for number in np.argsort(keys, kind="stable").tolist():
        if sum(map(len, drawn)) >= wanted:
            break
        drawn.append(groups[number])
    return drawn


def joining_groups(drawn: Sequence[list[Stored]]) -> tuple[tuple[Stored, int], ...]:
    """Return drawn groups as they join: under their own group id."""
    return tuple((stored, stored.episode.group_id) for members in drawn for stored in members)
