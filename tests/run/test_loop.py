"""The loop: bit-equal runs, kills at any write and any instant, stops, and what it records."""

import io
import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from sparring.api import train as train_run
from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.core import files
from sparring.core.errors import RunError
from sparring.core.process import GracefulStop
from sparring.engine.local import LocalEngine, Policy
from sparring.play.store import EpisodeStore
from sparring.report import progress
from sparring.report.episode_record import StoredEpisodes
from sparring.report.progress import ProgressLine
from sparring.report.run_page import write_report
from sparring.run import checkpoint
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import StepReport, train
from sparring.run.warmup import WarmupReport

CONFIG = {
    "name": "test", "steps": 6, "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}], "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 16, "layers": 1, "heads": 2}, "matchmaker": {"name": "mixed", "past": 0.3, "bots": {"random": 0.3}},
    "league": {"every": 2, "keep": 2}, "credit": {"name": "rae"}, "losses": [{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": 0.1}],
    "learner": {"average": 0.9, "minibatches": 2}, "warmup": {"updates": 2, "games": 8},
    "evaluation": {"every": 3, "opponents": [{"name": "random", "games_per_seat": 4}]}, "checkpoint": {"every": 2}, "store": {"every": 1},
}


class Killed(BaseException):
    """What a kill looks like from inside."""


def run(path, *, resume=False, stop=None, watch=None, warming=None, measuring=None, **changes):
    config = resolve({**CONFIG, **changes})
    folder = RunFolder.open(path) if resume and (path / "config.yaml").exists() and (path / "sparring-run.json").exists() else None
    folder = folder or RunFolder.create(path, to_yaml(config), overwrite=path.exists())
    with folder:
        return train(config, LocalEngine(config), folder, resume=resume, stop=stop, watch=watch, warming=warming, measuring=measuring)


def fingerprint(path):
    """Everything a run leaves that must be a function of (config, seed, code)."""
    latest = checkpoint.load_latest(path)
    kept = {file.name: file.read_bytes() for file in sorted(latest.path.iterdir())}
    parts = {file.name: file.read_bytes() for file in sorted((path / "episodes").glob("part-*.parquet"))}
    return (path / "metrics.jsonl").read_bytes(), kept, parts


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "run"
    assert run(path).finished
    return fingerprint(path)


@pytest.mark.always
def test_two_runs_are_bit_equal_and_another_seed_is_not(tmp_path, reference):
    run(tmp_path / "again")
    assert fingerprint(tmp_path / "again") == reference
    run(tmp_path / "other", seed=1)
    assert fingerprint(tmp_path / "other")[0] != reference[0]


def test_the_checkpoint_holds_everything(reference):
    assert set(reference[1]) == {
        "manifest.json", "state.json", "engine.json", "model.safetensors", "average.safetensors", "optimizer.safetensors", "past-000002.safetensors",
        "past-000006.safetensors",
    }


@pytest.mark.always
@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_a_stop_saves_and_going_on_gives_the_same_run(tmp_path, reference, after):
    with GracefulStop() as stop:

        def watch(report):
            stop.requested = report.step == after

        summary = run(tmp_path / "run", stop=stop, watch=watch)
    assert (summary.steps, summary.finished) == (after, False)
    assert run(tmp_path / "run", resume=True).finished
    assert fingerprint(tmp_path / "run") == reference


def test_a_stop_in_the_warm_up_ends_it_and_going_on_gives_the_same_run(tmp_path, reference):
    told = []
    with GracefulStop() as stop:

        def warming(report):
            told.append(report)
            stop.requested = True

        summary = run(tmp_path / "run", stop=stop, warming=warming)
    assert (summary.steps, summary.finished) == (0, False)
    assert [(report.update, report.updates) for report in told] == [(1, 2)] and told[0].loss > 0 and told[0].seconds > 0
    assert run(tmp_path / "run", resume=True).finished
    assert fingerprint(tmp_path / "run") == reference


def test_a_finished_run_resumed_changes_nothing_and_more_steps_go_on(tmp_path, reference):
    run(tmp_path / "run")
    assert run(tmp_path / "run", resume=True).finished
    assert fingerprint(tmp_path / "run")[1:] == reference[1:]
    assert run(tmp_path / "run", resume=True, steps=7).steps == 7


def test_a_damaged_checkpoint_is_passed_over(tmp_path, reference):
    run(tmp_path / "run")
    newest = checkpoint.load_latest(tmp_path / "run").path
    (newest / "model.safetensors").write_bytes(b"damaged")
    notes = []
    run(tmp_path / "run", resume=True, watch=lambda report: notes.extend(report.notes))
    assert "is damaged" in notes[0]
    assert fingerprint(tmp_path / "run") == reference


@pytest.mark.slow
def test_a_kill_at_every_write_gives_the_same_run(tmp_path, monkeypatch, reference, places):
    """Raise at the k-th call that touches the disk, for every k (every fifth in `make check`); then go on to the end."""
    calls = [0, None]

    def patched(function):
        def call(*args, **kwargs):
            calls[0] += 1
            if calls[0] == calls[1]:
                raise Killed
            return function(*args, **kwargs)

        return call

    def attempt(path, at, resume):
        calls[:] = [0, at]
        with monkeypatch.context() as patch:
            for name in ("replace", "rename", "fsync"):
                patch.setattr(os, name, patched(getattr(os, name)))
            patch.setattr(files, "open", patched(open), raising=False)
            try:
                run(path, resume=resume)
            except Killed:
                return False
            return True

    assert attempt(tmp_path / "count", None, False)
    total = calls[0]
    assert total > 60
    for at in places(1, total):
        path = tmp_path / str(at)
        assert not attempt(path, at, False)
        run(path, resume=True)
        assert fingerprint(path) == reference, f"killed at write {at} of {total}"


def child(path):
    run(Path(path), resume=True)


@pytest.mark.slow
def test_kill_nine_at_twenty_random_instants_gives_the_same_run(tmp_path, reference):
    """SIGKILL a real process again and again; every life of it is a resume of the last."""
    fork = multiprocessing.get_context("fork")
    began = time.monotonic()
    process = fork.Process(target=child, args=(str(tmp_path / "whole"),))
    process.start()
    process.join()
    lifetime = time.monotonic() - began
    for number in range(20):
        path = tmp_path / f"killed{number}"
        process = fork.Process(target=child, args=(str(path),))
        process.start()
        time.sleep(lifetime * (number + 0.5) / 20)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        run(path, resume=True)
        assert fingerprint(path) == reference, f"killed after {lifetime * (number + 0.5) / 20:.2f} s"


def stored(path):
    return {str(file.relative_to(path)): file.read_bytes() for name in ("episodes", "credit") for file in (path / name).iterdir()}


def test_old_stored_steps_go_and_the_rest_is_read(tmp_path, reference):
    """Of six steps that keep 3: the two newest, and one before them."""
    assert run(tmp_path / "run", store={"every": 1, "keep": 3}).finished
    names = [f"part-{step:06d}.parquet" for step in (4, 5, 6)]
    assert sorted(stored(tmp_path / "run")) == [f"{folder}/{name}" for folder in ("credit", "episodes") for name in names]
    assert fingerprint(tmp_path / "run")[0] == reference[0]
    assert {name: reference[2][name] for name in names} == fingerprint(tmp_path / "run")[2]
    records = StoredEpisodes(tmp_path / "run")
    assert records.steps == [4, 5, 6]
    with pytest.raises(RunError, match=r"Step 2 .* is not stored. The nearest are 4, 5, 6; store.every sets which steps are stored, and store.keep how many"):
        records.step(2)
    page = write_report(tmp_path / "run").read_text()
    assert "Step 4" in page or "step 4" in page
    with RunFolder.open(tmp_path / "run"):
        EpisodeStore(tmp_path / "run" / "episodes").prune(1, 0)
    assert len(stored(tmp_path / "run")) == 6, "0 keeps all"


@pytest.mark.slow
def test_a_kill_while_old_stored_steps_go_leaves_the_same_run(tmp_path, monkeypatch):
    keep = {"store": {"every": 1, "keep": 2}}
    run(tmp_path / "whole", **keep)
    expected, unlink = stored(tmp_path / "whole"), Path.unlink
    assert len(expected) == 4
    for at in range(1, 9):
        left = iter(range(at - 1, -1, -1))

        def killing(path, *arguments, left=left, **options):
            if path.name.startswith("part-") and next(left, 1) == 0:
                raise Killed
            unlink(path, *arguments, **options)

        monkeypatch.setattr(Path, "unlink", killing)
        with pytest.raises(Killed):
            run(tmp_path / str(at), **keep)
        monkeypatch.setattr(Path, "unlink", unlink)
        assert run(tmp_path / str(at), resume=True, **keep).finished
        assert stored(tmp_path / str(at)) == expected, at


def test_what_is_recorded(tmp_path):
    reports = []
    summary = run(tmp_path / "run", watch=reports.append)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, 7)) == [report.step for report in reports]
    assert "nash_conv/kuhn_poker" in lines[0] and "nash_conv/kuhn_poker" not in lines[1]
    assert all(line["logprob_difference_max"] < 1e-4 for line in lines)
    assert summary.metrics["match/kuhn_poker/random/first/win_or_draw_low"] <= summary.metrics["match/kuhn_poker/random/first/win_or_draw"]
    assert not any("seconds" in key for line in lines for key in line)


