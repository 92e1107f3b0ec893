"""The training loop: runs with equal bytes, kills, interruptions, stored records, progress, the reference policy."""

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


def train_run_in(path, *, resume=False, stop=None, watch=None, on_warmup=None, on_evaluation=None, **changes):
    hooks = {"stop": stop, "watch": watch, "on_warmup": on_warmup, "on_evaluation": on_evaluation}
    return train_in(path, resolve({**CONFIG, **changes}), resume=resume, **hooks)


@pytest.fixture(scope="module")
def reference_files(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "run"
    assert train_run_in(path).finished
    return fingerprint(path)


@pytest.mark.always
def test_two_runs_have_equal_bytes_and_another_seed_has_not(tmp_path, reference_files):
    train_run_in(tmp_path / "again")
    assert fingerprint(tmp_path / "again") == reference_files
    train_run_in(tmp_path / "other", seed=1)
    assert fingerprint(tmp_path / "other")[0] != reference_files[0]


def test_a_run_resumed_from_a_checkpoint_has_the_complete_state(reference_files):
    assert set(reference_files[1]) == {
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
@pytest.mark.parametrize("last_step", [1, 2, 3, 5])
def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(tmp_path, reference_files, last_step):
    with GracefulStop() as stop:

        def watch(report):
            stop.requested = report.step == last_step

        summary = train_run_in(tmp_path / "run", stop=stop, watch=watch)
    assert (summary.steps, summary.finished) == (last_step, False)
    assert train_run_in(tmp_path / "run", resume=True).finished
    assert fingerprint(tmp_path / "run") == reference_files


def test_a_run_stopped_in_the_warm_up_resumes_to_the_same_run(tmp_path, reference_files):
    reports = []
    with GracefulStop() as stop:

        def stop_at_first_update(report):
            reports.append(report)
            stop.requested = True

        summary = train_run_in(tmp_path / "run", stop=stop, on_warmup=stop_at_first_update)
    assert (summary.steps, summary.finished) == (0, False)
    assert (
        [(report.update, report.updates) for report in reports] == [(1, 2)]
        and reports[0].loss > 0
        and reports[0].seconds > 0
    )
    assert train_run_in(tmp_path / "run", resume=True).finished
    assert fingerprint(tmp_path / "run") == reference_files


def test_resuming_a_finished_run_changes_nothing_unless_steps_are_added(tmp_path, reference_files):
    train_run_in(tmp_path / "run")
    assert train_run_in(tmp_path / "run", resume=True).finished
    assert fingerprint(tmp_path / "run")[1:] == reference_files[1:]
    assert train_run_in(tmp_path / "run", resume=True, steps=7).steps == 7


def test_old_stored_steps_are_removed_and_others_are_read(tmp_path, reference_files):
    assert train_run_in(tmp_path / "run", store={"every": 1, "keep": 3}).finished
    names = [f"{folder}/part-{step:06d}.parquet" for folder in ("credit", "episodes") for step in (4, 5, 6)]
    assert fingerprint(tmp_path / "run")[0] == reference_files[0]
    assert {name: reference_files[2][name] for name in names} == fingerprint(tmp_path / "run")[2]
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
    assert len(fingerprint(tmp_path / "run")[2]) == 6, "keep=0 keeps all steps"


@pytest.mark.slow
def test_a_kill_while_old_steps_are_removed_changes_nothing(tmp_path, monkeypatch):
    store_options = {"store": {"every": 1, "keep": 2}}
    train_run_in(tmp_path / "whole", **store_options)
    expected, unlink = fingerprint(tmp_path / "whole")[2], Path.unlink
    assert len(expected) == 4
    for removal_number in range(1, 9):
        remaining_removals = iter(range(removal_number - 1, -1, -1))

        def remove_or_kill(path, *arguments, removals_left=remaining_removals, **options):
            if path.name.startswith("part-") and next(removals_left, 1) == 0:
                raise KillSignal
            unlink(path, *arguments, **options)

        monkeypatch.setattr(Path, "unlink", remove_or_kill)
        with pytest.raises(KillSignal):
            train_run_in(tmp_path / str(removal_number), **store_options)
        monkeypatch.setattr(Path, "unlink", unlink)
        assert train_run_in(tmp_path / str(removal_number), resume=True, **store_options).finished
        assert fingerprint(tmp_path / str(removal_number))[2] == expected, removal_number


def test_the_stored_metrics_and_reports_of_a_run(tmp_path):
    reports = []
    summary = train_run_in(tmp_path / "run", watch=reports.append)
    rows = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 7)) == [report.step for report in reports]
    assert "nash_conv/kuhn_poker" in rows[0] and "nash_conv/kuhn_poker" not in rows[1]
    assert all(row["logprob_difference_max"] < 1e-4 for row in rows)
    assert (
        summary.metrics["match/kuhn_poker/random/first/win_or_draw_low"]
        <= summary.metrics["match/kuhn_poker/random/first/win_or_draw"]
    )
    assert not any("seconds" in key for row in rows for key in row)


