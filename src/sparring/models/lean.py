"""A decoder's forward pass over the distinct prefixes of a batch, with little Python in it.

A tiny model's step is the framework's overhead; a pretrained model's is the arithmetic on positions
that many games share. Each distinct prefix passes the linear layers once, and attention alone runs
over whole sequences. The result is what the Hugging Face model computes (tests compare the two).

At the tiny model's size a step of decoding is some sixty calls of torch, which cost more than the
arithmetic. ``gpt2.c`` does the same in one (``CompiledPass``), and gives every token bits of its
own. It is compiled once for each shape of model, by the C compiler that ``$CC`` names (``cc`` where
it names none), and kept in the cache folder, from which it is loaded only where nobody else can
have written it. Where there is no compiler, torch does it, and a run's provenance says so;
``CC=none`` asks for that.

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
    Blocks,
    Causal,
    InvariantAttention,
    KeyValueCache,
    PrefixTree,
    attend,
    filled,
    room_for,
)
from sparring.models.tiny import AdaptedGpt2, Gpt2, tiny_model

SOURCE = Path(__file__).with_name("gpt2.c")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-std=gnu11", "-shared", "-fPIC")
WIDEST = 128  # of wider models the arithmetic is what costs, and torch has several threads for it
LANES = 16  # numbers of the widest vector
SECONDS = 60  # for the compiler
DIGEST = 64  # characters


class Shape(NamedTuple):
    """What the code is compiled for."""

    width: int
    heads: int
    relu: bool
    epsilon: float

    @property
    def defined(self) -> tuple[str, ...]:
        """The words that tell a compiler."""
        return (
            f"-DWIDTH={self.width}",
            f"-DHEADS={self.heads}",
            f"-DRELU={int(self.relu)}",
            f"-DEPSILON={self.epsilon:e}f",
        )


class Copies(NamedTuple):
    """Where keys and values are written, each int64 [K].

    Attributes:
        token: whose they are.
        row: row of the cache.
        position: position in it.
    """

    token: Tensor
    row: Tensor
    position: Tensor


class CompiledPass:
    """The forward pass of a GPT-2 of one shape.

    Attributes:
        parts: of the network; its weights are read at each call.
        library: the compiled code.
    """

    def __init__(self, parts: Gpt2, library: ctypes.CDLL) -> None:
        self.parts, self.library = parts, library
        self._run = library.forward
        self._run.restype = None

    def fits(self, cache: KeyValueCache) -> bool:
        """Return whether the weights and a cache are in float32 on a CPU."""
        weight, tensor = self.parts.tokens, cache.tensor
        return all(
            one.dtype == torch.float32 and one.device.type == "cpu" for one in (weight, tensor)
        )

    def __call__(
        self, ids: Tensor, position: Tensor, row: Tensor, copies: Copies, cache: KeyValueCache
    ) -> Tensor:
        """Return the last hidden states [N, C] of tokens.

        Args:
            ids: int64 [N], the tokens.
            position: int64 [N], the place of each in its sequence.
            row: int64 [N], the row of the cache that it looks at: all positions up to its own.
            copies: where keys and values are written before anything looks at them.
            cache: of the sequences.
        """
        parts, room = self.parts, cache.positions
        count, width = len(ids), parts.width[0]
        _check(ids, len(parts.tokens), "tokens")
        _check(copies.position, room, "positions of the cache")
        hidden = torch.empty((count, width))
        work = torch.empty(9 * count * width + room + LANES)
        weights = parts.weights()
        blocks = (ctypes.c_void_p * len(weights))(*(weight.data_ptr() for weight in weights))
        given = [ids.contiguous(), position.contiguous(), row.contiguous()]
        written = [one.contiguous() for one in copies]
        self._run(
            ctypes.c_int64(count),
            *map(_pointer, given),
            ctypes.c_int64(len(written[0])),
            *map(_pointer, written),
            ctypes.c_int64(parts.layers),
            blocks,
            _pointer(parts.tokens),
            _pointer(parts.positions),
            ctypes.c_int64(len(parts.positions)),
            *map(_pointer, parts.last),
            _pointer(cache.tensor),
            ctypes.c_int64(cache.tensor.shape[2]),
            ctypes.c_int64(room),
            _pointer(work),
            _pointer(hidden),
        )
        return hidden


def _check(numbers: Tensor, limit: int, what: str) -> None:
    """Refuse what is outside of a table: compiled code would read or write elsewhere."""
    least, most = numbers.aminmax()
    if not 0 <= int(least) <= int(most) < limit:
        raise IndexError(f"{int(least)} to {int(most)} where there are {limit} {what}.")


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    """Return where a tensor's numbers are."""
    return ctypes.c_void_p(tensor.data_ptr())


