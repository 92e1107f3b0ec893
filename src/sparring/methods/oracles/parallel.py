"""Oracle: an inner oracle that runs in several processes."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from sparring.config.plugins import registry
from sparring.config.plugins.guard import call_limit_seconds
from sparring.core.errors import OracleError, RolloutError
from sparring.core.records import Verdict
from sparring.core.worker_pool import Job, WorkerPool
from sparring.environments.base import Searchable, SearchablePlay, is_searchable
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.base import Oracle, WrappingOracle

# jobs per process in one call; several jobs balance the load, as some positions are harder
JOBS_PER_PROCESS = 4
# variables that set the number of threads; libraries read them when a process starts
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(kw_only=True, eq=False)
class ParallelOracle(WrappingOracle):
    """Run an inner oracle in several processes, with the same verdicts.

    What: positions that are not in the cache go to processes, each with a copy of the game and the
    oracle. The verdicts come back in order.
    When to use: for verdicts of more than about a millisecond: oracle mcts, large puzzles and games
    with much hidden information.
    Mathematics: none. A verdict does not depend on the number of processes.
    Pitfalls:
        - A process starts on demand, in a second or two, and has a separate cache. So every process
          solves a game again (oracles minimax and cfr). Use these oracles without ``parallel``.
        - Each game of a run has a separate oracle with separate processes.
        - Oracle noisy must be the outer oracle, not the inner one.
        - A user's script must guard its entry point by if __name__ == "__main__", because the
          processes import the script.
        - In a worker process, this oracle starts no processes and judges all positions itself.
    Reference: none.
    Verified by: tests/methods/oracles/test_wrappers.py.

    Args:
        oracle: name of the inner oracle.
        options: options of the inner oracle, by name; null (default): the defaults.
        workers: number of processes, of one thread each. 0 (default): one per core. 1: judge in the
            calling process.
        least: a call uses processes if at least this number of its positions is not in the cache;
            at least 1. Otherwise the calling process judges the positions.
    """

    oracle: str = "mcts"
    workers: Annotated[int, Field(ge=0)] = 0
    least: Annotated[int, Field(ge=1)] = 32

    name = "parallel"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._workers = self.workers or os.cpu_count() or 1
        self._pool: WorkerPool | None = None
        self._finalizer: weakref.finalize[..., ParallelOracle] | None = None

    def compute_verdicts(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state, from the processes if there are at least ``least`` states.

        Raises:
            OracleError: the inner oracle cannot judge a state, or a process died or hangs.
        """
        game_settings = states[0].game.made_by if states else None
        # a worker process cannot start processes
        is_inline = (
            self._workers == 1
            or len(states) < self.least
            or multiprocessing.current_process().daemon
        )
        if is_inline or game_settings is None:
            return self.inner.judge(states)
        self.counts["sent"] += len(states)
        try:
            return self._judge_in_processes(game_settings, states)
        except BaseException as error:
            # a pending answer would be read as the answer to the next call
            self.close(at_once=True)
            if isinstance(error, RolloutError):
                hint = (
                    " Guard the script's entry point by if __name__ == '__main__'."
                    if "exit code 1)" in str(error)
                    else ""
                )
                raise OracleError(f"Oracle 'parallel': {error}{hint}") from error
            raise

    def close(self, *, at_once: bool = False) -> None:
        """End the processes, which otherwise end with the oracle; later calls start new ones."""
        pool, self._pool = self._pool, None
        if self._finalizer is not None:
            self._finalizer.detach()
        if pool is not None:
            pool.close(at_once=at_once)

    def _judge_in_processes(
        self, game_settings: dict[str, Any], states: Sequence[SearchablePlay]
    ) -> list[Verdict | None]:
        if self._pool is None:
            self._pool = WorkerPool(
                make_judge, {"oracle": self.oracle, "options": self.options}, self._workers
            )
            self._finalizer = weakref.finalize(self, self._pool.close, at_once=True)
            with _limit_to_one_thread():
                self._pool.start()
        histories = [[event.action for event in state.trail] for state in states]
        job_size = -(-len(states) // (self._workers * JOBS_PER_PROCESS))
        jobs = [
            [start, game_settings, histories[start : start + job_size]]
            for start in range(0, len(states), job_size)
        ]
        results = self._pool.results(jobs, seconds=call_limit_seconds())
        verdicts_by_start = {job[0]: job_verdicts for job, job_verdicts in results}
        serialised_verdicts = itertools.chain.from_iterable(
            verdicts_by_start[start] for start in sorted(verdicts_by_start)
        )
        return [
            None if verdict_fields is None else _deserialise(state, verdict_fields)
            for state, verdict_fields in zip(states, serialised_verdicts, strict=True)
        ]


def make_judge(settings: dict[str, Any]) -> Callable[[Job], list[Any]]:
    """Return the worker's function, [index, settings of the game, histories] -> verdicts."""
    oracle: Oracle = registry.bind("oracles", settings["oracle"], settings["options"])()
    games: dict[str, Searchable] = {}

    def judge(job: Job) -> list[Any]:
        _, game_settings, histories = job
        key = repr(game_settings)
        if key not in games:
            game = make_game(game_settings["name"], options=game_settings["options"])
            assert is_searchable(game)
            games[key] = game
        states = [_replay_history(games[key], history) for history in histories]
        return [None if result is None else _serialise(result) for result in oracle.judge(states)]

    return judge


def _replay_history(game: Searchable, history: Sequence[int]) -> SearchablePlay:
    state = game.first_state()
    for index in history:
        state.apply_index(index)
    return state


def _serialise(verdict: Verdict) -> list[Any]:
    best = [index for index, action in enumerate(verdict.actions) if action in verdict.best]
    return [
        _checksum(verdict.actions),
        verdict.values,
        best,
        verdict.certainty,
        verdict.bound,
        verdict.entropy,
    ]


def _deserialise(state: SearchablePlay, verdict_fields: list[Any]) -> Verdict:
    checksum, values, best, certainty, bound, entropy = verdict_fields
    actions = state.legal_actions()
    if checksum != _checksum(actions):
        raise OracleError(
            f"Oracle 'parallel': a worker process has different rules for {state.game.name!r}, at "
            f"ply {state.plies}; make the game by make_game with options only, or write workers: 1."
        )
    best_actions = frozenset([actions[index] for index in best])
    return Verdict(
        actions=actions,
        values=tuple(values),
        best=best_actions,
        certainty=certainty,
        bound=bound,
        entropy=entropy,
    )


def _checksum(actions: Sequence[str]) -> int:
    return zlib.crc32("\n".join(actions).encode())


@contextmanager
def _limit_to_one_thread() -> Iterator[None]:
    previous_values = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in previous_values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


parallel = ParallelOracle
