"""Weights that are split among learners, with torch's ``fully_shard`` (FSDP2).

Each learner keeps a part of every parameter, of its gradient and of the optimiser's moments: rows
of its first axis. A block's weights are whole while the block computes, forwards and backwards, and
its gradients are added among the learners and split as soon as they are there. What is in no block,
such as embeddings, is whole during a pass. So all learners make the same passes in the same order:
one with fewer than others makes up for it with passes that count nothing.

Gradients are added along the tree of ``gradient_step.py``. Learner r of R computes the leaves r,
R + r, 2 R + r ..., so that the lowest levels of the tree are sums over the learners, and those
above are sums of parts. With ``learner.gradient_sync: leaf`` each learner adds up a leaf's passes
first, as one learner does, so the bits are those of one. With ``pass`` every pass is added among
the learners at once: no learner holds a whole gradient, and a leaf of several passes is added up in
another order.

Checkpoints do not know of learners that hold parts. Whole tensors come together one at a time, and
learner 0 writes them as it would alone, with the bytes of ``safetensors.torch.save_file``.
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
from sparring.learn.gradient_step import GradientTree, RankGroup, finite, leaves
from sparring.learn.learner import Learner
from sparring.learn.masters import MASTER, SplitAdamW, SplitMasterAdamW
from sparring.learn.pack import PADDED, Pack, chunks
from sparring.learn.weights import updated
from sparring.models.architectures import architecture
from sparring.models.language_model import LanguageModel
from sparring.models.lean import LeanForward

SPLIT = ("exp_avg", "exp_avg_sq", MASTER)  # of the optimiser, by rows as its parameters are


def split_optimizer(learner: Learner, rank: int) -> torch.optim.Optimizer:
    """Return an optimiser of one's parts of the weights."""
    kind = SplitMasterAdamW if learner.config.master_weights else SplitAdamW
    return learner.new_optimizer(partial(kind, rank=rank))


def take_weights(model: LanguageModel, path: Path, rank: int, ranks: int) -> None:
    """Take one's own part of weights from a file of whole ones."""
    with safe_open(path, framework="pt") as file:
        for name, tensor in model.tensors().items():
            _take(tensor, file.get_slice(name), rank, ranks)


def take_moments(learner: Learner, path: Path, rank: int, ranks: int) -> None:
    """Take one's own part of an optimiser's state from a file of the whole one."""
    learner.optimizer = split_optimizer(learner, rank)
    own = updated(learner.optimizer)
    with safe_open(path, framework="pt") as file:
        names = file.keys()
        for name in names:
            index, _, key = name.partition(".")
            parameter = own[int(index)]
            state = learner.optimizer.state[parameter]
            if key not in SPLIT:
                state[key] = file.get_tensor(name)
                continue
            state[key] = torch.zeros_like(parameter, requires_grad=False)
            _take(state[key], file.get_slice(name), rank, ranks)