def compiled_pass(parts: Architecture) -> CompiledPass | None:
    """Return the compiled forward pass of a network; None where torch does it."""
    shape = shape_of(parts)
    if shape is None or not isinstance(parts, Gpt2):
        return None
    found = library(shape)
    return None if isinstance(found, str) else CompiledPass(parts, found)


def shape_of(parts: Architecture) -> Shape | None:
    """Return the shape of a tiny GPT-2 in float32; None for every other network.

    The code reads weights by this shape alone, so every tensor must have exactly the size it reads.
    """
    if not isinstance(parts, Gpt2) or isinstance(parts, AdaptedGpt2):
        return None
    width, vector = parts.width[0], (parts.width[0],)
    attention = [vector, vector, (width, 3 * width), (3 * width,), (width, width), vector]
    feed_forward = [vector, vector, (width, 4 * width), (4 * width,), (4 * width, width), vector]
    sizes = [*(attention + feed_forward) * parts.layers, vector, vector]
    sizes += [(len(table), width) for table in (parts.tokens, parts.positions)]
    weights = [*parts.weights(), *parts.last, parts.tokens, parts.positions]
    fits = (
        width == parts.heads * parts.head_width <= WIDEST
        and 0 <= parts.epsilon < math.inf
        and [tuple(weight.shape) for weight in weights] == sizes
        and all(
            weight.is_contiguous() and weight.dtype == torch.float32 and weight.device.type == "cpu"
            for weight in weights
        )
    )
    return Shape(width, parts.heads, parts.relu, parts.epsilon) if fits else None


def how(parts: Architecture) -> str:
    """Return in words what decodes: "compiled", or "torch" and why."""
    shape = shape_of(parts)
    if shape is None:
        return "torch"
    found = library(shape)
    return f"torch: {found}" if isinstance(found, str) else "compiled"


def library(shape: Shape) -> ctypes.CDLL | str:
    """Return the code compiled for a shape, or why there is none."""
    return _library(shape, os.environ.get("CC") or "cc", cache_folder())


@lru_cache(maxsize=64)
def _library(shape: Shape, compiler: str, folder: Path) -> ctypes.CDLL | str:
    """Return the code compiled for a shape by a compiler, from the cache if it is there."""
    if compiler == "none":
        return "CC=none"
    words = [*compiler.split(), *FLAGS, *shape.defined]
    try:
        # what a compiler defines says its version and the instructions of this machine
        known = _ask([*words, "-dM", "-E", "-x", "c", os.devnull])
        digest = sha256_hex(b"\n".join([SOURCE.read_bytes(), " ".join(words).encode(), known]))
        name = f"{platform.machine()}-{digest[:32]}.so"
        with _private_folder(folder / "compiled") as (place, descriptor):
            loaded = _loaded(place, name, descriptor)
            if loaded is None:
                with tempfile.TemporaryDirectory() as build:
                    built = Path(build) / "gpt2.so"
                    _ask([*words, str(SOURCE), "-o", str(built), "-lm"])
                    code = built.read_bytes()
                write_bytes_atomic(place / name, code + _seal(name, code))
                (place / name).chmod(0o600)
                loaded = _loaded(place, name, descriptor)
            return loaded or f"the compiled code in {place} cannot be kept from others' writing"
    except FileNotFoundError:
        return f"no C compiler {compiler!r} (name one in $CC)"
    except subprocess.TimeoutExpired:
        return f"the C compiler {compiler!r} took more than {SECONDS} s"
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        said = next((line for line in lines if "error" in line), lines[0])
        return f"the C compiler {compiler!r} failed: {said}"
    except (OSError, RunError) as error:
        return f"the compiled code cannot be kept or loaded: {error}"


