"""Try random configurations: each is refused with one line, or is planned, read back equal and, if small, trains a step.

    python tests/fuzz/configurations.py --cases 1000

The seed is made from the commit, so that every commit tries other cases. The seed is printed. A case that fails is printed as a
command to paste; afterwards it becomes a fixed test in test_found.py.
"""

import argparse
import collections
import contextlib
import faulthandler
import io
import json
import logging
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from typer.testing import CliRunner

from sparring import cli
from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.config.yaml_text import parse_yaml
from sparring.core.errors import SparringError
from sparring.engine.plan import describe
from sparring.environments.catalogue import configured_game
from sparring.environments.foreign import reason_not_searchable
from sparring.play.players.cfr import has_at_most_histories

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.fuzz import cases

CASE_SECONDS = 60  # processor time that a case may take
MAX_MEMORY_BYTES = 12 << 30  # bytes of address space of the process
MAX_ERROR_CHARACTERS = 3000  # characters of an error
SMALL_LIMITS = {"games_in_all": 256, "updates": 64, "sampled_tokens_per_step_at_most": 20_000}
MAX_PARAMETERS = 300_000
SOLVERS, MAX_HISTORIES = ("cfr", "best_response"), 20_000  # players that search whole trees; largest tree
QUICK = (
    "threads=1",
    "steps=1",
    "rollout.games_per_step=8",
    "rollout.in_flight=8",
    "model.hidden_size=16",
    "model.layers=1",
)
QUICK += (
    "model.heads=2",
    "evaluation.every=9",
    "evaluation.exact=false",
    "evaluation.opponents=[]",
    "warmup.updates=0",
)


class SlowError(BaseException):
    """A case takes too long; this is not an Exception, so that the code under test cannot catch it."""


def run_case(recipe, overrides, folder, *, train):
    """Return how a case ends ("refused", "planned" or "trained"); raise any unexpected error."""
    try:
        config = resolve(apply_overrides(load_recipe(recipe), overrides))
        plan = describe(config)
        json.dumps(plan)
        text = to_yaml(config)
        assert resolve(parse_yaml(text, "the configuration")) == config, (
            "the written configuration is read back as another one"
        )
        is_small = all(plan[name] <= limit for name, limit in SMALL_LIMITS.items()) and config.model.layers <= 4
        is_small = is_small and plan["model"].get("parameters", 0) <= MAX_PARAMETERS and config.learner.ranks <= 2
        if not (train and is_small and config.model.name == "tiny") or searches_for_minutes(config):
            return "planned"
        result = CliRunner().invoke(cli.app, ["train", recipe, *overrides, "--run", str(folder / "run")])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
    except SparringError as error:
        message = str(error)
        assert message and "\n" not in message and len(message) <= MAX_ERROR_CHARACTERS, (
            f"not one line of at most {MAX_ERROR_CHARACTERS} characters: {message[:3000]!r}"
        )
        return "refused"
    return "trained"


def searches_for_minutes(config):
    """Return whether a bot or oracle of the configuration would search a game for minutes."""
    players = [
        *config.evaluation.opponents,
        *config.bots.values(),
        *(game.oracle for game in config.environments if game.oracle is not None),
    ]
    games = map(configured_game, config.environments)
    return any(player.name in SOLVERS for player in players) and not all(
        reason_not_searchable(game) or has_at_most_histories(game, MAX_HISTORIES) for game in games
    )


@contextlib.contextmanager
def time_limit(seconds):
    """Raise SlowError after this much processor time within the context."""

    def raise_slow_error(*_):
        raise SlowError(f"more than {seconds} s of processor time")

    signal.signal(signal.SIGPROF, raise_slow_error)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def try_case(case):
    with (
        tempfile.TemporaryDirectory() as folder,
        time_limit(CASE_SECONDS),
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            return run_case(case.recipe, case.overrides, Path(folder), train=case.train), ""
        except (Exception, SlowError) as error:
            return "FAILED", f"{type(error).__name__}: {str(error)[:300]}"


def format_command(case):
    return " ".join(
        ["sparring train", *map(shlex.quote, [case.recipe, *case.overrides]), "" if case.train else "--dry-run"]
    ).strip()


def seed_of_commit():
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        folder = Path(__file__).parent
        output = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        return int(output[:12], 16)
    return 20240229


def run_cases(options):
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    start_time, counts, reasons = time.monotonic(), collections.Counter(), collections.Counter()
    for number in [options.only] if options.only is not None else range(options.first, options.first + options.cases):
        case = cases.random_case(options.seed, number, QUICK)
        options.log.write_text(f"case {number}: {format_command(case)}")
        case_start = time.monotonic()
        ending, error = try_case(case)
        counts[ending] += 1
        if error:
            reasons[error.partition(":")[0]] += 1
            print(f"FAILED case {number}: {format_command(case)}\n       {error}", flush=True)
        if options.verbose:
            print(f"{number} {ending} {time.monotonic() - case_start:.1f} s  {format_command(case)[:300]}", flush=True)
        if options.minutes and time.monotonic() - start_time > 60 * options.minutes:
            print(f"stopped after {options.minutes} minutes: case {number} was the last")
            break
    print(
        f"{sum(counts.values())} cases in {time.monotonic() - start_time:.0f} s: {dict(counts)} {dict(reasons) or ''}"
    )
    return counts["FAILED"]


def main():
    """Read the options, run the cases in a second process, and name the case at which it dies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="number of a single case to try")
    parser.add_argument("--seed", type=int, help="default: from the commit")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this many minutes; 0: never")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.log is not None:
        return 1 if run_cases(options) else 0
    options.seed = seed_of_commit() if options.seed is None else options.seed
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "case"
        process = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--seed", str(options.seed), "--log", str(log)], check=False
        )
        if process.returncode not in (0, 1):
            print(
                f"FAILED: the process ended with {process.returncode} at {log.read_text() if log.exists() else 'its start'}"
            )
    return min(abs(process.returncode), 1)


if __name__ == "__main__":
    sys.exit(main())
