"""Episodes to training arrays: the exact ids the model saw and said, and which of them carry loss.

A pack is cut into forward passes that fit into memory, and read: values, log-probabilities of
sampled tokens, features of their distributions. Every distinct sequence runs through the network
once.

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
from sparring.methods.columns.base import Place
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.methods.losses.base import Whole
from sparring.models.attention import PrefixTree, prefix_tree, shared_lengths
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.in_process import restrict
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
        """The sequences with sampled tokens; a conversation that outgrew the model may not."""
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
        self.said = False

    def sampled(
        self,
        ids: Ids,
        logprobs: Sequence[float],
        kept: Sequence[Ids],
        legal: Sequence[NextTokens],
        row: int,
    ) -> None:
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


PADDED = 8  # padded positions per distinct prefix that a chunk may have: attention pays for them


@dataclass(kw_only=True, slots=True)
class Slice:
    """The sequences of one forward pass, as index arrays into a pack."""

    rows: IntArray  # [R] distinct sequences
    tree: PrefixTree
    asked: Tensor  # [U] prefixes that a token was sampled after
    row: Tensor  # [K] row of each distinct sampled token
    place: Tensor  # [K] which of the U prefixes it was sampled after
    target: Tensor  # [K] the token itself
    kept: list[tuple[int, ...]]  # [K], or empty
    legal: Magnet  # of the K tokens
    spread: Tensor  # [M] distinct sampled token of each sampled token
    tokens: IntArray  # [M] index of each sampled token in the pack
    sequence: Tensor  # [M] number of each token's sequence within this slice
    sequences: IntArray  # [num_sequences] which of the pack's they are

    @property
    def num_sequences(self) -> int:
        """How many sequences it has; equal ones count each."""
        return len(self.sequences)

    def to(self, device: torch.device) -> Slice:
        """Return this slice with its tensors on a device."""
        named = ("asked", "row", "place", "target", "spread", "sequence")
        moved = {name: getattr(self, name).to(device) for name in named}
        return replace(self, tree=self.tree.to(device), legal=self.legal.to(device), **moved)


def slices(
    data: Pack, chosen: IntArray, micro_tokens: int, *, padded: int = PADDED
) -> Iterator[Slice]:
    """Yield the chosen sequences in forward passes that fit; see ``chunks``."""
    begin = np.concatenate([[0], np.cumsum(data.tokens)])
    for rows in chunks(data, np.unique(data.distinct[chosen]), micro_tokens, padded=padded):
        sequences = chosen[np.isin(data.distinct[chosen], rows)]
        yield _slice(data, rows, sequences, begin)


def chunks(
    data: Pack, rows: IntArray, micro_tokens: int, *, padded: int = PADDED
) -> Iterator[IntArray]:
    """Yield distinct sequences in sorted order, so that neighbours share prefixes, in chunks that
    fit.

    A chunk has at most ``micro_tokens`` distinct prefixes, and its padded size at most ``padded``
    times as much (1 for a forward pass that shares no prefixes); a sequence that is longer comes
    alone.
    """
    order = sorted(rows.tolist(), key=data.sequences.__getitem__)
    shared = shared_lengths([data.sequences[row] for row in order])
    begin = nodes = longest = 0
    for end, row in enumerate(order):
        length = len(data.sequences[row])
        new, widest = length - int(shared[end]), max(longest, length)
        if end > begin and (
            nodes + new > micro_tokens or widest * (end + 1 - begin) > padded * micro_tokens
        ):
            yield np.array(order[begin:end])
            begin, nodes, new, widest = end, 0, length, length
        nodes, longest = nodes + new, widest
    if order:
        yield np.array(order[begin:])


def at_samples(found: Tensor, place: Tensor, target: Tensor) -> Tensor:
    """Return what was found for each distribution, [U], or for each token of each, [U, V], at the
    sampled tokens, [K].
    """
    return found[place] if found.ndim == 1 else found[place, target]


def _slice(data: Pack, rows: IntArray, sequences: IntArray, begin: IntArray) -> Slice:
    """Return the index arrays of a forward pass over ``rows`` for the games ``sequences``."""
    positions = [data.positions[row] for row in rows]
    counts = np.array([len(p) for p in positions])
    offset = np.concatenate([[0], np.cumsum(counts)])
    place = np.full(len(data.sequences), -1)
    place[rows] = np.arange(len(rows))
    which = place[data.distinct[sequences]]
    lengths = counts[which]
    tree = prefix_tree([data.sequences[row] for row in rows])
    row, position = (
        torch.from_numpy(np.repeat(np.arange(len(rows)), counts)),
        torch.tensor([p for ps in positions for p in ps]),
    )
    asked, place = torch.unique(tree.node[row, position - 1], return_inverse=True)
    return Slice(
        rows=rows,
        tree=tree,
        asked=asked,
        row=row,
        place=place,
        target=tree.ids[tree.node[row, position]],
        kept=_kept(data, rows, counts),
        legal=magnet([found for row in rows for found in data.legal[row]]),
        spread=torch.from_numpy(_ranges(offset[which], lengths)),
        tokens=_ranges(begin[sequences], lengths),
        sequence=torch.from_numpy(np.repeat(np.arange(len(sequences)), lengths)),
        sequences=sequences,
    )


def _kept(data: Pack, rows: IntArray, counts: IntArray) -> list[tuple[int, ...]]:
    """Return the kept set of each sampled token; an empty one where it was not truncated."""
    if not any(data.kept[row] for row in rows):
        return []
    return [
        ids
        for row, count in zip(rows, counts, strict=True)
        for ids in data.kept[row] or ((),) * int(count)
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
    """What the tokens of a step are trained towards."""

    old: FloatArray  # [M] log-probabilities before the step
    advantages: FloatArray  # [M]
    value_targets: FloatArray | None  # [N]
    turns: (
        TurnTable | None
    )  # rows of the turns; for losses that NEED "whole" and for the reverse order
    uniform: FloatArray  # [M] or empty: numbers in [0, 1) for losses that NEED "whole"
    # [S] of a minibatch's sequences, with the reduction "agent_mean"; 0 for all others
    sequence_weight: FloatArray | None = None


def whole(
    tokens: IntArray, columns: Mapping[str, Tensor], turn_of: IntArray, targets: Targets
) -> tuple[IntArray, Whole]:
    """Return the tokens of a minibatch, sorted, and the record of it.

    Args:
        tokens: int64 [M'], the minibatch's tokens by their index in the pack.
        columns: fields of ``Whole`` that come from the network, [M'] each, in the order of
            ``tokens``.
        turn_of: int64 [M], row of the turn table of every token of the pack.
        targets: of the step.
    """
    turns = targets.turns
    assert turns is not None, 'a loss that NEEDS "whole" needs the turn table'
    order = np.argsort(tokens, kind="stable")
    tokens, like = tokens[order], columns["logprobs"]
    returns, starts = trajectory_returns(turns)
    present, trajectory = np.unique(turns.trajectory[turn_of[tokens]], return_inverse=True)
    group = start_groups(turns)[0][starts]

    def on_device(column: FloatArray | IntArray) -> Tensor:
        """Return a column as a tensor where the network's are, numbers in its precision."""
        tensor = torch.from_numpy(np.ascontiguousarray(column))
        return tensor.to(like.device, like.dtype if tensor.is_floating_point() else torch.int64)

    rows = torch.from_numpy(order).to(like.device)
    return tokens, Whole(
        old_logprobs=on_device(targets.old[tokens]),
        advantages=on_device(targets.advantages[tokens]),
        uniform=on_device(targets.uniform[tokens]),
        trajectory=on_device(trajectory.reshape(-1)),
        turn_index=on_device(turns.turn_index[turn_of[tokens]]),
        prompt=on_device(_prompts(turns)[turn_of[tokens]]),
        group=on_device(group[present]),
        outcome=on_device(returns[present]),
        **{name: column[rows] for name, column in columns.items()},
    )


def _prompts(turns: TurnTable) -> IntArray:
    """Return the number of each row's prompt, [N]; without candidates each row has its own."""
    if turns.state_group is not None:
        return turns.state_group
    return np.arange(len(turns.reward), dtype=np.int64)


def fitted_at(needs: Collection[str]) -> Place:
    """Return where an estimator with these NEEDS wants the critic fitted.

    "value" is before a turn, whatever else is needed; then "token_value" before each token;
    "value_after" alone after a turn.
    """
    if "value" in needs:
        return "before"
    if "token_value" in needs:
        return "token"
    return "after" if "value_after" in needs else "before"


def read_at(data: Pack, place: Place, which: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct sequence and the position [K] that the critic reads.

    Args:
        data: the pack.
        place: "before" is the last token the seat was given, "after" the last one of its reply,
            "token" the one before each token.
        which: turns [K], rows of the turn table; for "token" sampled tokens [K], indices into the
            pack.
    """
    if place == "token":
        return data.ask[data.turn_of[which], 0], data.position_of[which] - 1
    sequence, position = data.ask[which, 0], data.ask[which, 1]
    if place == "before":
        return sequence, position
    begin, end = (np.searchsorted(data.turn_of, which, side=side) for side in ("left", "right"))
    said = end > begin  # else the reply is empty, and nothing came after what was asked
    position = position.copy()
    position[said] = data.position_of[end[said] - 1]
    return sequence, position


def num_values(data: Pack, place: Place, tokens: IntArray) -> int:
    """Return how many values are fitted where these sampled tokens are trained."""
    return len(tokens) if place == "token" else len(np.unique(data.turn_of[tokens]))


class Reader:
    """Reads packs with a model.

    Args:
        model: the model.
        temperature: divides the logits, as it did when the tokens were sampled.
        micro_tokens: distinct prefixes per forward pass.
        features: plug-ins of the slot ``features`` that are read along.
        reference: the policy before the first step, if it is to be read too.
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
    def _padded(self) -> int:
        return PADDED if self.model.forward.shares_prefixes else 1

    @torch.no_grad()
    def turn_values(self, data: Pack, *, at: Place = "before") -> FloatArray:
        """Return the value head's estimates: [N] before each turn or after it, or [M] before each
        sampled token; see ``critic.py``.
        """
        sequence, position = read_at(
            data, at, np.arange(len(data.turn_of if at == "token" else data.ask))
        )
        values = np.zeros(len(sequence))
        for rows in chunks(
            data, np.arange(len(data.sequences)), self.micro_tokens, padded=self._padded
        ):
            tree = prefix_tree([data.sequences[row] for row in rows])
            place = {row: index for index, row in enumerate(rows.tolist())}
            own = np.flatnonzero(np.isin(sequence, rows))
            row = torch.tensor(
                [place[index] for index in sequence[own].tolist()], dtype=torch.int64
            )
            asked = tree.node[row, torch.from_numpy(position[own])].to(self.model.device)
            values[own] = (
                self.model.values(self.model.hidden(tree.to(self.model.device))[asked])
                .double()
                .cpu()
                .numpy()
            )
        return values

    def _parts(self, data: Pack, chosen: IntArray) -> Iterator[Slice]:
        """Yield the chosen sequences in forward passes, where the model is."""
        for part in slices(data, chosen, self.micro_tokens, padded=self._padded):
            yield part.to(self.model.device)

    def turn_logprobs(self, data: Pack, *, of_reference: bool = False) -> FloatArray:
        """Return the sum of the log-probabilities of each turn's sampled tokens, now or by the
        reference policy, [N].
        """
        model = self.reference if of_reference else self.model
        assert model is not None, "made without a reference"
        return np.bincount(
            data.turn_of, weights=self._logprobs(data, model), minlength=len(data.ask)
        ).astype(np.float64)

    def logprobs(self, data: Pack) -> FloatArray:
        """Return the log-probabilities of all sampled tokens, now, [M]."""
        return self._logprobs(data, self.model)

    @torch.no_grad()
    def _logprobs(self, data: Pack, model: LanguageModel) -> FloatArray:
        """Return a model's log-probabilities of all sampled tokens, [M]."""
        logprobs = np.empty(len(data.turn_of))
        for part in self._parts(data, data.spoken):
            logprobs[part.tokens] = (
                self._forward(model, part)[0][part.spread].double().cpu().numpy()
            )
        return logprobs

    @torch.no_grad()
    def entropies(self, data: Pack) -> FloatArray:
        """Return the entropy of the distribution that each sampled token was drawn from, after
        temperature and truncation, [M], nats.
        """
        found = np.empty(len(data.turn_of))
        for part in self._parts(data, data.spoken):
            extra = self._forward(self.model, part, ("entropy",))[1]
            found[part.tokens] = extra["entropy"][part.spread].double().cpu().numpy()
        return found

    def _forward(
        self, model: LanguageModel, part: Slice, features: Sequence[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return log-probabilities [K] of the sampled tokens, and features [K] of them or of the
        distributions they came from.
        """
        chosen = self.features if features is None else features
        return model.computing(lambda: self._read(model, part, chosen))

    def _read(
        self, model: LanguageModel, part: Slice, features: Sequence[str]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Do what ``_forward`` does, with weights that are whole."""
        hidden = model.hidden(part.tree)
        logits, place = (
            model.logits(hidden.index_select(0, part.asked)).float() / self.temperature,
            part.place,
        )
        every = logits.log_softmax(-1)
        legal = part.legal.divergences(every, place)
        if part.kept:
            logits, place = (
                restrict(logits[place], part.kept),
                torch.arange(len(place), device=place.device),
            )
            every = logits.log_softmax(-1)
        logprobs = at_samples(every, place, part.target)
        extra = {
            name: at_samples(load("features", name).function(logits), place, part.target)
            for name in features
        }
        return logprobs, {**extra, **legal, "hidden": hidden}
