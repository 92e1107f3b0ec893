"""The columns in which episodes are stored."""

from __future__ import annotations

import pyarrow as pa

from sparring.rollout.parts import Columns

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
        ("environment", pa.dictionary(pa.int32(), pa.string())),  # one text for very many rows
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
