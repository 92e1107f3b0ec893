"""Packs episodes into training arrays: the exact ids of prompts and replies, and the trained ids.

A pack is split into forward passes that fit into memory. ``Reader`` computes values,
log-probabilities of sampled tokens and features of their distributions. Every distinct sequence
runs through the network once.

Legend: S sequences (samples of trained seats), U distinct sequences, N turns, M sampled tokens, K
distinct sampled tokens; R distinct sequences of a forward pass, T tokens, C width, V vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, takewhile
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from sparring.config.plugins.registry import BoundPlugin, load
from sparring.core.errors import ConfigError, ModelError, RolloutError, quoted
from sparring.core.records import BoolArray, Episode, FloatArray, IntArray, Segment, TurnTable
from sparring.core.schedule import Schedule
from sparring.methods.columns.base import ValuePosition
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.methods.losses.base import WholeMinibatch
from sparring.models.attention import PrefixTree, prefix_tree, shared_lengths
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.in_process import restrict
from sparring.play.turn_table import ordered_turns

Ids = tuple[int, ...]
# (token, probability), sorted by token; empty if no legal reply has these first tokens
NextTokens = tuple[tuple[int, float], ...]


class LegalReplies:
    """Computes the distribution of each token of a random legal reply, given the earlier tokens.

    The legal actions have equal probabilities.

    Args:
        reply: function of an action that returns the ids of a complete reply, stop token included.
    """

    def __init__(self, reply: Callable[[str], Ids]) -> None:
        self._reply = reply
        self.next_tokens = lru_cache(maxsize=65536)(self._next_tokens)

    def _next_tokens(self, legal_actions: tuple[str, ...], reply: Ids) -> tuple[NextTokens, ...]:
        """Return the distribution of each id of a reply, given the earlier ids."""
        replies, distributions = [self._reply(action) for action in legal_actions], []
        for index, token in enumerate(reply):
            replies = [ids for ids in replies if len(ids) > index]
            counts = Counter(ids[index] for ids in replies)
            distributions.append(
                tuple((token, counts[token] / len(replies)) for token in sorted(counts))
            )
            replies = [ids for ids in replies if ids[index] == token]
        return tuple(distributions)


def legal_replies(needs: Set[str], renderer: Any) -> LegalReplies | None:
    """Return the distributions of legal replies if a loss NEEDS them.

    Raises:
        ConfigError: replies begin with thoughts, and cannot be compared with legal replies.
    """
    if "legal_replies" not in needs:
        return None
    if not renderer.scorable:
        raise ConfigError(
            "losses: 'legal_magnet' compares replies with legal ones, which is not possible as "
            "replies begin with thoughts; write renderer.thinking=false, or use entropy_bonus."
        )
    return LegalReplies(renderer.reply)


@dataclass(kw_only=True, slots=True)
class Magnet:
    """Sparse distributions over legal replies at the distinct sampled tokens of a forward pass.

    Losses pull the policy towards this distribution, the magnet.
    """

    row: Tensor  # [E] int64, index among the K sampled tokens of each entry of a distribution
    token: Tensor  # [E] int64, token of each entry
    probability: Tensor  # [E] probability of each entry
    count: int  # number K of distributions

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the divergences; () if no loss needs legal replies."""
        return ("forward", "reverse") if self.count else ()

    def to(self, device: torch.device) -> Magnet:
        """Return these distributions on a device."""
        tensors = {name: getattr(self, name).to(device) for name in ("row", "token", "probability")}
        return replace(self, **tensors)

    def divergences(self, logprobs: Tensor, prefix_index: Tensor) -> dict[str, Tensor]:
        """Return KL(u || pi) as "forward" and KL(pi_L || u) as "reverse", [K] each, in nats.

        u is the magnet and pi_L the policy renormalised over the tokens of u. Both divergences are
        0 where u is empty.

        Args:
            logprobs: [U, V] log-probabilities of all tokens after U prefixes.
            prefix_index: [K] index of the distribution from which each token was drawn.
        """
        if not self.count:
            return {}
        log_pi = logprobs[prefix_index[self.row], self.token]
        u = self.probability.to(logprobs.dtype)
        zeros = torch.zeros(self.count, dtype=logprobs.dtype, device=logprobs.device)
        forward = zeros.index_add(0, self.row, u * (u.log() - log_pi))
        largest = zeros.scatter_reduce(0, self.row, log_pi.detach(), "amax", include_self=False)
        mass = zeros.index_add(0, self.row, (log_pi - largest[self.row]).exp())
        log_legal = log_pi - largest[self.row] - mass[self.row].log()
        reverse = zeros.index_add(0, self.row, log_legal.exp() * (log_legal - u.log()))
        return {"forward": forward, "reverse": reverse}


