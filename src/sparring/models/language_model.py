"""A causal language model as the rest of Sparring sees it.

Hidden states, logits, cached extension, values.

Legend: R sequences, T tokens, N distinct prefixes, C width, V vocabulary, M chosen positions.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from sparring.errors import ModelError, RunError
from sparring.models.adapters import base_of, merged
from sparring.models.architectures import architecture
from sparring.models.attention import Blocks
from sparring.models.compiled import how
from sparring.models.forward_check import check_forward
from sparring.models.invariance import fewest_queries, fewest_rows, invariant_on, products
from sparring.models.kv_cache import KeyValueCache
from sparring.models.lean import LeanForward
from sparring.models.prefixes import PrefixTree
from sparring.models.settings import LIMITS, WIDTHS, number_of, numbers_of
from sparring.models.whole import WholeForward
from sparring.system.files import disk_errors

Result = TypeVar("Result")


class LanguageModel:
    """Network, tokenizer and optional value head.

    ``version`` counts the updates the weights have seen.

    Families known to ``models/architectures.py`` run through the lean forward of
    ``models/lean.py``, others through their own. The network may carry low-rank adapters; then they
    alone are trained.

    ``over`` is the model of the frozen weights that it shares with others, if they are known; see
    ``models/joined.py``.
    """

    def __init__(
        self,
        network: Any,
        tokenizer: Any,
        *,
        with_values: bool = False,
        version: int = 0,
        longest: int | None = None,
        over: LanguageModel | None = None,
    ) -> None:
        self.network, self._longest, self.over = network, longest, over
        self.base = base_of(network)
        self._weight: Tensor = next(network.parameters())  # one of all, as there is a walk to it
        self.forward = _forward(self.base)
        self.around: Callable[[Callable[[], Any]], Any] | None = None  # see ``computing``
        self._own: tuple[Blocks | None] | None = None  # measured when asked for
        self.tokenizer = tokenizer
        self.version = version
        self.value_head = (
            nn.Linear(self.width, 1, dtype=torch.float32, device=self.device)
            if with_values
            else None
        )
        if self.value_head is not None:
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    @property
    def width(self) -> int:
        """Width C of the hidden states."""
        return number_of(
            self.base,
            WIDTHS,
            "a width of its hidden states; models of this kind have no place for a critic here",
        )

    @cached_property
    def context(self) -> int:
        """Longest conversation in tokens: the network's limit, or a lower one that was asked for.

        Asked at every turn.

        Raises:
            ModelError: the network has none, and none was asked for.
        """
        if self._longest is not None and not numbers_of(self.base, LIMITS):
            return self._longest
        limit = number_of(self.base, LIMITS, "a longest conversation; write model.context=512, say")
        return limit if self._longest is None else min(limit, self._longest)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._weight.device

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield (prefix, module) of everything that is trained."""
        yield "network", self.network
        if self.value_head is not None:
            yield "value_head", self.value_head

    def parameters(self) -> list[nn.Parameter]:
        """Return all trained parameters, in a fixed order."""
        return [p for _, module in self.modules() for p in module.parameters() if p.requires_grad]

    def tensors(self) -> dict[str, Tensor]:
        """Return the named trained tensors (shared storage; tied weights once).

        What is frozen is not among them.
        """
        named = (
            (f"{prefix}.{name}", p)
            for prefix, module in self.modules()
            for name, p in module.named_parameters()
        )
        return {name: p.detach() for name, p in named if p.requires_grad}

    @cached_property
    def frozen_digest(self) -> str:
        """SHA-256 of the names and bytes of all weights that are not trained.

        Empty where there are none.
        """
        frozen = [
            (name, p) for name, p in sorted(self.network.named_parameters()) if not p.requires_grad
        ]
        total = hashlib.sha256()
        for name, weight in frozen:
            total.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
            total.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return total.hexdigest() if frozen else ""

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Copy named tensors into the weights.

        Raises:
            ModelError: a name or shape differs from this model's.
        """
        own = self.tensors()
        if own.keys() != tensors.keys() or any(
            own[name].shape != tensors[name].shape for name in own
        ):
            odd = sorted(set(own) ^ set(tensors)) or [
                name for name in own if own[name].shape != tensors[name].shape
            ]
            raise ModelError(
                f"These weights are of another model: {odd[:3]} differ. Use the configuration "
                "they were trained with."
            )
        for name, tensor in own.items():
            tensor.copy_(tensors[name])

    def clone(self) -> LanguageModel:
        """Return a copy whose trained weights are its own; what is frozen is shared."""
        frozen = {id(p): p for p in self.network.parameters() if not p.requires_grad}
        other = copy.copy(self)
        other.network = copy.deepcopy(self.network, frozen)
        other.base = base_of(other.network)
        other._weight = next(other.network.parameters())
        other.forward = _forward(other.base)
        other.forward.recompute = self.forward.recompute
        other.value_head = copy.deepcopy(self.value_head)
        return other

    def renew(self) -> None:
        """Look for the parameters again, which have been replaced."""
        self._weight = next(self.network.parameters())

    def computing(self, compute: Callable[[], Result]) -> Result:
        """Return what a call returns that computes with the weights, which may be split."""
        return compute() if self.around is None else self.around(compute)

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return hidden states [N, C] of distinct prefixes.

        A cache of R rows takes their keys and values.
        """
        return self.forward.hidden(tree, cache)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [M, V] of hidden states [M, C]."""
        head = self.base.get_output_embeddings()
        if type(head) is nn.Linear and head.bias is None:
            weight: Tensor = head.weight
            return hidden @ weight.T
        logits: Tensor = head(hidden)
        return logits

    def values(self, hidden: Tensor) -> Tensor:
        """Return the value head's estimate [M] for hidden states [M, C]."""
        if self.value_head is None:
            raise ModelError(
                "This model has no value head; the credit estimator that needs one must declare "
                "NEEDS = {'values'}."
            )
        values: Tensor = self.value_head(hidden.float()).squeeze(-1)
        return values

    @property
    def own(self) -> Blocks | None:
        """What products come in, so that a position's bits are its own.

        None where they are not: with several threads, not in float32 on a CPU, where the network's
        own forward pass is taken, or where none of the sizes tried does it on this machine.
        """
        forward = self.forward
        if isinstance(forward, WholeForward) or not invariant_on(self.device, self.base.dtype):
            return None
        if self._own is None:
            parts, wanted = forward.parts, products(self.network)
            queries = fewest_queries(parts.heads, parts.groups, parts.head_width)
            rows = fewest_rows(wanted)
            self._own = (Blocks(rows, queries) if rows and queries else None,)
        return self._own[0]

    @property
    def decoding(self) -> str:
        """What computes replies, in words: "compiled", or "torch" and, for a tiny model, why."""
        return how(self.forward.parts) if isinstance(self.forward, LeanForward) else "torch"

    def new_cache(self, batch: int, positions: int) -> KeyValueCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions."""
        forward, dtype = self.forward, self.base.dtype
        if isinstance(forward, WholeForward):
            return forward.new_cache(batch, positions, device=self.device)
        return forward.new_cache(batch, positions, dtype=dtype, device=self.device, own=self.own)

    def extend(self, ids: Tensor, start: Tensor, cache: KeyValueCache) -> Tensor:
        """Append right-padded tokens [B, T] at positions ``start`` [B] of cached rows.

        Return hidden states [B, T, C].
        """
        return self.forward.extend(ids, start, cache)

    @torch.no_grad()
    def check(self) -> None:
        """Compare this forward with the network's own on a few tokens.

        Compare also what it says of a beginning with and without the rest.

        Raises:
            ModelError: they differ: some models scale or cap their logits in ways that are not
                known here, others look ahead, or what the network says of a conversation depends on
                the others in its batch.
        """
        check_forward(self)

    def save(self, folder: Path, *, dtype: str | None = None, adapter: bool = False) -> None:
        """Write a folder that ``AutoModelForCausalLM.from_pretrained`` loads.

        ``AutoTokenizer.from_pretrained`` loads it too.

        Args:
            folder: where to.
            dtype: of the weights: "float32", "bfloat16" or "float16"; None: as they are.
            adapter: write the adapters alone, for peft's ``PeftModel.from_pretrained``.

        Raises:
            ModelError: adapters alone are asked for and there are none.
            RunError: the folder cannot be written.
        """
        adapted = self.base is not self.network
        if adapter and not adapted:
            raise ModelError(
                "This model has no adapters (model.lora), so --adapter has nothing to write; "
                "leave it out."
            )
        network = self.network
        if dtype is not None or (adapted and not adapter):
            network = copy.deepcopy(network)
        network = merged(network) if adapted and not adapter else network
        if dtype is not None:
            network = network.to(getattr(torch, dtype))
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        with disk_errors(folder):
            try:
                network.save_pretrained(folder)
                self.tokenizer.save_pretrained(folder)
            except SafetensorError as error:  # of the disk, in words of its own
                raise RunError(
                    f"{folder} cannot be written: {error}. Name a folder on another disk."
                ) from error
            finally:
                transformers_logging.enable_progress_bar()


def _forward(network: Any) -> LeanForward | WholeForward:
    """Return the forward pass that fits the network."""
    parts = architecture(network)
    return LeanForward(parts) if parts is not None else WholeForward(network)
