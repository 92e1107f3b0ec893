"""Interface of replay rules, and a bounded buffer of finished episodes.

In every step, before credit, a rule chooses the stored episodes that join the batch, and the next
content of the buffer. A stored episode keeps the log-probabilities of the policy that sampled it.
The losses compare the learner with this policy, for any staleness. If a plug-in NEEDS
"old_logprobs" (``truncated_is``, ``masked_is``), the losses compare the learner with the learner
before the update, and the plug-in weighs by the ratio of that learner to the sampling policy.
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


class ReplayEntry(NamedTuple):
    """An episode in the buffer."""

    episode: Episode
    arm: str
    step: int  # step of its rollout
    priority: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayRequest:
    """Input of a rule: the fresh episodes after selection, and the buffer, oldest first."""

    fresh_episodes: tuple[Episode, ...]
    arm_of: Mapping[int, str]  # arm of each fresh group id
    buffer: tuple[ReplayEntry, ...]
    num_episodes: int  # configured episodes per step
    step: int
    stream: Stream


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayPlan:
    """Output of a rule.

    A stored episode joins at most once, with its group id or that of a fresh group.
    """

    additions: tuple[tuple[ReplayEntry, int], ...] = ()  # (entry, group id in the batch)
    buffer: tuple[ReplayEntry, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


def check_output(rule: BoundPlugin, plan: Any, *arguments: Any) -> None:
    """Check that a replay rule has returned a plan, after every call.

    Raises:
        PluginError: the output is not a ReplayPlan.
    """
    if not isinstance(plan, ReplayPlan):
        raise PluginError(
            f"The {rule} must return a ReplayPlan; it returned {type(plan).__name__}."
        )


class ReplayBuffer:
    """The stored episodes of a run."""

    def __init__(self, entries: Iterable[ReplayEntry] = ()) -> None:
        self.entries = tuple(entries)

    def join(
        self,
        rule: BoundPlugin | None,
        fresh_episodes: Sequence[Episode],
        arm_of: Mapping[int, str],
        *,
        num_episodes: int,
        step: int,
        stream: Stream,
        progress: float,
    ) -> tuple[list[Episode], dict[str, float]]:
        """Return (training batch with stored episodes first, metrics), and update the buffer.

        Args:
            rule: chooses the stored episodes to add, and the next buffer; None changes nothing.
            fresh_episodes: the episodes of this step after selection.
            arm_of: name of the arm of each group, by group id.
            num_episodes: configured episodes per step.
            step: the step's number.
            stream: random stream of the rule.
            progress: finished share of the run.
        """
        if rule is None:
            return list(fresh_episodes), {}
        request = ReplayRequest(
            fresh_episodes=tuple(fresh_episodes),
            arm_of=arm_of,
            buffer=self.entries,
            num_episodes=num_episodes,
            step=step,
            stream=stream,
        )
        plan: ReplayPlan = rule(request, progress=progress)
        self.entries = plan.buffer
        additions = sorted(plan.additions, key=lambda pair: pair[0].episode.episode_id)
        stored_episodes = [replace(entry.episode, group_id=group) for entry, group in additions]
        batch = [*stored_episodes, *fresh_episodes]
        if not plan.buffer and not additions:
            return batch, {}
        metrics = {
            "replayed_share": len(additions) / max(len(batch), 1),
            "buffer_size": float(len(plan.buffer)),
            **plan.metrics,
        }
        if additions:
            total_age = sum(step - entry.step for entry, _ in additions)
            metrics["replay_age"] = total_age / len(additions)
        return batch, metrics

    def save(self, folder: Path) -> None:
        """Write the buffer into a checkpoint's folder, unless the buffer is empty."""
        if not self.entries:
            return
        notes = {
            "arms": [entry.arm for entry in self.entries],
            "priorities": [entry.priority for entry in self.entries],
        }
        episodes = [(entry.step, entry.episode) for entry in self.entries]
        write_synced(folder / FILE, to_bytes(episodes))
        write_synced(folder / NOTES, json.dumps(notes).encode())

    @classmethod
    def restored(cls, folder: Path) -> ReplayBuffer:
        """Return the buffer from a checkpoint's folder.

        Raises:
            CheckpointError: the files are damaged or inconsistent.
        """
        if not (folder / FILE).exists():
            return cls()
        try:
            notes: dict[str, Any] = parse_json((folder / NOTES).read_bytes())
            episodes = from_bytes((folder / FILE).read_bytes())
            rows = zip(episodes, notes["arms"], notes["priorities"], strict=True)
            return cls(
                ReplayEntry(episode, str(arm), step, float(priority))
                for (step, episode), arm, priority in rows
            )
        except (OSError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
            raise CheckpointError(
                f"The replay buffer of {folder} cannot be loaded ({error!r}); start "
                "anew with --overwrite."
            ) from error


def recent_entries(
    buffer: Sequence[ReplayEntry], step: int, max_age: int
) -> tuple[ReplayEntry, ...]:
    """Return the stored episodes of the last ``max_age`` steps."""
    return tuple(entry for entry in buffer if step - entry.step <= max_age)


def mean_advantage_sizes(episodes_of_step: Sequence[Episode]) -> dict[int, float]:
    """Return the mean |A| by group id; A is a return minus the mean of its (group, role)."""
    data = trajectories(turn_table(episodes_of_step), "replay")
    sizes = (
        np.abs(centre(data.returns, data.groups, data.num_groups))
        * (data.deviations() > 0)[data.groups]
    )
    ids, index_of_id = np.unique(data.turns.group[data.first_rows], return_inverse=True)
    means = np.bincount(index_of_id, weights=sizes) / np.maximum(np.bincount(index_of_id), 1)
    return dict(zip(ids.tolist(), means.tolist(), strict=True))


def add_fresh_groups(
    request: ReplayRequest, buffer: Sequence[ReplayEntry], sizes: Mapping[int, float], capacity: int
) -> tuple[ReplayEntry, ...]:
    """Return the buffer with the fresh groups of mean |A| > 0 added; ``sizes`` is |A| by group id.

    The oldest groups leave a full buffer; groups enter and leave completely.
    """
    varied_episodes = [
        episode
        for episode in request.fresh_episodes
        if episode.turns and sizes.get(episode.group_id, 0.0) > 0.0
    ]
    new_entries = [
        ReplayEntry(
            episode, request.arm_of[episode.group_id], request.step, sizes[episode.group_id]
        )
        for episode in varied_episodes
    ]
    groups, newest_groups, free_space = group_entries([*buffer, *new_entries]), [], capacity
    for members in reversed(groups):
        if len(members) > free_space:
            break
        free_space -= len(members)
        newest_groups.append(members)
    return tuple(entry for members in reversed(newest_groups) for entry in members)


def group_entries(buffer: Sequence[ReplayEntry]) -> list[list[ReplayEntry]]:
    """Return the stored episodes by their original group, oldest first."""
    groups: dict[int, list[ReplayEntry]] = {}
    for entry in buffer:
        groups.setdefault(entry.episode.group_id, []).append(entry)
    return list(groups.values())


def draw_groups(
    groups: Sequence[list[ReplayEntry]], weights: Sequence[float], num_episodes: int, stream: Stream
) -> list[list[ReplayEntry]]:
    """Return at least ``num_episodes`` episodes in groups, drawn by weight without replacement.

    The method is that of Efraimidis and Spirakis, 2006.
    """
    sort_keys = [
        -np.log(1.0 - stream.uniform(group)) / max(weight, 1e-300)
        for group, weight in enumerate(weights)
    ]
    result: list[list[ReplayEntry]] = []
    for group in np.argsort(sort_keys, kind="stable").tolist():
        if sum(map(len, result)) >= num_episodes:
            break
        result.append(groups[group])
    return result


def group_additions(groups: Sequence[list[ReplayEntry]]) -> tuple[tuple[ReplayEntry, int], ...]:
    """Return the drawn groups with their original group ids, for ``ReplayPlan.additions``."""
    return tuple((entry, entry.episode.group_id) for members in groups for entry in members)