def make_magnet(distributions: list[NextTokens]) -> Magnet:
    """Return the distributions at K tokens as index arrays."""
    pairs = [
        (row, *pair) for row, distribution in enumerate(distributions) for pair in distribution
    ]
    rows, tokens, probabilities = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Magnet(
        row=torch.tensor(rows, dtype=torch.int64),
        token=torch.tensor(tokens, dtype=torch.int64),
        probability=torch.tensor(probabilities, dtype=torch.float64),
        count=len(distributions),
    )


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """The trained tokens of a batch of episodes, in the row order of their turn table.

    Each distinct sequence is stored and computed once. Sequences with equal ids but different
    supports or legal replies are distinct; episodes of older weights may have such sequences.
    """

    sequences: tuple[Ids, ...]  # [U] distinct sequences of token ids
    positions: tuple[Ids, ...]  # [U] positions of the sampled ids in each
    # [U] ids that top-k and top-p kept, per sampled id; empty without truncation
    support: tuple[tuple[Ids, ...], ...]
    # [U] distribution of legal replies, per sampled id; empty if no loss needs it
    legal: tuple[tuple[NextTokens, ...], ...]
    distinct: IntArray  # [S] the distinct sequence of each sequence
    tokens: IntArray  # [S] number of sampled tokens
    episode: IntArray  # [S] episode_id of each sequence
    turn_of: IntArray  # [M] row of the turn table, sequences in order
    logprobs: FloatArray  # [M] sampler's log-probabilities
    # [N, 2] per turn: distinct sequence, and the position before its first sampled token
    prompt_ends: IntArray
    position_of: IntArray  # [M] position of each sampled token in its sequence

    @property
    def with_replies(self) -> IntArray:
        """The sequences with sampled tokens; a conversation that is too long may have none."""
        return np.flatnonzero(self.tokens > 0)

    def fitting(self, context: int, occasion: str) -> IntArray:
        """Return the sequences with sampled tokens that fit into a context.

        Args:
            context: largest length of a sequence of the model, in tokens.
            occasion: the work that has the sequences, for the error message, e.g. "step".

        Raises:
            ModelError: no sequence fits.
        """
        lengths = np.array([len(ids) for ids in self.sequences], dtype=np.int64)
        is_fitting = lengths[self.distinct[self.with_replies]] <= context
        if not is_fitting.any():
            raise nothing_fits(context, occasion)
        return self.with_replies[is_fitting]

    def only(self, trained: BoolArray) -> Pack:
        """Return a pack in which only some sampled tokens are trained; the others are context.

        Args:
            trained: [M], whether a token is trained.
        """
        sequence = np.repeat(np.arange(len(self.tokens)), self.tokens)
        ends = np.cumsum(self.tokens)
        # (distinct sequence, mask of its trained tokens) -> number of the new sequence
        number_of: dict[tuple[int, bytes], int] = {}
        distinct = np.empty(len(self.tokens), dtype=np.int64)
        for number, (begin, end) in enumerate(zip(ends - self.tokens, ends, strict=True)):
            key = int(self.distinct[number]), trained[begin:end].tobytes()
            distinct[number] = number_of.setdefault(key, len(number_of))
        new_numbers = np.zeros(len(self.sequences), dtype=np.int64)  # a new number per old number
        for (old, _), new in number_of.items():
            new_numbers[old] = new
        masks = [(old, np.frombuffer(mask, dtype=bool)) for old, mask in number_of]
        trained_tokens = [(old, np.flatnonzero(mask)) for old, mask in masks]
        return Pack(
            sequences=tuple(self.sequences[old] for old, _ in trained_tokens),
            positions=_select(self.positions, trained_tokens),
            support=_select(self.support, trained_tokens),
            legal=_select(self.legal, trained_tokens),
            distinct=distinct,
            tokens=np.bincount(sequence[trained], minlength=len(self.tokens)),
            episode=self.episode,
            turn_of=self.turn_of[trained],
            logprobs=self.logprobs[trained],
            prompt_ends=np.column_stack(
                [new_numbers[self.prompt_ends[:, 0]], self.prompt_ends[:, 1]]
            ),
            position_of=self.position_of[trained],
        )

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all sequences, prompts included."""
        return int(sum(len(self.sequences[index]) for index in self.distinct))


def nothing_fits(context: int, occasion: str) -> ModelError:
    """Return the error for a batch in which all conversations exceed the context."""
    return ModelError(
        f"No conversation of this {occasion} fits into the context of {context} tokens with a "
        "whole reply after it. Raise model.context, lower rollout.max_new_tokens, or give "
        "the games a shorter wording."
    )


def _select(
    columns: Sequence[tuple[T, ...]], tokens: Sequence[tuple[int, IntArray]]
) -> tuple[tuple[T, ...], ...]:
    """Return the entries of (sequence, its tokens) in ``tokens``; empty columns stay empty."""
    return tuple(
        tuple(columns[sequence][index] for index in indices) if columns[sequence] else ()
        for sequence, indices in tokens
    )


def pack(
    episodes: Sequence[Episode], replies: LegalReplies | None = None, *, candidates: bool = False
) -> Pack:
    """Return the training arrays of the trained seats of some episodes.

    A new sequence begins with each episode, seat and conversation. A turn is one row, even if there
    are prompts, such as a tool's answers, between its sampled segments.

    Args:
        episodes: the episodes of one step.
        replies: distributions of legal replies, if a loss needs them.
        candidates: whether candidates that were not played are also packed, each as a sequence.

    Raises:
        RolloutError: a trained seat has a turn without tokens.
    """
    builder = _PackBuilder()
    open_key: tuple[int, int, int] | None = None
    rows = 0
    for row, (episode, turn) in enumerate(ordered_turns(episodes, candidates=candidates)):
        key = (episode.episode_id, turn.seat, turn.conversation)
        rows += 1
        if key != open_key:
            builder.close_sequence()
            open_key, builder.episode = key, episode.episode_id
        builder.begin_turn()
        legal: tuple[NextTokens, ...] = ()  # distributions of the rest of the reply
        for index, segment in enumerate(turn.segments):
            if segment.kind != "sampled":
                builder.ids.extend(segment.ids)
                continue
            if replies is not None and not legal:
                legal = replies.next_tokens(turn.legal_actions, _reply_ids(turn.segments[index:]))
            segment_legal, legal = legal[: len(segment.ids)], legal[len(segment.ids) :]
            builder.add_sampled(segment.ids, segment.logprobs, segment.support, segment_legal, row)
        if not builder.has_reply:
            raise RolloutError(
                f"Turn {turn.turn_index} of seat {turn.seat} in episode {episode.episode_id} "
                f"of {quoted(episode.game)} was not sampled by a model, but its seat is "
                f"trained: {quoted(turn.agent)} returns no tokens. Train only seats of the policy."
            )
    builder.close_sequence()
    result = builder.result()
    assert len(result.prompt_ends) == rows, "one row per turn"
    return result


def _reply_ids(segments: Sequence[Segment]) -> Ids:
    sampled_segments = takewhile(lambda segment: segment.kind == "sampled", segments)
    return tuple(chain.from_iterable(segment.ids for segment in sampled_segments))


class _PackBuilder:
    """Collects the sequences of a pack, segment by segment."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.episode = 0
        self._positions: list[int] = []
        self._support: list[Ids] = []
        self._legal: list[NextTokens] = []
        self._open_prompt_ends: list[int] = []  # one per turn of the open sequence
        self.has_reply = True  # whether the present turn has sampled tokens yet
        self._index: dict[tuple[Ids, Ids, tuple[Ids, ...], tuple[NextTokens, ...]], int] = {}
        self._distinct: list[int] = []
        self._tokens: list[int] = []
        self._episode: list[int] = []
        self._runs: list[tuple[int, int]] = []  # (row of a turn, number of its sampled tokens)
        self._position_of: list[int] = []
        self._logprobs: list[Sequence[float]] = []
        self._prompt_ends: list[tuple[int, int]] = []

    def begin_turn(self) -> None:
        self.has_reply = False

    def add_sampled(
        self,
        ids: Ids,
        logprobs: Sequence[float],
        support: Sequence[Ids],
        legal: Sequence[NextTokens],
        row: int,
    ) -> None:
        begin = len(self.ids)
        if not self.has_reply:
            self._open_prompt_ends.append(begin - 1)
            self.has_reply = True
        self._positions.extend(range(begin, begin + len(ids)))
        self._support.extend(support or ((),) * len(ids))
        self._legal.extend(legal)
        self._runs.append((row, len(ids)))
        self._logprobs.append(logprobs)
        self.ids.extend(ids)

    def close_sequence(self) -> None:
        if self.ids:
            positions = tuple(self._positions)
            support = tuple(self._support) if any(self._support) else ()
            key = (tuple(self.ids), positions, support, tuple(self._legal))
            index = self._index.setdefault(key, len(self._index))
            self._distinct.append(index)
            self._tokens.append(len(positions))
            self._episode.append(self.episode)
            self._prompt_ends.extend((index, end) for end in self._open_prompt_ends)
            self._position_of.extend(positions)
        self.ids, self._positions, self._support, self._legal = [], [], [], []
        self._open_prompt_ends = []

    def result(self) -> Pack:
        rows, lengths = np.array(self._runs, dtype=np.int64).reshape(-1, 2).T
        return Pack(
            sequences=tuple(ids for ids, *_ in self._index),
            positions=tuple(positions for _, positions, *_ in self._index),
            support=tuple(support for _, _, support, _ in self._index),
            legal=tuple(legal for *_, legal in self._index),
            distinct=np.array(self._distinct, dtype=np.int64),
            tokens=np.array(self._tokens, dtype=np.int64),
            episode=np.array(self._episode, dtype=np.int64),
            turn_of=rows.repeat(lengths),
            logprobs=np.fromiter(
                chain.from_iterable(self._logprobs), dtype=np.float64, count=int(lengths.sum())
            ),
            prompt_ends=np.array(self._prompt_ends, dtype=np.int64).reshape(-1, 2),
            position_of=np.array(self._position_of, dtype=np.int64),
        )


