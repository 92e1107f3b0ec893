"""The weights of a model as replicas are given them, and what they must then say.

Adapters are merged: W + (alpha / rank) B A takes the place of W. So a replica knows plain networks
alone, and never has rows with adapters beside rows without.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import Tensor

from sparring.core.errors import DivergedError
from sparring.models.attention import prefix_tree
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.in_process import LOST, probe_of

Key = tuple[int, int, int]  # number of the model, updates, and changes from outside
State = tuple[Any, ...]  # of one tensor: equal where its values are


def salt_of(key: Key) -> str:
    """Return what weights are called where a replica is told of them."""
    return ".".join(map(str, key))


def key_of(salt: str) -> Key:
    """Return the weights that a replica names.

    Raises:
        ValueError: this names none.
    """
    number, version, changes = map(int, str(salt).split("."))
    return number, version, changes


class Part(NamedTuple):
    """A tensor of the network, by the name that it has without adapters."""

    name: str
    state: State
    layer: Any  # with adapters; None: without
    weight: Tensor

    def value(self) -> Tensor:
        """Return its values, adapters merged."""
        merged = self.weight.detach()
        if self.layer is not None:
            for adapter in self.layer.active_adapters:
                merged = merged + self.layer.get_delta_weight(adapter).to(merged.dtype)
        return merged.cpu().contiguous()


class Served:
    """A model whose weights replicas draw with.

    Args:
        model: gives its weights of now.
        number: of the model, among those of one pool.
        base: number of the model whose frozen weights it has.
    """

    def __init__(self, model: LanguageModel, number: int, base: int) -> None:
        self.model, self.number, self._base = model, number, base
        self.changes = 0
        self._expected: tuple[Key, list[float]] | None = None

    @property
    def key(self) -> Key:
        """What its weights of now are called; equal for equal weights alone."""
        return self.number, self.model.version, self.changes

    def parts(self) -> Iterator[Part]:
        """Yield all tensors of the network; tied ones once."""
        adapted = {
            f"{prefix}.base_layer.weight": module
            for prefix, module in self.model.base.named_modules()
            if hasattr(module, "base_layer") and hasattr(module, "active_adapters")
        }
        for name, weight in self.model.base.named_parameters():
            if ".lora_" in name:
                continue
            layer = adapted.get(name)
            trained = layer is not None or weight.requires_grad
            state = ("trained", *self.key) if trained else ("frozen", self._base)
            yield Part(name.replace(".base_layer.", "."), state, layer, weight)

    def write(self, path: Path, held: dict[str, State]) -> dict[str, State]:
        """Write the tensors that differ from those held; return the states of all.

        Raises:
            OSError: the disk is full or not writable.
        """
        parts = list(self.parts())
        new = {part.name: part.value() for part in parts if held.get(part.name) != part.state}
        safetensors.torch.save_file(new, path)
        return {part.name: part.state for part in parts}

    @property
    def probe(self) -> list[int]:
        """The conversation that every replica is tried on; the same one always."""
        return probe_of(self.model, room=1)

    @torch.inference_mode()
    def expected(self) -> list[float]:
        """Return the log-probabilities of the probe's ids after the first, by the learner's way.

        Raises:
            DivergedError: one of them is no number.
        """
        if self._expected is None or self._expected[0] != self.key:
            ids, model = self.probe, self.model
            tree = prefix_tree([tuple(ids)], [0]).to(model.device)
            hidden = model.hidden(tree)[tree.node[0, : len(ids) - 1]]
            log_p = model.logits(hidden).float().log_softmax(-1)
            said = log_p.gather(1, torch.tensor(ids[1:], device=model.device)[:, None])
            if not said.isfinite().all():
                raise DivergedError(LOST)
            self._expected = self.key, said.squeeze(1).tolist()
        return self._expected[1]
