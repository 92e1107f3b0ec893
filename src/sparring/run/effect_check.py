"""What is refused before a run starts, as it would change nothing.

A run folder of before is read all the same.
"""

from __future__ import annotations

from sparring.config import RunConfig
from sparring.config.plugins.registry import asks
from sparring.config.policies import ModelConfig
from sparring.core.errors import ConfigError
from sparring.environments.catalogue import configured_game

SIZES = ("hidden_size", "layers", "heads")  # of the tiny model


def check_effect(config: RunConfig) -> None:
    """Refuse settings that would be ignored.

    Args:
        config: of the run.

    Raises:
        ConfigError: there is such a setting; the message says what to write.
    """
    for name, own in config.by_policy.items():
        try:
            _check_model(own.model)
            if not config.is_frozen(name):
                _check_update(own)
                _check_groups(own)
        except ConfigError as error:
            error.args = (f"policies.{name}: {error}" if config.policies else str(error),)
            raise


def _check_model(model: ModelConfig) -> None:
    """Refuse adapters and a dtype of the tiny model, and sizes of a pretrained one."""
    if model.name != "tiny":
        for key in SIZES:
            value, usual = getattr(model, key), ModelConfig.model_fields[key].default
            if value != usual:
                raise ConfigError(
                    f"model.{key}={value} sizes the tiny model, and model.name is {model.name!r}, "
                    f"which has sizes of its own; leave it out, or write model.{key}: {usual}."
                )
        return
    if model.lora is not None:
        raise ConfigError(
            "model.lora puts adapters on a pretrained model, and all weights of the tiny model are "
            "trained; leave model.lora out (null), or write model.name: smollm2-135m."
        )
    if model.dtype != "float32":
        raise ConfigError(
            f"model.dtype={model.dtype} is of a pretrained model, and the tiny model has float32; "
            "write model.dtype: float32, or model.name: smollm2-135m."
        )


def _check_update(config: RunConfig) -> None:
    """Refuse settings of the learner that another one of it switches off."""
    learner = config.learner
    if learner.master_weights and config.model.weight_bytes >= 4:
        raise ConfigError(
            "learner.master_weights=true keeps copies in float32 of weights of 16 bits, and these "
            "have 32; write learner.master_weights: false, or model.dtype: bfloat16."
        )
    if learner.reduction_constant != 1.0 and learner.reduction != "constant":
        raise ConfigError(
            f"learner.reduction_constant={learner.reduction_constant:g} divides where "
            f"learner.reduction is constant, and it is {learner.reduction}; write "
            "learner.reduction: constant, or learner.reduction_constant: 1."
        )
    if learner.sharding != "none" and learner.ranks == 1:
        raise ConfigError(
            f"learner.sharding={learner.sharding} splits weights among learners, and there is one; "
            "write learner.ranks: 2 (and learner.leaves: 2), or learner.sharding: none."
        )
    if learner.gradient_sync != "leaf" and learner.sharding == "none":
        raise ConfigError(
            f"learner.gradient_sync={learner.gradient_sync} is of learners that split weights; "
            "write learner.sharding: fsdp2, or learner.gradient_sync: leaf."
        )


def _check_groups(config: RunConfig) -> None:
    """Refuse an estimator that compares plays of one start where there is one of each.

    Seats of one role are compared with each other, and candidates where the estimator reads them.
    """
    credit, rollout = config.credit.bind("credit"), config.rollout
    if not credit.group_relative or rollout.group_size > 1:
        return
    if "candidates" in asks(credit) and rollout.candidates.count > 1:
        return
    games = [configured_game(section) for section in config.environments if section.weight]
    if all(len(set(game.roles)) == len(game.roles) for game in games):
        raise ConfigError(
            f"credit: {credit.plugin.name!r} compares plays of one start, and with "
            "rollout.group_size=1 there is one of each, so that every advantage is 0; write "
            "rollout.group_size: 8 (a divisor of rollout.games_per_step), or credit: {name: mars}."
        )
