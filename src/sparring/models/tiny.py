"""The tiny model: a decoder-only transformer of 0.1 to 5 M parameters and a word-level tokenizer.

The network has GPT-2's architecture and parameter names, and is saved as a GPT-2 of transformers.
The code of that model is imported only for saving, as its import is slow. ``Gpt2`` computes the
position-wise parts of such a network; see ``architectures.py``.

Legend: N positions, C width, H heads, D width of a head.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from sparring.core.rng import Stream
from sparring.models.render.plain import ASK, BEGIN, END, PAD, UNKNOWN, word_tokenizer


def _gelu() -> nn.Module:
    """Return GELU in its approximation by tanh, GPT-2's activation."""
    return nn.GELU(approximate="tanh")


ACTIVATIONS = {"relu": nn.ReLU, "gelu_new": _gelu}


@dataclass(frozen=True, kw_only=True, slots=True)
class TinyConfig:
    """The shape of a tiny network; fields are named as in transformers' ``GPT2Config``."""

    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    activation_function: str
    layer_norm_epsilon: float
    bos_token_id: int = 1
    eos_token_id: int = 2
    pad_token_id: int = 0
    resid_pdrop: float = 0.0
    embd_pdrop: float = 0.0
    attn_pdrop: float = 0.0


class Projection(nn.Module):
    """A linear layer whose weight is [inner, outer], as GPT-2 stores it."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inner, outer))
        self.bias = nn.Parameter(torch.empty(outer))

    def forward(self, x: Tensor) -> Tensor:
        """Return x W + b, [N, outer], for x [N, inner]."""
        return torch.addmm(self.bias, x, self.weight)


class ModuleGroup(nn.Module):
    """Named modules that compute nothing together."""

    def __init__(self, **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)


class TinyNetwork(nn.Module):
    """The parameters of a tiny GPT-2 with tied embeddings; see ``forward_pass.py``."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.config = config
        width = config.n_embd
        self.transformer = ModuleGroup(
            wte=nn.Embedding(config.vocab_size, width),
            wpe=nn.Embedding(config.n_positions, width),
            h=nn.ModuleList(_block(config) for _ in range(config.n_layer)),
            ln_f=nn.LayerNorm(width, config.layer_norm_epsilon),
        )
        self.lm_head = nn.Linear(width, config.vocab_size, bias=False)
        self.lm_head.weight = self.get_input_embeddings().weight

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return self.lm_head.weight.dtype

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embedding of the tokens."""
        embedding = self.transformer.wte
        assert isinstance(embedding, nn.Embedding)
        return embedding

    def get_output_embeddings(self) -> nn.Linear:
        """Return the head."""
        return self.lm_head

    def to_transformers(self) -> Any:
        """Return a ``GPT2LMHeadModel`` with copies of the weights."""
        from transformers import GPT2Config, GPT2LMHeadModel

        network = GPT2LMHeadModel(GPT2Config(**asdict(self.config))).to(self.dtype)
        network.load_state_dict(self.state_dict())
        return network.train(self.training)

    def save_pretrained(self, folder: Path) -> None:
        """Write a folder that ``AutoModelForCausalLM.from_pretrained`` loads."""
        self.to_transformers().save_pretrained(folder)


def _block(config: TinyConfig) -> ModuleGroup:
    width, epsilon = config.n_embd, config.layer_norm_epsilon
    return ModuleGroup(
        ln_1=nn.LayerNorm(width, epsilon),
        attn=ModuleGroup(c_attn=Projection(width, 3 * width), c_proj=Projection(width, width)),
        ln_2=nn.LayerNorm(width, epsilon),
        mlp=ModuleGroup(
            c_fc=Projection(width, 4 * width),
            c_proj=Projection(4 * width, width),
            act=ACTIVATIONS[config.activation_function](),
        ),
    )


def tiny_tokenizer(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer over these words; anything else becomes ``<unknown>``.

    Args:
        words: words without white space; they are sorted, so that equal sets give equal ids.
    """
    return PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(words),
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[ASK],
        clean_up_tokenization_spaces=False,
    )


