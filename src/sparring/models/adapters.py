"""Low-rank adapters (LoRA, Hu et al., 2021), from peft.

W x becomes W x + (alpha / rank) B A x, with W frozen.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from sparring.core.errors import ModelError
from sparring.core.rng import Stream

ALL_LINEAR = "all-linear"


def add_adapters(
    network: Any, *, rank: int, alpha: float, targets: Sequence[str], stream: Stream
) -> Any:
    """Return the network with adapters on its linear layers; only they are trained.

    At the start they change nothing.

    Args:
        network: a Hugging Face causal language model; its weights are frozen in place.
        rank: inner width of the adapters.
        alpha: numerator of their scale alpha / rank.
        targets: names of the layers that get one, e.g. ["q_proj", "v_proj"]; empty for every linear
            layer but the head.
        stream: the adapters' weights are drawn from this stream alone.

    Raises:
        ModelError: peft is not installed, the network has no layer of these names, or one is tied
            to another.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise ModelError(
            "model.lora needs peft; install it with: pip install 'sparring[lora]'."
        ) from None
    options: dict[str, Any] = {
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": list(targets) or ALL_LINEAR,
        "lora_dropout": 0.0,
    }
    config = LoraConfig(**options, task_type="CAUSAL_LM")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of libraries to each other
        warnings.filterwarnings("ignore", message="fan_in_fan_out")  # peft sets it right by itself
        try:
            adapted = get_peft_model(network, config)
        except ValueError as error:
            raise ModelError(
                f"model.lora.targets={list(targets)}: {str(error).splitlines()[0]}"
            ) from None
    _check_tied(adapted.get_base_model())
    _draw(adapted, stream)
    adapted.eval()
    return adapted


def _check_tied(base: Any) -> None:
    if not base.config.tie_word_embeddings:
        return
    if any(
        hasattr(layer, "lora_A")
        for layer in (base.get_input_embeddings(), base.get_output_embeddings())
    ):
        raise ModelError(
            f"model.lora.targets: {type(base).__name__} has one matrix for its input embeddings "
            "and its head, so an adapter on either cannot be merged. Leave both out; empty "
            "targets are all linear layers but the head."
        )


@torch.no_grad()
def _draw(adapted: Any, stream: Stream) -> None:
    """Draw anew from ``stream`` what peft draws, as peft does. The other factor of each pair stays
    zero. The inner matrices A are uniform within 1 / sqrt(fan-in); for embeddings B is standard
    normal and A zero."""
    generator = torch.Generator().manual_seed(stream.key & (2**63 - 1))
    for name, parameter in adapted.named_parameters():
        if "lora_A" in name:
            bound = parameter.shape[1] ** -0.5
            parameter.copy_(
                torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
            )
        elif "lora_embedding_B" in name:
            parameter.copy_(torch.empty(parameter.shape).normal_(generator=generator))


def with_the_weights_of(network: Any) -> Any:
    """Return another network of the same weights, which are in memory once.

    What is added to one, such as adapters, is not in the other. What changes the weights in place
    changes both: they are to be frozen.
    """
    shared = (*network.parameters(), *network.buffers())
    return copy.deepcopy(network, {id(tensor): tensor for tensor in shared})


def base_of(network: Any) -> Any:
    """Return the network inside adapters, or the network itself."""
    return network.get_base_model() if hasattr(network, "get_base_model") else network


def merged(network: Any) -> Any:
    """Return a network without adapters that computes the same.

    One that has none is returned as it is.

    The network is changed: give a copy.
    """
    return network.merge_and_unload() if hasattr(network, "merge_and_unload") else network
