"""A causal language model as the rest of Sparring uses it, and measured padding sizes of products.

``LanguageModel`` computes hidden states, logits, cached extension and values. Families in
``architectures.py`` run through ``TreeForward``. ``SequenceForward`` runs any other network of
Hugging Face over whole sequences; its cache holds token ids, and appending a token runs the whole
sequence again, which is correct for every decoder but slow.

With padding, the result of a row does not depend on its batch. A linear algebra library chooses its
kernel by the shape of a product, so the order of a row's sum may depend on the number of rows.
Above some number of rows, it always chooses the same kernel, if the rows fill whole kernels. This
number depends on the processor and on the shapes of a network's weights, not on their values. The
functions here find it by trying products.

Legend: R sequences of T tokens, N distinct prefixes, B cached rows, P positions, C width, V
vocabulary, M chosen positions.
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
from sparring.models.adapters import base_of, merge_adapters
from sparring.models.architectures import architecture
from sparring.models.attention import (
    InvariantAttention,
    KeyValueCache,
    PaddingSizes,
    PrefixTree,
    num_keys_for,
    prefix_tree,
)
from sparring.models.forward_pass import TreeForward, decoding_of
from sparring.models.tiny import is_projection

# Candidate paddings fill vector registers (an incomplete register computes SiLU and GELU by other
# code) and the tiles of kernels, which have 6, 8, 24 or 48 rows.
ROW_CANDIDATES = (8, 16, 32, 48, 96)
QUERY_CANDIDATES = (8, 24, 48)  # candidates for products of attention
TRIED_MULTIPLES = (1, 2, 3, 5, 7)  # multiples of a candidate that are tried
# limits of the number of compared rows: multiples of all ROW_CANDIDATES
MIN_ROWS, MAX_ROWS = 192, 960
MAX_PRODUCT = 1 << 32  # approximate number of multiplications of the largest comparison
NUM_POSITIONS = 150  # length of the conversations for which attention is compared
POSITION_RANGES = ((0, 1), (5, 6), (13, 40), (16, 17), (63, 64), (64, 66), (140, NUM_POSITIONS))


def invariant_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether results on this device can be exactly the same in every batch."""
    return torch.get_num_threads() == 1 and device.type == "cpu" and dtype == torch.float32


class Product(NamedTuple):
    """The shape of a product of rows with a weight."""

    inner: int
    outer: int
    is_linear: bool  # whether the weight is [outer, inner], as in nn.Linear; else [inner, outer]
    has_bias: bool  # whether the same call adds a bias; true if ``is_linear`` is false


def products_of(network: nn.Module) -> frozenset[Product]:
    """Return the shapes of a network's products, including its adapters and its head."""
    shapes = set()
    for module in network.modules():
        if isinstance(module, nn.Linear):
            shape = (module.in_features, module.out_features)
            shapes.add(Product(*shape, is_linear=True, has_bias=module.bias is not None))
        elif is_projection(module):
            weight = module.weight
            assert isinstance(weight, Tensor)
            inner, outer = weight.shape
            shapes.add(Product(inner, outer, is_linear=False, has_bias=True))
    return frozenset(shapes)


def is_batch_invariant(run: Callable[[int], Tensor], rows: int, expected: Tensor) -> bool:
    """Return whether results of multiples of ``rows`` rows equal those of many rows.

    Args:
        run: returns the results [M, ...] of the first M rows.
        rows: the candidate for the number of rows.
        expected: the results of the largest number of rows, [rows, ...].
    """
    counts = (rows * times for times in TRIED_MULTIPLES if rows * times <= len(expected))
    return all(torch.equal(run(count), expected[:count]) for count in counts)


