"""Playouts from the turns of finished episodes, which estimate the values of positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.play.episode import end_of_moment, first_of_moment, num_sampled_tokens
from sparring.play.rollout import EpisodeRequests, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec

# index of the episode, index of a turn, whether the position lies before the turn or after it
Position = tuple[int, int, bool]


def with_playouts(
    episodes: Sequence[Episode],
    games: Mapping[str, Environment],
    *,
    count: int,
    stream: Stream,
    max_turns: int | None = None,
    estimate_before: bool = False,
) -> EpisodeRequests[tuple[list[Episode], dict[str, float]]]:
    """Request playouts, and return the episodes with ``playout`` in the turns of trained seats.

    Mathematics: V(s after turn t) ~ mean return of ``count`` playouts that share the turns up to
    t. The agents of the episode play on, and new chance outcomes are drawn after turn t.
    After the last turn of an episode the value is the episode's return.

    Args:
        episodes: finished episodes.
        games: the environments by name.
        count: number of playouts per position.
        stream: the stream of all draws.
        max_turns: limit of turns in an episode.
        estimate_before: whether to estimate the position before each turn too, as
            ``playout_before``. If it is the position after another turn, both share their playouts.

    Returns:
        The episodes; and ``playouts/tokens``, the tokens that trained seats sampled in the
        playouts without the prefix, and ``playouts/failed``, the share of positions without any
        finished playout.
    """
    specs: list[EpisodeSpec] = []
    groups: dict[int, tuple[int, int]] = {}  # group -> index of the episode, length of the prefix
    group_at: dict[Position, int] = {}
    for index, episode in enumerate(episodes):
        starts = _playout_starts(episode, index, stream.child(index), estimate_before)
        for position, prefix_length, turn_stream in starts:
            group = group_at[position] = len(groups)
            groups[group] = index, prefix_length
            for playout_index in range(count):
                specs.append(
                    EpisodeSpec(
                        game=games[episode.game],
                        episode_id=len(specs),
                        group_id=group,
                        deal=Stream(episode.seed),
                        stream=turn_stream.child(playout_index),
                        seats=episode.players,
                        trained=episode.trained,
                        max_turns=max_turns,
                        prefix=episode.turns[:prefix_length],
                        redealt=True,
                    )
                )
    returns: dict[int, list[tuple[float, ...]]] = {}
    num_tokens = 0
    rollout = (yield specs) if specs else Rollout([], RolloutCounts())
    for playout in rollout.require_any().episodes:
        returns.setdefault(playout.group_id, []).append(playout.returns)
        turns = playout.turns[groups[playout.group_id][1] :]
        num_tokens += sum(num_sampled_tokens(turn) for turn in turns if playout.trained[turn.seat])
    if estimate_before:
        _share_playouts(group_at, episodes, groups)
    episodes_with_values = [
        _add_values(episode, index, group_at, returns, estimate_before)
        for index, episode in enumerate(episodes)
    ]
    failed_share = 1.0 - len(returns) / len(groups) if groups else 0.0
    metrics = {"playouts/tokens": float(num_tokens), "playouts/failed": failed_share}
    return episodes_with_values, metrics


def _playout_starts(
    episode: Episode, episode_index: int, stream: Stream, has_before: bool
) -> Iterator[tuple[Position, int, Stream]]:
    """Yield each position once, with the length of its prefix and a stream."""
    prefix_lengths = set()
    for index, turn in enumerate(episode.turns):
        end = end_of_moment(episode.turns, index)  # a playout begins between moments
        if episode.trained[turn.seat] and end < len(episode.turns):
            prefix_lengths.add(end)
            yield (episode_index, index, False), end, stream.child(index)
    for index, turn in enumerate(episode.turns) if has_before else ():
        begin = first_of_moment(episode.turns, index)
        if episode.trained[turn.seat] and begin not in prefix_lengths:
            prefix_lengths.add(begin)
            yield (episode_index, index, True), begin, stream.child("before").child(begin)


def _share_playouts(
    group_at: dict[Position, int],
    episodes: Sequence[Episode],
    groups: Mapping[int, tuple[int, int]],
) -> None:
    group_of_prefix: dict[tuple[int, int], int] = {}
    for group, prefix in groups.items():
        group_of_prefix.setdefault(prefix, group)
    for episode_index, episode in enumerate(episodes):
        for index, turn in enumerate(episode.turns):
            if episode.trained[turn.seat]:
                begin = first_of_moment(episode.turns, index)
                group_at[episode_index, index, True] = group_of_prefix[episode_index, begin]


def _add_values(
    episode: Episode,
    episode_index: int,
    group_at: Mapping[Position, int],
    returns: Mapping[int, Sequence[tuple[float, ...]]],
    has_before: bool,
) -> Episode:
    turns = list(episode.turns)

    def mean_return(index: int, is_before_turn: bool) -> float | None:
        payoffs = returns.get(group_at[episode_index, index, is_before_turn], ())
        seat_returns = [payoff[turns[index].seat] for payoff in payoffs]
        return sum(seat_returns) / len(seat_returns) if seat_returns else None

    for index, turn in enumerate(turns):
        if episode.trained[turn.seat]:
            is_last = end_of_moment(turns, index) == len(turns)
            value = episode.returns[turn.seat] if is_last else mean_return(index, False)
            turns[index] = turn._replace(
                playout=value, playout_before=mean_return(index, True) if has_before else None
            )
    return replace(episode, turns=tuple(turns))
