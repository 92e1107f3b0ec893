"""Episodes to the turn table that credit works on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sparring.ops.groups import group_ids
from sparring.types import Episode, FloatArray, Turn, TurnTable


def ordered_turns(
    episodes: Sequence[Episode], *, candidates: bool = False
) -> Iterator[tuple[Episode, Turn]]:
    """Yield the turns of trained seats, sorted by (position of the episode, seat, turn index).

    Args:
        episodes: the plays.
        candidates: after the turns of a seat, yield the other replies to their prompts too.
    """
    for episode, turn, _ in _ordered(episodes, candidates):
        yield episode, turn


def _ordered(episodes: Sequence[Episode], candidates: bool) -> Iterator[tuple[Episode, Turn, bool]]:
    """Yield turns as ``ordered_turns`` does, and whether each was played."""
    for episode in episodes:
        by_seat: list[list[Turn]] = [[] for _ in episode.trained]
        for turn in episode.turns:
            by_seat[turn.seat].append(turn)
        for seat, turns in enumerate(by_seat):
            if episode.trained[seat]:
                for turn in turns:
                    yield episode, turn, True
                for turn in turns if candidates else ():
                    for other in turn.candidates:
                        yield episode, other, False


def turn_table(episodes: Sequence[Episode], *, candidates: bool = False) -> TurnTable:
    """Return the columns of the trained seats' turns.

    There is one row per turn, in the order of ``ordered_turns``.

    Args:
        episodes: the plays.
        candidates: have a row for each of the other replies to a prompt too, and the columns
            ``state_group`` and ``committed``.
    """
    games, roles, agents, keys, actions, views = (_Names() for _ in range(6))
    rows, logprobs, rewards, judged, cut, memory = [], [], [], [], [], []
    trajectory, previous = -1, (-1, -1, -1)
    for place, (episode, turn, played) in enumerate(_ordered(episodes, candidates)):
        current = (episode.episode_id, turn.seat, -1 if played else place)
        trajectory += current != previous
        previous = current
        sampled = [segment for segment in turn.segments if segment.kind == "sampled"]
        logprobs.append(sum(map(sum, (segment.logprobs for segment in sampled))))
        rewards.append(turn.rewards)
        judged.append(turn.verdict is not None)
        cut.append(episode.cut)
        memory.append(turn.event == "memory")
        rows.append(
            (
                episode.episode_id,
                episode.group_id,
                trajectory,
                games[episode.game],
                roles[episode.roles[turn.seat]],
                turn.seat,
                agents[turn.agent],
                turn.turn_index,
                keys[turn.state_key],
                sum(len(segment.ids) for segment in sampled),
                turn.event in ("ok", "memory"),
                -1 if turn.action is None else actions[turn.action],
                views[turn.view],
                played,
            )
        )
    integers = np.array(rows, dtype=np.int64).reshape(-1, 14).T.copy()
    ends = np.append(np.diff(integers[2]) != 0, True) if rows else np.zeros(0, dtype=bool)
    return TurnTable(
        episode=integers[0],
        group=integers[1],
        trajectory=integers[2],
        game=integers[3],
        role=integers[4],
        seat=integers[5],
        agent=integers[6],
        turn_index=integers[7],
        state_key=integers[8],
        n_tokens=integers[9],
        legal=integers[10].astype(bool),
        action=integers[11],
        view=integers[12],
        reward=np.array([sum(own.values()) for own in rewards], dtype=np.float64),
        logprob=np.array(logprobs, dtype=np.float64),
        components=_components(rewards),
        judged=np.array(judged) if any(judged) else None,
        memory=np.array(memory) if any(memory) else None,
        # of an episode's seat: its turns have numbers of their own
        state_group=group_ids(*integers[[0, 5, 7]])[0] if candidates else None,
        committed=integers[13].astype(bool) if candidates else None,
        done=ends,
        cut=ends & np.array(cut) if any(cut) else None,
        game_names=games.names,
        role_names=roles.names,
        agent_names=agents.names,
        action_names=actions.names,
        view_names=views.names,
    )


def _components(rewards: Sequence[Mapping[str, float]]) -> dict[str, FloatArray]:
    """Return one column [N] per reward component, 0 where a turn has none of it."""
    names = {name: None for own in rewards for name in own}
    return {
        name: np.array([own.get(name, 0.0) for own in rewards], dtype=np.float64) for name in names
    }


class _Names(dict[str, int]):
    """Numbers names in order of appearance."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]

    @property
    def names(self) -> tuple[str, ...]:
        """Names by number."""
        return tuple(self)
