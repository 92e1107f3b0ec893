import json
import shutil

import pytest
import torch
from transformers import (
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertLMHeadModel,
    BloomConfig,
    BloomForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from sparring.config import resolve
from sparring.core.errors import ModelError, SparringError
from sparring.engine.local import LocalEngine
from sparring.models.load import load_language_model
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

SIZES = {"vocab_size": 300, "hidden_size": 16, "num_hidden_layers": 2}
NETWORKS = {
    "mamba": lambda: MambaForCausalLM(MambaConfig(**SIZES, state_size=4)),
    "bloom": lambda: BloomForCausalLM(BloomConfig(vocab_size=300, hidden_size=16, n_layer=2, n_head=2)),
    "bert": lambda: BertLMHeadModel(BertConfig(**SIZES, intermediate_size=32, num_attention_heads=2)),
    "t5": lambda: T5ForConditionalGeneration(
        T5Config(vocab_size=300, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    ),
    "bart": lambda: BartForConditionalGeneration(
        BartConfig(
            vocab_size=300, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32
        )
    ),
    "small": lambda: LlamaForCausalLM(
        LlamaConfig(**{**SIZES, "vocab_size": 100}, intermediate_size=32, num_attention_heads=2)
    ),
}


@pytest.fixture
def folder_of(tmp_path, chat_folder):
    """Return a function that writes a network with the tokenizer of the chat model into a folder."""

    def write(kind):
        folder = tmp_path / kind
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = NETWORKS[kind]()
            for parameter in network.parameters():
                parameter.data *= 5  # with random weights of usual size, outputs hardly depend on the text
            network.save_pretrained(folder)
        AutoTokenizer.from_pretrained(chat_folder).save_pretrained(folder)
        return folder

    return write


@pytest.fixture
def folder(chat_folder, tmp_path):
    return shutil.copytree(chat_folder, tmp_path / "model")


def engine(folder, renderer=None, **model):
    rollout = {"games_per_step": 2, "max_new_tokens": 3}
    game = {"name": "kuhn_poker", "options": {"style": "full"}}
    settings = {
        "environments": [game],
        "threads": 1,
        "rollout": rollout,
        "renderer": renderer or {"name": "chat", "answer": "exact"},
    }
    return LocalEngine(resolve({**settings, "model": {"name": str(folder), **model}}))


def refusal(folder, **options):
    with pytest.raises(ModelError) as error_info:
        engine(folder, **options)
    text = str(error_info.value)
    assert "\n" not in text and len(text) < 600
    return text


@pytest.mark.parametrize("kind", ["mamba", "bloom"])
def test_a_network_without_a_context_limit_needs_one_and_then_runs(kind, folder_of):
    folder = folder_of(kind)
    assert "does not name its longest text; write e.g. model.context=512" in refusal(folder)
    local_engine = engine(folder, context=700)
    assert local_engine.model.context == 700
    assert (
        play_round(local_engine.config, local_engine, Methods.of(local_engine.config), RunState()).metrics[
            "logprob_difference_max"
        ]
        < 1e-3
    )


@pytest.mark.parametrize(
    ("kind", "message"),
    [("bert", "is not causal"), ("t5", "T5Config"), ("bart", "lack"), ("small", "do not belong together")],
)
def test_networks_that_cannot_write_token_by_token_are_refused(kind, message, folder_of):
    assert message in refusal(folder_of(kind), context=512)


def change_json(folder, name, **changes):
    """Change keys of a JSON file; None removes one."""
    data = json.loads((folder / name).read_text())
    data.update(changes)
    (folder / name).write_text(json.dumps({key: value for key, value in data.items() if value is not None}))


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": None},
        {"model_type": "no_such_family"},
        {"model_type": 5},
        {"num_attention_heads": 3},
        {"hidden_size": "wide"},
        {"hidden_size": 24},
        {"vocab_size": -5},
        {"num_hidden_layers": 3},
        {"num_hidden_layers": "two"},
        {"max_position_embeddings": None},
        {"rms_norm_eps": "x"},
        {"rope_parameters": {"rope_type": "nonsense"}},
        {"hidden_act": "nonsense"},
        {"quantization_config": {"quant_method": "nonsense"}},
        {"dtype": "nonsense"},
    ],
    ids=str,
)
def test_a_broken_configuration_is_refused_or_harmless(change, folder):
    change_json(folder, "config.json", **change)
    try:
        engine(folder, context=512)
    except SparringError as error:
        assert "\n" not in str(error) and len(str(error)) < 900


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '{"a": 1}', "\xff", "[" * 100_000])
def test_a_file_that_is_no_configuration_is_refused(text, folder):
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    assert str(folder) in refusal(folder)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer"])
def test_a_missing_file_is_refused(missing, folder):
    for path in folder.iterdir():
        if path.name.startswith(missing):
            path.unlink()
    assert str(folder) in refusal(folder)


@pytest.mark.parametrize("text", ["", "{", '{"model": {}}', "[]"])
def test_a_broken_tokenizer_is_refused(text, folder):
    (folder / "tokenizer.json").write_text(text)
    assert str(folder) in refusal(folder)


def test_a_tokenizer_without_a_template_is_refused_with_the_fix(folder):
    (folder / "chat_template.jinja").unlink()
    assert "renderer.template=chatml" in refusal(folder)
    assert (
        engine(folder, renderer={"name": "chat", "answer": "exact", "template": "chatml"}).policies["main"].renderer
        is not None
    )
    assert "plain renderer" in refusal(folder, renderer={"name": "plain"})


def test_incomplete_weights_are_refused(folder):
    change_json(folder, "config.json", num_hidden_layers=4)
    assert "lack" in refusal(folder)


def test_the_context_limit_is_computed_once(chat_folder, monkeypatch):
    model = load_language_model(chat_folder)
    context_before = model.context
    monkeypatch.setattr("sparring.models.language_model.numbers_of", lambda network, names: pytest.fail("read again"))
    assert model.context == context_before
