"""Reports of suites, and what writes a checkpoint of an engine."""

import json

from sparring.run.state import RunState


def of(report, name):
    return next(row for row in report["rows"] if row["name"] == name)


def plain(report):
    return json.loads(json.dumps(report, allow_nan=False))


def written(engine):
    def write(folder):
        engine.save(folder)
        RunState().save(folder)

    return write
