"""AdamW over parts of weights, with the bits of AdamW over whole ones.

Torch's fused kernel takes so many elements at once, and computes the last few of a tensor, which
are fewer, in another way: their last bits differ. Where a tensor is cut, other elements are the
last. So elements that are in the middle of a whole tensor are filled up to a multiple here, and
those that are its last are computed by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

PROBE = 63  # elements of a tensor whose last few are looked for
TRIALS = 500


@lru_cache(maxsize=1)
def lanes() -> int:
    """Return how many elements of float32 the kernel takes at once on this machine.

    1 where the last few of a tensor have no bits of their own.
    """
    draw = torch.Generator().manual_seed(0)
    given = [torch.randn(3 * TRIALS, PROBE, generator=draw).split(TRIALS)]
    given.append(tuple(torch.cat([one, one.new_zeros(TRIALS, 1)], 1) for one in given[0]))
    found = []
    for weights, gradients, means in given:
        squares = means.square()
        four = [list(one.clone()) for one in (weights, gradients, means, squares)]
        _step(four[0], four[1], four[2], four[3], [torch.zeros(())] * TRIALS, lr=0.1)
        found.append(torch.stack([*four[0], *four[3]])[:, :PROBE])
    other = (found[0] != found[1]).any(0).nonzero()
    sizes = (
        size for size in (2, 4, 8, 16, 32) if len(other) and PROBE - PROBE % size <= other.min()
    )
    return next(sizes, 1)


def filled(x: Tensor, size: int) -> Tensor:
    """Return a copy with zeros after it."""
    return torch.cat([x, x.new_zeros(size - len(x))])


def _step(
    weights: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    steps: list[Tensor],
    **options: Any,
) -> None:
    """Update tensors by torch's kernel; of the steps it gets copies."""
    usual = {"beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0, "eps": 1e-8, **options}
    counted = [step.clone() for step in steps]
    none: list[Tensor] = []
    how: Any = {"fused": True, "amsgrad": False, "maximize": False, **usual}
    adamw(weights, gradients, means, squares, none, counted, **how)


class SplitAdamW(torch.optim.AdamW):
    """AdamW over parameters that are split by rows; see the top of this file.

    Args:
        parameters: split among learners.
        rank: of this learner.
        options: of AdamW.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], rank: int, **options: Any) -> None:
        super().__init__(parameters, **options)
        self._rank = rank

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update one's own rows of the weights."""
        for group in self.param_groups:
            pieces = [
                piece
                for parameter in group["params"]
                if parameter.grad is not None
                for piece in self._pieces(parameter)
            ]
            if not pieces:
                continue
            sent = [
                [filled(own, size) if size else own for own in four] for four, size, _ in pieces
            ]
            beta1, beta2 = group["betas"]
            _step(
                *map(list, zip(*sent, strict=True)),
                [step for _, _, step in pieces],
                lr=group["lr"],
                beta1=beta1,
                beta2=beta2,
                weight_decay=group["weight_decay"],
                eps=group["eps"],
            )
            for (four, size, _), given in zip(pieces, sent, strict=True):
                if size:
                    for own, new in zip(four, given, strict=True):
                        own.copy_(new[: len(own)])
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.state[parameter]["step"] += 1

    def _pieces(self, parameter: Any) -> Iterator[tuple[tuple[Tensor, ...], int, Tensor]]:
        """Yield one's own elements of a parameter, its gradient and moments, in pieces that the
        kernel computes as it does in a whole tensor.

        With each comes the size that it is to be filled up to (0: none), and the number of steps.
        """
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = torch.zeros_like(parameter, requires_grad=False)
        split = (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"])
        four = tuple(one.to_local().detach().view(-1) for one in split)
        count, size = len(four[0]), lanes() if parameter.dtype == torch.float32 else 1
        rows, each = parameter.shape[0], -(-parameter.shape[0] // parameter.device_mesh.size())
        begin = min(self._rank * each, rows) * (parameter.numel() // max(rows, 1))
        middle = min(max(parameter.numel() // size * size - begin, 0), count)
        for first, last in ((0, middle), (middle, count)):
            if first < last:
                some = tuple(one[first:last] for one in four)
                lacking = -(last - first) % size if last == middle else 0
                yield some, last - first + lacking if lacking else 0, state["step"]
