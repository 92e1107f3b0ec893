"""What a uniformly drawn legal reply would say next: the magnet of ``legal_magnet``.

Legend: as in ``slices.py``: K distinct sampled tokens; T pairs of one of them and a token that may
stand in its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from sparring.errors import ConfigError

Ids = tuple[int, ...]
NextTokens = tuple[
    tuple[int, float], ...
]  # (token, probability), sorted by token; empty where no legal reply begins so


class LegalReplies:
    """The distribution of the next token of a uniformly drawn legal reply, given what has been said
    of it.

    Args:
        reply: the renderer's ids of a complete reply, the stop token included.
    """

    def __init__(self, reply: Callable[[str], Ids]) -> None:
        self._reply = reply
        self.next_tokens = lru_cache(maxsize=65536)(self._next_tokens)

    def _next_tokens(self, legal_actions: tuple[str, ...], said: Ids) -> tuple[NextTokens, ...]:
        """Return one distribution for each id of ``said``: of the token in its place, given those
        before it.
        """
        replies, found = [self._reply(action) for action in legal_actions], []
        for place, token in enumerate(said):
            replies = [ids for ids in replies if len(ids) > place]
            counts = Counter(ids[place] for ids in replies)
            found.append(tuple((token, counts[token] / len(replies)) for token in sorted(counts)))
            replies = [ids for ids in replies if ids[place] == token]
        return tuple(found)


def legal_replies(needs: Set[str], renderer: Any) -> LegalReplies | None:
    """Return what says how legal replies go on, if a loss NEEDS it.

    Raises:
        ConfigError: replies hold thoughts, so that what was said cannot be compared with legal
            replies.
    """
    if "legal_replies" not in needs:
        return None
    if not renderer.scorable:
        raise ConfigError(
            "losses: 'legal_magnet' compares replies with legal ones, and these begin with "
            "thoughts; write renderer.thinking=false, or use entropy_bonus."
        )
    return LegalReplies(renderer.reply)


@dataclass(kw_only=True, slots=True)
class Magnet:
    """The distributions of ``LegalReplies`` at the distinct sampled tokens of a forward pass,
    sparse.
    """

    row: Tensor  # [T] int64, which of the K tokens
    token: Tensor  # [T] int64
    probability: Tensor  # [T]
    count: int  # K

    @property
    def names(self) -> tuple[str, ...]:
        """The divergences there are: none where no loss asked for legal replies."""
        return ("forward", "reverse") if self.count else ()

    def to(self, device: torch.device) -> Magnet:
        """Return this magnet on a device."""
        moved = {name: getattr(self, name).to(device) for name in ("row", "token", "probability")}
        return replace(self, **moved)

    def divergences(self, logprobs: Tensor, place: Tensor) -> dict[str, Tensor]:
        """Return KL(u || pi) as "forward" and KL(pi_L || u) as "reverse", [K] each, in nats.

        u is the magnet and pi_L the policy renormalised over the tokens that u can say. Both are 0
        where u is empty.

        Args:
            logprobs: [U, V] log-probabilities of all tokens.
            place: [K] which of the U distributions each token was drawn from.
        """
        if not self.count:
            return {}
        log_pi, u = logprobs[place[self.row], self.token], self.probability.to(logprobs.dtype)
        zeros = torch.zeros(self.count, dtype=logprobs.dtype, device=logprobs.device)
        forward = zeros.index_add(0, self.row, u * (u.log() - log_pi))
        largest = zeros.scatter_reduce(0, self.row, log_pi.detach(), "amax", include_self=False)
        mass = zeros.index_add(0, self.row, (log_pi - largest[self.row]).exp())
        log_legal = log_pi - largest[self.row] - mass[self.row].log()
        reverse = zeros.index_add(0, self.row, log_legal.exp() * (log_legal - u.log()))
        return {"forward": forward, "reverse": reverse}


def magnet(distributions: list[NextTokens]) -> Magnet:
    """Return the distributions at K tokens as index arrays."""
    pairs = [(row, *pair) for row, found in enumerate(distributions) for pair in found]
    rows, tokens, chances = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Magnet(
        row=torch.tensor(rows, dtype=torch.int64),
        token=torch.tensor(tokens, dtype=torch.int64),
        probability=torch.tensor(chances, dtype=torch.float64),
        count=len(distributions),
    )
