"""Conversion of episodes into a turn table, the input of credit estimators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sparring.core.records import Episode, FloatArray, IntArray, Turn, TurnTable
from sparring.ops.groups import group_ids


def ordered_turns(
    episodes: Sequence[Episode], *, candidates: bool = False
) -> Iterator[tuple[Episode, Turn]]:
    """Yield the turns of trained seats, sorted by (index of the episode, seat, turn index).

    Turns with event "unsent" are left out, as they have no sampled tokens.

    Args:
        episodes: the episodes.
        candidates: whether unplayed candidates are yielded too, after the turns of their seat.
    """
    for episode, turns, _ in _trajectories(episodes, candidates):
        for turn in turns:
            yield episode, turn


def _trajectories(
    episodes: Sequence[Episode], candidates: bool
) -> Iterator[tuple[Episode, Sequence[Turn], bool]]:
    """Yield each trajectory: its episode, its turns, and whether the turns were played."""
    for episode in episodes:
        turns_by_seat: list[list[Turn]] = [[] for _ in episode.trained]
        for turn in episode.turns:
            if turn.event != "unsent":
                turns_by_seat[turn.seat].append(turn)
        for seat, turns in enumerate(turns_by_seat):
            if turns and episode.trained[seat]:
                yield episode, turns, True
                for turn in turns if candidates else ():
                    for candidate in turn.candidates:
                        yield episode, (candidate,), False


def turn_table(episodes: Sequence[Episode], *, candidates: bool = False) -> TurnTable:
    """Return the turn table of the trained seats, a row per turn of ``ordered_turns``.

    Args:
        episodes: the episodes.
        candidates: whether the table also has a row for each candidate that was not played, and
            the columns ``state_group`` and ``committed``.
    """
    games, roles, agents, keys, actions, views = (_Names() for _ in range(6))
    rows, trajectories, logprobs, rewards = [], [], [], []
    for episode, turns, is_played in _trajectories(episodes, candidates):
        seat = turns[0].seat
        trajectories.append(
            (
                episode.episode_id,
                episode.group_id,
                games[episode.game],
                roles[episode.roles[seat]],
                seat,
                is_played,
                episode.cut,
                len(turns),
            )
        )
        for turn in turns:
            num_tokens, logprob = 0, 0.0
            for segment in turn.segments:
                if segment.kind == "sampled":
                    num_tokens += len(segment.ids)
                    logprob += sum(segment.logprobs)
            event = turn.event
            logprobs.append(logprob)
            rewards.append(turn.rewards)
            rows.append(
                (
                    agents[turn.agent],
                    turn.turn_index,
                    keys[turn.state_key],
                    num_tokens,
                    event == "ok" or event == "memory",
                    -1 if turn.action is None else actions[turn.action],
                    views[turn.view],
                    turn.verdict is not None,
                    event == "memory",
                    turn.attempt,
                    turn.note,
                )
            )
    agent, turn_index, state_key, n_tokens, legal, action, view, *flags = _columns(rows, 11)
    judged, memory, attempt, note = flags
    columns = _columns(trajectories, 8)
    lengths = columns[-1]
    episode_ids, group, game, role, seats, committed, cut = columns[:-1].repeat(lengths, axis=1)
    is_last = np.zeros(len(rows), dtype=bool)
    is_last[lengths.cumsum() - 1] = True
    return TurnTable(
        episode=episode_ids,
        group=group,
        trajectory=np.arange(len(lengths)).repeat(lengths),
        game=game,
        role=role,
        seat=seats,
        agent=agent,
        turn_index=turn_index,
        state_key=state_key,
        n_tokens=n_tokens,
        legal=legal.astype(bool),
        action=action,
        view=view,
        reward=np.array([sum(parts.values()) for parts in rewards], dtype=np.float64),
        logprob=np.array(logprobs, dtype=np.float64),
        components=_components(rewards),
        judged=judged.astype(bool) if judged.any() else None,
        memory=memory.astype(bool) if memory.any() else None,
        attempt=attempt if attempt.any() else None,
        note=note.astype(bool) if note.any() else None,
        state_group=group_ids(episode_ids, seats, turn_index)[0] if candidates else None,
        committed=committed.astype(bool) if candidates else None,
        done=is_last,
        cut=is_last & cut.astype(bool) if cut.any() else None,
        game_names=games.names,
        role_names=roles.names,
        agent_names=agents.names,
        action_names=actions.names,
        view_names=views.names,
    )


def with_components(turns: TurnTable, names: Iterable[str]) -> TurnTable:
    """Return the table with a column of zeros for each reward component that it lacks.

    A reward that gave no value for any turn of the batch leaves no column.

    Args:
        turns: the table.
        names: names of reward components.
    """
    missing_names = [name for name in names if name not in turns.components]
    if not missing_names:
        return turns
    num_turns = len(turns.reward)
    return replace(
        turns,
        components={**turns.components, **{name: np.zeros(num_turns) for name in missing_names}},
        judged=np.zeros(num_turns, dtype=bool) if turns.judged is None else turns.judged,
    )


def _columns(rows: Sequence[tuple[int, ...]], num_columns: int) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(-1, num_columns).T.copy()


def _components(rewards: Sequence[Mapping[str, float]]) -> dict[str, FloatArray]:
    """Return one column [N] per reward component, with 0 for turns that lack it."""
    names = {name: None for parts in rewards for name in parts}
    return {
        name: np.array([parts.get(name, 0.0) for parts in rewards], dtype=np.float64)
        for name in names
    }


class _Names(dict[str, int]):
    """The index of each name; a new name gets the next index."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self)
