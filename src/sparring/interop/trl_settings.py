"""What settings of TRL's trainer give to our estimators and losses, and which they refuse."""

from __future__ import annotations

from typing import Any

from sparring.errors import ConfigError
from sparring.interop.terms import Terms

HINTS_FOR_LOSSES = {
    "reference_logprobs": (
        "set beta above 0, so that TRL keeps a reference (the weight is then that of our loss, "
        "not beta)"
    ),
    "old_logprobs": "set use_vllm, so that TRL keeps the sampler's log-probabilities",
    "values": "GRPOTrainer has no critic",
}
LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo")
MULTIMODAL = (
    *(
        "pixel_values",
        "image_grid_thw",
        "num_images",
        "pixel_attention_mask",
        "spatial_shapes",
        "num_tiles",
    ),
    *("image_sizes", "token_type_ids", "mm_token_type_ids", "image_position_ids"),
)


def given_to_losses(trainer: Any) -> frozenset[str]:
    """Return which needs of losses are met with these settings."""
    given = {"whole", "entropy"}
    if trainer.beta != 0.0:
        given.add("reference_logprobs")
    if trainer.use_vllm and trainer.vllm_importance_sampling_correction:
        given.add("old_logprobs")
    return frozenset(given)


def check_losses(trainer: Any, terms: Terms) -> None:
    """Raise ConfigError for settings that belong to TRL's own loss.

    The same goes for those that would mislead one of ours.
    """
    args = trainer.args
    foreign = {
        "importance_sampling_level": trainer.importance_sampling_level != "token",
        "off_policy_mask_threshold": trainer.off_policy_mask_threshold is not None,
        "top_entropy_quantile": trainer.top_entropy_quantile < 1.0,
        "delta": args.delta is not None,
        "entropy_coef or entropy_target": trainer._entropy_bonus_enabled,
        "router_aux_loss_coef": trainer.aux_loss_enabled,
        "beta": trainer.beta != 0.0 and "reference_logprobs" not in terms.needs,
    }
    for name in (name for name, wrong in foreign.items() if wrong):
        raise ConfigError(
            f"{name} belongs to TRL's own loss, which ``losses`` replaces; leave it out, or "
            "add one of our losses for it."
        )
    if trainer.loss_type not in LOSS_TYPES:
        raise ConfigError(
            f"loss_type {trainer.loss_type!r} is a loss of TRL; with ``losses`` write how they "
            f"are averaged: {', '.join(LOSS_TYPES)}."
        )
    if "whole" in terms.needs and args.gradient_accumulation_steps > 1:
        raise ConfigError(
            "a loss that looks at the whole minibatch needs gradient_accumulation_steps=1; "
            "raise per_device_train_batch_size."
        )
    terms.check()
