"""Curriculum requests for tests, by hand."""

from sparring.core.rng import Stream
from sparring.methods.selection.curricula.base import Arm, ArmRecord, CurriculumRequest


def record(successes=0, size=4, *, step=0, deviation=0.0, mean=0.0):
    return ArmRecord(step=step, size=size, successes=successes, mean=mean, deviation=deviation)


def request(*histories, groups=1, step=10, seed=0, arms=None):
    """Return the request whose arms have these records, oldest first."""
    arms = arms or tuple(Arm("game", index, 1.0) for index in range(len(histories)))
    return CurriculumRequest(
        arms=arms,
        history=tuple(tuple(records) for records in histories),
        num_groups=groups,
        step=step,
        stream=Stream.from_seed(seed),
    )
