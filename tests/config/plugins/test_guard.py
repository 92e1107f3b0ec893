"""A plug-in that raises is named with its option; one that does not come back is noticed, and nothing else is."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from sparring.config.plugins import guard
from sparring.config.plugins.guard import CallWatch, PluginCall
from sparring.core.errors import ConfigError, HungError, PluginError

FAST = {"seconds": 0.5}


def spin():
    while True:
        pass


@pytest.mark.parametrize(
    "hang", [spin, lambda: time.sleep(60), lambda: threading.Lock().acquire() and threading.Event().wait()]
)
def test_a_call_that_does_not_come_back_is_interrupted(hang):
    began = time.monotonic()
    message = r"The oracle 'slow' \(environments.N.oracle\) has not returned for 0.5 seconds.*call_seconds"
    with (
        CallWatch(**FAST),
        pytest.raises(HungError, match=message),
        PluginCall("oracle 'slow' (environments.N.oracle)"),
    ):
        hang()
    assert time.monotonic() - began < 20
    assert guard._calls == []


@pytest.mark.slow
def test_calls_that_come_back_are_left_alone():
    with CallWatch(1.2):  # a busy machine may stretch a sleep
        for _ in range(6):
            with PluginCall("game 'x'"):
                time.sleep(0.25)
        with PluginCall("games") as call:
            for _turn in range(6):
                call.now = object()
                time.sleep(0.25)
        time.sleep(1.6)  # no plug-in is at work
    with CallWatch(0), PluginCall("game 'x'"):
        time.sleep(0.8)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_the_innermost_watch_is_in_force():
    with CallWatch(**FAST):
        assert guard.limit() == 0.5
        with CallWatch(60.0), PluginCall("game 'x'"):
            assert guard.limit() == 60.0
            time.sleep(0.8)
        with CallWatch(0), PluginCall("game 'x'"):
            time.sleep(0.8)
    assert guard.limit() == guard.LIMIT


def test_other_threads_are_not_interrupted():
    done = []

    def work():
        with PluginCall("game 'x'"):
            time.sleep(0.8)
            done.append(True)

    with CallWatch(**FAST):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert done == [True]


def test_what_a_plug_in_raises_names_it():
    with (
        pytest.raises(
            PluginError, match=r"The reward 'mine' \(rewards.N\) failed in test_guard.py, line \d+: ZeroDivisionError: "
        ) as caught,
        PluginCall("reward 'mine' (rewards.N)"),
    ):
        _ = 1 // 0
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    for error in (ConfigError("as it is"), KeyboardInterrupt()):
        with pytest.raises(type(error)), PluginCall("reward 'mine'"):
            raise error


def child(code, **options):
    imports = "import itertools, logging, os, time\nfrom sparring.config.plugins import guard\nfrom sparring.config.plugins.guard import PluginCall, CallWatch\nlogging.basicConfig()\n"
    return subprocess.Popen(
        [sys.executable, "-c", imports + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


DEAF = """
guard.GRACE = 0.3
with CallWatch(0.2), PluginCall("agent 'deaf' (bots)"):
    while True:
        try:
            time.sleep(60)
        except Exception:
            pass
"""
LOCKED = """
guard.GRACE = 0.2
with CallWatch(2.0), PluginCall("game 'in C'"):
    time.sleep(1.0)  # the watch has seen the call
    sum(itertools.repeat(0))  # keeps Python's lock, in C
"""


@pytest.mark.parametrize(
    ("code", "exit_code", "message"),
    [(DEAF, guard.EXIT, "The agent 'deaf' (bots) has not returned for 0.2 seconds"), (LOCKED, 1, "Timeout")],
    ids=["goes on", "holds the lock"],
)
def test_what_cannot_be_interrupted_ends_the_process(code, exit_code, message):
    process = child(code)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, message in errors) == (exit_code, True), errors


def test_time_in_which_the_process_is_stopped_does_not_count():
    process = child(
        "print('on', flush=True)\nwith CallWatch(2.0), PluginCall('game'):\n    time.sleep(1.0)\nprint('done')"
    )
    assert process.stdout.readline() == "on\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(process.pid, signal.SIGCONT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "done\n"), errors


def test_a_fork_ends_its_own_watch():
    """The watch has looked when the process forks, so that faulthandler waits in a thread, which a fork does not have."""
    code = "with CallWatch(4.0), PluginCall('game'):\n    time.sleep(0.5)\n    pid = os.fork()\n    with CallWatch(4.0):\n        time.sleep(0.5)\n"
    process = child("import os\n" + code + "if pid:\n    os.waitpid(pid, 0)\n    print('both ended')")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "both ended\n"), errors
