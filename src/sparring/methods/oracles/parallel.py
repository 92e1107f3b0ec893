"""Oracle: another oracle, its judging spread over processes."""

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
from sparring.config.plugins.guard import limit
from sparring.core.errors import OracleError, RolloutError
from sparring.core.records import Verdict
from sparring.core.worker_pool import Job, WorkerPool
from sparring.environments.base import Searchable, SearchablePlay, is_searchable
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.base import Oracle, WrappingOracle

# jobs per process and call: a process that got easy positions takes over from one that did not
CHUNKS = 4
# read when a process starts
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(kw_only=True, eq=False)
class ParallelOracle(WrappingOracle):
    """Another oracle, its judging spread over processes.

    The same verdicts, sooner where each of them is slow.

    What: positions not judged before go to processes that each hold the game and the oracle. The
    verdicts come back in order.
    When to use: where a verdict takes longer than about a millisecond: oracle mcts, large puzzles
    and hidden worlds.
    Mathematics: none: a verdict is a function of the position, so the number of processes changes
    nothing, to the last bit.
    Pitfalls: a process starts when it is first needed, in a second or two, and has a cache of its
    own. So a game that one search solves (oracle minimax), or values of a whole game (cfr), are
    worked out once per process: judge these without this oracle. Each game of a run has an oracle
    of its own, and with it processes of its own. Faults go outside: put oracle noisy around this
    one, not within it. A script of one's own has to guard its start by if __name__ == "__main__",
    because processes read it first. In a process that is a worker itself everything is judged in
    that process.
    Reference: none.
    Verified by: tests/methods/oracles/test_wrappers.py.

    Args:
        oracle: name of the oracle that judges.
        options: options of that oracle, by name; null (default): its defaults.
        workers: number of processes, of one thread each. 0 (default): one per core. 1: everything
            is judged in this process.
        least: least number of new positions in one call that is sent to processes, at least 1.
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
        self._ending: weakref.finalize[..., ParallelOracle] | None = None

    def opinions(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state, from the processes where there are states enough.

        Raises:
            OracleError: the oracle within refuses a state, or a process died or hangs.
        """
        made_by = states[0].game.made_by if states else None
        # a worker can have none
        here = (
            self._workers == 1
            or len(states) < self.least
            or multiprocessing.current_process().daemon
        )
        if here or made_by is None:
            return self.within.judge(states)
        self.counts["sent"] += len(states)
        try:
            return self._sent(made_by, states)
        except BaseException as error:
            # what is still on its way would be taken for the answer to the next question
            self.close(at_once=True)
            if isinstance(error, RolloutError):
                hint = (
                    " A script's start has to be guarded by if __name__ == '__main__'."
                    if "exit code 1)" in str(error)
                    else ""
                )
                raise OracleError(f"Oracle 'parallel': {error}{hint}") from error
            raise

    def close(self, *, at_once: bool = False) -> None:
        """End the processes; later calls start new ones.

        Without this they end with the oracle, and with the program.
        """
        pool, self._pool = self._pool, None
        if self._ending is not None:
            self._ending.detach()
        if pool is not None:
            pool.close(at_once=at_once)

    def _sent(
        self, made_by: dict[str, Any], states: Sequence[SearchablePlay]
    ) -> list[Verdict | None]:
        if self._pool is None:
            self._pool = WorkerPool(
                make_judge, {"oracle": self.oracle, "options": self.options}, self._workers
            )
            self._ending = weakref.finalize(self, self._pool.close, at_once=True)
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
        answers = {job[0]: answer for job, answer in self._pool.answers(jobs, seconds=limit())}
        sayings = [saying for start in sorted(answers) for saying in answers[start]]
        return [
            None if saying is None else _verdict(state, saying)
            for state, saying in zip(states, sayings, strict=True)
        ]


def make_judge(settings: dict[str, Any]) -> Callable[[Job], list[Any]]:
    """Return what answers jobs in a worker.

    [number, the game's name and options, histories] -> a verdict per history.
    """
    oracle: Oracle = registry.bind("oracles", settings["oracle"], settings["options"])()
    games: dict[str, Searchable] = {}

    def judge(job: Job) -> list[Any]:
        _, made_by, histories = job
        key = repr(made_by)
        if key not in games:
            game = make_game(made_by["name"], options=made_by["options"])
            assert is_searchable(game)
            games[key] = game
        states = [_replayed(games[key], history) for history in histories]
        return [None if found is None else _saying(found) for found in oracle.judge(states)]

    return judge


def _replayed(game: Searchable, history: Sequence[int]) -> SearchablePlay:
    state = game.first_state()
    for index in history:
        state.apply_index(index)
    return state


def _saying(found: Verdict) -> list[Any]:
    best = [number for number, action in enumerate(found.actions) if action in found.best]
    return [
        _checksum(found.actions),
        found.values,
        best,
        found.certainty,
        found.bound,
        found.entropy,
    ]


def _verdict(state: SearchablePlay, saying: list[Any]) -> Verdict:
    """Return what a worker said of a state as a verdict."""
    checksum, values, best, certainty, bound, entropy = saying
    actions = state.legal_actions()
    if checksum != _checksum(actions):
        raise OracleError(
            f"Oracle 'parallel': a process knows other rules of {state.game.name!r}, at "
            f"ply {state.plies}; make the game by make_game with options alone, or write workers: "
            "1."
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
    """Return a number that other actions are all but sure not to have."""
    return zlib.crc32("\n".join(actions).encode())


@contextmanager
def _one_thread() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


parallel = ParallelOracle
