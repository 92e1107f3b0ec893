"""A decoder's forward pass over the distinct prefixes of a batch.

Episodes share many prefixes. Each distinct prefix passes the linear layers once, and only attention
runs over whole sequences. The result equals the Hugging Face model's; tests compare the two.

For the tiny model, calling torch takes longer than the arithmetic: a decoding step has about sixty
calls. ``gpt2.c`` does this work in one call (``CompiledPass``), and its results do not depend on
the batch. The code is compiled once for each shape of model, by the C compiler that ``$CC`` names
(default ``cc``), and stored in the cache folder. Files that other users can write are not loaded.
Without a compiler, or with ``CC=none``, torch does the work; a run's provenance
says which of the two did it.

Legend: N tokens or distinct prefixes, R sequences of T tokens, B cached rows, P cached positions, H
heads, G key-value heads, D width of a head, C width.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import CDLL
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sparring.core.errors import ModelError, RunError
from sparring.core.files import cache_folder, sha256_hex, write_bytes_atomic
from sparring.core.rng import Stream
from sparring.models.architectures import Architecture, architecture
from sparring.models.attention import (
    CausalMask,
    InvariantAttention,
    KeyValueCache,
    PaddingSizes,
    PrefixTree,
    attend,
    num_keys_for,
    pad_rows,
)
from sparring.models.tiny import AdaptedGpt2, Gpt2, tiny_model

SOURCE = Path(__file__).with_name("gpt2.c")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-std=gnu11", "-shared", "-fPIC")
MAX_WIDTH = 128  # wider models are limited by arithmetic, which torch does in several threads
LANES = 16  # numbers in the widest vector register
COMPILER_SECONDS = 60  # limit of the compiler's time
DIGEST_CHARS = 64  # length of the digest at the end of a file of compiled code


class CompiledShape(NamedTuple):
    """The shape of a model. Code is compiled for each shape."""

    width: int
    heads: int
    relu: bool
    epsilon: float

    @property
    def compiler_arguments(self) -> tuple[str, ...]:
        """Arguments of the compiler that define these sizes."""
        return (
            f"-DWIDTH={self.width}",
            f"-DHEADS={self.heads}",
            f"-DRELU={int(self.relu)}",
            f"-DEPSILON={self.epsilon:e}f",
        )


class CacheWrites(NamedTuple):
    """The entries of a cache to which keys and values are written; K entries."""

    token: Tensor  # int64 [K], index of the token
    row: Tensor  # int64 [K], row of the cache
    position: Tensor  # int64 [K], position in the row


class CompiledPass:
    """The compiled forward pass of a GPT-2 of one shape.

    Attributes:
        parts: the network's position-wise parts; each call reads their weights.
        library: the compiled code.
    """

    def __init__(self, parts: Gpt2, library: ctypes.CDLL) -> None:
        self.parts, self.library = parts, library
        self._run = library.forward
        self._run.restype = None

    def fits(self, cache: KeyValueCache) -> bool:
        """Return whether the weights and a cache are in float32 on a CPU."""
        return all(
            tensor.dtype == torch.float32 and tensor.device.type == "cpu"
            for tensor in (self.parts.tokens, cache.tensor)
        )

    def __call__(
        self, ids: Tensor, position: Tensor, row: Tensor, writes: CacheWrites, cache: KeyValueCache
    ) -> Tensor:
        """Return the last hidden states [N, C] of tokens.

        Args:
            ids: int64 [N], the tokens.
            position: int64 [N], position of each token in its sequence.
            row: int64 [N], row of the cache for each token, which attends to it up to its position.
            writes: entries of the cache to which keys and values are written before attention.
            cache: keys and values of the sequences.
        """
        parts, positions = self.parts, cache.positions
        num_tokens, width = len(ids), parts.width[0]
        _check_indices(ids, len(parts.tokens), "tokens")
        _check_indices(writes.position, positions, "positions of the cache")
        hidden = torch.empty((num_tokens, width))
        work = torch.empty(9 * num_tokens * width + positions + LANES)
        weights = parts.weights()
        blocks = (ctypes.c_void_p * len(weights))(*(weight.data_ptr() for weight in weights))
        inputs = [ids.contiguous(), position.contiguous(), row.contiguous()]
        targets = [index.contiguous() for index in writes]
        self._run(
            ctypes.c_int64(num_tokens),
            *map(_pointer, inputs),
            ctypes.c_int64(len(targets[0])),
            *map(_pointer, targets),
            ctypes.c_int64(parts.layers),
            blocks,
            _pointer(parts.tokens),
            _pointer(parts.positions),
            ctypes.c_int64(len(parts.positions)),
            *map(_pointer, parts.last),
            _pointer(cache.tensor),
            ctypes.c_int64(cache.tensor.shape[2]),
            ctypes.c_int64(positions),
            _pointer(work),
            _pointer(hidden),
        )
        return hidden


def _check_indices(indices: Tensor, limit: int, noun: str) -> None:
    """Refuse indices outside of a table, because compiled code would access other memory."""
    smallest, largest = indices.aminmax()
    if not 0 <= int(smallest) <= int(largest) < limit:
        raise IndexError(f"{int(smallest)} to {int(largest)} where there are {limit} {noun}.")


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def compiled_pass(parts: Architecture) -> CompiledPass | None:
    """Return the compiled forward pass of a network; None if torch computes it."""
    shape = shape_of(parts)
    if shape is None or not isinstance(parts, Gpt2):
        return None
    code = library(shape)
    return None if isinstance(code, str) else CompiledPass(parts, code)


def shape_of(parts: Architecture) -> CompiledShape | None:
    """Return the shape of a tiny GPT-2 in float32; None for every other network.

    Compiled code derives all sizes from this shape, so every tensor must have exactly its size.
    """
    if not isinstance(parts, Gpt2) or isinstance(parts, AdaptedGpt2):
        return None
    width, vector = parts.width[0], (parts.width[0],)
    attention = [vector, vector, (width, 3 * width), (3 * width,), (width, width), vector]
    feed_forward = [vector, vector, (width, 4 * width), (4 * width,), (4 * width, width), vector]
    sizes = [*(attention + feed_forward) * parts.layers, vector, vector]
    sizes += [(len(table), width) for table in (parts.tokens, parts.positions)]
    weights = [*parts.weights(), *parts.last, parts.tokens, parts.positions]
    is_supported = (
        width == parts.heads * parts.head_width <= MAX_WIDTH
        and 0 <= parts.epsilon < math.inf
        and [tuple(weight.shape) for weight in weights] == sizes
        and all(
            weight.is_contiguous() and weight.dtype == torch.float32 and weight.device.type == "cpu"
            for weight in weights
        )
    )
    return CompiledShape(width, parts.heads, parts.relu, parts.epsilon) if is_supported else None


def decoding_of(parts: Architecture) -> str:
    """Return the code that computes replies: "compiled", "torch", or "torch: REASON"."""
    shape = shape_of(parts)
    if shape is None:
        return "torch"
    code = library(shape)
    return f"torch: {code}" if isinstance(code, str) else "compiled"


def library(shape: CompiledShape) -> ctypes.CDLL | str:
    """Return the code compiled for a shape, or the reason why there is none."""
    return _library(shape, os.environ.get("CC") or "cc", cache_folder())


@lru_cache(maxsize=64)
def _library(shape: CompiledShape, compiler: str, folder: Path) -> ctypes.CDLL | str:
    """Return the code compiled for a shape, from the cache if possible, or why there is none."""
    if compiler == "none":
        return "CC=none"
    command = [*compiler.split(), *FLAGS, *shape.compiler_arguments]
    try:
        # the compiler's macros include its version and the instruction set of this machine
        macros = _run_command([*command, "-dM", "-E", "-x", "c", os.devnull])
        digest = sha256_hex(b"\n".join([SOURCE.read_bytes(), " ".join(command).encode(), macros]))
        name = f"{platform.machine()}-{digest[:32]}.so"
        with _open_private_folder(folder / "compiled") as (private_folder, descriptor):
            loaded_code = _load_library(private_folder, name, descriptor)
            if loaded_code is None:
                with tempfile.TemporaryDirectory() as build:
                    output = Path(build) / "gpt2.so"
                    _run_command([*command, str(SOURCE), "-o", str(output), "-lm"])
                    code = output.read_bytes()
                write_bytes_atomic(private_folder / name, code + _digest(name, code))
                (private_folder / name).chmod(0o600)
                loaded_code = _load_library(private_folder, name, descriptor)
            return loaded_code or f"other users can change the compiled code in {private_folder}"
    except FileNotFoundError:
        return f"no C compiler {compiler!r} (name one in $CC)"
    except subprocess.TimeoutExpired:
        return f"the C compiler {compiler!r} took more than {COMPILER_SECONDS} s"
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        message = next((line for line in lines if "error" in line), lines[0])
        return f"the C compiler {compiler!r} failed: {message}"
    except (OSError, RunError) as error:
        return f"the compiled code cannot be kept or loaded: {error}"


@contextmanager
def _open_private_folder(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield a folder that no other user can write, and its descriptor; create it if missing."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            os.fchmod(descriptor, 0o700)
        if not _is_private(os.fstat(descriptor)):
            raise RunError(
                f"other users can write {folder}; name a folder of your own in $SPARRING_CACHE"
            )
        yield folder, descriptor
    finally:
        os.close(descriptor)


def _is_private(status: os.stat_result) -> bool:
    """Return whether only this user and root can have written a file or folder."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022