@torch.no_grad()
def _take(tensor: Any, whole: Any, rank: int, ranks: int) -> None:
    rows = whole.get_shape()[0]
    each = -(-rows // ranks)
    begin, end = min(rank * each, rows), min((rank + 1) * each, rows)
    if begin < end:
        local(tensor).copy_(whole[begin:end])


def local(tensor: Any) -> Tensor:
    """Return one's own part of a tensor, in the same memory."""
    part: Tensor = tensor.to_local()
    return part.detach()


def whole_weights(model: LanguageModel) -> dict[str, Callable[[], Tensor]]:
    """Return what brings each weight together; every learner has to call it, in one order."""
    parts: dict[str, Any] = {**model.tensors()}
    return {name: part.full_tensor for name, part in parts.items()}


def whole_moments(learner: Learner) -> dict[str, Callable[[], Tensor]]:
    """Return what brings each part of the optimiser's state together, named as in its file."""
    found: dict[str, Callable[[], Tensor]] = {}
    for index, parameter in enumerate(updated(learner.optimizer)):
        for key, value in learner.optimizer.state.get(parameter, {}).items():
            found[f"{index}.{key}"] = value.full_tensor if key in SPLIT else value.clone
    return found


KINDS = {  # in the order in which a file has them
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
}
ALIGNED = 8  # bytes that the header's length is a multiple of


def save_streamed(
    tensors: Mapping[str, Callable[[], Tensor]],
    shapes: Mapping[str, tuple[torch.dtype, tuple[int, ...]]],
    path: Path | None,
    what: str,
) -> None:
    """Call for each tensor in the file's order, and write it.

    Args:
        tensors: give one each.
        shapes: of them.
        path: of the file; None: another learner writes it, and this one only calls.
        what: they are, as a message of what is not finite begins.

    Raises:
        DivergedError: one of them is not finite.
        OSError: the disk is full or not writable.
    """
    order = sorted(tensors, key=lambda name: (list(KINDS).index(shapes[name][0]), name))
    if path is None:
        for name in order:
            tensors[name]()
        return
    with path.open("wb") as file:
        file.write(_header(order, shapes))
        for name in order:
            tensor = finite({name: tensors[name]()}, what)[name].detach().cpu().contiguous()
            file.write(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())


def _header(order: list[str], shapes: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]) -> bytes:
    entries, begin = {}, 0
    for name in order:
        dtype, shape = shapes[name]
        end = begin + dtype.itemsize * torch.Size(shape).numel()
        entries[name] = {"dtype": KINDS[dtype], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNED)
    return len(text).to_bytes(8, "little") + text


Result = TypeVar("Result")


class AlongTheTree:
    """Gives each learner the sum of its rows over all learners, added in pairs in float32.

    Torch calls it in place of its own; see ``FSDPModule.set_custom_reduce_scatter``.
    """

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return memory for torch to send from or to receive in."""
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> None:
        """Send each learner its rows, and add one's own as they come from all."""
        received, distributed = torch.empty_like(input_tensor), torch.distributed
        exchange: Any = distributed.all_to_all_single
        exchange(received, input_tensor, group=group)
        sums = [rows.float() for rows in received.view(-1, *output_tensor.shape)]
        while len(sums) > 1:
            sums = [left + right for left, right in zip(sums[::2], sums[1::2], strict=True)]
        output_tensor.copy_(sums[0])


class Split(nn.Module):
    """A model whose weights are split.

    Args:
        model: whose network and value head are split; it computes with them as before.
        mesh: the learners.
    """

    def __init__(self, model: LanguageModel, mesh: Any) -> None:
        super().__init__()
        self.network, self.value_head = model.network, model.value_head
        self._computes = False
        parts = [*_blocks(model), *([] if self.value_head is None else [self.value_head]), self]
        for part in parts:
            whole: Any = fully_shard(part, mesh=mesh)
            whole.set_gradient_divide_factor(1.0)  # gradients are shares of the minibatch's: a sum
            whole.set_force_sum_reduction_for_comms(True)
            whole.set_custom_reduce_scatter(AlongTheTree())
        model.around = self.around
        model.renew()

    def around(self, compute: Callable[[], Result]) -> Result:
        """Return what a call returns that computes with the weights."""
        if self._computes:
            return compute()
        self._computes = True
        try:
            found: Result = self(compute)
        finally:
            self._computes = False
        if not torch.is_grad_enabled():  # else the backward pass does it
            again: Any = self
            again.reshard()
        return found

    def forward(self, compute: Callable[[], Result]) -> Result:
        """Do what is asked for; torch makes the weights whole before it."""
        return compute()


def _blocks(model: LanguageModel) -> list[nn.Module]:
    forward = model.forward
    lists = [list(one) for one in model.base.modules() if isinstance(one, nn.ModuleList)]
    if not isinstance(forward, LeanForward):
        return max(lists, key=len, default=[])  # which it calls itself
    blocks = next(one for one in lists if len(one) == forward.parts.layers)
    parts = architecture(model.base, held=False)
    assert parts is not None, "the forward pass is known"
    forward.parts, forward.modules = parts, blocks
    for block in blocks:
        block.forward = _asked
    return blocks