MAX_PADDING = 8  # largest number of padded positions per distinct prefix of a chunk


@dataclass(kw_only=True, slots=True)
class Slice:
    """The sequences of one forward pass, as index arrays into a pack."""

    rows: IntArray  # [R] distinct sequences
    tree: PrefixTree
    prefixes: Tensor  # [U] prefixes before sampled tokens
    row: Tensor  # [K] row of each distinct sampled token
    prefix_index: Tensor  # [K] index of the prefix before each token, among the U prefixes
    target: Tensor  # [K] the token itself
    support: list[tuple[int, ...]]  # [K], or empty
    legal: Magnet  # of the K tokens
    token_index: Tensor  # [M] index of each sampled token among the K distinct ones
    tokens: IntArray  # [M] index of each sampled token in the pack
    sequence: Tensor  # [M] index of each token's sequence within this slice
    sequences: IntArray  # [num_sequences] index of each sequence in the pack

    @property
    def num_sequences(self) -> int:
        """Number of sequences, equal ones included."""
        return len(self.sequences)

    def to(self, device: torch.device) -> Slice:
        """Return this slice with its tensors on a device."""
        fields = ("prefixes", "row", "prefix_index", "target", "token_index", "sequence")
        tensors = {name: getattr(self, name).to(device) for name in fields}
        return replace(self, tree=self.tree.to(device), legal=self.legal.to(device), **tensors)


