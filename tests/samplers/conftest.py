"""What several tests of samplers need."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer


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
