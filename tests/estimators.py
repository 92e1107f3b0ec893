"""What estimators ask of a run besides usual plays."""


def asked_of(name, preset=None):
    """Return what a run's rollout must have for an estimator."""
    if name == "vine_ppo":
        return {"playouts": 1}
    several = (name, preset) in (("vpr", "as_released"), ("candidate_value", None))
    return {"candidates": {"count": 4, "by": "rewards"}} if several else {}


def played_for(name, preset=None):
    """Return the environment that an estimator's runs need; None: any will do."""
    return "wide_search" if (name, preset) == ("grpo", "wideseek_r1") else None
