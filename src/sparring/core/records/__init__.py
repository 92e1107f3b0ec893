"""Every record that crosses a layer: frozen, made by keyword, shapes beside the fields, no logic.

Records that are made at every turn of every game are named tuples, which cost a third of a frozen
dataclass.

Legend for shapes: E episodes, N turns (rows of a turn table), M sampled tokens of a batch,
S training sequences, V vocabulary entries.
"""

from sparring.core.records.plays import (
    EnvironmentSpec,
    Episode,
    Judgement,
    Observation,
    Segment,
    SegmentKind,
    Turn,
    TurnEvent,
    Verdict,
)
from sparring.core.records.sampling import (
    SampledRun,
    SampleRequest,
    SampleResult,
    SamplingParams,
)
from sparring.core.records.tables import (
    BoolArray,
    Credit,
    FloatArray,
    IntArray,
    Interval,
    TurnTable,
)

__all__ = [
    "BoolArray",
    "Credit",
    "EnvironmentSpec",
    "Episode",
    "FloatArray",
    "IntArray",
    "Interval",
    "Judgement",
    "Observation",
    "SampleRequest",
    "SampleResult",
    "SampledRun",
    "SamplingParams",
    "Segment",
    "SegmentKind",
    "Turn",
    "TurnEvent",
    "TurnTable",
    "Verdict",
]
