import json
import re

import pytest
import torch
from typer.testing import CliRunner

import sparring
from sparring import cli
from sparring.run import provenance
from sparring.run.provenance import PROVENANCE, add_start, starts

QUICK_OVERRIDES = [
    "steps=1",
    "rollout.games_per_step=8",
    "model.hidden_size=8",
    "model.layers=1",
    "model.heads=1",
    "evaluation.exact=false",
]
QUICK_OVERRIDES += ["checkpoint.every=1", "threads=1"]


def run_cli(*arguments):
    result = CliRunner().invoke(cli.app, [str(word) for word in arguments])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def resumed_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("provenance") / "run"
    run_cli("train", "kuhn-tiny", *QUICK_OVERRIDES, "--run", path)
    run_cli("train", "--run", path, "--resume", "steps=2")
    return path


def test_every_start_of_a_run_is_stored(resumed_run):
    first_start, second_start = starts(resumed_run)
    assert (first_start["after_step"], second_start["after_step"]) == (0, 1)
    for start in (first_start, second_start):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", start["date"])
        assert start["versions"]["sparring"] == sparring.__version__
        assert {"python", "torch", "open_spiel"} <= set(start["versions"])
        assert start["host"] and start["machine"]["cores"]
        assert start["commit"] is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", start["commit"])


@pytest.mark.parametrize(("threads", "replies"), [(1, "own bits"), (2, "within 1e-5")])
def test_the_determinism_of_replies_is_stored(tmp_path, threads, replies, monkeypatch):
    monkeypatch.setenv("CC", "none")
    threads_before = torch.get_num_threads()
    try:
        run_cli(
            "train",
            "kuhn-tiny",
            *QUICK_OVERRIDES,
            "model.hidden_size=16",
            f"threads={threads}",
            "--run",
            tmp_path / "run",
        )
    finally:
        torch.set_num_threads(threads_before)
    (start,) = starts(tmp_path / "run")
    assert start["replies"] == replies
    assert start["decoding"] == "torch: CC=none"
    assert start["measured"] == "EMA weights"
    assert "<td>torch: CC=none</td>" in (tmp_path / "run" / "report.html").read_text()
    assert f"<td>{replies}</td>" in (tmp_path / "run" / "report.html").read_text()


def test_provenance_is_in_no_other_file(resumed_run, monkeypatch):
    monkeypatch.setattr(provenance.socket, "gethostname", lambda: "a-host-of-its-own")
    run_cli("train", "--run", resumed_run, "--resume", "steps=3")
    assert starts(resumed_run)[-1]["host"] == "a-host-of-its-own"
    other_files = [
        path
        for path in resumed_run.rglob("*")
        if path.is_file() and path.name not in (PROVENANCE, "report.html", ".lock-holder")
    ]
    assert len(other_files) > 5
    for path in other_files:
        assert b"a-host-of-its-own" not in path.read_bytes(), path
    assert "a-host-of-its-own" in (resumed_run / "report.html").read_text()


def test_a_replaced_run_has_new_provenance(tmp_path):
    for _ in range(2):
        run_cli("train", "kuhn-tiny", *QUICK_OVERRIDES, "--run", tmp_path / "run", "--overwrite")
    assert len(starts(tmp_path / "run")) == 1


@pytest.mark.parametrize(
    ("first_value", "second_value", "has_warning"),
    [
        ("compiled", "torch: CC=none", True),
        ("torch: the C compiler 'cc' failed: x, compiled", "compiled", True),
        ("compiled, vllm", "torch: CC=none, vllm", True),
        ("torch: CC=none", "torch: no C compiler 'cc' (name one in $CC)", False),
        ("torch", "torch: CC=none", False),
        ("compiled", "compiled", False),
        (None, "compiled", False),
        (["compiled"], "torch", False),
    ],
)
def test_a_resume_with_other_numerics_gives_a_warning(tmp_path, caplog, first_value, second_value, has_warning):
    add_start(
        tmp_path, ["sparring"], after_step=0, invariant=True, decoding=first_value, measured_weights="live weights"
    )
    assert caplog.text == ""
    add_start(
        tmp_path, ["sparring"], after_step=4, invariant=True, decoding=second_value, measured_weights="live weights"
    )
    expected = f"{first_value!r} up to step 4, and by"
    assert (expected in caplog.text and "the run's numbers change" in caplog.text) == has_warning
    assert has_warning or caplog.text == ""


def test_a_start_without_a_checkpoint_is_not_compared(tmp_path, caplog):
    for step, decoding in ((0, "compiled"), (4, "torch: CC=none"), (4, "compiled")):
        caplog.clear()
        add_start(
            tmp_path, ["sparring"], after_step=step, invariant=True, decoding=decoding, measured_weights="live weights"
        )
    assert caplog.text == ""
    add_start(tmp_path, ["sparring"], after_step=0, invariant=True, decoding="torch", measured_weights="live weights")
    assert caplog.text == ""


def test_a_run_resumes_without_the_compiler_with_a_warning(tmp_path, monkeypatch, caplog):
    run_cli("train", "kuhn-tiny", *QUICK_OVERRIDES, "--run", tmp_path / "run")
    monkeypatch.setenv("CC", "none")
    run_cli("train", "--run", tmp_path / "run", "--resume", "steps=2")
    assert "computed by 'compiled' up to step 1, and by 'torch: CC=none' from here on" in caplog.text


@pytest.mark.parametrize("text", ["", "[" * 5000, "5", '{"starts": 1}', '{"starts": [1, null]}', "\x00"])
def test_a_damaged_provenance_file_is_replaced(tmp_path, text):
    (tmp_path / PROVENANCE).write_text(text)
    assert starts(tmp_path) == []
    add_start(
        tmp_path,
        ["/somewhere/bin/sparring", "train", "a b"],
        after_step=3,
        invariant=True,
        decoding="torch",
        measured_weights="live weights",
    )
    (start,) = json.loads((tmp_path / PROVENANCE).read_text())["starts"]
    assert (start["command"], start["after_step"]) == ("sparring train 'a b'", 3)


def test_code_outside_of_a_repository_has_no_commit(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "provenance.py"))
    assert provenance.code_commit() is None
