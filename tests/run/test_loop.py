"""The training loop: bit-equal runs, kills, stops, stored records, progress, and the reference policy."""

import io
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from sparring.api import train as train_run
from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import RunError
from sparring.core.process import GracefulStop
from sparring.engine.local import Policy
from sparring.play.store import EpisodeStore
from sparring.report import progress
from sparring.report.episode_record import StoredEpisodes
from sparring.report.progress import ProgressLine
from sparring.report.run_page import write_report
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import StepReport
from sparring.run.warmup import WarmupReport
from tests.run.builders import KillSignal, fingerprint, train_in

CONFIG = {
    "name": "test",
    "steps": 6,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}],
    "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 16, "layers": 1, "heads": 2},
    "matchmaker": {"name": "mixed", "past": 0.3, "bots": {"random": 0.3}},
    "league": {"every": 2, "keep": 2},
    "credit": {"name": "rae"},
    "losses": [{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": 0.1}],
    "learner": {"average": 0.9, "minibatches": 2},
    "warmup": {"updates": 2, "games": 8},
    "evaluation": {"every": 3, "opponents": [{"name": "random", "games_per_seat": 4}]},
    "checkpoint": {"every": 2},
    "store": {"every": 1},
}


def run(path, *, resume=False, stop=None, watch=None, warming=None, measuring=None, **changes):
    hooks = {"stop": stop, "watch": watch, "warming": warming, "measuring": measuring}
    return train_in(path, resolve({**CONFIG, **changes}), resume=resume, **hooks)


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
        "manifest.json",
        "state.json",
        "engine.json",
        "model.safetensors",
        "average.safetensors",
        "optimizer.safetensors",
        "past-000002.safetensors",
        "past-000006.safetensors",
    }


@pytest.mark.always
@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_a_stopped_and_resumed_run_is_the_same(tmp_path, reference, after):
    with GracefulStop() as stop:

        def watch(report):
            stop.requested = report.step == after

        summary = run(tmp_path / "run", stop=stop, watch=watch)
    assert (summary.steps, summary.finished) == (after, False)
    assert run(tmp_path / "run", resume=True).finished
    assert fingerprint(tmp_path / "run") == reference


def test_a_run_stopped_in_the_warm_up_resumes_to_the_same_run(tmp_path, reference):
    reports = []
    with GracefulStop() as stop:

        def warming(report):
            reports.append(report)
            stop.requested = True

        summary = run(tmp_path / "run", stop=stop, warming=warming)
    assert (summary.steps, summary.finished) == (0, False)
    assert (
        [(report.update, report.updates) for report in reports] == [(1, 2)]
        and reports[0].loss > 0
        and reports[0].seconds > 0
    )
    assert run(tmp_path / "run", resume=True).finished
    assert fingerprint(tmp_path / "run") == reference


def test_resuming_a_finished_run_changes_nothing_unless_steps_are_added(tmp_path, reference):
    run(tmp_path / "run")
    assert run(tmp_path / "run", resume=True).finished
    assert fingerprint(tmp_path / "run")[1:] == reference[1:]
    assert run(tmp_path / "run", resume=True, steps=7).steps == 7


def test_old_stored_steps_are_removed_and_others_are_read(tmp_path, reference):
    assert run(tmp_path / "run", store={"every": 1, "keep": 3}).finished
    names = [f"{folder}/part-{step:06d}.parquet" for folder in ("credit", "episodes") for step in (4, 5, 6)]
    assert fingerprint(tmp_path / "run")[0] == reference[0]
    assert {name: reference[2][name] for name in names} == fingerprint(tmp_path / "run")[2]
    records = StoredEpisodes(tmp_path / "run")
    assert records.steps == [4, 5, 6]
    with pytest.raises(
        RunError,
        match=r"Step 2 .* is not stored. The nearest are 4, 5, 6; store.every sets which steps are stored, and store.keep how many",
    ):
        records.step(2)
    page = write_report(tmp_path / "run").read_text()
    assert "Step 4" in page or "step 4" in page
    with RunFolder.open(tmp_path / "run"):
        EpisodeStore(tmp_path / "run" / "episodes").prune(1, 0)
    assert len(fingerprint(tmp_path / "run")[2]) == 6, "0 keeps all"


