"""Weights that change between two tokens of replies, and which tokens are drawn with which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from sparring.types import SampledRun


class Renewing:
    """Which weights replies are drawn with, where these may change before a reply has ended.

    Args:
        between: called before each token but the first; weights may be changed in it. It returns
            the version of each model's, and what older ones computed is dropped by then.
        versions: of each model's weights at the first token.
    """

    def __init__(self, between: Callable[[], Sequence[int]], versions: Sequence[int]) -> None:
        self._between = between
        self._since = [(0, list(versions))]  # from which token on, and the version of each model's

    def renewed(self, token: int) -> bool:
        """Let weights change before a token is drawn; return whether some have."""
        with torch.inference_mode(False):
            now = list(self._between())
        if now == self._since[-1][1]:
            return False
        self._since.append((token, now))
        return True

    def runs(self, whose: int, length: int) -> tuple[SampledRun, ...]:
        """Return the sampled runs of a reply; () where it was drawn with its first weights alone.

        Args:
            whose: the number of its model.
            length: how many tokens it has.
        """
        begins = [(token, versions[whose]) for token, versions in self._since]
        return runs_of(begins, length, begins[0][1])


def runs_of(begins: Iterable[tuple[int, int]], length: int, first: int) -> tuple[SampledRun, ...]:
    """Return the sampled runs of a reply; () where all of it is of the weights it was asked of.

    Args:
        begins: from which token on, the first of all from 0, and the version of the weights.
        length: how many tokens it has.
        first: version of the weights that the sampler had when it was asked.
    """
    found: list[SampledRun] = []
    own = [(token, version) for token, version in begins if token < length]
    ends = [*(token for token, _ in own[1:]), length]
    for (token, version), end in zip(own, ends, strict=True):
        if found and found[-1].version == version:
            found[-1] = SampledRun(found[-1].length + end - token, version)
        else:
            found.append(SampledRun(end - token, version))
    return tuple(found) if [one.version for one in found] != [first] else ()
