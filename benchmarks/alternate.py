"""The speed of a step in two checkouts, which are timed alternately in one run.

    git worktree add --detach ../before COMMIT
    python benchmarks/alternate.py ../before .

For each case one process of each checkout stays alive, and the two are timed alternately, so that
other work on the machine slows both. The script prints the median of the ratios second / first,
all ratios, and the median times. Below 1 the second checkout is faster.

Cases: `step MODEL TOKENS`, one step of training_step.py; `round RECIPE [OVERRIDES]`, one round of a
recipe's loop as in efficiency.py, after 20 other rounds; `play RECIPE [OVERRIDES]`, only the
episodes of such a round. A recipe of a pretrained model (its name ends in -smol) is timed after one
round. Both checkouts need the same packages.
"""

import argparse
import contextlib
import importlib
import inspect
import statistics
import subprocess
import sys
from pathlib import Path

MIRROR = "matchmaker={name: mirror}"
CASES = (
    *(f"step|{size}|{tokens}" for size in ("GPT-2 94k", "Qwen3 94k") for tokens in (32, 4)),
    *(f"step|{size}|32" for size in ("GPT-2 2.4M", "Qwen3 2.4M")),
    *("round|kuhn-tiny", "round|leduc-tiny", f"round|tictactoe-tiny|{MIRROR}"),
    f"round|tictactoe-tiny|{MIRROR}|model.hidden_size=256",
    *(f"play|{recipe}" for recipe in ("kuhn-tiny", "leduc-tiny", "mars/kuhn-smol")),
    f"play|tictactoe-tiny|{MIRROR}",
)
WARM_UP_ROUNDS, TIMED_ROUNDS = 20, 15


def one_step(size, tokens):
    """Return a function that runs a complete GRPO step of this checkout."""
    import training_step

    return training_step.our_step(training_step.build(size), int(tokens))


def import_config_module(name):
    """Import a module of this checkout: of the package, or of ``config`` from version 0.3 on."""
    for package in ("sparring", "sparring.config"):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(f"{package}.{name}")
    raise ModuleNotFoundError(f"This checkout has no module {name!r} where one is looked for.")


def one_round(recipe, *overrides):
    """Return a function that runs one round of a recipe with the interface of this checkout."""
    import efficiency

    recipes = import_config_module("recipe")
    changes = ["learner.minibatches=1", *overrides]
    overrides_applied = recipes.apply_overrides(recipes.load_recipe(recipe), changes)
    config = efficiency.resolve(overrides_applied)
    engine, methods = efficiency.LocalEngine(config), efficiency.Methods.of(config)
    has_step_argument = (
        "step" in inspect.signature(efficiency.play_round).parameters
    )  # before RunState
    state, count = {} if has_step_argument else efficiency.RunState(), 0

    def work():
        nonlocal state, count
        if has_step_argument:
            outcome = efficiency.play_round(config, engine, methods, count, state)
            state = outcome.credit_state
        else:
            outcome = efficiency.play_round(config, engine, methods, state)
            state = outcome.state
        count += 1
        return outcome.timing["seconds/play"]

    return work


def serve(folder, threads, case):
    """For each line of standard input, time a case of a checkout and print the median seconds."""
    sys.path[:0] = [str(folder / "src"), str(folder / "benchmarks"), str(folder)]
    import torch

    torch.set_num_threads(threads)
    from common import median_seconds

    import sparring

    assert Path(sparring.__file__).is_relative_to(folder), "another checkout's code was imported"
    kind, *rest = case.split("|")
    work = {"step": one_step, "round": one_round, "play": one_round}[kind](*rest)
    before, timed = (1, 1) if rest[0].endswith("-smol") else (WARM_UP_ROUNDS, TIMED_ROUNDS)
    for _ in range(before):
        work()
    print("ready", flush=True)
    for _ in sys.stdin:
        if kind == "play":
            print(statistics.median(work() for _ in range(timed)), flush=True)
        else:
            print(median_seconds(work, repeats=timed, warm_up=0), flush=True)


def compare(folders, case, times, threads):
    """Return the seconds of each checkout, [times][2]."""
    workers = []
    for (
        folder
    ) in folders:  # in sequence: two processes that warm up together wait for each other's threads
        words = [sys.executable, __file__, str(folder), str(folder), "--serve", case]
        words += ["--threads", str(threads)]
        worker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if worker.stdout.readline() != "ready\n":
            sys.exit(f"{folder} cannot run the case {case!r}; its message is above.")
        workers.append(worker)
    rows = []
    for _ in range(times):
        row = []
        for worker in workers:
            print("go", file=worker.stdin, flush=True)
            row.append(float(worker.stdout.readline()))
        rows.append(row)
    for worker in workers:
        worker.stdin.close()
        worker.wait()
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("first", type=Path, help="folder of a checkout")
    parser.add_argument("second", type=Path, help="folder of another one")
    parser.add_argument("--times", type=int, default=5, help="how often each is timed (5)")
    parser.add_argument("--threads", type=int, default=2, help="of torch (2)")
    parser.add_argument("--case", action="append", help="one of the cases above; may be repeated")
    parser.add_argument("--quick", action="store_true", help="the first case, timed once")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.first.resolve(), options.threads, options.serve)
        sys.exit()
    folders = [options.first.resolve(), options.second.resolve()]
    cases, times = (CASES[:1], 1) if options.quick else (CASES, options.times)
    for case in options.case or cases:
        rows = compare(folders, case, times, options.threads)
        ratios = [second / first for first, second in rows]
        seconds = " ".join(
            f"{1e3 * statistics.median(column):.1f}" for column in zip(*rows, strict=True)
        )
        ratio_texts = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{case}: {statistics.median(ratios):.3f} ({ratio_texts}), {seconds} ms", flush=True)
