"""AdamW with master weights: float32 copies of 16-bit weights.

A bfloat16 has 8 bits of precision. Rounding loses an update of less than 1/512 of a weight:
nearly every update at usual learning rates. ``MasterAdamW`` therefore keeps a copy of each
such weight, and its moments, in float32. The optimiser updates the copy, and the rounded copy
becomes the weight. If a checkpoint or a league's restart has changed a weight, the copy no longer
rounds to it and takes the weight's value.

``SplitAdamW`` updates parts of weights, with exactly the results of AdamW over whole weights.
Torch's fused kernel processes a fixed number of elements at once; it computes the last few elements
of a tensor in another way, with slightly different results. The last elements of a part are not
those of the whole tensor. Therefore elements from the middle of the whole tensor are padded to a
multiple of that number, and the whole tensor's last elements are computed separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.adamw import adamw

NUM_PROBE_ELEMENTS = 63  # size of the tensors whose last elements are compared
NUM_TRIALS = 500


@lru_cache(maxsize=1)
def measure_lanes() -> int:
    """Return the number of float32 elements that the kernel processes at once on this machine.

    The number is 1 if the kernel computes the last elements of a tensor like other elements.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(3, NUM_TRIALS, NUM_PROBE_ELEMENTS, generator=generator).unbind()]
    inputs.append(
        tuple(torch.cat([tensor, tensor.new_zeros(NUM_TRIALS, 1)], 1) for tensor in inputs[0])
    )
    results = []
    for weights, gradients, means in inputs:
        squares = means.square()
        tensors = [list(tensor.clone()) for tensor in (weights, gradients, means, squares)]
        _step(
            tensors[0], tensors[1], tensors[2], tensors[3], [torch.zeros(())] * NUM_TRIALS, lr=0.1
        )
        results.append(torch.stack([*tensors[0], *tensors[3]])[:, :NUM_PROBE_ELEMENTS])
    different_elements = (results[0] != results[1]).any(0).nonzero()
    sizes = (
        size
        for size in (2, 4, 8, 16, 32)
        if len(different_elements)
        and NUM_PROBE_ELEMENTS - NUM_PROBE_ELEMENTS % size <= different_elements.min()
    )
    return next(sizes, 1)


def append_zeros(x: Tensor, num_zeros: int) -> Tensor:
    """Return a copy with zeros appended."""
    return torch.cat([x, x.new_zeros(num_zeros)])


