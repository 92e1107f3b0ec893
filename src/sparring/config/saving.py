"""What of a run is kept on disk, and when it is written."""

from __future__ import annotations

from pydantic import Field

from sparring.config_parts import (
    Count,
    Positive,
    Strict,
)


class CheckpointConfig(Strict):
    """When the whole state is saved."""

    every: Positive = Field(50, description="steps between checkpoints")
    keep: Positive = Field(2, description="checkpoints kept")


class StoreConfig(Strict):
    """Which episodes are written to the Parquet store."""

    every: Count = Field(
        10, description="steps between stored batches; 1 stores every episode, 0 none"
    )
