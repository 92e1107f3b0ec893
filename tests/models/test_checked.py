import json
import os
import shutil
import socket

import pytest
import torch
from transformers import AutoConfig

import sparring.models
from sparring.core.errors import ModelError, RunError
from sparring.models import pretrained
from sparring.models.memory import count_parameters
from sparring.models.pretrained import load_checked_config, load_pretrained, size_of


@pytest.fixture
def folder(chat_folder, tmp_path, monkeypatch):
    """Return a copy of a model folder; the network is unreachable."""
    monkeypatch.setattr(socket.socket, "connect", lambda *arguments: pytest.fail("reached for the network"))
    shutil.copytree(chat_folder, tmp_path / "model")
    return tmp_path / "model"


def change(folder, name="config.json", **values):
    path = folder / name
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_hidden_layers", 10**9),
        ("num_hidden_layers", 0),
        ("num_attention_heads", -1),
        ("num_key_value_heads", -2),
        ("hidden_size", 10**12),
        ("vocab_size", 10**400),
        ("max_position_embeddings", 10**18),
        ("num_local_experts", 10**8),
    ],
)
def test_an_excessive_size_is_refused_before_the_model_is_built(folder, monkeypatch, name, value):
    monkeypatch.setattr("transformers.AutoModelForCausalLM", None)
    change(folder, **{name: value})
    for read_folder in (load_pretrained, size_of):
        with pytest.raises(ModelError, match=rf"config\.json of .* has {name}="):
            read_folder(str(folder))


@pytest.mark.parametrize("values", [{"n_layer": 10**9}, {"n_head": -1}, {"n_layer": 0}, {"n_head": 0}, {"n_embd": -4}])
def test_excessive_sizes_of_gpt2_are_refused(tmp_path, values):
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 9, **values})
    )
    with pytest.raises(ModelError, match=r"config\.json of .* has "):
        load_pretrained(str(tmp_path))


def test_sizes_of_real_models_are_accepted(tmp_path):
    real_sizes = {
        "vocab_size_per_layer_input": 262_144,
        "num_hidden_layers": 126,
        "num_attention_heads": 128,
        "num_key_value_heads": 8,
    }
    real_sizes |= {
        "hidden_size": 16_384,
        "vocab_size": 262_208,
        "max_position_embeddings": 10_485_760,
        "first_k_dense_replace": 0,
        "pad_token_id": -1,
    }
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **real_sizes}))
    assert load_checked_config(str(tmp_path)).hidden_size == 16_384


@pytest.mark.parametrize(
    "kernel",
    [
        "evil/kernel",
        "kernels-community/flash-attn2",
        "evil/kernel:layer",
        "flash_attention_2",
        "paged|evil/kernel",
        {"": "evil/kernel"},
    ],
)
@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation", "_attn_implementation_internal"])
def test_no_kernel_is_downloaded(folder, key, kernel):
    change(folder, **{key: kernel})
    network, _ = load_pretrained(str(folder))
    assert network.config._attn_implementation == "sdpa"
    without_kernel = {
        key: value
        for key, value in json.loads((folder / "config.json").read_text()).items()
        if "attn" not in key and key != "model_type"
    }
    assert size_of(str(folder))[0] == count_parameters(AutoConfig.for_model("llama", **without_kernel))


def test_the_attention_implementation_stays_the_default(chat_folder):
    network, _ = load_pretrained(str(chat_folder))
    ids = torch.arange(12)[None]
    reference = type(network).from_pretrained(chat_folder).eval()
    assert reference.config._attn_implementation == network.config._attn_implementation
    assert torch.equal(network(ids).logits, reference(ids).logits)


def test_hub_kernels_are_disabled():
    assert (
        sparring.models.__name__ and os.environ["USE_HUB_KERNELS"] == "NO"
    )  # read by transformers when it is imported


def test_a_folder_of_an_adapter_is_refused_as_a_model(folder):
    change(folder, "adapter_config.json", base_model_name_or_path="evil/model", peft_type="LORA", r=4)
    with pytest.raises(ModelError, match="holds an adapter"):
        load_pretrained(str(folder))


def test_pickled_weights_are_refused_and_the_error_shows_how_to_convert_them(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model.bin, a pickle.*save_pretrained\(NEW_FOLDER\)"):
        load_pretrained(str(folder))


def test_quantised_weights_are_refused(folder):
    change(folder, quantization_config={"quant_method": "mxfp4"})
    with pytest.raises(ModelError, match="quantised"):
        load_pretrained(str(folder))


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_python_code_in_a_folder_is_not_run(folder, name):
    (folder / "evil.py").write_text("raise SystemExit('was run')")
    code_references = (
        dict.fromkeys(("AutoConfig", "AutoModelForCausalLM"), "evil.Evil")
        if name == "config.json"
        else {"AutoTokenizer": ["evil.Evil", None]}
    )
    change(folder, name, auto_map=code_references)
    try:
        load_pretrained(str(folder))
    except ModelError as error:
        assert "was run" not in str(error)


@pytest.mark.parametrize(
    "name", ["tokenizer.json", "model.safetensors", "generation_config.json", "chat_template.jinja", "extra"]
)
def test_a_pipe_is_not_opened(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(RunError, match="a pipe, a socket or a device"):
        load_pretrained(str(folder))


def test_a_link_to_a_device_is_not_opened(folder):
    (folder / "generation_config.json").unlink()
    (folder / "generation_config.json").symlink_to("/dev/zero")
    with pytest.raises(RunError, match="a device"):
        load_pretrained(str(folder))


def test_links_to_files_are_followed_only_inside_the_cache(folder, tmp_path):
    shutil.move(folder / "model.safetensors", tmp_path / "blob")
    (folder / "model.safetensors").symlink_to(tmp_path / "blob")
    assert load_pretrained(str(folder))[1].chat_template


def test_a_configuration_file_that_is_too_large_is_refused(folder):
    with open(folder / "config.json", "r+b") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(ModelError, match="1024 MiB"):
        load_pretrained(str(folder))


def test_errors_without_a_message_are_reported_by_type(folder, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(pretrained, "check_memory", fail)
    with pytest.raises(ModelError, match="MemoryError"):
        load_pretrained(str(folder))