def tiny_model(
    *,
    vocabulary_size: int,
    stream: Stream,
    hidden_size: int = 64,
    layers: int = 2,
    heads: int = 4,
    context: int = 128,
    activation: str = "relu",
    epsilon: float = 1e-5,
) -> TinyNetwork:
    """Return a randomly initialised network of this shape in float32, without dropout.

    Args:
        vocabulary_size: number of tokens.
        stream: the random numbers of the weights.
        hidden_size: width; the feed-forward layers are four times as wide.
        layers: number of blocks.
        heads: attention heads, a divisor of ``hidden_size``.
        context: largest length of a conversation in tokens.
        activation: function in the feed-forward layers, a key of ``ACTIVATIONS``.
        epsilon: added to the variance in layer norms.
    """
    config = TinyConfig(
        vocab_size=vocabulary_size,
        n_positions=context,
        n_embd=hidden_size,
        n_layer=layers,
        n_head=heads,
        activation_function=activation,
        layer_norm_epsilon=epsilon,
    )
    with torch.random.fork_rng(devices=[]):  # torch draws weights that are overwritten below
        network = TinyNetwork(config)
    initialise(network, stream)
    return network


@torch.no_grad()
def initialise(model: TinyNetwork, stream: Stream) -> None:
    """Draw all weights from ``stream``.

    Matrices are normal with variance 1 / fan-in; residual outputs are scaled by 1 / sqrt(2 layers).
    Embeddings are normal with standard deviation 0.1, so that the first policy is nearly uniform.
    Biases are 0, and gains of normalisations are 1.
    """
    generator = torch.Generator().manual_seed(stream.key & (2**63 - 1))
    residual_scale = (2 * model.config.n_layer) ** -0.5
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif ".ln_" in name:
            parameter.fill_(1.0)
        elif name.endswith(("wte.weight", "wpe.weight", "lm_head.weight")):
            parameter.normal_(0.0, 0.1, generator=generator)
        else:
            scale = residual_scale if name.endswith("c_proj.weight") else 1.0
            parameter.normal_(0.0, scale * parameter.shape[0] ** -0.5, generator=generator)


CONV1D = ("transformers.pytorch_utils", "Conv1D")


class Gpt2:
    """GPT-2: learned positions, layer norms with biases, fused projections.

    Parameters are stored because looking them up takes time: ``tokens`` and ``positions`` are the
    embeddings' weights, ``last`` are the final normalisation's.
    """

    def __init__(self, network: Any) -> None:
        config = network.config
        self.layers, self.heads = config.n_layer, config.n_head
        self.groups, self.head_width = self.heads, config.n_embd // config.n_head
        self.scale, self.width = self.head_width**-0.5, (config.n_embd,)
        self.epsilon = config.layer_norm_epsilon
        self._activation = network.transformer.h[0].mlp.act
        self.relu = config.activation_function == "relu"
        self._store_parameters(network.transformer)

    def _store_parameters(self, body: Any) -> None:
        self.tokens, self.positions = body.wte.weight, body.wpe.weight
        self.last = (body.ln_f.weight, body.ln_f.bias)
        modules_of_blocks = [
            (b.ln_1, b.attn.c_attn, b.attn.c_proj, b.ln_2, b.mlp.c_fc, b.mlp.c_proj) for b in body.h
        ]
        self._blocks = [
            [(module.weight, module.bias) for module in modules] for modules in modules_of_blocks
        ]

    def weights(self) -> list[Tensor]:
        """Return the weights and biases of all blocks, in the order of their use."""
        return [tensor for block in self._blocks for pair in block for tensor in pair]

    def embed(self, ids: Tensor, position: Tensor) -> tuple[Tensor, Any]:
        """Add the embeddings of tokens and positions; padding reads the last position."""
        position = position.clamp(max=self.positions.shape[0] - 1)
        return F.embedding(ids, self.tokens) + F.embedding(position, self.positions), None

    def project(self, layer: int, x: Tensor, positions: Any) -> Tensor:
        """Normalise, then compute queries, keys and values in one product."""
        norm, (weight, bias), *_ = self._blocks[layer]
        return torch.addmm(bias, F.layer_norm(x, self.width, *norm, self.epsilon), weight).view(
            len(x), -1, self.head_width
        )

    def finish(self, layer: int, x: Tensor, attention_output: Tensor) -> Tensor:
        """Add attention's output, then the feed-forward layer's."""
        _, _, (out, out_bias), norm, (up, up_bias), (down, down_bias) = self._blocks[layer]
        x = x + torch.addmm(out_bias, attention_output, out)
        hidden: Tensor = self._activation(
            torch.addmm(up_bias, F.layer_norm(x, self.width, *norm, self.epsilon), up)
        )
        return x + torch.addmm(down_bias, hidden, down)

    def final(self, x: Tensor) -> Tensor:
        """Normalise the last block's output."""
        return F.layer_norm(x, self.width, *self.last, self.epsilon)

    def window(self, layer: int) -> int | None:
        """Return None: attention has no window."""
        return None


