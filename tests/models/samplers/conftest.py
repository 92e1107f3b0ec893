"""What several tests of samplers need."""

import gc
import signal
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from sparring.models.samplers.vllm import replica as replicas

LIMIT = 180  # seconds of a test whose replies wait for an engine of these tests


@pytest.fixture
def limited():
    """End a test that waits for what does not come; replies have no limit of their own."""

    def late(*_):
        raise TimeoutError(f"the test has not ended in {LIMIT} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def llama(chat_folder, tmp_path_factory):
    """The folder of a random Llama whose heads vLLM has attention for."""
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
    """An engine of these tests in place of vLLM's; the folder of its faults is ``happen.folder``."""
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv("SPARRING_FAKE_FAULTS", str(folder))
    monkeypatch.setenv("SPARRING_VLLM_PYTHON", sys.executable)
    monkeypatch.setattr(replicas, "ENGINE", Path(__file__).parent / "fake_vllm.py")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def happen(kind, times=1):
        for number in range(times):
            (folder / f"{kind}-{number}").touch()

    happen.folder = folder
    gc.freeze()  # what is collected below is of this test
    yield happen
    gc.collect()
    assert not list(tmp_path.glob("sparring-vllm-*")), "the folder of the weights was left"


@pytest.fixture
def torn(monkeypatch):
    """A list: for each of its entries a file of weights that is written is cut short, after its digest was taken."""
    entries, real = [], replicas.file_digest

    def digest(path):
        value = real(path)
        if entries:
            entries.pop()
            path.write_bytes(path.read_bytes()[:-8])
        return value

    monkeypatch.setattr(replicas, "file_digest", digest)
    return entries
