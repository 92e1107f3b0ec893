"""What estimators ask of a run besides usual plays."""


def asked_of(name, preset=None):
    """Return what a run's rollout must have for an estimator."""
    if name == "vine_ppo":
        return {"playouts": 1}
    several = (name, preset) in (("vpr", "as_released"), ("candidate_value", None))
    return {"candidates": {"count": 4, "by": "rewards"}} if several else {}
