"""The position-wise parts of each family of decoders: everything except attention.

These parts use the parameters of a Hugging Face model. ``forward_pass.py`` adds attention and
computes each distinct prefix of a batch once. Legend: N positions, C width, H heads, G key-value
heads, D width of a head.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from sparring.models.tiny import TinyNetwork, gpt2

# supported classes of transformers, by name, because importing them takes seconds
LLAMAS = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
FAMILIES = ("GPT2LMHeadModel", *LLAMAS, "Gemma3ForCausalLM")


class Architecture(Protocol):
    """The position-wise parts of a decoder."""

    layers: int
    heads: int
    groups: int  # key-value heads
    head_width: int
    scale: float  # factor of attention's scores

    def embed(self, ids: Tensor, position: Tensor) -> tuple[Tensor, Any]:
        """Return (first block's input [N, C], positions [N] in the form that ``project`` reads)."""
        ...

    def project(self, layer: int, x: Tensor, positions: Any) -> Tensor:
        """Return the queries, keys and values [N, H + 2G, D] of a block's input [N, C]."""
        ...

    def finish(self, layer: int, x: Tensor, attention_output: Tensor) -> Tensor:
        """Return a block's output [N, C]; ``attention_output`` has shape [N, H * D]."""
        ...

    def final(self, x: Tensor) -> Tensor:
        """Return the last hidden states [N, C] from the last block's output."""
        ...

    def window(self, layer: int) -> int | None:
        """Return a layer's sliding window in positions, with the current one; None: no window."""
        ...


class Llama:
    """Llama, Qwen2 and Qwen3: rotary positions, RMS norms, gated feed-forward, grouped heads.

    Projections are called as modules, so that low-rank adapters in them are applied.
    """

    norm_offset = 0.0  # added to the norms' gains

    def __init__(self, network: Any) -> None:
        config = network.config
        self.body = network.model
        self.blocks = list(self.body.layers)
        self.layers, self.heads = config.num_hidden_layers, config.num_attention_heads
        self.groups = config.num_key_value_heads
        self.head_width = self.blocks[0].self_attn.head_dim
        self.scale = self.blocks[0].self_attn.scaling
        self.epsilon = config.rms_norm_eps
        self.has_head_norms = hasattr(self.blocks[0].self_attn, "q_norm")

    def embed(self, ids: Tensor, position: Tensor) -> tuple[Tensor, Any]:
        """Embed the tokens; positions become the cosines and sines [N, 1, D] of their rotations."""
        x = self.body.embed_tokens(ids)
        cosine, sine = self.body.rotary_emb(x, position[None])
        return x, (cosine[0, :, None], sine[0, :, None])

    def project(self, layer: int, x: Tensor, positions: Any) -> Tensor:
        """Normalise, project, and rotate queries and keys by their positions."""
        block = self.blocks[layer]
        attention = block.self_attn
        normalised = self._norm(block.input_layernorm, x)
        q = attention.q_proj(normalised).view(len(x), self.heads, self.head_width)
        k = attention.k_proj(normalised).view(len(x), self.groups, self.head_width)
        v = attention.v_proj(normalised).view(len(x), self.groups, self.head_width)
        if self.has_head_norms:
            q, k = self._norm(attention.q_norm, q), self._norm(attention.k_norm, k)
        cosine, sine = self._rotation(layer, positions)
        queries_keys = torch.cat([q, k], 1)
        left, right = queries_keys.chunk(2, -1)
        rotated = queries_keys * cosine + torch.cat([-right, left], -1) * sine
        return torch.cat([rotated, v], 1)

    def finish(self, layer: int, x: Tensor, attention_output: Tensor) -> Tensor:
        """Add the output of attention, then the output of the gated feed-forward layer."""
        block = self.blocks[layer]
        x = x + block.self_attn.o_proj(attention_output)
        mlp_output: Tensor = block.mlp(self._norm(block.post_attention_layernorm, x))
        return x + mlp_output

    def final(self, x: Tensor) -> Tensor:
        """Normalise the last block's output."""
        return self._norm(self.body.norm, x)

    def window(self, layer: int) -> int | None:
        """Return the layer's sliding window, if it has one."""
        window: int | None = getattr(self.blocks[layer].self_attn, "sliding_window", None)
        return window

    def _rotation(self, layer: int, positions: Any) -> tuple[Tensor, Tensor]:
        cosine, sine = positions
        return cosine, sine

    def _norm(self, module: Any, x: Tensor) -> Tensor:
        """Return x / sqrt(mean(x^2) + epsilon) times the gain, over the last axis."""
        gain = module.weight + self.norm_offset if self.norm_offset else module.weight
        return F.rms_norm(x, x.shape[-1:], gain, self.epsilon)


class Gemma3(Llama):
    """Gemma 3's text model: norms before and after each part; some layers have a sliding window."""

    norm_offset = 1.0

    def embed(self, ids: Tensor, position: Tensor) -> tuple[Tensor, Any]:
        """Embed the tokens; compute one rotation for each type of layer."""
        x = self.body.embed_tokens(ids)
        rotations = {
            kind: self.body.rotary_emb(x, position[None], kind)
            for kind in set(self.body.config.layer_types)
        }
        return x, {
            kind: (cosine[0, :, None], sine[0, :, None])
            for kind, (cosine, sine) in rotations.items()
        }

    def finish(self, layer: int, x: Tensor, attention_output: Tensor) -> Tensor:
        """Add attention's normalised output, then the feed-forward layer's normalised output."""
        block = self.blocks[layer]
        x = x + self._norm(block.post_attention_layernorm, block.self_attn.o_proj(attention_output))
        mlp_output = block.mlp(self._norm(block.pre_feedforward_layernorm, x))
        return x + self._norm(block.post_feedforward_layernorm, mlp_output)

    def _rotation(self, layer: int, positions: Any) -> tuple[Tensor, Tensor]:
        cosine, sine = positions[self.body.config.layer_types[layer]]
        return cosine, sine


def architecture(network: Any, *, has_fixed_parameters: bool = True) -> Architecture | None:
    """Return the position-wise parts of a network; None if it is not supported.

    Args:
        network: the network.
        has_fixed_parameters: whether its parameters are never replaced, so that they may be stored.
    """
    if isinstance(network, TinyNetwork):
        return gpt2(network, has_fixed_parameters)
    config: Any = getattr(network, "config", None)
    family = next(
        (
            parent.__name__
            for parent in type(network).__mro__
            if parent.__name__ in FAMILIES and parent.__module__.startswith("transformers.models.")
        ),
        None,
    )
    if family == "GPT2LMHeadModel":
        has_usual_scale = config.scale_attn_weights and not config.scale_attn_by_inverse_layer_idx
        dropout = max(config.resid_pdrop, config.embd_pdrop, config.attn_pdrop)
        activation = config.activation_function
        is_supported = has_usual_scale and dropout == 0.0 and activation in ("relu", "gelu_new")
        return gpt2(network, has_fixed_parameters) if is_supported else None
    if family in LLAMAS:
        return Llama(network) if config.attention_dropout == 0.0 else None
    if family == "Gemma3ForCausalLM":
        has_softcap = config.attn_logit_softcapping or config.final_logit_softcapping
        return (
            None
            if has_softcap or config.attention_dropout or config.use_bidirectional_attention
            else Gemma3(network)
        )
    return None
