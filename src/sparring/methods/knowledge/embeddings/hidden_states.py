"""Embedding: hidden states of a language model."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.core.records import FloatArray
from sparring.methods.knowledge.embeddings.base import of_length_one


def hidden_states(texts: Sequence[str], *, model: str, layer: int = -1) -> FloatArray:
    """Hidden states of a language model, the mean over a text's tokens.

    What: each statement is read by a model that stays as it is, by itself, without a chat template.
    When to use: for free text, where other words may mean the same. Name the model that the run
    trains, as it was before, or any other.
    Mathematics: with h_t [C] the hidden state of token t of T,

        x = (1 / T) sum over t of h_t;   x / |x|

    Shapes: texts, n; vectors, [n, C].
    Pitfalls: means over tokens of a causal model are alike for all texts in most directions, so
    that distances are small; k-means does not mind. The trained policy's own weights would change
    from step to step, and with them what was clustered: this model does not learn. Every text that
    is new to the process is one forward pass.
    Reference: Xu et al., 2025, arXiv:2502.04686, who embed statements by a model of OpenAI's.
    Verified by: tests/methods/knowledge/test_embeddings.py.

    Args:
        texts: to embed.
        model: a model folder, a packaged model (smollm2-135m, gemma3-270m) or a Hugging Face id.
        layer: whose states: 0 the embeddings of tokens, 1 after the first layer, -1 (default) after
            the last one and its norm.

    Raises:
        ModelError: the model cannot be loaded, or it has no such layer.
    """
    from sparring.models.load import text_states  # torch, for those who name this alone

    return of_length_one([text_states(model, layer, text) for text in texts])
