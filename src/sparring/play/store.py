"""The stores of a run: Parquet parts of episodes and of credit, queryable with DuckDB.

Both stores have one row per turn, and the same keys.

SELECT role, avg(seat_return) FROM 'runs/demo/episodes/*.parquet' WHERE turn_index = 0 GROUP BY role

SELECT role, avg(advantage) FROM 'runs/demo/credit/*.parquet' JOIN 'runs/demo/episodes/*.parquet'
USING (step, episode_id, seat, turn_index, candidate) GROUP BY role
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparring.core.files import parse_json
from sparring.core.records import (
    Credit,
    EnvironmentSpec,
    Episode,
    FloatArray,
    PlayerRef,
    Segment,
    Turn,
    TurnTable,
    Verdict,
    refs,
)
from sparring.environments.base import check_spec
from sparring.play.parquet_parts import Columns, Parts
from sparring.play.turn_table import ordered_turns

PLAYER = pa.struct([("kind", pa.string()), ("name", pa.string()), ("step", pa.int64())])
SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("episode_id", pa.int64()),
        ("group_id", pa.int64()),
        ("game", pa.string()),
        ("seed", pa.uint64()),
        ("seat", pa.int16()),
        ("role", pa.string()),
        ("agent", pa.string()),
        ("trained", pa.bool_()),
        ("turn_index", pa.int32()),
        ("moment", pa.int32()),
        ("attempt", pa.int32()),
        ("note", pa.bool_()),
        ("state_group", pa.int32()),
        ("candidate", pa.int16()),
        ("committed", pa.bool_()),
        ("score", pa.float64()),
        ("told", pa.string()),
        ("state_key", pa.string()),
        ("view", pa.string()),
        ("legal_actions", pa.list_(pa.string())),
        ("reply", pa.string()),
        ("action", pa.string()),
        ("event", pa.string()),
        ("reward_names", pa.list_(pa.string())),
        ("reward_values", pa.list_(pa.float64())),
        ("seat_return", pa.float64()),
        ("segment_kinds", pa.list_(pa.string())),
        ("segment_lengths", pa.list_(pa.int32())),
        ("ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float64())),
        ("kept", pa.list_(pa.list_(pa.int32()))),
        ("truncated", pa.bool_()),
        ("weights_version", pa.int64()),
        ("run_versions", pa.list_(pa.int64())),
        ("conversation", pa.int32()),
        ("oracle_values", pa.list_(pa.float64())),
        ("oracle_best", pa.list_(pa.bool_())),
        ("oracle_certainty", pa.float64()),
        ("oracle_bound", pa.float64()),
        ("oracle_entropy", pa.float64()),
        ("playout", pa.float64()),
        ("playout_before", pa.float64()),
        ("forfeited_by", pa.int16()),
        ("returns", pa.list_(pa.float64())),
        ("roles", pa.list_(pa.string())),
        ("agents", pa.list_(pa.string())),
        ("players", pa.list_(PLAYER)),
        ("trained_seats", pa.list_(pa.bool_())),
        ("cut", pa.bool_()),
        ("environment", pa.dictionary(pa.int32(), pa.string())),  # stored once for many rows
    ]
)
VERSION = 6
COLUMNS = Columns(
    kind="episodes",
    version=VERSION,
    schema=SCHEMA,
    renamed={"sample": "conversation"},
    added={
        "cut": False,
        "moment": None,
        "attempt": 0,
        "note": False,
        "state_group": None,
        "candidate": 0,
        "committed": True,
        "score": None,
        "told": "",
        "environment": None,
        "run_versions": None,
        "players": None,
        "playout_before": None,
    },
)


def rows_of(step: int, episode: Episode, texts: dict[int, str | None]) -> Iterator[tuple[Any, ...]]:
    """Yield the turns of an episode as rows; ``texts`` caches environments as JSON by id."""
    spec = episode.environment
    if id(spec) not in texts:
        texts[id(spec)] = None if spec is None else json.dumps(asdict(spec), sort_keys=True)
    for index, turn in enumerate(episode.turns):
        state_group = index if turn.candidates else None
        for reply_turn in (turn, *turn.candidates):
            is_played = reply_turn is turn
            yield _row(step, episode, reply_turn, texts[id(spec)], state_group, is_played=is_played)


def _row(
    step: int,
    episode: Episode,
    turn: Turn,
    environment: str | None,
    state_group: int | None,
    *,
    is_played: bool,
) -> tuple[Any, ...]:
    """Return a turn as a row, in the schema's order.

    Args:
        step: the episode's step.
        episode: the episode of the turn.
        turn: a played turn or a candidate.
        environment: the environment as JSON.
        state_group: the state group of a prompt with several candidates; None: one reply.
        is_played: whether the reply was played.
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
        state_group,
        turn.candidate,
        is_played,
        turn.score,
        turn.prompt,
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
        [token_id for segment in segments for token_id in segment.ids],
        [logprob for segment in segments for logprob in segment.logprobs],
        [ids for segment in segments for ids in segment.support],
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
    """Return the episode whose turns are these rows."""
    first_row = rows[0]
    num_seats = len(first_row["roles"])
    seats_of_rows = [row["seat"] for row in rows] + [first_row["forfeited_by"] or 0]
    lengths = {len(first_row[column]) for column in ("roles", "agents", "trained_seats", "returns")}
    if lengths != {num_seats} or not all(0 <= seat < num_seats for seat in seats_of_rows):
        raise ValueError("the columns of the seats differ in length")
    return Episode(
        episode_id=first_row["episode_id"],
        group_id=first_row["group_id"],
        game=first_row["game"],
        seed=first_row["seed"],
        roles=tuple(first_row["roles"]),
        agents=tuple(first_row["agents"]),
        trained=tuple(first_row["trained_seats"]),
        turns=_turns(rows),
        returns=tuple(first_row["returns"]),
        players=_players(first_row),
        forfeited_by=first_row["forfeited_by"],
        cut=first_row["cut"],
        has_outgrown_context=any(row["event"] == "unsent" for row in rows),
        environment=None
        if first_row["environment"] is None
        else _environment(first_row["environment"]),
    )


