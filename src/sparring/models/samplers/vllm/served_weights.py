"""The weights that replicas load, and the log-probabilities that these weights must give.

Adapters are merged: W + (alpha / rank) B A replaces W. Replicas therefore have no adapters.
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
from sparring.models.samplers.in_process import NO_PROBABILITIES, probe_of

Key = tuple[int, int, int]  # number of the model, number of its updates, number of other changes
State = tuple[Any, ...]  # identifies the values of a tensor: equal states mean equal values


def weights_id(key: Key) -> str:
    """Return the text that names weights in messages to replicas."""
    return ".".join(map(str, key))


def parse_weights_id(text: str) -> Key:
    """Return the key of weights from their text in a replica's message.

    Raises:
        ValueError: the text is invalid.
    """
    number, version, changes = map(int, str(text).split("."))
    return number, version, changes


class NetworkTensor(NamedTuple):
    """A tensor of the network, with its name in the network without adapters."""

    name: str
    state: State
    layer: Any  # layer with adapters; None: no adapters
    weight: Tensor

    def value(self) -> Tensor:
        """Return the values, with adapters merged."""
        value = self.weight.detach()
        if self.layer is not None:
            for adapter in self.layer.active_adapters:
                value = value + self.layer.get_delta_weight(adapter).to(value.dtype)
        return value.cpu().contiguous()


class ServedWeights:
    """The current weights of a model, for replicas.

    Args:
        model: the model.
        number: number of the model in its pool.
        base_number: number of the model that owns the frozen weights.
    """

    def __init__(self, model: LanguageModel, number: int, base_number: int) -> None:
        self.model, self.number, self._base_number = model, number, base_number
        self.changes = 0
        self._expected: tuple[Key, list[float]] | None = None

    @property
    def key(self) -> Key:
        """The key of the present weights; equal keys mean equal weights."""
        return self.number, self.model.version, self.changes

    def parts(self) -> Iterator[NetworkTensor]:
        """Yield all tensors of the network; a tied tensor occurs once."""
        adapted_layers = {
            f"{prefix}.base_layer.weight": module
            for prefix, module in self.model.base.named_modules()
            if hasattr(module, "base_layer") and hasattr(module, "active_adapters")
        }
        for name, weight in self.model.base.named_parameters():
            if ".lora_" in name:
                continue
            layer = adapted_layers.get(name)
            is_trained = layer is not None or weight.requires_grad
            state = ("trained", *self.key) if is_trained else ("frozen", self._base_number)
            yield NetworkTensor(name.replace(".base_layer.", "."), state, layer, weight)

    def write(self, path: Path, states: dict[str, State]) -> dict[str, State]:
        """Write the tensors whose states differ from ``states``; return the states of all tensors.

        Raises:
            OSError: the disk is full or not writable.
        """
        parts = list(self.parts())
        tensors = {part.name: part.value() for part in parts if states.get(part.name) != part.state}
        safetensors.torch.save_file(tensors, path)
        return {part.name: part.state for part in parts}

    @property
    def probe(self) -> list[int]:
        """The fixed conversation that checks every replica."""
        return probe_of(self.model, room=1)

    @torch.inference_mode()
    def expected(self) -> list[float]:
        """Return the learner's log-probabilities of the probe's ids, except the first id.

        Raises:
            DivergedError: a log-probability is not finite.
        """
        if self._expected is None or self._expected[0] != self.key:
            ids, model = self.probe, self.model
            tree = prefix_tree([tuple(ids)], [0]).to(model.device)
            hidden = model.hidden(tree)[tree.node[0, : len(ids) - 1]]
            log_p = model.logits(hidden).float().log_softmax(-1)
            logprobs = log_p.gather(1, torch.tensor(ids[1:], device=model.device)[:, None])
            if not logprobs.isfinite().all():
                raise DivergedError(NO_PROBABILITIES)
            self._expected = self.key, logprobs.squeeze(1).tolist()
        return self._expected[1]
