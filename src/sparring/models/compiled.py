"""A tiny model's forward pass over cached sequences as one call of compiled C.

At the tiny model's size a step of decoding is some sixty calls of torch, which cost more than the
arithmetic. ``gpt2.c`` does the same in one, and gives every token bits of its own. It is compiled
once for each shape of model, by the C compiler that ``$CC`` names (``cc`` where it names none), and
kept in the cache folder, from which it is loaded only where nobody else can have written it. Where
there is no compiler, torch does it, and a run's provenance says so; ``CC=none`` asks for that.

Legend: N tokens, C width.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from sparring.core.errors import RunError
from sparring.core.files import cache_folder, sha256_hex, write_bytes_atomic
from sparring.models.architectures import Architecture
from sparring.models.gpt2 import AdaptedGpt2, Gpt2
from sparring.models.kv_cache import KeyValueCache

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
    """Refuse what is outside of a table: compiled code would read or write elsewhere.

    Raises:
        IndexError: a number is.
    """
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
    """Yield a folder that nobody else can write, and its descriptor; it is made where it is not.

    Raises:
        RunError: it belongs to another user.
    """
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
    """Return the code in a file of a private folder.

    None where there is none, it is damaged, or others can have written it.
    """
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
    """Return what a command prints."""
    return subprocess.run(words, check=True, capture_output=True, timeout=SECONDS).stdout