def slices(
    data: Pack, sequences: IntArray, micro_tokens: int, *, padded: int = MAX_PADDING
) -> Iterator[Slice]:
    """Yield the given sequences in forward passes that fit; see ``chunks``."""
    first_tokens = np.concatenate([[0], np.cumsum(data.tokens)])
    for rows in chunks(data, np.unique(data.distinct[sequences]), micro_tokens, padded=padded):
        slice_sequences = sequences[np.isin(data.distinct[sequences], rows)]
        yield _make_slice(data, rows, slice_sequences, first_tokens)


def chunks(
    data: Pack, rows: IntArray, micro_tokens: int, *, padded: int = MAX_PADDING
) -> Iterator[IntArray]:
    """Yield distinct sequences in sorted chunks that fit; sequences of a chunk share prefixes.

    A chunk has at most ``micro_tokens`` distinct prefixes and, with padding, at most
    ``padded * micro_tokens`` positions (``padded`` is 1 if prefixes are not shared). A longer
    sequence is a separate chunk.
    """
    order = sorted(rows.tolist(), key=data.sequences.__getitem__)
    num_shared = shared_lengths([data.sequences[row] for row in order])
    begin = nodes = longest = 0
    for end, row in enumerate(order):
        length = len(data.sequences[row])
        num_new, width = length - int(num_shared[end]), max(longest, length)
        if end > begin and (
            nodes + num_new > micro_tokens or width * (end + 1 - begin) > padded * micro_tokens
        ):
            yield np.array(order[begin:end])
            begin, nodes, num_new, width = end, 0, length, length
        nodes, longest = nodes + num_new, width
    if order:
        yield np.array(order[begin:])


