"""Playing on from the middle of finished games.

It estimates what the positions in them are worth to the agents who play.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.play.episode import moment_begin, moment_end, sampled_tokens
from sparring.play.rollout import Asking, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec

Place = tuple[int, int, bool]  # number of the episode, number of the turn, whether before it


def with_playouts(
    episodes: Sequence[Episode],
    games: Mapping[str, Environment],
    *,
    count: int,
    stream: Stream,
    max_turns: int | None = None,
    before: bool = False,
) -> Asking[tuple[list[Episode], dict[str, float]]]:
    """Return the episodes with ``playout`` on the turns of trained seats, and figures of it.

    See ``rollout.play``: it asks for games with the agents that played these.

    Mathematics: V(s after turn t) ~ mean of ``count`` returns of games that share the turns up to
    t; all seats go on as they play now, and chance is drawn anew from turn t on. After the last
    turn of an episode it is the episode's own return.

    Args:
        episodes: finished games.
        games: the games by name.
        count: games per turn.
        stream: everything drawn comes from here.
        max_turns: as the games were cut.
        before: estimate what the position before each turn is worth too, ``playout_before``. Where
            it is the position after another turn, games that go on from there count for both.

    Returns:
        The episodes; and ``playouts/tokens``, what trained seats sampled in the games that were
        played on, beside what was taken over, and ``playouts/failed``, the share of the positions
        from which no game could be played.
    """
    specs: list[EpisodeSpec] = []
    groups: dict[int, tuple[int, int]] = {}  # group -> number of the episode, turns taken over
    of: dict[Place, int] = {}  # what a place is estimated by
    for number, episode in enumerate(episodes):
        for place, end, own in _starts(episode, number, stream.child(number), before):
            group = of[place] = len(groups)
            groups[group] = number, end
            for member in range(count):
                specs.append(
                    EpisodeSpec(
                        game=games[episode.game],
                        episode_id=len(specs),
                        group_id=group,
                        deal=Stream(episode.seed),
                        stream=own.child(member),
                        seats=episode.players,
                        trained=episode.trained,
                        max_turns=max_turns,
                        prefix=episode.turns[:end],
                        redealt=True,
                    )
                )
    returns: dict[int, list[tuple[float, ...]]] = {}
    tokens = 0
    rollout = (yield specs) if specs else Rollout([], RolloutCounts())
    for played in rollout.some().episodes:
        returns.setdefault(played.group_id, []).append(played.returns)
        new = played.turns[groups[played.group_id][1] :]
        tokens += sum(sampled_tokens(turn) for turn in new if played.trained[turn.seat])
    if before:
        _shared(of, episodes, groups)
    valued = [_valued(one, number, of, returns, before) for number, one in enumerate(episodes)]
    failed = 1.0 - len(returns) / len(groups) if groups else 0.0
    return valued, {"playouts/tokens": float(tokens), "playouts/failed": failed}


def _starts(
    episode: Episode, number: int, own: Stream, before: bool
) -> Iterator[tuple[Place, int, Stream]]:
    """Yield where games go on from: a place, the turns that are taken over, what is drawn from.
    What is before a turn is left out where it is after another one."""
    after = set()
    for index, turn in enumerate(episode.turns):
        end = moment_end(episode.turns, index)  # what is taken at once is taken over at once
        if episode.trained[turn.seat] and end < len(episode.turns):
            after.add(end)
            yield (number, index, False), end, own.child(index)
    for index, turn in enumerate(episode.turns) if before else ():
        begin = moment_begin(episode.turns, index)
        if episode.trained[turn.seat] and begin not in after:
            after.add(begin)
            yield (number, index, True), begin, own.child("before").child(begin)


def _shared(
    of: dict[Place, int], episodes: Sequence[Episode], groups: Mapping[int, tuple[int, int]]
) -> None:
    known: dict[tuple[int, int], int] = {}
    for group, place in groups.items():
        known.setdefault(place, group)
    for number, episode in enumerate(episodes):
        for index, turn in enumerate(episode.turns):
            if episode.trained[turn.seat]:
                begin = moment_begin(episode.turns, index)
                of[number, index, True] = known[number, begin]


def _valued(
    episode: Episode,
    number: int,
    of: Mapping[Place, int],
    returns: Mapping[int, Sequence[tuple[float, ...]]],
    before: bool,
) -> Episode:
    turns = list(episode.turns)

    def mean(index: int, at: bool) -> float | None:
        found = returns.get(of[number, index, at], ())
        own = [one[turns[index].seat] for one in found]
        return sum(own) / len(own) if own else None

    for index, turn in enumerate(turns):
        if episode.trained[turn.seat]:
            last = moment_end(turns, index) == len(turns)
            value = episode.returns[turn.seat] if last else mean(index, False)
            turns[index] = turn._replace(
                playout=value, playout_before=mean(index, True) if before else None
            )
    return replace(episode, turns=tuple(turns))
