"""Speed of the oracles on one core, and the share of judging in a small training step.

Solvers are timed on positions that are not in their caches, look-ups on positions that are. The
mcts oracle alternates with OpenSpiel's bot, with the same settings and positions. `--quick` runs
less of everything; `--only NAME` runs the parts whose name contains NAME.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyspiel
from published import record, settings

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.base import Searchable, SearchablePlay
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.base import Oracle
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.run.warmup import warm_up

Row = dict[str, Any]

SLIPS = 0.2  # share of moves that are not the oracle's best, in episodes that generate positions
# game, options of the game, oracle, options of the oracle, number of positions, unit, aim: the
# smallest number per second, or for "ms" the largest number of milliseconds
SOLVERS = {
    "sudoku 4x4": (
        "sudoku",
        {"blanks": 8, "puzzles": 100_000},
        "constraint",
        {},
        2000,
        "verdicts/s",
        2000.0,
    ),
    "sudoku 9x9": (
        "sudoku",
        {"size": 9, "blanks": 45, "puzzles": 100_000},
        "constraint",
        {},
        300,
        "verdicts/s",
        100.0,
    ),
    "zebra 4 houses": ("zebra", {}, "constraint", {}, 500, "verdicts/s", None),
    "sokoban": ("sokoban", {}, "constraint", {}, 500, "verdicts/s", None),
    "minesweeper 8x8, 10 mines": (
        "minesweeper",
        {"rows": 8, "columns": 8, "mines": 10},
        "posterior",
        {},
        500,
        "ms",
        50.0,
    ),
    "battleship hunt": ("battleship_hunt", {}, "posterior", {}, 200, "ms", None),
    "mastermind": ("mastermind", {}, "posterior", {}, 200, "ms", None),
    "twenty questions": ("twenty_questions", {}, "posterior", {}, 200, "ms", None),
    "urn": ("urn", {}, "posterior", {}, 200, "ms", None),
}
RECIPES = ("vpr/sudoku-tiny", "vpr/minesweeper-tiny", "vpr/tictactoe-tiny")
MAX_JUDGING_SHARE = 0.25  # largest share of a training step


def new_oracle(name: str, options: dict[str, Any]) -> Oracle:
    """Return a new oracle with empty caches; the caches of solvers are cleared too."""
    for game in registry.built_in("environments"):
        solver = load_part("environments", game, "solver")
        for value in vars(solver.module).values() if solver else ():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    oracle: Oracle = registry.bind("oracles", name, options)()
    return oracle


def positions(game: Searchable, oracle: Oracle, number: int) -> list[SearchablePlay]:
    """Return ``number`` different positions from episodes of an oracle that sometimes plays a move
    other than the best.
    """
    root, states = Stream.from_seed(0), dict[str, SearchablePlay]()
    for play in range(1_000_000):
        stream, state = root.child("draws").child(play), game.reset(root.child("deal").child(play))
        while not state.done:
            states.setdefault(game.key(state, state.seat), state.clone())
            if len(states) == number:
                return list(states.values())
            verdict = oracle.judge([state])[0]
            slip = verdict is None or stream.uniform(2 * state.plies) < SLIPS
            choice = state.legal_actions() if slip or verdict is None else sorted(verdict.best)
            state.apply(choice[stream.integer(2 * state.plies + 1, len(choice))])
    return list(states.values())


def time_each_call(
    judge: Callable[[SearchablePlay], Any], states: list[SearchablePlay]
) -> list[float]:
    """Return the seconds of each call."""
    times = []
    for state in states:
        began = time.perf_counter()
        judge(state)
        times.append(time.perf_counter() - began)
    return times


def row(name: str, value: float, unit: str, aim: float | None, **more: float | None) -> Row:
    """Return a row of the table; without an aim it has no ``aim`` and no ``met``."""
    columns: Row = {"what": name, "value": value, "unit": unit, **more}
    if aim is None:
        return columns
    is_met = value <= aim if unit in ("ms", "share") else value >= aim
    return {**columns, "aim": aim, "met": "yes" if is_met else "no"}


def measure_solver(name: str, small: bool) -> Row:
    """Return the row of a solver: verdicts per second, or the median milliseconds of a verdict, on
    positions that are not in its cache.
    """
    game_name, game_options, oracle, options, number, unit, aim = SOLVERS[name]
    game = make_game(game_name, options=game_options)
    states = positions(
        game, new_oracle(oracle, options), max(20, number // 20) if small else number
    )
    judge = new_oracle(oracle, options).judge
    times = sorted(time_each_call(lambda state: judge([state]), states))
    value = 1e3 * statistics.median(times) if unit == "ms" else len(times) / sum(times)
    return row(
        f"{name}: {oracle}", value, unit, aim, positions=len(states), worst_ms=1e3 * times[-1]
    )


def measure_look_ups(small: bool) -> Row:
    """Return the row of solved tic-tac-toe: verdicts per second on cached positions, 4096 positions
    per call.
    """
    game, oracle = make_game("tic_tac_toe"), new_oracle("minimax", {})
    known = positions(game, oracle, 1000)
    batch = (known * 5)[:4096]
    oracle.judge(batch)
    times = [
        sum(time_each_call(lambda _: oracle.judge(batch), batch[:1]))
        for _ in range(5 if small else 50)
    ]
    return row(
        "tic-tac-toe solved: minimax",
        len(batch) / statistics.median(times),
        "look-ups/s",
        200_000.0,
        positions=len(known),
    )


def compare_with_openspiel(small: bool) -> Row:
    """Return the row of the mcts oracle: the time of OpenSpiel's bot divided by ours, on the same
    positions, in alternation.
    """
    game, simulations = make_game("connect_four"), 100 if small else 1000
    states = positions(game, new_oracle("mcts", {"simulations": 20}), 10 if small else 100)
    oracle = new_oracle("mcts", {"simulations": simulations})
    # the evaluator of the oracle, so that both search the same tree
    stream = Stream.from_seed(0).child("mcts oracle").child(str(game.spiel))

    def theirs(state: SearchablePlay) -> None:
        seeds = [stream.child(oracle.key(state)).integer(counter, 1 << 31) for counter in (0, 1)]
        evaluator = pyspiel.RandomRolloutEvaluator(1, seeds[0])
        pyspiel.MCTSBot(
            game.spiel, evaluator, 2.0, simulations, 256, True, seeds[1], False
        ).mcts_search(state.spiel)

    def ours(state: SearchablePlay) -> None:
        oracle.judge([state])

    times: dict[Any, list[float]] = {theirs: [], ours: []}
    oracle.enter(game)
    for index, state in enumerate(states):
        for judge in (theirs, ours) if index % 2 else (ours, theirs):
            times[judge] += time_each_call(judge, [state])
    speed = simulations * len(states) / sum(times[ours])
    ratio = statistics.median(
        bot / seconds for bot, seconds in zip(times[theirs], times[ours], strict=True)
    )
    return row(
        "connect four: mcts against MCTSBot",
        ratio,
        "x",
        1.0,
        positions=len(states),
        simulations_per_second=speed,
    )


def judging_share(recipe: str, small: bool) -> Row:
    """Return the row of a recipe: the share of judging in the time of a training step after the
    warm-up, median over steps.
    """
    overrides = ["threads=1", *(["warmup.updates=20"] if small else [])]
    shares = judging_shares(recipe, overrides, 5 if small else 40)
    return row(
        f"{recipe}: judging",
        statistics.median(shares),
        "share",
        MAX_JUDGING_SHARE,
        worst_share=max(shares),
        first_share=shares[0],
    )


def judged_share(timing: Mapping[str, float]) -> float:
    """Return the share of judging in a step with this timing."""
    return timing["seconds/oracle"] / timing["seconds/round"]


def judging_shares(recipe: str, changes: list[str], steps: int) -> list[float]:
    """Return the share of judging in each of the first steps of a recipe."""
    config = resolve(apply_overrides(load_recipe(recipe), changes))
    engine = LocalEngine(config)
    games = [game for game, _ in engine.environments]
    methods, state, shares = Methods.of(config, games), RunState(), []
    warm_up(config, engine)
    for _ in range(steps):
        outcome = play_round(config, engine, methods, state)
        state = outcome.state
        shares.append(judged_share(outcome.timing))
    return shares


def measure_parallel(
    name: str, oracle: str, options: dict[str, Any], game: Searchable, number: int
) -> Row:
    """Return a row that says how much faster two started processes are than one."""
    states = positions(game, new_oracle(oracle, options), number + 64)
    oracle_options = {"oracle": oracle, "options": options, "workers": 2}
    parallel_oracle = new_oracle("parallel", oracle_options)
    parallel_oracle.judge(states[:64])
    seconds_of_one = sum(
        time_each_call(lambda _: new_oracle(oracle, options).judge(states[64:]), states[:1])
    )
    seconds_of_two = sum(time_each_call(lambda _: parallel_oracle.judge(states[64:]), states[:1]))
    return row(
        f"{name}: two processes",
        seconds_of_one / seconds_of_two,
        "x",
        None,
        positions=number,
        each_ms=1e3 * seconds_of_one / number,
    )


def measure_parts(only: str, small: bool) -> Iterator[Row]:
    """Yield the rows of the parts whose name contains ``only``."""
    four, mines = (
        make_game("connect_four"),
        make_game("minesweeper", options={"rows": 8, "columns": 8, "mines": 10}),
    )
    parts: dict[str, Callable[[], Row]] = {"tic-tac-toe": lambda: measure_look_ups(small)}
    parts |= {name: lambda name=name: measure_solver(name, small) for name in SOLVERS}
    parts["connect four"] = lambda: compare_with_openspiel(small)
    parts["parallel mcts"] = lambda: measure_parallel(
        "connect four", "mcts", {"simulations": 100 if small else 1000}, four, 32 if small else 256
    )
    parts["parallel minesweeper"] = lambda: measure_parallel(
        "minesweeper 8x8", "posterior", {}, mines, 64 if small else 512
    )
    parts |= {name: lambda name=name: judging_share(name, small) for name in RECIPES}
    for name, part in parts.items():
        if only in name:
            yield part()


def main() -> None:
    """Run the requested parts in a process of one thread."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when numpy and torch are loaded
        os.execve(
            sys.executable, [sys.executable, *sys.argv], {**os.environ, "OMP_NUM_THREADS": "1"}
        )
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    options = settings(parser)
    result = []
    for each in measure_parts(options.only, options.quick):
        print(
            {
                name: round(value, 4) if isinstance(value, float) else value
                for name, value in each.items()
            },
            flush=True,
        )
        result.append(each)
    record("oracles", result, options)


if __name__ == "__main__":
    main()
