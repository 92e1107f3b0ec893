"""The strict configuration of a run: YAML recipes and ``a.b=c`` overrides.

The resolved configuration is enough to repeat a run. The default of a field is here, or in the
signature of the plug-in that it configures. An unknown key is an error that names similar keys.
``Number`` fields accept a schedule as well as a plain number (see ``core/schedule.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError, field_validator, model_validator

from sparring.config.checks import (
    check_bots,
    check_candidates,
    check_fresh,
    check_gpus,
    check_knowledge,
    check_league,
    check_losses,
    check_needs,
    check_playouts,
    check_sharding,
)
from sparring.config.parts import config_error, refuse_repeated
from sparring.config.policies import check_learners, check_policies, complete_policies
from sparring.config.sections import FRESH, RunSections
from sparring.core.errors import ConfigError
from sparring.core.foreign_text import current_keys
from sparring.core.rng import Stream


class RunConfig(RunSections):
    """Everything that a run depends on except the code."""

    @field_validator("environments", "rewards", "losses", mode="before")
    @classmethod
    def _to_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str | Mapping) else value

    @model_validator(mode="before")
    @classmethod
    def _complete_data(cls, data: Any) -> Any:
        return complete_policies(data)

    @model_validator(mode="after")
    def _check_policies(self) -> RunConfig:
        roles = {
            f"environments.{index}.roles": section.roles
            for index, section in enumerate(self.environments)
        }
        check_policies(self.policies, {"roles": self.roles, **roles}, self.learner.ranks)
        check_learners(self.policies, self.league.learners, {"roles": self.roles, **roles})
        return self

    @model_validator(mode="after")
    def _check_restarts(self) -> RunConfig:
        if self.league.restarts and self.scale.lag:
            raise ValueError(
                f"scale.lag={self.scale.lag}: after a restart in the league, the learner would "
                "train on episodes from before it; write scale.lag: 0, or restart: false"
            )
        return self

    @model_validator(mode="after")
    def _check_order(self) -> RunConfig:
        if self.scale.order == FRESH:
            check_fresh(self)
        return self

    @model_validator(mode="after")
    def _check_names(self) -> RunConfig:
        refuse_repeated(
            "game",
            (game.display_name for game in self.environments),
            "metrics and baselines need different names; write label for one of them",
        )
        if not any(game.weight for game in self.environments):
            raise ValueError("every game is held out by weight 0; write weight: 1 for one of them")
        if self.outcome_weight != 1.0 and not self.reorder_outcomes:
            raise ValueError(
                "outcome_weight other than 1 can change the order of outcomes; write "
                "reorder_outcomes: true"
            )
        refuse_repeated(
            "reward", (reward.name for reward in self.rewards), "each reward needs a different name"
        )
        return self

    def check_plugins(self) -> RunConfig:
        """Check all plug-ins, so that wrong names and options fail early."""
        slots = {
            "league.matchmakers": self.matchmaker,
            "league.keeping": self.league.keeping,
            "league.schedules": self.league.schedule,
            "selection": self.selection,
        }
        slots.update({"selection.curricula": self.curriculum, "selection.replay": self.replay})
        for slot, plugin in slots.items():
            plugin.bind(slot)
        check_league(self)
        for name, policy in self.by_policy.items():
            try:
                policy.renderer.bind("render")
                policy.context.bind("context")
                policy.credit.bind("credit")
                if not self.is_frozen(name):
                    check_losses(policy)
                    check_candidates(policy)
                    check_playouts(policy)
                    check_sharding(policy)
            except ConfigError as error:
                error.args = (f"policies.{name}: {error}" if self.policies else str(error),)
                raise
        # called with no episodes, only to check its options
        self.rollout.plan.bind("rollout.plans")(self.rollout.group_size, (), Stream.from_seed(0))
        if self.knowledge is not None:
            self.knowledge.bind("knowledge")
            check_knowledge(self)
        for reward in self.rewards:
            check_needs(self, reward.bind("rewards").plugin)
        for game in self.environments:
            if game.oracle is not None:
                game.oracle.bind("oracles")
        for sink in self.logging.sinks:
            sink.bind("run.sinks")
        check_bots(self)
        check_gpus(self)
        return self


def resolve(data: Mapping[str, Any]) -> RunConfig:
    """Return the checked configuration of a plain mapping.

    Raises:
        ConfigError: a type or value is wrong.
        UnknownNameError: a key, plug-in or option is unknown; the message has similar names.
    """
    try:
        return RunConfig.model_validate(current_keys(data, "The configuration")).check_plugins()
    except ValidationError as error:
        raise config_error(error, _keys_at) from None


def _keys_at(path: tuple[int | str, ...]) -> list[str]:
    section: Any = RunConfig
    for part in path:
        if isinstance(part, str) and part in getattr(section, "model_fields", {}):
            annotation = section.model_fields[part].annotation
            section = next(
                (part for part in getattr(annotation, "__args__", ()) if isinstance(part, type)),
                annotation,
            )
    return list(getattr(section, "model_fields", {}))  # empty if the path ends at a plain value
