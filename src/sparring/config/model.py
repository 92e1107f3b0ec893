"""The model that is trained, and its adapters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sparring.config_parts import (
    Few,
    Some,
    Strict,
    Width,
)


class LoraConfig(Strict):
    """Low-rank adapters: they alone are trained, and the model under them is frozen."""

    rank: Width = Field(16, description="inner width of the adapters")
    alpha: float = Field(32.0, gt=0, description="their scale is alpha / rank")
    targets: list[str] = Field(
        default_factory=list,
        description="layers that get one, e.g. [q_proj, v_proj]; empty: all linear ones",
    )


class ModelConfig(Strict):
    """The model: a pretrained one by name, or a tiny model built from these sizes."""

    name: str = Field(
        "tiny", description="tiny, a model folder, smollm2-135m, gemma3-270m, or a Hugging Face id"
    )
    device: str = Field(
        "auto",
        description="auto (a GPU if there is one, for pretrained models), cpu, cuda, cuda:1 ...",
    )
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="of a pretrained model's weights"
    )
    lora: LoraConfig | None = Field(
        None, description="low-rank adapters; empty trains every weight"
    )
    gradient_checkpointing: bool = Field(
        False, description="compute blocks again in the backward pass: less memory, more time"
    )
    hidden_size: Width = Field(64, description="width of the tiny model")
    layers: Few = Field(2, description="blocks of the tiny model")
    heads: Width = Field(4, description="attention heads of the tiny model")
    context: Some | None = Field(
        None,
        description="longest conversation in tokens; null: 128 for the tiny model, else its limit",
    )

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight; the tiny model's have 32 bits."""
        return 4 if self.name == "tiny" or self.dtype == "float32" else 2

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelConfig:
        if self.hidden_size % self.heads:
            raise ValueError(f"heads={self.heads} must divide hidden_size={self.hidden_size}")
        return self

    @model_validator(mode="after")
    def _tiny_is_on_the_cpu(self) -> ModelConfig:
        if self.name == "tiny" and self.device not in ("auto", "cpu"):
            raise ValueError(
                f"the tiny model runs on the CPU and not on device={self.device!r}; write auto, "
                "or name a pretrained model"
            )
        return self
