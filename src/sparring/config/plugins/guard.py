"""Guards calls of plug-ins: names the plug-in of an exception, and interrupts calls that hang.

Running calls are on a list. ``CallWatch`` sets a timer, whose signal handler in the main thread
checks the innermost call. After the limit it raises ``HungError`` inside the call, which interrupts
Python code and waiting (sleep, sockets, locks). If the plug-in catches the error and continues, the
process ends ``GRACE_SECONDS`` later with exit code ``EXIT_CODE``. If C code never returns,
faulthandler ends the process and prints the traceback of all threads. In both cases the last
checkpoint is good, and --resume continues from it.

The watch works in the main thread on Linux and macOS. Time while the process is paused (Ctrl-Z)
does not count.
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
CALL_LIMIT_SECONDS = 1800.0  # default limit of a call in seconds
GRACE_SECONDS = 30.0  # seconds from the limit to the end of the process
MAX_TICK_SECONDS = 10.0  # longest time between two checks; a limit has at least 20 checks
EXIT_CODE = 75  # means a temporary failure
LIMIT_OPTION = "call_seconds"  # the configuration's key of the limit

_MAIN = threading.main_thread().ident  # calls of other threads are not watched

# A forked process has no faulthandler thread, and cancelling would wait for it forever.
os.register_at_fork(before=faulthandler.cancel_dump_traceback_later)

_P = ParamSpec("_P")
_T = TypeVar("_T")
_calls: list[PluginCall] = []  # running calls; the innermost call is last
_watches: list[CallWatch] = []  # the last watch is active


class PluginCall:
    """A call of a plug-in, as a context.

    ``now`` is the object that the call works on; the time starts again with another object.

    Args:
        plugin: the plug-in, or a function that returns it, given ``now``. Errors have its text as
            name, such as "oracle 'minimax' (environments.N.oracle)".

    Raises:
        PluginError: replaces any other exception when the context ends.
    """

    __slots__ = ("now", "plugin")

    def __init__(self, plugin: object) -> None:
        self.plugin = plugin
        self.now: object = None

    def __enter__(self) -> PluginCall:
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
            raise plugin_error(self, error) from error

    def __str__(self) -> str:
        return str(self.plugin(self.now) if isinstance(self.plugin, FunctionType) else self.plugin)


def plugin_error(call: PluginCall, error: Exception) -> PluginError:
    """Return the PluginError for an exception that a plug-in raised."""
    frames = traceback.extract_tb(error.__traceback__)
    location = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    message = f": {error}" if str(error) else ""
    return PluginError(
        f"The {call} failed{location}: {type(error).__name__}{message}. SPARRING_DEBUG=1 shows the "
        "trace."
    )


def call_limit_seconds() -> float:
    """Return the current limit of a call in seconds; 0 is no limit."""
    return _watches[-1].seconds if _watches else CALL_LIMIT_SECONDS


class CallWatch:
    """Context that interrupts plug-in calls after a limit in seconds; 0: no limit.

    If contexts are nested, the innermost one is active.
    """

    def __init__(self, seconds: float = CALL_LIMIT_SECONDS) -> None:
        self.seconds, self.tick = seconds, min(seconds / 20, MAX_TICK_SECONDS)
        self._call: PluginCall | None = None  # innermost call at the last check
        self._now: object = None  # ``now`` of this call at the last check
        self._elapsed, self._last_check, self.has_raised = 0.0, 0.0, False
        self._handlers: dict[signal.Signals, Any] = {}  # previous handlers
        self._timer = (0.0, 0.0)  # previous timer

    def __enter__(self) -> CallWatch:
        _watches.append(self)
        is_main_thread = threading.current_thread() is threading.main_thread()
        if self.seconds and is_main_thread and hasattr(signal, "setitimer"):
            self._handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._check)
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

    def _check(self, number: int, frame: FrameType | None) -> None:
        """Check the innermost call: after the limit interrupt it, and later end the process."""
        last_check, self._last_check = self._last_check, time.monotonic()
        call = _calls[-1] if _calls and _watches[-1] is self else None
        if call is None:
            self._call = None
            faulthandler.cancel_dump_traceback_later()
            return
        if call is self._call and call.now is self._now:
            # a longer pause of the process does not count
            self._elapsed += min(self._last_check - last_check, 2 * self.tick)
        else:
            self._call, self._now, self._elapsed, self.has_raised = call, call.now, 0.0, False
        if sys.__stderr__ is not None:  # ends the process if the next check does not come
            deadline = self.seconds + 2 * GRACE_SECONDS
            faulthandler.dump_traceback_later(deadline, exit=True, file=sys.__stderr__)
        problem = f"has not returned for {self.seconds:g} seconds, the limit of {LIMIT_OPTION}"
        message = f"The {call} {problem}; repair it, or raise {LIMIT_OPTION} (0: no limit)."
        if self._elapsed >= self.seconds + GRACE_SECONDS:
            log.critical(
                "%s The process ends here; its last checkpoint is good: continue with --resume.",
                message,
            )
            os._exit(EXIT_CODE)
        if self._elapsed >= self.seconds and not self.has_raised:  # once: the call can clean up
            self.has_raised = True
            raise HungError(message)


def _pause(number: int, frame: FrameType | None) -> None:
    """Handle Ctrl-Z: cancel the pending alarm, and pause the process."""
    faulthandler.cancel_dump_traceback_later()
    os.kill(os.getpid(), signal.SIGSTOP)


def with_watch(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function that runs under a watch with the default limit."""

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with CallWatch():
            return function(*args, **kwargs)

    return run
