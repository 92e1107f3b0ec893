"""A causal language model as the rest of Sparring sees it: hidden states, logits, cached extension, values.

Legend: R sequences, T tokens, N distinct prefixes, C width, V vocabulary, M chosen positions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from sparring.errors import ModelError
from sparring.models import lean
from sparring.models.architectures import Architecture, architecture
from sparring.models.prefixes import PrefixTree


class LanguageModel:
    """Network, tokenizer and optional value head. ``version`` counts the updates the weights have seen.

    Families known to ``models/architectures.py`` run through the lean forward of ``models/lean.py``.
    """

    def __init__(self, network: PreTrainedModel, tokenizer: Any, *, with_values: bool = False, version: int = 0) -> None:
        self.network = network
        self.parts = _parts(network)
        self.recompute = False  # trade time for memory in the backward pass
        self.tokenizer = tokenizer
        self.version = version
        self.value_head = nn.Linear(self.width, 1, dtype=torch.float32) if with_values else None
        if self.value_head is not None:
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    @property
    def width(self) -> int:
        """Width C of the hidden states."""
        return int(self.network.config.hidden_size)

    @property
    def context(self) -> int:
        """Longest conversation in tokens."""
        return int(self.network.config.max_position_embeddings)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.network.parameters()).device
        return device

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield (prefix, module) of everything that is trained."""
        yield "network", self.network
        if self.value_head is not None:
            yield "value_head", self.value_head

    def parameters(self) -> list[nn.Parameter]:
        """Return all trained parameters, in a fixed order."""
        return [p for _, module in self.modules() for p in module.parameters() if p.requires_grad]

    def tensors(self) -> dict[str, Tensor]:
        """Return the named tensors of the trained modules (shared storage; tied weights once)."""
        return {f"{prefix}.{name}": p.detach() for prefix, module in self.modules() for name, p in module.named_parameters()}

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Copy named tensors into the weights.

        Raises:
            ModelError: a name or shape differs from this model's.
        """
        own = self.tensors()
        if own.keys() != tensors.keys() or any(own[name].shape != tensors[name].shape for name in own):
            odd = sorted(set(own) ^ set(tensors)) or [name for name in own if own[name].shape != tensors[name].shape]
            raise ModelError(f"These weights are of another model: {odd[:3]} differ. Use the configuration they were trained with.")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])

    def clone(self) -> LanguageModel:
        """Return a copy with weights of its own."""
        other = copy.copy(self)
        other.network = copy.deepcopy(self.network)
        other.parts = _parts(other.network)
        other.value_head = copy.deepcopy(self.value_head)
        return other

    def hidden(self, tree: PrefixTree, cache: lean.KeyValueCache | None = None) -> Tensor:
        """Return hidden states [N, C] of distinct prefixes; a cache of R rows takes their keys and values."""
        return lean.hidden_states(self.parts, tree, cache, recompute=self.recompute)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [M, V] of hidden states [M, C]."""
        weight: Tensor = self.network.get_output_embeddings().weight
        return hidden @ weight.T

    def values(self, hidden: Tensor) -> Tensor:
        """Return the value head's estimate [M] for hidden states [M, C]."""
        if self.value_head is None:
            raise ModelError("This model has no value head; the credit estimator that needs one must declare NEEDS = {'values'}.")
        values: Tensor = self.value_head(hidden.float()).squeeze(-1)
        return values

    def new_cache(self, batch: int, positions: int) -> lean.KeyValueCache:
        """Return an empty key-value cache for ``batch`` rows of ``positions`` positions."""
        shape = (self.parts.layers, 2, batch, self.parts.groups, positions, self.parts.head_width)
        return lean.KeyValueCache(tensor=torch.zeros(shape, dtype=self.network.dtype, device=self.device))

    def extend(self, ids: Tensor, start: Tensor, cache: lean.KeyValueCache) -> Tensor:
        """Append right-padded tokens [B, T] at positions ``start`` [B] of cached rows; return hidden states [B, T, C]."""
        return lean.extend(self.parts, ids, start, cache)

    def save(self, folder: Path) -> None:
        """Write a folder that ``AutoModelForCausalLM.from_pretrained`` and ``AutoTokenizer.from_pretrained`` load."""
        self.network.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def _parts(network: PreTrainedModel) -> Architecture:
    """Return the parts of a network that the lean forward runs.

    Raises:
        ModelError: the network is of another family.
    """
    parts = architecture(network)
    if parts is None:
        raise ModelError(
            f"{type(network).__name__} cannot be trained here yet: this version runs dropout-free GPT-2, Llama, Qwen2, Qwen3 and "
            "Gemma 3 models in process. Leave model.path empty to build the tiny model."
        )
    return parts


def load_language_model(folder: Path, *, with_values: bool = False) -> LanguageModel:
    """Return the model and tokenizer of a folder in Hugging Face layout; remote code is never run.

    Raises:
        ModelError: the folder is missing or damaged, or the model cannot be run.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} is not a model folder: it has no config.json. Name a folder written by `sparring export`.")
    try:
        network = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, use_safetensors=True, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise ModelError(f"The model in {folder} cannot be loaded: {error}") from error
    return LanguageModel(network, tokenizer, with_values=with_values)
