"""Calls of plug-ins: what they raise names them, and a call that does not come back is noticed.

A call is put on a list while it lasts, which costs two moves of a pointer. While a ``Watch`` is on,
a thread looks at the list once a second. A call that has lasted longer than the limit is
interrupted: the main thread gets a signal, whose handler raises ``HungError`` inside the call.
Python code and waiting (sleep, sockets, locks) are interrupted so. Code that catches the error and
goes on, or code in C that gives Python no turn, is not: after a further ``GRACE`` seconds the
process ends with exit code ``EXIT``, by the thread with a message, or by Python's faulthandler with
the trace of all threads where not even the thread gets a turn. Ending so is a kill like any other:
the last checkpoint is good, and --resume goes on.

The watch works in the main thread of Linux and macOS; elsewhere nothing is watched. Time in which
the process is stopped, as by Ctrl-Z, does not count.
"""

from __future__ import annotations

import faulthandler
import functools
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType, FunctionType, TracebackType
from typing import Any, ParamSpec, TypeVar

from sparring.errors import HungError, PluginError, SparringError

log = logging.getLogger(__name__)
LIMIT = 1800.0  # seconds that a call may last where nothing else is said
GRACE = 30.0  # seconds after the limit until the process is ended
TICK = 1.0  # seconds between looks
EXIT = 75  # exit code: a temporary failure, after which one may go on
OPTION = "call_seconds"  # the configuration's key of the limit

_MAIN = threading.main_thread().ident  # calls of other threads are not watched

_P = ParamSpec("_P")
_T = TypeVar("_T")
_calls: list[Call] = []  # that have not come back, the innermost last
_watches: list[Watch] = []  # the last one is in force


class Call:
    """A call of a plug-in, as a context.

    ``now`` is what it works on; setting it to another object starts its time anew.

    Args:
        who: what is called; its text names it, such as "oracle 'minimax' (environments.N.oracle)".
            A function is asked for it, given ``now``.

    Raises:
        PluginError: on leaving, in place of an exception that is none of Sparring's.
    """

    __slots__ = ("now", "who")

    def __init__(self, who: object) -> None:
        self.who = who
        self.now: object = None

    def __enter__(self) -> Call:
        if threading.get_ident() == _MAIN:
            _calls.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if _calls and _calls[-1] is self:
            _calls.pop()
        if isinstance(error, Exception) and not isinstance(error, SparringError):
            raise failed(self, error) from error

    def __str__(self) -> str:
        return str(self.who(self.now) if isinstance(self.who, FunctionType) else self.who)


def failed(call: Call, error: Exception) -> PluginError:
    """Return the error of a plug-in that raised one of its own."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    said = f": {error}" if str(error) else ""
    return PluginError(
        f"The {call} failed{place}: {type(error).__name__}{said}. SPARRING_DEBUG=1 shows the trace."
    )


def limit() -> float:
    """Return the seconds that a call may last now; 0 is no limit."""
    return _watches[-1].seconds if _watches else LIMIT


class Watch:
    """Context in which calls that last longer than so many seconds are interrupted.

    It is 0 watches nothing. The innermost is in force.
    """

    def __init__(self, seconds: float = LIMIT, *, grace: float = GRACE, tick: float = TICK) -> None:
        self.seconds, self.grace, self.tick = seconds, grace, tick
        self._end = threading.Event()
        self._hung: tuple[Call, Any] | None = None
        self._previous: dict[signal.Signals, Any] = {}
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        _watches.append(self)
        main = threading.current_thread() is threading.main_thread()
        if self.seconds and main and hasattr(signal, "pthread_kill"):
            self._previous = {signal.SIGALRM: signal.signal(signal.SIGALRM, self._interrupt)}
            if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
                self._previous[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._pause)
            self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        _watches.remove(self)

    def _look(self) -> None:
        """Look at the innermost call once per tick.

        Interrupt it when it has lasted too long, and then end the process.
        """
        seen: tuple[Call, Any] | None = None
        lasted, last = 0.0, time.monotonic()
        while not self._end.wait(self.tick):
            before, last = last, time.monotonic()
            if _watches[-1] is not self:  # an inner one looks, and has set the alarm
                seen, lasted = None, 0.0
                continue
            call = _calls[-1] if _calls else None
            if call is None or seen is None or seen[0] is not call or seen[1] is not call.now:
                seen, lasted = None if call is None else (call, call.now), 0.0
            else:
                # the rest of a longer pause was not its own
                lasted += min(last - before, 2 * self.tick)
            self._arm(seen is not None)
            # once: what cleans up is let do so
            if seen is not None and lasted >= self.seconds and self._hung != seen:
                self._hung = seen
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
            if seen is not None and lasted >= self.seconds + self.grace:
                log.critical(
                    "%s The process ends here; its last checkpoint is good: go on with --resume.",
                    self._said(seen[0]),
                )
                os._exit(EXIT)
        self._arm(False)

    def _arm(self, on: bool) -> None:
        """Let the process be ended if this thread gets no turn for as long as a call may last."""
        if sys.__stderr__ is None:
            return
        if not on:
            faulthandler.cancel_dump_traceback_later()
            return
        # in place of the one before, in one call: between two the lock might go, and not come back
        faulthandler.dump_traceback_later(
            self.seconds + 2 * self.grace, exit=True, file=sys.__stderr__
        )

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raise in the main thread, if the call that was seen to hang is still going on."""
        hung = self._hung
        if hung is not None and _calls and _calls[-1] is hung[0] and hung[0].now is hung[1]:
            raise HungError(self._said(hung[0]))

    def _said(self, call: Call) -> str:
        """Return in words that a call hangs."""
        long = f"has not come back for {self.seconds:g} seconds, the limit of {OPTION}"
        return f"The {call} {long}; mend it, or raise {OPTION} (0: no limit)."

    def _pause(self, number: int, frame: FrameType | None) -> None:
        """Stop, as the terminal asks, with no alarm set that would ring on going on."""
        faulthandler.cancel_dump_traceback_later()
        os.kill(os.getpid(), signal.SIGSTOP)


def watched(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function that is run under a watch with the usual limit."""

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with Watch():
            return function(*args, **kwargs)

    return run
