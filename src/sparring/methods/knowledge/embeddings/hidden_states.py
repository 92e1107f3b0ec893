"""Embedding: hidden states of a language model."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.core.records import FloatArray
from sparring.methods.knowledge.embeddings.base import scale_to_unit_length


def hidden_states(texts: Sequence[str], *, model: str, layer: int = -1) -> FloatArray:
    """Hidden states of a language model, the mean over a text's tokens.

    What: a frozen model reads each statement separately, without a chat template.
    When to use: for free text with paraphrases. The model may be the run's initial model or
    another one.
    Mathematics: with h_t [C] the hidden state of token t of T,

        x = (1 / T) sum over t of h_t;   x / |x|

    Shapes: texts, n; vectors, [n, C].
    Pitfalls:
        - The mean vectors of a causal model differ in few directions, so their distances are
          small. k-means still works.
        - The model is not trained, because new weights would invalidate the clusters.
        - Every distinct text costs one forward pass per process.
    Reference: Xu et al., 2025, arXiv:2502.04686 (with an embedding model of OpenAI).
    Verified by: tests/methods/knowledge/test_embeddings.py.

    Args:
        texts: the texts to embed.
        model: a model folder, a packaged model (smollm2-135m, gemma3-270m) or a Hugging Face id.
        layer: layer of the states: 0 token embeddings, 1 after the first layer, -1 (default) after
            the last layer and its norm.

    Raises:
        ModelError: the model cannot be loaded, or it has no such layer.
    """
    from sparring.models.load import text_states  # loads torch only for this plug-in

    return scale_to_unit_length([text_states(model, layer, text) for text in texts])
