"""Reward: DAPO's soft penalty of overlong replies."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.records import Episode
from sparring.play.episode import num_sampled_tokens

READS = "turn"
PRESETS = {"dapo": {"max_tokens": 20480, "cache": 4096}}


def overlong(
    episode: Episode,
    *,
    max_tokens: Annotated[int, Field(ge=1)] = 20480,
    cache: Annotated[int, Field(ge=1)] = 4096,
) -> tuple[float, ...]:
    """Penalise replies near the token limit, increasingly towards the limit.

    What: the reward is 0 up to ``max_tokens - cache`` tokens, falls linearly to -1 at
    ``max_tokens``, and is -1 beyond.
    When to use: with a token limit, so that the reward falls before a reply is truncated.
    Mathematics:
        r_t = min(0, max(-1, (max_tokens - cache - L_t) / cache))
    L_t counts the sampled tokens of turn t, its stop token included.
    Shapes: one number per turn.
    Pitfalls: DAPO adds the penalty once per answer; here every turn has a penalty. -1 is as large
    as a loss, so the bound on shaping acts unless the outcome gap is above 2.
    Reference: Yu et al., 2025 (DAPO), equation 13.
    Verified by: tests/methods/rewards/test_reply_rewards.py.

    Args:
        max_tokens: length at which the reward reaches -1, in tokens, at least 1; normally the
            ``max_new_tokens`` of the rollout. The default 20480 is DAPO's (preset ``dapo``).
        cache: number of tokens below ``max_tokens`` over which the reward falls from 0 to -1; at
            least 1 and at most ``max_tokens``. The default 4096 is DAPO's.

    Raises:
        ConfigError: cache exceeds max_tokens.
    """
    if cache > max_tokens:
        raise ConfigError(
            f"rewards 'overlong': cache={cache} must be at most max_tokens={max_tokens}; write "
            f"cache: {max_tokens}."
        )
    free_tokens = max_tokens - cache
    return tuple(
        min(0.0, max(-1.0, (free_tokens - num_sampled_tokens(turn)) / cache))
        for turn in episode.turns
    )
