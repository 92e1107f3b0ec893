"""The figures of single workers, from one asking to the next."""

from sparring.engine.workers.scheduler import LANES, Utilisation, WorkerUtilisation


def test_the_figures_are_shares_of_the_time_since_the_asking_before():
    lanes = Utilisation()
    assert lanes.since([WorkerUtilisation(1.0, 2.0, 0), WorkerUtilisation(0.0, 0.0, 3)], 10.0) == {}
    found = lanes.since([WorkerUtilisation(2.0, 5.0, 0), WorkerUtilisation(0.0, 0.0, 5)], 14.0)
    assert found == {"worker/0/playing": 0.25, "worker/0/ready": 0.75, "worker/1/playing": 0.0, "worker/1/ready": 0.0, "worker/1/lost": 2.0}
    assert lanes.since([WorkerUtilisation(2.0, 5.0, 0), WorkerUtilisation(0.0, 0.0, 5)], 14.0) == {}  # no time has passed


def test_a_line_has_figures_of_the_first_workers_alone():
    lanes = Utilisation()
    many = [WorkerUtilisation(0.0, 0.0, 0)] * 100
    lanes.since(many, 0.0)
    assert len(lanes.since(many, 1.0)) == 2 * LANES