def test_a_game_too_large_for_enumeration_is_noted_and_trained_all_the_same(tmp_path):
    reports = []
    run(tmp_path / "run", watch=reports.append, environments=[{"name": "tic_tac_toe"}], evaluation={"every": 3, "max_states": 50}, steps=2)
    assert "tic_tac_toe" in reports[0].notes[0]
    assert not any(key.startswith("nash_conv") for key in reports[0].metrics)


def test_the_progress_line_shows_rate_time_left_and_key_figures(tmp_path):
    stream = io.StringIO()
    with ProgressLine(resolve(CONFIG), tmp_path / "run", stream=stream) as watcher:
        run(tmp_path / "run", watch=watcher)
    text = stream.getvalue()
    assert "games/s" in text and "s left" in text and "NashConv 0." in text and "step 6/6" in text


def test_the_progress_line_says_which_weights_each_figure_is_of(tmp_path):
    """One line holds NashConv of the EMA weights and the legal rate of the live ones: each has its mark."""
    metrics = {"nash_conv/kuhn_poker": 0.376, "legal_rate": 0.997}
    report = StepReport(step=6, steps=6, metrics=metrics, seconds=1.0, games=8)
    lines = {}
    for decay in (0.0, 0.998):
        stream = io.StringIO()
        with ProgressLine(resolve({**CONFIG, "learner": {"average": decay}}), tmp_path / "run", stream=stream) as watcher:
            watcher(report)
        lines[decay] = stream.getvalue()
    assert "NashConv 0.376  legal 0.997" in lines[0.0] and "weights" not in lines[0.0]
    assert "NashConv 0.376 (EMA)  legal 0.997 (live)" in lines[0.998]
    assert "NashConv and matches are of the EMA weights, other figures of the live weights" in lines[0.998]


