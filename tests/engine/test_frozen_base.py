"""Adapters are only loaded onto the weights that they were trained on."""

import shutil

import pytest
import safetensors.torch

from sparring.config import resolve
from sparring.core.errors import ModelError
from sparring.engine.local import LocalEngine


def engine(folder, **model):
    return LocalEngine(
        resolve(
            {
                "threads": 1, "environments": [{"name": "kuhn_poker", "options": {"style": "full"}}], "model": {"name": str(folder), **model},
                "renderer": {"name": "chat"}, "rollout": {"max_new_tokens": 6},
            }
        )
    )


def test_another_base_under_the_adapters_is_noticed(chat_folder, tmp_path):
    first = engine(chat_folder, lora={"rank": 2})
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    first.save(folder)
    moved = shutil.copytree(chat_folder, tmp_path / "moved")
    engine(moved, lora={"rank": 2}).restore(folder)  # the same weights elsewhere
    weights = safetensors.torch.load_file(moved / "model.safetensors")
    name = sorted(weights)[0]
    weights[name].view(-1)[-1] += 0.001
    safetensors.torch.save_file(weights, moved / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"is no longer the model that the adapters in .* were trained on: its frozen weights have SHA-256"):
        engine(moved, lora={"rank": 2}).restore(folder)


def test_a_model_without_adapters_has_no_digest(chat_folder, saved):
    whole = engine(chat_folder)
    assert whole.model.frozen_digest == ""
    assert b"base" not in saved(whole)["engine.json"]
