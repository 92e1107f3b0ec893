"""Whether, and how, a position's bits are its own on this machine: it is measured.

A library of linear algebra chooses its kernel by the shape of a product. So a row may be summed up
in another order beside few rows than beside many. From some number of rows on the choice is always
the same, as long as rows come in whole kernels; which number depends on the processor. Here the
fewest rows are found that products must be filled up to, by trying them. What is found depends on
the shapes of a network's weights alone, not on their values: it is the same before and after an
update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparring.models.attention import Blocks, InvariantAttention, room_for
from sparring.models.tiny import is_projection

# what products are tried to be filled up to: whole vectors, as what remains of a vector takes other
# functions (SiLU, GELU); and whole tiles, of which there are such with 6, 8, 24 and 48 rows
FILLS = (8, 16, 32, 48, 96)
QUERIES = (8, 24, 48)  # what products of attention are tried with
TIMES = (1, 2, 3, 5, 7)  # so many of them at once
LEAST, MOST = 192, 960  # rows that are compared: what divides by all of FILLS
WORK = 1 << 32  # multiplications of the largest comparison, about
POSITIONS = 150  # of the conversations in which attention is compared
PARTS = ((0, 1), (5, 6), (13, 40), (16, 17), (63, 64), (64, 66), (140, POSITIONS))


def invariant_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether the bits of a position can be its own with weights like this.

    With several threads they cannot be, so that nothing is paid for it.
    """
    return torch.get_num_threads() == 1 and device.type == "cpu" and dtype == torch.float32


class Product(NamedTuple):
    """The shape of a product of rows with a weight."""

    inner: int
    outer: int
    turned: bool  # whether the weight is [outer, inner], as in nn.Linear; else [inner, outer]
    shifted: bool  # whether a bias is added in the same call; always, where it is not turned


def products(network: nn.Module) -> frozenset[Product]:
    """Return the shapes of a network's products, adapters' and the head's included."""
    found = set()
    for module in network.modules():
        if isinstance(module, nn.Linear):
            shape = (module.in_features, module.out_features)
            found.add(Product(*shape, turned=True, shifted=module.bias is not None))
        elif is_projection(module):
            weight = module.weight
            assert isinstance(weight, Tensor)
            inner, outer = weight.shape
            found.add(Product(inner, outer, turned=False, shifted=True))
    return frozenset(found)


def holds(run: Callable[[int], Tensor], rows: int, every: Tensor) -> bool:
    """Return whether a row's bits are its own where rows come in multiples.

    Args:
        run: gives the results [M, ...] of the first M rows.
        rows: the number that there are multiples of.
        every: the results of very many.
    """
    counts = (rows * times for times in TIMES if rows * times <= len(every))
    return all(torch.equal(run(count), every[:count]) for count in counts)


@lru_cache(maxsize=1024)
@torch.no_grad()
def good_rows(product: Product) -> frozenset[int]:
    """Return the numbers of ``FILLS`` that keep the bits of a row of a product its own."""
    inner, outer, turned, shifted = product
    draw = torch.Generator().manual_seed(0)
    most = max(LEAST, min(MOST, WORK // (inner * outer) // LEAST * LEAST))
    x = torch.randn(most, inner, generator=draw)
    weight = torch.randn(*((outer, inner) if turned else (inner, outer)), generator=draw)
    bias = torch.randn(outer, generator=draw)

    def run(count: int) -> Tensor:
        if turned:
            return F.linear(x[:count], weight, bias if shifted else None)
        return torch.addmm(bias, x[:count], weight)

    every = run(most)
    return frozenset(rows for rows in FILLS if holds(run, rows, every))


def fewest_rows(wanted: Iterable[Product]) -> int:
    """Return the fewest rows that products are filled up to, so that a row's bits are its own.

    Args:
        wanted: the products.

    Returns:
        A number of ``FILLS``; 0 where none is enough for all.
    """
    good = frozenset(FILLS).intersection(*map(good_rows, wanted))
    return min(good, default=0)


@lru_cache(maxsize=1024)
@torch.no_grad()
def fewest_queries(heads: int, groups: int, width: int) -> int:
    """Return the fewest rows of a product of attention with which a query's bits are its own.

    Args:
        heads: of queries.
        groups: key-value heads.
        width: of a head.

    Returns:
        A number of ``QUERIES``; 0 where none is enough.
    """
    draw, batch = torch.Generator().manual_seed(0), 3
    q = torch.randn(batch, POSITIONS, heads, width, generator=draw)
    k, v = (torch.randn(batch, groups, room_for(POSITIONS), width, generator=draw) for _ in "kv")
    shape = {"heads": heads, "groups": groups, "width": width}

    def mixed(queries: int, rows: slice, begin: int, end: int) -> Tensor:
        positions = torch.arange(begin, end)[None].expand(len(q[rows]), -1)
        blocks = Blocks(FILLS[0], queries)
        attention = InvariantAttention(positions, len(positions), **shape, blocks=blocks)
        found = attention(q[rows, begin:end], k[rows], v[rows], width**-0.5, None)
        return found[: positions.numel()].view(*positions.shape, -1)

    for queries in QUERIES:
        every, alone = mixed(queries, slice(0, batch), 0, POSITIONS), slice(1, 2)
        if all(
            torch.equal(mixed(queries, alone, begin, end), every[alone, begin:end])
            for begin, end in PARTS
        ):
            return queries
    return 0
