"""Helpers that read the report of a suite and that save a checkpoint of an engine."""

import json

from sparring.run.state import RunState


def row_of(report, name):
    return next(row for row in report["rows"] if row["name"] == name)


def as_json(report):
    return json.loads(json.dumps(report, allow_nan=False))


def checkpoint_writer(engine):
    def write(folder):
        engine.save(folder)
        RunState().save(folder)

    return write