def _load_library(folder: Path, name: str, descriptor: int) -> ctypes.CDLL | None:
    """Load the code in a file of a private folder; None if missing, damaged or not private."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=descriptor)
    except OSError:
        return None
    with open(file, "rb") as stream:
        status = os.fstat(file)
        if not (stat.S_ISREG(status.st_mode) and _is_private(status)):
            return None
        content = stream.read()
    if content[-DIGEST_CHARS:] != _digest(name, content[:-DIGEST_CHARS]):
        return None
    # the descriptor names the folder that was checked, even if its path now names another folder
    checked_folder = Path(f"/proc/self/fd/{descriptor}")
    return ctypes.CDLL(str((checked_folder if checked_folder.exists() else folder) / name))


def _digest(name: str, code: bytes) -> bytes:
    """Return the digest of a file's name and code; it is appended to the file."""
    return sha256_hex(name.encode() + b"\n" + code).encode()


def _run_command(command: Sequence[str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, timeout=COMPILER_SECONDS).stdout


TOLERANCE = 1e-3  # largest difference of the last hidden states between compiled code and torch


class TreeAttention:
    """Attention of every distinct prefix to the positions of its sequence.

    If the tree has parts, only new prefixes are queries; otherwise every position of every sequence
    is a query.
    """

    def __init__(self, parts: Architecture, tree: PrefixTree) -> None:
        self._parts, self._tree, self._flat = parts, tree, tree.node.flatten()
        length, device = tree.node.shape[1], tree.node.device
        self._causal = CausalMask(torch.arange(length, device=device)[None], length)
        self._queries = [
            (
                len(part.rows),
                nodes,
                tree.node[part.rows, : part.positions].flatten(),
                CausalMask(positions, part.positions),
            )
            for part, positions, nodes in tree.queries_of_parts()
        ]

    def __call__(self, qkv: Tensor, layer: int, cache: KeyValueCache | None) -> Tensor:
        """Return the outputs [N, H * D] of a layer's queries, keys and values [N, H + 2G, D].

        Keys and values of the sequences are written into a cache of R rows, if given.
        """
        parts, tree, flat = self._parts, self._tree, qkv.flatten(1)
        count = len(tree.node)
        if not self._queries:
            q, k, v = _split(parts, self._rows(flat, self._flat, count))
            if cache is not None:
                cache.fill(layer, k, v)
            return self._attend(q, k, v, self._causal, layer).index_select(0, tree.query_index)
        queries, keys_values = flat.tensor_split([parts.heads * parts.head_width], 1)
        if cache is not None:
            cache.fill(layer, *self._rows(keys_values, self._flat, count).chunk(2, 2))
        outputs = []
        for count, nodes, visible_nodes, causal in self._queries:
            q = self._rows(queries, nodes, count)
            k, v = self._rows(keys_values, visible_nodes, count).chunk(2, 2)
            outputs.append(self._attend(q, k, v, causal, layer))
        return torch.cat(outputs).index_select(0, tree.query_index)

    def _rows(self, x: Tensor, nodes: Tensor, count: int) -> Tensor:
        """Return values [count, T, -1, D] of the nodes [count * T] of sequences."""
        return x.index_select(0, nodes).view(count, len(nodes) // count, -1, self._parts.head_width)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, causal: CausalMask, layer: int) -> Tensor:
        scale, window = self._parts.scale, self._parts.window(layer)
        output = attend(q, k.transpose(1, 2), v.transpose(1, 2), causal, scale, window)
        return output.flatten(0, 1)


class TreeForward:
    """The forward pass of a known family of decoders.

    Attributes:
        parts: the position-wise parts of the network.
        modules: one per block, called with the block if weights are split; see ``learn/split.py``.
        recompute: whether the backward pass computes blocks again from their inputs, which takes
            less memory and more time.
    """

    shares_prefixes = True

    def __init__(self, parts: Architecture) -> None:
        self.parts = parts
        self.recompute = False
        self.modules: Sequence[Callable[..., Tensor]] = ()

    def new_cache(
        self,
        batch: int,
        positions: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        padding: PaddingSizes | None = None,
    ) -> KeyValueCache:
        """Return an empty cache of ``batch`` rows with at least ``positions`` positions each.

        With ``padding``, results do not depend on the batch.
        """
        if padding:
            positions = num_keys_for(positions)
        shape = (self.parts.layers, 2, batch, self.parts.groups, positions, self.parts.head_width)
        return KeyValueCache(tensor=torch.zeros(shape, dtype=dtype, device=device), padding=padding)

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return the last hidden state [N, C] of every prefix, after the final normalisation.

        Args:
            tree: the prefixes of R sequences.
            cache: R rows for the keys and values of the sequences, or None. If the cache has
                ``padding``, the result is exactly that of ``extend``.
        """
        if cache is not None and self._is_compiled(cache) and not torch.is_grad_enabled():
            return self._hidden_compiled(tree, cache)
        if cache is not None and cache.padding is not None:
            return self._hidden_invariant(tree, cache, cache.padding)
        parts, attention = self.parts, TreeAttention(self.parts, tree)

        def block(x: Tensor, layer: int) -> Tensor:
            qkv = parts.project(layer, x, block_positions)
            return parts.finish(layer, x, attention(qkv, layer, cache))

        x, block_positions = parts.embed(tree.ids, tree.position)
        recompute = self.recompute and torch.is_grad_enabled()
        for layer in range(parts.layers):
            run = partial(checkpoint, block, use_reentrant=False) if recompute else block
            x = self.modules[layer](run, x, layer) if self.modules else run(x, layer)
        return parts.final(x)

    @torch.no_grad()
    def _hidden_invariant(
        self, tree: PrefixTree, cache: KeyValueCache, padding: PaddingSizes
    ) -> Tensor:
        """Return the result of ``hidden`` without gradients and independent of the batch."""
        parts, flat = self.parts, tree.node.flatten()
        rows, length = tree.node.shape
        query_parts: list[tuple[Tensor | slice, int, Tensor, InvariantAttention]] = [
            (
                part.rows,
                len(part.rows),
                nodes,
                self._make_invariant_attention(positions, len(part.rows), padding),
            )
            for part, positions, nodes in tree.queries_of_parts()
        ]
        if not query_parts:
            positions = torch.arange(length, device=flat.device)[None]
            attention = self._make_invariant_attention(positions, rows, padding)
            query_parts = [(slice(None), rows, flat, attention)]
        ids, block_positions, query_index = (
            pad_rows(x, padding.rows) for x in (tree.ids, tree.position, tree.query_index)
        )
        x, block_positions = parts.embed(ids, block_positions)
        width, scale = parts.heads * parts.head_width, parts.scale
        for layer in range(parts.layers):
            queries, kv = (
                parts.project(layer, x, block_positions).flatten(1).tensor_split([width], 1)
            )
            kv_rows = kv.index_select(0, flat).view(rows, length, -1, parts.head_width)
            cache.fill(layer, *kv_rows.chunk(2, 2))
            keys, values = cache.tensor[layer, 0], cache.tensor[layer, 1]
            outputs = []
            for part_rows, count, nodes, attention in query_parts:
                q = queries.index_select(0, nodes).view(count, -1, parts.heads, parts.head_width)
                result = attention(
                    q, keys[part_rows], values[part_rows], scale, parts.window(layer)
                )
                outputs.append(result[: len(nodes)])
            x = parts.finish(layer, x, torch.cat(outputs).index_select(0, query_index))
        return parts.final(x)[: len(tree.ids)]

    @cached_property
    def compiled(self) -> CompiledPass | None:
        """The compiled forward pass, without gradients; None if torch computes it.

        Raises:
            ModelError: compiled code and torch differ.
        """
        forward, shape = compiled_pass(self.parts), shape_of(self.parts)
        if forward is not None and shape is not None:
            _check_compiled(shape, forward.library)
        return forward

    def _is_compiled(self, cache: KeyValueCache) -> bool:
        return self.compiled is not None and self.compiled.fits(cache)

    def _hidden_compiled(self, tree: PrefixTree, cache: KeyValueCache) -> Tensor:
        assert self.compiled is not None
        rows, length = tree.node.shape
        row = torch.arange(rows).repeat_interleave(length)
        writes = CacheWrites(tree.node.flatten(), row, torch.arange(length).repeat(rows))
        return self.compiled(tree.ids, tree.position, tree.flat_index // length, writes, cache)

    def _extend_compiled(self, ids: Tensor, positions: Tensor, cache: KeyValueCache) -> Tensor:
        assert self.compiled is not None
        batch, length = ids.shape
        row, position = torch.arange(batch).repeat_interleave(length), positions.flatten()
        writes = CacheWrites(torch.arange(batch * length), row, position)
        hidden = self.compiled(ids.flatten(), position, row, writes, cache)
        return hidden.view(batch, length, -1)

    def _make_invariant_attention(
        self, positions: Tensor, batch: int, padding: PaddingSizes
    ) -> InvariantAttention:
        parts = self.parts
        shape = {"heads": parts.heads, "groups": parts.groups, "width": parts.head_width}
        return InvariantAttention(positions, batch, **shape, blocks=padding)

    @torch.no_grad()
    def extend(self, ids: Tensor, start: Tensor, cache: KeyValueCache) -> Tensor:
        """Append tokens to cached sequences and return their last hidden states [B, T, C].

        Args:
            ids: int64 [B, T], the new tokens of each row, right-padded.
            start: int64 [B], the cached length of each row: the position of its first new token.
            cache: at least ``max(start) + T`` positions long; receives the new keys and values.
        """
        positions = start[:, None] + torch.arange(ids.shape[1], device=ids.device)
        if self._is_compiled(cache):
            return self._extend_compiled(ids, positions, cache)
        return self._extend(ids, positions, cache)

    def _extend(self, ids: Tensor, positions: Tensor, cache: KeyValueCache) -> Tensor:
        """Return the result of ``extend`` for tokens at positions [B, T], computed by torch."""
        parts = self.parts
        batch, length = ids.shape
        rows = torch.arange(batch, device=ids.device)[:, None]
        padding, count = cache.padding, batch * length
        multiple = padding.rows if padding else 1
        attention: Callable[..., Tensor] = (
            self._make_invariant_attention(positions, batch, padding)
            if padding
            else partial(attend, causal=CausalMask(positions, cache.positions))
        )
        padded_ids, padded_positions = (pad_rows(x.flatten(), multiple) for x in (ids, positions))
        x, block_positions = parts.embed(padded_ids, padded_positions)
        for layer in range(parts.layers):
            qkv = parts.project(layer, x, block_positions)[:count]
            q, k, v = _split(parts, qkv.view(batch, length, -1, parts.head_width))
            keys, values = cache.tensor[layer, 0], cache.tensor[layer, 1]
            keys[rows, :, positions] = k
            values[rows, :, positions] = v
            output = attention(q, keys, values, scale=parts.scale, window=parts.window(layer))
            x = parts.finish(layer, x, output if padding else output.flatten(0, 1))
        return parts.final(x)[:count].view(batch, length, -1)


def _split(parts: Architecture, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries [B, T, H, D], keys and values [B, T, G, D] of [B, T, H + 2G, D]."""
    q, k, v = torch.split(qkv, [parts.heads, parts.groups, parts.groups], 2)
    return q, k, v


@lru_cache(maxsize=64)
def _check_compiled(shape: CompiledShape, library: CDLL) -> None:
    """Raise ModelError if compiled code and torch differ with random weights."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        network = tiny_model(
            vocabulary_size=32,
            stream=Stream.from_seed(0),
            hidden_size=shape.width,
            heads=shape.heads,
            context=16,
            activation="relu" if shape.relu else "gelu_new",
            epsilon=shape.epsilon,
        )
        generator = torch.Generator().manual_seed(0)
        for weight in network.parameters():
            weight.normal_(0, 0.2, generator=generator)
        ids = torch.randint(0, 32, (2, 12), generator=generator)
        parts = cast(Gpt2, architecture(network.eval()))
        forward = TreeForward(parts)
        forward.compiled = CompiledPass(parts, library)
        positions = torch.arange(12).expand(2, 12)
        compiled_states, torch_states = (
            extend(ids, positions, forward.new_cache(2, 16, dtype=torch.float32, device=ids.device))
            for extend in (forward._extend_compiled, forward._extend)
        )
    difference = float((compiled_states - torch_states).abs().max())
    if not difference < TOLERANCE:
        raise ModelError(
            f"The compiled forward pass of this model differs by {difference:.2g} from torch's. "
            "Name another compiler in $CC, or use torch with CC=none."
        )
