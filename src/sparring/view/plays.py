"""People's plays on the server: few sessions, one process in which all of them go on.

A request never waits long: what takes its time goes on, and the page asks how things stand.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from typing import Any

from sparring.core.errors import RolloutError
from sparring.core.worker_pool import Job, WorkerPool
from sparring.view.http_requests import Body, Refused, one_line
from sparring.view.play_worker import make
from sparring.view.watch import Watch

ENDED = "The process that plays was ended."
SESSIONS = 4  # at once; the one that was used longest ago makes way
PATIENCE = 0.7  # seconds that a request waits for its answer
THINK = 600.0  # seconds after which the process that plays is ended
READY = 20.0  # seconds that the choices may take
Answer = dict[str, Any]


class Plays:
    """The sessions; threads may share it.

    Args:
        watch: of the runs.
        trusted: players that may be asked for besides those of the runs and the usual bots.
        step: of the checkpoint that is meant where none is named; None: the newest.
        pool: makes the process in which plays go on.
        answer: who answers for a run; None: whom its configuration names.
    """

    def __init__(
        self,
        watch: Watch,
        trusted: Collection[str] = (),
        step: int | None = None,
        pool: Callable[..., WorkerPool] = WorkerPool,
        answer: str | None = None,
    ) -> None:
        self.watch, self._pool_of = watch, pool
        self._settings = {"trusted": sorted(trusted), "step": step, "answer": answer}
        self._sessions: dict[str, Session] = {}
        self._pool: WorkerPool | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="play")
        self._left = ""  # why the process was ended on purpose
        self._gone: list[str] = []  # sessions that the process is still to forget
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the process that plays."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.close(at_once=True)

    def options(self, asked: Mapping[str, str], body: bytes = b"") -> Answer:
        """Return what may be played.

        Args:
            asked: ``run``, a number, or none; ``environment``, or none.
            body: nothing.
        """
        run = self.watch.run(asked["run"]) if asked.get("run") else None
        path = None if run is None else str(run.path)
        coming = self._thread.submit(self._answer, ["options", path, asked.get("environment")])
        try:
            found = coming.result(timeout=READY)
        except NotYet:
            raise Refused(
                503, "another play is going on; try again when its turn is over"
            ) from None
        except RolloutError as error:
            raise Refused(503, one_line(error)) from None
        if "error" in found:
            raise Refused(found["status"], found["error"])
        return found

    def begin(self, asked: Mapping[str, str], body: bytes) -> Answer:
        """Begin a session, or return the one that was begun under this key.

        Args:
            asked: nothing.
            body: ``key``, any text of the page's own; ``run``, a number or null; ``environment``,
                ``seat``, ``against`` and ``seed``, or null.
        """
        said = Body(body)
        key = said.text("key", 100)
        if not key:
            raise Refused(400, "key: give any text that no other session has")
        number = said.number("run", None)
        run = None if number is None else self.watch.run(str(number))
        wanted = {
            "run": None if run is None else str(run.path),
            "environment": said.text("environment", 200),
            "seat": said.number("seat", 0),
            "against": said.text("against", 500),
            "seed": said.number("seed", None),
        }
        with self._lock:
            known = [name for name, one in self._sessions.items() if one.key == key]
            name = known[0] if known else secrets.token_urlsafe(12)
            dropped: list[str] = []
            if not known:
                oldest = sorted(self._sessions, key=lambda name: self._sessions[name].used)
                oldest = oldest[: max(0, len(oldest) - SESSIONS + 1)]
                for old in oldest:
                    del self._sessions[old]
                dropped, self._gone = [*self._gone, *oldest], []
            new = Session(key, "" if run is None else run.name, used=time.monotonic())
            session = self._sessions.setdefault(name, new)
        if known:
            return self._view(name, session)
        try:
            return self._do(name, ["begin", name, wanted, dropped], "the players to be ready")
        except Refused:
            with self._lock:
                self._sessions.pop(name, None)
            raise

    def state(self, asked: Mapping[str, str], body: bytes = b"") -> Answer:
        """Return how a session stands.

        Args:
            asked: ``id``.
            body: nothing.
        """
        return self._view(asked["id"], self._session(asked["id"]))

    def move(self, asked: Mapping[str, str], body: bytes) -> Answer:
        """Take a reply.

        Args:
            asked: ``id``.
            body: ``play`` and ``turn``, whose reply it is; ``reply``.
        """
        said, name = Body(body), asked["id"]
        text = said.text("reply", 64 * 1024)
        job = ["move", name, said.due("play"), said.due("turn"), text or ""]
        return self._do(name, job, "the others to reply")

    def hint(self, asked: Mapping[str, str], body: bytes) -> Answer:
        """Ask the oracle about the turn that is due.

        Args:
            asked: ``id``.
            body: ``play`` and ``turn``.
        """
        said, name = Body(body), asked["id"]
        job = ["hint", name, said.due("play"), said.due("turn")]
        return self._do(name, job, "the oracle")

    def judge(self, asked: Mapping[str, str], body: bytes) -> Answer:
        """Have a finished play judged.

        Args:
            asked: ``id``.
            body: ``play``.
        """
        name = asked["id"]
        return self._do(name, ["judge", name, Body(body).due("play")], "the oracle's judgement")

    def next(self, asked: Mapping[str, str], body: bytes) -> Answer:
        """Begin the play after ``play``.

        Args:
            asked: ``id``.
            body: ``play``; ``seat`` and ``against`` of the next one.
        """
        said, name = Body(body), asked["id"]
        seat, against = said.number("seat", 0), said.text("against", 500)
        job = ["next", name, said.due("play"), seat, against]
        return self._do(name, job, "the players to be ready")

    def leave(self, asked: Mapping[str, str], body: bytes) -> Answer:
        """End a session, and the process that plays where it works at this session's play.

        A judgement ends it only where nobody else plays.

        Args:
            asked: ``id``; one that is not there has ended.
            body: an empty object.
        """
        with self._lock:
            session = self._sessions.pop(asked["id"], None)
            if session is None:
                return {"left": False}
            self._gone.append(asked["id"])
            coming, others = session.coming, bool(self._sessions)
            at_work = coming is not None and not coming.cancel() and not coming.done()
            if at_work and self._pool is not None and not (session.judging and others):
                self._left = "A person left a play at which it worked."
                self._pool.kill()
        return {"left": True}

    def _session(self, name: str) -> Session:
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                raise Refused(404, "this session has ended; begin a new one")
            session.used = time.monotonic()
            return session

    def _do(self, name: str, job: Job, waits: str) -> Answer:
        """Have a job of a session done; the same one again waits for the first."""
        session = self._session(name)
        with self._lock:
            session.collect()
            if session.coming is None or (session.judging and job[0] == "next"):
                session.coming = self._thread.submit(self._answer, job)
                session.job, session.waits, session.since = job, waits, time.monotonic()
            elif session.job != job:
                raise Refused(409, f"this session still waits for {session.waits}")
            coming = session.coming
        try:
            found = coming.result(timeout=PATIENCE)
        except NotYet:
            return self._view(name, session)
        except (RolloutError, CancelledError):
            found = {}
        with self._lock:
            session.collect()
        if "error" in found:
            raise Refused(found["status"], found["error"])
        return self._view(name, session)

    def _view(self, name: str, session: Session) -> Answer:
        with self._lock:
            session.collect()
            found: Answer = {"id": name, "run": session.run, "phase": "thinking", "waits": None}
            found.update(session.state)
            if session.coming is not None:
                seconds = round(time.monotonic() - session.since, 1)
                found["waits"] = {"for": session.waits, "seconds": seconds}
                if not session.judging:
                    found["phase"] = "thinking"
            return found

    def _answer(self, job: Job) -> Answer:
        """Return the answer of the process that plays; it is started at the first job."""
        try:
            if self._pool is None:
                pool = self._pool_of(make, self._settings, 1)
                pool.start()
                self._pool = pool
            ((_, found),) = self._pool.answers([job], seconds=THINK)
        except (RolloutError, OSError) as error:
            raise RolloutError(self._lost(error)) from None
        answer: Answer = found
        return answer

    def _lost(self, error: Exception) -> str:
        """Say in every session that its play is gone, and why; return it."""
        with self._lock:
            pool, self._pool = self._pool, None
            cause, self._left = self._left or f"{str(error).partition(';')[0].rstrip('.')}.", ""
            why = f"{ENDED} {cause} Begin a new session."
            for session in self._sessions.values():
                session.state = {**session.state, "phase": "failed", "trouble": why}
        if pool is not None:
            pool.close(at_once=True)
        return why


@dataclass(slots=True)
class Session:
    """What the server knows of a session."""

    key: str  # that the page gave it
    run: str  # its name, or ""
    state: Answer = field(default_factory=dict)
    job: Job | None = None  # the one that goes on
    coming: Future[Answer] | None = None
    waits: str = ""  # what for, in words
    since: float = 0.0
    used: float = 0.0

    @property
    def judging(self) -> bool:
        """Whether nothing but the judgement of a finished play is waited for."""
        return self.job is not None and self.job[0] == "judge"

    def collect(self) -> None:
        """Take the answer that has come, if one has; the caller holds the lock."""
        if self.coming is None or not self.coming.done():
            return
        coming, self.coming, self.job = self.coming, None, None
        try:
            found = coming.result()
        except CancelledError:
            return  # it was left
        except RolloutError as error:
            self.state = {**self.state, "phase": "failed", "trouble": one_line(error)}
            return
        if "error" not in found:
            self.state = found
        elif self.state:
            self.state = {**self.state, "trouble": found["error"]}
        else:  # it never began
            self.state = {"phase": "failed", "trouble": found["error"]}
