"""Errors of plug-ins name the plug-in and its option, and a call that does not return is interrupted."""

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

HALF_A_SECOND = {"seconds": 0.5}


def loop_forever():
    while True:
        pass


@pytest.mark.parametrize(
    "hanging_function",
    [loop_forever, lambda: time.sleep(60), lambda: threading.Lock().acquire() and threading.Event().wait()],
)
def test_a_call_that_does_not_return_is_interrupted(hanging_function):
    start_time = time.monotonic()
    message = r"The oracle 'slow' \(environments.N.oracle\) has not returned for 0.5 seconds.*call_seconds"
    with (
        CallWatch(**HALF_A_SECOND),
        pytest.raises(HungError, match=message),
        PluginCall("oracle 'slow' (environments.N.oracle)"),
    ):
        hanging_function()
    assert time.monotonic() - start_time < 20
    assert guard._calls == []


@pytest.mark.slow
def test_calls_that_return_in_time_are_not_interrupted():
    with CallWatch(1.2):  # more than the sleeps below, as a busy machine may prolong them
        for _ in range(6):
            with PluginCall("game 'x'"):
                time.sleep(0.25)
        with PluginCall("games") as call:
            for _turn in range(6):
                call.now = object()
                time.sleep(0.25)
        time.sleep(1.6)  # outside of any plug-in
    with CallWatch(0), PluginCall("game 'x'"):
        time.sleep(0.8)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_the_innermost_watch_sets_the_limit():
    with CallWatch(**HALF_A_SECOND):
        assert guard.call_limit_seconds() == 0.5
        with CallWatch(60.0), PluginCall("game 'x'"):
            assert guard.call_limit_seconds() == 60.0
            time.sleep(0.8)
        with CallWatch(0), PluginCall("game 'x'"):
            time.sleep(0.8)
    assert guard.call_limit_seconds() == guard.CALL_LIMIT_SECONDS


def test_other_threads_are_not_interrupted():
    finished_calls = []

    def call_plugin():
        with PluginCall("game 'x'"):
            time.sleep(0.8)
            finished_calls.append(True)

    with CallWatch(**HALF_A_SECOND):
        thread = threading.Thread(target=call_plugin)
        thread.start()
        thread.join()
    assert finished_calls == [True]


def test_an_error_in_a_plug_in_names_the_plug_in():
    with (
        pytest.raises(
            PluginError, match=r"The reward 'mine' \(rewards.N\) failed in test_guard.py, line \d+: ZeroDivisionError: "
        ) as error_info,
        PluginCall("reward 'mine' (rewards.N)"),
    ):
        _ = 1 // 0
    assert isinstance(error_info.value.__cause__, ZeroDivisionError)
    for error in (ConfigError("as it is"), KeyboardInterrupt()):
        with pytest.raises(type(error)), PluginCall("reward 'mine'"):
            raise error


def start_python(code, **options):
    imports = "import itertools, logging, os, time\nfrom sparring.config.plugins import guard\nfrom sparring.config.plugins.guard import PluginCall, CallWatch\nlogging.basicConfig()\n"
    return subprocess.Popen(
        [sys.executable, "-c", imports + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


CODE_THAT_IGNORES_EXCEPTIONS = """
guard.GRACE_SECONDS = 0.3
with CallWatch(0.2), PluginCall("agent 'deaf' (bots)"):
    while True:
        try:
            time.sleep(60)
        except Exception:
            pass
"""
CODE_THAT_HOLDS_THE_LOCK = """
guard.GRACE_SECONDS = 0.2
with CallWatch(2.0), PluginCall("game 'in C'"):
    time.sleep(1.0)  # until the watch has noticed the call
    sum(itertools.repeat(0))  # holds the interpreter lock, in C
"""


@pytest.mark.parametrize(
    ("code", "exit_code", "message"),
    [
        (CODE_THAT_IGNORES_EXCEPTIONS, guard.EXIT_CODE, "The agent 'deaf' (bots) has not returned for 0.2 seconds"),
        (CODE_THAT_HOLDS_THE_LOCK, 1, "Timeout"),
    ],
    ids=["goes on", "holds the lock"],
)
def test_a_call_that_cannot_be_interrupted_ends_the_process(code, exit_code, message):
    process = start_python(code)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, message in errors) == (exit_code, True), errors


def test_the_time_of_a_stopped_process_does_not_count():
    process = start_python(
        "print('on', flush=True)\nwith CallWatch(2.0), PluginCall('game'):\n    time.sleep(1.0)\nprint('done')"
    )
    assert process.stdout.readline() == "on\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(process.pid, signal.SIGCONT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "done\n"), errors


def test_a_forked_process_has_a_watch_that_ends():
    """The fork happens after the watch has started a thread for faulthandler, which the child process does not have."""
    code = "with CallWatch(4.0), PluginCall('game'):\n    time.sleep(0.5)\n    pid = os.fork()\n    with CallWatch(4.0):\n        time.sleep(0.5)\n"
    process = start_python("import os\n" + code + "if pid:\n    os.waitpid(pid, 0)\n    print('both ended')")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "both ended\n"), errors
