"""What several replies to a prompt need beside them: what judges them, and what learns from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring import registry
from sparring.config_parts import PluginConfig, named_components
from sparring.errors import ConfigError, MissingError

if TYPE_CHECKING:
    from sparring.config.run import RunConfig

MOST_REPLIES = 10**6  # that are asked for at once


def check_candidates(config: RunConfig) -> None:
    """Refuse candidates that nothing judges, and credit that compares them without any."""
    several, credit = config.rollout.candidates, config.credit.bind("credit")
    if several.count == 1:
        if "candidates" in registry.asks(credit):
            raise MissingError(
                f"credit: {config.credit.name!r} compares the replies to one prompt here, and "
                "there is one; write rollout.candidates.count: 4 (2 or more)."
            )
        return
    asked = min(config.rollout.in_flight, config.rollout.games_per_step) * several.count
    if asked > MOST_REPLIES:
        raise ConfigError(
            f"rollout.candidates.count: {several.count} replies in each of "
            f"{asked // several.count} plays at once are {asked} prompts, more than "
            f"{MOST_REPLIES}; lower it, or rollout.in_flight."
        )
    without = [one.known_as for one in config.environments if one.weight and one.oracle is None]
    if several.by == "oracle" and without:
        raise MissingError(
            f"rollout.candidates.by: the oracle is to judge, and {without[0]!r} has none; "
            "write oracle: {name: minimax} below the environment, or another of `sparring "
            "list oracles`."
        )
    reads = {
        reward.name: getattr(reward.bind("rewards").plugin.module, "READS", "")
        for reward in config.rewards
    }
    if "candidates" in registry.asks(credit):
        for option, named in named_components(credit).items():
            if reads.get(named, "turn") != "turn":
                raise ConfigError(
                    f"credit: {credit.plugin.name!r} compares candidates by {named!r} (its "
                    f"option {option}), which reads more than one turn, so that a reply that "
                    "was not played has none; name best_action or regret."
                )
    if config.knowledge is not None:
        return
    if several.by == "rewards" and "turn" not in reads.values():
        raise MissingError(
            f"rollout.candidates.count is {several.count}, and no reward of the run judges a "
            "turn by itself; add to rewards a line such as - {name: best_action}, or write "
            "rollout.candidates.by: oracle."
        )


def check_knowledge(config: RunConfig) -> None:
    """Refuse knowledge that judges candidates where there are none, or where it comes too late."""
    named = config.knowledge.name if config.knowledge is not None else ""
    for own in config.by_policy.values():
        several = own.rollout.candidates
        if several.count == 1 or several.commit != "random":
            raise MissingError(
                f"knowledge: {named!r} judges several replies to a prompt after the plays; write "
                "rollout.candidates: {count: 3, commit: random}."
            )
    if config.knowledge is not None:
        bound = config.knowledge.bind("knowledge")
        option = getattr(bound.plugin.module, "EMBEDDING", None)
        if option is not None and option in bound.options:
            PluginConfig.model_validate(bound.options[option]).bind("knowledge.embeddings")
    if config.replay.name != "none":
        raise ConfigError(
            f"knowledge: {named!r} judges plays in the step in which they are played, and replay "
            f"{config.replay.name!r} learns from older ones; leave replay out."
        )
