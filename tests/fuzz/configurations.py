"""Random configurations: each must be refused by one clear line, or be planned, written, read back equal and, if small, train a step.

    python tests/fuzz/configurations.py --cases 1000

The seed is the commit's, so every commit tries other cases, and is printed. A case that fails is printed as a command to paste; it then
becomes a fixed test in test_found.py.
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
from sparring.environments.foreign import no_rules
from sparring.play.players.cfr import has_at_most

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.fuzz import cases as making

SECONDS = 60  # of processor time that a case may take; a machine may be slow for a while
MEMORY = 12 << 30  # bytes of address space
LONGEST = 3000  # characters of a message
SMALL = {"games_in_all": 256, "updates": 64, "sampled_tokens_per_step_at_most": 20_000}
PARAMETERS = 300_000
SOLVERS, HISTORIES = ("cfr", "best_response"), 20_000  # what iterates over whole trees, and how large these may be here
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
    """A case takes too long; no code that catches exceptions may catch it."""


def outcome(recipe, overrides, folder, *, train):
    """Return how a case ends ("refused", "planned", "trained"), and raise what should not come out of it."""
    try:
        config = resolve(apply_overrides(load_recipe(recipe), overrides))
        plan = describe(config)
        json.dumps(plan)
        text = to_yaml(config)
        assert resolve(parse_yaml(text, "the configuration")) == config, (
            "what is written is read back as something else"
        )
        small = all(plan[name] <= most for name, most in SMALL.items()) and config.model.layers <= 4
        small = small and plan["model"].get("parameters", 0) <= PARAMETERS and config.learner.ranks <= 2
        if not (train and small and config.model.name == "tiny") or solves_long(config):
            return "planned"
        done = CliRunner().invoke(cli.app, ["train", recipe, *overrides, "--run", str(folder / "run")])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
    except SparringError as error:
        message = str(error)
        assert message and "\n" not in message and len(message) <= LONGEST, (
            f"not one line of at most {LONGEST} characters: {message[:3000]!r}"
        )
        return "refused"
    return "trained"


def solves_long(config):
    """Return whether an agent or oracle of a configuration would solve a game for minutes, as it is asked to."""
    players = [
        *config.evaluation.opponents,
        *config.bots.values(),
        *(game.oracle for game in config.environments if game.oracle is not None),
    ]
    games = map(configured_game, config.environments)
    return any(player.name in SOLVERS for player in players) and not all(
        no_rules(game) or has_at_most(game, HISTORIES) for game in games
    )


@contextlib.contextmanager
def limited(seconds):
    """Raise SlowError when the processor has worked so long for what is within."""

    def stop(*_):
        raise SlowError(f"more than {seconds} s of processor time")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def attempt(case):
    with (
        tempfile.TemporaryDirectory() as folder,
        limited(SECONDS),
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            return outcome(case.recipe, case.overrides, Path(folder), train=case.train), ""
        except (Exception, SlowError) as error:
            return "FAILED", f"{type(error).__name__}: {str(error)[:300]}"


def command(case):
    return " ".join(
        ["sparring train", *map(shlex.quote, [case.recipe, *case.overrides]), "" if case.train else "--dry-run"]
    ).strip()


def commit():
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        here = Path(__file__).parent
        output = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        ).stdout
        return int(output[:12], 16)
    return 20240229


def work(options):
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    began, counts, reasons = time.monotonic(), collections.Counter(), collections.Counter()
    for number in [options.only] if options.only is not None else range(options.first, options.first + options.cases):
        case = making.random_case(options.seed, number, QUICK)
        options.log.write_text(f"case {number}: {command(case)}")
        start = time.monotonic()
        ended, wrong = attempt(case)
        counts[ended] += 1
        if wrong:
            reasons[wrong.partition(":")[0]] += 1
            print(f"FAILED case {number}: {command(case)}\n       {wrong}", flush=True)
        if options.verbose:
            print(f"{number} {ended} {time.monotonic() - start:.1f} s  {command(case)[:300]}", flush=True)
        if options.minutes and time.monotonic() - began > 60 * options.minutes:
            print(f"stopped after {options.minutes} minutes: case {number} was the last")
            break
    print(f"{sum(counts.values())} cases in {time.monotonic() - began:.0f} s: {dict(counts)} {dict(reasons) or ''}")
    return counts["FAILED"]


def main():
    """Read the options, work in a process of its own, and name the case that it died of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="number of the one case to try")
    parser.add_argument("--seed", type=int, help="default: from the commit")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so many; 0: never")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.log is not None:
        return 1 if work(options) else 0
    options.seed = commit() if options.seed is None else options.seed
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "case"
        done = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--seed", str(options.seed), "--log", str(log)], check=False
        )
        if done.returncode not in (0, 1):
            print(
                f"FAILED: the process ended with {done.returncode} at {log.read_text() if log.exists() else 'its start'}"
            )
    return min(abs(done.returncode), 1)


if __name__ == "__main__":
    sys.exit(main())