def test_a_long_warm_up_is_seen(tmp_path, monkeypatch):
    """Updates of 4 seconds: a line where 10 have passed since the last one, with the time left."""
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with ProgressLine(resolve(CONFIG), tmp_path / "run", stream=stream) as watcher:
        for update in range(1, 7):
            now[0] = 4.0 * update
            watcher.on_warmup(WarmupReport(update, 6, 1.5, 4.0))
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("warm-up")]
    assert lines == ["warm-up 3/6  12 s left  loss 1.500", "warm-up 6/6  0 s left  loss 1.500"]


def test_a_long_evaluation_is_seen(tmp_path, monkeypatch):
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with ProgressLine(resolve(CONFIG), tmp_path / "run", stream=stream) as watcher:
        now[0] = 100.0
        watcher.on_evaluation(0, 40)
        for done in (4, 8, 12, 16, 20):
            now[0] += 6.0
            watcher.on_evaluation(done, 40)
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("evaluation")]
    assert lines == ["evaluation, game 8/40  48 s left", "evaluation, game 16/40  36 s left"]


def test_a_run_tells_of_each_evaluation_how_far_it_has_come(tmp_path):
    told = []
    opponents = [{"name": "random", "games_per_seat": 4}, {"name": "scripted", "preference": ["bet"], "games_per_seat": 2}]
    run(tmp_path / "run", steps=2, evaluation={"every": 2, "opponents": opponents}, measuring=lambda done, of: told.append((done, of)))
    assert {of for _, of in told} == {12} and [done for done, _ in told].count(0) == 2  # after steps 1 and 2
    halves = told[: len(told) // 2], told[len(told) // 2 :]
    for half in halves:
        assert [done for done, _ in half] == sorted({done for done, _ in half}) and half[-1][0] == 12 and 8 in [done for done, _ in half]


# --  --

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_interrupts(number, caplog):
    before = signal.getsignal(number)
    with GracefulStop() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        assert f"Stopping after the current step is finished and saved. A second {signal.Signals(number).name} stops at once" in caplog.text
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            signal.pause()
    assert signal.getsignal(number) is before


def test_outside_the_main_thread_it_changes_nothing():
    seen = []
    before = signal.getsignal(signal.SIGINT)

    def work():
        with GracefulStop() as stop:
            seen.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
    assert signal.getsignal(signal.SIGINT) is before


# -- how many games are asked at once changes no byte of a run with one thread --

RECIPES = {
    "kuhn-tiny": ["steps=4", "rollout.games_per_step=48", "learner.minibatches=1"],
    "leduc-tiny": ["steps=3", "rollout.games_per_step=24", "learner.minibatches=1", "rollout.max_new_tokens=3"],
    "tictactoe-tiny": ["steps=2", "rollout.games_per_step=24", "learner.minibatches=1", "league.every=1"],
}


def played(path, recipe, number):
    changes = [*RECIPES[recipe], "threads=1", "evaluation.exact=false", "store.every=1", f"rollout.in_flight={number}"]
    config = resolve(apply_overrides(load_recipe(recipe), changes))
    with RunFolder.create(path, to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    stored = {file.name: file.read_bytes() for name in ("episodes", "credit") for file in (path / name).iterdir()}
    weights = checkpoint.load_latest(path).path / "model.safetensors"
    return stored, (path / "metrics.jsonl").read_bytes(), weights.read_bytes()


@pytest.mark.parametrize("recipe", RECIPES)
def test_how_many_games_are_in_flight_changes_no_byte(tmp_path, recipe):
    few, many = (played(tmp_path / str(number), recipe, number) for number in (7, 4096))
    assert few == many
    assert len(few[0]) > 1


# -- the policy that a run compares with is the one before its first step: what the warm-up has left, if there is one --

RUN = {
    "steps": 3, "threads": 1, "seed": 5, "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}], "rollout": {"games_per_step": 16},
    "losses": [{"name": "ppo_clip"}, {"name": "kl_penalty", "estimator": "k2", "weight": 0.1}], "learner": {"learning_rate": 0.02},
    "evaluation": {"exact": False},
}
SMALL = {"hidden_size": 16, "layers": 1}


def divergences(folder, **changes):
    train_run({**RUN, "model": SMALL, **changes}, run=folder)
    return [json.loads(line)["kl_penalty/kl"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("adapted", [False, True], ids=["weights", "adapters"])
@pytest.mark.parametrize("updates", [0, 4])
def test_a_run_begins_at_its_reference(updates, adapted, tiny_folder, tmp_path):
    model = {"name": str(tiny_folder), "device": "cpu", "lora": {"rank": 2}} if adapted else SMALL
    first, *later = divergences(tmp_path / "run", model=model, renderer={"name": "plain"}, warmup={"updates": updates, "games": 8})
    assert first == pytest.approx(0.0, abs=1e-9) and min(later) > 1e-6


def test_the_reference_is_kept_only_where_it_cannot_be_made_anew(tmp_path):
    for updates in (0, 2):
        divergences(tmp_path / f"{updates}", warmup={"updates": updates, "games": 8})
        assert (RunFolder.open(tmp_path / f"{updates}").checkpoint().path / "reference.safetensors").exists() == bool(updates)


def test_a_checkpoint_of_before_goes_on_with_what_its_run_was_made_from(tmp_path, monkeypatch):
    warmed = {"warmup": {"updates": 2, "games": 8}}
    with monkeypatch.context() as before:
        before.setattr(Policy, "kept", property(lambda own: []))
        divergences(tmp_path / "run", steps=2, **warmed)
    train_run({**RUN, "model": SMALL, **warmed}, run=tmp_path / "run", resume=True)
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["kl_penalty/kl"] > divergences(tmp_path / "other", **warmed)[-1]  # farther from what was random
