"""A GPT-2 forward pass with little Python in it, over the parameters of a Hugging Face model.

At the tiny model's size the time of a step is the framework's overhead, not arithmetic. This forward computes
what ``GPT2LMHeadModel`` computes (a test compares the two) in about a third of the calls.

Legend: B sequences, T new tokens, P cached positions, C width, H heads, D width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import GPT2LMHeadModel


@dataclass(kw_only=True, slots=True)
class KeyValueCache:
    """Keys and values of the positions computed so far, left-aligned: entry p of a row is its position p.

    ``tensor`` has shape [layers, 2, B, P, H, D]. Entries beyond a row's length are garbage that the mask hides
    and later writes replace.
    """

    tensor: Tensor

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.tensor.numel() * self.tensor.element_size()


def supports(model: torch.nn.Module) -> bool:
    """Return whether this forward computes the same function as ``model``'s own."""
    if not isinstance(model, GPT2LMHeadModel):
        return False
    config = model.config
    plain = config.scale_attn_weights and not config.scale_attn_by_inverse_layer_idx
    dropout = max(config.resid_pdrop, config.embd_pdrop, config.attn_pdrop)
    return plain and dropout == 0.0 and config.activation_function in ("relu", "gelu_new")


def hidden_states(model: GPT2LMHeadModel, ids: Tensor) -> Tensor:
    """Return the last hidden states of right-padded sequences, for training.

    Args:
        model: the network.
        ids: int64 [B, T]; padding may hold any id, since no earlier position attends to it.

    Returns:
        float [B, T, C], after the final normalisation.
    """
    positions = torch.arange(ids.shape[1], device=ids.device)
    body = model.transformer
    x = F.embedding(ids, body.wte.weight) + F.embedding(positions, body.wpe.weight)
    heads, epsilon = model.config.n_head, model.config.layer_norm_epsilon
    batch, length, width = x.shape
    x = x.reshape(-1, width)
    for block in body.h:
        q, k, v = _project(block, x, epsilon).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = _finish(block, x, mixed.transpose(1, 2).reshape(-1, width), epsilon)
    return F.layer_norm(x, (width,), body.ln_f.weight, body.ln_f.bias, epsilon).view(batch, length, width)


@torch.no_grad()
def extend(model: GPT2LMHeadModel, ids: Tensor, start: Tensor, cache: KeyValueCache) -> Tensor:
    """Append tokens to cached sequences and return their last hidden states, without gradients.

    Args:
        model: the network.
        ids: int64 [B, T], new tokens, right-padded.
        start: int64 [B], the position of each row's first new token: its cached length.
        cache: at least ``max(start) + T`` positions long; the new keys and values are written into it.

    Returns:
        float [B, T, C], after the final normalisation.
    """
    body = model.transformer
    heads, epsilon = model.config.n_head, model.config.layer_norm_epsilon
    positions = start[:, None] + torch.arange(ids.shape[1], device=ids.device)
    x = F.embedding(ids, body.wte.weight) + F.embedding(positions.clamp(max=body.wpe.weight.shape[0] - 1), body.wpe.weight)
    batch, length, width = x.shape
    rows = torch.arange(batch, device=ids.device)[:, None]
    mask = (torch.arange(cache.tensor.shape[3], device=ids.device) <= positions[:, :, None])[:, None]
    x = x.reshape(-1, width)
    for layer, block in enumerate(body.h):
        q, k, v = _project(block, x, epsilon).view(batch, length, 3, heads, width // heads).unbind(2)
        keys, values = cache.tensor[layer, 0], cache.tensor[layer, 1]
        keys[rows, positions] = k
        values[rows, positions] = v
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=mask)
        x = _finish(block, x, mixed.transpose(1, 2).reshape(-1, width), epsilon)
    return F.layer_norm(x, (width,), body.ln_f.weight, body.ln_f.bias, epsilon).view(batch, length, width)


def _project(block: Any, x: Tensor, epsilon: float) -> Tensor:
    """Return queries, keys and values of a block for its input [B*T, C] as [B*T, 3C]."""
    normed = F.layer_norm(x, (x.shape[-1],), block.ln_1.weight, block.ln_1.bias, epsilon)
    return torch.addmm(block.attn.c_attn.bias, normed, block.attn.c_attn.weight)


def _finish(block: Any, x: Tensor, mixed: Tensor, epsilon: float) -> Tensor:
    """Return a block's output [B*T, C] from its input and the mixed values of its attention."""
    x = x + torch.addmm(block.attn.c_proj.bias, mixed, block.attn.c_proj.weight)
    normed = F.layer_norm(x, (x.shape[-1],), block.ln_2.weight, block.ln_2.bias, epsilon)
    inner: Tensor = block.mlp.act(torch.addmm(block.mlp.c_fc.bias, normed, block.mlp.c_fc.weight))
    return x + torch.addmm(block.mlp.c_proj.bias, inner, block.mlp.c_proj.weight)