@lru_cache(maxsize=1024)
@torch.no_grad()
def good_rows(product: Product) -> frozenset[int]:
    """Return the ``ROW_CANDIDATES`` with which a product's rows do not depend on the batch."""
    inner, outer, is_linear, has_bias = product
    generator = torch.Generator().manual_seed(0)
    num_rows = max(MIN_ROWS, min(MAX_ROWS, MAX_PRODUCT // (inner * outer) // MIN_ROWS * MIN_ROWS))
    x = torch.randn(num_rows, inner, generator=generator)
    weight = torch.randn(*((outer, inner) if is_linear else (inner, outer)), generator=generator)
    bias = torch.randn(outer, generator=generator)

    def run(count: int) -> Tensor:
        if is_linear:
            return F.linear(x[:count], weight, bias if has_bias else None)
        return torch.addmm(bias, x[:count], weight)

    expected = run(num_rows)
    return frozenset(rows for rows in ROW_CANDIDATES if is_batch_invariant(run, rows, expected))


def fewest_rows(products: Iterable[Product]) -> int:
    """Return the smallest padding with which the rows of all products do not depend on the batch.

    Args:
        products: shapes of the products.

    Returns:
        A number in ``ROW_CANDIDATES``; 0 if no number works for all products.
    """
    common_rows = frozenset(ROW_CANDIDATES).intersection(*map(good_rows, products))
    return min(common_rows, default=0)


@lru_cache(maxsize=1024)
@torch.no_grad()
def fewest_queries(heads: int, groups: int, width: int) -> int:
    """Return the fewest rows of attention's products with which no query depends on the batch.

    Args:
        heads: number of heads of queries.
        groups: number of key-value heads.
        width: width of a head.

    Returns:
        A number in ``QUERY_CANDIDATES``; 0 if no number works.
    """
    generator, batch = torch.Generator().manual_seed(0), 3
    q = torch.randn(batch, NUM_POSITIONS, heads, width, generator=generator)
    k, v = (
        torch.randn(batch, groups, num_keys_for(NUM_POSITIONS), width, generator=generator)
        for _ in "kv"
    )
    shape = {"heads": heads, "groups": groups, "width": width}

    def attend(queries: int, rows: slice, begin: int, end: int) -> Tensor:
        positions = torch.arange(begin, end)[None].expand(len(q[rows]), -1)
        blocks = PaddingSizes(ROW_CANDIDATES[0], queries)
        attention = InvariantAttention(positions, len(positions), **shape, blocks=blocks)
        result = attention(q[rows, begin:end], k[rows], v[rows], width**-0.5, None)
        return result[: positions.numel()].view(*positions.shape, -1)

    for queries in QUERY_CANDIDATES:
        expected, second_row = attend(queries, slice(0, batch), 0, NUM_POSITIONS), slice(1, 2)
        if all(
            torch.equal(attend(queries, second_row, begin, end), expected[second_row, begin:end])
            for begin, end in POSITION_RANGES
        ):
            return queries
    return 0


# names of settings in configurations, the usual one first
WIDTH_NAMES = ("hidden_size", "n_embd", "d_model")
LENGTH_NAMES = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "max_sequence_length",
    "seq_length",
)


def numbers_of(network: Any, names: tuple[str, ...]) -> list[int]:
    """Return the values of these settings of a network, if they are integers above 0."""
    config = (
        network.config.get_text_config()
        if hasattr(network.config, "get_text_config")
        else network.config
    )
    values = [getattr(config, name, None) for name in names]
    return [value for value in values if isinstance(value, int) and value > 0]


def number_of(network: Any, names: tuple[str, ...], noun: str) -> int:
    """Return the first value of ``numbers_of``; raise ModelError if there is none."""
    numbers = numbers_of(network, names)
    if not numbers:
        raise ModelError(f"The configuration of {type(network).__name__} does not name {noun}.")
    return numbers[0]


# rotations whose frequencies transformers chooses by the largest position of a batch
LENGTH_DEPENDENT_ROTATIONS = ("dynamic", "longrope")


def check_rotations(network: Any) -> None:
    """Refuse a network whose rotary positions depend on the batch.

    A reply's probability would then depend on the other conversations in its batch. The sampler
    and the learner have different batches, so they would compute different probabilities.

    Raises:
        ModelError: the rotations depend on the length of the batch.
    """
    for module in network.modules():
        rope_type = getattr(module, "rope_type", None)
        for rotation in rope_type.values() if isinstance(rope_type, dict) else (rope_type,):
            if rotation in LENGTH_DEPENDENT_ROTATIONS:
                raise ModelError(
                    f"{type(network).__name__} cannot be run: its rotary positions are of the "
                    f"type {rotation!r}, which depend on the longest conversation in a batch, so "
                    "that a reply's probability would depend on the other "
                    f"conversations. {_advice_for(rotation, network.config)}"
                )


def _advice_for(rotation: str, config: Any) -> str:
    if rotation == "dynamic":
        limit = config.max_position_embeddings
        return (
            f"Up to {limit} tokens this type changes nothing: write rope_type default into its "
            f"config.json and limit conversations by model.context={limit}."
        )
    return (
        "Take a model whose rope_type is default, linear, yarn or llama3, such as its "
        "short-context version."
    )


@dataclass(kw_only=True, slots=True)
class TokenCache(KeyValueCache):
    """A cache of token ids, ``tensor`` [B, P], in place of keys and values."""

    @property
    def positions(self) -> int:
        """Number P of positions that a row can hold."""
        return self.tensor.shape[1]

    def take(self, rows: Tensor) -> TokenCache:
        """Return a copy of these rows."""
        return TokenCache(tensor=self.tensor.index_select(0, rows))

    def copy_from(
        self, other: KeyValueCache, source_rows: Tensor, target_rows: Tensor, length: int
    ) -> None:
        """Copy the first ``length`` ids of ``other``'s ``source_rows`` to ``target_rows``."""
        self.tensor[target_rows, :length] = other.tensor[source_rows, :length]

    def part(self, rows: Tensor, start: Tensor, length: int) -> TokenCache:
        """Return a copy of ``length`` ids of these rows, each from its own ``start``."""
        return TokenCache(tensor=self.tensor[rows[:, None], self._positions_from(start, length)])

    def put(
        self,
        other: KeyValueCache,
        source_rows: Tensor,
        target_rows: Tensor,
        start: Tensor,
        length: int,
    ) -> None:
        """Copy ``length`` ids of ``source_rows`` to ``target_rows``, from ``start`` on."""
        self.tensor[target_rows[:, None], self._positions_from(start, length)] = other.tensor[
            source_rows, :length
        ]


class SequenceForward:
    """The forward pass of any network, by the network's own method ``forward``."""

    shares_prefixes = False
    recompute = False

    def __init__(self, network: Any) -> None:
        self.body = network.base_model

    def new_cache(self, batch: int, positions: int, *, device: torch.device) -> TokenCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions."""
        return TokenCache(tensor=torch.zeros((batch, positions), dtype=torch.int64, device=device))

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return the last hidden state [N, C] of every prefix; write the sequences into a cache."""
        ids = tree.ids[tree.node]
        if cache is not None:
            cache.tensor[:, : ids.shape[1]] = ids
        return self._run(ids).flatten(0, 1).index_select(0, tree.flat_index)

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
        hidden: Tensor = self.body(
            input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
        ).last_hidden_state
        return hidden


Result = TypeVar("Result")


class LanguageModel:
    """A network with its tokenizer and, for a critic, a value head.

    If the network has low-rank adapters, only these are trained.

    Attributes:
        version: number of updates of the weights.
        shared_base: the model of the frozen weights, if other models share these weights; see
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
        shared_base: LanguageModel | None = None,
    ) -> None:
        self.network, self._longest, self.shared_base = network, longest, shared_base
        self.base = base_of(network)
        self._first_weight: Tensor = next(network.parameters())  # stored: the look-up is slow
        self.forward = _choose_forward(self.base)
        self.call_gathered: Callable[[Callable[[], Any]], Any] | None = None  # see ``compute``
        self._padding: tuple[PaddingSizes | None] | None = None  # measured at the first use
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
        noun = "the width of its hidden states; a critic cannot be added to it"
        return number_of(self.base, WIDTH_NAMES, noun)

    @cached_property
    def context(self) -> int:
        """Largest number of tokens of a conversation: the network's limit, or a lower one.

        Raises:
            ModelError: neither the network nor the configuration has a limit.
        """
        if self._longest is not None and not numbers_of(self.base, LENGTH_NAMES):
            return self._longest
        limit = number_of(self.base, LENGTH_NAMES, "its longest text; write e.g. model.context=512")
        return limit if self._longest is None else min(limit, self._longest)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._first_weight.device

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield (prefix, module) of the network and the value head."""
        yield "network", self.network
        if self.value_head is not None:
            yield "value_head", self.value_head

    def parameters(self) -> list[nn.Parameter]:
        """Return all trained parameters, in a fixed order."""
        return [p for _, module in self.modules() for p in module.parameters() if p.requires_grad]

    def tensors(self) -> dict[str, Tensor]:
        """Return the trained tensors by name (shared storage; tied weights once)."""
        named_tensors = (
            (f"{prefix}.{name}", p)
            for prefix, module in self.modules()
            for name, p in module.named_parameters()
        )
        return {name: p.detach() for name, p in named_tensors if p.requires_grad}

    @cached_property
    def frozen_digest(self) -> str:
        """SHA-256 of the names and bytes of all frozen weights; "" without any."""
        frozen_weights = [
            (name, p) for name, p in sorted(self.network.named_parameters()) if not p.requires_grad
        ]
        digest = hashlib.sha256()
        for name, weight in frozen_weights:
            digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
            digest.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest() if frozen_weights else ""

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Copy named tensors into the weights.

        Raises:
            ModelError: a name or shape differs from this model's.
        """
        weights = self.tensors()
        if weights.keys() != tensors.keys() or any(
            weights[name].shape != tensors[name].shape for name in weights
        ):
            differing_names = sorted(set(weights) ^ set(tensors)) or [
                name for name in weights if weights[name].shape != tensors[name].shape
            ]
            raise ModelError(
                f"These weights are of another model: {differing_names[:3]} differ. Use the "
                "configuration they were trained with."
            )
        for name, tensor in weights.items():
            tensor.copy_(tensors[name])

    def clone(self) -> LanguageModel:
        """Return a copy of the trained weights that shares the frozen weights."""
        frozen_weights = {id(p): p for p in self.network.parameters() if not p.requires_grad}
        other = copy.copy(self)
        other.network = copy.deepcopy(self.network, frozen_weights)
        other.base = base_of(other.network)
        other._first_weight = next(other.network.parameters())
        other.forward = _choose_forward(other.base)
        other.forward.recompute = self.forward.recompute
        other.value_head = copy.deepcopy(self.value_head)
        return other

    def find_parameters(self) -> None:
        """Find the device again after the network's parameters were replaced."""
        self._first_weight = next(self.network.parameters())

    def compute(self, function: Callable[[], Result]) -> Result:
        """Call a function that computes with the weights, which may be split over ranks."""
        return function() if self.call_gathered is None else self.call_gathered(function)

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return hidden states [N, C] of distinct prefixes; write keys and values into a cache."""
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
    def padding(self) -> PaddingSizes | None:
        """The padding sizes with which a position's result does not depend on its batch.

        None if there are no such sizes: with several threads, a type other than float32, a GPU, a
        network that runs through ``SequenceForward``, or a machine on which no size works.
        """
        forward = self.forward
        if isinstance(forward, SequenceForward) or not invariant_on(self.device, self.base.dtype):
            return None
        if self._padding is None:
            parts, products = forward.parts, products_of(self.network)
            queries = fewest_queries(parts.heads, parts.groups, parts.head_width)
            rows = fewest_rows(products)
            self._padding = (PaddingSizes(rows, queries) if rows and queries else None,)
        return self._padding[0]

    @property
    def decoding(self) -> str:
        """The code that computes replies: "compiled", "torch", or "torch: REASON"."""
        return decoding_of(self.forward.parts) if isinstance(self.forward, TreeForward) else "torch"

    def new_cache(self, batch: int, positions: int) -> KeyValueCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions."""
        forward, dtype = self.forward, self.base.dtype
        if isinstance(forward, SequenceForward):
            return forward.new_cache(batch, positions, device=self.device)
        return forward.new_cache(
            batch, positions, dtype=dtype, device=self.device, padding=self.padding
        )

    def extend(self, ids: Tensor, start: Tensor, cache: KeyValueCache) -> Tensor:
        """Append right-padded tokens [B, T] at positions ``start`` [B] of cached rows.

        Returns:
            Hidden states [B, T, C].
        """
        return self.forward.extend(ids, start, cache)

    @torch.no_grad()
    def check(self) -> None:
        """Compare this forward pass with the network's on a few tokens, and check causality.

        Raises:
            ModelError: the two differ, e.g. because the model scales or caps its logits in an
                unsupported way; or a position depends on later positions or on the batch.
        """
        check_forward(self)

    def save(self, folder: Path, *, dtype: str | None = None, adapter: bool = False) -> None:
        """Write a folder for ``from_pretrained`` of ``AutoModelForCausalLM`` and ``AutoTokenizer``.

        Args:
            folder: the new folder.
            dtype: type of the weights: "float32", "bfloat16" or "float16"; None: unchanged.
            adapter: whether only the adapters are written, for peft's
                ``PeftModel.from_pretrained``.

        Raises:
            ModelError: ``adapter`` is set but the model has no adapters.
            RunError: the folder cannot be written.
        """
        has_adapters = self.base is not self.network
        if adapter and not has_adapters:
            raise ModelError(
                "This model has no adapters (model.lora), so --adapter has nothing to write; "
                "leave it out."
            )
        network = self.network
        if dtype is not None or (has_adapters and not adapter):
            network = copy.deepcopy(network)
        network = merge_adapters(network) if has_adapters and not adapter else network
        if dtype is not None:
            network = network.to(getattr(torch, dtype))
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        with disk_errors(folder):
            try:
                network.save_pretrained(folder)
                self.tokenizer.save_pretrained(folder)
            except SafetensorError as error:  # an error of the disk
                raise RunError(
                    f"{folder} cannot be written: {error}. Name a folder on another disk."
                ) from error
            finally:
                transformers_logging.enable_progress_bar()


def _choose_forward(network: Any) -> TreeForward | SequenceForward:
    parts = architecture(network)
    return TreeForward(parts) if parts is not None else SequenceForward(network)


# largest difference of log-probabilities between this forward pass and the network's, in float32
TOLERANCE = 1e-3
# largest mean difference in half precision; there, single values may differ by several units
HALF_TOLERANCE = 0.5


def check_forward(model: LanguageModel) -> None:
    """Compare a model's forward pass with its network's; see ``LanguageModel.check``."""
    check_rotations(model.base)
    model_name = type(model.base).__name__
    vocabulary = model.base.get_output_embeddings().weight.shape[0]
    for name, weight in model.base.named_parameters():
        if weight.numel() and not all(bound.isfinite() for bound in weight.aminmax()):
            raise ModelError(
                f"{name} of {type(model.base).__name__} holds numbers that are NaN or infinite: "
                "its files are damaged, or its training diverged. Use another checkpoint or model."
            )
    length = min([12, *numbers_of(model.base, LENGTH_NAMES)])
    ids = torch.arange(length, device=model.device) * 7919 % vocabulary
    expected = _network_logprobs(model, ids)
    if expected.isnan().any():
        raise ModelError(
            f"{model_name} gives no probabilities: its weights are so large that sums of them "
            "overflow. Use another model."
        )
    prefix_length = max(1, length // 2)
    if not logprobs_agree(
        _network_logprobs(model, ids[:prefix_length]), expected[:prefix_length], model.base.dtype
    ):
        raise ModelError(
            f"{model_name} is not causal: its predictions depend on later tokens, so it cannot "
            "write one token after another."
        )
    tree = prefix_tree([tuple(ids.tolist())]).to(model.device)
    tree_logprobs = model.logits(model.hidden(tree)).float().log_softmax(-1)
    if not logprobs_agree(tree_logprobs, expected, model.base.dtype):
        raise ModelError(
            f"{model_name} cannot be run: its log-probabilities differ by up to "
            f"{(tree_logprobs - expected).abs().max().item():.2g} from those computed by Sparring."
        )
    if isinstance(model.forward, TreeForward) and model.forward.compiled is not None:
        compiled_logprobs = _compiled_logprobs(model, model.forward, ids, prefix_length)
        if not logprobs_agree(compiled_logprobs, expected, model.base.dtype):
            raise ModelError(
                f"The compiled forward pass of {model_name} differs by "
                f"{(compiled_logprobs - expected).abs().max().item():.2g} from the model's own. "
                "Name another compiler in $CC, or use torch with CC=none."
            )


def _compiled_logprobs(
    model: LanguageModel, forward: TreeForward, ids: Tensor, prefix_length: int
) -> Tensor:
    """Return log-probabilities [T, V] of compiled code, which appends to a prefix of the ids."""
    cache = forward.new_cache(1, len(ids), dtype=model.base.dtype, device=model.device)
    tree = prefix_tree([tuple(ids[:prefix_length].tolist())])
    hidden = model.hidden(tree, cache)[tree.node[0]]
    if prefix_length < len(ids):
        start = torch.tensor([prefix_length])
        hidden = torch.cat([hidden, model.extend(ids[None, prefix_length:], start, cache)[0]])
    return model.logits(hidden).float().log_softmax(-1)


def logprobs_agree(first: Tensor, second: Tensor, dtype: torch.dtype) -> bool:
    """Return whether log-probabilities are equal within the precision of a type.

    In float32 the largest difference counts, in 16-bit types the mean. In bfloat16, SmolLM2's
    values differ from the float32 values by up to 4.9, but by 0.17 in the mean.
    """
    difference = (first - second).abs()
    if dtype == torch.float32:
        return bool(difference.max() < TOLERANCE)
    return bool(difference.mean() < HALF_TOLERANCE)


def _network_logprobs(model: LanguageModel, ids: Tensor) -> Tensor:
    logits: Tensor = model.network(
        input_ids=ids[None], attention_mask=torch.ones_like(ids)[None]
    ).logits[0]
    return logits.float().log_softmax(-1)
