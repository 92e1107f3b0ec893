"""The model of a configuration, made and checked."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.config import RunConfig
from sparring.engine.plan import TINY, TINY_CONTEXT, find_device, memory_to_train, tiny_parameters
from sparring.engine.vocabulary import vocabulary
from sparring.environments.openspiel.base import Game
from sparring.errors import ConfigError
from sparring.models.adapters import add_adapters
from sparring.models.language_model import LanguageModel, load_language_model
from sparring.models.memory import available_bytes, refuse_beyond
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.rng import Stream


def build_model(
    config: RunConfig, games: Sequence[Game], root: Stream, *, with_values: bool
) -> LanguageModel:
    """Return the model of a configuration: pretrained, or tiny with a vocabulary derived from the
    games.
    """
    if config.model.name != TINY:
        return _pretrained(config, root, with_values)
    tokenizer = tiny_tokenizer(vocabulary(config, games))
    parameters = tiny_parameters(config, len(tokenizer))
    refuse_beyond(
        TINY, parameters, 4 * parameters + memory_to_train(config, parameters), available_bytes()
    )
    network = tiny_model(
        vocabulary_size=len(tokenizer),
        stream=root.child("weights"),
        hidden_size=config.model.hidden_size,
        layers=config.model.layers,
        heads=config.model.heads,
        context=config.model.context or TINY_CONTEXT,
    )
    model = LanguageModel(network, tokenizer, with_values=with_values)
    model.forward.recompute = config.model.gradient_checkpointing
    return model


def _pretrained(config: RunConfig, root: Stream, with_values: bool) -> LanguageModel:
    """Return a pretrained model, with adapters if asked for.

    Its size is checked before it is loaded.
    """
    chosen, lora = config.model, config.model.lora
    device = find_device(chosen.device)
    plain = load_language_model(
        chosen.name,
        dtype=chosen.dtype,
        training_bytes=lambda parameters: memory_to_train(config, parameters),
        device=device,
    )
    network = plain.network.to(device)
    if lora is not None:
        network = add_adapters(
            network,
            rank=lora.rank,
            alpha=lora.alpha,
            targets=lora.targets,
            stream=root.child("adapters"),
        )
    model = LanguageModel(network, plain.tokenizer, with_values=with_values, longest=chosen.context)
    if chosen.gradient_checkpointing and not model.forward.shares_prefixes:
        kind = type(model.base).__name__
        raise ConfigError(
            f"model.gradient_checkpointing=true: the forward of {kind} is its own and not taken "
            "apart. Leave it off."
        )
    model.forward.recompute = chosen.gradient_checkpointing
    _ = (
        model.context
    )  # what names no limit and is given none is refused here, not in the first game
    return model