def at_samples(values: Tensor, prefix_index: Tensor, target: Tensor) -> Tensor:
    """Return a value [K] per sampled token from values [U] of distributions or [U, V] of tokens."""
    return values[prefix_index] if values.ndim == 1 else values[prefix_index, target]


def _make_slice(data: Pack, rows: IntArray, sequences: IntArray, first_tokens: IntArray) -> Slice:
    positions = [data.positions[row] for row in rows]
    counts = np.array([len(p) for p in positions])
    offset = np.concatenate([[0], np.cumsum(counts)])
    index_of_row = np.full(len(data.sequences), -1)
    index_of_row[rows] = np.arange(len(rows))
    row_index = index_of_row[data.distinct[sequences]]
    lengths = counts[row_index]
    tree = prefix_tree([data.sequences[row] for row in rows])
    row = torch.from_numpy(np.repeat(np.arange(len(rows)), counts))
    position = torch.tensor([p for ps in positions for p in ps])
    prefixes, prefix_index = torch.unique(tree.node[row, position - 1], return_inverse=True)
    return Slice(
        rows=rows,
        tree=tree,
        prefixes=prefixes,
        row=row,
        prefix_index=prefix_index,
        target=tree.ids[tree.node[row, position]],
        support=_supports(data, rows, counts),
        legal=make_magnet([distribution for row in rows for distribution in data.legal[row]]),
        token_index=torch.from_numpy(_ranges(offset[row_index], lengths)),
        tokens=_ranges(first_tokens[sequences], lengths),
        sequence=torch.from_numpy(np.repeat(np.arange(len(sequences)), lengths)),
        sequences=sequences,
    )


def _supports(data: Pack, rows: IntArray, counts: IntArray) -> list[tuple[int, ...]]:
    """Return the support of each sampled token; () without truncation."""
    if not any(data.support[row] for row in rows):
        return []
    return [
        ids
        for row, count in zip(rows, counts, strict=True)
        for ids in data.support[row] or ((),) * int(count)
    ]