def test_the_progress_line_shows_rate_time_left_and_key_figures(tmp_path):
    stream = io.StringIO()
    with ProgressLine(resolve(CONFIG), tmp_path / "run", stream=stream) as progress_line:
        train_run_in(tmp_path / "run", watch=progress_line)
    text = stream.getvalue()
    assert "games/s" in text and "s left" in text and "NashConv 0." in text and "step 6/6" in text


def test_the_progress_line_names_the_weights_of_each_metric(tmp_path):
    metrics = {"nash_conv/kuhn_poker": 0.376, "legal_rate": 0.997}
    report = StepReport(step=6, steps=6, metrics=metrics, seconds=1.0, games=8)
    text_by_decay = {}
    for decay in (0.0, 0.998):
        stream = io.StringIO()
        with ProgressLine(
            resolve({**CONFIG, "learner": {"average": decay}}), tmp_path / "run", stream=stream
        ) as progress_line:
            progress_line(report)
        text_by_decay[decay] = stream.getvalue()
    assert "NashConv 0.376  legal 0.997" in text_by_decay[0.0] and "weights" not in text_by_decay[0.0]
    assert "NashConv 0.376 (EMA)  legal 0.997 (live)" in text_by_decay[0.998]
    assert "NashConv and matches measure the EMA weights, other figures the live weights" in text_by_decay[0.998]


def test_progress_of_a_long_warm_up_and_evaluation_is_printed(tmp_path, monkeypatch):
    """A line is printed if 10 seconds have passed since the last one, with the remaining time."""
    stream, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with ProgressLine(resolve(CONFIG), tmp_path / "run", stream=stream) as progress_line:
        for update in range(1, 7):
            clock[0] = 4.0 * update
            progress_line.on_warmup(WarmupReport(update, 6, 1.5, 4.0))
        clock[0] = 100.0
        progress_line.on_evaluation(0, 40)
        for num_done in (4, 8, 12, 16, 20):
            clock[0] += 6.0
            progress_line.on_evaluation(num_done, 40)
    lines = [line for line in stream.getvalue().splitlines() if line.startswith(("warm-up", "evaluation"))]
    assert lines[:2] == ["warm-up 3/6  12 s left  loss 1.500", "warm-up 6/6  0 s left  loss 1.500"]
    assert lines[2:] == ["evaluation, game 8/40  48 s left", "evaluation, game 16/40  36 s left"]


def test_a_run_reports_the_progress_of_each_evaluation(tmp_path):
    progress_calls = []
    opponents = [
        {"name": "random", "games_per_seat": 4},
        {"name": "scripted", "preference": ["bet"], "games_per_seat": 2},
    ]
    train_run_in(
        tmp_path / "run",
        steps=2,
        evaluation={"every": 2, "opponents": opponents},
        on_evaluation=lambda done, num_games: progress_calls.append((done, num_games)),
    )
    assert {num_games for _, num_games in progress_calls} == {12} and [
        num_done for num_done, _ in progress_calls
    ].count(0) == 2  # after steps 1 and 2
    calls_by_evaluation = progress_calls[: len(progress_calls) // 2], progress_calls[len(progress_calls) // 2 :]
    for calls in calls_by_evaluation:
        assert (
            [num_done for num_done, _ in calls] == sorted({num_done for num_done, _ in calls})
            and calls[-1][0] == 12
            and 8 in [num_done for num_done, _ in calls]
        )


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_requests_a_stop_and_the_second_interrupts(signal_number, caplog):
    handler_before = signal.getsignal(signal_number)
    with GracefulStop() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal_number)
        assert stop.requested
        assert (
            f"Stopping after the current step is finished and saved. A second {signal.Signals(signal_number).name} stops at once"
            in caplog.text
        )
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal_number)
            signal.pause()
    assert signal.getsignal(signal_number) is handler_before


