"""Weights that change between two tokens of replies, and which tokens are drawn with which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
        found: list[SampledRun] = []
        begins = [(token, versions[whose]) for token, versions in self._since if token < length]
        ends = [*(token for token, _ in begins[1:]), length]
        for (token, version), end in zip(begins, ends, strict=True):
            if found and found[-1].version == version:
                found[-1] = SampledRun(found[-1].length + end - token, version)
            else:
                found.append(SampledRun(end - token, version))
        return tuple(found) if len(found) > 1 else ()
