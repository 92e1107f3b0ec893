"""The models of a configuration, made and checked."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.config import RunConfig
from sparring.config.gpus import training_device
from sparring.engine.placing import check_there
from sparring.engine.plan import TINY, TINY_CONTEXT, memory_to_train, tiny_parameters
from sparring.engine.vocabulary import vocabulary
from sparring.environments.openspiel.base import Game
from sparring.errors import ConfigError
from sparring.models.adapters import add_adapters, with_the_weights_of
from sparring.models.language_model import LanguageModel
from sparring.models.memory import available_bytes, find_device, refuse_beyond
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.refs import MAIN
from sparring.registry import asks
from sparring.rng import Stream

Base = tuple[str, str, str]  # name, dtype and device of a pretrained model


def build_models(
    config: RunConfig, games: Sequence[Game], root: Stream
) -> dict[str, tuple[RunConfig, LanguageModel, Stream]]:
    """Return of each policy the configuration it is trained by, its model, and its own root.

    A pretrained model under the adapters of several policies is in memory once.
    """
    found, bases = {}, dict[Base, LanguageModel]()
    for name, own in config.by_policy.items():
        stream = root if name == MAIN else root.child("policy").child(name)
        frozen = config.is_frozen(name)
        found[name] = own, build_model(own, games, stream, bases, frozen=frozen), stream
    return found


def build_model(
    config: RunConfig,
    games: Sequence[Game],
    root: Stream,
    bases: dict[Base, LanguageModel],
    *,
    frozen: bool,
) -> LanguageModel:
    """Return the model of a policy: pretrained, or tiny with a vocabulary derived from the games.

    Args:
        config: of a run that has this policy alone.
        games: whose words a tiny model knows.
        root: what is drawn derives from here.
        bases: pretrained models that are there, of which all weights stay as they are; one that is
            loaded for such a use is added.
        frozen: whether the policy is not trained.
    """
    asked = frozenset().union(*(loss.bind("losses").needs for loss in config.losses))
    with_values = not frozen and (
        "critic" in asks(config.credit.bind("credit")) or "values" in asked
    )
    if config.model.name != TINY:
        return _pretrained(config, root, with_values, bases, frozen)
    tokenizer = tiny_tokenizer(vocabulary(config, games))
    parameters = tiny_parameters(config, len(tokenizer))
    refuse_beyond(
        TINY,
        parameters,
        4 * parameters + (0 if frozen else memory_to_train(config, parameters)),
        available_bytes(),
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


def _pretrained(
    config: RunConfig,
    root: Stream,
    with_values: bool,
    bases: dict[Base, LanguageModel],
    frozen: bool,
) -> LanguageModel:
    """Return a pretrained model, with adapters if asked for.

    Its size is checked before it is loaded. Where its own weights stay as they are, it shares them
    with the others that are made of it.
    """
    from sparring.models.load import load_language_model

    chosen, lora = config.model, config.model.lora
    gpus = config.learner.gpus
    if gpus:
        check_there(gpus, f"learner.gpus={list(gpus)}")
    device = find_device(training_device(config))
    base = (chosen.name, chosen.dtype, str(device))
    plain = bases.get(base) if frozen or lora is not None else None
    if plain is None:
        plain = load_language_model(
            chosen.name,
            dtype=chosen.dtype,
            training_bytes=None
            if frozen
            else lambda parameters: memory_to_train(config, parameters),
            device=device,
        )
        plain.network = plain.network.to(device)
    network, over = plain.network, None
    if frozen or lora is not None:
        bases[base] = over = plain
        network = with_the_weights_of(plain.network)
    if lora is not None:
        network = add_adapters(
            network,
            rank=lora.rank,
            alpha=lora.alpha,
            targets=lora.targets,
            stream=root.child("adapters"),
        )
    model = LanguageModel(
        network, plain.tokenizer, with_values=with_values, longest=chosen.context, over=over
    )
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