def _turns(rows: Sequence[dict[str, Any]]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    candidates_of_turn: dict[int, list[Turn]] = {}
    for row in rows:
        if row["committed"]:
            turns.append(_turn(row, len(turns)))
        elif row["state_group"] != len(turns) - 1:
            raise ValueError(
                f"a candidate of turn {row['state_group']} has no row of its played reply"
            )
        else:
            candidates = candidates_of_turn.setdefault(row["state_group"], [])
            candidates.append(_turn(row, len(turns) - 1))
    for index, candidates in candidates_of_turn.items():
        turns[index] = turns[index]._replace(candidates=tuple(candidates))
    return tuple(turns)


def _players(row: dict[str, Any]) -> tuple[PlayerRef, ...]:
    """Return the player of each seat; old files have names only."""
    if row["players"] is None:
        return refs(row["agents"])
    players = tuple(PlayerRef.from_json(player) for player in row["players"])
    if [str(player) for player in players] != row["agents"]:
        raise ValueError("the columns players and agents differ")
    return players


def _environment(text: str) -> EnvironmentSpec:
    try:
        spec = EnvironmentSpec(**parse_json(text))
    except TypeError as error:
        raise ValueError(f"an environment is not readable: {error}") from None
    check_spec(spec)
    return spec


def _turn(row: dict[str, Any], index: int) -> Turn:
    return Turn(
        seat=row["seat"],
        turn_index=row["turn_index"],
        moment=index if row["moment"] is None else row["moment"],
        attempt=row["attempt"],
        note=row["note"],
        candidate=row["candidate"],
        score=row["score"],
        prompt=row["told"],
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
    segments, offset, sampled_offset = [], 0, 0
    num_sampled_segments = row["segment_kinds"].count("sampled")
    run_versions = row["run_versions"]  # None in old files, which have one version per turn
    if run_versions is None:
        run_versions = [row["weights_version"]] * num_sampled_segments
    versions = list(run_versions)
    if len(versions) != num_sampled_segments or None in versions:
        raise ValueError(f"{num_sampled_segments} sampled segments have the versions {versions}")
    for kind, length in zip(row["segment_kinds"], row["segment_lengths"], strict=True):
        ids = tuple(row["ids"][offset : offset + length])
        offset += length
        num_sampled = length if kind == "sampled" else 0
        sampled_slice = slice(sampled_offset, sampled_offset + num_sampled)
        logprobs = tuple(row["logprobs"][sampled_slice])
        support = tuple(tuple(ids) for ids in row["kept"][sampled_slice]) if row["kept"] else ()
        sampled_offset += num_sampled
        version = versions.pop(0) if kind == "sampled" else 0
        segments.append(
            Segment(kind=kind, ids=ids, logprobs=logprobs, support=support, weights_version=version)
        )
    return tuple(segments)


def _verdict_columns(turn: Turn) -> tuple[Any, ...]:
    verdict = turn.verdict
    if verdict is None:
        return None, None, None, None, None
    best_flags = [action in verdict.best for action in verdict.actions]
    return verdict.values, best_flags, verdict.certainty, verdict.bound, verdict.entropy


def _verdict(row: dict[str, Any]) -> Verdict | None:
    if row["oracle_values"] is None:
        return None
    actions = tuple(row["legal_actions"])
    return Verdict(
        actions=actions,
        values=tuple(row["oracle_values"]),
        best=frozenset(
            action for action, is_best in zip(actions, row["oracle_best"], strict=True) if is_best
        ),
        certainty=row["oracle_certainty"],
        bound=row["oracle_bound"],
        entropy=row["oracle_entropy"],
    )


class EpisodeStore(Parts):
    """A folder of Parquet parts, one per stored step."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, COLUMNS)

    def append(self, step: int, episodes: Sequence[Episode]) -> Path:
        """Write the episodes of a step as one part; a part of the same step is replaced.

        Raises:
            RunError: the disk is full or not writable.
        """
        return self.put(step, to_bytes([(step, episode) for episode in episodes]))

    def episodes(
        self, is_wanted: Callable[[int], bool] = lambda _: True
    ) -> Iterator[tuple[int, Episode]]:
        """Yield (step, episode) of all readable parts, in order.

        Args:
            is_wanted: returns whether to read the part of a step.
        """
        for episodes in self.map_parts(lambda table: list(episodes_in(table)), is_wanted):
            yield from episodes

    def episode(self, step: int, episode_id: int) -> Episode | None:
        """Return an episode of a step; None if the step has none of this id.

        Raises:
            RunError: the part has a newer version.
            DAMAGED: the part cannot be read; ``play.parquet_parts`` lists these errors.
        """
        table = self.load(self.path(step))
        episodes = list(episodes_in(table.filter(pc.equal(table["episode_id"], episode_id))))
        return episodes[0][1] if episodes else None


def to_bytes(episodes: Sequence[tuple[int, Episode]]) -> bytes:
    """Return (step, episode) pairs as a Parquet file, one row per turn."""
    return COLUMNS.to_bytes(_table(episodes))


def to_stream(episodes: Sequence[tuple[int, Episode]]) -> bytes:
    """Return (step, episode) pairs as an Arrow stream, for another process of this version."""
    table, sink = _table(episodes), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_stream(data: bytes) -> list[tuple[int, Episode]]:
    """Return the (step, episode) pairs of a stream of ``to_stream``.

    Raises:
        ValueError, pa.ArrowException: the data are damaged, or not such a stream.
    """
    with pa.ipc.open_stream(data) as stream:
        table = stream.read_all()
    if table.schema != SCHEMA:
        raise ValueError("the columns are not the columns of episodes")
    table.validate(full=True)
    return list(episodes_in(table))


def _table(episodes: Sequence[tuple[int, Episode]]) -> pa.Table:
    texts: dict[int, str | None] = {}  # texts of environments, by object id
    rows = [row for step, episode in episodes for row in rows_of(step, episode, texts)]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    arrays = [_array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def from_bytes(data: bytes, *, rows: int | None = None) -> list[tuple[int, Episode]]:
    """Return the (step, episode) pairs of a file of ``to_bytes``.

    Args:
        data: the file.
        rows: number of rows to read, so the last episode may be incomplete; None: all.

    Raises:
        ValueError, pa.ArrowException: the file is no such file, damaged, too large to be read, or
            of a newer version.
    """
    with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
        return list(episodes_in(COLUMNS.read(file, "A file of episodes").slice(0, rows)))


def episodes_in(table: pa.Table) -> Iterator[tuple[int, Episode]]:
    """Yield (step, episode) of the rows of a part, in order."""
    rows: list[dict[str, Any]] = []
    for row in table.to_pylist():
        if rows and (row["step"], row["episode_id"]) != (rows[0]["step"], rows[0]["episode_id"]):
            yield rows[0]["step"], episode_of(rows)
            rows = []
        rows.append(row)
    if rows:
        yield rows[0]["step"], episode_of(rows)


def _array(column: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    try:
        return pa.array(column, type=data_type)
    except UnicodeEncodeError:
        return pa.array([_encodable(value) for value in column], type=data_type)


def _encodable(value: Any) -> Any:
    """Return a text, or the texts of a list or record, without lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {name: _encodable(part) for name, part in value.items()}
    return [_encodable(part) for part in value] if isinstance(value, list | tuple) else value


CREDIT_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("episode_id", pa.int64()),
        ("seat", pa.int16()),
        ("turn_index", pa.int32()),
        ("candidate", pa.int16()),
        ("selected", pa.bool_()),
        ("replayed", pa.bool_()),
        ("reward", pa.float64()),
        ("advantage", pa.float64()),
        ("token_advantages", pa.list_(pa.float64())),
        ("baseline", pa.float64()),
        ("value", pa.float64()),
        ("value_target", pa.float64()),
        ("entropies", pa.list_(pa.float64())),
    ]
)
# (seat, turn index, candidate) -> the row
Credits = Mapping[tuple[int, int, int], Mapping[str, Any]]
KEYS = ("episode_id", "seat", "turn_index", "candidate")
CREDIT_COLUMNS = Columns(kind="credit", version=2, schema=CREDIT_SCHEMA, added={"candidate": 0})


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedBatch:
    """The batch of a learning step, with its turn table, credit and entropies.

    Legend: N turns, M sampled tokens, in the order of the turn table.
    """

    batch: Sequence[Episode]  # the trained episodes, replayed ones included
    turns: TurnTable  # the turns of the batch
    credit: Credit  # the advantages of these turns
    entropies: FloatArray  # [M] entropy of each sampled token's distribution, nats


