"""Splits weights among learner processes (ranks), with torch's ``fully_shard`` (FSDP2).

Each rank keeps rows (along the first axis) of every parameter, gradient and moment of the
optimiser. The weights of a block are gathered while the block computes, forwards and backwards. The
block's gradients are then summed over the ranks and split. Weights outside of blocks, such as
embeddings, are gathered for a whole pass. All ranks must therefore make the same number of passes;
a rank with fewer passes repeats one with weight 0.

Gradients are added along the tree of ``gradient_step.py``. Rank r of R computes the leaves r,
R + r, 2 R + r ... Sums over ranks are therefore the lowest levels of the tree, and sums of parts
the levels above. With ``learner.gradient_sync: leaf``, each rank first adds the passes of a leaf,
exactly as a single learner does. With ``pass``, the gradients of every pass are summed over the
ranks at once. No rank then holds a whole gradient, but the order of the additions differs.

Checkpoints are the same as without splitting. Whole tensors are gathered one at a time, and rank 0
writes them with the same bytes as ``safetensors.torch.save_file``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from sparring.core.records import IntArray
from sparring.learn.gradient_step import GradientTree, RankGroup, require_finite, split_into_leaves
from sparring.learn.learner import Learner
from sparring.learn.master_weights import MASTER, SplitAdamW, SplitMasterAdamW
from sparring.learn.pack import MAX_PADDING, Pack, chunks
from sparring.learn.weight_files import parameters_of
from sparring.models.architectures import architecture
from sparring.models.forward_pass import TreeForward
from sparring.models.language_model import LanguageModel

SPLIT_KEYS = ("exp_avg", "exp_avg_sq", MASTER)  # optimiser's tensors that are split by rows


def split_optimizer(learner: Learner, rank: int) -> torch.optim.Optimizer:
    """Return an optimiser of this rank's parts of the weights."""
    optimizer_class = SplitMasterAdamW if learner.config.master_weights else SplitAdamW
    return learner.new_optimizer(partial(optimizer_class, rank=rank))


def load_weight_rows(model: LanguageModel, path: Path, rank: int, ranks: int) -> None:
    """Load this rank's part of the weights from a file of whole weights."""
    with safe_open(path, framework="pt") as file:
        for name, tensor in model.tensors().items():
            _copy_rows(tensor, file.get_slice(name), rank, ranks)


def load_optimizer_rows(learner: Learner, path: Path, rank: int, ranks: int) -> None:
    """Load this rank's part of an optimiser's state from a file of the whole state."""
    learner.optimizer = split_optimizer(learner, rank)
    parameters = parameters_of(learner.optimizer)
    with safe_open(path, framework="pt") as file:
        names = file.keys()
        for name in names:
            index, _, key = name.partition(".")
            parameter = parameters[int(index)]
            state = learner.optimizer.state[parameter]
            if key not in SPLIT_KEYS:
                state[key] = file.get_tensor(name)
                continue
            state[key] = torch.zeros_like(parameter, requires_grad=False)
            _copy_rows(state[key], file.get_slice(name), rank, ranks)