def _step(
    weights: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    steps: list[Tensor],
    **options: Any,
) -> None:
    """Update tensors by torch's kernel, with copies of the steps, because it increases them."""
    defaults = {"beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0, "eps": 1e-8, **options}
    step_copies = [
        step.to(weight.device, copy=True) for step, weight in zip(steps, weights, strict=True)
    ]
    unused: list[Tensor] = []
    kernel_options: Any = {"fused": True, "amsgrad": False, "maximize": False, **defaults}
    adamw(weights, gradients, means, squares, unused, step_copies, **kernel_options)


class OptimizerRows(NamedTuple):
    """This rank's elements of a weight, of its gradient and of its two moments."""

    tensors: tuple[Tensor, Tensor, Tensor, Tensor]  # weight, gradient, first and second moment
    begin: int  # index of the first element in the whole weight
    num_elements: int  # number of elements of the whole weight
    step: Tensor  # number of updates so far

    def pieces(self) -> Iterator[tuple[tuple[Tensor, ...], int]]:
        """Yield (tensors, padding) of pieces that the kernel computes as in the whole weight."""
        weight = self.tensors[0]
        is_vectorised = weight.dtype == torch.float32 and weight.device.type == "cpu"
        num_rows = len(weight)
        num_lanes = measure_lanes() if is_vectorised else 1  # a GPU computes single elements
        middle = min(max(self.num_elements // num_lanes * num_lanes - self.begin, 0), num_rows)
        for begin, end in ((0, middle), (middle, num_rows)):
            if begin < end:
                num_zeros = -(end - begin) % num_lanes if end == middle else 0
                yield tuple(tensor[begin:end] for tensor in self.tensors), num_zeros


def update(rows: Iterable[OptimizerRows], **options: Any) -> None:
    """Update weights and moments, but not the step counts.

    Args:
        rows: this rank's elements of all weights.
        options: options of AdamW's kernel.
    """
    pieces = [(piece, padding, row.step) for row in rows for piece, padding in row.pieces()]
    if not pieces:
        return
    inputs = [
        [append_zeros(row, padding) if padding else row for row in piece]
        for piece, padding, _ in pieces
    ]
    weights, gradients, means, squares = map(list, zip(*inputs, strict=True))
    _step(weights, gradients, means, squares, [step for *_, step in pieces], **options)
    for (piece, padding, _), copies in zip(pieces, inputs, strict=True):
        if padding:
            for row, padded_copy in zip(piece, copies, strict=True):
                row.copy_(padded_copy[: len(row)])


class SplitAdamW(torch.optim.AdamW):
    """AdamW over parameters that are split by rows; see the top of this file.

    Args:
        parameters: parameters that are split among the ranks.
        rank: index of this rank.
        options: options of AdamW.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], rank: int, **options: Any) -> None:
        super().__init__(parameters, **options)
        self._rank = rank

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update this rank's rows of the weights."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            names = ("lr", "weight_decay", "eps")
            beta1, beta2 = group["betas"]
            options = {name: group[name] for name in names} | {"beta1": beta1, "beta2": beta2}
            update([self._rows(parameter) for parameter in parameters], **options)
            for parameter in parameters:
                self.state[parameter]["step"] += 1

    def _rows(self, parameter: Any) -> OptimizerRows:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = torch.zeros_like(parameter, requires_grad=False)
        split_tensors = (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"])
        weight, gradient, mean, square = (
            tensor.to_local().detach().view(-1) for tensor in split_tensors
        )
        rows, size = parameter.shape[0], -(-parameter.shape[0] // parameter.device_mesh.size())
        begin = min(self._rank * size, rows) * (parameter.numel() // max(rows, 1))
        return OptimizerRows(
            (weight, gradient, mean, square), begin, parameter.numel(), state["step"]
        )


MASTER = "master"  # key of the copy in the optimiser's state


def float32_copy(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    """Return an empty float32 copy of a parameter, or the parameter if it has 32 bits or more.

    The copy takes no memory before the first update, so it costs nothing where no update is made.
    """
    if parameter.dtype.itemsize >= torch.float32.itemsize:
        return parameter
    return torch.nn.Parameter(torch.empty_like(parameter, dtype=torch.float32))


class MasterWeights:
    """A mix-in that lets an optimiser update float32 copies; put it before the optimiser's class.

    Args:
        parameters: the parameters to update.
        options: options of the optimiser.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], **options: Any) -> None:
        pairs = [(parameter, float32_copy(parameter)) for parameter in parameters]
        self._copies = [(weight, copy) for weight, copy in pairs if weight is not copy]
        optimizer: Any = super()
        optimizer.__init__([copy for _, copy in pairs], **options)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of copies and weights."""
        optimizer: Any = super()
        optimizer.zero_grad(set_to_none=set_to_none)
        for weight, _ in self._copies:
            weight.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update the copies by the gradients of the weights, and then the weights."""
        optimizer: Any = super()
        state: Any = self.state  # type: ignore[attr-defined]
        for weight, copy in self._copies:
            _restore_copy(copy, weight, state.get(copy, {}).get(MASTER))
            copy.grad = None if weight.grad is None else weight.grad.float()
            weight.grad = None
        optimizer.step()
        for weight, copy in self._copies:
            if copy.grad is not None:
                copy.grad = None
                weight.copy_(copy)
                state[copy][MASTER] = copy.detach()


def _restore_copy(copy: Tensor, weight: Tensor, saved: Tensor | None) -> None:
    """Set a copy to its saved value, or to the weight if the saved value does not round to it."""
    if saved is None:
        copy.copy_(weight)
        return
    copy.copy_(torch.where(saved.to(weight.dtype) == weight, saved, weight.float()))


class MasterAdamW(MasterWeights, torch.optim.AdamW):  # type: ignore[misc]
    """AdamW over float32 copies of weights."""


class SplitMasterAdamW(MasterWeights, SplitAdamW):  # type: ignore[misc]
    """AdamW over float32 copies of weights that are split among ranks."""
