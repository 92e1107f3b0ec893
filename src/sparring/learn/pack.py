"""Episodes to training arrays: the exact ids the model saw and said, and which of them carry loss.

Legend: S sequences (samples of trained seats), U distinct sequences, N turns, M sampled tokens, K
distinct sampled tokens.

What a uniformly drawn legal reply would say next: the magnet of ``legal_magnet``.

Legend: as in ``slices.py``: K distinct sampled tokens; T pairs of one of them and a token that may
stand in its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, takewhile
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from sparring.core.errors import ConfigError, ModelError, RolloutError, quoted
from sparring.core.records import BoolArray, Episode, FloatArray, IntArray, Segment
from sparring.play.turn_table import ordered_turns

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


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """The trained tokens of a batch of episodes, in the row order of their turn table.

    Games that went alike gave equal sequences; each distinct one is kept, and computed, once.
    Sequences that were drawn from other kept sets, or among other legal replies, are not equal,
    whatever their ids: games of older weights may be in the batch.
    """

    sequences: tuple[Ids, ...]  # [U] distinct sequences of token ids
    positions: tuple[Ids, ...]  # [U] positions of the sampled ids in each
    kept: tuple[
        tuple[Ids, ...], ...
    ]  # [U] truncation's kept sets per sampled id; empty where nothing was truncated
    legal: tuple[
        tuple[NextTokens, ...], ...
    ]  # [U] what a legal reply would say, per sampled id; empty where not asked for
    distinct: IntArray  # [S] the distinct sequence of each sequence
    tokens: IntArray  # [S] number of sampled tokens
    episode: IntArray  # [S] episode_id of each sequence
    turn_of: IntArray  # [M] row of the turn table, sequences in order
    logprobs: FloatArray  # [M] sampler's log-probabilities
    # [N, 2] per turn: distinct sequence and the position its first token was sampled after
    ask: IntArray
    position_of: IntArray  # [M] position of each sampled token in its sequence

    @property
    def spoken(self) -> IntArray:
        """The sequences with sampled tokens.

        A conversation that outgrew the model may have none.
        """
        return np.flatnonzero(self.tokens > 0)

    def fitting(self, context: int, when: str) -> IntArray:
        """Return the sequences with sampled tokens that a model can hold.

        Args:
            context: the longest sequence of the model, in tokens.
            when: whose sequences they are, for the error, e.g. "step".

        Raises:
            ModelError: there is none.
        """
        lengths = np.array([len(ids) for ids in self.sequences], dtype=np.int64)
        found: IntArray = self.spoken[lengths[self.distinct[self.spoken]] <= context]
        if not len(found):
            raise nothing_fits(context, when)
        return found

    def only(self, trained: BoolArray) -> Pack:
        """Return the pack with these of its sampled tokens alone; the others are context.

        Args:
            trained: [M], which tokens stay.
        """
        sequence = np.repeat(np.arange(len(self.tokens)), self.tokens)
        ends = np.cumsum(self.tokens)
        index: dict[tuple[int, bytes], int] = {}  # a distinct sequence, and which tokens it keeps
        distinct = np.empty(len(self.tokens), dtype=np.int64)
        for number, (begin, end) in enumerate(zip(ends - self.tokens, ends, strict=True)):
            key = int(self.distinct[number]), trained[begin:end].tobytes()
            distinct[number] = index.setdefault(key, len(index))
        whole = np.zeros(len(self.sequences), dtype=np.int64)  # where a sequence stands now
        for (old, _), new in index.items():
            whole[old] = new
        stay = [(old, np.flatnonzero(np.frombuffer(mask, dtype=bool))) for old, mask in index]
        return Pack(
            sequences=tuple(self.sequences[old] for old, _ in stay),
            positions=_chosen(self.positions, stay),
            kept=_chosen(self.kept, stay),
            legal=_chosen(self.legal, stay),
            distinct=distinct,
            tokens=np.bincount(sequence[trained], minlength=len(self.tokens)),
            episode=self.episode,
            turn_of=self.turn_of[trained],
            logprobs=self.logprobs[trained],
            ask=np.column_stack([whole[self.ask[:, 0]], self.ask[:, 1]]),
            position_of=self.position_of[trained],
        )

    @property
    def num_tokens(self) -> int:
        """All tokens of all sequences, prompts included."""
        return int(sum(len(self.sequences[index]) for index in self.distinct))


def nothing_fits(context: int, when: str) -> ModelError:
    """Return the error of conversations of which none fits; arguments are those of ``fitting``."""
    return ModelError(
        f"No conversation of this {when} fits into the context of {context} tokens with a "
        "whole reply after it. Raise model.context, lower rollout.max_new_tokens, or give "
        "the games a shorter wording."
    )


def _chosen(
    columns: Sequence[tuple[T, ...]], stay: Sequence[tuple[int, IntArray]]
) -> tuple[tuple[T, ...], ...]:
    """Return the entries of the tokens that stay, of each sequence; empty ones stay empty."""
    return tuple(
        tuple(columns[old][place] for place in places) if columns[old] else ()
        for old, places in stay
    )


def pack(
    episodes: Sequence[Episode], replies: LegalReplies | None = None, *, candidates: bool = False
) -> Pack:
    """Return the training arrays of the trained seats of these episodes.

    A new sequence opens where a seat, an episode or a conversation of a seat ends. A turn may hold
    several sampled runs, with what it was told in between (a tool's answer, say); it is one row all
    the same.

    Args:
        episodes: of one step.
        replies: says what legal replies would say, if a loss asks for it.
        candidates: have the other replies to a prompt too, each a sequence of its own.

    Raises:
        RolloutError: a trained seat has a turn without tokens.
    """
    builder = _Builder()
    opened: tuple[int, int, int] | None = None
    rows = 0
    for row, (episode, turn) in enumerate(ordered_turns(episodes, candidates=candidates)):
        key = (episode.episode_id, turn.seat, turn.conversation)
        rows += 1
        if key != opened:
            builder.close()
            opened, builder.episode = key, episode.episode_id
        builder.turn()
        legal: tuple[NextTokens, ...] = ()  # for what the reply goes on to say
        for place, segment in enumerate(turn.segments):
            if segment.kind != "sampled":
                builder.ids.extend(segment.ids)
                continue
            if replies is not None and not legal:
                legal = replies.next_tokens(turn.legal_actions, _said(turn.segments[place:]))
            own, legal = legal[: len(segment.ids)], legal[len(segment.ids) :]
            builder.sampled(segment.ids, segment.logprobs, segment.kept, own, row)
        if not builder.said:
            raise RolloutError(
                f"Turn {turn.turn_index} of seat {turn.seat} in episode {episode.episode_id} "
                f"of {quoted(episode.game)} was sampled by no model, and its seat is "
                f"trained: {quoted(turn.agent)} gives no tokens. Train only seats where the "
                "policy sits."
            )
    builder.close()
    result = builder.result()
    assert len(result.ask) == rows, "one row of ask per turn"
    return result


def _said(segments: Sequence[Segment]) -> Ids:
    """Return the ids of a reply that begins here; one that went on over a change of weights has
    several runs, one after the other.
    """
    runs = takewhile(lambda segment: segment.kind == "sampled", segments)
    return tuple(chain.from_iterable(segment.ids for segment in runs))


class _Builder:
    """Collects one sequence at a time."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.episode = 0
        self._positions: list[int] = []
        self._kept: list[Ids] = []
        self._legal: list[NextTokens] = []
        self._asks: list[int] = []  # per turn of the open sequence
        self.said = True  # whether the last turn has said anything yet
        self._index: dict[tuple[Ids, Ids, tuple[Ids, ...], tuple[NextTokens, ...]], int] = {}
        self._distinct: list[int] = []
        self._tokens: list[int] = []
        self._episode: list[int] = []
        self._runs: list[tuple[int, int]] = []  # a turn's row, and how many tokens it has said
        self._position_of: list[int] = []
        self._logprobs: list[Sequence[float]] = []
        self._ask: list[tuple[int, int]] = []

    def turn(self) -> None:
        """Begin the turn of the next row."""
        self.said = False

    def sampled(
        self,
        ids: Ids,
        logprobs: Sequence[float],
        kept: Sequence[Ids],
        legal: Sequence[NextTokens],
        row: int,
    ) -> None:
        """Append sampled ids of the turn in this row."""
        begin = len(self.ids)
        if not self.said:
            self._asks.append(begin - 1)
            self.said = True
        self._positions.extend(range(begin, begin + len(ids)))
        self._kept.extend(kept or ((),) * len(ids))
        self._legal.extend(legal)
        self._runs.append((row, len(ids)))
        self._logprobs.append(logprobs)
        self.ids.extend(ids)

    def close(self) -> None:
        """End the sequence that is open, if any."""
        if self.ids:
            positions, kept = tuple(self._positions), tuple(self._kept) if any(self._kept) else ()
            key = (tuple(self.ids), positions, kept, tuple(self._legal))
            index = self._index.setdefault(key, len(self._index))
            self._distinct.append(index)
            self._tokens.append(len(positions))
            self._episode.append(self.episode)
            self._ask.extend((index, ask) for ask in self._asks)
            self._position_of.extend(positions)
        self.ids, self._positions, self._kept, self._legal, self._asks = [], [], [], [], []

    def result(self) -> Pack:
        """Return everything collected."""
        rows, lengths = np.array(self._runs, dtype=np.int64).reshape(-1, 2).T
        return Pack(
            sequences=tuple(ids for ids, *_ in self._index),
            positions=tuple(positions for _, positions, *_ in self._index),
            kept=tuple(kept for _, _, kept, _ in self._index),
            legal=tuple(legal for *_, legal in self._index),
            distinct=np.array(self._distinct, dtype=np.int64),
            tokens=np.array(self._tokens, dtype=np.int64),
            episode=np.array(self._episode, dtype=np.int64),
            turn_of=rows.repeat(lengths),
            logprobs=np.fromiter(
                chain.from_iterable(self._logprobs), dtype=np.float64, count=int(lengths.sum())
            ),
            ask=np.array(self._ask, dtype=np.int64).reshape(-1, 2),
            position_of=np.array(self._position_of, dtype=np.int64),
        )
