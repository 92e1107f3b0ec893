"""Seeds of one configuration on one page."""

import pytest
from typer.testing import CliRunner

from sparring import cli
from sparring.core.errors import ConfigError, RunError
from sparring.ops.statistics import mean_interval
from sparring.report.run_page import over_seeds, results_over_seeds, seeds_of, write_report
from sparring.run.events import MetricsWriter
from sparring.run.folder import RunFolder


def run(path, seed, values, extra=""):
    folder = RunFolder.create(path, f"name: x\nseed: {seed}\nsteps: 3\nenvironments: [{{name: kuhn_poker}}]\n{extra}")
    writer = MetricsWriter(folder.path)
    for step, value in enumerate(values, start=1):
        writer.write(step, {"nash_conv/kuhn_poker": value}, {"seconds/round": 1.0})
    writer.close()
    return path


def test_from_three_seeds_on_a_line_is_the_mean_and_its_band_the_interval(tmp_path):
    values = [(0.9, 0.5, 0.2), (0.8, 0.4), (0.7, 0.1, 0.3)]
    seeds = seeds_of([run(tmp_path / str(n), n, own) for n, own in enumerate(values)])
    (line,) = over_seeds("nash_conv/kuhn_poker", seeds)
    assert line.points == [(1, pytest.approx(0.8)), (2, pytest.approx(1 / 3))]  # steps that all have
    found = mean_interval([0.5, 0.4, 0.1])
    assert line.band[1] == (2, found.low, found.high)
    assert over_seeds("nothing", seeds) == []
    (row,) = results_over_seeds(seeds, {}, ("nash_conv/",))["rows"]
    last = mean_interval([0.2, 0.4, 0.3])
    assert row[1:6] == (f"0.3\u00a0[{last.low:.4g},\u00a0{last.high:.4g}]", "0.2", "0.4", "0.3", "-")


def test_two_seeds_are_two_lines_in_order(tmp_path):
    seeds = seeds_of([run(tmp_path / "b", 7, (0.9, 0.5)), run(tmp_path / "a", 3, (0.8,))])
    assert [one.seed for one in seeds] == [3, 7]
    lines = over_seeds("nash_conv/kuhn_poker", seeds)
    assert [(one.name, one.points, one.band) for one in lines] == [
        ("nash_conv/kuhn_poker, seed 3", [(1, 0.8)], ()),
        ("nash_conv/kuhn_poker, seed 7", [(1, 0.9), (2, 0.5)], ()),
    ]


def test_other_configurations_and_the_same_seed_twice_are_refused(tmp_path):
    first = run(tmp_path / "a", 1, (0.9,))
    with pytest.raises(ConfigError, match=r"b is no other seed of .*c: credit.name differs"):
        seeds_of([run(tmp_path / "c", 1, (0.9,), "credit: {name: mars}\n"), run(tmp_path / "b", 2, (0.9,), "credit: {name: rloo}\n")])
    with pytest.raises(ConfigError, match="have seed 1; name each seed once"):
        seeds_of([first, run(tmp_path / "d", 1, (0.9,))])
    assert len(seeds_of([first, run(tmp_path / "e", 2, (0.9,), "threads: 1\n")])) == 2
    with pytest.raises(ConfigError, match=r"scale\.lag"):  # where it is played is free, how old its plays are is not
        seeds_of([first, run(tmp_path / "f", 3, (0.9,), "scale: {lag: 1}\n")])
    with pytest.raises(RunError, match="no run folder"):
        seeds_of([first, tmp_path / "none"])


def test_the_page_of_several_says_what_is_of_all_and_what_of_one(tmp_path):
    paths = [run(tmp_path / f"s{n}", n, (0.9 - n / 10, 0.5)) for n in (2, 0, 1)]
    page = write_report(paths[0], tmp_path / "all.html", paths[1:]).read_text()
    assert "3 runs of one configuration: s0 (seed 0), s1 (seed 1), s2 (seed 2)." in page and "all other parts are of seed 0" in page
    assert "<polygon" in page and "with the 95 % interval of the mean" in page and "random play: 0.9167" in page
    assert not (paths[0] / "report.html").exists()


def test_the_file_of_several_is_named(tmp_path):
    paths = [str(run(tmp_path / f"s{n}", n, (0.9,))) for n in (0, 1)]
    assert "write --out FILE" in str(CliRunner().invoke(cli.app, ["report", *paths]).exception)
    assert CliRunner().invoke(cli.app, ["report", *paths, "--out", str(tmp_path / "x.html")]).exit_code == 0
