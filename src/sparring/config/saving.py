"""What of a run is kept on disk, and when it is written."""

from __future__ import annotations

from pydantic import Field, field_validator

from sparring.config_parts import (
    Count,
    PluginConfig,
    Positive,
    Strict,
    refuse_repeated,
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
    keep: Count = Field(
        100, description="stored steps kept: half the newest, half spread over the run; 0 keeps all"
    )


class LoggingConfig(Strict):
    """Where figures go besides the files of the run folder."""

    sinks: list[PluginConfig] = Field(
        default_factory=lambda: [PluginConfig(name="tensorboard")],
        description="plug-ins that are given the figures of every step; none: []",
    )

    @field_validator("sinks")
    @classmethod
    def _names_differ(cls, sinks: list[PluginConfig]) -> list[PluginConfig]:
        refuse_repeated("sink", (sink.name for sink in sinks), "a run is in each of them once")
        return sinks
