"""A causal language model as the rest of Sparring sees it.

Hidden states, logits, cached extension, values.

Legend: R sequences, T tokens, N distinct prefixes, C width, V vocabulary, M chosen positions.

The forward pass of any other causal language model.

Hugging Face's own, over whole sequences every time.

It knows nothing of the network's inside, so it cannot keep keys and values or share prefixes: its
cache holds the ids, and appending a token runs the whole sequence again. Correct for every decoder,
and slow; families that ``architectures.py`` knows take the lean forward instead.

Legend: N distinct prefixes, R sequences of T tokens, B cached rows, P positions, C width.

Whether, and how, a position's bits are its own on this machine: it is measured.

A library of linear algebra chooses its kernel by the shape of a product. So a row may be summed up
in another order beside few rows than beside many. From some number of rows on the choice is always
the same, as long as rows come in whole kernels; which number depends on the processor. Here the
fewest rows are found that products must be filled up to, by trying them. What is found depends on
the shapes of a network's weights alone, not on their values: it is the same before and after an
update.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn

from sparring.core.errors import ModelError, RunError
from sparring.core.files import disk_errors
from sparring.models.adapters import base_of, merged
from sparring.models.architectures import architecture
from sparring.models.attention import (
    Blocks,
    InvariantAttention,
    KeyValueCache,
    PrefixTree,
    prefix_tree,
    room_for,
)
from sparring.models.lean import LeanForward, how
from sparring.models.tiny import is_projection

# what products are tried to be filled up to: whole vectors, as what remains of a vector takes other
# functions (SiLU, GELU); and whole tiles, of which there are such with 6, 8, 24 and 48 rows
FILLS = (8, 16, 32, 48, 96)
QUERIES = (8, 24, 48)  # what products of attention are tried with
TIMES = (1, 2, 3, 5, 7)  # so many of them at once
LEAST, MOST = 192, 960  # rows that are compared: what divides by all of FILLS
WORK = 1 << 32  # multiplications of the largest comparison, about
POSITIONS = 150  # of the conversations in which attention is compared
PARTS = ((0, 1), (5, 6), (13, 40), (16, 17), (63, 64), (64, 66), (140, POSITIONS))


def invariant_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether the bits of a position can be its own with weights like this.

    With several threads they cannot be, so that nothing is paid for it.
    """
    return torch.get_num_threads() == 1 and device.type == "cpu" and dtype == torch.float32


class Product(NamedTuple):
    """The shape of a product of rows with a weight."""

    inner: int
    outer: int
    turned: bool  # whether the weight is [outer, inner], as in nn.Linear; else [inner, outer]
    shifted: bool  # whether a bias is added in the same call; always, where it is not turned


def products(network: nn.Module) -> frozenset[Product]:
    """Return the shapes of a network's products, adapters' and the head's included."""
    found = set()
    for module in network.modules():
        if isinstance(module, nn.Linear):
            shape = (module.in_features, module.out_features)
            found.add(Product(*shape, turned=True, shifted=module.bias is not None))
        elif is_projection(module):
            weight = module.weight
            assert isinstance(weight, Tensor)
            inner, outer = weight.shape
            found.add(Product(inner, outer, turned=False, shifted=True))
    return frozenset(found)


def holds(run: Callable[[int], Tensor], rows: int, every: Tensor) -> bool:
    """Return whether a row's bits are its own where rows come in multiples.

    Args:
        run: gives the results [M, ...] of the first M rows.
        rows: the number that there are multiples of.
        every: the results of very many.
    """
    counts = (rows * times for times in TIMES if rows * times <= len(every))
    return all(torch.equal(run(count), every[:count]) for count in counts)


