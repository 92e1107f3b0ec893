"""Whether, and how, a position's bits are its own on this machine: it is measured.

A library of linear algebra chooses its kernel by the shape of a product. So a row may be summed up
in another order beside few rows than beside many. From some number of rows on the choice is always
the same, as long as rows come in whole kernels; which number depends on the processor. Here the
fewest rows are found that a product must be filled up to, by trying them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sparring.models.architectures import Architecture
from sparring.models.attention import Blocks, InvariantAttention, room_for

# what products are tried to be filled up to: whole vectors, as what remains of a vector takes other
# functions (SiLU, GELU); and whole tiles, of which there are such with 6, 8, 24 and 48 rows
FILLS = (8, 16, 32, 48, 96)
QUERIES = (8, 24, 48)  # what products of attention are tried with
TIMES = (1, 2, 3, 5, 7)  # so many of them at once
LEAST, MOST = 288, 960  # rows that are compared: what divides by all of FILLS
WORK = 1 << 32  # multiplications of the largest comparison, about
POSITIONS = 150  # of the conversations in which attention is compared
PARTS = ((0, 1), (5, 6), (13, 40), (16, 17), (63, 64), (64, 66), (140, POSITIONS))


def invariant_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether the bits of a position can be its own with weights like this.

    With several threads they cannot be, so that nothing is paid for it.
    """
    return torch.get_num_threads() == 1 and device.type == "cpu" and dtype == torch.float32


@torch.no_grad()
def fewest_rows(run: Callable[[int], Tensor], most: int = MOST) -> int:
    """Return the fewest rows that a product is filled up to, so that a row's bits are its own.

    Args:
        run: gives the results [M, ...] of the first M rows.
        most: rows to compare.

    Returns:
        A number of ``FILLS``; 0 where none is enough.
    """
    every = run(most // LEAST * LEAST)
    for rows in FILLS:
        counts = [rows * times for times in TIMES if rows * times <= len(every)]
        if all(torch.equal(run(count), every[:count]) for count in counts):
            return rows
    return 0


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


def measured(
    parts: Architecture, head: Callable[[Tensor], Tensor], vocabulary: int, parameters: int
) -> Blocks | None:
    """Return what the products of a network are to come in on this machine; None: nothing will do.

    Its first and last layer and its head are run on some tokens, and attention on random numbers.

    Args:
        parts: of the network.
        head: hidden states [M, C] to logits [M, V].
        vocabulary: number of tokens.
        parameters: of the network.
    """

    def run(count: int) -> Tensor:
        ids = torch.arange(count) % vocabulary
        x, places = parts.embed(ids, torch.zeros_like(ids))
        for layer in sorted({0, parts.layers - 1}):
            mixed = parts.project(layer, x, places)[:, : parts.heads].flatten(1)
            x = parts.finish(layer, x, mixed)
        x = parts.final(x)
        return torch.cat([x, head(x)], 1)

    queries = fewest_queries(parts.heads, parts.groups, parts.head_width)
    rows = fewest_rows(run, max(LEAST, min(MOST, WORK // parameters))) if queries else 0
    return Blocks(rows, queries) if rows else None
