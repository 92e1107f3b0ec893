"""Writers of small run folders without training."""

from sparring.report.run_page import write_report
from sparring.run.events import MetricsWriter
from sparring.run.folder import RunFolder


def write_run(path, *steps, config="name: x\n"):
    """Write a run whose steps have these (metrics, timing); return its folder."""
    folder = RunFolder.create(path, config)
    writer = MetricsWriter(folder.path)
    for step, (metrics, timing) in enumerate(steps, start=1):
        writer.write(step, metrics, timing)
    writer.close()
    return folder.path


def page_of(path):
    return write_report(path).read_text(encoding="utf-8")
