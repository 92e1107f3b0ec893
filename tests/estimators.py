"""What estimators ask of a run besides usual plays."""


def asked_of(name, preset=None):
    """Return what a run's rollout must have for an estimator."""
    if name == "vine_ppo":
        return {"playouts": 1}
    return {"candidates": {"count": 4, "by": "rewards"}} if (name, preset) == ("vpr", "as_released") else {}
