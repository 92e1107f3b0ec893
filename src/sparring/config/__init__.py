"""One strict configuration of a run: a class per section, and ``resolve`` that makes all of them.

Every field has its one default here, or in the signature of the plug-in it configures.
"""

from sparring.config.league import LeagueConfig
from sparring.config.learning import (
    LearnerConfig,
    LossConfig,
    ProcessConfig,
    RewardConfig,
    WarmupConfig,
)
from sparring.config.parts import Count, Number, PluginConfig, Positive, Strict, refuse_repeated
from sparring.config.play import EnvironmentConfig, RolloutConfig, SamplingConfig
from sparring.config.policies import LoraConfig, ModelConfig, PolicyConfig, of_any
from sparring.config.run import RunConfig, resolve
from sparring.config.scale import ScaleConfig
from sparring.config.sections import (
    CheckpointConfig,
    EvaluationConfig,
    HealthConfig,
    HealthRule,
    LoggingConfig,
    OpponentConfig,
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
    "of_any",
    "refuse_repeated",
    "resolve",
]
