"""The figures of single workers, from one asking to the next."""

from sparring.engine.workers.unit_scheduler import (
    RECORDED_WORKERS,
    UtilisationMeter,
    WorkerUtilisation,
)


def test_the_figures_are_shares_of_the_time_since_the_asking_before():
    meter = UtilisationMeter()
    assert meter.since_last_call([WorkerUtilisation(1.0, 2.0, 0), WorkerUtilisation(0.0, 0.0, 3)], 10.0) == {}
    figures = meter.since_last_call([WorkerUtilisation(2.0, 5.0, 0), WorkerUtilisation(0.0, 0.0, 5)], 14.0)
    assert figures == {
        "worker/0/playing": 0.25,
        "worker/0/ready": 0.75,
        "worker/1/playing": 0.0,
        "worker/1/ready": 0.0,
        "worker/1/lost": 2.0,
    }
    # no time has passed
    assert meter.since_last_call([WorkerUtilisation(2.0, 5.0, 0), WorkerUtilisation(0.0, 0.0, 5)], 14.0) == {}
    many = [WorkerUtilisation(0.0, 0.0, 0)] * 100
    meter.since_last_call(many, 15.0)
    assert len(meter.since_last_call(many, 16.0)) == 2 * RECORDED_WORKERS, "of the first workers alone"
