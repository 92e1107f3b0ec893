"""An episode as rows of the store, one per reply, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sparring.environments.spec import check_spec
from sparring.refs import PlayerRef, refs
from sparring.system.files import parse_json
from sparring.types import EnvironmentSpec, Episode, Segment, Turn, Verdict


def rows_of(step: int, episode: Episode, texts: dict[int, str | None]) -> Iterator[tuple[Any, ...]]:
    """Yield the turns of an episode as the values of rows."""
    spec = episode.environment
    if id(spec) not in texts:
        texts[id(spec)] = None if spec is None else json.dumps(asdict(spec), sort_keys=True)
    for place, turn in enumerate(episode.turns):
        group = place if turn.candidates else None
        for one in (turn, *turn.candidates):
            yield _row(step, episode, one, texts[id(spec)], (group, one is turn))


def _row(
    step: int,
    episode: Episode,
    turn: Turn,
    environment: str | None,
    prompt: tuple[int | None, bool],
) -> tuple[Any, ...]:
    """Return a turn as the values of a row, in the schema's order.

    Args:
        step: it was played in.
        episode: it is a turn of.
        turn: one reply.
        environment: as text.
        prompt: its state group, if there were several replies, and whether it was played.
    """
    seat, segments = turn.seat, turn.segments
    return (
        step,
        episode.episode_id,
        episode.group_id,
        episode.game,
        episode.seed,
        seat,
        episode.roles[seat],
        turn.agent,
        episode.trained[seat],
        turn.turn_index,
        turn.moment,
        turn.attempt,
        turn.note,
        prompt[0],
        turn.candidate,
        prompt[1],
        turn.score,
        turn.told,
        turn.state_key,
        turn.view,
        turn.legal_actions,
        turn.reply,
        turn.action,
        turn.event,
        list(turn.rewards),
        list(turn.rewards.values()),
        episode.returns[seat],
        [segment.kind for segment in segments],
        [len(segment.ids) for segment in segments],
        [index for segment in segments for index in segment.ids],
        [value for segment in segments for value in segment.logprobs],
        [ids for segment in segments for ids in segment.kept],
        turn.truncated,
        turn.weights_version,
        [segment.weights_version for segment in segments if segment.kind == "sampled"],
        turn.conversation,
        *_verdict_columns(turn),
        turn.playout,
        turn.playout_before,
        episode.forfeited_by,
        episode.returns,
        episode.roles,
        episode.agents,
        [{"name": "", "step": None, **player.to_json()} for player in episode.players],
        episode.trained,
        episode.cut,
        environment,
    )


def episode_of(rows: Sequence[dict[str, Any]]) -> Episode:
    """Return the episode whose turns these rows are."""
    first = rows[0]
    seats = len(first["roles"])
    named = [row["seat"] for row in rows] + [first["forfeited_by"] or 0]
    lengths = {len(first[column]) for column in ("roles", "agents", "trained_seats", "returns")}
    if lengths != {seats} or not all(0 <= seat < seats for seat in named):
        raise ValueError("its seats do not fit together")
    return Episode(
        episode_id=first["episode_id"],
        group_id=first["group_id"],
        game=first["game"],
        seed=first["seed"],
        roles=tuple(first["roles"]),
        agents=tuple(first["agents"]),
        trained=tuple(first["trained_seats"]),
        turns=_turns(rows),
        returns=tuple(first["returns"]),
        players=_players(first),
        forfeited_by=first["forfeited_by"],
        cut=first["cut"],
        has_outgrown_context=any(row["event"] == "unsent" for row in rows),
        environment=None if first["environment"] is None else _environment(first["environment"]),
    )


def _turns(rows: Sequence[dict[str, Any]]) -> tuple[Turn, ...]:
    """Return the turns of an episode's rows, the other replies to a prompt beside what was played.

    Raises:
        ValueError: a reply that was not played belongs to none that was.
    """
    found: list[Turn] = []
    others: dict[int, list[Turn]] = {}
    for row in rows:
        if row["committed"]:
            found.append(_turn(row, len(found)))
        elif row["state_group"] != len(found) - 1:
            raise ValueError(f"a candidate of turn {row['state_group']} has no turn beside it")
        else:
            others.setdefault(row["state_group"], []).append(_turn(row, len(found) - 1))
    for place, several in others.items():
        found[place] = found[place]._replace(candidates=tuple(several))
    return tuple(found)


def _players(row: dict[str, Any]) -> tuple[PlayerRef, ...]:
    """Return who sat in each seat; files of before say it by name alone.

    Raises:
        ValueError: names and players differ.
    """
    if row["players"] is None:
        return refs(row["agents"])
    players = tuple(PlayerRef.from_json(player) for player in row["players"])
    if [str(player) for player in players] != row["agents"]:
        raise ValueError("its players are not those of its names")
    return players


def _environment(text: str) -> EnvironmentSpec:
    """Return the environment that a text of JSON names.

    Raises:
        ValueError: it names none.
    """
    try:
        spec = EnvironmentSpec(**parse_json(text))
    except TypeError as error:
        raise ValueError(f"an environment is not readable: {error}") from None
    check_spec(spec)
    return spec


def _turn(row: dict[str, Any], place: int) -> Turn:
    """Return the turn of a row, the one at this place of its episode."""
    return Turn(
        seat=row["seat"],
        turn_index=row["turn_index"],
        moment=place if row["moment"] is None else row["moment"],
        attempt=row["attempt"],
        note=row["note"],
        candidate=row["candidate"],
        score=row["score"],
        told=row["told"],
        agent=row["agent"],
        state_key=row["state_key"],
        legal_actions=tuple(row["legal_actions"]),
        reply=row["reply"],
        action=row["action"],
        event=row["event"],
        rewards=dict(zip(row["reward_names"], row["reward_values"], strict=True)),
        segments=_segments(row),
        conversation=row["conversation"],
        truncated=row["truncated"],
        weights_version=row["weights_version"],
        view=row["view"],
        verdict=_verdict(row),
        playout=row["playout"],
        playout_before=row["playout_before"],
    )


def _segments(row: dict[str, Any]) -> tuple[Segment, ...]:
    """Return the segments of a row: its ids cut where they were joined."""
    segments, at, said = [], 0, 0
    runs = row["segment_kinds"].count("sampled")
    known = row["run_versions"]  # not in files of before, whose turns have one version each
    versions = [row["weights_version"]] * runs if known is None else list(known)
    if len(versions) != runs or None in versions:
        raise ValueError(f"{runs} sampled runs have the versions {versions}")
    for kind, length in zip(row["segment_kinds"], row["segment_lengths"], strict=True):
        ids = tuple(row["ids"][at : at + length])
        at += length
        sampled = length if kind == "sampled" else 0
        logprobs = tuple(row["logprobs"][said : said + sampled])
        kept = (
            tuple(tuple(ids) for ids in row["kept"][said : said + sampled]) if row["kept"] else ()
        )
        said += sampled
        version = versions.pop(0) if kind == "sampled" else 0
        segments.append(
            Segment(kind=kind, ids=ids, logprobs=logprobs, kept=kept, weights_version=version)
        )
    return tuple(segments)


def _verdict_columns(turn: Turn) -> tuple[Any, ...]:
    """Return what the oracle said of a turn.

    Values and whether each is best, in the order of the legal actions; empty if nothing.
    """
    verdict = turn.verdict
    if verdict is None:
        return None, None, None, None, None
    best = [action in verdict.best for action in verdict.actions]
    return verdict.values, best, verdict.certainty, verdict.bound, verdict.entropy


def _verdict(row: dict[str, Any]) -> Verdict | None:
    """Return the verdict of a row."""
    if row["oracle_values"] is None:
        return None
    actions = tuple(row["legal_actions"])
    return Verdict(
        actions=actions,
        values=tuple(row["oracle_values"]),
        best=frozenset(
            action for action, best in zip(actions, row["oracle_best"], strict=True) if best
        ),
        certainty=row["oracle_certainty"],
        bound=row["oracle_bound"],
        entropy=row["oracle_entropy"],
    )