@lru_cache(maxsize=1024)
@torch.no_grad()
def good_rows(product: Product) -> frozenset[int]:
    """Return the numbers of ``FILLS`` that keep the bits of a row of a product its own."""
    inner, outer, turned, shifted = product
    draw = torch.Generator().manual_seed(0)
    most = max(LEAST, min(MOST, WORK // (inner * outer) // LEAST * LEAST))
    x = torch.randn(most, inner, generator=draw)
    weight = torch.randn(*((outer, inner) if turned else (inner, outer)), generator=draw)
    bias = torch.randn(outer, generator=draw)

    def run(count: int) -> Tensor:
        if turned:
            return F.linear(x[:count], weight, bias if shifted else None)
        return torch.addmm(bias, x[:count], weight)

    every = run(most)
    return frozenset(rows for rows in FILLS if holds(run, rows, every))


def fewest_rows(wanted: Iterable[Product]) -> int:
    """Return the fewest rows that products are filled up to, so that a row's bits are its own.

    Args:
        wanted: the products.

    Returns:
        A number of ``FILLS``; 0 where none is enough for all.
    """
    good = frozenset(FILLS).intersection(*map(good_rows, wanted))
    return min(good, default=0)


@lru_cache(maxsize=1024)
@torch.no_grad()
def fewest_queries(heads: int, groups: int, width: int) -> int:
    """Return the fewest rows of a product of attention with which a query's bits are its own.

    Args:
        heads: of queries.
        groups: key-value heads.
        width: of a head.

    Returns:
        A number of ``QUERIES``; 0 where none is enough.
    """
    draw, batch = torch.Generator().manual_seed(0), 3
    q = torch.randn(batch, POSITIONS, heads, width, generator=draw)
    k, v = (torch.randn(batch, groups, room_for(POSITIONS), width, generator=draw) for _ in "kv")
    shape = {"heads": heads, "groups": groups, "width": width}

    def mixed(queries: int, rows: slice, begin: int, end: int) -> Tensor:
        positions = torch.arange(begin, end)[None].expand(len(q[rows]), -1)
        blocks = Blocks(FILLS[0], queries)
        attention = InvariantAttention(positions, len(positions), **shape, blocks=blocks)
        found = attention(q[rows, begin:end], k[rows], v[rows], width**-0.5, None)
        return found[: positions.numel()].view(*positions.shape, -1)

    for queries in QUERIES:
        every, alone = mixed(queries, slice(0, batch), 0, POSITIONS), slice(1, 2)
        if all(
            torch.equal(mixed(queries, alone, begin, end), every[alone, begin:end])
            for begin, end in PARTS
        ):
            return queries
    return 0


WIDTHS = ("hidden_size", "n_embd", "d_model")  # names in configurations, the usual first
LIMITS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "max_sequence_length",
    "seq_length",
)


def numbers_of(network: Any, names: tuple[str, ...]) -> list[int]:
    """Return those of a network's settings under these names that are numbers above 0."""
    config = (
        network.config.get_text_config()
        if hasattr(network.config, "get_text_config")
        else network.config
    )
    found = [getattr(config, name, None) for name in names]
    return [value for value in found if isinstance(value, int) and value > 0]


def number_of(network: Any, names: tuple[str, ...], what: str) -> int:
    """Return the first of ``numbers_of``, or raise ModelError: there is none."""
    found = numbers_of(network, names)
    if not found:
        raise ModelError(f"The configuration of {type(network).__name__} does not name {what}.")
    return found[0]


# transformers chooses their frequencies by the largest position of a batch
BY_LENGTH = ("dynamic", "longrope")


def check_rotations(network: Any) -> None:
    """Refuse a network whose rotations are chosen anew for every batch.

    A reply would then have another probability beside a long conversation than alone, and sampler
    and learner, whose batches differ, would disagree.

    Raises:
        ModelError: the rotations depend on the length of the batch.
    """
    for module in network.modules():
        named = getattr(module, "rope_type", None)
        for kind in named.values() if isinstance(named, dict) else (named,):
            if kind in BY_LENGTH:
                raise ModelError(
                    f"{type(network).__name__} cannot be run: its rotary positions are of the "
                    f"type {kind!r}, which depend on the longest conversation in a batch, so that "
                    "a reply's probability would depend on its "
                    f"neighbours. {_instead(kind, network.config)}"
                )


def _instead(kind: str, config: Any) -> str:
    """Return what to take instead."""
    if kind == "dynamic":
        limit = config.max_position_embeddings
        return (
            f"Up to {limit} tokens it is the same as without: write rope_type default into its "
            f"config.json and keep conversations within model.context={limit}."
        )
    return (
        "Take a model whose rope_type is default, linear, yarn or llama3, such as its "
        "short-context version."
    )


@dataclass(kw_only=True, slots=True)
class TokenCache(KeyValueCache):
    """The ids of sequences, ``tensor`` [B, P], in place of keys and values."""

    @property
    def positions(self) -> int:
        """Room P of a row."""
        return self.tensor.shape[1]

    def take(self, rows: Tensor) -> TokenCache:
        """Return a copy that holds these rows."""
        return TokenCache(tensor=self.tensor.index_select(0, rows))

    def copy_from(self, other: KeyValueCache, theirs: Tensor, ours: Tensor, length: int) -> None:
        """Copy the first ``length`` ids of rows ``theirs`` of another cache into rows ``ours``."""
        self.tensor[ours, :length] = other.tensor[theirs, :length]

    def part(self, rows: Tensor, start: Tensor, length: int) -> TokenCache:
        """Return a copy of ``length`` ids of these rows, each from its own ``start``."""
        return TokenCache(tensor=self.tensor[rows[:, None], self._from(start, length)])

    def put(
        self, other: KeyValueCache, theirs: Tensor, ours: Tensor, start: Tensor, length: int
    ) -> None:
        """Copy the first ``length`` ids of rows ``theirs`` of another cache.

        They go into rows ``ours``, each to its ``start``.
        """
        self.tensor[ours[:, None], self._from(start, length)] = other.tensor[theirs, :length]


class WholeForward:
    """The forward pass of a network through its own ``forward``."""

    shares_prefixes = False
    recompute = False

    def __init__(self, network: Any) -> None:
        self.body = network.base_model

    def new_cache(self, batch: int, positions: int, *, device: torch.device) -> TokenCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions."""
        return TokenCache(tensor=torch.zeros((batch, positions), dtype=torch.int64, device=device))

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return the last hidden state [N, C] of every prefix.

        A cache of R rows takes the sequences.
        """
        ids = tree.ids[tree.node]
        if cache is not None:
            cache.tensor[:, : ids.shape[1]] = ids
        return self._run(ids).flatten(0, 1).index_select(0, tree.first)

    @torch.no_grad()
    def extend(self, ids: Tensor, start: Tensor, cache: KeyValueCache) -> Tensor:
        """Append right-padded tokens [B, T] at positions ``start`` [B].

        Return their hidden states [B, T, C].
        """
        rows = torch.arange(len(ids), device=ids.device)[:, None]
        positions = start[:, None] + torch.arange(ids.shape[1], device=ids.device)
        cache.tensor[rows, positions] = ids
        return self._run(cache.tensor[:, : int(positions.max()) + 1])[rows, positions]

    def _run(self, ids: Tensor) -> Tensor:
        """Return the hidden states [R, T, C] of right-padded sequences."""
        hidden: Tensor = self.body(
            input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
        ).last_hidden_state
        return hidden


Result = TypeVar("Result")


class LanguageModel:
    """Network, tokenizer and optional value head.

    ``version`` counts the updates the weights have seen.

    Families known to ``models/architectures.py`` run through the lean forward of
    ``models/lean.py``, others through their own. The network may carry low-rank adapters; then they
    alone are trained.

    ``over`` is the model of the frozen weights that it shares with others, if they are known; see
    ``models/samplers/prefix_cache.py``.
    """

    def __init__(
        self,
        network: Any,
        tokenizer: Any,
        *,
        with_values: bool = False,
        version: int = 0,
        longest: int | None = None,
        over: LanguageModel | None = None,
    ) -> None:
        self.network, self._longest, self.over = network, longest, over
        self.base = base_of(network)
        self._weight: Tensor = next(network.parameters())  # one of all, as there is a walk to it
        self.forward = _forward(self.base)
        self.around: Callable[[Callable[[], Any]], Any] | None = None  # see ``computing``
        self._own: tuple[Blocks | None] | None = None  # measured when asked for
        self.tokenizer = tokenizer
        self.version = version
        self.value_head = (
            nn.Linear(self.width, 1, dtype=torch.float32, device=self.device)
            if with_values
            else None
        )
        if self.value_head is not None:
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    @property
    def width(self) -> int:
        """Width C of the hidden states."""
        return number_of(
            self.base,
            WIDTHS,
            "a width of its hidden states; models of this kind have no place for a critic here",
        )

    @cached_property
    def context(self) -> int:
        """Longest conversation in tokens: the network's limit, or a lower one that was asked for.

        Asked at every turn.

        Raises:
            ModelError: the network has none, and none was asked for.
        """
        if self._longest is not None and not numbers_of(self.base, LIMITS):
            return self._longest
        limit = number_of(self.base, LIMITS, "a longest conversation; write model.context=512, say")
        return limit if self._longest is None else min(limit, self._longest)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._weight.device

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield (prefix, module) of everything that is trained."""
        yield "network", self.network
        if self.value_head is not None:
            yield "value_head", self.value_head

    def parameters(self) -> list[nn.Parameter]:
        """Return all trained parameters, in a fixed order."""
        return [p for _, module in self.modules() for p in module.parameters() if p.requires_grad]

    def tensors(self) -> dict[str, Tensor]:
        """Return the named trained tensors (shared storage; tied weights once).

        What is frozen is not among them.
        """
        named = (
            (f"{prefix}.{name}", p)
            for prefix, module in self.modules()
            for name, p in module.named_parameters()
        )
        return {name: p.detach() for name, p in named if p.requires_grad}

    @cached_property
    def frozen_digest(self) -> str:
        """SHA-256 of the names and bytes of all weights that are not trained.

        Empty where there are none.
        """
        frozen = [
            (name, p) for name, p in sorted(self.network.named_parameters()) if not p.requires_grad
        ]
        total = hashlib.sha256()
        for name, weight in frozen:
            total.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
            total.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return total.hexdigest() if frozen else ""

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Copy named tensors into the weights.

        Raises:
            ModelError: a name or shape differs from this model's.
        """
        own = self.tensors()
        if own.keys() != tensors.keys() or any(
            own[name].shape != tensors[name].shape for name in own
        ):
            odd = sorted(set(own) ^ set(tensors)) or [
                name for name in own if own[name].shape != tensors[name].shape
            ]
            raise ModelError(
                f"These weights are of another model: {odd[:3]} differ. Use the configuration "
                "they were trained with."
            )
        for name, tensor in own.items():
            tensor.copy_(tensors[name])

    def clone(self) -> LanguageModel:
        """Return a copy whose trained weights are its own; what is frozen is shared."""
        frozen = {id(p): p for p in self.network.parameters() if not p.requires_grad}
        other = copy.copy(self)
        other.network = copy.deepcopy(self.network, frozen)
        other.base = base_of(other.network)
        other._weight = next(other.network.parameters())
        other.forward = _forward(other.base)
        other.forward.recompute = self.forward.recompute
        other.value_head = copy.deepcopy(self.value_head)
        return other

    def renew(self) -> None:
        """Look for the parameters again, which have been replaced."""
        self._weight = next(self.network.parameters())

    def computing(self, compute: Callable[[], Result]) -> Result:
        """Return what a call returns that computes with the weights, which may be split."""
        return compute() if self.around is None else self.around(compute)

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return hidden states [N, C] of distinct prefixes.

        A cache of R rows takes their keys and values.
        """
        return self.forward.hidden(tree, cache)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [M, V] of hidden states [M, C]."""
        head = self.base.get_output_embeddings()
        if type(head) is nn.Linear and head.bias is None:
            weight: Tensor = head.weight
            return hidden @ weight.T
        logits: Tensor = head(hidden)
        return logits

    def values(self, hidden: Tensor) -> Tensor:
        """Return the value head's estimate [M] for hidden states [M, C]."""
        if self.value_head is None:
            raise ModelError(
                "This model has no value head; the credit estimator that needs one must declare "
                "NEEDS = {'values'}."
            )
        values: Tensor = self.value_head(hidden.float()).squeeze(-1)
        return values

    @property
    def own(self) -> Blocks | None:
        """What products come in, so that a position's bits are its own.

        None where they are not: with several threads, not in float32 on a CPU, where the network's
        own forward pass is taken, or where none of the sizes tried does it on this machine.
        """
        forward = self.forward
        if isinstance(forward, WholeForward) or not invariant_on(self.device, self.base.dtype):
            return None
        if self._own is None:
            parts, wanted = forward.parts, products(self.network)
            queries = fewest_queries(parts.heads, parts.groups, parts.head_width)
            rows = fewest_rows(wanted)
            self._own = (Blocks(rows, queries) if rows and queries else None,)
        return self._own[0]

    @property
    def decoding(self) -> str:
        """What computes replies, in words: "compiled", or "torch" and, for a tiny model, why."""
        return how(self.forward.parts) if isinstance(self.forward, LeanForward) else "torch"

    def new_cache(self, batch: int, positions: int) -> KeyValueCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions."""
        forward, dtype = self.forward, self.base.dtype
        if isinstance(forward, WholeForward):
            return forward.new_cache(batch, positions, device=self.device)
        return forward.new_cache(batch, positions, dtype=dtype, device=self.device, own=self.own)

    def extend(self, ids: Tensor, start: Tensor, cache: KeyValueCache) -> Tensor:
        """Append right-padded tokens [B, T] at positions ``start`` [B] of cached rows.

        Return hidden states [B, T, C].
        """
        return self.forward.extend(ids, start, cache)

    @torch.no_grad()
    def check(self) -> None:
        """Compare this forward with the network's own on a few tokens.

        Compare also what it says of a beginning with and without the rest.

        Raises:
            ModelError: they differ: some models scale or cap their logits in ways that are not
                known here, others look ahead, or what the network says of a conversation depends on
                the others in its batch.
        """
        check_forward(self)

    def save(self, folder: Path, *, dtype: str | None = None, adapter: bool = False) -> None:
        """Write a folder that ``AutoModelForCausalLM.from_pretrained`` loads.

        ``AutoTokenizer.from_pretrained`` loads it too.

        Args:
            folder: where to.
            dtype: of the weights: "float32", "bfloat16" or "float16"; None: as they are.
            adapter: write the adapters alone, for peft's ``PeftModel.from_pretrained``.

        Raises:
            ModelError: adapters alone are asked for and there are none.
            RunError: the folder cannot be written.
        """
        adapted = self.base is not self.network
        if adapter and not adapted:
            raise ModelError(
                "This model has no adapters (model.lora), so --adapter has nothing to write; "
                "leave it out."
            )
        network = self.network
        if dtype is not None or (adapted and not adapter):
            network = copy.deepcopy(network)
        network = merged(network) if adapted and not adapter else network
        if dtype is not None:
            network = network.to(getattr(torch, dtype))
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        with disk_errors(folder):
            try:
                network.save_pretrained(folder)
                self.tokenizer.save_pretrained(folder)
            except SafetensorError as error:  # of the disk, in words of its own
                raise RunError(
                    f"{folder} cannot be written: {error}. Name a folder on another disk."
                ) from error
            finally:
                transformers_logging.enable_progress_bar()


def _forward(network: Any) -> LeanForward | WholeForward:
    parts = architecture(network)
    return LeanForward(parts) if parts is not None else WholeForward(network)


# largest difference of log-probabilities between this forward and the network's own, in float32
TOLERANCE = 1e-3
# and of their mean in half precision, whose single values are off by several from float32's
HALF_TOLERANCE = 0.5


def check_forward(model: LanguageModel) -> None:
    """Compare a model's forward pass with its network's own; see ``LanguageModel.check``."""
    check_rotations(model.base)
    kind, vocabulary = (
        type(model.base).__name__,
        model.base.get_output_embeddings().weight.shape[0],
    )
    for name, weight in model.base.named_parameters():
        if weight.numel() and not all(bound.isfinite() for bound in weight.aminmax()):
            raise ModelError(
                f"{name} of {type(model.base).__name__} holds numbers that are NaN or infinite: "
                "its files are damaged, or its training diverged. Take another checkpoint or model."
            )
    length = min([12, *numbers_of(model.base, LIMITS)])
    ids = torch.arange(length, device=model.device) * 7919 % vocabulary
    own = _own_logprobs(model, ids)
    if own.isnan().any():
        raise ModelError(
            f"{kind} gives no probabilities: its weights are so large that sums of them overflow. "
            "Take another model."
        )
    begin = max(1, length // 2)
    if not agree(_own_logprobs(model, ids[:begin]), own[:begin], model.base.dtype):
        raise ModelError(
            f"{kind} looks ahead: it reads a text as a whole and cannot write one token after "
            "another."
        )
    tree = prefix_tree([tuple(ids.tolist())]).to(model.device)
    found = model.logits(model.hidden(tree)).float().log_softmax(-1)
    if not agree(found, own, model.base.dtype):
        raise ModelError(
            f"{kind} cannot be run: its log-probabilities differ by up to "
            f"{(found - own).abs().max().item():.2g} from what is computed here."
        )
    if isinstance(model.forward, LeanForward) and model.forward.compiled is not None:
        compiled = _compiled_logprobs(model, model.forward, ids, begin)
        if not agree(compiled, own, model.base.dtype):
            raise ModelError(
                f"The compiled forward pass of {kind} differs by "
                f"{(compiled - own).abs().max().item():.2g} from the model's own. Name another "
                "compiler in $CC, or leave it out by CC=none."
            )


def _compiled_logprobs(
    model: LanguageModel, forward: LeanForward, ids: Tensor, begin: int
) -> Tensor:
    """Return the log-probabilities [T, V] of compiled code: a beginning read, the rest added."""
    cache = forward.new_cache(1, len(ids), dtype=model.base.dtype, device=model.device)
    tree = prefix_tree([tuple(ids[:begin].tolist())])
    hidden = model.hidden(tree, cache)[tree.node[0]]
    if begin < len(ids):
        rest = model.extend(ids[None, begin:], torch.tensor([begin]), cache)[0]
        hidden = torch.cat([hidden, rest])
    return model.logits(hidden).float().log_softmax(-1)


def agree(one: Tensor, other: Tensor, dtype: torch.dtype) -> bool:
    """Return whether log-probabilities are those of one model, as far as its precision tells.

    In float32 every one is compared. In bfloat16 SmolLM2's own are off by up to 4.9 from float32's
    and by 0.17 in the mean, so that there the mean is.
    """
    difference = (one - other).abs()
    if dtype == torch.float32:
        return bool(difference.max() < TOLERANCE)
    return bool(difference.mean() < HALF_TOLERANCE)


def _own_logprobs(model: LanguageModel, ids: Tensor) -> Tensor:
    """Return the log-probabilities [T, V] of the network's own forward for a sequence [T]."""
    logits: Tensor = model.network(
        input_ids=ids[None], attention_mask=torch.ones_like(ids)[None]
    ).logits[0]
    return logits.float().log_softmax(-1)
