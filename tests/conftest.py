"""Settings and fixtures of all tests, for example a small pretrained chat model in a folder.

Torch uses one thread, so results do not depend on the number of cores.

`make` installs all packages that tests need and sets SPARRING_NO_SKIPS; a skipped test is then a failure.

Tests of Hypothesis have no deadline, since the time of an example depends on the machine. `make` uses fixed examples, so that a result
depends only on the commit; `python -m pytest` draws new examples. By default a test has 100 examples, in `make check` 20;
`make check-all` runs all tests of Hypothesis with 100. Tests that act at every place of a run, for example kill the run there, take an
equal share of the places (fixture `places`).

A test is slow if it has the marker or is listed in tests/slow.txt, which `--measure-slow` writes; all other tests are quick. If
SPARRING_NO_SKIPS is set, a quick test fails if its call takes more than QUICK seconds of processor time. This includes the processes
that the test starts and excludes first imports.

SPARRING_ROTATION=COMMIT/N selects one of N slow tests and one of N places by the hash of the commit. Tests with the marker `always` are
always run. Without the variable all tests are run.
"""

import gc
import importlib
import os
import resource
import shlex
import subprocess
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sparring.models.render.chat_templates import CHATML

EXAMPLES = int(os.environ.get("SPARRING_EXAMPLES", "100"))
hypothesis_settings.register_profile(
    "sparring",
    deadline=None,
    max_examples=EXAMPLES,
    derandomize=bool(os.environ.get("SPARRING_NO_SKIPS")),
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
hypothesis_settings.load_profile("sparring")


QUICK = 2.0  # seconds of processor time that the call of a quick test may take
SLOW = Path(__file__).parent / "slow.txt"
NUMBERS = (
    "columns",
    "contract",
    "credit",
    "learn",
    "losses",
    "measure",
    "ops",
    "rewards",
)  # packages whose tests stay quick up to 0.8 s
HEAD = """# Tests that are slow by measure: seconds of processor time of the dearest case, and its name (without parameters: all cases).
# Written by: SPARRING_EXAMPLES=20 .venv/bin/python -m pytest --measure-slow 0.25 (of a part of the tests: what is not run stays).
"""


def pytest_addoption(parser):
    parser.addoption(
        "--measure-slow",
        type=float,
        metavar="SECONDS",
        help="list in tests/slow.txt what takes longer than this, or eight times this in all its cases, and has no marker",
    )


def listed():
    """Return the seconds of each test in tests/slow.txt; the file may be missing, since tests/architecture copies only this module."""
    lines = SLOW.read_text(encoding="utf-8").splitlines() if SLOW.is_file() else []
    pairs = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {name: float(seconds) for seconds, name in pairs}


def rotation():
    """Return the number of this commit and N, where one of N slow tests is run; None if all are run."""
    text = os.environ.get("SPARRING_ROTATION", "")
    if not text:
        return None
    commit, _, parts = text.partition("/")
    try:
        return int(commit, 16), max(1, int(parts))
    except ValueError:
        raise pytest.UsageError(f"SPARRING_ROTATION={text!r} is no COMMIT/N, such as 1a2b3c/5") from None


def is_due(name, turn):
    """Return whether a slow test is run at this commit; all processes get an equal answer."""
    return turn is None or (zlib.crc32(name.encode()) + turn[0]) % turn[1] == 0


@pytest.fixture(scope="session")
def stride():
    """Return n if a long test takes every n-th case: 5 in `make check`, otherwise 1."""
    return max(1, 100 // EXAMPLES)


def places_of(stride):
    """Return a function as ``range`` that returns every stride-th place; at which it begins depends on SPARRING_ROTATION."""
    shift = (rotation() or (0, 1))[0]
    return lambda start, stop, step=1: range(start + step * (shift % stride), stop, step * stride)


@pytest.fixture(scope="session")
def places(stride):
    """Return a function like ``range`` that leaves out the places of a run that are not tested at this commit."""
    return places_of(stride)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the tests listed in tests/slow.txt, and leave out slow tests that are run at a different commit.

    Names with a memory address are refused, because workers of pytest-xdist then have different names and run no test.
    """
    unstable = [item.nodeid for item in items if " object at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(
            f"name the parameters of {unstable[0]} with ids=[...]: its name changes with every process"
        )
    slow_tests, rotated = listed(), rotation()
    deselected = []
    for item in items:
        if item.nodeid in slow_tests or item.nodeid.partition("[")[0] in slow_tests:
            item.add_marker("slow")
        if (
            item.get_closest_marker("slow")
            and not item.get_closest_marker("always")
            and not is_due(item.nodeid, rotated)
        ):
            deselected.append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in set(deselected)]


def pytest_collection_finish():
    """Exclude the million objects of libraries and tests from garbage collection."""
    gc.collect()
    gc.freeze()


def timed(find_and_load):
    """Return the import function with a timer, which adds processor seconds to ``timed.seconds``."""

    def find(*arguments):
        if timed.depth or os.getpid() != timed.process:
            return find_and_load(*arguments)
        timed.depth, start_seconds = 1, time.process_time()
        try:
            return find_and_load(*arguments)
        finally:
            timed.depth = 0
            timed.seconds += time.process_time() - start_seconds

    return find


timed.depth, timed.seconds, timed.process = 0, 0.0, os.getpid()
importlib._bootstrap._find_and_load = timed(
    importlib._bootstrap._find_and_load
)  # called for a module that is not there yet


def processor_seconds():
    """Return the processor time of this process and its finished child processes, without first imports."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) - timed.seconds


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    start_seconds = processor_seconds()
    try:
        return (yield)
    finally:
        item.user_properties.append(("seconds", round(processor_seconds() - start_seconds, 2)))


def check_time(item, report):
    """Return the report of a test. A quick test that took long has failed; a failed slow test shows the command to repeat it."""
    seconds = dict(item.user_properties).get("seconds", 0.0)
    is_slow = item.get_closest_marker("slow")
    if (
        os.environ.get("SPARRING_NO_SKIPS")
        and report.when == "call"
        and report.passed
        and not is_slow
        and seconds > QUICK
    ):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} took {seconds} s of processor time, where a quick test may take {QUICK} s. Make it smaller, mark it "
            f'@pytest.mark.slow, or add to tests/slow.txt the line "{seconds} {item.nodeid.partition("[")[0]}"'
        )
    if report.failed and is_slow and rotation():
        report.sections.append(("repeat it", f".venv/bin/python -m pytest {shlex.quote(item.nodeid)}"))
    return report


