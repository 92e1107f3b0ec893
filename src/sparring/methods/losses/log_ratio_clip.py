"""Loss: the policy gradient with a log-ratio clipped at both ends, as in Kimi K2.5."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, log_ratio, ratio_metrics

CORRECTS = True
PRESETS = {"divided": {"form": "divided", "tau": 1.0}}


def log_ratio_clip(
    batch: LossBatch,
    *,
    low: Annotated[float, Field(le=0)] = -0.2,
    high: Annotated[float, Field(ge=0)] = 0.2,
    tau: Annotated[float, Field(gt=0)] = 0.1,
    form: Literal["penalty", "divided"] = "penalty",
) -> LossTerm:
    """Train tokens whose log-ratio is within bounds, and pull all tokens back to the old policy.

    What: an off-policy gradient that drops a token as soon as learner and old policy differ too
    much. PPO's clip drops tokens in one direction only: a token that has become unlikely still
    counts there if its advantage is positive.
    When to use: with another engine or stale weights, whose log-probabilities differ in both
    directions; with group advantages that no deviation divides, such as those of ``gpg``.
    Mathematics:
        x_t = log pi(a_t) - log pi_old(a_t)
        L_t = -exp(clip(x_t, low, high)) A + tau x_t^2
    With form "divided" there is no penalty, and tau scales the advantage instead:
        L_t = -exp(clip(x_t, low, high)) A / tau
    Shapes: [M] -> [M].
    Pitfalls:
        - Outside the bounds the advantage has no gradient, so that only the penalty brings a token
          back; with "divided" nothing does.
        - The penalty's gradient 2 tau x is 0 at the first update of a step.
        - Large bounds and form "divided" with tau 1 are the plain off-policy gradient.
    Metrics: as ``ppo_clip``; clip_fraction is the share of tokens outside the bounds, low_fraction
    the share below.
    Reference: Kimi team, 2026 (K2.5, arXiv 2602.02276). Notes on the report disagree on the place
    of tau, and no values are published: the bounds and tau are ours. The default has a penalty, as
    in several notes and in the same team's k1.5.
    Verified by: tests/methods/losses/test_weights_of_losses.py.

    Args:
        low: least log-ratio of a token that the advantage trains, at most 0. Default -0.2.
        high: largest log-ratio of such a token, at least 0. Default 0.2.
        tau: weight of the penalty, or divisor of the advantage, above 0. Default 0.1; 1 in preset
            "divided".
        form: role of tau, "penalty" (default) or "divided".
    """
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    clipped_log_ratio = log_of_ratio.clamp(low, high)
    values = -clipped_log_ratio.exp() * batch.advantages
    values = values + tau * log_of_ratio.square() if form == "penalty" else values / tau
    log_of_ratio = log_of_ratio.detach()
    is_below, is_above = log_of_ratio < low, log_of_ratio > high
    metrics = {
        **ratio_metrics(log_of_ratio.exp(), log_of_ratio),
        "clip_fraction": (is_below | is_above).float().mean(),
        "low_fraction": is_below.float().mean(),
    }
    return LossTerm(values=values, weighted=True, metrics=metrics)
