"""Real worker processes are killed, stopped and sent damaged files; none outlives the training process or opens a port."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparring.core.errors import HungError, RolloutError
from sparring.engine.workers.fleet import processes
from sparring.engine.workers.fleet.base import WorkerMessage
from sparring.engine.workers.fleet.processes import ProcessFleet
from sparring.engine.workers.units import numbers_of

WORKERS = ("scale.fleet=processes", "scale.workers=2")
COUNT_NAMES = ("lost_workers", "resent_units", "timed_out_units", "duplicate_units", "refused_weights")
END_SECONDS = 10.0  # seconds until workers must have ended after the training process
LISTENING_CODE = "0A"  # the code of a listening socket in /proc/net/tcp
LINUX_ONLY = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="platform: reads /proc")


class FaultInjectingFleet:
    elastic, has_processes = False, True

    def __init__(self, fleet):
        self.fleet, self.workers, self.faults = (
            fleet,
            fleet.workers,
            {8: "kill", 16: "stop", 24: "twice", 32: "rubbish", 40: "tear"},
        )
        self.answer_faults = {}  # by worker
        self.listening = set()

    def __getattr__(self, name):
        return getattr(self.fleet, name)

    def send(self, worker, message, files):
        fault = self.faults.pop(numbers_of(message)[0], None)
        pid = self.fleet.pids.get(worker)
        self.listening |= listening_sockets([os.getpid(), *self.fleet.pids.values()]) if fault else set()
        if fault == "stop":
            os.kill(pid, signal.SIGSTOP)
        if fault == "tear":
            for path in files.values():
                path.write_bytes(path.read_bytes()[:-9])
        if fault in ("twice", "rubbish"):
            self.answer_faults[worker] = fault
        self.fleet.send(worker, message, files)
        if fault == "kill":
            time.sleep(0.01)
            os.kill(pid, signal.SIGKILL)

    def poll(self, seconds):
        messages = []
        for message in self.fleet.poll(seconds):
            answer_fault = (
                self.answer_faults.pop(message.worker, None)
                if message.message and b'"units"' in message.message
                else None
            )
            messages += (
                [WorkerMessage(message.worker, b"what?")]
                if answer_fault == "rubbish"
                else [message] * (1 + (answer_fault == "twice"))
            )
        return messages


def listening_sockets(pids):
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    inodes = {f"socket:[{fields[9]}]" for fields in lines if fields[3] == LISTENING_CODE}
    sockets = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets |= {(pid, os.readlink(link))} if os.readlink(link) in inodes else set()
            except OSError:
                continue  # the descriptor was closed in the meantime
    return sockets


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids):
    deadline = time.monotonic() + END_SECONDS
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_alive, pids))


@pytest.mark.slow
@LINUX_ONLY
def test_kills_stops_repeats_corruption_and_truncation_change_no_byte(tmp_path, train_kuhn_run):
    fleets = []

    def wrap_fleet(fleet):
        fleets.append(FaultInjectingFleet(fleet))
        return fleets[0]

    run_without_workers = train_kuhn_run(tmp_path / "alone", "steps=7")
    changes = ("steps=7", *WORKERS, "scale.timeout=3")
    run_with_workers = train_kuhn_run(tmp_path / "workers", *changes, wrap_fleet=wrap_fleet)
    assert run_with_workers.bytes == run_without_workers.bytes and not fleets[0].faults and not fleets[0].listening
    counts = [{name: line[name] for name in COUNT_NAMES if line[name]} for line in run_with_workers.timing]
    assert counts[0] == counts[6] == {}
    assert counts[1] == {"lost_workers": 1, "resent_units": counts[1]["resent_units"]}
    num_resent = counts[2]["resent_units"]
    assert counts[2] == {"lost_workers": 1, "resent_units": num_resent, "timed_out_units": num_resent}
    assert counts[3].keys() == {"duplicate_units"}
    assert counts[4].keys() == {"lost_workers", "resent_units"} and counts[4]["lost_workers"] == 1
    assert counts[5] == {"refused_weights": 1}
    assert not (tmp_path / "workers" / "weights").exists() and not fleets[0].fleet.pids


BUSY_WORKER_SCRIPT = """
import os, sys, time
from sparring.engine.workers.fleet import processes
work = "processes.end_with_parent(); os.write({write_fd}, bytes([0, 0, 0, 2]) + b'up')\\nwhile True: time.sleep(0.01)"
processes.CODE = "import os, sys, time; sys.path[:] = {path!r}; from sparring.engine.workers.fleet import processes; " + work + " # {module} {read_fd}"
fleet = processes.ProcessFleet({}, 1)
fleet.start(0)
assert fleet.poll(60.0)
print(fleet.pids[0], flush=True)
time.sleep(120)
"""


@LINUX_ONLY
def test_a_busy_worker_does_not_outlive_the_training_process():
    parent = subprocess.Popen([sys.executable, "-c", BUSY_WORKER_SCRIPT], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    assert wait_until_gone([pid])


LIGHT_WORKER_CODE = "import os, sys, time; {body} # {{path!r}} {{module}} {{read_fd}} {{write_fd}}"


def use_light_worker(monkeypatch, body):
    monkeypatch.setattr(processes, "CODE", LIGHT_WORKER_CODE.format(body=body.replace("SAY", "{write_fd}")))


@pytest.fixture
def fleet():
    process_fleet = ProcessFleet({}, 1)
    yield process_fleet
    process_fleet.close()


def messages_until_end(fleet, seconds=20.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if messages := fleet.poll(0.2):
            return messages
    return []


@LINUX_ONLY
def test_a_death_is_noticed_although_a_child_holds_the_pipe(monkeypatch, fleet, tmp_path):
    path = tmp_path / "child"
    use_light_worker(
        monkeypatch, f"child = os.fork(); child and open({str(path)!r}, 'w').write(str(child)); time.sleep(60)"
    )
    fleet.start(0)
    while not (path.exists() and path.read_text()):
        time.sleep(0.05)
    os.kill(fleet.pids[0], signal.SIGKILL)
    assert messages_until_end(fleet) == [WorkerMessage(0, None)] and fleet.pids == {}
    assert wait_until_gone([int(path.read_text())])


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ("os.write(SAY, b'\\xff\\xff\\xff\\xff' + b'\\x7f' * 8); time.sleep(60)", [None]),
        ("os.write(SAY, b'\\x00\\x00\\x00\\x63abc'); sys.exit()", [None]),
        ("os.write(SAY, b'\\x00\\x00\\x00\\x03abc'); sys.exit()", [b"abc", None]),
    ],
    ids=["an absurd length", "half a message", "a message and the end"],
)
def test_a_message_of_a_worker_arrives_completely_or_ends_it(monkeypatch, fleet, body, messages):
    use_light_worker(monkeypatch, body)
    fleet.start(0)
    contents = []
    while len(contents) < len(messages):
        contents += [message.message for message in messages_until_end(fleet)] or [...]
    assert contents == messages and fleet.pids == {}


def test_a_restarted_worker_is_ended_first_and_its_messages_are_dropped(monkeypatch, fleet):
    use_light_worker(monkeypatch, "time.sleep(60)")
    fleet.start(0)
    first_pid = fleet.pids[0]
    fleet.start(0)
    assert fleet.pids[0] != first_pid and wait_until_gone([first_pid])
    assert fleet.poll(0.3) == []


def test_sending_to_a_dead_worker_is_no_error_and_close_ends_all(monkeypatch, fleet):
    use_light_worker(monkeypatch, "time.sleep(0.2)")
    fleet.start(0)
    time.sleep(0.5)
    fleet.send(0, b"x" * 10_000_000, {})
    assert messages_until_end(fleet) == [WorkerMessage(0, None)]
    fleet.send(0, b"x", {})
    use_light_worker(monkeypatch, "time.sleep(60)")
    fleet.start(0)
    pid = fleet.pids[0]
    fleet.send(0, b"x" * 10_000_000, {})  # larger than the pipe, and the worker does not read
    fleet.close()
    assert wait_until_gone([pid])


ORACLE_MODULE = '''
import os
import time

SLOT = "oracles"
PLUGINS = ("{name}",)
from sparring.methods.oracles.base import CachedOracle


class FailingOracle(CachedOracle):
    def covers(self, game):
        return ""

    def compute_verdicts(self, states):
        {body}


def {name}():
    """An oracle that fails."""
    return FailingOracle("{name}")
'''
ORACLE_BODIES = {"deadly": "os._exit(9)", "hanging": "time.sleep(60)", "broken": "return 1 // 0"}


def write_oracle(tmp_path, monkeypatch, name):
    (tmp_path / f"{name}_oracle.py").write_text(ORACLE_MODULE.format(name=name, body=ORACLE_BODIES[name]))
    monkeypatch.syspath_prepend(tmp_path)
    return f"environments.0.oracle={{name: {name}_oracle.{name}}}"


@pytest.mark.slow
def test_a_unit_that_kills_workers_is_given_up_with_the_replay_command(tmp_path, train_kuhn_run, monkeypatch):
    oracle = write_oracle(tmp_path, monkeypatch, "deadly")
    with pytest.raises(RolloutError, match=rf"has ended 5 workers.*sparring replay-unit {tmp_path / 'run'} 1 \d\.$"):
        train_kuhn_run(tmp_path / "run", "steps=1", oracle, *WORKERS)


@pytest.mark.slow
def test_a_hanging_plug_in_has_the_same_error_with_and_without_workers(tmp_path, train_kuhn_run, monkeypatch):
    oracle, errors = write_oracle(tmp_path, monkeypatch, "hanging"), []
    for run_name, changes in (("alone", ()), ("workers", WORKERS)):
        with pytest.raises(HungError) as error:
            train_kuhn_run(tmp_path / run_name, "steps=1", "call_seconds=2", oracle, *changes)
        errors.append((type(error.value), str(error.value)))
    assert errors[0] == errors[1]


@LINUX_ONLY
@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_a_killed_or_interrupted_run(tmp_path, signal_number):
    run = tmp_path / "run"
    command = ["train", "kuhn-tiny", "--run", str(run), "threads=1", "warmup.updates=0", *WORKERS]
    code = f"import sys; sys.argv = ['sparring', *{command!r}]; from sparring.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not ((run / "metrics.jsonl").exists() and (run / "metrics.jsonl").read_text().count("\n") > 1):
        assert process.poll() is None
        time.sleep(0.1)
    children = [
        int(pid)
        for task in Path(f"/proc/{process.pid}/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]
    assert len(children) >= 2
    assert listening_sockets([process.pid, *children]) == set()
    if signal_number == signal.SIGKILL:
        os.kill(children[-1], signal.SIGSTOP)  # the launcher of workers has ended too
    process.send_signal(signal_number)
    process.wait(60)
    assert wait_until_gone(children)
    if signal_number == signal.SIGINT:
        assert any((run / "checkpoints").iterdir()) and not (run / "weights").exists()
