"""What the blocks of GPT-2 compute, position by position; see ``architectures.py``.

Legend: N positions, C width, H heads, D width of a head.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparring.models.tiny import Projection

CONV1D = ("transformers.pytorch_utils", "Conv1D")


class Gpt2:
    """GPT-2: learned positions, layer norms with biases, fused projections.

    Holds the parameters, as looking them up takes time: ``tokens`` and ``positions`` of the
    embedding, ``last`` of the final normalisation.
    """

    def __init__(self, network: Any) -> None:
        config = network.config
        self.layers, self.heads = config.n_layer, config.n_head
        self.groups, self.head_width = self.heads, config.n_embd // config.n_head
        self.scale, self.width, self.epsilon = (
            self.head_width**-0.5,
            (config.n_embd,),
            config.layer_norm_epsilon,
        )
        self._activation = network.transformer.h[0].mlp.act
        self.relu = config.activation_function == "relu"
        self._hold(network.transformer)

    def _hold(self, body: Any) -> None:
        """Hold what it computes with."""
        self.tokens, self.positions = body.wte.weight, body.wpe.weight
        self.last = (body.ln_f.weight, body.ln_f.bias)
        pairs = [
            (b.ln_1, b.attn.c_attn, b.attn.c_proj, b.ln_2, b.mlp.c_fc, b.mlp.c_proj) for b in body.h
        ]
        self._blocks = [[(module.weight, module.bias) for module in modules] for modules in pairs]

    def weights(self) -> list[Tensor]:
        """Return the weights and biases of all blocks, in the order in which they are used."""
        return [one for block in self._blocks for pair in block for one in pair]

    def embed(self, ids: Tensor, position: Tensor) -> tuple[Tensor, Any]:
        """Add the embeddings of tokens and positions.

        Padding beyond the last position reads the last.
        """
        position = position.clamp(max=self.positions.shape[0] - 1)
        return F.embedding(ids, self.tokens) + F.embedding(position, self.positions), None

    def project(self, layer: int, x: Tensor, places: Any) -> Tensor:
        """Normalise, then one product for queries, keys and values."""
        norm, (weight, bias), *_ = self._blocks[layer]
        return torch.addmm(bias, F.layer_norm(x, self.width, *norm, self.epsilon), weight).view(
            len(x), -1, self.head_width
        )

    def finish(self, layer: int, x: Tensor, mixed: Tensor) -> Tensor:
        """Add attention's output, then the feed-forward layer's."""
        _, _, (out, out_bias), norm, (up, up_bias), (down, down_bias) = self._blocks[layer]
        x = x + torch.addmm(out_bias, mixed, out)
        inner: Tensor = self._activation(
            torch.addmm(up_bias, F.layer_norm(x, self.width, *norm, self.epsilon), up)
        )
        return x + torch.addmm(down_bias, inner, down)

    def final(self, x: Tensor) -> Tensor:
        """Normalise."""
        return F.layer_norm(x, self.width, *self.last, self.epsilon)

    def window(self, layer: int) -> int | None:
        """Look back without limit."""
        return None


class AdaptedGpt2(Gpt2):
    """GPT-2 with other modules in place of its own, such as adapters; all are called.

    It holds no parameters, which may be replaced, as where weights are split.
    """

    def _hold(self, body: Any) -> None:
        """Hold the modules that it computes with."""
        self._embeddings, self._norm = (body.wte, body.wpe), body.ln_f
        self._layers = [(b.attn.c_attn, b.attn.c_proj, b.mlp.c_fc, b.mlp.c_proj) for b in body.h]
        self._norms = [(b.ln_1, b.ln_2) for b in body.h]

    def embed(self, ids: Tensor, position: Tensor) -> tuple[Tensor, Any]:
        """Add the embeddings of tokens and positions.

        Padding beyond the last position reads the last.
        """
        tokens, positions = self._embeddings
        return tokens(ids) + positions(position.clamp(max=positions.weight.shape[0] - 1)), None

    def project(self, layer: int, x: Tensor, places: Any) -> Tensor:
        """Normalise, then one product for queries, keys and values."""
        mixed: Tensor = self._layers[layer][0](self._normed(self._norms[layer][0], x))
        return mixed.view(len(x), -1, self.head_width)

    def finish(self, layer: int, x: Tensor, mixed: Tensor) -> Tensor:
        """Add attention's output, then the feed-forward layer's."""
        _, out, up, down = self._layers[layer]
        x = x + out(mixed)
        inner: Tensor = down(self._activation(up(self._normed(self._norms[layer][1], x))))
        return x + inner

    def final(self, x: Tensor) -> Tensor:
        """Normalise."""
        return self._normed(self._norm, x)

    def _normed(self, norm: nn.LayerNorm, x: Tensor) -> Tensor:
        """Return what a normalisation gives, by its weights of now."""
        return F.layer_norm(x, self.width, norm.weight, norm.bias, self.epsilon)


def is_projection(module: nn.Module) -> bool:
    """Return whether a module is a linear layer whose weight is [inner, outer].

    The class of transformers is known by its name, as importing it takes long.
    """
    kind = type(module)
    return kind is Projection or (kind.__module__, kind.__name__) == CONV1D


def gpt2(network: Any, held: bool) -> Gpt2:
    """Return the parts of a GPT-2.

    Over its parameters where its modules are its own, which is faster, else over the modules.
    """
    body = network.transformer
    own = all(
        is_projection(module)
        for b in body.h
        for module in (b.attn.c_attn, b.attn.c_proj, b.mlp.c_fc, b.mlp.c_proj)
    )
    plain = own and type(body.wte) is type(body.wpe) is nn.Embedding
    return Gpt2(network) if plain and held else AdaptedGpt2(network)