@pytest.mark.slow
def test_a_kill_while_old_steps_are_removed_changes_nothing(tmp_path, monkeypatch):
    keep = {"store": {"every": 1, "keep": 2}}
    run(tmp_path / "whole", **keep)
    expected, unlink = fingerprint(tmp_path / "whole")[2], Path.unlink
    assert len(expected) == 4
    for at in range(1, 9):
        countdown = iter(range(at - 1, -1, -1))

        def killing(path, *arguments, remaining=countdown, **options):
            if path.name.startswith("part-") and next(remaining, 1) == 0:
                raise KillSignal
            unlink(path, *arguments, **options)

        monkeypatch.setattr(Path, "unlink", killing)
        with pytest.raises(KillSignal):
            run(tmp_path / str(at), **keep)
        monkeypatch.setattr(Path, "unlink", unlink)
        assert run(tmp_path / str(at), resume=True, **keep).finished
        assert fingerprint(tmp_path / str(at))[2] == expected, at


def test_the_stored_metrics_and_reports_of_a_run(tmp_path):
    reports = []
    summary = run(tmp_path / "run", watch=reports.append)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, 7)) == [report.step for report in reports]
    assert "nash_conv/kuhn_poker" in lines[0] and "nash_conv/kuhn_poker" not in lines[1]
    assert all(line["logprob_difference_max"] < 1e-4 for line in lines)
    assert (
        summary.metrics["match/kuhn_poker/random/first/win_or_draw_low"]
        <= summary.metrics["match/kuhn_poker/random/first/win_or_draw"]
    )
    assert not any("seconds" in key for line in lines for key in line)


def test_the_progress_line_shows_rate_time_left_and_key_figures(tmp_path):
    stream = io.StringIO()
    with ProgressLine(resolve(CONFIG), tmp_path / "run", stream=stream) as watcher:
        run(tmp_path / "run", watch=watcher)
    text = stream.getvalue()
    assert "games/s" in text and "s left" in text and "NashConv 0." in text and "step 6/6" in text


def test_the_progress_line_names_the_weights_of_each_metric(tmp_path):
    metrics = {"nash_conv/kuhn_poker": 0.376, "legal_rate": 0.997}
    report = StepReport(step=6, steps=6, metrics=metrics, seconds=1.0, games=8)
    lines = {}
    for decay in (0.0, 0.998):
        stream = io.StringIO()
        with ProgressLine(
            resolve({**CONFIG, "learner": {"average": decay}}), tmp_path / "run", stream=stream
        ) as watcher:
            watcher(report)
        lines[decay] = stream.getvalue()
    assert "NashConv 0.376  legal 0.997" in lines[0.0] and "weights" not in lines[0.0]
    assert "NashConv 0.376 (EMA)  legal 0.997 (live)" in lines[0.998]
    assert "NashConv and matches measure the EMA weights, other figures the live weights" in lines[0.998]


def test_progress_of_a_long_warm_up_and_evaluation_is_printed(tmp_path, monkeypatch):
    """A line is printed if 10 seconds have passed since the last one, with the remaining time."""
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with ProgressLine(resolve(CONFIG), tmp_path / "run", stream=stream) as watcher:
        for update in range(1, 7):
            now[0] = 4.0 * update
            watcher.on_warmup(WarmupReport(update, 6, 1.5, 4.0))
        now[0] = 100.0
        watcher.on_evaluation(0, 40)
        for num_done in (4, 8, 12, 16, 20):
            now[0] += 6.0
            watcher.on_evaluation(num_done, 40)
    lines = [line for line in stream.getvalue().splitlines() if line.startswith(("warm-up", "evaluation"))]
    assert lines[:2] == ["warm-up 3/6  12 s left  loss 1.500", "warm-up 6/6  0 s left  loss 1.500"]
    assert lines[2:] == ["evaluation, game 8/40  48 s left", "evaluation, game 16/40  36 s left"]


