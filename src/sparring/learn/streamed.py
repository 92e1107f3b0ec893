"""Files of safetensors written tensor by tensor, of which one at a time is in memory.

The bytes are those of ``safetensors.torch.save_file``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from sparring.learn.finite import finite

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
    """Return what such a file begins with."""
    entries, begin = {}, 0
    for name in order:
        dtype, shape = shapes[name]
        end = begin + dtype.itemsize * torch.Size(shape).numel()
        entries[name] = {"dtype": KINDS[dtype], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNED)
    return len(text).to_bytes(8, "little") + text
