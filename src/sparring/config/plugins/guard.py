"""Calls of plug-ins: an exception names the plug-in, and a call that does not come back is noticed.

A call stands on a list while it lasts. A ``Watch`` lets a timer's signal come to the main thread,
whose handler looks at the innermost call and raises ``HungError`` inside it when it has lasted
longer than the limit. Python code and waiting (sleep, sockets, locks) are interrupted so. Code that
catches the error and goes on ends the process ``GRACE`` seconds later with exit code ``EXIT``; code
in C that gives Python no turn ends it by faulthandler, with the trace of all threads. The last
checkpoint is good in both cases, and --resume goes on.

The watch works in the main thread of Linux and macOS. Time in which the process is stopped, as by
Ctrl-Z, does not count.
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

from sparring.core.errors import HungError, PluginError, SparringError

log = logging.getLogger(__name__)
LIMIT = 1800.0  # seconds that a call may last where nothing else is said
GRACE = 30.0  # seconds after the limit until the process is ended
TICK = 10.0  # seconds between looks at most; 20 looks fit into the limit
EXIT = 75  # exit code: a temporary failure, after which one may go on
OPTION = "call_seconds"  # the configuration's key of the limit

_MAIN = threading.main_thread().ident  # calls of other threads are not watched

# A fork has no copy of faulthandler's thread, and would wait for it without end when it cancels it.
os.register_at_fork(before=faulthandler.cancel_dump_traceback_later)

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
    message = f": {error}" if str(error) else ""
    return PluginError(
        f"The {call} failed{place}: {type(error).__name__}{message}. SPARRING_DEBUG=1 shows the "
        "trace."
    )


def limit() -> float:
    """Return the seconds that a call may last now; 0 is no limit."""
    return _watches[-1].seconds if _watches else LIMIT


class Watch:
    """Context in which calls that last longer than so many seconds are interrupted; 0: no limit.

    The innermost watch is in force.
    """

    def __init__(self, seconds: float = LIMIT) -> None:
        self.seconds, self.tick = seconds, min(seconds / 20, TICK)
        self._call: Call | None = None  # seen by the last look
        self._now: object = None  # of that call
        self._lasted, self._last_look, self._raised = 0.0, 0.0, False
        self._handlers: dict[signal.Signals, Any] = {}  # those of before
        self._timer = (0.0, 0.0)  # that of before

    def __enter__(self) -> Watch:
        _watches.append(self)
        main = threading.current_thread() is threading.main_thread()
        if self.seconds and main and hasattr(signal, "setitimer"):
            self._handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._look)
            if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
                self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, _pause)
            self._timer = signal.setitimer(signal.ITIMER_REAL, self.tick, self.tick)
        return self

    def __exit__(self, *error: object) -> None:
        if self._handlers:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            signal.setitimer(signal.ITIMER_REAL, *self._timer)
        _watches.remove(self)

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Look at the innermost call: interrupt it after the limit, and end the process later."""
        before, self._last_look = self._last_look, time.monotonic()
        call = _calls[-1] if _calls and _watches[-1] is self else None
        if call is None:
            self._call = None
            faulthandler.cancel_dump_traceback_later()
            return
        if call is self._call and call.now is self._now:
            # the rest of a longer pause was not its own
            self._lasted += min(self._last_look - before, 2 * self.tick)
        else:
            self._call, self._now, self._lasted, self._raised = call, call.now, 0.0, False
        if sys.__stderr__ is not None:  # ends the process where no further look comes
            after = self.seconds + 2 * GRACE
            faulthandler.dump_traceback_later(after, exit=True, file=sys.__stderr__)
        long = f"has not come back for {self.seconds:g} seconds, the limit of {OPTION}"
        message = f"The {call} {long}; mend it, or raise {OPTION} (0: no limit)."
        if self._lasted >= self.seconds + GRACE:
            log.critical(
                "%s The process ends here; its last checkpoint is good: go on with --resume.",
                message,
            )
            os._exit(EXIT)
        if self._lasted >= self.seconds and not self._raised:  # once: it may clean up
            self._raised = True
            raise HungError(message)


def _pause(number: int, frame: FrameType | None) -> None:
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
