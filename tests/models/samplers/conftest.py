"""Fixtures that several tests of samplers share."""

import gc
import signal
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from sparring.models.samplers.vllm import replica as replicas

LIMIT = 180  # seconds that a test may wait for its test engine


@pytest.fixture
def limited():
    """Stop a test after LIMIT seconds, because replies have no time limit."""

    def raise_timeout(*_):
        raise TimeoutError(f"the test has not ended in {LIMIT} s")

    previous_handler = signal.signal(signal.SIGALRM, raise_timeout)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous_handler)


@pytest.fixture(scope="module")
def llama(chat_folder, tmp_path_factory):
    """Return the folder of a random Llama with an attention head size that vLLM supports."""
    folder = tmp_path_factory.mktemp("llama")
    AutoTokenizer.from_pretrained(chat_folder).save_pretrained(folder)
    config = AutoConfig.from_pretrained(chat_folder)
    config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim = 64, 2, 1, 32
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture
def faults(monkeypatch, tmp_path, limited):
    """Replace vLLM's engine by the fake one; ``inject_fault.folder`` is the folder of its faults."""
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv("SPARRING_FAKE_FAULTS", str(folder))
    monkeypatch.setenv("SPARRING_VLLM_PYTHON", sys.executable)
    monkeypatch.setattr(replicas, "ENGINE", Path(__file__).parent / "fake_vllm.py")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def inject_fault(fault, times=1):
        for index in range(times):
            (folder / f"{fault}-{index}").touch()

    inject_fault.folder = folder
    gc.freeze()  # objects collected below belong to this test
    yield inject_fault
    gc.collect()
    assert not list(tmp_path.glob("sparring-vllm-*")), "the folder of the weights was not removed"


@pytest.fixture
def torn(monkeypatch):
    """Return a list; each entry makes one weights file lose its last bytes after its digest was computed."""
    entries, original_digest = [], replicas.file_digest

    def digest(path):
        value = original_digest(path)
        if entries:
            entries.pop()
            path.write_bytes(path.read_bytes()[:-8])
        return value

    monkeypatch.setattr(replicas, "file_digest", digest)
    return entries
