"""Low-rank adapters (LoRA, Hu et al., 2021) by peft: W x + (alpha / rank) B A x, with W frozen."""

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
    """Add trainable adapters to a network's linear layers; at first they do not change its output.

    Args:
        network: a Hugging Face causal language model; its weights are frozen in place.
        rank: inner width of the adapters.
        alpha: numerator of the adapters' scale alpha / rank.
        targets: names of the layers with adapters, e.g. ["q_proj", "v_proj"]; empty: every linear
            layer except the head.
        stream: the random numbers of the adapters' weights.

    Raises:
        ModelError: peft is not installed, the network has no layer of these names, or a layer
            shares its weight with another one.
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
        warnings.simplefilter("ignore", FutureWarning)  # from peft's use of other libraries
        # peft corrects the option fan_in_fan_out itself
        warnings.filterwarnings("ignore", message="fan_in_fan_out")
        try:
            adapted_network = get_peft_model(network, config)
        except ValueError as error:
            raise ModelError(
                f"model.lora.targets={list(targets)}: {str(error).splitlines()[0]}"
            ) from None
    _check_tied_weights(adapted_network.get_base_model())
    _draw_weights(adapted_network, stream)
    adapted_network.eval()
    return adapted_network


def _check_tied_weights(base: Any) -> None:
    if not base.config.tie_word_embeddings:
        return
    if any(
        hasattr(layer, "lora_A")
        for layer in (base.get_input_embeddings(), base.get_output_embeddings())
    ):
        raise ModelError(
            f"model.lora.targets: {type(base).__name__} has one matrix for its input embeddings "
            "and its head, so an adapter on either cannot be merged. Leave both out; empty "
            "targets mean all linear layers except the head."
        )


@torch.no_grad()
def _draw_weights(adapted_network: Any, stream: Stream) -> None:
    """Draw the weights of adapters from ``stream`` with peft's distributions.

    A is uniform within +-1 / sqrt(fan-in) and B is zero. For embeddings, B is standard normal and A
    is zero.
    """
    generator = torch.Generator().manual_seed(stream.key & (2**63 - 1))
    for name, parameter in adapted_network.named_parameters():
        if "lora_A" in name:
            bound = parameter.shape[1] ** -0.5
            parameter.copy_(
                torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
            )
        elif "lora_embedding_B" in name:
            parameter.copy_(torch.empty(parameter.shape).normal_(generator=generator))


def share_weights(network: Any) -> Any:
    """Return another network with the same weight tensors, which must be frozen.

    Modules that are added to one network, such as adapters, are not added to the other.
    """
    tensors = (*network.parameters(), *network.buffers())
    return copy.deepcopy(network, {id(tensor): tensor for tensor in tensors})


def base_of(network: Any) -> Any:
    """Return the network inside adapters, or the network itself."""
    return network.get_base_model() if hasattr(network, "get_base_model") else network


def merge_adapters(network: Any) -> Any:
    """Merge a network's adapters, if any, into its weights in place; return the plain network."""
    return network.merge_and_unload() if hasattr(network, "merge_and_unload") else network