@torch.no_grad()
def _copy_rows(tensor: Any, full_tensor: Any, rank: int, ranks: int) -> None:
    rows = full_tensor.get_shape()[0]
    rows_per_rank = -(-rows // ranks)
    begin, end = min(rank * rows_per_rank, rows), min((rank + 1) * rows_per_rank, rows)
    if begin < end:
        local_part(tensor).copy_(full_tensor[begin:end])


def local_part(tensor: Any) -> Tensor:
    """Return this rank's part of a tensor, in the same memory."""
    part: Tensor = tensor.to_local()
    return part.detach()


def whole_weights(model: LanguageModel) -> dict[str, Callable[[], Tensor]]:
    """Return a function per weight that gathers it; all ranks call them in the same order."""
    parts: dict[str, Any] = {**model.tensors()}
    return {name: part.full_tensor for name, part in parts.items()}


def whole_moments(learner: Learner) -> dict[str, Callable[[], Tensor]]:
    """Return a function per tensor of the optimiser's state that gathers it, by name."""
    functions: dict[str, Callable[[], Tensor]] = {}
    for index, parameter in enumerate(parameters_of(learner.optimizer)):
        for key, value in learner.optimizer.state.get(parameter, {}).items():
            functions[f"{index}.{key}"] = value.full_tensor if key in SPLIT_KEYS else value.clone
    return functions


DTYPE_NAMES = {  # in the order of the tensors in a file
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
}
ALIGNMENT = 8  # the header's length is a multiple of this number of bytes


def save_streamed(
    tensors: Mapping[str, Callable[[], Tensor]],
    shapes: Mapping[str, tuple[torch.dtype, tuple[int, ...]]],
    path: Path | None,
    subject: str,
) -> None:
    """Gather tensors one by one in the file's order, and write them.

    Args:
        tensors: function that gathers each tensor.
        shapes: type and shape of each tensor.
        path: the file; None: another rank writes it.
        subject: name of the tensors at the beginning of an error message.

    Raises:
        DivergedError: a tensor is not finite.
        OSError: the disk is full or not writable.
    """
    order = sorted(tensors, key=lambda name: (list(DTYPE_NAMES).index(shapes[name][0]), name))
    if path is None:
        for name in order:
            tensors[name]()
        return
    with path.open("wb") as file:
        file.write(_header(order, shapes))
        for name in order:
            tensor = (
                require_finite({name: tensors[name]()}, subject)[name].detach().cpu().contiguous()
            )
            file.write(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())


def _header(order: list[str], shapes: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]) -> bytes:
    entries, begin = {}, 0
    for name in order:
        dtype, shape = shapes[name]
        end = begin + dtype.itemsize * torch.Size(shape).numel()
        entries[name] = {
            "dtype": DTYPE_NAMES[dtype],
            "shape": list(shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


Result = TypeVar("Result")


class TreeReduceScatter:
    """A reduce-scatter for ``FSDPModule`` that sums rows over ranks in pairs in float32."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return a buffer for torch."""
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> None:
        """Send each rank its rows, and sum this rank's rows of all ranks."""
        received_rows, distributed = torch.empty_like(input_tensor), torch.distributed
        exchange: Any = distributed.all_to_all_single
        exchange(received_rows, input_tensor, group=group)
        sums = [rows.float() for rows in received_rows.view(-1, *output_tensor.shape)]
        while len(sums) > 1:
            sums = [left + right for left, right in zip(sums[::2], sums[1::2], strict=True)]
        output_tensor.copy_(sums[0])


class SplitModel(nn.Module):
    """Splits the weights of a model among ranks; the model computes the same results.

    Args:
        model: the model whose network and value head are split.
        mesh: the ranks, for torch.
    """

    def __init__(self, model: LanguageModel, mesh: Any) -> None:
        super().__init__()
        self.network, self.value_head = model.network, model.value_head
        self._is_gathered = False
        modules = [*_blocks(model), *([] if self.value_head is None else [self.value_head]), self]
        for module in modules:
            split_module: Any = fully_shard(module, mesh=mesh)
            split_module.set_gradient_divide_factor(1.0)  # sum: losses are shares of the minibatch
            split_module.set_force_sum_reduction_for_comms(True)
            split_module.set_custom_reduce_scatter(TreeReduceScatter())
        model.call_gathered = self.call_gathered
        model.find_parameters()

    def call_gathered(self, compute: Callable[[], Result]) -> Result:
        """Call a function that computes with the gathered weights, and return its result."""
        if self._is_gathered:
            return compute()
        self._is_gathered = True
        try:
            result: Result = self(compute)
        finally:
            self._is_gathered = False
        if not torch.is_grad_enabled():  # else the backward pass splits the weights again
            module: Any = self
            module.reshard()
        return result

    def forward(self, compute: Callable[[], Result]) -> Result:
        """Call a function; torch gathers the weights before this call."""
        return compute()


def _blocks(model: LanguageModel) -> list[nn.Module]:
    forward = model.forward
    lists = [list(part) for part in model.base.modules() if isinstance(part, nn.ModuleList)]
    if not isinstance(forward, TreeForward):
        return max(lists, key=len, default=[])  # the network calls its blocks itself
    blocks = next(modules for modules in lists if len(modules) == forward.parts.layers)
    parts = architecture(model.base, has_fixed_parameters=False)
    assert parts is not None, "the forward pass is known"
    forward.parts, forward.modules = parts, blocks
    for block in blocks:
        block.forward = _run_block
    return blocks


def _run_block(run: Callable[..., Tensor], x: Tensor, layer: int) -> Tensor:
    """Run a block by the function ``run`` in place of the network's own forward method."""
    return run(x, layer)


class SplitGradientTree(GradientTree):
    """Adds the gradients of leaves if weights are split; ``TreeReduceScatter`` sums over ranks.

    Args:
        parameters: the parts of the weights.
        count: number of leaves.
        ranks: the ranks.
        size: the arguments ``micro_tokens`` and ``padded`` of ``chunks``.
        sync: function that is called before each pass, with whether gradients are summed over ranks
            after the pass. None: they are summed after every pass.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        count: int,
        ranks: RankGroup,
        size: tuple[int, int],
        sync: Callable[[bool], None] | None = None,
    ) -> None:
        super().__init__(parameters, count, ranks)
        self._learners, self._size, self._sync = ranks, size, sync
        self._leaves_of_ranks: list[IntArray] = []

    def leaves(self, data: Pack, sequences: IntArray) -> Iterator[IntArray]:
        """Yield this rank's leaves, in order."""
        self._sums.clear()
        all_leaves, num_ranks = (
            split_into_leaves(data, sequences, self.count),
            self._learners.num_ranks,
        )
        for begin in range(0, self.count, num_ranks):
            self._leaves_of_ranks = all_leaves[begin : begin + num_ranks]
            yield self._leaves_of_ranks[self._learners.rank]

    def select_rows(self, data: Pack, sequences: IntArray) -> IntArray:
        """Return all sequences on rank 0 and none elsewhere, so that gradients are equal."""
        self._leaves_of_ranks = [sequences]
        return sequences if self._learners.rank == 0 else sequences[:0]

    def passes(self, data: Pack) -> int:
        """Return the largest number of passes that a rank needs for its current leaf."""
        micro_tokens, padded = self._size
        rows = (np.unique(data.distinct[leaf]) for leaf in self._leaves_of_ranks)
        return max(sum(1 for _ in chunks(data, leaf, micro_tokens, padded=padded)) for leaf in rows)

    def prepare_pass(self, *, last: bool) -> None:
        """With ``sync``: sum gradients over ranks only after the last pass of a leaf."""
        if self._sync is not None:
            self._sync(last)

    def finish(self) -> None:
        """Set the minibatch's gradients of the parts of the parameters."""
        ((_, total),) = self._sums
        self._sums.clear()
        local_parts = [local_part(parameter) for parameter in self.parameters]
        *parts, num_leaves = torch.split(
            total, [*(part.numel() for part in local_parts), len(local_parts)]
        )
        for parameter, part, count in zip(self.parameters, parts, num_leaves.tolist(), strict=True):
            parameter.grad = None
            if count:
                parameter.grad = torch.zeros_like(parameter, requires_grad=False)
                rows = local_part(parameter.grad)
                rows.copy_(part.view_as(rows))

    def _take_gradients(self) -> Tensor:
        gradients = [
            torch.zeros(part.numel(), device=part.device)
            if parameter.grad is None
            else local_part(parameter.grad).reshape(-1).float()
            for parameter in self.parameters
            for part in [local_part(parameter)]
        ]
        has_gradient = [float(parameter.grad is not None) for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return torch.cat([*gradients, torch.tensor(has_gradient, device=gradients[0].device)])


def split_learner(
    learner: Learner, mesh: Any, ranks: RankGroup, *, each_pass: bool = False
) -> None:
    """Split the weights and the optimiser of equal learners among their ranks.

    Args:
        learner: the learner, before its first update.
        mesh: the ranks, for torch.
        ranks: the ranks, for the gradient tree.
        each_pass: whether gradients are summed over ranks after each pass, not each leaf.
    """
    split_model: Any = SplitModel(learner.model, mesh)
    for snapshot in learner.snapshots:
        SplitModel(snapshot.model, mesh)
    learner.optimizer = split_optimizer(learner, ranks.rank)
    padded = MAX_PADDING if learner.model.forward.shares_prefixes else 1
    learner.tree = SplitGradientTree(
        learner.model.parameters(),
        learner.config.leaves,
        ranks,
        (learner.micro_tokens, padded),
        None if each_pass else split_model.set_requires_gradient_sync,
    )
