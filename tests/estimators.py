"""Rollouts that estimators require."""


def required_rollout(name, preset=None):
    """Return the options of `rollout` that an estimator requires."""
    if name == "vine_ppo":
        return {"playouts": 1}
    has_candidates = (name, preset) in (("vpr", "as_released"), ("candidate_value", None))
    return {"candidates": {"count": 4, "by": "rewards"}} if has_candidates else {}


def played_for(name, preset=None):
    """Return the environment that an estimator's runs need; None: any will do."""
    return "wide_search" if (name, preset) == ("grpo", "wideseek_r1") else None
