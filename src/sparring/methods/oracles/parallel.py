"""Oracle: an inner oracle that runs in several processes."""

from __future__ import annotations

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

# jobs per process and call; several jobs balance easy and hard positions between processes
CHUNKS = 4
# read when a process starts
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(kw_only=True, eq=False)
class ParallelOracle(WrappingOracle):
    """Run an inner oracle in several processes, with the same verdicts.

    What: new positions go to processes that each hold the game and the oracle. The verdicts come
    back in order.
    When to use: for verdicts of more than about a millisecond: oracle mcts, large puzzles and
    hidden worlds.
    Mathematics: none. A verdict depends only on the position, and is the same for every number of
    processes.
    Pitfalls:
        - A process starts on demand, in a second or two, and has a separate cache. So every process
          solves a game again (oracles minimax and cfr). Use these oracles without ``parallel``.
        - Each game of a run has a separate oracle with separate processes.
        - Oracle noisy must be the outer oracle, not the inner one.
        - A user's script must guard its entry point by if __name__ == "__main__", because the
          processes import the script.
        - An oracle inside a worker process judges all positions in that process.
    Reference: none.
    Verified by: tests/methods/oracles/test_wrappers.py.

    Args:
        oracle: name of the inner oracle.
        options: options of the inner oracle, by name; null (default): the defaults.
        workers: number of processes, of one thread each. 0 (default): one per core. 1: no further
            process.
        least: smallest number of new positions in one call that is sent to processes, at least 1.
            Fewer are judged in this process.
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
            OracleError: the inner oracle refuses a state, or a process died or hangs.
        """
        made_by = states[0].game.made_by if states else None
        # a worker process cannot start processes
        inline = (
            self._workers == 1
            or len(states) < self.least
            or multiprocessing.current_process().daemon
        )
        if inline or made_by is None:
            return self.inner.judge(states)
        self.counts["sent"] += len(states)
        try:
            return self._judge_in_processes(made_by, states)
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
        self, made_by: dict[str, Any], states: Sequence[SearchablePlay]
    ) -> list[Verdict | None]:
        if self._pool is None:
            self._pool = WorkerPool(
                make_judge, {"oracle": self.oracle, "options": self.options}, self._workers
            )
            self._finalizer = weakref.finalize(self, self._pool.close, at_once=True)
            with _one_thread():
                self._pool.start()
        size = -(-len(states) // (self._workers * CHUNKS))
        jobs = [
            [
                start,
                made_by,
                [[event.action for event in state.trail] for state in states[start : start + size]],
            ]
            for start in range(0, len(states), size)
        ]
        answers = {
            job[0]: answer for job, answer in self._pool.results(jobs, seconds=call_limit_seconds())
        }
        replies = [reply for start in sorted(answers) for reply in answers[start]]
        return [
            None if reply is None else _verdict(state, reply)
            for state, reply in zip(states, replies, strict=True)
        ]


def make_judge(settings: dict[str, Any]) -> Callable[[Job], list[Any]]:
    """Return the worker's function, [number, game's name and options, histories] -> verdicts."""
    oracle: Oracle = registry.bind("oracles", settings["oracle"], settings["options"])()
    games: dict[str, Searchable] = {}

    def judge(job: Job) -> list[Any]:
        _, made_by, histories = job
        key = repr(made_by)
        if key not in games:
            game = make_game(made_by["name"], options=made_by["options"])
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
    best = [number for number, action in enumerate(verdict.actions) if action in verdict.best]
    return [
        _checksum(verdict.actions),
        verdict.values,
        best,
        verdict.certainty,
        verdict.bound,
        verdict.entropy,
    ]


def _verdict(state: SearchablePlay, reply: list[Any]) -> Verdict:
    checksum, values, best, certainty, bound, entropy = reply
    actions = state.legal_actions()
    if checksum != _checksum(actions):
        raise OracleError(
            f"Oracle 'parallel': a process has other rules of {state.game.name!r}, at "
            f"ply {state.plies}; make the game by make_game with options only, or write workers: 1."
        )
    names = frozenset([actions[number] for number in best])
    return Verdict(
        actions=actions,
        values=tuple(values),
        best=names,
        certainty=certainty,
        bound=bound,
        entropy=entropy,
    )


def _checksum(actions: Sequence[str]) -> int:
    return zlib.crc32("\n".join(actions).encode())


@contextmanager
def _one_thread() -> Iterator[None]:
    previous = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in previous.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


parallel = ParallelOracle