def _asked(run: Callable[..., Tensor], x: Tensor, layer: int) -> Tensor:
    """Run a block as it is asked for, in place of its network's own way."""
    return run(x, layer)


class Passes(GradientTree):
    """Adds the gradients of leaves where weights are split: those of all learners at one place are
    added by ``AlongTheTree``, and the sums here.

    Args:
        parameters: the parts of the weights.
        count: number of leaves.
        others: the learners.
        size: ``micro_tokens`` and ``padded`` of a pass.
        sync: is told before each pass whether its gradients are to be added among the learners,
            with all that were not. None: those of every pass are.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        count: int,
        others: RankGroup,
        size: tuple[int, int],
        sync: Callable[[bool], None] | None = None,
    ) -> None:
        super().__init__(parameters, count, others)
        self._learners, self._size, self._sync = others, size, sync
        self._beside: list[IntArray] = []

    def leaves(self, data: Pack, chosen: IntArray) -> Iterator[IntArray]:
        """Yield one's own leaves, in order."""
        self._sums.clear()
        found, ranks = leaves(data, chosen, self.count), self._learners.ranks
        for begin in range(0, self.count, ranks):
            self._beside = found[begin : begin + ranks]
            yield self._beside[self._learners.rank]

    def mine(self, data: Pack, chosen: IntArray) -> IntArray:
        """Return all of the chosen sequences to learner 0, so that gradients have the same bits."""
        self._beside = [chosen]
        return chosen if self._learners.rank == 0 else chosen[:0]

    def passes(self, data: Pack) -> int:
        """Return the most passes that any learner's last leaf takes."""
        tokens, padded = self._size
        rows = (np.unique(data.distinct[leaf]) for leaf in self._beside)
        return max(sum(1 for _ in chunks(data, own, tokens, padded=padded)) for own in rows)

    def passing(self, *, last: bool) -> None:
        """Add gradients among the learners after a leaf's last pass alone, if that is asked for."""
        if self._sync is not None:
            self._sync(last)

    def finish(self) -> None:
        """Give the parts of the parameters their gradients of the minibatch."""
        ((_, total),) = self._sums
        self._sums.clear()
        own = [local(parameter) for parameter in self.parameters]
        *parts, alive = torch.split(total, [*(part.numel() for part in own), len(own)])
        for parameter, part, times in zip(self.parameters, parts, alive.tolist(), strict=True):
            parameter.grad = None
            if times:
                parameter.grad = torch.zeros_like(parameter, requires_grad=False)
                rows = local(parameter.grad)
                rows.copy_(part.view_as(rows))

    def _taken(self) -> Tensor:
        """Return the gradients' parts as one vector in float32, as ``GradientTree`` does."""
        found = [
            torch.zeros(own.numel(), device=own.device)
            if parameter.grad is None
            else local(parameter.grad).reshape(-1).float()
            for parameter in self.parameters
            for own in [local(parameter)]
        ]
        alive = [float(parameter.grad is not None) for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return torch.cat([*found, torch.tensor(alive, device=found[0].device)])


def split_learner(
    learner: Learner, mesh: Any, others: RankGroup, *, each_pass: bool = False
) -> None:
    """Split what a learner holds among several, which hold the same.

    Args:
        learner: before its first update.
        mesh: the learners, for torch.
        others: the learners, for us.
        each_pass: add gradients among them after each pass, and not after each leaf.
    """
    copies = [one.model for one in learner.snapshots]
    trained: Any = Split(learner.model, mesh)
    for model in copies:
        Split(model, mesh)
    learner.optimizer = split_optimizer(learner, others.rank)
    padded = PADDED if learner.model.forward.shares_prefixes else 1
    learner.tree = Passes(
        learner.model.parameters(),
        learner.config.leaves,
        others,
        (learner.micro_tokens, padded),
        None if each_pass else trained.set_requires_gradient_sync,
    )
