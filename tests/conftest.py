"""What all tests share: one thread for torch, and a small pretrained chat model in a folder.

One thread, so that results do not depend on the machine's cores and workers do not crowd each other.

Where SPARRING_NO_SKIPS is set, as `make` does after it has installed all that tests need, a test that is skipped has failed.

No test of Hypothesis has a deadline: how long an example takes says how busy the machine is. Where `make` runs them, their examples are
the same every time, so that a commit is judged by what it changes; by hand (`python -m pytest`) they are others each time. Where a test
does not say how many they are, there are 100; in `make check`, 20: `make check-all` runs all tests of Hypothesis again, with 100. Tests that
do something at every place of a run, such as to kill it there, take the same share of places: `stride`.
"""

import gc
import os
import subprocess
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sparring.render.templates import CHATML

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


@pytest.fixture(scope="session")
def stride():
    """Return which of many cases a long test takes: 5, every fifth, in `make check`; 1, each of them, in `make check-all` and by hand."""
    return max(1, 100 // EXAMPLES)


def pytest_collection_modifyitems(items):
    """Refuse names that hold an address: workers of pytest-xdist would not agree on them, and none would run."""
    unstable = [item.nodeid for item in items if " object at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(f"name the parameters of {unstable[0]} with ids=[...]: its name changes with every process")


def pytest_collection_finish():
    """Leave what is there already, a million objects of libraries and tests, out of the cycle collector's walks."""
    gc.collect()
    gc.freeze()


def demanded(report):
    """Return the report of a test or a file; as a failure if it was skipped where nothing may be.

    What only the platform lacks, and nothing could install, says so: its reason begins with "platform: ".
    """
    if os.environ.get("SPARRING_NO_SKIPS") and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        if not reason.startswith("platform: "):
            report.outcome = "failed"
            report.longrepr = f"skipped, where SPARRING_NO_SKIPS forbids it: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return demanded((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return demanded((yield))


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


@pytest.fixture
def forked(monkeypatch):
    """Let further learners be forks: where a test compares what runs leave behind, and not how processes begin.

    Not where another thread computes while one begins: in a fork the locks that it held are never released. So no workers.
    """
    from tests.forked import popen

    monkeypatch.setattr("sparring.system.child.subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": popen}))


@pytest.fixture
def saved(tmp_path_factory):
    """A function that returns what an engine saves: contents by file name."""

    def contents(engine):
        folder = tmp_path_factory.mktemp("saved")
        engine.save(folder)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    return contents
