"""The tiny model: a decoder-only transformer of 0.1 to 5 M parameters and a word-level tokenizer.

Both are standard: a transformers ``GPT2Config`` and a ``tokenizers`` word-level vocabulary derived
from the wording of the games, so that every Hugging Face tool loads what is saved.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from sparring.models.words import ASK, BEGIN, END, PAD, UNKNOWN, word_tokenizer
from sparring.rng import Stream


def tiny_tokenizer(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer over these words; anything else becomes ``<unknown>``.

    Args:
        words: whitespace-free words; duplicates are dropped and the rest sorted, so equal sets give
            equal ids.
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
) -> GPT2LMHeadModel:
    """Return a randomly initialised GPT-2 of this shape in float32, without dropout.

    Args:
        vocabulary_size: number of tokens.
        stream: the weights are drawn from this stream alone.
        hidden_size: width; the feed-forward layers are four times as wide.
        layers: number of blocks.
        heads: attention heads, a divisor of ``hidden_size``.
        context: the longest conversation in tokens.
        activation: of the feed-forward layers, a name that transformers knows.
        epsilon: added to the variance where a layer is normalised.
    """
    config = GPT2Config(
        vocab_size=vocabulary_size,
        n_positions=context,
        n_embd=hidden_size,
        n_layer=layers,
        n_head=heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        activation_function=activation,
        layer_norm_epsilon=epsilon,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    initialise(model, stream)
    return model.float()


@torch.no_grad()
def initialise(model: GPT2LMHeadModel, stream: Stream) -> None:
    """Draw the weights anew from ``stream``.

    Matrices are normal with variance 1 / fan-in (residual outputs scaled by 1 / sqrt(2 layers)),
    embeddings normal with deviation 0.1 so that the first policy is close to uniform, biases zero,
    normalisation gains one.
    """
    generator = torch.Generator().manual_seed(stream.key & (2**63 - 1))
    depth = (2 * model.config.n_layer) ** -0.5
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif ".ln_" in name:
            parameter.fill_(1.0)
        elif name.endswith(("wte.weight", "wpe.weight", "lm_head.weight")):
            parameter.normal_(0.0, 0.1, generator=generator)
        else:
            scale = depth if name.endswith("c_proj.weight") else 1.0
            parameter.normal_(0.0, scale * parameter.shape[0] ** -0.5, generator=generator)