def test_outside_the_main_thread_no_signal_handler_is_set():
    requested = []
    handler_before = signal.getsignal(signal.SIGINT)

    def request_stop():
        with GracefulStop() as stop:
            requested.append(stop.requested)

    thread = threading.Thread(target=request_stop)
    thread.start()
    thread.join()
    assert requested == [False]
    assert signal.getsignal(signal.SIGINT) is handler_before


# The number of episodes in flight changes no byte of a run with one thread.
OVERRIDES_BY_RECIPE = {
    "kuhn-tiny": ["steps=4", "rollout.games_per_step=48", "learner.minibatches=1"],
    "leduc-tiny": ["steps=3", "rollout.games_per_step=24", "learner.minibatches=1", "rollout.max_new_tokens=3"],
    "tictactoe-tiny": ["steps=2", "rollout.games_per_step=24", "learner.minibatches=1", "league.every=1"],
}


def files_of_run(path, recipe, num_in_flight):
    overrides = [
        *OVERRIDES_BY_RECIPE[recipe],
        "threads=1",
        "evaluation.exact=false",
        "store.every=1",
        f"rollout.in_flight={num_in_flight}",
    ]
    config = resolve(apply_overrides(load_recipe(recipe), overrides))
    train_in(path, config)
    return fingerprint(path)


@pytest.mark.parametrize("recipe", OVERRIDES_BY_RECIPE)
def test_the_number_of_games_in_flight_changes_no_byte(tmp_path, recipe):
    few_files, many_files = (
        files_of_run(tmp_path / str(num_in_flight), recipe, num_in_flight) for num_in_flight in (7, 4096)
    )
    assert (few_files[0], few_files[1]["model.safetensors"], few_files[2]) == (
        many_files[0],
        many_files[1]["model.safetensors"],
        many_files[2],
    )
    assert len(few_files[2]) > 1


# The reference policy of a run is the policy before its first step, after the warm-up if there is one.
WITH_KL_PENALTY = {
    "steps": 3,
    "threads": 1,
    "seed": 5,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 16},
    "losses": [{"name": "ppo_clip"}, {"name": "kl_penalty", "estimator": "k2", "weight": 0.1}],
    "learner": {"learning_rate": 0.02},
    "evaluation": {"exact": False},
}
SMALL_MODEL = {"hidden_size": 16, "layers": 1}


def divergences_of_run(folder, **changes):
    train_run({**WITH_KL_PENALTY, "model": SMALL_MODEL, **changes}, run=folder)
    return [json.loads(line)["kl_penalty/kl"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("has_adapters", [False, True], ids=["weights", "adapters"])
@pytest.mark.parametrize("updates", [0, 4])
def test_a_run_begins_at_its_reference(updates, has_adapters, tiny_folder, tmp_path):
    model = {"name": str(tiny_folder), "device": "cpu", "lora": {"rank": 2}} if has_adapters else SMALL_MODEL
    first_divergence, *later_divergences = divergences_of_run(
        tmp_path / "run", model=model, renderer={"name": "plain"}, warmup={"updates": updates, "games": 8}
    )
    assert first_divergence == pytest.approx(0.0, abs=1e-9) and min(later_divergences) > 1e-6


def test_the_reference_is_saved_only_if_it_cannot_be_recomputed(tmp_path):
    for updates in (0, 2):
        divergences_of_run(tmp_path / f"{updates}", warmup={"updates": updates, "games": 8})
        assert (RunFolder.open(tmp_path / f"{updates}").checkpoint().path / "reference.safetensors").exists() == bool(
            updates
        )


def test_an_old_checkpoint_resumes_with_the_initial_model_as_reference(tmp_path, monkeypatch):
    with_warmup = {"warmup": {"updates": 2, "games": 8}}
    with monkeypatch.context() as patch:
        patch.setattr(Policy, "saved_snapshots", property(lambda policy: []))
        divergences_of_run(tmp_path / "run", steps=2, **with_warmup)
    train_run({**WITH_KL_PENALTY, "model": SMALL_MODEL, **with_warmup}, run=tmp_path / "run", resume=True)
    last_metrics = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert (
        last_metrics["kl_penalty/kl"] > divergences_of_run(tmp_path / "other", **with_warmup)[-1]
    )  # the reference is the random initial model, so the divergence is larger
