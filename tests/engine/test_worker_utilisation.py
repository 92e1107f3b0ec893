"""The utilisation of single workers between two calls."""

from sparring.engine.workers.unit_scheduler import (
    RECORDED_WORKERS,
    UtilisationMeter,
    WorkerUtilisation,
)


def test_utilisation_is_a_share_of_the_time_since_the_last_call():
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
    # no time has passed since the last call
    assert meter.since_last_call([WorkerUtilisation(2.0, 5.0, 0), WorkerUtilisation(0.0, 0.0, 5)], 14.0) == {}
    workers = [WorkerUtilisation(0.0, 0.0, 0)] * 100
    meter.since_last_call(workers, 15.0)
    assert len(meter.since_last_call(workers, 16.0)) == 2 * RECORDED_WORKERS, "only the first workers are recorded"
