import pytest

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError

INVALID_VALUES = {
    "aepo_clip": {"clip_low": -1.0},
    "cispo": {"clip_low": 1.5},
    "clip_cov": {"share": 1.5},
    "d3s_tokens": {"keep": 0.0},
    "dpo": {"beta": 0.0, "label_smoothing": 0.5, "pairs": "some"},
    "etr": {"advantage_gain": -1.0},
    "gmpo": {"clip_low": -1.0},
    "gspo": {"level": "token"},
    "hapo_clip": {"alpha": 2.0, "pivot": -0.1, "dual_clip": 1.0},
    "kl_cov": {"coefficient": -1.0},
    "kl_penalty": {"estimator": "k4"},
    "kto": {"beta": 0.0, "desirable": "nice", "desirable_weight": -1.0},
    "log_ratio_clip": {"low": 0.1, "high": -0.1, "tau": 0.0, "form": "mask"},
    "magnetic_mirror_descent": {"magnet": -1.0},
    "masked_is": {"low": -0.5},
    "neurd": {"importance_cap": 0.5},
    "ppo_clip": {"clip_low": -0.1, "clip_high": -1.0, "dual_clip": 1.0},
    "probability_mask": {"below": 0.0},
    "sapo": {"temperature_positive": 0.0},
    "self_imitation": {"clip_high": -1.0},
    "trajectory_dpo": {"discount": 0.0},
    "truncated_is": {"cap": 0.0},
    "turn_dpo": {"beta": 0.0, "label_smoothing": 0.5, "pairs": "some", "labels": "none", "reference": "past"},
}


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, options in INVALID_VALUES.items() for option in options]
)
def test_values_outside_their_range_are_refused_by_the_option_s_name(make_batch, name, option):
    with pytest.raises(ConfigError, match=option):
        bind("losses", name, {option: INVALID_VALUES[name][option]})(make_batch([0.0]))
