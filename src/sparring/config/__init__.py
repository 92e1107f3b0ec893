"""The strict configuration of a run: a class per section, and ``resolve``, which checks them.

The default of a field is here, or in the signature of the plug-in that it configures.
"""

from sparring.config.parts import Count, Number, PluginConfig, Positive, Strict, refuse_repeated
from sparring.config.policies import (
    LearnerConfig,
    LoraConfig,
    LossConfig,
    ModelConfig,
    PolicyConfig,
    ProcessConfig,
    RewardConfig,
    SamplingConfig,
    WarmupConfig,
    without_policy,
)
from sparring.config.run import RunConfig, resolve
from sparring.config.sections import (
    CheckpointConfig,
    EnvironmentConfig,
    EvaluationConfig,
    HealthConfig,
    HealthRule,
    LeagueConfig,
    LoggingConfig,
    OpponentConfig,
    RolloutConfig,
    ScaleConfig,
    StoreConfig,
)

__all__ = [
    "CheckpointConfig",
    "Count",
    "EnvironmentConfig",
    "EvaluationConfig",
    "HealthConfig",
    "HealthRule",
    "LeagueConfig",
    "LearnerConfig",
    "LoggingConfig",
    "LoraConfig",
    "LossConfig",
    "ModelConfig",
    "Number",
    "OpponentConfig",
    "PluginConfig",
    "PolicyConfig",
    "Positive",
    "ProcessConfig",
    "RewardConfig",
    "RolloutConfig",
    "RunConfig",
    "SamplingConfig",
    "ScaleConfig",
    "StoreConfig",
    "Strict",
    "WarmupConfig",
    "refuse_repeated",
    "resolve",
    "without_policy",
]