class CreditStore(Parts):
    """A folder of parts with the credit of turns, one per stored step."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, CREDIT_COLUMNS)

    def append(
        self, step: int, episodes: Sequence[Episode], learned: Sequence[LearnedBatch]
    ) -> Path:
        """Write the credit of a step as one part.

        Args:
            step: number of steps done.
            episodes: the step's episodes; a turn that is in no batch has ``selected`` false.
            learned: the batch of each policy.

        Raises:
            RunError: the disk is full or not writable.
        """
        return self.put(step, CREDIT_COLUMNS.to_bytes(credit_rows(step, episodes, learned)))


def credits_of(table: pa.Table, episode_id: int) -> Credits:
    """Return the credit rows of an episode.

    Args:
        table: rows of the episode's step, with all columns.
        episode_id: the episode's id.
    """
    rows = table.filter(pc.equal(table["episode_id"], episode_id)).to_pylist()
    return {(row["seat"], row["turn_index"], row["candidate"]): row for row in rows}


def credit_rows(
    step: int, episodes: Sequence[Episode], learned: Sequence[LearnedBatch]
) -> pa.Table:
    """Return the credit rows of a step.

    The first rows are the batches of all policies, in the order of their turn tables. Then come
    the rows that are not trained: turns that selection dropped, and unplayed candidates without
    an advantage.
    """
    new_ids = {episode.episode_id for episode in episodes}
    columns: dict[str, list[Any]] = {field.name: [] for field in CREDIT_SCHEMA}
    for batch in learned:
        for name, column in _columns(batch, new_ids).items():
            columns[name].extend(column)
    keys = set(zip(*(columns[name] for name in KEYS), strict=True))
    untrained_rows = [
        (*_key(episode, turn), sum(turn.rewards.values()))
        for episode, turn in ordered_turns(episodes, candidates=True)
        if _key(episode, turn) not in keys
    ]
    untrained_columns: dict[str, list[Any]] = {
        "selected": [False] * len(untrained_rows),
        "replayed": [False] * len(untrained_rows),
        "reward": [row[-1] for row in untrained_rows],
        **{name: [row[index] for row in untrained_rows] for index, name in enumerate(KEYS)},
    }
    for name, column in columns.items():
        column.extend(untrained_columns.get(name, [None] * len(untrained_rows)))
    columns["step"] = [step] * len(columns["step"])
    arrays = [pa.array(columns[field.name], field.type) for field in CREDIT_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=CREDIT_SCHEMA)


def _columns(learned_batch: LearnedBatch, new_ids: Collection[int]) -> dict[str, Iterable[Any]]:
    """Return the columns of a policy's batch.

    Args:
        learned_batch: the policy's batch, with its turn table and credit.
        new_ids: ids of the step's episodes; all other episodes come from the replay buffer.
    """
    turns, credit = learned_batch.turns, learned_batch.credit
    has_candidates = turns.state_group is not None
    keys = [_key(*pair) for pair in ordered_turns(learned_batch.batch, candidates=has_candidates)]
    advantages_by_turn = _by_turn(credit.advantages, turns) if credit.level == "token" else None
    nulls = [None] * len(keys)
    return {
        **{name: [key[index] for key in keys] for index, name in enumerate(KEYS)},
        "step": nulls,
        "selected": [True] * len(keys) if credit.trained is None else credit.trained,
        "replayed": [episode_id not in new_ids for episode_id, *_ in keys],
        "reward": turns.reward,
        "advantage": credit.advantages
        if advantages_by_turn is None
        else [values.mean() if len(values) else 0.0 for values in advantages_by_turn],
        "token_advantages": nulls if advantages_by_turn is None else advantages_by_turn,
        "baseline": _or_null(credit.baselines, len(keys)),
        "value": _or_null(turns.value, len(keys)),
        "value_target": _or_null(credit.value_targets, len(keys)),
        "entropies": _by_turn(learned_batch.entropies, turns),
    }


def _key(episode: Episode, turn: Turn) -> tuple[int, ...]:
    return episode.episode_id, turn.seat, turn.turn_index, turn.candidate


def _by_turn(values: FloatArray, turns: TurnTable) -> list[FloatArray]:
    return np.split(values, np.cumsum(turns.n_tokens)[:-1]) if len(turns.n_tokens) else []


def _or_null(column: FloatArray | None, num_rows: int) -> Iterable[Any]:
    """Return a column, or nulls if it is missing or has another length."""
    return [None] * num_rows if column is None or len(column) != num_rows else column
