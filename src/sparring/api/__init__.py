"""The public API: what ``import sparring`` gives, in one file each for runs, plays and figures."""

from sparring.api.figures import advantages, evaluate, loss
from sparring.api.plays import make_environment, play, turn_table
from sparring.api.runs import Run, load_run, train

__all__ = [
    "Run",
    "advantages",
    "evaluate",
    "load_run",
    "loss",
    "make_environment",
    "play",
    "train",
    "turn_table",
]