def check_skip(report):
    """Return the report of a test or a file. If SPARRING_NO_SKIPS is set, a skipped test has failed.

    A reason that begins with "platform: " is allowed; it names a property of the machine that cannot be installed.
    """
    if os.environ.get("SPARRING_NO_SKIPS") and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        if not reason.startswith("platform: "):
            report.outcome = "failed"
            report.longrepr = f"skipped, where SPARRING_NO_SKIPS forbids it: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return check_time(item, check_skip((yield)))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return check_skip((yield))


class Measure:
    """Seconds of all calls of a run, of which tests/slow.txt becomes the list of the dearest."""

    def __init__(self, limit):
        self.limit, self.seconds = limit, {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and not ("slow" in report.keywords and not self.is_listed(report.nodeid)):
            self.seconds[report.nodeid] = dict(report.user_properties)["seconds"]

    def is_listed(self, name):
        return name in listed() or name.partition("[")[0] in listed()

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workerinput"):
            return
        tests = {}
        for name, seconds in self.seconds.items():
            tests.setdefault(name.partition("[")[0], {})[name] = seconds
        names = {
            name: seconds
            for name, seconds in listed().items()
            if name not in self.seconds and name.partition("[")[0] not in tests
        }
        for test, cases in tests.items():
            limit = max(self.limit, 0.8) if {*Path(test).parts} & {*NUMBERS} else self.limit
            slow_cases = {name: seconds for name, seconds in cases.items() if seconds > limit}
            is_mostly_slow = 2 * len(slow_cases) > len(cases) or (len(cases) > 1 and sum(cases.values()) > 8 * limit)
            names |= {test: max(cases.values())} if is_mostly_slow else slow_cases
        lines = [
            f"{seconds:.2f} {name}\n" for name, seconds in sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))
        ]
        SLOW.write_text(HEAD + "".join(lines), encoding="utf-8")


def pytest_configure(config):
    if limit := config.getoption("--measure-slow"):
        config.pluginmanager.register(Measure(limit))


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def chat_folder(tmp_path_factory):
    """Return the folder of a random Llama with a byte-level tokenizer and a chat template."""
    folder = tmp_path_factory.mktemp("chat") / "model"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(tokenizer_models.BPE({char: index for index, char in enumerate(alphabet)}, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, additional_special_tokens=["<|im_start|>", "<|im_end|>"])
    tokenizer.chat_template = CHATML
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """Return the folder of a tiny model that knows Kuhn poker's words: a GPT-2 of transformers, which takes adapters."""
    from sparring.config import resolve
    from sparring.engine.local import LocalEngine

    folder = tmp_path_factory.mktemp("tiny") / "model"
    model_options = {"hidden_size": 16, "layers": 1}
    LocalEngine(resolve({"environments": [{"name": "kuhn_poker"}], "model": model_options, "threads": 1})).model.save(
        folder
    )
    return folder


@pytest.fixture
def forked(monkeypatch):
    """Start further learners as forks, in tests of the files of a run.

    A test that uses worker threads cannot use it: a fork never releases the locks that threads hold.
    """
    from tests.forked import popen

    monkeypatch.setattr(
        "sparring.core.child_process.subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": popen})
    )


@pytest.fixture
def saved(tmp_path_factory):
    """Return a function that saves an engine and returns the contents by file name."""

    def contents(engine):
        folder = tmp_path_factory.mktemp("saved")
        engine.save(folder)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    return contents