class AdaptedGpt2(Gpt2):
    """GPT-2 that calls its modules: they may hold adapters, or parameters that are replaced."""

    def _store_parameters(self, body: Any) -> None:
        self._embeddings, self._norm = (body.wte, body.wpe), body.ln_f
        self._layers = [(b.attn.c_attn, b.attn.c_proj, b.mlp.c_fc, b.mlp.c_proj) for b in body.h]
        self._norms = [(b.ln_1, b.ln_2) for b in body.h]

    def embed(self, ids: Tensor, position: Tensor) -> tuple[Tensor, Any]:
        """Add the embeddings of tokens and positions; padding reads the last position."""
        tokens, positions = self._embeddings
        return tokens(ids) + positions(position.clamp(max=positions.weight.shape[0] - 1)), None

    def project(self, layer: int, x: Tensor, positions: Any) -> Tensor:
        """Normalise, then compute queries, keys and values in one product."""
        qkv: Tensor = self._layers[layer][0](self._normalise(self._norms[layer][0], x))
        return qkv.view(len(x), -1, self.head_width)

    def finish(self, layer: int, x: Tensor, attention_output: Tensor) -> Tensor:
        """Add attention's output, then the feed-forward layer's."""
        _, out, up, down = self._layers[layer]
        x = x + out(attention_output)
        mlp_output: Tensor = down(self._activation(up(self._normalise(self._norms[layer][1], x))))
        return x + mlp_output

    def final(self, x: Tensor) -> Tensor:
        """Normalise the last block's output."""
        return self._normalise(self._norm, x)

    def _normalise(self, norm: nn.LayerNorm, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.width, norm.weight, norm.bias, self.epsilon)


def is_projection(module: nn.Module) -> bool:
    """Return whether a module is a linear layer whose weight is [inner, outer].

    The class of transformers is compared by name, because its import is slow.
    """
    kind = type(module)
    return kind is Projection or (kind.__module__, kind.__name__) == CONV1D


def gpt2(network: Any, has_fixed_parameters: bool) -> Gpt2:
    """Return the parts of a GPT-2: they use its parameters, which is faster, or its modules."""
    body = network.transformer
    has_projections = all(
        is_projection(module)
        for b in body.h
        for module in (b.attn.c_attn, b.attn.c_proj, b.mlp.c_fc, b.mlp.c_proj)
    )
    is_plain = has_projections and type(body.wte) is type(body.wpe) is nn.Embedding
    return Gpt2(network) if is_plain and has_fixed_parameters else AdaptedGpt2(network)