def test_a_run_reports_the_progress_of_each_evaluation(tmp_path):
    progress_calls = []
    opponents = [
        {"name": "random", "games_per_seat": 4},
        {"name": "scripted", "preference": ["bet"], "games_per_seat": 2},
    ]
    run(
        tmp_path / "run",
        steps=2,
        evaluation={"every": 2, "opponents": opponents},
        measuring=lambda done, of: progress_calls.append((done, of)),
    )
    assert {total for _, total in progress_calls} == {12} and [num_done for num_done, _ in progress_calls].count(
        0
    ) == 2  # after steps 1 and 2
    halves = progress_calls[: len(progress_calls) // 2], progress_calls[len(progress_calls) // 2 :]
    for half in halves:
        assert (
            [num_done for num_done, _ in half] == sorted({num_done for num_done, _ in half})
            and half[-1][0] == 12
            and 8 in [num_done for num_done, _ in half]
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_requests_a_stop_and_the_second_interrupts(number, caplog):
    handler_before = signal.getsignal(number)
    with GracefulStop() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        assert (
            f"Stopping after the current step is finished and saved. A second {signal.Signals(number).name} stops at once"
            in caplog.text
        )
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            signal.pause()
    assert signal.getsignal(number) is handler_before


def test_outside_the_main_thread_no_signal_handler_is_set():
    requested = []
    handler_before = signal.getsignal(signal.SIGINT)

    def work():
        with GracefulStop() as stop:
            requested.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert requested == [False]
    assert signal.getsignal(signal.SIGINT) is handler_before


# how many games are asked at once changes no byte of a run with one thread
RECIPES = {
    "kuhn-tiny": ["steps=4", "rollout.games_per_step=48", "learner.minibatches=1"],
    "leduc-tiny": ["steps=3", "rollout.games_per_step=24", "learner.minibatches=1", "rollout.max_new_tokens=3"],
    "tictactoe-tiny": ["steps=2", "rollout.games_per_step=24", "learner.minibatches=1", "league.every=1"],
}


def played(path, recipe, number):
    changes = [*RECIPES[recipe], "threads=1", "evaluation.exact=false", "store.every=1", f"rollout.in_flight={number}"]
    config = resolve(apply_overrides(load_recipe(recipe), changes))
    train_in(path, config)
    return fingerprint(path)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_number_of_games_in_flight_changes_no_byte(tmp_path, recipe):
    few_in_flight, many_in_flight = (played(tmp_path / str(number), recipe, number) for number in (7, 4096))
    assert (few_in_flight[0], few_in_flight[1]["model.safetensors"], few_in_flight[2]) == (
        many_in_flight[0],
        many_in_flight[1]["model.safetensors"],
        many_in_flight[2],
    )
    assert len(few_in_flight[2]) > 1


# the policy that a run compares with is the one before its first step: what the warm-up has left, if there is one
RUN = {
    "steps": 3,
    "threads": 1,
    "seed": 5,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 16},
    "losses": [{"name": "ppo_clip"}, {"name": "kl_penalty", "estimator": "k2", "weight": 0.1}],
    "learner": {"learning_rate": 0.02},
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
    first_divergence, *later_divergences = divergences(
        tmp_path / "run", model=model, renderer={"name": "plain"}, warmup={"updates": updates, "games": 8}
    )
    assert first_divergence == pytest.approx(0.0, abs=1e-9) and min(later_divergences) > 1e-6


def test_the_reference_is_saved_only_if_it_cannot_be_recomputed(tmp_path):
    for updates in (0, 2):
        divergences(tmp_path / f"{updates}", warmup={"updates": updates, "games": 8})
        assert (RunFolder.open(tmp_path / f"{updates}").checkpoint().path / "reference.safetensors").exists() == bool(
            updates
        )


def test_an_old_checkpoint_resumes_with_the_initial_model_as_reference(tmp_path, monkeypatch):
    warmed = {"warmup": {"updates": 2, "games": 8}}
    with monkeypatch.context() as handler_before:
        handler_before.setattr(Policy, "saved_snapshots", property(lambda policy: []))
        divergences(tmp_path / "run", steps=2, **warmed)
    train_run({**RUN, "model": SMALL, **warmed}, run=tmp_path / "run", resume=True)
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["kl_penalty/kl"] > divergences(tmp_path / "other", **warmed)[-1]  # farther from what was random
