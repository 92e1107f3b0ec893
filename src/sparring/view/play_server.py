"""People's episodes on the server: a few sessions that share one worker process.

A request waits for less than a second. Slow work continues, and the page polls the state.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotReady
from dataclasses import dataclass, field
from typing import Any

from sparring.core.errors import RolloutError
from sparring.core.worker_pool import Job, WorkerPool
from sparring.view.http_requests import JsonBody, RequestError, one_line
from sparring.view.play_worker import make
from sparring.view.watch import RunWatcher

ENDED = "The process of this session was ended."
MAX_SESSIONS = 4  # a fifth session ends the session that was not used for the longest time
WAIT_SECONDS = 0.7  # time that a request waits for its answer
JOB_SECONDS = 600.0  # the process is ended if one job takes longer
OPTIONS_SECONDS = 20.0  # time limit of the list of choices
Answer = dict[str, Any]


class PlayServer:
    """The sessions of people who play; thread-safe.

    Args:
        watch: the runs that people can play against.
        trusted: allowed opponents besides the players of the runs and the usual bots.
        step: the checkpoint to play against; None: the newest.
        pool: creates the play process.
        answer: which policies to play against, as ``league.answer``; None: as configured.
    """

    def __init__(
        self,
        watch: RunWatcher,
        trusted: Collection[str] = (),
        step: int | None = None,
        pool: Callable[..., WorkerPool] = WorkerPool,
        answer: str | None = None,
    ) -> None:
        self.watch, self._pool_of = watch, pool
        self._settings = {"trusted": sorted(trusted), "step": step, "answer": answer}
        self._sessions: dict[str, ServerSession] = {}
        self._pool: WorkerPool | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="play")
        self._end_reason = ""  # why the process was ended on purpose; "": it was not
        self._to_drop: list[str] = []  # ended sessions that the process has not dropped yet
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the play process."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.close(at_once=True)

    def options(self, params: Mapping[str, str], body: bytes = b"") -> Answer:
        """Return the environments, seats and players to choose from.

        Args:
            params: ``run`` (a number) and ``environment``; both are optional.
            body: not used.
        """
        run = self.watch.run(params["run"]) if params.get("run") else None
        path = None if run is None else str(run.path)
        future = self._thread.submit(self._answer, ["options", path, params.get("environment")])
        try:
            answer = future.result(timeout=OPTIONS_SECONDS)
        except NotReady:
            raise RequestError(
                503, "another episode is running; try again after its turn"
            ) from None
        except RolloutError as error:
            raise RequestError(503, one_line(error)) from None
        if "error" in answer:
            raise RequestError(answer["status"], answer["error"])
        return answer

    def begin(self, params: Mapping[str, str], body: bytes) -> Answer:
        """Begin a session, or return the session with this key.

        Args:
            params: not used.
            body: ``key``, any unique text; ``run``, a number or null; ``environment``, ``seat``,
                ``against`` and ``seed``, or null.
        """
        fields = JsonBody(body)
        key = fields.text("key", 100)
        if not key:
            raise RequestError(400, "key: give a unique text")
        run_number = fields.number("run", None)
        run = None if run_number is None else self.watch.run(str(run_number))
        choices = {
            "run": None if run is None else str(run.path),
            "environment": fields.text("environment", 200),
            "seat": fields.number("seat", 0),
            "against": fields.text("against", 500),
            "seed": fields.number("seed", None),
        }
        with self._lock:
            known_names = [name for name, other in self._sessions.items() if other.key == key]
            name = known_names[0] if known_names else secrets.token_urlsafe(12)
            to_drop: list[str] = []
            if not known_names:
                old_names = sorted(self._sessions, key=lambda name: self._sessions[name].last_use)
                old_names = old_names[: max(0, len(old_names) - MAX_SESSIONS + 1)]
                for old_name in old_names:
                    del self._sessions[old_name]
                to_drop, self._to_drop = [*self._to_drop, *old_names], []
            new_session = ServerSession(
                key, "" if run is None else run.name, last_use=time.monotonic()
            )
            session = self._sessions.setdefault(name, new_session)
        if known_names:
            return self._view(name, session)
        try:
            return self._run_job(name, ["begin", name, choices, to_drop], "the players to be ready")
        except RequestError:
            with self._lock:
                self._sessions.pop(name, None)
            raise

    def state(self, params: Mapping[str, str], body: bytes = b"") -> Answer:
        """Return the state of a session.

        Args:
            params: ``id``.
            body: not used.
        """
        return self._view(params["id"], self._session(params["id"]))

    def move(self, params: Mapping[str, str], body: bytes) -> Answer:
        """Apply a reply.

        Args:
            params: ``id``.
            body: ``play``, ``turn`` and ``reply``.
        """
        fields, name = JsonBody(body), params["id"]
        text = fields.text("reply", 64 * 1024)
        job = ["move", name, fields.required("play"), fields.required("turn"), text or ""]
        return self._run_job(name, job, "the others to reply")

    def hint(self, params: Mapping[str, str], body: bytes) -> Answer:
        """Ask the oracle about the current turn.

        Args:
            params: ``id``.
            body: ``play`` and ``turn``.
        """
        fields, name = JsonBody(body), params["id"]
        job = ["hint", name, fields.required("play"), fields.required("turn")]
        return self._run_job(name, job, "the oracle")

    def judge(self, params: Mapping[str, str], body: bytes) -> Answer:
        """Judge a finished episode.

        Args:
            params: ``id``.
            body: ``play``.
        """
        name = params["id"]
        return self._run_job(
            name, ["judge", name, JsonBody(body).required("play")], "the oracle's judgement"
        )

    def next(self, params: Mapping[str, str], body: bytes) -> Answer:
        """Begin the episode after number ``play``.

        Args:
            params: ``id``.
            body: ``play``; ``seat`` and ``against`` of the next episode.
        """
        fields, name = JsonBody(body), params["id"]
        seat, against = fields.number("seat", 0), fields.text("against", 500)
        job = ["next", name, fields.required("play"), seat, against]
        return self._run_job(name, job, "the players to be ready")

    def leave(self, params: Mapping[str, str], body: bytes) -> Answer:
        """End a session, and also the worker process if it works for this session.

        A process that judges an episode is ended only if there are no other sessions.

        Args:
            params: ``id``; an unknown session has already ended.
            body: an empty object.
        """
        with self._lock:
            session = self._sessions.pop(params["id"], None)
            if session is None:
                return {"left": False}
            self._to_drop.append(params["id"])
            future, has_sessions = session.pending, bool(self._sessions)
            is_running = future is not None and not future.cancel() and not future.done()
            if is_running and self._pool is not None and not (session.judging and has_sessions):
                self._end_reason = "A person left an episode while it worked."
                self._pool.kill()
        return {"left": True}

    def _session(self, name: str) -> ServerSession:
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                raise RequestError(404, "this session has ended; begin a new one")
            session.last_use = time.monotonic()
            return session

    def _run_job(self, name: str, job: Job, waits: str) -> Answer:
        """Run a job of a session; a repeated request waits for the same job."""
        session = self._session(name)
        with self._lock:
            session.collect()
            if session.pending is None or (session.judging and job[0] == "next"):
                session.pending = self._thread.submit(self._answer, job)
                session.job, session.waits, session.job_start = job, waits, time.monotonic()
            elif session.job != job:
                raise RequestError(409, f"this session still waits for {session.waits}")
            future = session.pending
        try:
            answer = future.result(timeout=WAIT_SECONDS)
        except NotReady:
            return self._view(name, session)
        except (RolloutError, CancelledError):
            answer = {}
        with self._lock:
            session.collect()
        if "error" in answer:
            raise RequestError(answer["status"], answer["error"])
        return self._view(name, session)

    def _view(self, name: str, session: ServerSession) -> Answer:
        with self._lock:
            session.collect()
            answer: Answer = {"id": name, "run": session.run, "phase": "thinking", "waits": None}
            answer.update(session.state)
            if session.pending is not None:
                seconds = round(time.monotonic() - session.job_start, 1)
                answer["waits"] = {"for": session.waits, "seconds": seconds}
                if not session.judging:
                    answer["phase"] = "thinking"
            return answer

    def _answer(self, job: Job) -> Answer:
        """Return the answer of the worker process, which starts at the first job."""
        try:
            if self._pool is None:
                pool = self._pool_of(make, self._settings, 1)
                pool.start()
                self._pool = pool
            ((_, result),) = self._pool.results([job], seconds=JOB_SECONDS)
        except (RolloutError, OSError) as error:
            raise RolloutError(self._fail_sessions(error)) from None
        answer: Answer = result
        return answer

    def _fail_sessions(self, error: Exception) -> str:
        """Mark every session as failed, and close the process; return the reason."""
        with self._lock:
            pool, self._pool = self._pool, None
            cause, self._end_reason = (
                self._end_reason or f"{str(error).partition(';')[0].rstrip('.')}.",
                "",
            )
            reason = f"{ENDED} {cause} Begin a new session."
            for session in self._sessions.values():
                session.state = {**session.state, "phase": "failed", "trouble": reason}
        if pool is not None:
            pool.close(at_once=True)
        return reason


@dataclass(slots=True)
class ServerSession:
    """What the server stores about a session."""

    key: str  # unique text from the page
    run: str  # name of the run, or ""
    state: Answer = field(default_factory=dict)
    job: Job | None = None  # the running job
    pending: Future[Answer] | None = None
    waits: str = ""  # what the session waits for, in words
    job_start: float = 0.0
    last_use: float = 0.0

    @property
    def judging(self) -> bool:
        """Whether the session waits only for the judgement of a finished episode."""
        return self.job is not None and self.job[0] == "judge"

    def collect(self) -> None:
        """Store the answer if it has arrived; the caller holds the lock."""
        if self.pending is None or not self.pending.done():
            return
        pending, self.pending, self.job = self.pending, None, None
        try:
            answer = pending.result()
        except CancelledError:
            return  # the person has left
        except RolloutError as error:
            self.state = {**self.state, "phase": "failed", "trouble": one_line(error)}
            return
        if "error" not in answer:
            self.state = answer
        elif self.state:
            self.state = {**self.state, "trouble": answer["error"]}
        else:  # the episode has not begun
            self.state = {"phase": "failed", "trouble": answer["error"]}