def _ranges(start: IntArray, length: IntArray) -> IntArray:
    """Return the concatenation of ``range(start[i], start[i] + length[i])``."""
    shift = np.repeat(start - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    ranges: IntArray = np.arange(length.sum()) + shift
    return ranges


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedLoss:
    """A loss plug-in with the schedule of its weight in the sum."""

    bound: BoundPlugin
    weight: Schedule


@dataclass(frozen=True, kw_only=True, slots=True)
class Targets:
    """Training targets of the tokens of a step."""

    old_logprobs: FloatArray  # [M] log-probabilities before the step
    advantages: FloatArray  # [M]
    value_targets: FloatArray | None  # [N] targets of the critic
    turns: TurnTable | None  # for losses that NEED "whole" and for the reverse order
    uniform: FloatArray  # [M] or empty: numbers in [0, 1) for losses that NEED "whole"
    # [S] of a minibatch's sequences, with the reduction "agent_mean"; 0 for all others
    sequence_weight: FloatArray | None = None


def minibatch_record(
    tokens: IntArray, columns: Mapping[str, Tensor], turn_of: IntArray, targets: Targets
) -> tuple[IntArray, WholeMinibatch]:
    """Return the sorted tokens of a minibatch, and their record for losses that NEED "whole".

    Args:
        tokens: int64 [M'], the minibatch's tokens by their index in the pack.
        columns: fields of the record that come from the network, [M'] each, in the order of
            ``tokens``.
        turn_of: int64 [M], row of the turn table of every token of the pack.
        targets: targets of the step.
    """
    turns = targets.turns
    assert turns is not None, 'a loss that NEEDS "whole" needs the turn table'
    order = np.argsort(tokens, kind="stable")
    tokens, like = tokens[order], columns["logprobs"]
    returns, starts = trajectory_returns(turns)
    trajectories, trajectory = np.unique(turns.trajectory[turn_of[tokens]], return_inverse=True)
    group = start_groups(turns)[0][starts]

    def on_device(column: FloatArray | IntArray) -> Tensor:
        """Return a column as a tensor of the network's device and precision."""
        tensor = torch.from_numpy(np.ascontiguousarray(column))
        return tensor.to(like.device, like.dtype if tensor.is_floating_point() else torch.int64)

    rows = torch.from_numpy(order).to(like.device)
    return tokens, WholeMinibatch(
        old_logprobs=on_device(targets.old_logprobs[tokens]),
        advantages=on_device(targets.advantages[tokens]),
        uniform=on_device(targets.uniform[tokens]),
        trajectory=on_device(trajectory.reshape(-1)),
        turn_index=on_device(turns.turn_index[turn_of[tokens]]),
        prompt=on_device(_prompt_numbers(turns)[turn_of[tokens]]),
        group=on_device(group[trajectories]),
        outcome=on_device(returns[trajectories]),
        **{name: column[rows] for name, column in columns.items()},
    )


def _prompt_numbers(turns: TurnTable) -> IntArray:
    """Return a number per turn [N], equal for the candidates of one prompt."""
    if turns.state_group is not None:
        return turns.state_group
    return np.arange(len(turns.reward), dtype=np.int64)


def critic_position(needs: Collection[str]) -> ValuePosition:
    """Return where an estimator with these NEEDS reads the critic.

    "value" means before a turn, "token_value" before each token, and "value_after" after a turn. If
    an estimator NEEDS several of them, the first in this order decides.
    """
    if "value" in needs:
        return "before"
    if "token_value" in needs:
        return "token"
    return "after" if "value_after" in needs else "before"


def critic_positions(data: Pack, at: ValuePosition, turns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct sequences and the positions, [K] each, that the critic reads.

    Args:
        data: the pack.
        at: "before" is the last token of the prompt, "after" the last token of the reply,
            "token" the token before each sampled token.
        turns: turns [K], rows of the turn table; for "token" sampled tokens [K], indices into the
            pack.
    """
    if at == "token":
        return data.prompt_ends[data.turn_of[turns], 0], data.position_of[turns] - 1
    sequence, position = data.prompt_ends[turns, 0], data.prompt_ends[turns, 1]
    if at == "before":
        return sequence, position
    begin, end = (np.searchsorted(data.turn_of, turns, side=side) for side in ("left", "right"))
    has_reply = end > begin  # without a reply, the position of the prompt's last token stays
    position = position.copy()
    position[has_reply] = data.position_of[end[has_reply] - 1]
    return sequence, position


def num_values(data: Pack, at: ValuePosition, tokens: IntArray) -> int:
    """Return the number of values that are fitted for these sampled tokens."""
    return len(tokens) if at == "token" else len(np.unique(data.turn_of[tokens]))


class Reader:
    """Reads packs with a model.

    Args:
        model: the model.
        temperature: number that divides the logits, as in sampling.
        micro_tokens: largest number of distinct prefixes per forward pass.
        features: plug-ins of the slot ``features`` to compute with the log-probabilities.
        reference: the policy before the first step, if its log-probabilities are needed.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        temperature: float,
        micro_tokens: int,
        features: Sequence[str] = (),
        reference: LanguageModel | None = None,
    ) -> None:
        self.model, self.temperature, self.micro_tokens = model, temperature, micro_tokens
        self.features, self.reference = tuple(features), reference

    @property
    def _max_padding(self) -> int:
        return MAX_PADDING if self.model.forward.shares_prefixes else 1

    @torch.no_grad()
    def turn_values(self, data: Pack, *, at: ValuePosition = "before") -> FloatArray:
        """Return the value head's estimates: [N] per turn, or [M] per sampled token."""
        sequence, position = critic_positions(
            data, at, np.arange(len(data.turn_of if at == "token" else data.prompt_ends))
        )
        values = np.zeros(len(sequence))
        for rows in chunks(
            data, np.arange(len(data.sequences)), self.micro_tokens, padded=self._max_padding
        ):
            tree = prefix_tree([data.sequences[row] for row in rows])
            index_of = {row: index for index, row in enumerate(rows.tolist())}
            indices = np.flatnonzero(np.isin(sequence, rows))  # values of this chunk
            row = torch.tensor(
                [index_of[row] for row in sequence[indices].tolist()], dtype=torch.int64
            )
            nodes = tree.node[row, torch.from_numpy(position[indices])].to(self.model.device)
            hidden = self.model.hidden(tree.to(self.model.device))[nodes]
            values[indices] = self.model.values(hidden).double().cpu().numpy()
        return values

    def _slices(self, data: Pack, sequences: IntArray) -> Iterator[Slice]:
        for part in slices(data, sequences, self.micro_tokens, padded=self._max_padding):
            yield part.to(self.model.device)

    def turn_logprobs(self, data: Pack, *, of_reference: bool = False) -> FloatArray:
        """Return each turn's log-probability by the model or by the reference policy, [N]."""
        model = self.reference if of_reference else self.model
        assert model is not None, "made without a reference"
        return np.bincount(
            data.turn_of, weights=self._logprobs(data, model), minlength=len(data.prompt_ends)
        ).astype(np.float64)

    def logprobs(self, data: Pack) -> FloatArray:
        """Return the model's present log-probabilities of all sampled tokens, [M]."""
        return self._logprobs(data, self.model)

    @torch.no_grad()
    def _logprobs(self, data: Pack, model: LanguageModel) -> FloatArray:
        logprobs = np.empty(len(data.turn_of))
        for part in self._slices(data, data.with_replies):
            logprobs[part.tokens] = (
                self._forward(model, part)[0][part.token_index].double().cpu().numpy()
            )
        return logprobs

    @torch.no_grad()
    def entropies(self, data: Pack) -> FloatArray:
        """Return the entropy of each sampled token's truncated distribution, [M], in nats."""
        entropies = np.empty(len(data.turn_of))
        for part in self._slices(data, data.with_replies):
            outputs = self._forward(self.model, part, ("entropy",))[1]
            entropies[part.tokens] = outputs["entropy"][part.token_index].double().cpu().numpy()
        return entropies

    def _forward(
        self, model: LanguageModel, part: Slice, features: Sequence[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return log-probabilities and features of the sampled tokens, [K] each."""
        names = self.features if features is None else features
        return model.compute(lambda: self._read(model, part, names))

    def _read(
        self, model: LanguageModel, part: Slice, features: Sequence[str]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the result of ``_forward``; split weights must be gathered before."""
        hidden = model.hidden(part.tree)
        logits = model.logits(hidden.index_select(0, part.prefixes)).float() / self.temperature
        index = part.prefix_index
        all_logprobs = logits.log_softmax(-1)
        legal = part.legal.divergences(all_logprobs, index)
        if part.support:
            logits = restrict(logits[index], part.support)
            index = torch.arange(len(index), device=index.device)
            all_logprobs = logits.log_softmax(-1)
        logprobs = at_samples(all_logprobs, index, part.target)
        outputs = {
            name: at_samples(load("features", name).function(logits), index, part.target)
            for name in features
        }
        return logprobs, {**outputs, **legal, "hidden": hidden}
