"""Named, splittable random streams; all random numbers of Sparring come from here.

A stream is a 64-bit key without state. A name or number gives a child stream, and a counter gives
a draw. Seed, names and counters therefore determine every draw, checkpoints store no random state,
and the order in which games finish does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sparring.core.errors import ConfigError

T = TypeVar("T")

_MASK = (1 << 64) - 1
_SALT = 0x5851F42D4C957F2D  # separates children from draws
_GAMMA = 0x9E3779B97F4A7C15  # the increment of SplitMix64 (Steele, Lea and Flood, 2014)


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Stream:
    """A splittable random stream, identified by its 64-bit ``key``.

    Example:
        deal = Stream.from_seed(0).child("deal").child(17)
        card = deal.integer(0, 3)     # the draw with counter 0, one of 0, 1, 2
    """

    __slots__ = ("key",)

    def __init__(self, key: int) -> None:
        self.key = key & _MASK

    @classmethod
    def from_seed(cls, seed: int) -> Stream:
        """Return the root stream of a run.

        Raises:
            ConfigError: the seed does not fit into 64 bits.
        """
        if not 0 <= seed <= _MASK:
            raise ConfigError(
                f"seed={seed!r:.40} is not a number of 64 bits; write one from 0 to {_MASK}."
            )
        return cls(_mix((seed * _GAMMA + _GAMMA) & _MASK))

    def child(self, name: str | int) -> Stream:
        """Return the child stream of a name or number; different names give independent streams."""
        if isinstance(name, str):
            digest = hashlib.blake2b(
                name.encode(), digest_size=8, key=self.key.to_bytes(8, "little")
            ).digest()
            return Stream(int.from_bytes(digest, "little"))
        value = ((self.key ^ _SALT) + (name + 1) * _GAMMA) & _MASK
        # this is _mix, inlined because it runs once per turn
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
        child = object.__new__(Stream)
        child.key = value ^ (value >> 31)
        return child

    def uniform(self, counter: int) -> float:
        """Return draw number ``counter``, uniform in [0, 1)."""
        return (_mix((self.key + (counter + 1) * _GAMMA) & _MASK) >> 11) * 2.0**-53

    def integer(self, counter: int, high: int) -> int:
        """Return draw number ``counter`` as an integer in [0, high)."""
        return int(self.uniform(counter) * high)

    def shuffled(self, items: Iterable[T], count: int | None = None) -> list[T]:
        """Return items in a uniformly random order, from draws 0, 1, ...

        Args:
            items: all items.
            count: number of items to return; None: all.
        """
        order = list(items)
        count = len(order) if count is None else count
        for index in range(count):
            swap_index = index + self.integer(index, len(order) - index)
            order[index], order[swap_index] = order[swap_index], order[index]
        return order[:count]

    def generator(self) -> np.random.Generator:
        """Return a numpy generator seeded by this stream, for library code that needs one."""
        return np.random.Generator(np.random.Philox(key=self.key))


def uniforms(keys: npt.NDArray[np.uint64], counter: int) -> npt.NDArray[np.float64]:
    """Return ``Stream(key).uniform(counter)`` for every key at once.

    Args:
        keys: stream keys, uint64 [B].
        counter: number of the draw, at least 0.

    Returns:
        float64 [B] in [0, 1), bit-equal to the scalar method.
    """
    with np.errstate(over="ignore"):
        value = keys + np.uint64((counter + 1) * _GAMMA & _MASK)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
    return (value >> np.uint64(11)).astype(np.float64) * 2.0**-53