@contextmanager
def _private_folder(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield a folder that nobody else can write, and its descriptor; it is made where it is not."""
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
    """Return whether nobody but this user and root can have written a file or folder."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022


def _loaded(folder: Path, name: str, descriptor: int) -> ctypes.CDLL | None:
    """Return the code in a file of a private folder. None where there is none, it is damaged, or
    others can have written it."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=descriptor)
    except OSError:
        return None
    with open(file, "rb") as stream:
        status = os.fstat(file)
        if not (stat.S_ISREG(status.st_mode) and _is_private(status)):
            return None
        content = stream.read()
    if content[-DIGEST:] != _seal(name, content[:-DIGEST]):
        return None
    # the folder that was looked at, whatever has its path by now
    opened = Path(f"/proc/self/fd/{descriptor}")
    return ctypes.CDLL(str((opened if opened.exists() else folder) / name))


def _seal(name: str, code: bytes) -> bytes:
    """Return the digest of code and of the name that it is for, which stands at a file's end."""
    return sha256_hex(name.encode() + b"\n" + code).encode()


def _ask(words: Sequence[str]) -> bytes:
    return subprocess.run(words, check=True, capture_output=True, timeout=SECONDS).stdout


TOLERANCE = 1e-3  # of the last hidden states, between compiled code and torch


class TreeAttention:
    """Attention of every distinct prefix to the positions of a sequence that it begins.

    Where the tree has parts, own prefixes alone ask; else all positions of all sequences do.
    """

    def __init__(self, parts: Architecture, tree: PrefixTree) -> None:
        self._parts, self._tree, self._flat = parts, tree, tree.node.flatten()
        length, device = tree.node.shape[1], tree.node.device
        self._causal = Causal(torch.arange(length, device=device)[None], length)
        self._asked = [
            (
                len(part.rows),
                asked,
                tree.node[part.rows, : part.positions].flatten(),
                Causal(own, part.positions),
            )
            for part, own, asked in tree.asked()
        ]

    def __call__(self, qkv: Tensor, layer: int, cache: KeyValueCache | None) -> Tensor:
        """Return mixed values [N, H * D] of a layer's queries, keys and values [N, H + 2G, D].

        A cache of R rows takes the keys and values of the sequences.
        """
        parts, tree, flat = self._parts, self._tree, qkv.flatten(1)
        count = len(tree.node)
        if not self._asked:
            q, k, v = _split(parts, self._rows(flat, self._flat, count))
            if cache is not None:
                cache.fill(layer, k, v)
            return self._attend(q, k, v, self._causal, layer).index_select(0, tree.place)
        queries, known = flat.tensor_split([parts.heads * parts.head_width], 1)
        if cache is not None:
            cache.fill(layer, *self._rows(known, self._flat, count).chunk(2, 2))
        found = []
        for count, asked, seen, causal in self._asked:
            q = self._rows(queries, asked, count)
            k, v = self._rows(known, seen, count).chunk(2, 2)
            found.append(self._attend(q, k, v, causal, layer))
        return torch.cat(found).index_select(0, tree.place)

    def _rows(self, x: Tensor, nodes: Tensor, count: int) -> Tensor:
        """Return values [count, T, -1, D] of the nodes [count * T] of sequences."""
        return x.index_select(0, nodes).view(count, len(nodes) // count, -1, self._parts.head_width)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, causal: Causal, layer: int) -> Tensor:
        """Return mixed values [B * T, H * D] of queries [B, T, H, D]."""
        scale, window = self._parts.scale, self._parts.window(layer)
        mixed = attend(q, k.transpose(1, 2), v.transpose(1, 2), causal, scale, window)
        return mixed.flatten(0, 1)


class LeanForward:
    """The forward pass of a known family of decoders.

    Attributes:
        parts: the position-wise parts of the network.
        modules: called around blocks, where weights are split; see ``learn/split.py``.
        recompute: keep blocks' inputs alone for the backward pass (less memory, more time).
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
        own: Blocks | None = None,
    ) -> KeyValueCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions or more.

        With ``own``, what is computed with it has bits of its own.
        """
        if own:
            positions = room_for(positions)
        shape = (self.parts.layers, 2, batch, self.parts.groups, positions, self.parts.head_width)
        return KeyValueCache(tensor=torch.zeros(shape, dtype=dtype, device=device), own=own)

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return the last hidden state [N, C] of every prefix, after the final normalisation.

        Args:
            tree: the prefixes of R sequences.
            cache: if given, R rows that take the keys and values of the sequences; then a prefix
                has the bits that ``extend`` gives it, where the cache has ``own``.
        """
        if cache is not None and self._is_compiled(cache) and not torch.is_grad_enabled():
            return self._hidden_compiled(tree, cache)
        if cache is not None and cache.own is not None:
            return self._hidden_invariant(tree, cache, cache.own)
        parts, attention = self.parts, TreeAttention(self.parts, tree)

        def block(x: Tensor, layer: int) -> Tensor:
            qkv = parts.project(layer, x, places)
            return parts.finish(layer, x, attention(qkv, layer, cache))

        x, places = parts.embed(tree.ids, tree.position)
        again = self.recompute and torch.is_grad_enabled()
        for layer in range(parts.layers):
            run = partial(checkpoint, block, use_reentrant=False) if again else block
            x = self.modules[layer](run, x, layer) if self.modules else run(x, layer)
        return parts.final(x)

    @torch.no_grad()
    def _hidden_invariant(self, tree: PrefixTree, cache: KeyValueCache, own: Blocks) -> Tensor:
        """Do what ``hidden`` does, each prefix with bits of its own, and without gradients."""
        parts, flat = self.parts, tree.node.flatten()
        rows, length = tree.node.shape
        asking: list[tuple[Tensor | slice, int, Tensor, InvariantAttention]] = [
            (part.rows, len(part.rows), asked, self._invariant(at, len(part.rows), own))
            for part, at, asked in tree.asked()
        ]
        if not asking:
            positions = torch.arange(length, device=flat.device)[None]
            asking = [(slice(None), rows, flat, self._invariant(positions, rows, own))]
        ids, places, where = (filled(x, own.rows) for x in (tree.ids, tree.position, tree.place))
        x, places = parts.embed(ids, places)
        width, scale = parts.heads * parts.head_width, parts.scale
        for layer in range(parts.layers):
            queries, known = parts.project(layer, x, places).flatten(1).tensor_split([width], 1)
            both = known.index_select(0, flat).view(rows, length, -1, parts.head_width)
            cache.fill(layer, *both.chunk(2, 2))
            keys, values = cache.tensor[layer, 0], cache.tensor[layer, 1]
            mixed = []
            for some, count, asked, attention in asking:
                q = queries.index_select(0, asked).view(count, -1, parts.heads, parts.head_width)
                found = attention(q, keys[some], values[some], scale, parts.window(layer))
                mixed.append(found[: len(asked)])
            x = parts.finish(layer, x, torch.cat(mixed).index_select(0, where))
        return parts.final(x)[: len(tree.ids)]

    @cached_property
    def compiled(self) -> CompiledPass | None:
        """The same in one call of compiled code, without gradients; None where torch does it.

        Raises:
            ModelError: the two differ.
        """
        found, shape = compiled_pass(self.parts), shape_of(self.parts)
        if found is not None and shape is not None:
            _check_compiled(shape, found.library)
        return found

    def _is_compiled(self, cache: KeyValueCache) -> bool:
        return self.compiled is not None and self.compiled.fits(cache)

    def _hidden_compiled(self, tree: PrefixTree, cache: KeyValueCache) -> Tensor:
        """Do what ``hidden`` does, with compiled code."""
        assert self.compiled is not None
        rows, length = tree.node.shape
        row = torch.arange(rows).repeat_interleave(length)
        copies = Copies(tree.node.flatten(), row, torch.arange(length).repeat(rows))
        return self.compiled(tree.ids, tree.position, tree.first // length, copies, cache)

    def _extend_compiled(self, ids: Tensor, positions: Tensor, cache: KeyValueCache) -> Tensor:
        """Do what ``extend`` does for tokens at these positions [B, T], with compiled code."""
        assert self.compiled is not None
        batch, length = ids.shape
        row, place = torch.arange(batch).repeat_interleave(length), positions.flatten()
        copies = Copies(torch.arange(batch * length), row, place)
        found = self.compiled(ids.flatten(), place, row, copies, cache)
        return found.view(batch, length, -1)

    def _invariant(self, positions: Tensor, batch: int, own: Blocks) -> InvariantAttention:
        """Return the attention of queries at these positions, for ``batch`` rows."""
        parts = self.parts
        shape = {"heads": parts.heads, "groups": parts.groups, "width": parts.head_width}
        return InvariantAttention(positions, batch, **shape, blocks=own)

    @torch.no_grad()
    def extend(self, ids: Tensor, start: Tensor, cache: KeyValueCache) -> Tensor:
        """Append tokens to cached sequences.

        Return their last hidden states [B, T, C], without gradients.

        Args:
            ids: int64 [B, T], new tokens, right-padded.
            start: int64 [B], the position of each row's first new token: its cached length.
            cache: at least ``max(start) + T`` positions long; the new keys and values are written
                into it.
        """
        positions = start[:, None] + torch.arange(ids.shape[1], device=ids.device)
        if self._is_compiled(cache):
            return self._extend_compiled(ids, positions, cache)
        return self._extend(ids, positions, cache)

    def _extend(self, ids: Tensor, positions: Tensor, cache: KeyValueCache) -> Tensor:
        """Do what ``extend`` does for tokens at these positions [B, T], with torch."""
        parts = self.parts
        batch, length = ids.shape
        rows = torch.arange(batch, device=ids.device)[:, None]
        own, count = cache.own, batch * length
        fill = own.rows if own else 1
        attention: Callable[..., Tensor] = (
            self._invariant(positions, batch, own)
            if own
            else partial(attend, causal=Causal(positions, cache.positions))
        )
        x, places = parts.embed(filled(ids.flatten(), fill), filled(positions.flatten(), fill))
        for layer in range(parts.layers):
            qkv = parts.project(layer, x, places)[:count]
            q, k, v = _split(parts, qkv.view(batch, length, -1, parts.head_width))
            keys, values = cache.tensor[layer, 0], cache.tensor[layer, 1]
            keys[rows, :, positions] = k
            values[rows, :, positions] = v
            mixed = attention(q, keys, values, scale=parts.scale, window=parts.window(layer))
            x = parts.finish(layer, x, mixed if own else mixed.flatten(0, 1))
        return parts.final(x)[:count].view(batch, length, -1)


def _split(parts: Architecture, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries [B, T, H, D], keys and values [B, T, G, D] of [B, T, H + 2G, D]."""
    q, k, v = torch.split(qkv, [parts.heads, parts.groups, parts.groups], 2)
    return q, k, v


@lru_cache(maxsize=64)
def _check_compiled(shape: Shape, library: CDLL) -> None:
    """Raise ModelError if code computes something else than torch, with random weights."""
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
        draw = torch.Generator().manual_seed(0)
        for weight in network.parameters():
            weight.normal_(0, 0.2, generator=draw)
        ids = torch.randint(0, 32, (2, 12), generator=draw)
        parts = cast(Gpt2, architecture(network.eval()))
        forward = LeanForward(parts)
        forward.compiled = CompiledPass(parts, library)
        at = torch.arange(12).expand(2, 12)
        compiled, by_torch = (
            extend(ids, at, forward.new_cache(2, 16, dtype=torch.float32, device=ids.device))
            for extend in (forward._extend_compiled, forward._extend)
        )
    difference = float((compiled - by_torch).abs().max())
    if not difference < TOLERANCE:
        raise ModelError(
            f"The compiled forward pass of this model differs by {difference:.2g} from torch's. "
            "Name another compiler in $CC, or leave it out by CC=none."
        )
